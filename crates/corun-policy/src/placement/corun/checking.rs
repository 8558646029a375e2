//! Placements that are checked before they are taken up: threads go there and back a few times, and what they get done
//! is compared.
//!
//! A prediction that rests on estimated curves may be wrong in its sign. What threads get done there and here, moments
//! apart, says it without any curve: programs' phases last longer, and are the same on both sides. The threads change
//! places for a moment each interval, so that several phases are seen. The predicted gain and its error are what is
//! known before (a normal distribution); each visit and return makes it surer. The placement is taken up once the
//! gain is more than one standard deviation, and given up once it is less than wanted by as much, or is still open after
//! the most visits.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::{CpuSet, Machine};
use corun_model::Pace;

use super::Corun;
use super::objective::Objective;
use super::planning::Change;
use super::programs::Programs;
use super::search::{Predicted, Search, Thread};
use super::trial::{self, COUNTING_PART, Companions, Recent, SETTLING_PART};
use crate::{Action, Nanoseconds, Plan, ThreadId, ThreadView, View};

/// Visits before anything is decided, and at most.
const LEAST_VISITS: u32 = 4;
const MOST_VISITS: u32 = 24;
/// Standard deviations by which a gain is sure.
const SURE: f64 = 1.0;
/// Standard deviation of the logarithm of what a thread gets done here over there, before it was counted, and how many
/// visits that counts as.
const USUAL_NOISE: f64 = 0.1;
const USUAL_COUNT: f64 = 4.0;
/// The least error of a predicted gain: as a share of the objective, and of the gain.
const LEAST_ERROR: f64 = 0.005;
const LEAST_ERROR_PART: f64 = 0.5;
/// A predicted gain is checked where it is this often the least that a change must bring.
const WORTH_A_CHECK: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    ThereSettling,
    ThereCounting,
    BackSettling,
    BackCounting,
    /// Until the next visit.
    Resting,
}

impl Stage {
    fn is_there(self) -> bool {
        matches!(self, Self::ThereSettling | Self::ThereCounting)
    }
}

/// A thread of a check.
#[derive(Debug, Clone)]
struct Checked {
    id: ThreadId,
    program: String,
    /// CPU indices.
    here: usize,
    there: usize,
    /// Its slowdown here, predicted.
    slowdown: f64,
    /// Its memory traffic for a second's work of it alone, in bytes: here and there, predicted.
    bytes: [f64; 2],
    /// Instructions a second at the last visit.
    rate_there: Option<f64>,
    /// Of the logarithms of what it got done here over there: their number, mean and squares from the mean.
    pairs: f64,
    mean: f64,
    squares: f64,
}

impl Checked {
    /// Takes in its rate back here, against that at the visit before.
    fn add(&mut self, here: f64) {
        let Some(there) = self.rate_there.take().filter(|&there| there > 0.0 && here > 0.0) else {
            return;
        };
        let one = (here / there).ln();
        self.pairs += 1.0;
        let off = one - self.mean;
        self.mean += off / self.pairs;
        self.squares += off * (one - self.mean);
    }

    /// The variance of the mean.
    fn variance(&self) -> f64 {
        let known = USUAL_COUNT * USUAL_NOISE.powi(2) + self.squares;
        known / (USUAL_COUNT + self.pairs) / self.pairs.max(0.5)
    }
}

/// A placement that is being checked.
#[derive(Debug, Clone)]
struct Check {
    threads: Vec<Checked>,
    programs: Programs,
    stage: Stage,
    objective: Objective,
    /// What packages and cores draw above idle here and there, and each byte a second, in watts; none where the power
    /// is not known.
    power: Option<([f64; 2], f64)>,
    /// As predicted, less what the change costs.
    gain: f64,
    error: f64,
    visits: u32,
    interval_s: f64,
    is_abandoned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    TakeUp,
    GiveUp,
    Open,
}

