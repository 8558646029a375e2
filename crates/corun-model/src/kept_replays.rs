//! Replays that earlier processes have made, in files.
//!
//! A file holds the replays of one phase, by site. Its name is a digest of the phase and its micro-traces, and it stands in a
//! folder of the program that runs: whatever is built anew replays anew. What is read is what was written, to the bit, or
//! counts as not there. Nothing here fails: without its files a process replays as if it were the first.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::SystemTime;

use corun_profile::{MicroTraces, MissRateCurve, Phase};
use sha2::{Digest as _, Sha256};

use crate::core::CAUSES;
use crate::replayed::Point;
use crate::site::Site;

/// Sites of a phase that are kept at most, some 600 bytes each; the earliest go.
const MOST_SITES: usize = 64;

/// Programs whose replays are kept at most, each some 0.6 MB a machine with the whole library; those that were last added
/// to stay.
const MOST_PROGRAMS: usize = 8;

/// Where the replays of this program are kept.
static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();

/// From now on replays are read from files under this folder, and what is replayed is written there, so that the next
/// process need not. The first call counts. Files of another build of the program, which stand beside, are not read.
pub fn keep_replays_in(folder: &Path) {
    FOLDER.get_or_init(|| of_this_program(folder));
}

/// Some bytes of a digest, which stand for what was digested.
type Key = [u8; 16];

fn key(digest: Sha256) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&digest.finalize()[..16]);
    key
}

fn in_hex(key: &Key) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of this program under another, where the file that it runs from can be told.
fn of_this_program(folder: &Path) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let (path, inode) = mapped_at(&maps, of_this_program as *const () as u64)?;
    let file = fs::metadata(path).ok()?;
    // Not a file that has taken the place of the one that runs.
    if file.ino() != inode {
        return None;
    }
    let mut digest = Sha256::new();
    digest.update(path.as_bytes());
    for figure in [
        file.dev(),
        file.ino(),
        file.size(),
        file.mtime() as u64,
        file.mtime_nsec() as u64,
        file.ctime() as u64,
        file.ctime_nsec() as u64,
    ] {
        digest.update(figure.to_le_bytes());
    }
    Some(folder.join("replays").join(in_hex(&key(digest))))
}

/// The file that is mapped at an address, and its inode, of a process's `/proc/PID/maps`.
fn mapped_at(maps: &str, address: u64) -> Option<(&str, u64)> {
    let line = maps.lines().find(|line| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let number = |hex| u64::from_str_radix(hex, 16).ok();
        range.is_some_and(|(from, to)| {
            number(from).is_some_and(|from| from <= address)
                && number(to).is_some_and(|to| address < to)
        })
    })?;
    // Range, permissions, offset, device, inode, path.
    let inode = line.split_ascii_whitespace().nth(4)?.parse().ok()?;
    Some((&line[line.find('/')?..], inode))
}

/// A point as it is written.
type KeptPoint = (f64, [f64; CAUSES.len()], [f64; 2]);
/// The replays of a phase as they are written, each with the key of its site.
type KeptSites = Vec<(Key, Vec<KeptPoint>)>;

/// The kept replays of a phase.
#[derive(Debug)]
pub(crate) struct KeptReplays {
    file: PathBuf,
    sites: KeptSites,
}

impl KeptReplays {
    /// Of a phase with these micro-traces, and so many pages of its program at most; none where nothing is kept.
    pub(crate) fn of(phase: &Phase, traces: &MicroTraces, most_pages: f32) -> Option<Self> {
        let folder = FOLDER.get()?.as_ref()?;
        Some(Self::within(folder, &phase_key(phase, traces, most_pages)))
    }

    fn within(folder: &Path, key: &Key) -> Self {
        let file = folder.join(in_hex(key));
        let sites = own_bytes(&file).and_then(|bytes| sites_of(&bytes)).unwrap_or_default();
        Self { file, sites }
    }

    /// What is kept of replays at a site.
    pub(crate) fn points(&self, site: &Site) -> Option<Vec<Point>> {
        let key = site_key(site);
        let (_, points) = self.sites.iter().find(|one| one.0 == key)?;
        Some(
            points.iter().map(|&(mpki, cycles, memory)| Point::new(mpki, cycles, memory)).collect(),
        )
    }

    /// Keeps those at other sites as well.
    pub(crate) fn add<'a>(mut self, more: impl Iterator<Item = (&'a Site, &'a [Point])>) {
        for (site, points) in more {
            let points = points.iter().map(Point::figures).collect();
            self.sites.push((site_key(site), points));
        }
        self.sites.drain(..self.sites.len().saturating_sub(MOST_SITES));
        let (Some(folder), Some(bytes)) = (self.file.parent(), bytes_of(&self.sites)) else {
            return;
        };
        if !folder.exists() && fs::create_dir_all(folder).is_ok() {
            forget_earlier_programs(folder);
        }
        // Another process may be writing the same file: one of the two stays, whole.
        let written = tempfile::NamedTempFile::new_in(folder)
            .and_then(|mut file| file.write_all(&bytes).map(|()| file))
            .and_then(|file| file.persist(&self.file).map_err(|error| error.error));
        drop(written);
    }
}

