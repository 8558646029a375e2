//! What the operating system's kernel takes: page faults, system calls, and reads of files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use corun_linux::Roots;
use corun_linux::procfs::code_files;
use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Reading, Sample, cpu_time_ns, pin, timed};
use crate::chains::memory_error;
use crate::estimate::{Estimator, Values};
use crate::figure::{Figure, KernelFigure};
use crate::kernel::{LOADER_CALLS, Pages, first_touch, first_touch_of_file, map_as_loader};
use crate::process::Nothing;
use crate::rounds::Experiment;

const SMALL_PAGES: usize = 512;
const HUGE_PAGES: usize = 4;
/// Bytes of a file that the kernel maps at a fault, and how many such pieces are touched at most.
const FILE_PIECE: usize = 64 << 10;
const FILE_PIECES: u64 = 128;
const CALLS: u32 = 2000;
/// Rounds of open, read, fstat and close, and the calls of a round.
const FILE_ROUNDS: u32 = 200;
const FILE_CALLS: u32 = 4;
/// Libraries that are mapped in a sample.
const LIBRARIES: u32 = 50;
/// Sleeps of a sample, and how long they are: programs that wait for something by the clock look for it some thousand
/// times a second.
const SLEEPS: u32 = 10;
const SLEEP: Duration = Duration::from_micros(100);
/// Bytes of a read of a small file.
const SMALL_READ: usize = 512;
/// Bytes and number of the reads that tell what a byte takes.
const LARGE_READ: usize = 64 << 10;
const LARGE_READS: u64 = 50;
/// Bytes and number of the writes to a new file.
const LARGE_WRITE: usize = 64 << 10;
const LARGE_WRITES: u32 = 32;
/// Processes of a sample.
const PROCESSES: u32 = 8;

const NO_SAMPLE: Sample = Sample { value: f64::NAN, beside: f64::NAN, disturbed: false };

/// Times of the kernel, on one CPU.
pub(crate) struct KernelCalls {
    cpu: CpuId,
    points: Vec<KernelFigure>,
    /// A file in the page cache: the program that runs.
    file: Option<PathBuf>,
    /// Another one, of which pages are mapped: as most that programs map, a library that was installed long ago. The
    /// cache holds a file that was just written in larger pieces, which are mapped faster.
    library: Option<PathBuf>,
    /// The part of the file that is read next.
    next: u64,
    nothing: Option<Nothing>,
}

impl KernelCalls {
    /// `huge_pages`: whether the kernel gives them.
    pub(crate) fn new(cpu: CpuId, huge_pages: bool) -> Self {
        let mut points =
            vec![KernelFigure::SystemCall, KernelFigure::SleepingCall, KernelFigure::PageFault];
        points.extend(file_writes().is_ok().then_some(KernelFigure::FileWritePerByte));
        points.extend(huge_pages.then_some(KernelFigure::HugePageFault));
        let file = std::env::current_exe().ok().filter(|path| bring_in(path).is_ok());
        if file.is_some() {
            points.extend([KernelFigure::FileCall, KernelFigure::TransferPerByte]);
        }
        let library = largest_library().or_else(|| file.clone());
        if library.is_some() {
            points.extend([KernelFigure::FileFault, KernelFigure::MappingCall]);
        }
        let nothing = Nothing::new().ok().filter(|nothing| nothing.run().is_ok());
        if nothing.is_some() {
            points.push(KernelFigure::Process);
        }
        Self { cpu, points, file, library, next: 0, nothing }
    }
}

/// The largest of the libraries that this program has mapped, in the page cache.
fn largest_library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let files = code_files(&Roots::default(), std::process::id()).ok()?;
    let libraries = files.into_iter().filter(|file| Some(file) != program.as_ref());
    let sized = libraries.filter_map(|file| Some((file.metadata().ok()?.len(), file)));
    let (_, file) = sized.max()?;
    bring_in(&file).is_ok().then_some(file)
}

/// Brings a file into the page cache.
fn bring_in(path: &PathBuf) -> io::Result<u64> {
    io::copy(&mut File::open(path)?, &mut io::sink())
}

/// Time in ns of a call in a round of open, read, fstat and close.
fn file_calls(path: &PathBuf) -> Result<Sample, CalibrateError> {
    let mut buffer = [0; SMALL_READ];
    let mut done = Ok(());
    let reading = timed(|| {
        done = (0..FILE_ROUNDS).try_for_each(|_| {
            let mut file = File::open(path)?;
            file.read_exact(&mut buffer)?;
            file.metadata().map(|_| ())
        });
    });
    // A program that was replaced meanwhile is no file any more.
    let calls = f64::from(FILE_ROUNDS * FILE_CALLS);
    Ok(reading.sample(done.map_or(f64::NAN, |()| reading.ns / calls)))
}