impl Check {
    /// The objective where one thread's logarithm is off by so much; all of them: `there`, else here.
    fn value(&self, there: bool, off: Option<(usize, f64)>) -> f64 {
        let pace = |(place, one): (usize, &Checked)| {
            let by = off.filter(|(of, _)| *of == place).map_or(0.0, |(_, by)| by);
            let slower = if there { (one.mean + by).exp() } else { 1.0 };
            let slowdown = one.slowdown * slower;
            Pace { slowdown, bytes_per_s: one.bytes[usize::from(there)] / slowdown }
        };
        let paces: Vec<Pace> = self.threads.iter().enumerate().map(pace).collect();
        let above_idle_w = self.power.map(|(fixed_w, w_per_byte_per_s)| {
            let bytes_per_s: f64 = paces.iter().map(|one| one.bytes_per_s).sum();
            fixed_w[usize::from(there)] + w_per_byte_per_s * bytes_per_s
        });
        self.objective.value(&self.programs, &paces, above_idle_w)
    }

    /// Gain and its standard deviation by prediction and counts together: the product of two normal distributions.
    fn known(&self) -> (f64, f64) {
        let here = self.value(false, None);
        let there = self.value(true, None);
        let counted = 1.0 - there / here;
        let off = |(place, one): (usize, &Checked)| {
            let by = one.variance().sqrt();
            ((self.value(true, Some((place, by))) - there) / here).powi(2)
        };
        let variance: f64 = self.threads.iter().enumerate().map(off).sum();
        let share = self.error.powi(2) / (self.error.powi(2) + variance);
        (self.gain + share * (counted - self.gain), (share * variance).sqrt())
    }

    fn verdict(&self, least_gain: f64) -> Verdict {
        if self.visits < LEAST_VISITS {
            return Verdict::Open;
        }
        let (gain, error) = self.known();
        if gain >= least_gain.max(SURE * error) {
            Verdict::TakeUp
        } else if gain + SURE * error < least_gain || self.visits >= MOST_VISITS {
            Verdict::GiveUp
        } else {
            Verdict::Open
        }
    }

    /// Finds each thread again, by its program where it started anew and may run both here and there; none where others
    /// came or went.
    fn find(&mut self, machine: &Machine, running: &[&ThreadView]) -> Option<()> {
        if running.len() != self.threads.len() || self.is_abandoned {
            return None;
        }
        let known: Vec<ThreadId> = self.threads.iter().map(|one| one.id).collect();
        let mut new: Vec<&&ThreadView> =
            running.iter().filter(|thread| !known.contains(&thread.id)).collect();
        for one in &mut self.threads {
            if running.iter().all(|thread| thread.id != one.id) {
                let may = |thread: &ThreadView| {
                    let cpus = [one.here, one.there].map(|cpu| machine.cpus()[cpu].id);
                    cpus.into_iter().all(|cpu| thread.may_run_on.contains(cpu))
                };
                let mut new_ones = new.iter();
                let place =
                    new_ones.position(|thread| thread.program == one.program && may(thread))?;
                one.id = new.remove(place).id;
                one.rate_there = None;
            }
        }
        Some(())
    }

    /// Puts all threads where they are at this stage.
    fn place(&self, machine: &Machine, running: &[&ThreadView], plan: &mut Plan) {
        for one in &self.threads {
            let cpu = if self.stage.is_there() { one.there } else { one.here };
            let cpus: CpuSet = std::iter::once(machine.cpus()[cpu].id).collect();
            let Some(thread) = running.iter().find(|thread| thread.id == one.id) else { continue };
            if thread.allowed == cpus {
                continue;
            }
            let program = &one.program;
            let reason = if self.stage.is_there() {
                let percent = 100.0 * self.gain;
                format!("{program}: a visit, to see whether all gain {percent:.1} %, as predicted")
            } else {
                format!("{program}: back from a visit")
            };
            plan.push(Action::Allow { thread: one.id, cpus }, reason);
        }
    }

    /// Takes in what was counted, and what comes next.
    fn next(&mut self, running: &[&ThreadView]) -> Stage {
        let rate = |id: ThreadId| {
            let thread = running.iter().find(|thread| thread.id == id)?;
            thread.rates.instructions_per_s
        };
        match self.stage {
            Stage::ThereSettling => Stage::ThereCounting,
            Stage::ThereCounting => {
                self.threads.iter_mut().for_each(|one| one.rate_there = rate(one.id));
                Stage::BackSettling
            }
            Stage::BackSettling => Stage::BackCounting,
            Stage::BackCounting => {
                for one in &mut self.threads {
                    if let Some(here) = rate(one.id) {
                        one.add(here);
                    }
                }
                self.visits += 1;
                Stage::Resting
            }
            Stage::Resting => Stage::ThereSettling,
        }
    }

