//! What a policy remembers of each thread.

use crate::{ThreadId, ThreadView};

/// A value a thread, in the order of the last view it was brought in line with.
#[derive(Debug)]
pub(crate) struct ByThread<T> {
    ids: Vec<ThreadId>,
    values: Vec<T>,
}

impl<T> Default for ByThread<T> {
    fn default() -> Self {
        Self { ids: Vec::new(), values: Vec::new() }
    }
}

impl<T> ByThread<T> {
    /// Forgets threads that are gone and makes values for new ones: after it, value i is that of the
    /// view's thread i.
    pub(crate) fn align(&mut self, threads: &[ThreadView], mut new: impl FnMut(&ThreadView) -> T) {
        if self.ids.iter().copied().eq(threads.iter().map(|thread| thread.id)) {
            return;
        }
        let ids = std::mem::take(&mut self.ids).into_iter();
        let mut known = ids.zip(std::mem::take(&mut self.values)).peekable();
        for thread in threads {
            while known.next_if(|(id, _)| *id < thread.id).is_some() {}
            let value = known.next_if(|(id, _)| *id == thread.id).map(|(_, value)| value);
            self.ids.push(thread.id);
            self.values.push(value.unwrap_or_else(|| new(thread)));
        }
    }

    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Its place among the values.
    pub(crate) fn place(&self, id: ThreadId) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }
}
