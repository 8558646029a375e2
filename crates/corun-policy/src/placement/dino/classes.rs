//! Turtles, devils and super-devils.

use std::collections::{BTreeMap, VecDeque};

use crate::{ThreadId, View};

/// The limits of the classes, and how many readings decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) devil_mpki: f64,
    pub(super) super_devil_mpki: f64,
    pub(super) readings: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Turtle,
    Devil,
    SuperDevil,
}

/// The class of each thread, and its latest readings.
pub(super) struct Classes {
    limits: Limits,
    known: BTreeMap<ThreadId, Known>,
}

struct Known {
    class: Class,
    /// Misses per 1000 instructions.
    readings: VecDeque<f64>,
}

impl Classes {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, known: BTreeMap::new() }
    }

    fn class(&self, mpki: f64) -> Class {
        if mpki >= self.limits.super_devil_mpki {
            Class::SuperDevil
        } else if mpki >= self.limits.devil_mpki {
            Class::Devil
        } else {
            Class::Turtle
        }
    }

    /// Takes in an interval's counts. A thread changes its class once half of its latest readings are of another,
    /// to the class of their mean. A thread that retired nothing tells nothing.
    pub(super) fn read(&mut self, view: &View<'_>) {
        self.known.retain(|&id, _| view.thread(id).is_some());
        for thread in view.threads {
            let Some(mpki) = thread.rates.llc_mpki().filter(|mpki| mpki.is_finite()) else {
                continue;
            };
            let class = self.class(mpki);
            let known = self
                .known
                .entry(thread.id)
                .or_insert_with(|| Known { class, readings: VecDeque::new() });
            if known.readings.len() == self.limits.readings {
                known.readings.pop_front();
            }
            known.readings.push_back(mpki);
            let (now, mean) = (known.class, known.mean());
            let limits = self.limits;
            let others = self.known[&thread.id].readings.iter();
            let others = others.filter(|&&mpki| self.class(mpki) != now).count();
            let to = self.class(mean);
            if 2 * others >= limits.readings
                && let Some(known) = self.known.get_mut(&thread.id)
            {
                known.class = to;
            }
        }
    }

    /// By thread of the view, the mean MPKI of all threads of its class: threads of one class have one figure, and
    /// a higher class has a higher one. None where it was not read yet.
    pub(super) fn figures(&self, view: &View<'_>) -> Vec<Option<f64>> {
        let mean = |class: Class| {
            let of = view.threads.iter().filter_map(|one| self.known.get(&one.id));
            let means: Vec<f64> = of.filter(|one| one.class == class).map(Known::mean).collect();
            // A class's threads may lie beyond its limits for some readings.
            let (least, most) = match class {
                Class::Turtle => (0.0, self.limits.devil_mpki),
                Class::Devil => (self.limits.devil_mpki, self.limits.super_devil_mpki),
                Class::SuperDevil => (self.limits.super_devil_mpki, f64::INFINITY),
            };
            (means.iter().sum::<f64>() / means.len().max(1) as f64).max(least).min(most)
        };
        let means = [Class::Turtle, Class::Devil, Class::SuperDevil].map(mean);
        let of =
            |thread: &crate::ThreadView| Some(means[self.known.get(&thread.id)?.class as usize]);
        view.threads.iter().map(of).collect()
    }
}

impl Known {
    fn mean(&self) -> f64 {
        self.readings.iter().sum::<f64>() / self.readings.len().max(1) as f64
    }
}
