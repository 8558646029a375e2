//! The memory that kernels run over, and the kernels that do.
#![allow(unsafe_code)] // Maps memory, and hands pointers into it to machine code.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fd::AsFd;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use rustix::param::page_size;

use super::{Access, LINE_BYTES, MAX_FILLERS, STREAM_STEP_BYTES, machine_code};

/// Bytes of a huge page on every machine that has kernels, with the usual base pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Places of a chain that are remembered, at equal distances.
const PLACES: usize = 64;
/// Chains that a region of lines has room for: a pointer of each in every line.
pub(crate) const SLOTS: usize = LINE_BYTES / size_of::<usize>();

/// The pages that memory is asked to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Huge ones, if the kernel gives them.
    Huge,
    /// The smallest.
    Small,
}

/// Anonymous memory, all zeros, aligned to huge pages, given back at the end.
#[derive(Debug)]
struct Mapping {
    whole: NonNull<u8>,
    whole_bytes: usize,
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to the mapping alone; who may write to it is decided by its owners.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize, pages: Pages) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(page_size());
        let whole_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let whole = unsafe {
            mmap_anonymous(std::ptr::null_mut(), whole_bytes, protection, MapFlags::PRIVATE)
        }?;
        let whole = NonNull::new(whole.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = whole.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the mapping is longer by a huge page than what is used of it.
        let at = unsafe { whole.add(skip) };
        let advice = match pages {
            Pages::Huge => Advice::LinuxHugepage,
            Pages::Small => Advice::LinuxNoHugepage,
        };
        // A kernel without huge pages refuses; what it gave is asked for later.
        // SAFETY: advice on memory of our own.
        let _ = unsafe { madvise(at.as_ptr().cast(), whole_bytes - skip, advice) };
        Ok(Self { whole, whole_bytes, at, bytes })
    }

    /// Has the pages, which nobody has touched yet, on a NUMA node alone.
    fn bind(&self, node: u32) -> io::Result<()> {
        const WORD_BITS: usize = u64::BITS as usize;
        let mut nodes = vec![0u64; node as usize / WORD_BITS + 1];
        nodes[node as usize / WORD_BITS] |= 1 << (node as usize % WORD_BITS);
        // The kernel takes one bit less than it is told (mbind(2)).
        let bits = nodes.len() * WORD_BITS + 1;
        // SAFETY: changes the policy of the mapping alone; the mask is as long as it says.
        let failed = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.at.as_ptr(),
                self.bytes,
                libc::MPOL_BIND,
                nodes.as_ptr(),
                bits,
                0,
            )
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Writes a zero to each page, so that the pages exist.
    fn touch(&self) {
        for offset in (0..self.bytes).step_by(page_size()) {
            // SAFETY: inside the mapping, to which nobody else has a pointer yet.
            unsafe { self.at.add(offset).as_ptr().write_volatile(0) };
        }
    }

    fn line(&self, line: usize) -> *const u8 {
        assert!((line + 1) * LINE_BYTES <= self.bytes, "line {line} of {} bytes", self.bytes);
        // SAFETY: inside the mapping.
        unsafe { self.at.as_ptr().add(line * LINE_BYTES) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and whoever runs over it borrows it.
        let _ = unsafe { munmap(self.whole.as_ptr().cast(), self.whole_bytes) };
    }
}

/// Memory with chains of pointers through its lines. A line has [`SLOTS`] pointers, so that so many
/// chains can go through the same lines, each in its own order.
#[derive(Debug)]
pub(crate) struct Chains {
    mapping: Mapping,
    lines: usize,
    made: [Option<Made>; SLOTS],
}

#[derive(Debug, Clone)]
struct Made {
    lines: usize,
    /// Lines on the chain at equal distances along it, the first one first.
    places: Vec<u32>,
}

impl Chains {
    /// Memory of so many lines, without a chain yet; on a NUMA node by the kernel's number, or near
    /// the CPU that this runs on.
    ///
    /// # Errors
    /// When there is not so much memory, or not on that node.
    pub(crate) fn new(lines: usize, pages: Pages, node: Option<u32>) -> io::Result<Self> {
        let mapping = Mapping::new(lines * LINE_BYTES, pages)?;
        if let Some(node) = node {
            mapping.bind(node)?;
        }
        mapping.touch();
        Ok(Self { mapping, lines, made: Default::default() })
    }