/// The user that this process runs as.
static USER: LazyLock<Option<u32>> =
    LazyLock::new(|| fs::metadata("/proc/self").ok().map(|own| own.uid()));

/// Permissions to write that are not the owner's.
const OTHERS_WRITE: u32 = 0o022;

/// What a file holds that nobody else can have written: predictions follow from it.
fn own_bytes(path: &Path) -> Option<Vec<u8>> {
    let mut file = fs::File::open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || Some(found.uid()) != *USER || found.mode() & OTHERS_WRITE != 0 {
        return None;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A phase without what replays do not read, its micro-traces and its program's pages.
fn phase_key(phase: &Phase, traces: &MicroTraces, most_pages: f32) -> Key {
    let mut digest = Sha256::new();
    digest.update(most_pages.to_le_bytes());
    let mut rest = phase.clone();
    add_curve(&mut digest, &mut rest.curve);
    if let Some(core) = &mut rest.core {
        add_curve(&mut digest, &mut core.instruction_curve);
        core.cleared_curve.iter_mut().for_each(|curve| add_curve(&mut digest, curve));
    }
    digest.update(format!("{rest:?}"));
    digest.update(traces.packed());
    key(digest)
}

/// Digests a curve's points, and leaves the first alone: text of all takes long to write.
fn add_curve(digest: &mut Sha256, curve: &mut MissRateCurve) {
    let points = curve.points();
    digest.update(points.len().to_le_bytes());
    for point in points {
        digest.update(point.bytes.to_le_bytes());
        digest.update(point.mpki.to_le_bytes());
    }
    if let Ok(first) = MissRateCurve::new(vec![points[0]]) {
        *curve = first;
    }
}

fn site_key(site: &Site) -> Key {
    key(Sha256::new().chain_update(format!("{site:?}")))
}

/// What a file holds: a digest of the rest, and the replays as MessagePack.
fn bytes_of(sites: &KeptSites) -> Option<Vec<u8>> {
    let rest = rmp_serde::to_vec(sites).ok()?;
    let mut bytes = Sha256::digest(&rest).to_vec();
    bytes.extend(rest);
    Some(bytes)
}

/// The replays of a file; none where it is not as it was written.
fn sites_of(bytes: &[u8]) -> Option<KeptSites> {
    let (digest, rest) = bytes.split_at_checked(Sha256::output_size())?;
    let is_whole = Sha256::digest(rest).as_slice() == digest;
    is_whole.then(|| rmp_serde::from_slice(rest).ok()).flatten()
}

/// Removes the folders beside that of a program that was not there before, but for some that were last added to.
fn forget_earlier_programs(new: &Path) {
    let beside = new.parent().and_then(|folder| fs::read_dir(folder).ok());
    let is_key = |name: &std::ffi::OsStr| {
        let hex =
            |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        name.to_str().is_some_and(hex)
    };
    let mut others: Vec<(SystemTime, PathBuf)> = beside
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| is_key(&entry.file_name()) && entry.path() != new)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    others.sort_unstable();
    let gone = others.len().saturating_sub(MOST_PROGRAMS - 1);
    for (_, folder) in others.drain(..gone) {
        let _ = fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use proptest::prelude::*;

    use super::*;
    use crate::known_replays::tests::{recording, site};

    fn point(of: f64) -> Point {
        Point::new(
            of / 3.0,
            CAUSES.map(|cause| of / (cause as u32 as f64 + 1.1)),
            [of * 1e-300, of * 7.0],
        )
    }

    #[test]
    fn what_is_kept_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let [here, there] = ["xeon-x5365", "xeon-gold-6138"].map(site);
        let [one, other] = [[0.1, 7.0].map(point), [-0.0, 1e300].map(point)];
        let kept = KeptReplays::within(&program, &[1; 16]);
        assert_eq!(kept.points(&here), None);
        kept.add([(&here, &one[..])].into_iter());
        let kept = KeptReplays::within(&program, &[1; 16]);
        assert_eq!((kept.points(&here), kept.points(&there)), (Some(one.to_vec()), None));
        kept.add([(&there, &other[..])].into_iter());
        let kept = KeptReplays::within(&program, &[1; 16]);
        let both = [&here, &there].map(|site| kept.points(site).unwrap());
        assert_eq!(both, [one.to_vec(), other.to_vec()]);
        assert_eq!(KeptReplays::within(&program, &[2; 16]).points(&here), None, "another phase");
        // Others could have written it.
        let file = program.join(in_hex(&[1; 16]));
        std::fs::set_permissions(&file, Permissions::from_mode(0o620)).unwrap();
        assert_eq!(KeptReplays::within(&program, &[1; 16]).points(&here), None);
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(KeptReplays::within(&program, &[1; 16]).points(&here).is_some());
        // What cannot be written is not kept, and nothing fails.
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        KeptReplays::within(&file, &[1; 16]).add([(&here, &one[..])].into_iter());
        assert_eq!(KeptReplays::within(&file, &[1; 16]).points(&here), None);
    }

    #[test]
    fn a_phase_has_a_key_of_its_own_for_all_that_its_replays_read() {
        let xz = recording("xz");
        let (phase, traces) = (&xz.phases[0], &xz.micro_traces);
        let first = phase_key(phase, traces, 10.0);
        assert_eq!(first, phase_key(&phase.clone(), &traces.clone(), 10.0));
        let mut keys = vec![
            first,
            phase_key(phase, traces, 11.0),
            phase_key(&recording("gawk").phases[0], traces, 10.0),
            phase_key(phase, &MicroTraces::default(), 10.0),
        ];
        let mut changed = |change: fn(&mut Phase)| {
            let mut phase = phase.clone();
            change(&mut phase);
            keys.push(phase_key(&phase, traces, 10.0));
        };
        fn more(curve: &mut MissRateCurve) {
            let mut points = curve.points().to_vec();
            points[0].mpki += 1e-9;
            *curve = MissRateCurve::new(points).unwrap();
        }
        changed(|phase| more(&mut phase.curve));
        changed(|phase| more(&mut phase.core.as_mut().unwrap().instruction_curve));
        changed(|phase| more(phase.core.as_mut().unwrap().cleared_curve.as_mut().unwrap()));
        changed(|phase| phase.core.as_mut().unwrap().cleared_curve = None);
        changed(|phase| phase.core.as_mut().unwrap().page_faults_pki += 1e-12);
        changed(|phase| phase.mix.mispredicted_pki += 1e-12);
        changed(|phase| phase.core = None);
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn the_sites_that_were_added_last_stay() {
        let folder = tempfile::tempdir().unwrap();
        let site = |at: usize| Site { llc_bytes: at as f64, ..site("xeon-x5365") };
        let sites: Vec<Site> = (0..MOST_SITES + 3).map(site).collect();
        let points = [point(1.0)];
        let kept = KeptReplays::within(folder.path(), &[1; 16]);
        kept.add(sites.iter().map(|site| (site, &points[..])));
        let kept = KeptReplays::within(folder.path(), &[1; 16]);
        let is_kept: Vec<bool> = sites.iter().map(|site| kept.points(site).is_some()).collect();
        assert_eq!(is_kept.iter().filter(|kept| **kept).count(), MOST_SITES);
        assert_eq!(is_kept[..4], [false, false, false, true]);
    }

    #[test]
    fn a_program_is_told_by_the_file_that_it_runs_from() {
        let maps = "\
7f10-7f20 r--p 00000000 fe:00 77    /usr/lib/python 3/_corun.so
7f20-7f30 r-xp 00010000 fe:00 77    /usr/lib/python 3/_corun.so
7f30-7f38 rw-p 00000000 00:00 0
7f38-7f40 r-xp 00000000 00:00 0     [vdso]
";
        assert_eq!(mapped_at(maps, 0x7f20), Some(("/usr/lib/python 3/_corun.so", 77)));
        assert_eq!(mapped_at(maps, 0x7f2f), Some(("/usr/lib/python 3/_corun.so", 77)));
        for nowhere in [0x7f0f, 0x7f30, 0x7f38, 0x7f40] {
            assert_eq!(mapped_at(maps, nowhere), None, "{nowhere:x}");
        }
        let one = of_this_program(Path::new("/a")).unwrap();
        assert_eq!(one.parent(), Some(Path::new("/a/replays")));
        assert_eq!(of_this_program(Path::new("/a")), Some(one));
    }

    #[test]
    fn replays_of_earlier_programs_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let of = |program: u8| {
            KeptReplays::within(&folder.path().join(in_hex(&[program; 16])), &[1; 16])
        };
        std::fs::create_dir(folder.path().join("mine")).unwrap();
        let here = site("xeon-x5365");
        for program in 0..MOST_PROGRAMS as u8 + 2 {
            of(program).add([(&here, &[point(1.0)][..])].into_iter());
            // A file system may tell no two times of one moment apart.
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let is_kept: Vec<bool> = (0..MOST_PROGRAMS as u8 + 2)
            .map(|program| of(program).points(&here).is_some())
            .collect();
        assert_eq!(is_kept[..3], [false, false, true]);
        assert!(is_kept[2..].iter().all(|kept| *kept));
        assert!(folder.path().join("mine").exists());
    }

    proptest! {
        #[test]
        fn a_file_that_is_not_as_it_was_written_counts_as_none(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in any::<prop::sample::Index>(),
            flipped in 0..8u32,
        ) {
            prop_assert_eq!(sites_of(&bytes), None);
            let mut written = bytes_of(&vec![([3; 16], vec![point(1.0).figures()])]).unwrap();
            prop_assert!(sites_of(&written).is_some());
            let at = at.index(written.len());
            written[at] ^= 1 << flipped;
            prop_assert_eq!(sites_of(&written), None);
            written[at] ^= 1 << flipped;
            prop_assert_eq!(sites_of(&written[..at]), None);
        }
    }
}
