//! Memory that answers later the busier it is.

use corun_machine::{BandwidthDomain, LoadedLatency};

use crate::bandwidth::{LimitBandwidth, OwnWait, Part};
use crate::outcome::Demand;

/// Every access to a domain that is busy for a share T of its peak takes λ(T) times as long as one to an idle domain
/// ([`Latency`]), for light and heavy programs alike.
///
/// Alone a program's accesses wait for one another: they take o times as long as in an idle domain ([`OwnWait`]), which is in
/// its figures. So L = o B are on their way at a time, in units of the peak times the idle latency (Little, Operations
/// Research 9(3), 1961), and beside others as many: T λ(T) = sum L, x = λ(T). By the curve the lines of one program would take
/// λ(e) alone, e λ(e) = L; what others add to that is added to what they do take, B / B' = 1 + (x - λ(e)) / o.
/// Where o = λ(B), e = B and B' = B λ(B) / λ(T).
///
/// sum of B' is no less than T, and may be more than the peak where programs wait less for themselves than the curve says: then x
/// is what lets no more through.
///
/// x rises with every L, and nobody's B / B' falls while it does: more flows or more demand never help anybody.
pub(crate) struct Loaded;

impl LimitBandwidth for Loaded {
    fn through(&self, solo: &[f64], own: &[OwnWait], latency: &Latency, out: &mut [f64]) {
        let flows = || solo.iter().zip(own).map(|(&solo, &own)| Waiting::of(solo, own, latency));
        let lines: f64 = flows().map(|flow| flow.lines).sum();
        let together = within_peak(flows, latency.with_lines(lines));
        for (out, flow) in out.iter_mut().zip(flows()) {
            *out = flow.through(together).0;
        }
    }

    fn part(&self, solo: f64, own: OwnWait, latency: &Latency, idle: f64) -> Option<Part> {
        let flow = Waiting::of(solo, own, latency);
        // λ(T) is infinite in a domain that is never idle.
        let together = latency.ratio(1.0 - idle);
        Some(Part { busy: flow.lines / together, through: flow.through(together).0 })
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64 {
        let nearby = demand.cpi + demand.memory_cpi * (latency_ratio - 1.0);
        nearby + latency_ratio * demand.waiting_cpi * (ratio - 1.0)
    }
}

/// Newton steps at most; the search is monotone and quadratic.
const STEPS: usize = 50;
/// What the flows may get beyond the peak, as a share of it, for rounding.
const ROUNDING: f64 = 1e-12;

/// The least x from here on at which the flows get no more than the peak.
fn within_peak<I: Iterator<Item = Waiting>>(flows: impl Fn() -> I, mut together: f64) -> f64 {
    for _ in 0..STEPS {
        let (mut beyond, mut slope) = (-1.0, 0.0);
        for flow in flows() {
            let (through, by_latency) = flow.through(together);
            beyond += through;
            slope += by_latency;
        }
        if beyond <= ROUNDING || slope >= 0.0 {
            break;
        }
        // The sum is convex and falls: from below the root, steps never pass it.
        together -= beyond / slope;
    }
    together
}

/// A flow in a domain.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    solo: f64,
    own: f64,
    /// L, and λ(e).
    lines: f64,
    by_curve: f64,
}

impl Waiting {
    fn of(solo: f64, own: OwnWait, latency: &Latency) -> Self {
        let of_others = latency.ratio(solo);
        // Where nothing was measured, what one core draws at most was not either.
        let own = if latency.is_queue() { of_others } else { own.latency_ratio(of_others) };
        let lines = own * solo;
        let by_curve = if own < of_others { latency.with_lines(lines) } else { of_others };
        Self { solo, own, lines, by_curve }
    }

    /// B' where x is so much, at least λ(e), and what it gains where x is more, never above 0.
    fn through(self, together: f64) -> (f64, f64) {
        let wait = self.own + (together - self.by_curve).max(0.0);
        let through = self.lines / wait;
        // Rounding must not give more than the flow would draw alone.
        (through.min(self.solo), -through / wait)
    }
}