    /// Links lines to a closed chain in this order. A line that occurs twice ends the chain early,
    /// and is the caller's mistake.
    pub(crate) fn link(&mut self, slot: usize, order: &[u32]) {
        assert!(slot < SLOTS && !order.is_empty());
        let place = |line: u32| {
            assert!((line as usize) < self.lines, "line {line} of {}", self.lines);
            // SAFETY: the slot lies inside the line, which lies inside the mapping.
            unsafe { self.mapping.line(line as usize).add(slot * size_of::<usize>()) }
        };
        for (step, &line) in order.iter().enumerate() {
            let next = place(order[(step + 1) % order.len()]);
            // SAFETY: aligned, inside the mapping, and `&mut self` lets nobody run over it.
            unsafe { place(line).cast_mut().cast::<*const u8>().write(next) };
        }
        let places = PLACES.min(order.len());
        let places = (0..places).map(|place| order[place * order.len() / places]).collect();
        self.made[slot] = Some(Made { lines: order.len(), places });
    }

    /// So many places at equal distances on a chain that was linked; at most 64, and at most as many
    /// as the chain has lines.
    ///
    /// # Panics
    /// Where no chain was linked in the slot.
    pub(crate) fn places(self: &Arc<Self>, slot: usize, count: usize) -> Vec<Chain> {
        let Some(made) = &self.made[slot] else { panic!("no chain in slot {slot}") };
        let count = count.clamp(1, made.places.len());
        let place = |place: usize| {
            let line = made.places[place * made.places.len() / count] as usize;
            // SAFETY: inside the line.
            let at = unsafe { self.mapping.line(line).add(slot * size_of::<usize>()) };
            Chain { at, lines: made.lines, _memory: Arc::clone(self) }
        };
        (0..count).map(place).collect()
    }

    /// The first place on a chain that was linked.
    ///
    /// # Panics
    /// Where no chain was linked in the slot.
    pub(crate) fn chain(self: &Arc<Self>, slot: usize) -> Chain {
        self.places(slot, 1).remove(0)
    }

    /// Where the memory begins, to be looked up in what the kernel says of the process's memory.
    pub(crate) fn address(&self) -> usize {
        self.mapping.at.as_ptr().addr()
    }
}

/// A place on a closed chain of pointers.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    at: *const u8,
    lines: usize,
    _memory: Arc<Chains>,
}

// SAFETY: the memory is kept by the chain, and only read while chains keep it.
unsafe impl Send for Chain {}

impl Chain {
    /// Lines of the chain.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Whether both are at the same place.
    #[cfg(test)]
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        self.at == other.at
    }

    /// Follows at least so many pointers; returns how many.
    pub(crate) fn follow(&mut self, steps: u64) -> u64 {
        let iterations = steps.div_ceil(16).max(1);
        // SAFETY: on a chain, every pointer points to the next.
        self.at = unsafe { machine_code::chase(self.at, iterations) };
        iterations * 16
    }

    /// Follows one pointer.
    pub(crate) fn follow_one(&mut self) {
        // SAFETY: on a chain, every pointer points to the next.
        self.at = unsafe { machine_code::chase_one(self.at) };
    }

    /// Follows so many chains at a time, at least `steps` pointers of each; returns how many.
    /// Numbers other than 1, 2 and multiples of 4 are rounded up.
    pub(crate) fn follow_together(chains: &mut [Self], steps: u64) -> u64 {
        match chains {
            [] => 0,
            [one] => one.follow(steps),
            [one, other] => {
                let iterations = steps.div_ceil(8).max(1);
                let mut heads = [one.at, other.at];
                // SAFETY: on chains, every pointer points to the next.
                unsafe { machine_code::chase_two(&mut heads, iterations) };
                [one.at, other.at] = heads;
                iterations * 8
            }
            many => {
                assert!(many.len().is_multiple_of(4), "{} chains", many.len());
                let mut heads: Vec<*const u8> = many.iter().map(|chain| chain.at).collect();
                // SAFETY: as above, and their number is a multiple of four.
                unsafe { machine_code::chase_many(&mut heads, steps.max(1)) };
                for (chain, head) in many.iter_mut().zip(heads) {
                    chain.at = head;
                }
                steps.max(1)
            }
        }
    }

    /// Follows `steps` pointers and loads so many lines of `stream` for each, from line
    /// `first_line` on.
    pub(crate) fn follow_beside(
        &mut self,
        steps: u64,
        lines_each: u64,
        stream: &Zeros,
        first_line: usize,
    ) {
        let (steps, lines_each) = (steps.max(1), lines_each.max(1));
        let end = first_line + (steps * lines_each) as usize;
        assert!(end * LINE_BYTES <= stream.mapping.bytes, "line {end}");
        let first = stream.mapping.line(first_line);
        // SAFETY: on a chain, every pointer points to the next; the stream has the lines.
        self.at = unsafe { machine_code::chase_beside_stream(self.at, first, lines_each, steps) };
    }

    /// Follows two chains by turns, `steps` pointers of each, with so many other instructions
    /// between two pointers.
    pub(crate) fn two_misses_apart(one: &mut Self, other: &mut Self, fillers: u64, steps: u64) {
        assert!(fillers <= MAX_FILLERS);
        let mut heads = [one.at, other.at];
        // SAFETY: on chains, every pointer points to the next.
        unsafe { machine_code::two_misses_apart(&mut heads, fillers, steps.max(1)) };
        [one.at, other.at] = heads;
    }
}

