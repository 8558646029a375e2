//! Services: requests that arrive, wait in one queue, and are answered by the threads of a program.
//!
//! Requests come as a Poisson process. Each has its own number of instructions; how long a thread takes for them
//! follows from its speed at the time and from its turns on a CPU. A thread that finds no request sleeps. A request
//! that finds threads asleep wakes the first of them; another one waits, and the queue is first come, first served.

use std::collections::VecDeque;

use corun_policy::{Event, ServiceLatency};
use corun_profile::Service;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::engine::Engine;
use crate::lifecycle::AppRun;
use crate::observation::standard_normal;
use crate::result::ServiceResult;
use crate::thread::{Done, State};
use crate::timers::Timer;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Request {
    arrived: u64,
    /// When a thread took it.
    taken: u64,
    pub(crate) instructions: f64,
}

/// What is kept of a service.
#[derive(Debug, Clone)]
pub(crate) struct ServiceRun {
    spec: Service,
    /// What arrivals and instructions are drawn from.
    random: Pcg64Mcg,
    queue: VecDeque<Request>,
    /// Requests that arrive before do not count.
    counts_from: u64,
    /// Latencies in ns of the requests that count.
    latencies: Vec<u64>,
    /// How many of these are above the target.
    late: u64,
    /// Of the requests that were answered since policies were last shown a percentile.
    recent: Vec<u64>,
    /// What policies see.
    shown: ServiceLatency,
    /// Requests answered, those of the warm-up with them.
    answered: u64,
    /// Time that threads held requests that were answered, in ns.
    held_ns: u64,
    /// Times that a thread came to the end of its program and began it again.
    pub(crate) turns: u64,
}

impl ServiceRun {
    pub(crate) fn new(spec: Service, start: u64, random: Pcg64Mcg) -> Self {
        Self {
            spec,
            random,
            queue: VecDeque::new(),
            counts_from: start.saturating_add((spec.warm_up_s * 1e9) as u64),
            latencies: Vec::new(),
            late: 0,
            recent: Vec::new(),
            shown: ServiceLatency { tail_ms: None, target_ms: spec.target_ms },
            answered: 0,
            held_ns: 0,
            turns: 0,
        }
    }

    /// Time from one arrival to the next, in ns.
    fn gap(&mut self) -> u64 {
        let gap_s = -(1.0 - self.random.random::<f64>()).ln() / self.spec.requests_per_s;
        ((gap_s * 1e9).round() as u64).max(1)
    }

    /// Instructions of a request: exponential, or lognormal with the mean and the variation of its service.
    fn instructions(&mut self) -> f64 {
        let mean = self.spec.instructions;
        let drawn = match self.spec.variation {
            None => -mean * (1.0 - self.random.random::<f64>()).ln(),
            Some(variation) => {
                let squared = (1.0 + variation * variation).ln();
                let normal = standard_normal(&mut self.random);
                mean * (squared.sqrt() * normal - squared / 2.0).exp()
            }
        };
        drawn.max(1.0)
    }

    fn answered(&mut self, request: Request, now: u64) {
        let latency = now - request.arrived;
        self.answered += 1;
        self.held_ns += now - request.taken;
        self.recent.push(latency);
        if request.arrived >= self.counts_from {
            self.latencies.push(latency);
            self.late += u64::from(latency as f64 * 1e-6 > self.spec.target_ms);
        }
    }

    /// How many of the requests that arrive between two times in ns, and count, may be late where the target is met. Of a
    /// service that has not begun: arrivals are drawn from its own stream, whatever else happens.
    pub(crate) fn most_late(&self, start: u64, end: u64) -> u64 {
        let mut drawn = self.clone();
        let (mut now, mut count) = (start, 0);
        loop {
            now = now.saturating_add(drawn.gap());
            if now > end {
                return count - rank(count as usize, self.spec.percentile) as u64;
            }
            count += u64::from(now >= self.counts_from);
            drawn.instructions();
        }
    }
}

