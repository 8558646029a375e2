//! Among placements of equal mean the one whose slowest programs are less slow.

use super::super::level::level;
use super::super::search::{Predicted, Situation};
use super::*;

/// Two LLCs of two cores have three pairings of four programs. Within each difference of the mean that is none, the
/// pairing of the lowest power mean is found; where the mean may not rise at all, the best mean stays.
#[test]
fn of_placements_of_equal_mean_the_most_level_is_found() {
    let predictor = predictor("xeon-x5365-2llc", &FOUR);
    let machine = predictor.model().machine().clone();
    let pairings = [[0, 1, 2, 3], [0, 2, 1, 3], [0, 2, 3, 1]];
    let values = pairings.map(|cpus| {
        let outcomes = outcomes(&*predictor, &FOUR, &cpus);
        (mean_slowdown(&outcomes), level(&outcomes))
    });
    let best = values.iter().map(|one| one.0).fold(f64::INFINITY, f64::min);
    let policy = policy(&predictor, &[]);
    let views = threads(&machine, &FOUR, &[0, 1, 2, 3]);
    let may = vec![true; 4];
    let known = views.iter().map(|view| Thread {
        worlds: Worlds::known(predictor.profiled(&view.program).unwrap()),
        may: may.clone(),
        moves_memory: true,
        process: view.process,
    });
    let known: Vec<Thread> = known.collect();
    let mut steps = 0;
    for tie in [0.0, 0.002, 0.02, 0.2] {
        let within = values.iter().filter(|one| one.0 <= best * (1.0 + tie));
        let least = within.map(|one| one.1).fold(f64::INFINITY, f64::min);
        for (cpus, value) in pairings.iter().zip(values) {
            if value.0 > best * (1.0 + tie) {
                continue;
            }
            let mut search = policy.search(predictor.model(), &known);
            let at: Predicted = search.predicted(Situation {
                cpus: cpus.to_vec(),
                homes: vec![Vec::new(); 4],
                masks: vec![0; 4],
            });
            let bounds = [f64::INFINITY; 4];
            let reached = search.leveled(at, best * (1.0 + tie), (&bounds, false));
            let reached = level(&reached.outcomes);
            assert!((reached / least - 1.0).abs() < 2e-3, "{tie} {cpus:?}: {reached} {least}");
            steps += usize::from(reached < value.1 * 0.999);
        }
    }
    assert!(steps > 0, "no pairing was left for another: {values:?}");
}
