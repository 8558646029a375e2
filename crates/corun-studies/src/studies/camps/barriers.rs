//! Programs whose threads wait for each other in loops, with and without spin notification (section 4.3.5):
//! Table 4.5's mixes with programs of several threads.

use corun_app::Result;
use corun_profile::{Barrier, Waiting};
use corun_sim::AppSpec;
use rayon::prelude::*;

use super::big_little::{BigLittle, Member, MixFigures};
use super::mixes::{TABLE_4_5, some_mixes};
use crate::harness::{Figure, PaperClaim, StudyInputs};
use crate::simulate::TunedPolicy;

/// How long each thread is alone on a big core, in s.
const SOLO_S: f64 = 10.0;

/// Times from one barrier to the next, alone on a big core, in s.
const BETWEEN_S: [f64; 3] = [0.002, 0.02, 0.2];

const TOLD: usize = 0;
const NOT_TOLD: usize = 1;
const POLICIES: [TunedPolicy; 3] = [
    TunedPolicy::plain("camps"),
    TunedPolicy {
        shown: "camps, not told",
        policy: "camps",
        parameters: &[("spin-notification", 0.0)],
    },
    TunedPolicy::plain("acfs"),
];

/// A mix, how long its threads work between two barriers, and what each policy made of it.
struct MixWithBarriers {
    mix: usize,
    between_s: f64,
    played: Vec<MixFigures>,
}

impl MixWithBarriers {
    fn name(&self) -> String {
        format!("M{}, {} ms", self.mix + 1, self.between_s * 1e3)
    }
}

fn with_barriers(
    inputs: &StudyInputs,
    machine: &BigLittle,
    mix: &[Member],
    between_s: f64,
) -> Result<Vec<AppSpec>> {
    let mut apps = machine.apps(inputs, mix, inputs.length_s(SOLO_S))?;
    for app in apps.iter_mut().filter(|app| app.threads > 1) {
        let every = between_s / machine.alone_s(&app.program, machine.big);
        app.barrier = Some(Barrier { every_instructions: every as u64, waiting: Waiting::Spin });
    }
    Ok(apps)
}

/// The mixes under CAMPS that is told who spins, CAMPS that is not, and ACFS.
pub(super) fn spinning(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let machine = BigLittle::new("odroid-4b4s")?;
    let threaded = |mix: &usize| TABLE_4_5[*mix].iter().any(|member| member.1 > 1);
    let cases: Vec<(f64, usize)> = BETWEEN_S
        .into_iter()
        .flat_map(|between_s| {
            let mixes = (0..TABLE_4_5.len()).filter(threaded).step_by(some_mixes(inputs));
            mixes.map(move |mix| (between_s, mix))
        })
        .collect();
    let play = |&(between_s, mix): &(f64, usize)| {
        let apps = with_barriers(inputs, &machine, TABLE_4_5[mix], between_s)?;
        let one =
            |one: &TunedPolicy| machine.play_apps(inputs, &apps, (one.policy, one.parameters), None);
        let played = POLICIES.iter().map(one).collect::<Result<_>>()?;
        Ok(MixWithBarriers { mix, between_s, played })
    };
    let rows: Vec<MixWithBarriers> = cases.par_iter().map(play).collect::<Result<_>>()?;
    Ok((finding(&rows), figure(&rows)))
}

/// By how many % unfairness is lower and ASP higher when CAMPS is told.
fn worth(rows: &[MixWithBarriers], between_s: f64) -> (f64, f64) {
    let of = |of: fn(&MixFigures, &MixFigures) -> f64| {
        let these = rows.iter().filter(|row| row.between_s == between_s);
        let each: Vec<f64> =
            these.map(|row| 100.0 * of(&row.played[TOLD], &row.played[NOT_TOLD])).collect();
        each.iter().sum::<f64>() / each.len() as f64
    };
    (
        of(|told, not| 1.0 - told.unfairness / not.unfairness),
        of(|told, not| told.asp / not.asp - 1.0),
    )
}

fn finding(rows: &[MixWithBarriers]) -> PaperClaim {
    let of = |between_s: f64| {
        let (less, more) = worth(rows, between_s);
        format!("{less:+.1} %, {more:+.1} % ({} ms)", between_s * 1e3)
    };
    PaperClaim::new(
        "Spin notification: unfairness lower by, ASP higher by, at so long between two barriers \
         (section 4.3.5)",
        "without it \"serious slowdown mispredictions\"; no figure",
        BETWEEN_S.map(of).join("; "),
    )
}

fn figure(mixes: &[MixWithBarriers]) -> Figure {
    let about = "Table 4.5's mixes with programs of four threads, whose threads now meet at barriers, so \
                 long after each other alone on a big core; who comes early waits in a loop on its CPU. \
                 \"Not told\" takes what the loop retires for work (parameter spin-notification = 0); acfs \
                 never looks. Slowdowns are against the program alone on the machine, barriers included.";
    let heading =
        "Section 4.3.5: spinning threads, with and without spin notification, on odroid-4b4s";
    let mut rows = Figure::new("spin-notification", heading, about).rows(
        "mix, between barriers",
        mixes,
        MixWithBarriers::name,
    );
    for (place, policy) in POLICIES.iter().enumerate() {
        let head = format!("unfairness, {}", policy.shown);
        rows = rows.column(head, 3, |one| one.played[place].unfairness).drawn(policy.shown);
    }
    for (place, policy) in POLICIES.iter().enumerate() {
        rows = rows.column(format!("ASP, {}", policy.shown), 3, |one| one.played[place].asp);
    }
    for (place, policy) in POLICIES.iter().enumerate() {
        let head = format!("swaps/s, {}", policy.shown);
        rows = rows.column(head, 2, |one| one.played[place].swaps_per_s);
    }
    rows.bars(1.0, "unfairness")
}
