//! Which policy runs where nobody named one.

use std::collections::BTreeSet;

use corun_app::{NO_POLICY, Result};
use corun_linux::Roots;
use corun_live::{PerfSource, ResctrlMonitor, Source};
use corun_machine::Machine;
use corun_policy::CounterKind;

use crate::Counters;

/// The name that stands for the policy that what is here allows.
pub const AUTO_POLICY: &str = "auto";
/// Go by hardware counters, the best first by the ranking (docs/studies/ranking.md).
const MEASURING: [&str; 2] = ["corun", "dio"];
/// For machines of several core types, by the runs that docs/asymmetric.md has.
const ON_SEVERAL_CORE_TYPES: &str = "corun";
/// Goes by stored profiles, and needs nothing else.
const BY_PROFILES: &str = "di";
/// Last-level caches from which on it matters under which of them a thread runs.
const SEVERAL: usize = 2;

/// A policy that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChosenPolicy {
    /// Its name.
    pub name: &'static str,
    /// Why it was chosen, in words.
    pub why: &'static str,
}

/// The policy that what is here allows: the best that measures, does not refuse the machine and has the counters it needs,
/// else one by stored profiles. On a machine of several core types one that has threads take turns on the big cores, or
/// none. On any other machine with one last-level cache ([`Machine::llcs`]) none, since wherever threads are placed they share it.
///
/// # Errors
/// None that a registry with these policies has.
pub fn choose_policy(roots: &Roots, machine: &Machine, counters: Counters) -> Result<ChosenPolicy> {
    if machine.core_types().len() > 1 {
        let name = ON_SEVERAL_CORE_TYPES;
        return Ok(if can_run(roots, machine, counters, name)? {
            let why = "the machine has cores of several types, and what it goes by is counted here";
            ChosenPolicy { name, why }
        } else {
            let why = "the machine has cores of several types, and nothing here counts who gains by which";
            ChosenPolicy { name: NO_POLICY, why }
        });
    }
    if machine.llcs().len() < SEVERAL {
        let why = "the machine has one last-level cache, which all share wherever they are placed";
        return Ok(ChosenPolicy { name: NO_POLICY, why });
    }
    for name in MEASURING {
        if can_run(roots, machine, counters, name)? {
            return Ok(ChosenPolicy { name, why: "what it goes by is counted here" });
        }
    }
    let why = "nothing here counts what a policy that measures goes by";
    Ok(ChosenPolicy { name: BY_PROFILES, why })
}

/// Does the policy not refuse the machine, and is all counted that it goes by?
fn can_run(roots: &Roots, machine: &Machine, counters: Counters, name: &str) -> Result<bool> {
    let policies = corun_app::build_policies(name, 1)?;
    let is_fit = policies.iter().all(|policy| policy.unfit_for(machine).is_none());
    let needed: Vec<CounterKind> =
        policies.iter().flat_map(|policy| policy.needs().counters).collect();
    Ok(is_fit && (needed.is_empty() || are_counted(roots, counters, &needed)))
}

/// Is all of that counted?
fn are_counted(roots: &Roots, counters: Counters, needed: &[CounterKind]) -> bool {
    match counters {
        // Without hardware counters the host says what is wrong with them.
        Counters::Perf | Counters::Model => true,
        Counters::Profiles => false,
        Counters::Auto => {
            let counted = counted(roots, needed);
            needed.iter().all(|kind| counted.contains(kind))
        }
    }
}

/// Does anything here count the instructions of programs?
pub fn counts_instructions(roots: &Roots, counters: Counters) -> bool {
    match counters {
        // Without hardware counters the host says what is wrong with them.
        Counters::Perf | Counters::Model => true,
        Counters::Profiles => false,
        Counters::Auto => !counted(roots, &[CounterKind::Instructions]).is_empty(),
    }
}

/// Of these counters those that the hardware counts.
fn counted(roots: &Roots, wanted: &[CounterKind]) -> BTreeSet<CounterKind> {
    let perf = PerfSource::new(roots, wanted).map(|source| source.counters());
    let resctrl = ResctrlMonitor::new(roots).map(|source| source.counters());
    perf.into_iter().chain(resctrl).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_by_profiles_is_chosen_where_nothing_counts() {
        let nowhere = Roots::below(std::path::Path::new("/nonexistent"));
        let machine = corun_machine::preset("xeon-x5365").unwrap();
        let chosen = |counters| choose_policy(&nowhere, &machine, counters).unwrap().name;
        assert_eq!(chosen(Counters::Auto), "di");
        assert_eq!(chosen(Counters::Profiles), "di");
        assert_eq!(chosen(Counters::Model), "corun");
        assert_eq!(chosen(Counters::Perf), "corun");
        let are_counted = |counters| counts_instructions(&nowhere, counters);
        assert!(!are_counted(Counters::Auto) && !are_counted(Counters::Profiles));
        assert!(are_counted(Counters::Model) && are_counted(Counters::Perf));
    }

    #[test]
    fn big_cores_are_shared_out_where_cores_are_of_several_types() {
        let nowhere = Roots::below(std::path::Path::new("/nonexistent"));
        let machines =
            [("juno-2b4s", 2), ("odroid-4b4s", 2), ("quickia-2b2s", 3), ("core-i9-12900k", 1)];
        for (name, llcs) in machines {
            let machine = corun_machine::preset(name).unwrap();
            assert_eq!(machine.llcs().len(), llcs, "{name}");
            let chosen = |counters| choose_policy(&nowhere, &machine, counters).unwrap().name;
            assert_eq!(chosen(Counters::Model), "corun", "{name}");
            assert_eq!(chosen(Counters::Auto), NO_POLICY, "{name}");
            assert_eq!(chosen(Counters::Profiles), NO_POLICY, "{name}");
        }
    }

    /// A host refuses a policy that was not evaluated as live, and auto names it to nobody's request.
    #[test]
    fn what_is_chosen_by_itself_was_evaluated_as_live() {
        let others = [ON_SEVERAL_CORE_TYPES, BY_PROFILES, NO_POLICY];
        for name in MEASURING.into_iter().chain(others) {
            let entry = corun_policy::PolicyEntry::named(name).unwrap();
            assert!(matches!(entry.live, corun_policy::LiveForm::Evaluated { .. }), "{name}");
        }
    }

    #[test]
    fn no_policy_is_chosen_where_all_share_one_cache() {
        let nowhere = Roots::below(std::path::Path::new("/nonexistent"));
        let machine = corun_machine::preset("xeon-gold-6138").unwrap();
        assert_eq!(machine.llcs().len(), 1);
        let chosen = choose_policy(&nowhere, &machine, Counters::Model).unwrap();
        assert_eq!(chosen.name, NO_POLICY);
    }
}