impl AppRun {
    /// Requests that count and were answered later than the target allows; none where it is no service.
    pub(crate) fn late_requests(&self) -> u64 {
        self.service.as_ref().map_or(0, |service| service.late)
    }

    /// Nobody is there to answer any more: what waits is forgotten.
    pub(crate) fn close_service(&mut self) {
        if let Some(service) = &mut self.service {
            service.queue.clear();
        }
    }
}

/// The smallest of the values that so many percent of them do not exceed; none where there is none.
fn percentile(values: &mut [u64], percent: f64) -> Option<u64> {
    let place = rank(values.len(), percent).checked_sub(1)?;
    Some(*values.select_nth_unstable(place).1)
}

/// Which of so many values in rising order, from 1, is the percentile; 0 where there is none.
fn rank(count: usize, percent: f64) -> usize {
    let rank = (count as f64 * percent / 100.0).ceil() as usize;
    rank.clamp(count.min(1), count)
}

impl Engine<'_> {
    /// The instructions that a thread of a service has to execute before it is asked what it does next; none for
    /// a thread of another program.
    pub(crate) fn to_answer(&self, slot: usize) -> Option<f64> {
        let thread = &self.threads[slot];
        self.experiment.apps[thread.app].service.as_ref()?;
        Some(thread.request.map_or(0.0, |request| request.instructions))
    }

    /// Has a thread of a service done what it had to?
    pub(crate) fn has_answered(&self, slot: usize) -> bool {
        let left = self.to_answer(slot);
        left.is_some_and(|left| self.threads[slot].since_barrier.left_of(left) <= 0.0)
    }

    /// A service begins: the first request is on its way.
    pub(crate) fn open_service(&mut self, app: usize) {
        if let Some(service) = &mut self.apps[app].service {
            let gap = service.gap();
            self.timers.set(self.now + gap, Timer::Request(app));
        }
    }

    /// A request arrives, and the next one is on its way.
    pub(crate) fn request(&mut self, app: usize) {
        if self.apps[app].gone {
            return;
        }
        let now = self.now;
        let Some(service) = &mut self.apps[app].service else { return };
        let instructions = service.instructions();
        let gap = service.gap();
        self.timers.set(now + gap, Timer::Request(app));
        let request = Request { arrived: now, taken: now, instructions };
        let is_idle = |slot: &usize| {
            let thread = &self.threads[*slot];
            thread.state == State::Sleeping && thread.request.is_none()
        };
        match self.apps[app].slots.clone().find(is_idle) {
            Some(slot) => {
                self.threads[slot].request = Some(request);
                self.wake(slot, self.threads[slot].sleeps);
            }
            None => {
                if let Some(service) = &mut self.apps[app].service {
                    service.queue.push_back(request);
                }
            }
        }
    }

    /// A thread has answered its request: it takes the next, or sleeps.
    pub(crate) fn answer(&mut self, slot: usize) {
        let now = self.now;
        let thread = &mut self.threads[slot];
        // What was executed beyond the request's end, within the last nanosecond.
        let over =
            thread.request.map_or(0.0, |one| -thread.since_barrier.left_of(one.instructions));
        thread.since_barrier = Done::default();
        let answered = thread.request.take();
        let Some(service) = &mut self.apps[thread.app].service else { return };
        if let Some(request) = answered {
            service.answered(request, now);
        }
        match service.queue.pop_front() {
            Some(request) => {
                thread.request = Some(Request { taken: now, ..request });
                thread.since_barrier.add(over);
            }
            None => {
                let id = thread.id;
                thread.sleeps += 1;
                self.take(slot, State::Sleeping);
                self.watched.happened.push(Event::Slept(id));
            }
        }
    }

    /// What policies see from now on of the latency of each service: the percentile over the requests that were
    /// answered since this was called last. Where none was answered, it is the age of the oldest that waits.
    pub(crate) fn show_latencies(&mut self) {
        for app in 0..self.apps.len() {
            if self.apps[app].service.is_none() {
                continue;
            }
            let oldest = self.unanswered(app).map(|one| self.now - one.arrived).max();
            let Some(service) = &mut self.apps[app].service else { continue };
            let tail = percentile(&mut service.recent, service.spec.percentile).or(oldest);
            service.recent.clear();
            service.shown.tail_ms = tail.map(|ns| ns as f64 * 1e-6);
        }
    }

    pub(crate) fn shown_latency(&self, app: usize) -> Option<ServiceLatency> {
        Some(self.apps[app].service.as_ref()?.shown)
    }

    fn unanswered(&self, app: usize) -> impl Iterator<Item = Request> + '_ {
        let held = self.threads[self.apps[app].slots.clone()].iter();
        let held = held.filter_map(|thread| thread.request);
        held.chain(self.apps[app].service.iter().flat_map(|service| service.queue.iter().copied()))
    }

    /// What came of a service. A request that is not answered at the end counts with its age.
    pub(crate) fn service_result(&self, app: usize, there_s: f64) -> Option<ServiceResult> {
        let service = self.apps[app].service.as_ref()?;
        let counts = |one: &Request| one.arrived >= service.counts_from;
        let mut latencies = service.latencies.clone();
        latencies.extend(self.unanswered(app).filter(counts).map(|one| self.now - one.arrived));
        let count = latencies.len();
        let mean_ns = latencies.iter().sum::<u64>() as f64 / count as f64;
        let tail = percentile(&mut latencies, service.spec.percentile);
        let now = self.now;
        let held = self.threads[self.apps[app].slots.clone()].iter().filter_map(|one| one.request);
        let held_ns = service.held_ns + held.map(|one| now - one.taken).sum::<u64>();
        let threads = f64::from(self.experiment.apps[app].threads);
        let busy = held_ns as f64 * 1e-9 / (threads * there_s);
        let answered_per_s = service.answered as f64 / there_s;
        Some(ServiceResult {
            requests_per_s: service.spec.requests_per_s,
            answered_per_s,
            percentile: service.spec.percentile,
            latency_ms: tail.map(|ns| ns as f64 * 1e-6),
            mean_latency_ms: (count > 0).then_some(mean_ns * 1e-6),
            target_ms: service.spec.target_ms,
            saturated_per_s: (busy > 0.0 && service.answered > 0).then(|| answered_per_s / busy),
            counted: count as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn drawn(variation: Option<f64>) -> Vec<f64> {
        let spec = Service {
            requests_per_s: 1000.0,
            instructions: 1e6,
            variation,
            percentile: 99.0,
            target_ms: 1.0,
            warm_up_s: 0.0,
        };
        let mut run = ServiceRun::new(spec, 0, Pcg64Mcg::seed_from_u64(7));
        (0..100_000).map(|_| run.instructions()).collect()
    }

    fn mean_and_variation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance =
            values.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn instructions_have_their_mean_and_their_variation() {
        for (asked, expected) in [(None, 1.0), (Some(0.5), 0.5), (Some(1.5), 1.5)] {
            let (mean, variation) = mean_and_variation(&drawn(asked));
            // The standard error of the mean of 1e5 values is 0.5 % at the greatest of these variations.
            assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
            assert!((variation / expected - 1.0).abs() < 0.06, "{asked:?}: {variation}");
        }
        assert!(drawn(Some(0.0)).iter().all(|one| (one - 1e6).abs() < 1e-6));
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut values, 99.0), Some(99));
        assert_eq!(percentile(&mut values, 99.5), Some(100));
        assert_eq!(percentile(&mut values, 0.1), Some(1));
        assert_eq!(percentile(&mut [5], 50.0), Some(5));
        assert_eq!(percentile(&mut [], 50.0), None);
    }
}