/// Time in ns of each byte that a read copies. Each sample reads the part of the file behind the one
/// before, so that the page cache is in memory more than in caches, as of programs that read files.
fn transfer(path: &PathBuf, next: &mut u64) -> Result<Sample, CalibrateError> {
    let mut buffer = vec![0; LARGE_READ];
    let mut reads = |bytes: usize| -> io::Result<Reading> {
        let file = File::open(path)?;
        let parts = (file.metadata()?.len() / LARGE_READ as u64).max(1);
        let mut done = Ok(());
        let reading = timed(|| {
            done = (0..LARGE_READS).try_for_each(|_| {
                let at = *next % parts * LARGE_READ as u64;
                *next += 1;
                file.read_exact_at(&mut buffer[..bytes], at)
            });
        });
        done.map(|()| reading)
    };
    let Ok((one, large)) = reads(1).and_then(|one| Ok((one, reads(LARGE_READ)?))) else {
        return Ok(NO_SAMPLE);
    };
    let bytes = LARGE_READS as f64 * (LARGE_READ - 1) as f64;
    Ok(Sample::new(((large.ns - one.ns) / bytes).max(0.0), one.disturbed || large.disturbed))
}

/// Time in ns of a fault that maps pages of a file.
fn file_fault(path: &PathBuf) -> Result<Sample, CalibrateError> {
    let touch = |file: File| -> io::Result<Sample> {
        let pieces = (file.metadata()?.len() / FILE_PIECE as u64).min(FILE_PIECES);
        if pieces == 0 {
            return Ok(NO_SAMPLE);
        }
        let reading = first_touch_of_file(file, FILE_PIECE, pieces as usize, |touch| timed(touch))?;
        Ok(reading.sample(reading.ns / pieces as f64))
    };
    Ok(File::open(path).and_then(touch).unwrap_or(NO_SAMPLE))
}

/// Time in ns of a call that changes what memory is mapped to.
fn mapping_calls(library: &PathBuf) -> Sample {
    let map = |file: File| -> io::Result<Sample> {
        let mut done = Ok(());
        let reading = timed(|| done = (0..LIBRARIES).try_for_each(|_| map_as_loader(&file)));
        done.map(|()| reading.sample(reading.ns / f64::from(LIBRARIES * LOADER_CALLS)))
    };
    File::open(library).and_then(map).unwrap_or(NO_SAMPLE)
}

/// CPU time in ns of a call in which the thread sleeps.
fn sleeping_calls() -> Sample {
    let ns = cpu_time_ns(|| (0..SLEEPS).for_each(|_| thread::sleep(SLEEP)));
    Sample::new(ns / f64::from(SLEEPS), false)
}

/// CPU time in ns of each byte that is written to a new file, which is removed then.
fn file_writes() -> io::Result<Sample> {
    let bytes = vec![1; LARGE_WRITE];
    let mut done = Ok(());
    let ns = cpu_time_ns(|| {
        done = tempfile::tempfile()
            .and_then(|mut file| (0..LARGE_WRITES).try_for_each(|_| file.write_all(&bytes)));
    });
    done.map(|()| Sample::new(ns / (f64::from(LARGE_WRITES) * LARGE_WRITE as f64), false))
}

/// CPU time in ns of a process that does nothing.
fn processes(nothing: &Nothing) -> Sample {
    let sum = (0..PROCESSES).try_fold(0.0, |sum, _| nothing.run().map(|cpu_s| sum + cpu_s));
    sum.map_or(NO_SAMPLE, |cpu_s| Sample::new(cpu_s * 1e9 / f64::from(PROCESSES), false))
}

fn fault(pages: Pages, count: usize) -> Result<Sample, CalibrateError> {
    let reading = first_touch(pages, count, |touch| timed(touch))
        .map_err(|source| memory_error(count << 21, source))?;
    Ok(reading.sample(reading.ns / count as f64))
}

impl Experiment for KernelCalls {
    fn name(&self) -> &'static str {
        "page faults, system calls, reads"
    }

    fn points(&self) -> usize {
        self.points.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        match self.points[point] {
            KernelFigure::PageFault => fault(Pages::Small, SMALL_PAGES),
            KernelFigure::HugePageFault => fault(Pages::Huge, HUGE_PAGES),
            KernelFigure::FileFault => self.library.as_ref().map_or(Ok(NO_SAMPLE), file_fault),
            KernelFigure::MappingCall => Ok(self.library.as_ref().map_or(NO_SAMPLE, mapping_calls)),
            KernelFigure::SleepingCall => Ok(sleeping_calls()),
            KernelFigure::FileCall => self.file.as_ref().map_or(Ok(NO_SAMPLE), file_calls),
            KernelFigure::TransferPerByte => {
                self.file.as_ref().map_or(Ok(NO_SAMPLE), |file| transfer(file, &mut self.next))
            }
            KernelFigure::FileWritePerByte => Ok(file_writes().unwrap_or(NO_SAMPLE)),
            KernelFigure::Process => Ok(self.nothing.as_ref().map_or(NO_SAMPLE, processes)),
            KernelFigure::SystemCall => {
                let reading = timed(|| {
                    for _ in 0..CALLS {
                        std::hint::black_box(rustix::process::getppid());
                    }
                });
                Ok(reading.sample(reading.ns / f64::from(CALLS)))
            }
        }
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let figure = |(point, &what): (usize, &KernelFigure)| {
            (Figure::Kernel(what), values.at(point, Estimator::Typical))
        };
        self.points.iter().enumerate().map(figure).collect()
    }
}
