//! Fig. 4.1: what aggressors on big and on small cores do to a program on a big core.

use corun_app::Result;

use super::big_little::BigLittle;
use super::calibration::{ACCESSES_PKI, AGGRESSOR_MPKI, together};
use crate::harness::{Figure, PaperClaim, StudyInputs};
use crate::simulate::stream;
use crate::studies::classification::is_program;

const MACHINES: [&str; 3] = ["juno-2b4s", "odroid-4b4s", "quickia-2b2s"];

/// Where the aggressors run.
const PLACES: [&str; 3] = ["1 on big", "1 on small", "all small"];

/// Slowdowns by program on a machine, in the order of [`PLACES`].
fn on_machine(inputs: &StudyInputs, name: &str, programs: &[&str]) -> Result<Vec<[f64; 3]>> {
    let machine = BigLittle::new(name)?;
    let aggressor = machine.load(&stream(AGGRESSOR_MPKI, ACCESSES_PKI))?;
    let (big, small) = (machine.like(machine.big), machine.like(machine.small));
    let other = big.iter().copied().find(|&cpu| cpu != machine.big).unwrap_or(machine.big);
    let of_program = |name: &&str| {
        let program = inputs.shipped_on(&machine.model, name)?;
        let beside = |cpus: &[usize]| {
            let mut running = vec![(&*program, machine.big)];
            running.extend(cpus.iter().map(|&cpu| (&*aggressor, cpu)));
            let alone = together(&machine, &running[..1])[0].instructions_per_s;
            alone / together(&machine, &running)[0].instructions_per_s
        };
        Ok([beside(&[other]), beside(&small[..1]), beside(&small)])
    };
    programs.iter().map(of_program).collect()
}

pub(super) fn slowdowns(inputs: &StudyInputs) -> Result<(PaperClaim, Figure)> {
    let shipped = inputs.shipped()?.iter().map(|profile| profile.name.as_str());
    let names: Vec<&str> = shipped.filter(|name| is_program(name)).collect();
    let machines = MACHINES.iter().map(|machine| on_machine(inputs, machine, &names));
    let machines = machines.collect::<Result<Vec<_>>>()?;
    let most = |place: usize| {
        let each = machines.iter().map(|of| of.iter().map(|one| one[place]).fold(1.0, f64::max));
        each.map(|most| format!("{most:.2}")).collect::<Vec<_>>().join(", ")
    };
    let finding = PaperClaim::new(
        "Highest slowdown on a big core beside one aggressor on another, and beside aggressors on all \
         small ones (Fig. 4.1: Juno, Odroid, QuickIA)",
        "1.9, 2.65, 2.98; at most 1.26",
        format!("{}; {}", most(0), most(2)),
    );
    let about = "A program's slowdown on a big core beside a stream on another big core, on a small one, \
                 and on all small ones. The stream misses with every load of an instruction in three.";
    let programs: Vec<usize> = (0..names.len()).collect();
    let mut rows = Figure::new("fig-4-1", "Fig. 4.1: aggressors on big and on small cores", about)
        .rows("program", &programs, |&program| names[program].to_owned());
    for (machine, of) in MACHINES.iter().zip(&machines) {
        for (place, what) in PLACES.iter().enumerate() {
            rows = rows.column(format!("{machine}, {what}"), 3, |&program| of[program][place]);
        }
    }
    Ok((finding, rows.table()))
}
