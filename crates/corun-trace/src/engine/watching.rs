//! What is looked at in bursts and not at all times: branches, what prefetchers foresee, and
//! micro-traces.

use super::capture::{Capture, Ended, Place, Seen};
use super::foreseer::Foreseer;
use super::page_depths::PageDepths;
use super::pages::PAGE_LINES;
use super::reconvergence::Ways;
use super::schedule::{BURST_CAPTURE_SHARE, capture_spacing};
use super::thread::Attention;
use super::{Engine, Thread};
use crate::event::line_of;

/// What bursts are looked at with.
#[derive(Debug, Clone)]
pub(crate) struct Watching {
    foreseer: Foreseer,
    /// Pages touched since the stretch began.
    pages: PageDepths,
    capture: Option<Box<Capture>>,
    ways: Ways,
    /// A capture of this thread begins with its next block.
    due: Option<usize>,
    /// Instructions of the run from which the next capture may begin, and at which the last one began.
    next_capture: u64,
    last_capture: u64,
}

impl Watching {
    pub(crate) fn new() -> Self {
        Self {
            foreseer: Foreseer::new(),
            pages: PageDepths::new(),
            capture: None,
            ways: Ways::default(),
            due: None,
            next_capture: 0,
            last_capture: 0,
        }
    }

    /// What came before is not known any more.
    fn begin_stretch(&mut self) {
        self.pages.clear();
    }

    /// A burst begins or ends: a capture that runs is given up, the next may begin at `next`.
    pub(super) fn change_over(&mut self, next: u64) {
        (self.capture, self.due) = (None, None);
        self.next_capture = next;
        self.begin_stretch();
    }
}

impl Engine {
    /// How the next events of a thread are looked at, and begins a capture where one is due.
    pub(super) fn attend(&mut self, thread: &mut Thread, attention: Attention) -> Attention {
        if attention == Attention::Learn {
            self.watching.begin_stretch();
        }
        let Some(number) = thread.number else { return attention };
        if let Some(capture) = &self.watching.capture {
            // A capture goes on to its end.
            return if capture.thread == number { Attention::Count } else { attention };
        }
        let now = self.instructions();
        if attention == Attention::Count && now >= self.watching.next_capture && !self.undecoded {
            self.watching.due = Some(number);
        }
        attention
    }

    /// Is this thread captured?
    fn captured(&mut self, thread: &Thread) -> Option<&mut Capture> {
        self.watching.capture.as_deref_mut().filter(|capture| Some(capture.thread) == thread.number)
    }

    /// The running block ended and another one begins.
    pub(super) fn watch(&mut self, thread: &mut Thread, id: u32, count: bool) {
        let Some(block) = self.blocks.get(id as usize) else { return };
        let Some(before) = thread.block.and_then(|before| self.blocks.get(before as usize)) else {
            return;
        };
        let small_wrong = !thread.predictor.foresees(before, block.start);
        let large_wrong = !thread.tage.foresees(before, block.start);
        if count {
            let weight = thread.branch_weight;
            self.observed.branches += weight * u64::from(before.branches);
            self.observed.mispredicted += weight * u64::from(small_wrong);
            self.observed.mispredicted_large += weight * u64::from(large_wrong);
        }
        let Some(capture) = self.watching.capture.as_deref_mut() else { return };
        if Some(capture.thread) == thread.number {
            let taken = block.start != before.end;
            capture.end_block(before, Ended { taken, small_wrong, large_wrong });
            if capture.is_full() {
                self.end_capture();
            }
        }
    }

    pub(super) fn watch_block(&mut self, thread: &Thread, repeats: bool) {
        // A repeated instruction is one, however often it is met: none begins inside it.
        if self.watching.due.is_some() && self.watching.due == thread.number && !repeats {
            self.begin_capture();
        }
        if let Some(capture) = self.captured(thread) {
            capture.begin_block(repeats);
        }
    }

    pub(super) fn watch_fetch(&mut self, thread: &Thread, line: u64, place: Place, next: bool) {
        let Some(block) = thread.block.and_then(|id| self.blocks.get(id as usize)) else { return };
        let Some(capture) = self.watching.capture.as_deref_mut() else { return };
        if Some(capture.thread) == thread.number {
            capture.fetch(block, line, place, next);
        }
    }

    /// An instruction of the running block touches a word.
    #[inline(always)]
    pub(super) fn watch_access(
        &mut self,
        thread: &Thread,
        word: u64,
        index: u32,
        store: bool,
        place: Place,
    ) {
        let Some(block) = thread.block.and_then(|id| self.blocks.get(id as usize)) else { return };
        let Watching { foreseer, pages, capture, .. } = &mut self.watching;
        let line = line_of(word);
        let instruction = block.start.wrapping_mul(4096) + u64::from(index);
        let foreseen_from = foreseer.access(instruction, line);
        if let Some(capture) = capture.as_deref_mut()
            && Some(capture.thread) == thread.number
        {
            let page = pages.depth(line / PAGE_LINES);
            capture.access(block, index as usize, word, store, Seen { place, page, foreseen_from });
        } else {
            pages.touch(line / PAGE_LINES);
        }
    }

    fn begin_capture(&mut self) {
        let Some(number) = self.watching.due.take() else { return };
        let now = self.instructions();
        self.distances.want_depths(&mut self.figures.histogram);
        let in_burst = self.schedule.is_burst();
        let stands_for = if in_burst {
            BURST_CAPTURE_SHARE * self.burst.1
        } else {
            now - self.watching.last_capture
        };
        self.watching.capture = Some(Box::new(Capture::new(number, stands_for)));
        self.watching.last_capture = now;
        self.watching.next_capture = now + capture_spacing(now, in_burst);
    }

    fn end_capture(&mut self) {
        let Some(capture) = self.watching.capture.take() else { return };
        let (depths, whole) = self.distances.take_depths(&mut self.figures.histogram);
        let weight = capture.weight;
        let trace = capture.finish(&depths, whole, &mut self.watching.ways);
        self.figures.strata.add(&trace, weight);
    }
}
