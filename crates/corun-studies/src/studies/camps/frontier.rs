//! What fairness costs: the fair policies by their unfairness factor, beside those that have none.

use corun_app::Result;
use rayon::prelude::*;

use super::big_little::{BigLittle, Member};
use super::mean;
use super::mixes::{Mixes, SOLO_S};
use crate::harness::{Figure, PaperClaim, StudyInputs};

/// Factors beyond 1, which the tables have.
const FACTORS: [f64; 4] = [1.1, 1.2, 1.35, 1.5];
const FAIR: [&str; 2] = ["acfs", "camps"];
/// Without a factor.
const OTHERS: [&str; 2] = ["rr", "equal-progress"];

/// Means over the mixes.
struct Point {
    policy: &'static str,
    factor: Option<f64>,
    unfairness: f64,
    asp: f64,
}

/// On the Juno's mixes.
pub(super) fn figure(inputs: &StudyInputs, juno: &Mixes) -> Result<(PaperClaim, Figure)> {
    let mut points: Vec<Point> = Vec::new();
    for policy in OTHERS {
        let (unfairness, asp) = juno.means_under(policy);
        points.push(Point { policy, factor: None, unfairness, asp });
    }
    let machine = BigLittle::new("juno-2b4s")?;
    for policy in FAIR {
        let (unfairness, asp) = juno.means_under(policy);
        points.push(Point { policy, factor: Some(1.0), unfairness, asp });
        for factor in FACTORS {
            let run = |(_, members): &(String, Vec<Member>)| {
                let parameters = [("unfairness-factor", factor)];
                machine.play(inputs, members, (policy, &parameters), inputs.length_s(SOLO_S))
            };
            let played = juno.mixes().par_iter().map(run).collect::<Result<Vec<_>>>()?;
            let unfairness = mean(&played.iter().map(|one| one.unfairness).collect::<Vec<_>>());
            let asp = mean(&played.iter().map(|one| one.asp).collect::<Vec<_>>());
            points.push(Point { policy, factor: Some(factor), unfairness, asp });
        }
    }
    Ok((finding(&points), drawn(&points)))
}

/// Of a fair policy's points that are as fair as equal-progress the one with most throughput.
fn finding(points: &[Point]) -> PaperClaim {
    let other = points.iter().find(|one| one.policy == "equal-progress");
    let best = |policy| {
        let fair = |one: &&Point| {
            one.policy == policy && other.is_some_and(|other| one.unfairness <= other.unfairness)
        };
        points.iter().filter(fair).max_by(|one, two| one.asp.total_cmp(&two.asp))
    };
    let words = |policy| match (best(policy), other) {
        (Some(point), Some(other)) => format!(
            "{policy} with a factor of {} has {:+.1} % ASP",
            point.factor.unwrap_or(1.0),
            100.0 * (point.asp / other.asp - 1.0)
        ),
        _ => format!("{policy} is less fair with every factor tried"),
    };
    PaperClaim::new(
        "As fair as equal-progress or fairer: throughput beside it, on the Juno's mixes",
        "CAMPS +3.3 % (Table 4.4, and fairer)",
        format!("{}; {}", words("camps"), words("acfs")),
    )
}

fn drawn(points: &[Point]) -> Figure {
    let about = "Means over Table 4.3's mixes. A policy is behind another if it is less fair and has less \
                 ASP: compare lines of like unfairness.";
    Figure::new("frontier", "What fairness costs, by the unfairness factor (juno-2b4s)", about)
        .rows("policy", points, |one| match one.factor {
            Some(factor) => format!("{}, {factor}", one.policy),
            None => one.policy.to_owned(),
        })
        .column("unfairness", 3, |one| one.unfairness)
        .column("ASP", 3, |one| one.asp)
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(policy: &'static str, factor: Option<f64>, unfairness: f64, asp: f64) -> Point {
        Point { policy, factor, unfairness, asp }
    }

    /// camps: of 1.2 and 1.3 unfairness the second has more ASP, 5.5 of 5; its third point is less fair than
    /// 1.4. acfs has no point as fair.
    #[test]
    fn only_points_as_fair_count() {
        let points = [
            point("equal-progress", None, 1.4, 5.0),
            point("camps", Some(1.0), 1.2, 5.1),
            point("camps", Some(1.1), 1.3, 5.5),
            point("camps", Some(1.2), 1.5, 6.0),
            point("acfs", Some(1.0), 1.5, 9.0),
        ];
        let claim = format!("{:?}", finding(&points));
        let expected =
            "camps with a factor of 1.1 has +10.0 % ASP; acfs is less fair with every factor tried";
        assert!(claim.contains(expected), "{claim}");
    }
}