    /// Who would be together on each LLC that changes.
    fn companions(&self, machine: &Machine) -> Companions {
        let places = self.threads.iter().map(|one| (one.program.as_str(), one.here, one.there));
        companions(machine, places)
    }
}

/// The check that is on, and placements that were given up.
#[derive(Debug, Default)]
pub(super) struct Checks {
    now: Option<Check>,
    given_up: Recent<Companions>,
}

impl Checks {
    /// How long until the next look; none where it is as far off as ever.
    pub(super) fn next_interval(&self) -> Option<Nanoseconds> {
        let check = self.now.as_ref()?;
        let part = match check.stage {
            Stage::ThereSettling | Stage::BackSettling => SETTLING_PART,
            Stage::ThereCounting | Stage::BackCounting => COUNTING_PART,
            Stage::Resting => return None,
        };
        Some(Nanoseconds::from_secs_f64((part * check.interval_s).max(1e-6)))
    }

    pub(super) fn is_on(&self) -> bool {
        self.now.is_some()
    }

    /// Was what threads counted last counted on a visit, or just after one?
    pub(super) fn is_visiting(&self) -> bool {
        self.now.as_ref().is_some_and(|one| one.stage != Stage::Resting)
    }

    /// A thread is not where the check wants it.
    pub(super) fn abandon(&mut self) {
        if let Some(check) = &mut self.now {
            check.is_abandoned = true;
        }
    }
}

/// What a step of a check leaves to do.
pub(super) enum Checking {
    /// This plan, and nothing else.
    Busy(Plan),
    /// The placement passed: a CPU (index) for each thread.
    Passed(BTreeMap<ThreadId, usize>),
    /// No check is on, or it has ended.
    Off(Plan),
}

impl Corun {
    /// Is a placement checked before it is taken up? One that rests on estimates, for which no page moves and no LLC
    /// is divided, and where no two threads share a CPU yet.
    pub(super) fn wants_check(
        &self,
        search: &Search<'_>,
        from: &Predicted,
        to: &Predicted,
    ) -> bool {
        let is_whole = |at: &Predicted| at.situation.masks.iter().all(|&mask| mask == 0);
        let here: BTreeSet<usize> = from.situation.cpus.iter().copied().collect();
        self.trials.of_ways()
            && !search.are_known()
            && from.situation.cpus != to.situation.cpus
            && here.len() == from.situation.cpus.len()
            && from.situation.homes == to.situation.homes
            && is_whole(from)
            && is_whole(to)
    }

    pub(super) fn least_gain_to_check(&self) -> f64 {
        WORTH_A_CHECK * self.least_gain
    }

    /// Was a placement given up of late?
    pub(super) fn was_given_up(
        &self,
        view: &View<'_>,
        running: &[&ThreadView],
        (from, to): (&Predicted, &Predicted),
    ) -> bool {
        let cpus = from.situation.cpus.iter().zip(&to.situation.cpus);
        let places = running.iter().zip(cpus);
        let places = places.map(|(one, (&here, &there))| (one.program.as_str(), here, there));
        self.checks.given_up.has(&companions(view.machine, places), view.now)
    }

    /// Goes to a placement for its first visit.
    pub(super) fn begin_check(
        &mut self,
        machine: &Machine,
        running: &[&ThreadView],
        search: &mut Search<'_>,
        change: &Change,
        plan: &mut Plan,
    ) {
        let Change { from, to, share } = change;
        let predicted = search.gain(from, to);
        let checked = |(index, thread): (usize, &&ThreadView)| Checked {
            id: thread.id,
            program: thread.program.clone(),
            here: from.situation.cpus[index],
            there: to.situation.cpus[index],
            slowdown: from.outcomes[index].slowdown,
            bytes: [from, to]
                .map(|at| at.outcomes[index].bytes_per_s * at.outcomes[index].slowdown),
            rate_there: None,
            pairs: 0.0,
            mean: 0.0,
            squares: 0.0,
        };
        let check = Check {
            threads: running.iter().enumerate().map(checked).collect(),
            programs: Programs::of(running.iter().map(|thread| thread.process)),
            stage: Stage::ThereSettling,
            objective: self.objective,
            power: machine.power().map(|power| {
                let fixed_w = [from, to].map(|at| {
                    let (packages, cores) = machine.busy(at.situation.cpus.iter().copied());
                    power.above_idle_w(packages, cores, 0.0)
                });
                (fixed_w, power.above_idle_w(0, 0, 1.0))
            }),
            gain: predicted.likely - share,
            error: predicted.error.max(LEAST_ERROR).max(LEAST_ERROR_PART * predicted.likely),
            visits: 0,
            interval_s: self.interval_s(machine),
            is_abandoned: false,
        };
        check.place(machine, running, plan);
        self.held.extend(running.iter().map(|thread| thread.id));
        self.checks.now = Some(check);
    }

