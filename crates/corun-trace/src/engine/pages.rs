//! Pages that were touched: the first touch of each is a page fault, and of most the kernel then
//! clears the page.

use rustc_hash::FxHashMap;

use crate::event::LINE_BYTES;

pub(crate) const PAGE_BYTES: u64 = 4096;
/// Cache lines of a page.
pub(crate) const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;
/// Pages of a region, one bit each.
const REGION: u64 = 512;
/// Pages around a touched one that the kernel maps with it where they belong to a file that it has in
/// memory (fault-around: 64 KiB, `fault_around_bytes` in the kernel's debugfs).
const AROUND: u64 = 16;

/// What the touch of a page comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The page was there.
    Again,
    /// A fault: the kernel maps a file's pages.
    File,
    /// A fault: a page of a file, or of the process that forked this one, is written to, and the kernel copies it.
    Copied,
    /// A fault: the kernel clears an anonymous page.
    Cleared,
}

/// Numbers of pages.
#[derive(Debug, Clone, Default)]
struct Numbers {
    regions: FxHashMap<u64, [u64; (REGION / 64) as usize]>,
}

impl Numbers {
    /// Adds a page; false where it was there.
    fn insert(&mut self, page: u64) -> bool {
        let region = self.regions.entry(page / REGION).or_default();
        let (word, bit) = ((page % REGION / 64) as usize, 1 << (page % 64));
        let fresh = region[word] & bit == 0;
        region[word] |= bit;
        fresh
    }

    fn contains(&self, page: u64) -> bool {
        let Some(region) = self.regions.get(&(page / REGION)) else { return false };
        region[(page % REGION / 64) as usize] & 1 << (page % 64) != 0
    }

    fn remove(&mut self, begin: u64, end: u64) {
        let whole = begin.div_ceil(REGION)..end / REGION;
        // A program may reserve far more addresses than it touches.
        if whole.end.saturating_sub(whole.start) > self.regions.len() as u64 {
            self.regions.retain(|region, _| !whole.contains(region));
        } else {
            whole.clone().for_each(|region| {
                self.regions.remove(&region);
            });
        }
        let behind = begin.max(whole.end * REGION);
        for page in (begin..end.min(whole.start * REGION)).chain(behind..end) {
            if let Some(bits) = self.regions.get_mut(&(page / REGION)) {
                bits[(page % REGION / 64) as usize] &= !(1 << (page % 64));
            }
        }
    }
}

/// The pages of a process, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageSet {
    touched: Numbers,
    /// Those that were written to.
    written: Numbers,
    /// Those that the process which forked this one had touched.
    inherited: Numbers,
    /// Mapped files, as first page and the one behind the last.
    files: Vec<(u64, u64)>,
}

impl PageSet {
    /// A page is touched, or written to.
    ///
    /// Where anonymous memory is read first, the kernel maps a page of zeros, and clears one at the first store; the
    /// second fault is not counted, since the first takes little then.
    pub(crate) fn touch(&mut self, page: u64, store: bool) -> Touch {
        let fresh = self.touched.insert(page);
        let is_again = if store { !self.written.insert(page) } else { !fresh };
        if is_again {
            return Touch::Again;
        }
        if let Some(&(begin, end)) = self.files.iter().find(|file| (file.0..file.1).contains(&page))
        {
            if store {
                return Touch::Copied;
            }
            let first = page / AROUND * AROUND;
            for near in first.max(begin)..(first + AROUND).min(end) {
                self.touched.insert(near);
            }
            return Touch::File;
        }
        match (self.inherited.contains(page), store, fresh) {
            (true, true, _) => Touch::Copied,
            (false, _, true) => Touch::Cleared,
            _ => Touch::Again,
        }
    }

    /// A file has been mapped at these pages from the beginning.
    pub(crate) fn has_file(&mut self, begin: u64, end: u64) {
        self.files.push((begin, end));
    }

    /// A file is mapped at these pages.
    pub(crate) fn map_file(&mut self, begin: u64, end: u64) {
        self.forget(begin, end);
        self.files.push((begin, end));
    }

    /// These pages are given back or mapped anew, as no file: the next touch is a fault again.
    pub(crate) fn forget(&mut self, begin: u64, end: u64) {
        self.discard(begin, end);
        let parts =
            |&(first, behind): &(u64, u64)| [(first, behind.min(begin)), (first.max(end), behind)];
        let kept = self.files.iter().flat_map(parts).filter(|part| part.0 < part.1);
        self.files = kept.collect();
    }

    /// What these pages hold is given back; they stay mapped to what they were mapped to.
    pub(crate) fn discard(&mut self, begin: u64, end: u64) {
        self.touched.remove(begin, end);
        self.written.remove(begin, end);
        self.inherited.remove(begin, end);
    }

