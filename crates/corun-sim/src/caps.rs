//! Caps on the memory traffic of groups of threads.

use corun_policy::ThreadId;

/// The caps in force; a thread is under one at most.
#[derive(Debug, Default)]
pub(crate) struct Caps {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    threads: Vec<ThreadId>,
    bytes_per_s: f64,
}

impl Caps {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Caps threads together, or frees them; they leave the caps they were under. Did that change
    /// anything?
    pub(crate) fn set(&mut self, threads: &[ThreadId], bytes_per_s: Option<f64>) -> bool {
        let same =
            |group: &Group| group.threads == threads && Some(group.bytes_per_s) == bytes_per_s;
        if self.groups.iter().any(same) {
            return false;
        }
        let before: usize = self.groups.iter().map(|group| group.threads.len()).sum();
        for group in &mut self.groups {
            group.threads.retain(|thread| !threads.contains(thread));
        }
        self.groups.retain(|group| !group.threads.is_empty());
        let after: usize = self.groups.iter().map(|group| group.threads.len()).sum();
        if let Some(bytes_per_s) = bytes_per_s {
            self.groups.push(Group { threads: threads.to_vec(), bytes_per_s });
        }
        bytes_per_s.is_some() || after < before
    }

    /// A thread that ended is under no cap.
    pub(crate) fn forget(&mut self, thread: ThreadId) {
        for group in &mut self.groups {
            group.threads.retain(|&one| one != thread);
        }
        self.groups.retain(|group| !group.threads.is_empty());
    }

    /// Each running thread's part of its group's cap, in bytes a second, into `parts`: in proportion
    /// to what the running ones of the group would draw. `running`: threads and what each would draw.
    pub(crate) fn divide(&self, running: &[(ThreadId, f64)], parts: &mut Vec<f64>) {
        parts.clear();
        parts.resize(running.len(), f64::INFINITY);
        for group in &self.groups {
            let of_group = |(thread, _): &(ThreadId, f64)| group.threads.contains(thread);
            let drawn: f64 = running.iter().filter(|one| of_group(one)).map(|one| one.1).sum();
            if drawn <= group.bytes_per_s {
                continue;
            }
            for (part, one) in parts.iter_mut().zip(running).filter(|(_, one)| of_group(one)) {
                *part = group.bytes_per_s * one.1 / drawn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ThreadId = ThreadId(1);
    const B: ThreadId = ThreadId(2);
    const C: ThreadId = ThreadId(3);

    fn parts(caps: &Caps, running: &[(ThreadId, f64)]) -> Vec<f64> {
        let mut parts = Vec::new();
        caps.divide(running, &mut parts);
        parts
    }

    #[test]
    fn a_group_divides_its_cap_by_demand() {
        let mut caps = Caps::default();
        assert!(caps.set(&[A, B], Some(6.0)));
        assert!(!caps.set(&[A, B], Some(6.0)));
        assert_eq!(parts(&caps, &[(A, 8.0), (B, 4.0), (C, 9.0)]), [4.0, 2.0, f64::INFINITY]);
        assert_eq!(parts(&caps, &[(A, 5.0)]), [f64::INFINITY]);
        assert_eq!(parts(&caps, &[(B, 8.0)]), [6.0]);
    }

    #[test]
    fn a_thread_is_under_one_cap() {
        let mut caps = Caps::default();
        caps.set(&[A, B], Some(6.0));
        assert!(caps.set(&[B], Some(1.0)));
        assert_eq!(parts(&caps, &[(A, 9.0), (B, 9.0)]), [6.0, 1.0]);
        assert!(caps.set(&[A, C], None) && !caps.set(&[A, C], None));
        caps.forget(B);
        assert!(caps.is_empty());
    }
}