/// q where the machine has no measured curve. Fitted by least squares of relative errors to one published
/// table, latency under load of a Xeon Silver 4110 with 12 modules of DDR4-2400 against its data sheet's peak
/// (Intel Memory Latency Checker 3.5, Intel Community, thread 1126268): 0.41, rounded.
const USUAL_QUEUEING: f64 = 0.4;
/// Bounds of q: less than this is no queue that can be told from none, and at 1 and more the equation
/// for T has another root.
const QUEUEING_RANGE: (f64, f64) = (1e-3, 0.95);
/// Traffic near a measured peak is taken for this share of it: the peak may be the cores'.
const MOST_BUSY: f64 = 0.95;

/// How many times as long an access takes in a domain that is busy for a share T of its peak, λ(T): rising, and as
/// measured up to the busiest point of a curve, straight between its points. Beyond that, and where nothing was
/// measured, it rises as the waiting time of a queue of one server with random arrivals (M/M/1) does,
/// q T / (1 - T) in units of the idle latency, q being the service time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Latency {
    /// T and λ, rising, from (0, 1) on.
    measured: Vec<(f64, f64)>,
    queueing: f64,
}

impl Latency {
    /// Of a domain nothing of which was measured.
    pub(crate) fn usual() -> Self {
        Self::queue(USUAL_QUEUEING)
    }

    fn queue(queueing: f64) -> Self {
        Self { measured: vec![(0.0, 1.0)], queueing }
    }

    /// Of a domain with this peak.
    pub(crate) fn of(domain: &BandwidthDomain, peak_mb_per_s: f64) -> Self {
        Self::measured(&domain.loaded_latency, peak_mb_per_s)
    }

    fn measured(curve: &[LoadedLatency], peak_mb_per_s: f64) -> Self {
        let Some(queueing) = fit(curve, peak_mb_per_s) else { return Self::usual() };
        let idle_ns = curve[0].latency_ns;
        let mut points: Vec<(f64, f64)> = curve
            .iter()
            .map(|point| (busy_of(point, peak_mb_per_s), point.latency_ns / idle_ns))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut measured = vec![(0.0, 1.0)];
        measured.extend(never_falling(&points).into_iter().filter(|point| point.0 > 0.0));
        // Noise must not have an access be faster than in an idle domain.
        for point in &mut measured {
            point.1 = point.1.max(1.0);
        }
        Self { measured, queueing }
    }

    pub(crate) fn queueing(&self) -> f64 {
        self.queueing
    }

    /// Is it a queue's from the idle domain on?
    pub(crate) fn is_queue(&self) -> bool {
        self.measured.len() == 1
    }

    /// λ(T); infinite from T = 1 on.
    pub(crate) fn ratio(&self, busy: f64) -> f64 {
        let above = self.measured.partition_point(|point| point.0 <= busy);
        match self.measured.get(above) {
            Some(&(to, ratio)) => {
                let (from, before) = self.measured[above - 1];
                before + (ratio - before) * (busy - from) / (to - from)
            }
            None if busy < 1.0 => self.base() + self.queueing * busy / (1.0 - busy),
            None => f64::INFINITY,
        }
    }

    /// λ of a domain in which so many lines are on their way, in units of the peak times the idle latency.
    fn with_lines(&self, lines: f64) -> f64 {
        // λ(T), from T rather than the other way round: near the peak it rises too steeply.
        if lines > 0.0 { lines / self.busy_share(lines) } else { 1.0 }
    }

    /// What λ has beyond the last point besides the queue's part.
    fn base(&self) -> f64 {
        let (busy, ratio) = self.measured[self.measured.len() - 1];
        ratio - self.queueing * busy / (1.0 - busy)
    }

    /// The T at which T λ(T) is the load; below 1 for every load, and rising with it.
    fn busy_share(&self, load: f64) -> f64 {
        let above = self.measured.partition_point(|point| point.0 * point.1 <= load);
        if let Some(&(to, ratio)) = self.measured.get(above) {
            // T (a + b T) = load
            let (from, before) = self.measured[above - 1];
            let rise = (ratio - before) / (to - from);
            let start = before - rise * from;
            return 2.0 * load / (start + (start * start + 4.0 * rise * load).sqrt());
        }
        // T (c + q T / (1 - T)) = load, without the cancellation of near terms.
        let base = self.base();
        let root = ((base - load).powi(2) + 4.0 * self.queueing * load).sqrt();
        2.0 * load / (base + load + root)
    }
}

fn busy_of(point: &LoadedLatency, peak_mb_per_s: f64) -> f64 {
    (point.mb_per_s / peak_mb_per_s).min(MOST_BUSY)
}