    /// The pages `begin..end` move, with what they hold, to as many from `to` on.
    pub(crate) fn move_pages(&mut self, begin: u64, end: u64, to: u64) {
        let there = |&page: &u64| self.touched.contains(page) || self.inherited.contains(page);
        let moved: Vec<u64> = (begin..end).filter(there).collect();
        let written: Vec<u64> = (begin..end).filter(|&page| self.written.contains(page)).collect();
        self.forget(begin, end);
        self.forget(to, to + (end - begin));
        for page in moved {
            self.touched.insert(to + (page - begin));
        }
        for page in written {
            self.written.insert(to + (page - begin));
        }
    }

    /// The process is a fork of the one whose pages these were.
    pub(crate) fn fork(&mut self) {
        for (region, bits) in std::mem::take(&mut self.touched).regions {
            let sums = self.inherited.regions.entry(region).or_default();
            sums.iter_mut().zip(bits).for_each(|(sum, bits)| *sum |= bits);
        }
        self.written = Numbers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of these pages are cleared when each is touched.
    fn cleared(pages: &mut PageSet, range: std::ops::Range<u64>) -> usize {
        range.filter(|&page| pages.touch(page, true) == Touch::Cleared).count()
    }

    #[test]
    fn each_page_is_cleared_once_until_it_is_given_back() {
        let mut pages = PageSet::default();
        assert_eq!((cleared(&mut pages, 0..2000), cleared(&mut pages, 0..2000)), (2000, 0));
        for (begin, end) in [(100, 1100), (100, 110), (512, 1024), (500, 600), (7, 7)] {
            pages.forget(begin, end);
            assert_eq!(cleared(&mut pages, 0..2000) as u64, end - begin, "{begin} to {end}");
        }
        pages.forget(0, 1 << 40);
        assert_eq!(cleared(&mut pages, 0..2000), 2000);
    }

    #[test]
    fn a_file_is_mapped_in_groups_of_pages() {
        let mut pages = PageSet::default();
        pages.map_file(1000, 1040);
        // 1000 to 1007 end the first group, 1008 to 1023 and 1024 to 1039 are two.
        let fault = |page: &u64| pages.touch(*page, false) != Touch::Again;
        let faults: Vec<u64> = (990..1050).filter(fault).collect();
        let before = (990..1000).collect::<Vec<_>>();
        assert_eq!(faults, [before, vec![1000, 1008, 1024], (1040..1050).collect()].concat());
    }

    #[test]
    fn each_page_of_a_file_is_copied_when_it_is_written_to() {
        let mut pages = PageSet::default();
        pages.map_file(0, 64);
        assert_eq!(
            [3, 4, 4].map(|page| pages.touch(page, false)),
            [Touch::File, Touch::Again, Touch::Again]
        );
        assert_eq!(
            [4, 4, 40].map(|page| pages.touch(page, true)),
            [Touch::Copied, Touch::Again, Touch::Copied]
        );
        // Only that page came with the copy.
        assert_eq!([40, 41].map(|page| pages.touch(page, false)), [Touch::Again, Touch::File]);
        pages.discard(0, 64);
        assert_eq!(pages.touch(4, true), Touch::Copied);
    }

    #[test]
    fn anonymous_memory_that_was_read_first_is_cleared_once() {
        let mut pages = PageSet::default();
        assert_eq!(
            [false, true, true].map(|store| pages.touch(9, store)),
            [Touch::Cleared, Touch::Again, Touch::Again]
        );
    }

    /// As the loader maps a library: all of it from the file, then zeros over its end.
    #[test]
    fn anonymous_memory_over_a_part_of_a_file_is_cleared() {
        let mut pages = PageSet::default();
        pages.map_file(0, 64);
        pages.forget(48, 64);
        assert_eq!((cleared(&mut pages, 0..48), cleared(&mut pages, 48..64)), (0, 16));
        // What a file's pages hold may be given back, but they remain the file's.
        pages.discard(0, 64);
        assert_eq!((cleared(&mut pages, 0..48), cleared(&mut pages, 48..64)), (0, 16));
    }

    #[test]
    fn pages_that_move_keep_what_they_hold() {
        let mut pages = PageSet::default();
        assert_eq!(cleared(&mut pages, 10..14), 4);
        pages.move_pages(10, 18, 100);
        assert_eq!((cleared(&mut pages, 100..108), cleared(&mut pages, 10..18)), (4, 8));
    }

    #[test]
    fn a_fork_has_the_pages_of_its_parent() {
        let mut pages = PageSet::default();
        pages.map_file(50, 60);
        pages.touch(7, true);
        pages.touch(50, false);
        pages.fork();
        // What is shared is read without a fault, and copied when it is written to.
        assert_eq!([7, 7, 7].map(|page| pages.touch(page, false)), [Touch::Again; 3]);
        assert_eq!(
            [7, 7, 8].map(|page| pages.touch(page, true)),
            [Touch::Copied, Touch::Again, Touch::Cleared]
        );
        assert_eq!(pages.touch(50, false), Touch::File);
        pages.fork();
        pages.forget(7, 8);
        assert_eq!([7, 8].map(|page| pages.touch(page, true)), [Touch::Cleared, Touch::Copied]);
    }
}