/// Memory of which the first word of each line is zero, and stays so whatever kernel runs over it.
#[derive(Debug)]
pub(crate) struct Zeros {
    mapping: Mapping,
}

impl Zeros {
    /// So many bytes, rounded up to whole pages, and touched.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub(crate) fn new(bytes: usize, pages: Pages) -> io::Result<Self> {
        let mapping = Mapping::new(bytes.next_multiple_of(STREAM_STEP_BYTES), pages)?;
        let mut zeros = Self { mapping };
        // Touches every page, and fills it as writing does later.
        zeros.stream(Access::Write, 0, zeros.mapping.bytes);
        Ok(zeros)
    }

    /// Lines of the memory.
    pub(crate) fn lines(&self) -> usize {
        self.mapping.bytes / LINE_BYTES
    }

    /// Goes once over the bytes from the line at `first` on, as many whole steps as `bytes` has; of a copy,
    /// both halves together. Returns how many bytes were read and written.
    pub(crate) fn stream(&mut self, access: Access, first: usize, bytes: usize) -> u64 {
        assert!(first.is_multiple_of(LINE_BYTES), "{first}");
        assert!(first + bytes <= self.mapping.bytes, "{first} + {bytes}");
        let span = if access == Access::Copy { bytes / 2 } else { bytes };
        let span = span - span % STREAM_STEP_BYTES;
        if span == 0 {
            return 0;
        }
        let width = machine_code::widest_vectors();
        // SAFETY: both spans lie inside the mapping, which `&mut self` gives to nobody else.
        unsafe {
            let at = self.mapping.at.as_ptr().add(first);
            let from = if access == Access::Copy { at.add(span) } else { at };
            machine_code::stream(access, width, at, from, span as u64);
        }
        match access {
            Access::Copy => 2 * span as u64,
            Access::Mixed => span as u64 / 3 * 4,
            _ => span as u64,
        }
    }

    /// Loads lines at random, each by itself, out of the largest power of two of lines that there
    /// is; `state` is that of the random sequence.
    pub(crate) fn random_loads(&self, loads: u64, state: &mut u64) {
        let mask = (1u64 << self.lines().ilog2()) - 1;
        let base = self.mapping.line(0);
        // SAFETY: so many lines are there.
        *state = unsafe { machine_code::random_loads(base, mask, loads.max(1), *state) };
    }

    /// Loads at a stride of so many lines, each waiting for the one before, from line `first` on.
    pub(crate) fn strided_chase(&self, first: usize, stride_lines: i64, loads: u64) {
        let loads = loads.max(1);
        let last = first as i64 + stride_lines * (loads as i64 - 1);
        assert!(last >= 0 && (last as usize) < self.lines() && first < self.lines());
        let start = self.mapping.line(first);
        // SAFETY: the first and the last line lie inside, and the first word of each is zero.
        unsafe { machine_code::strided_chase(start, stride_lines * LINE_BYTES as i64, loads) };
    }

    /// Loads from so many ascending streams by turns, each waiting for the one before; the streams
    /// begin `gap` lines apart, from line `first` on.
    pub(crate) fn chase_streams(&self, first: usize, streams: usize, gap: usize, rounds: u64) {
        let last = first + (streams - 1) * gap + rounds as usize;
        assert!(streams > 0 && last <= self.lines(), "line {last}");
        let mut heads: Vec<*const u8> =
            (0..streams).map(|stream| self.mapping.line(first + stream * gap)).collect();
        // SAFETY: each stream's lines lie inside, and the first word of each is zero.
        unsafe { machine_code::chase_streams(&mut heads, rounds.max(1)) };
    }
}

