//! What a decision makes small.

use corun_machine::Machine;
use corun_metrics as metrics;
use corun_model::Pace;

use super::programs::{Programs, STEEP};

/// What each share by which a program exceeds the target slowdown counts as, in the objective's unit: more than
/// any of the other terms can gain. For energies, whose unit is the joule, in parts of the energy.
const EXCESS: f64 = 10.0;

/// What is made small, and the slowdown that nobody shall exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Objective {
    kind: Kind,
    /// 0: none.
    target: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MeanSlowdown,
    WorstSlowdown,
    Unfairness,
    Energy,
    EnergyDelay,
}

impl Objective {
    /// By the policy's parameters.
    pub(super) fn of(kind: f64, target: f64) -> Self {
        let kind = match kind as u32 {
            0 => Kind::MeanSlowdown,
            1 => Kind::WorstSlowdown,
            2 => Kind::Unfairness,
            3 => Kind::Energy,
            _ => Kind::EnergyDelay,
        };
        Self { kind, target }
    }

    /// Does it ask what the machine draws?
    pub(super) fn is_of_power(self) -> bool {
        matches!(self.kind, Kind::Energy | Kind::EnergyDelay)
    }

    /// Its value for threads of programs on CPUs (indices) of a machine.
    pub(super) fn value_at(
        self,
        machine: &Machine,
        programs: &Programs,
        cpus: &[usize],
        paces: &[Pace],
    ) -> f64 {
        let above_idle_w = if self.is_of_power() {
            let bytes_per_s = paces.iter().map(|pace| pace.bytes_per_s).sum();
            machine.power_above_idle_w(cpus.iter().copied(), bytes_per_s)
        } else {
            None
        };
        self.value(programs, paces, above_idle_w)
    }

    /// Its value for programs whose threads are so much slower than alone, on a machine that draws so many watts above idle;
    /// infinite where that is asked for and not known. Energy is for the work of all threads. Of several that are equally
    /// unfair or slow at worst the one with the lower mean is better by a thousandth of it. What exceeds the target comes
    /// first.
    pub(super) fn value(
        self,
        programs: &Programs,
        threads: &[Pace],
        above_idle_w: Option<f64>,
    ) -> f64 {
        let of_threads = || threads.iter().map(|pace| pace.slowdown);
        let paces = programs.paces(threads);
        let slowdowns = || paces.iter().map(|pace| pace.slowdown);
        let mean = slowdowns().sum::<f64>() / paces.len().max(1) as f64;
        let most = slowdowns().fold(0.0, f64::max);
        let energy = |of: fn(f64, &[f64]) -> Option<f64>| {
            let slowdowns: Vec<f64> = of_threads().collect();
            above_idle_w.and_then(|watts| of(watts, &slowdowns)).unwrap_or(f64::INFINITY)
        };
        let value = match self.kind {
            Kind::MeanSlowdown => mean,
            Kind::WorstSlowdown => of_threads().fold(0.0, f64::max) + 1e-3 * mean,
            Kind::Unfairness => most / slowdowns().fold(f64::INFINITY, f64::min) + 1e-3 * mean,
            Kind::Energy => energy(metrics::energy_per_work_j),
            Kind::EnergyDelay => energy(metrics::energy_delay_per_work_j),
        };
        if self.target <= 0.0 {
            return value;
        }
        let beyond = of_threads().map(|one| (one / self.target - 1.0).max(0.0));
        if self.is_of_power() {
            // A package that sleeps saves half of the energy and more: each program beyond the target counts as all of it.
            let beyond = beyond.filter(|&share| share > 0.0);
            return value * (1.0 + beyond.map(|share| 1.0 + EXCESS * share).sum::<f64>());
        }
        value + EXCESS * beyond.sum::<f64>()
    }

    /// What more speed of a program is worth where it had this share of its speed alone on average so far: by how much the
    /// objective falls. Of the mean slowdown, the mean of 1 / speed, it is 1 / speed^2. For the worst, and for unfairness, the mean of the
    /// slowdowns to the power [`STEEP`] stands in, which the worst dominates. Beyond the target it is worth ten times as much.
    pub(super) fn worth_of_speed(self, speed: f64) -> f64 {
        let slowdown = 1.0 / speed;
        let worth = match self.kind {
            Kind::WorstSlowdown | Kind::Unfairness => slowdown.powi(STEEP + 1),
            Kind::MeanSlowdown | Kind::Energy | Kind::EnergyDelay => slowdown.powi(2),
        };
        if self.target > 0.0 && slowdown > self.target { EXCESS * worth } else { worth }
    }

    /// The slowdown that nobody shall exceed; none: no such was asked for.
    pub(super) fn target(self) -> Option<f64> {
        (self.target > 0.0).then_some(self.target)
    }

