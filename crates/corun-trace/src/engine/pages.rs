//! Pages that were touched: the first touch of each is a page fault.

use rustc_hash::FxHashMap;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;
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
    /// A fault: the kernel clears a page, whose lines are in the caches then.
    Zeroed,
}

/// Pages by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageSet {
    regions: FxHashMap<u64, [u64; (REGION / 64) as usize]>,
    /// Mapped files, as first page and the one behind the last.
    files: Vec<(u64, u64)>,
}

impl PageSet {
    /// A page is touched.
    pub(crate) fn touch(&mut self, page: u64) -> Touch {
        if !self.set(page) {
            return Touch::Again;
        }
        if let Some(&(begin, end)) = self.files.iter().find(|file| (file.0..file.1).contains(&page))
        {
            let first = page / AROUND * AROUND;
            for near in first.max(begin)..(first + AROUND).min(end) {
                self.set(near);
            }
            return Touch::File;
        }
        Touch::Zeroed
    }

    /// Adds a page; false where it was there.
    fn set(&mut self, page: u64) -> bool {
        let region = self.regions.entry(page / REGION).or_default();
        let (word, bit) = ((page % REGION / 64) as usize, 1 << (page % 64));
        let fresh = region[word] & bit == 0;
        region[word] |= bit;
        fresh
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

    /// These pages are given back: the next touch is a fault again.
    pub(crate) fn forget(&mut self, begin: u64, end: u64) {
        self.files.retain(|file| file.1 <= begin || end <= file.0);
        let mut page = begin;
        while page < end {
            let region = page / REGION;
            let stop = end.min((region + 1) * REGION);
            if stop - page == REGION {
                self.regions.remove(&region);
            } else if let Some(bits) = self.regions.get_mut(&region) {
                for gone in page..stop {
                    bits[(gone % REGION / 64) as usize] &= !(1 << (gone % 64));
                }
            }
            page = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_faults_once_until_it_is_given_back() {
        let mut pages = PageSet::default();
        let faults = |pages: &mut PageSet| {
            (0..2000).filter(|&page| pages.touch(page) == Touch::Zeroed).count()
        };
        assert_eq!((faults(&mut pages), faults(&mut pages)), (2000, 0));
        pages.forget(100, 1100);
        assert_eq!(faults(&mut pages), 1000);
    }

    #[test]
    fn a_file_is_mapped_in_groups_of_pages() {
        let mut pages = PageSet::default();
        pages.map_file(1000, 1040);
        // 1000 to 1007 end the first group, 1008 to 1023 and 1024 to 1039 are two.
        let fault = |page: &u64| pages.touch(*page) != Touch::Again;
        let faults: Vec<u64> = (990..1050).filter(fault).collect();
        let before = (990..1000).collect::<Vec<_>>();
        assert_eq!(faults, [before, vec![1000, 1008, 1024], (1040..1050).collect()].concat());
    }
}
