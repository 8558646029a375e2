//! The kernel's own scheduling by last-level caches, turned on and off.

use std::path::Path;

use corun_linux::Roots;

use super::SubjectError;
use crate::act::sched_cache_is_on;
use crate::{Change, Journal, Reverted};

/// The switch of `SCHED_CACHE`. The journal knows how it was found: a corun that is killed leaves it to `corun restore`.
#[derive(Debug)]
pub struct SchedCache {
    roots: Roots,
    journal: Journal,
}

impl SchedCache {
    /// Looks at the switch and begins a journal in this folder. Nothing is switched yet.
    ///
    /// # Errors
    /// Where the kernel has no such switch, and where no journal can be kept.
    pub fn new(roots: &Roots, folder: &Path) -> Result<Self, SubjectError> {
        sched_cache_is_on(roots).map_err(told)?;
        let journal = Journal::create(folder, roots).map_err(told)?;
        Ok(Self { roots: roots.clone(), journal })
    }

    pub(super) fn set(&mut self, is_on: bool) -> Result<(), SubjectError> {
        let before = sched_cache_is_on(&self.roots).map_err(told)?;
        if before == is_on {
            return Ok(());
        }
        let change = Change::SchedCache { before, after: is_on };
        self.journal.write(std::slice::from_ref(&change)).map_err(told)?;
        change.apply(&self.roots).map_err(told)
    }

    /// As it was found.
    pub(super) fn put_back(&mut self) -> Result<(), SubjectError> {
        let undone = self.journal.undo(&self.roots);
        let stuck = undone.iter().find_map(|one| match &one.outcome {
            Ok(Reverted::Done | Reverted::AsBefore | Reverted::Gone) => None,
            Ok(Reverted::ChangedByOthers { found: why } | Reverted::Unclear { why }) | Err(why) => {
                Some(format!("{}: {why}", one.change))
            }
        });
        stuck.map_or(Ok(()), |why| Err(SubjectError(why)))
    }
}

fn told(why: impl std::fmt::Display) -> SubjectError {
    SubjectError(why.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_switch_ends_as_it_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let sys = folder.path().join("sys");
        let roots = Roots { sys: sys.clone(), ..Roots::default() };
        let journals = folder.path().join("journals");
        assert!(SchedCache::new(&roots, &journals).unwrap_err().0.contains("CONFIG_SCHED_CACHE"));
        let file = sys.join("kernel/debug/sched/llc_balancing/enabled");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for found in ["0", "1"] {
            fs::write(&file, found).unwrap();
            let mut switch = SchedCache::new(&roots, &journals).unwrap();
            for is_on in [true, false, false, true, false, found == "0"] {
                switch.set(is_on).unwrap();
                assert_eq!(fs::read_to_string(&file).unwrap(), if is_on { "1" } else { "0" });
            }
            switch.put_back().unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), found);
        }
    }
}
