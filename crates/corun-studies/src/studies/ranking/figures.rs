//! From runs to a table for each machine, and one for all.

use corun_report::counted;

use super::BASELINE;
use super::runs::{MixResult, Suffered};
use crate::harness::{Estimate, Figure};

/// The row of the best placements by phase.
const BY_MOMENT: &str = "best of each moment";

/// All policies on one machine, or on all.
pub(super) struct Ranked {
    machine: String,
    about: String,
    rows: Vec<Row>,
}

/// What a policy loses against the optimum, in percent.
struct Row {
    policy: String,
    mixes: usize,
    /// Over mixes, of the mean slowdown; half the width of its 95 % interval.
    mean: f64,
    interval: Option<f64>,
    /// Of the slowest program.
    worst: Option<f64>,
    unfairness: Option<f64>,
    /// Share of what the kernel's scheduler leaves, 100 at the optimum.
    of_room: Option<f64>,
    /// The mix that does worst against the kernel's scheduler.
    behind_default: Option<f64>,
}

/// The policies in their order, on all machines but one and then on each.
pub(super) fn rank(policies: &[&str], results: &[MixResult], but: &str) -> Vec<Ranked> {
    let mut machines: Vec<&str> = Vec::new();
    for result in results {
        if !machines.contains(&&*result.machine) {
            machines.push(&result.machine);
        }
    }
    let mut ranked: Vec<Ranked> = machines
        .iter()
        .map(|&machine| {
            let own: Vec<&MixResult> =
                results.iter().filter(|result| result.machine == machine).collect();
            Ranked::of(machine, policies, &own)
        })
        .collect();
    machines.retain(|machine| *machine != but);
    if machines.len() > 1 {
        let all: Vec<&MixResult> = results.iter().filter(|one| one.machine != but).collect();
        ranked.insert(0, Ranked::of("all machines of several LLCs", policies, &all));
    }
    ranked
}

/// The loss of each policy on each mix of a machine, in percent: a row for a mix.
pub(super) fn by_mix(policies: &[&str], results: &[MixResult]) -> Vec<Figure> {
    let mut machines: Vec<&str> = results.iter().map(|one| one.machine.as_str()).collect();
    machines.dedup();
    let row = |result: &MixResult| {
        let loss = |policy: &Option<Suffered>| match policy {
            Some(one) => format!("{:.2}", 100.0 * (one.mean / result.best.held.mean - 1.0)),
            None => "-".to_owned(),
        };
        let by_moment = format!("{:.2}", 100.0 * (result.best.moments.best_over_held() - 1.0));
        std::iter::once(result.programs.join(" "))
            .chain(result.by_policy.iter().map(loss))
            .chain([by_moment])
            .collect()
    };
    let figure = |machine: &&str| {
        let mut figure = Figure::new(
            format!("mixes-of-{machine}"),
            format!("Each mix on {machine}"),
            "Loss of the mean slowdown against the best placement held throughout, in %.",
        );
        let header = std::iter::once("mix").chain(policies.iter().copied()).chain([BY_MOMENT]);
        figure.header = header.map(str::to_owned).collect();
        let own = results.iter().filter(|one| one.machine == **machine);
        figure.rows = own.map(row).collect();
        figure
    };
    machines.iter().map(figure).collect()
}

impl Ranked {
    fn of(machine: &str, policies: &[&str], results: &[&MixResult]) -> Self {
        let baseline = policies.iter().position(|&policy| policy == BASELINE);
        let row = |(place, policy): (usize, &&str)| Row::of(policy, place, baseline, results);
        let rows = policies.iter().enumerate().filter_map(row);
        let rows = rows.chain([Row::by_moment(baseline, results)]).collect();
        let proven = results.iter().filter(|result| result.best.is_proven).count();
        let moments = results.iter().filter(|result| result.best.moments.is_proven).count();
        let about = format!(
            "{}; of {proven} all best placements are proven. Room: how much of the way from the kernel's \
             scheduler to the best placement a policy goes. Best of each moment: the best placement for the phases of \
             a moment, with moves for nothing, over the one held throughout, by the model and on average over moments; \
             of {moments} the best of all moments are proven, of the others it is a bound.",
            counted(results.len(), "mix")
        );
        Self { machine: machine.to_owned(), about, rows }
    }

    pub(super) fn figure(&self) -> Figure {
        let id = self.machine.replace(' ', "-");
        Figure::new(id, format!("On {}", self.machine), self.about.clone())
            .rows("policy", &self.rows, |row| row.policy.clone())
            .column("mixes", 0, |row| row.mixes as f64)
            .column("loss %", 2, |row| row.mean)
            .drawn("mean slowdown")
            .column("+-", 2, |row| row.interval)
            .column("worst program's %", 2, |row| row.worst)
            .drawn("worst program")
            .column("unfairness %", 2, |row| row.unfairness)
            .column("of the room %", 0, |row| row.of_room)
            .column("worst mix vs default %", 2, |row| row.behind_default)
            .bars(0.0, "% above the best placement")
    }
}

/// How much of the way from the default's loss to none; none where there is no way to go.
fn of_room(default: f64, loss: f64) -> Option<f64> {
    (default > 0.01).then(|| 100.0 * (default - loss) / default)
}