/// The rising points nearest to these by least squares (pool adjacent violators: Ayer et al., Annals of Mathematical
/// Statistics 26(4), 1955), one for each T.
fn never_falling(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    // Value, how many points have it, and where they begin.
    let mut pools: Vec<(f64, usize, usize)> = Vec::new();
    for (index, &(_, ratio)) in points.iter().enumerate() {
        let mut pool = (ratio, 1, index);
        while let Some(&(before, count, first)) = pools.last() {
            if before <= pool.0 && points[first + count - 1].0 < points[pool.2].0 {
                break;
            }
            let all = count + pool.1;
            pool = ((before * count as f64 + pool.0 * pool.1 as f64) / all as f64, all, first);
            pools.pop();
        }
        pools.push(pool);
    }
    let of_pool = |&(ratio, count, first): &(f64, usize, usize)| {
        points[first..first + count].iter().map(move |point| (point.0, ratio))
    };
    let mut rising: Vec<(f64, f64)> = pools.iter().flat_map(of_pool).collect();
    rising.dedup_by_key(|point| point.0);
    rising
}

/// q of a measured curve, by least squares of the relative errors.
fn fit(curve: &[LoadedLatency], peak_mb_per_s: f64) -> Option<f64> {
    let (idle, loaded) = curve.split_first()?;
    let (mut above, mut below) = (0.0, 0.0);
    for point in loaded {
        let ratio = point.latency_ns / idle.latency_ns;
        let busy = busy_of(point, peak_mb_per_s);
        let waiting = busy / (1.0 - busy) / ratio;
        above += waiting * (ratio - 1.0) / ratio;
        below += waiting * waiting;
    }
    let (least, most) = QUEUEING_RANGE;
    (below > 0.0).then(|| (above / below).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(solo: &[f64], queueing: f64) -> Vec<f64> {
        through(solo, &Latency::queue(queueing))
    }

    fn through(solo: &[f64], latency: &Latency) -> Vec<f64> {
        through_with(solo, &vec![own(1.0, 1.0); solo.len()], latency)
    }

    fn through_with(solo: &[f64], own: &[OwnWait], latency: &Latency) -> Vec<f64> {
        let mut out = vec![0.0; solo.len()];
        Loaded.through(solo, own, latency, &mut out);
        out
    }

    fn flows_of<'a>(
        solo: &'a [f64],
        own: &'a [OwnWait],
        latency: &'a Latency,
    ) -> impl Iterator<Item = Waiting> + 'a {
        solo.iter().zip(own).map(|(&solo, &own)| Waiting::of(solo, own, latency))
    }

    fn own(foreseen_share: f64, stretched: f64) -> OwnWait {
        OwnWait { foreseen_share, stretched }
    }

    /// λ(1/2) = 2, and 4 T from there on.
    fn steep() -> Latency {
        Latency { measured: vec![(0.0, 1.0), (0.5, 2.0), (0.875, 3.5)], queueing: 0.5 }
    }

    #[test]
    fn alone_a_flow_keeps_its_bandwidth() {
        for one in [1e-6, 0.37, 0.95] {
            let out = solve(&[one], 0.4);
            assert!((out[0] - one).abs() < 1e-12, "{out:?}");
        }
        // Beside one that draws nothing too.
        assert!((solve(&[0.37, 0.0], 0.4)[0] - 0.37).abs() < 1e-12);
    }

    /// q = 1/2, two flows of 1/2: λ(1/2) = 3/2, so L = 3/2, and T^2 / 2 - 5/2 T + 3/2 = 0 gives
    /// T = (5/2 - sqrt(25/4 - 3)) / 1 = 0.697224, of which each gets half.
    #[test]
    fn two_equal_flows_worked_by_hand() {
        let busy = 2.5 - 3.25_f64.sqrt();
        for out in solve(&[0.5, 0.5], 0.5) {
            assert!((out - 0.5 * busy).abs() < 1e-12, "{out}");
        }
    }

    /// Beside a stream at 0.9 of the peak (q = 0.4, λ(0.9) = 4.6) a flow of 0.01 waits 4.6 times as
    /// long and a little more; the stream hardly notices.
    #[test]
    fn a_light_flow_waits_beside_a_heavy_one() {
        let out = solve(&[0.9, 0.01], 0.4);
        let stretched = |index: usize, solo: f64| solo / out[index];
        assert!(stretched(1, 0.01) > 4.5, "{out:?}");
        assert!(stretched(0, 0.9) < 1.01, "{out:?}");
    }

    #[test]
    fn the_fit_finds_the_curve_again() {
        let point = |busy: f64| LoadedLatency {
            mb_per_s: 1000.0 * busy,
            latency_ns: 80.0 * Latency::queue(0.3).ratio(busy),
            low_ns: 0.0,
            high_ns: 0.0,
        };
        let curve: Vec<LoadedLatency> = [0.0, 0.2, 0.5, 0.8].map(point).to_vec();
        assert!((fit(&curve, 1000.0).unwrap() - 0.3).abs() < 1e-12);
        // Nothing but an idle point, or no curve at all, says nothing.
        assert_eq!(fit(&curve[..1], 1000.0), None);
        assert_eq!(fit(&[], 1000.0), None);
        // A flat curve is a queue that is hardly one.
        let flat = [0.0, 0.5].map(|busy| LoadedLatency { latency_ns: 80.0, ..point(busy) });
        assert_eq!(fit(&flat, 1000.0), Some(QUEUEING_RANGE.0));
    }

    /// The table that the usual q is of: traffic in MB/s and latency in ns.
    #[test]
    fn the_usual_queueing_is_that_of_its_table() {
        let table = [
            (1237.6, 81.96),
            (1785.2, 83.00),
            (2583.5, 84.20),
            (3354.4, 84.99),
            (4383.3, 85.56),
            (6068.3, 86.54),
            (7680.3, 87.24),
            (9723.8, 87.81),
            (13463.5, 88.79),
            (18355.0, 90.16),
            (22580.9, 90.85),
            (29473.3, 92.29),
            (42695.4, 94.56),
            (68357.8, 98.94),
            (131282.0, 123.71),
            (135655.9, 130.31),
        ];
        // Two packages of six channels of 8 bytes at 2400 million transfers a second.
        let found = fit(&points(&table), 2.0 * 6.0 * 8.0 * 2400.0).unwrap();
        assert!((found - USUAL_QUEUEING).abs() < 0.05, "{found}");
    }

    fn points(of: &[(f64, f64)]) -> Vec<LoadedLatency> {
        let point = |&(mb_per_s, latency_ns): &(f64, f64)| LoadedLatency {
            mb_per_s,
            latency_ns,
            low_ns: latency_ns,
            high_ns: latency_ns,
        };
        of.iter().map(point).collect()
    }

    /// Two flows that alone draw half each, where a stranger waits for twice as long beside one. From T = 1/2 on λ = 4 T, so
    /// that T λ(T) = L is x = 2 sqrt(L).
    #[test]
    fn flows_add_to_what_others_wait_alone() {
        // They wait for nobody, o = 1: L = 1/2 each, x = 2. Up to T = 1/2 λ = 1 + 2 T: e (1 + 2 e) = 1/2, e = (sqrt(5) - 1) / 4,
        // λ(e) = (1 + sqrt(5)) / 2.
        let out = through_with(&[0.5, 0.5], &[own(0.0, 1.0); 2], &steep());
        let expected = 0.5 / (3.0 - 0.5 * (1.0 + 5.0_f64.sqrt()));
        assert!(out.iter().all(|out| (out - expected).abs() < 1e-12), "{out:?}");
        // Where prefetchers keep as many on their way as a stranger would wait for, o = 2: L = 1, x = 2 sqrt(2).
        let out = through(&[0.5, 0.5], &steep());
        assert!(out.iter().all(|out| (out - 0.125_f64.sqrt()).abs() < 1e-12), "{out:?}");
        // Half of the misses are: o = 3/2, L = 3/4, x = sqrt(6); e (1 + 2 e) = 3/4, λ(e) = (1 + sqrt(7)) / 2.
        let out = through_with(&[0.5, 0.5], &[own(0.5, 1.0); 2], &steep());
        let expected = 0.75 / (1.5 + 6.0_f64.sqrt() - 0.5 * (1.0 + 7.0_f64.sqrt()));
        assert!(out.iter().all(|out| (out - expected).abs() < 1e-12), "{out:?}");
    }

    /// Eight flows of 1/2 that wait for nobody: by the curve x = 4 and each gets 1/2 / (5 - λ(e)), 1.18 in all; the peak
    /// lets 1/8 each through.
    #[test]
    fn flows_get_no_more_than_the_peak() {
        let latency =
            Latency { measured: vec![(0.0, 1.0), (0.5, 2.0), (0.99, 3.96)], queueing: 0.01 };
        let by_curve = 8.0 * 0.5 / (5.0 - 0.5 * (1.0 + 5.0_f64.sqrt()));
        assert!(by_curve > 1.1, "{by_curve}");
        let out = through_with(&[0.5; 8], &[own(0.0, 1.0); 8], &latency);
        assert!(out.iter().all(|out| (out - 0.125).abs() < 1e-12), "{out:?}");
    }

    /// Nobody waits longer alone than a stranger would, nor less than in an idle domain.
    #[test]
    fn a_flows_own_wait_is_no_longer_than_anothers() {
        for (stretched, ratio) in [(0.0, 1.0), (1.0, 1.0), (1.5, 1.5), (2.0, 2.0), (9.0, 2.0)] {
            assert_eq!(own(0.0, stretched).latency_ratio(2.0), ratio);
            assert_eq!(own(1.0, stretched).latency_ratio(2.0), 2.0);
        }
    }

    /// A memory that answers after 100 ns, after 150 from a fifth of its peak on: the queue of the least error, q = 0.18,
    /// would have 104 ns there and 154 at three quarters.
    #[test]
    fn a_measured_curve_is_what_counts_where_it_is_flat() {
        let curve = points(&[(10.0, 100.0), (200.0, 150.0), (750.0, 150.0)]);
        let latency = Latency::measured(&curve, 1000.0);
        assert!((latency.queueing - 0.179).abs() < 1e-3, "{}", latency.queueing);
        for (busy, ratio) in
            [(0.0, 1.0), (0.01, 1.0), (0.105, 1.25), (0.2, 1.5), (0.5, 1.5), (0.75, 1.5)]
        {
            assert!((latency.ratio(busy) - ratio).abs() < 1e-12, "{busy}: {}", latency.ratio(busy));
        }
        // Beside a stream at half of the peak a light flow waits half as long again, but for its own.
        let out = through(&[0.5, 1e-9], &latency);
        assert!((1e-9 / out[1] - 1.5).abs() < 1e-6, "{out:?}");
        // 0.75 and what the queue waits beyond that: never more than the peak.
        let busy: f64 = through(&[0.9, 0.9, 0.9], &latency).iter().sum();
        assert!(busy > 0.75 && busy < 1.0, "{busy}");
    }

    #[test]
    fn points_that_fall_are_taken_together() {
        let rising = never_falling(&[(0.1, 1.0), (0.2, 1.4), (0.3, 1.2), (0.4, 1.3), (0.5, 2.0)]);
        let expected = [(0.1, 1.0), (0.2, 1.3), (0.3, 1.3), (0.4, 1.3), (0.5, 2.0)];
        for (one, expected) in rising.iter().zip(expected) {
            assert!(one.0 == expected.0 && (one.1 - expected.1).abs() < 1e-12, "{rising:?}");
        }
        // Two at one place are one.
        assert_eq!(never_falling(&[(0.1, 1.0), (0.2, 1.2), (0.2, 1.4)]).len(), 2);
    }

    fn curve() -> impl proptest::strategy::Strategy<Value = Latency> {
        use proptest::strategy::Strategy;
        let points_of = proptest::collection::vec((1.0..1200.0f64, 50.0..400.0f64), 0..8);
        points_of.prop_map(|of| Latency::measured(&points(&of), 1000.0))
    }

    proptest::proptest! {
        #[test]
        fn latency_never_falls(latency in curve(), busy in 0.0..0.99f64, more in 0.0..0.009f64) {
            proptest::prop_assert!(latency.ratio(busy) >= 1.0 - 1e-12);
            proptest::prop_assert!(latency.ratio(busy + more) >= latency.ratio(busy) - 1e-9);
        }

        /// Where programs wait for themselves as the curve says, all that is busy is theirs.
        #[test]
        fn every_root_solves_the_equations(
            solo in proptest::collection::vec(1e-6..0.97f64, 1..20),
            latency in curve(),
        ) {
            let shared = through(&solo, &latency);
            let busy: f64 = shared.iter().sum();
            proptest::prop_assert!(busy > 0.0 && busy < 1.0);
            let load: f64 = solo.iter().map(|&one| one * latency.ratio(one)).sum();
            proptest::prop_assert!((busy * latency.ratio(busy) / load - 1.0).abs() <= 1e-6);
            for (&solo, &shared) in solo.iter().zip(&shared) {
                let expected = solo * latency.ratio(solo) * busy / load;
                proptest::prop_assert!((expected - shared).abs() <= 1e-9);
            }
        }

        /// The parts of a domain as idle as the flows' x says fill no more of it, and are what they get.
        #[test]
        fn parts_are_what_flows_get(
            flows in proptest::collection::vec((1e-3..0.97f64, 0.0..1.0f64, 0.5..5.0f64), 1..12),
            latency in curve(),
        ) {
            let solo: Vec<f64> = flows.iter().map(|flow| flow.0).collect();
            let own: Vec<OwnWait> = flows.iter().map(|flow| own(flow.1, flow.2)).collect();
            let shared = through_with(&solo, &own, &latency);
            proptest::prop_assert!(shared.iter().sum::<f64>() <= 1.0 + 1e-9);
            let waiting = || flows_of(&solo, &own, &latency);
            let lines = waiting().map(|flow| flow.lines).sum();
            let together = within_peak(waiting, latency.with_lines(lines));
            // The T of that x.
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..200 {
                let middle = 0.5 * (low + high);
                if latency.ratio(middle) <= together * (1.0 + 1e-12) {
                    low = middle
                } else {
                    high = middle
                }
            }
            let mut busy = 0.0;
            for ((&solo, &own), &shared) in solo.iter().zip(&own).zip(&shared) {
                let part = Loaded.part(solo, own, &latency, 1.0 - low).unwrap();
                proptest::prop_assert!((part.through - shared).abs() <= 1e-6 * solo);
                busy += part.busy;
            }
            proptest::prop_assert!(busy <= high * (1.0 + 1e-6), "{busy} {high}");
        }

        /// Beside nobody a flow keeps what it draws.
        #[test]
        fn beside_a_flow_of_nothing_all_is_as_alone(
            solo in 1e-6..0.97f64,
            foreseen in 0.0..1.0f64,
            stretched in 0.5..5.0f64,
            latency in curve(),
        ) {
            let own = own(foreseen, stretched);
            let out = through_with(&[solo, 0.0], &[own; 2], &latency);
            proptest::prop_assert!((out[0] / solo - 1.0).abs() <= 1e-9, "{out:?}");
            proptest::prop_assert_eq!(out[1], 0.0);
        }

        /// Whoever comes, nobody else gets more.
        #[test]
        fn another_flow_helps_nobody(
            solo in proptest::collection::vec(1e-6..0.95f64, 1..12),
            more in 1e-6..0.95f64,
            stretched in 0.5..5.0f64,
            foreseen in 0.0..1.0f64,
            latency in curve(),
        ) {
            let through = |solo: &[f64], latency: &Latency| {
                through_with(solo, &vec![own(foreseen, stretched); solo.len()], latency)
            };
            let before = through(&solo, &latency);
            let mut with = solo.clone();
            with.push(more);
            let after = through(&with, &latency);
            for (before, after) in before.iter().zip(&after) {
                proptest::prop_assert!(*after <= before * (1.0 + 1e-9));
            }
        }

        /// Whoever asks for more, or waits longer for itself, helps nobody else.
        #[test]
        fn more_demand_helps_nobody(
            flows in proptest::collection::vec((1e-3..0.9f64, 0.0..0.9f64, 0.5..4.0f64), 2..10),
            more in (0.0..0.07f64, 0.0..0.1f64, 0.0..1.0f64),
            latency in curve(),
        ) {
            let through = |flows: &[(f64, f64, f64)]| {
                let solo: Vec<f64> = flows.iter().map(|flow| flow.0).collect();
                let own: Vec<OwnWait> = flows.iter().map(|flow| own(flow.1, flow.2)).collect();
                through_with(&solo, &own, &latency)
            };
            let before = through(&flows);
            let mut with = flows.clone();
            with[0] = (with[0].0 + more.0, with[0].1 + more.1, with[0].2 + more.2);
            let after = through(&with);
            for (before, after) in before.iter().zip(&after).skip(1) {
                proptest::prop_assert!(*after <= before * (1.0 + 1e-9));
            }
        }
    }
}
