//! The threads: what policies see of each, what the backend keeps of it, and each policy's window.

use corun_policy::{Counts, Rates, ThreadId, ThreadView};

/// All threads that are scheduled, by ascending id.
///
/// `N` is what the backend keeps of a thread. Views stand in a list of their own, since policies get them as
/// a slice.
#[derive(Debug)]
pub struct ThreadTable<N> {
    views: Vec<ThreadView>,
    /// Of the same threads in the same order.
    entries: Vec<Entry<N>>,
    /// How many policies there are.
    policies: usize,
    /// The policy whose rates the views show.
    shown: Option<usize>,
}

#[derive(Debug)]
struct Entry<N> {
    own: N,
    /// By policy.
    windows: Vec<Window>,
}

/// A policy's present interval, as far as one thread is concerned.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    /// What was counted when it began.
    start: Counts,
    /// The rates over the interval before it; unknown for a thread that came since.
    rates: Rates,
}

impl<N> ThreadTable<N> {
    /// An empty table, for so many policies.
    pub fn new(policies: usize) -> Self {
        Self { views: Vec::new(), entries: Vec::new(), policies, shown: None }
    }

    /// All threads as policies see them.
    pub fn views(&self) -> &[ThreadView] {
        &self.views
    }

    /// How many threads there are.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Is there no thread?
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// The index of a thread.
    pub fn index_of(&self, id: ThreadId) -> Option<usize> {
        self.views.binary_search_by_key(&id, |view| view.id).ok()
    }

    /// The thread at an index: its view, and what the backend keeps of it.
    ///
    /// # Panics
    /// Where there is none.
    pub fn at(&self, index: usize) -> (&ThreadView, &N) {
        (&self.views[index], &self.entries[index].own)
    }

    /// As [`Self::at`], to be changed.
    ///
    /// # Panics
    /// Where there is none.
    pub fn at_mut(&mut self, index: usize) -> (&mut ThreadView, &mut N) {
        (&mut self.views[index], &mut self.entries[index].own)
    }

    /// All threads: their views, and what the backend keeps of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&ThreadView, &N)> {
        self.views.iter().zip(self.entries.iter().map(|entry| &entry.own))
    }

    /// As [`Self::iter`], to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&mut ThreadView, &mut N)> {
        self.views.iter_mut().zip(self.entries.iter_mut().map(|entry| &mut entry.own))
    }

    /// Adds a thread. Its present counts are where every policy's window begins for it.
    ///
    /// # Panics
    /// When its id is not above all others.
    pub fn insert(&mut self, view: ThreadView, own: N) {
        assert!(self.views.last().is_none_or(|last| last.id < view.id), "ids ascend");
        let window = Window { start: view.counts, rates: Rates::default() };
        self.entries.push(Entry { own, windows: vec![window; self.policies] });
        self.views.push(view);
    }

    /// Removes the threads of which `stays` is false; their ids, ascending.
    pub fn retain(&mut self, mut stays: impl FnMut(&ThreadView, &mut N) -> bool) -> Vec<ThreadId> {
        let entries = self.entries.iter_mut();
        let flags: Vec<bool> =
            self.views.iter().zip(entries).map(|(view, one)| stays(view, &mut one.own)).collect();
        let gone = self.views.iter().zip(&flags).filter(|(_, stays)| !**stays);
        let gone: Vec<ThreadId> = gone.map(|(view, _)| view.id).collect();
        if !gone.is_empty() {
            let mut flag = flags.iter();
            self.views.retain(|_| *flag.next().expect("one a thread"));
            let mut flag = flags.iter();
            self.entries.retain(|_| *flag.next().expect("one a thread"));
        }
        gone
    }

    /// Ends a policy's interval: the rates are those of the counts since it began, and the next begins.
    pub(crate) fn close(&mut self, policy: usize) {
        for (view, entry) in self.views.iter().zip(&mut self.entries) {
            let window = &mut entry.windows[policy];
            window.rates = view.counts.since(&window.start);
            window.start = view.counts;
        }
        self.shown = None;
    }

    /// Shows in the views the rates of a policy's last interval.
    pub(crate) fn show(&mut self, policy: usize) {
        // A thread that came since has no rates in any window.
        if self.shown != Some(policy) {
            for (view, entry) in self.views.iter_mut().zip(&self.entries) {
                view.rates = entry.windows[policy].rates;
            }
            self.shown = Some(policy);
        }
    }
}