    /// The next step of the check that is on.
    pub(super) fn check(
        &mut self,
        machine: &Machine,
        now: Nanoseconds,
        running: &[&ThreadView],
    ) -> Checking {
        let mut plan = Plan::none();
        let Some(mut check) = self.checks.now.take() else { return Checking::Off(plan) };
        if check.find(machine, running).is_none() {
            check.stage = Stage::BackSettling;
            check.place(machine, running, &mut plan);
            return Checking::Off(plan);
        }
        self.held.extend(running.iter().map(|thread| thread.id));
        let stage = check.next(running);
        if stage == Stage::Resting {
            match check.verdict(self.least_gain) {
                Verdict::Open => {}
                Verdict::TakeUp => {
                    let places = check.threads.iter().map(|one| (one.id, one.there));
                    return Checking::Passed(places.collect());
                }
                Verdict::GiveUp => {
                    self.checks.given_up.add(check.companions(machine), now);
                    return Checking::Off(plan);
                }
            }
        }
        check.stage = stage;
        check.place(machine, running, &mut plan);
        self.checks.now = Some(check);
        Checking::Busy(plan)
    }

    /// Takes up a placement that passed its check.
    pub(super) fn take_up(
        &mut self,
        view: &View<'_>,
        running: &[&ThreadView],
        threads: &[Thread],
        model: &corun_model::Model,
        places: &BTreeMap<ThreadId, usize>,
    ) -> Plan {
        let mut plan = Plan::none();
        let Some(now) = self.situation(view.machine, running, &self.parts.decided) else {
            return plan;
        };
        let mut to = now.clone();
        for (cpu, thread) in to.cpus.iter_mut().zip(running) {
            *cpu = places.get(&thread.id).copied().unwrap_or(*cpu);
        }
        let mut search = self.search(model, threads);
        let (from, to) = (search.predicted(now), search.predicted(to));
        self.steps(view, running, (&from, &to), &mut plan);
        self.settled = None;
        plan
    }
}