    /// Who is slower than the target, by place.
    pub(super) fn slower(self, paces: &[Pace]) -> Vec<usize> {
        let Some(target) = self.target() else { return Vec::new() };
        (0..paces.len()).filter(|&place| paces[place].slowdown > target).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An objective's value for programs of one thread.
    fn value(objective: Objective, paces: &[Pace]) -> f64 {
        objective.value(&Programs::of_one_thread(paces.len()), paces, None)
    }

    /// The same for programs that draw power.
    fn value_at(objective: Objective, machine: &Machine, cpus: &[usize], paces: &[Pace]) -> f64 {
        objective.value_at(machine, &Programs::of_one_thread(paces.len()), cpus, paces)
    }

    fn paces(slowdowns: &[f64]) -> Vec<Pace> {
        slowdowns.iter().map(|&slowdown| Pace { slowdown, bytes_per_s: 0.0 }).collect()
    }

    #[test]
    fn each_objective_is_the_one_worked_by_hand() {
        let three = paces(&[1.0, 1.5, 2.0]);
        assert_eq!(value(Objective::of(0.0, 0.0), &three), 1.5);
        assert!((value(Objective::of(1.0, 0.0), &three) - 2.0015).abs() < 1e-12);
        assert!((value(Objective::of(2.0, 0.0), &three) - 2.0015).abs() < 1e-12);
    }

    /// Threads 0 and 1 are one program, which is nearly as slow as the slower: (2^8 / 2 + 1 / 2)^(1/8) = 1.8348. The worst is a
    /// thread's, and no thread may exceed the target.
    #[test]
    fn programs_count_and_of_the_worst_their_threads() {
        let three = paces(&[1.0, 2.0, 1.5]);
        let programs = Programs::of([0, 0, 1].map(crate::ProcessId).into_iter());
        let value =
            |kind: f64, target: f64| Objective::of(kind, target).value(&programs, &three, None);
        let program = 128.5_f64.powf(0.125);
        let mean = f64::midpoint(program, 1.5);
        assert!((value(0.0, 0.0) - mean).abs() < 1e-12);
        assert!((value(1.0, 0.0) - (2.0 + 1e-3 * mean)).abs() < 1e-12);
        assert!((value(2.0, 0.0) - (program / 1.5 + 1e-3 * mean)).abs() < 1e-12);
        // 2.0 is beyond 1.9 by 1/19.
        assert!((value(0.0, 1.9) - (mean + 10.0 / 19.0)).abs() < 1e-12);
    }

    /// Beyond 1.25: 1.5 by 20 % and 2.0 by 60 %. A placement in which fewer are beyond the target is better,
    /// whatever the mean.
    #[test]
    fn what_exceeds_the_target_comes_first() {
        let objective = Objective::of(0.0, 1.25);
        let three = paces(&[1.0, 1.5, 2.0]);
        assert!((value(objective, &three) - (1.5 + 10.0 * 0.8)).abs() < 1e-12);
        assert_eq!(objective.slower(&three), [1, 2]);
        let level = paces(&[1.25, 1.25, 1.25]);
        assert_eq!(value(objective, &level), 1.25);
        assert!(objective.slower(&level).is_empty());
        assert!(value(objective, &level) < value(objective, &paces(&[1.0, 1.0, 1.3])));
        assert!(Objective::of(0.0, 0.0).slower(&three).is_empty());
    }
    /// Two programs at 1.0 and 2.0 do 1.5 seconds' work a second. On the cores of one package of the Xeon X5365 with 1e9
    /// bytes a second they draw 41.9 + 2 x 5 + 8.1 = 60 W: 40 J. On two packages it is 101.9 W.
    #[test]
    fn energies_are_the_ones_worked_by_hand() {
        let machine = corun_machine::preset("xeon-x5365").unwrap();
        let package = |of: usize| {
            let cpus = machine.cpus().iter().enumerate();
            cpus.filter(move |(_, cpu)| cpu.package == of).map(|(index, _)| index)
        };
        let mut two = paces(&[1.0, 2.0]);
        two[0].bytes_per_s = 1e9;
        let together: Vec<usize> = package(0).take(2).collect();
        let apart: Vec<usize> = package(0).take(1).chain(package(1).take(1)).collect();
        let [energy, product] = [3.0, 4.0].map(|kind| Objective::of(kind, 0.0));
        assert!((value_at(energy, &machine, &together, &two) - 40.0).abs() < 1e-9);
        assert!((value_at(energy, &machine, &apart, &two) - 101.9 / 1.5).abs() < 1e-9);
        assert!((value_at(product, &machine, &together, &two) - 40.0 * 2.0 / 1.5).abs() < 1e-9);
        // Beyond a target of 1.6 by a quarter: 40 (1 + 1 + 10 x 0.25).
        let bound = Objective::of(3.0, 1.6);
        assert!((value_at(bound, &machine, &together, &two) - 180.0).abs() < 1e-9);
        let mut level = paces(&[1.6, 1.6]);
        level[0].bytes_per_s = 1e9;
        assert!((value_at(bound, &machine, &together, &level) - 48.0).abs() < 1e-9);
        // Where it is not known what the machine draws nothing is worth anything.
        let unknown = corun_machine::preset("opteron-2350").unwrap();
        assert_eq!(value_at(energy, &unknown, &[0, 1], &two), f64::INFINITY);
    }
}