impl Row {
    fn of(
        policy: &str,
        place: usize,
        baseline: Option<usize>,
        results: &[&MixResult],
    ) -> Option<Self> {
        let of = |result: &&MixResult| {
            Some((result.best.held, result.by_policy[place]?, result.by_policy[baseline?]))
        };
        let own: Vec<(Suffered, Suffered, Option<Suffered>)> =
            results.iter().filter_map(of).collect();
        let over = |figure: fn(&Suffered) -> f64| -> Vec<f64> {
            own.iter().map(|(best, one, _)| 100.0 * (figure(one) / figure(best) - 1.0)).collect()
        };
        let mean = |values: &[f64]| corun_metrics::mean(values);
        let losses = over(|one| one.mean);
        let default: Vec<f64> = own
            .iter()
            .filter_map(|(best, _, default)| {
                Some(100.0 * (default.as_ref()?.mean / best.mean - 1.0))
            })
            .collect();
        let behind = own.iter().filter_map(|(_, one, default)| {
            Some(100.0 * (one.mean / default.as_ref()?.mean - 1.0))
        });
        let (loss, default) = (mean(&losses)?, mean(&default)?);
        Some(Self {
            policy: policy.to_owned(),
            mixes: own.len(),
            mean: loss,
            interval: Estimate::of(&losses).interval,
            worst: Some(mean(&over(|one| one.worst))?),
            unfairness: Some(mean(&over(|one| one.unfairness))?),
            of_room: of_room(default, loss),
            behind_default: behind.reduce(f64::max),
        })
    }

    /// What the best placement of each moment gains on the one held throughout, as a loss below 0.
    fn by_moment(baseline: Option<usize>, results: &[&MixResult]) -> Self {
        let losses: Vec<f64> =
            results.iter().map(|one| 100.0 * (one.best.moments.best_over_held() - 1.0)).collect();
        let Estimate { mean, interval } = Estimate::of(&losses);
        let default = baseline.and_then(|place| Self::of(BASELINE, place, baseline, results));
        Self {
            policy: BY_MOMENT.to_owned(),
            mixes: results.len(),
            mean,
            interval,
            worst: None,
            unfairness: None,
            of_room: default.and_then(|one| of_room(one.mean, mean)),
            behind_default: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::moments::Moments;
    use super::super::runs::Best;
    use super::*;

    fn suffered(mean: f64) -> Suffered {
        Suffered { mean, worst: 2.0 * mean, unfairness: mean }
    }

    fn result(machine: &str, best: f64, default: f64, other: Option<f64>) -> MixResult {
        MixResult {
            machine: machine.to_owned(),
            programs: vec!["p".to_owned(), "q".to_owned()],
            best: Best {
                held: suffered(best),
                is_proven: true,
                moments: Moments { held: 1.25, best: 1.0, is_proven: true },
            },
            by_policy: vec![Some(suffered(default)), other.map(suffered)],
        }
    }

    /// Two mixes: the optimum 1, the default 1.2 and 1.1, the policy 1.1 and 1.12. The policy's loss is 11 %
    /// where the default's is 15 %, so it goes 4 / 15 of the way; on the second mix it is 1.8 % behind.
    #[test]
    fn losses_room_and_the_worst_mix_are_those_worked_by_hand() {
        let results = [result("a", 1.0, 1.2, Some(1.1)), result("a", 1.0, 1.1, Some(1.12))];
        let ranked = rank(&["linux-default", "x"], &results, "one");
        assert_eq!(ranked.len(), 1);
        let [default, other, by_moment] = &ranked[0].rows[..] else { panic!("two policies, and the best") };
        assert!((default.mean - 15.0).abs() < 1e-9 && default.of_room.unwrap().abs() < 1e-9);
        assert!((other.mean - 11.0).abs() < 1e-9 && (other.worst.unwrap() - 11.0).abs() < 1e-9);
        assert!((other.of_room.unwrap() - 100.0 * 4.0 / 15.0).abs() < 1e-9);
        assert!((other.behind_default.unwrap() - 100.0 * (1.12 / 1.1 - 1.0)).abs() < 1e-9);
        // 1 / 1.25 - 1 = -20 %, which is 20 / 15 of the way beyond the best that is held.
        assert!((by_moment.mean + 20.0).abs() < 1e-9 && by_moment.worst.is_none());
        assert!((by_moment.of_room.unwrap() - 100.0 * 35.0 / 15.0).abs() < 1e-9);
        // Losses of 10 and 12: a standard error of 1, one degree of freedom.
        assert!((other.interval.unwrap() - 12.706).abs() < 1e-6);
    }

    #[test]
    fn a_policy_that_is_not_for_a_machine_is_left_out_there_and_all_machines_come_first() {
        let results = [
            result("a", 1.0, 1.2, Some(1.1)),
            result("b", 1.0, 1.2, None),
            result("one", 1.0, 1.0, Some(1.0)),
        ];
        let ranked = rank(&["linux-default", "x"], &results, "one");
        let names: Vec<(&str, usize)> =
            ranked.iter().map(|one| (one.machine.as_str(), one.rows.len())).collect();
        assert_eq!(names, [("all machines of several LLCs", 3), ("a", 3), ("b", 2), ("one", 3)]);
        let of_all = |place: usize| ranked[0].rows[place].mixes;
        assert_eq!([of_all(0), of_all(1)], [2, 1]);
    }

    /// The optimum 1 and 2: losses of 20 and 50 %, and no figure where a policy is not for the machine.
    #[test]
    fn each_mix_has_a_row_and_each_machine_a_figure() {
        let results = [
            result("a", 1.0, 1.2, Some(1.1)),
            result("b", 2.0, 3.0, None),
            result("b", 1.0, 1.0, Some(1.0)),
        ];
        let figures = by_mix(&["linux-default", "x"], &results);
        let rows: Vec<&[Vec<String>]> = figures.iter().map(|one| one.rows.as_slice()).collect();
        assert_eq!(rows, [
                &[["p q", "20.00", "10.00", "-20.00"]][..],
                &[["p q", "50.00", "-", "-20.00"], ["p q", "0.00", "0.00", "-20.00"]]
            ]);
        assert_eq!(figures[1].header, ["mix", "linux-default", "x", BY_MOMENT]);
    }
}