/// Who would be together on each LLC that somebody comes to or leaves, of all threads their programs and the CPUs here and
/// there.
fn companions<'a>(
    machine: &Machine,
    places: impl Iterator<Item = (&'a str, usize, usize)> + Clone,
) -> Companions {
    let moved = places.clone().filter(|(_, here, there)| here != there);
    let llcs = moved.flat_map(|(_, here, there)| [here, there].map(|cpu| machine.cpus()[cpu].llc));
    trial::companions(machine, &llcs.collect(), places.map(|(program, _, there)| (program, there)))
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    fn checked(program: &str, here: usize, there: usize, slowdown: f64) -> Checked {
        Checked {
            id: ThreadId(here as u64),
            program: program.to_owned(),
            here,
            there,
            slowdown,
            bytes: [0.0; 2],
            rate_there: None,
            pairs: 0.0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    fn check(threads: Vec<Checked>, gain: f64, error: f64) -> Check {
        Check {
            programs: Programs::of_one_thread(threads.len()),
            threads,
            stage: Stage::Resting,
            objective: Objective::of(0.0, 0.0),
            power: None,
            gain,
            error,
            visits: 0,
            interval_s: 0.4,
            is_abandoned: false,
        }
    }

    fn visit(check: &mut Check, there_over_here: &[f64]) {
        for (one, by) in check.threads.iter_mut().zip(there_over_here) {
            one.rate_there = Some(2e9 * by);
            one.add(2e9);
        }
        check.visits += 1;
    }

    /// Slowdowns 1.2 and 1.2; the first gets 1.25 times as much done there, the second as much: 1.2 (0.8 + 1) / 2 =
    /// 1.08, a gain of a tenth. Each logarithm has a variance of (4 x 0.01 + 0) / (4 + 4) / 4 = 0.00125, which moves the
    /// objective by half of its own share: to first order (0.4^2 + 0.5^2) 0.00125 = 0.0005125. With a prediction of no
    /// gain that may be off by as much, half of it is believed.
    #[test]
    fn prediction_and_counts_are_weighed_as_worked_by_hand() {
        let mut one = check(vec![checked("a", 0, 2, 1.2), checked("b", 2, 0, 1.2)], 0.0, 0.02264);
        (0..4).for_each(|_| visit(&mut one, &[1.25, 1.0]));
        let (gain, error) = one.known();
        assert!((gain - 0.05).abs() < 0.001, "{gain}");
        assert!((error - 0.5_f64.sqrt() * 0.02264).abs() < 0.0005, "{error}");
        assert_eq!(one.verdict(0.002), Verdict::TakeUp);
    }

    /// Two threads at 1.0 that come together on one package of two: 30 W of 60 fall away, and both are half as fast as
    /// here, with half the traffic, 4 W of 8. Energy: (30 + 10 + 4) / 1 of (60 + 10 + 8) / 2 J.
    #[test]
    fn the_power_of_both_sides_is_weighed() {
        let mut one = check(vec![checked("a", 0, 1, 1.0), checked("b", 4, 2, 1.0)], 0.0, 1e9);
        one.objective = Objective::of(3.0, 0.0);
        one.power = Some(([70.0, 40.0], 4e-9));
        one.threads.iter_mut().for_each(|thread| thread.bytes = [1e9; 2]);
        (0..4).for_each(|_| visit(&mut one, &[0.5, 0.5]));
        assert!((one.value(false, None) - 39.0).abs() < 1e-9);
        assert!((one.value(true, None) - 44.0).abs() < 1e-9);
        // Counts alone are believed.
        assert!((one.known().0 - (1.0 - 44.0 / 39.0)).abs() < 1e-6);
    }

    /// A gain of 2 % is predicted, and both are a tenth slower there.
    #[test]
    fn a_placement_that_does_worse_is_given_up() {
        let mut one = check(vec![checked("a", 0, 2, 1.1), checked("b", 2, 0, 1.1)], 0.02, 0.01);
        (0..3).for_each(|_| visit(&mut one, &[0.9, 0.9]));
        assert_eq!(one.verdict(0.002), Verdict::Open, "too few visits");
        (0..9).for_each(|_| visit(&mut one, &[0.9, 0.9]));
        assert_eq!(one.verdict(0.002), Verdict::GiveUp, "{:?}", one.known());
    }

    /// Nothing is told apart: it is given up at the most visits.
    #[test]
    fn a_placement_that_is_not_better_is_given_up_in_the_end() {
        let mut one = check(vec![checked("a", 0, 2, 1.1), checked("b", 2, 0, 1.1)], 0.004, 0.005);
        for number in 0..MOST_VISITS {
            let by = if number % 2 == 0 { 1.1 } else { 1.0 / 1.1 };
            visit(&mut one, &[by, by]);
        }
        assert_eq!(one.verdict(0.01), Verdict::GiveUp, "{:?}", one.known());
    }

    /// On two LLCs of two CPUs, b and c change places.
    #[test]
    fn companions_are_those_on_llcs_that_change() {
        let machine = preset("xeon-x5365").unwrap();
        let llc = |cpu: usize| machine.cpus()[cpu].llc;
        let on = |of: usize, nth: usize| (0..8).filter(|&cpu| llc(cpu) == of).nth(nth).unwrap();
        let (a, b, c, d, e) = (on(0, 0), on(0, 1), on(1, 0), on(1, 1), on(2, 0));
        let places = [("a", a, a), ("b", b, c), ("c", c, b), ("d", d, d), ("e", e, e)];
        let together = companions(&machine, places.into_iter());
        assert_eq!(together, [["a", "c"], ["b", "d"]]);
    }
}