/// Maps so many pages of a kind; `timed` is called around touching each for the first time and giving
/// them back.
///
/// # Errors
/// When there is not so much memory.
pub(crate) fn first_touch<T>(
    pages: Pages,
    count: usize,
    timed: impl FnOnce(&mut dyn FnMut()) -> T,
) -> io::Result<T> {
    let page = match pages {
        Pages::Huge => HUGE_PAGE_BYTES,
        Pages::Small => page_size(),
    };
    let mut mapping = Some(Mapping::new(count * page, pages)?);
    Ok(timed(&mut || {
        let Some(mapping) = mapping.take() else { return };
        for place in 0..count {
            // SAFETY: inside the mapping, which is ours alone.
            unsafe { mapping.at.as_ptr().add(place * page).write_volatile(0) };
        }
    }))
}

/// Maps so many pieces of `piece_bytes` of a file, from its beginning; `timed` is called around reading a byte of each
/// and giving them back. The file must be as long.
///
/// # Errors
/// When it cannot be mapped.
pub(crate) fn first_touch_of_file<T>(
    file: impl AsFd,
    piece_bytes: usize,
    count: usize,
    timed: impl FnOnce(&mut dyn FnMut()) -> T,
) -> io::Result<T> {
    let bytes = piece_bytes * count;
    // SAFETY: a new mapping at an address of the kernel's choice, to which nothing else points.
    let at =
        unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, file, 0) }?;
    Ok(timed(&mut || {
        for piece in 0..count {
            // SAFETY: inside the mapping and, as the caller says, the file.
            unsafe { at.cast::<u8>().add(piece * piece_bytes).read_volatile() };
        }
        // SAFETY: mapped above.
        let _ = unsafe { munmap(at, bytes) };
    }))
}

/// Calls of [`map_as_loader`].
pub(crate) const LOADER_CALLS: u32 = 6;

/// Maps a file as a loader maps a library, touches none of its pages, and unmaps it: the whole file, and over it what
/// is to be executed, constants and data, of which a part is then protected against writing.
///
/// # Errors
/// When it cannot be mapped.
pub(crate) fn map_as_loader(file: impl AsFd) -> io::Result<()> {
    const PAGES: usize = 16;
    let page = page_size();
    let (read, write, execute) = (ProtFlags::READ, ProtFlags::WRITE, ProtFlags::EXEC);
    let map = |at: *mut c_void, place: usize, pages: usize, rights, flags| {
        let flags = flags | MapFlags::PRIVATE;
        // SAFETY: at an address of the kernel's choice, or inside such a mapping, to which nothing points.
        unsafe { mmap(at, pages * page, rights, flags, &file, (place * page) as u64) }
    };
    let whole = map(std::ptr::null_mut(), 0, PAGES, read, MapFlags::empty())?;
    let part = |place: usize| whole.wrapping_byte_add(place * page);
    let over = |place: usize, pages: usize, rights| {
        map(part(place), place, pages, rights, MapFlags::FIXED).map(|_| ())
    };
    let parts = || {
        over(1, 4, read | execute)?;
        over(8, 2, read)?;
        over(12, 2, read | write)?;
        // SAFETY: inside the mapping, to which nothing points.
        unsafe { mprotect(part(12), page, MprotectFlags::READ) }
    };
    let mapped = parts();
    // SAFETY: mapped above.
    unsafe { munmap(whole, PAGES * page) }?;
    Ok(mapped?)
}
