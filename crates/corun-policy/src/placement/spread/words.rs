//! From places to a plan, with its reasons in words.

use std::collections::BTreeMap;

use corun_machine::CpuSet;

use super::{Item, Places, Spread, held_on};
use crate::{Action, Plan, ThreadId};

/// Neighbours that a reason names before it counts the rest.
const NAMED: usize = 3;

/// The plan that holds on their places those items that are `wanted`.
pub(super) fn plan_for(
    spread: &Spread<'_>,
    places: &Places,
    measure: &str,
    wanted: impl Fn(&Item) -> bool,
) -> Plan {
    let rests = |(item, &target): (&Item, &usize)| !wanted(item) || is_held(spread, item, target);
    if spread.items.iter().zip(&places.0).all(rests) {
        return Plan::none();
    }
    let words = Words::new(spread, places, measure);
    let by_id: BTreeMap<ThreadId, usize> = spread
        .items
        .iter()
        .enumerate()
        .filter(|(_, item)| wanted(item))
        .map(|(place, item)| (spread.view_of(item).id, place))
        .collect();
    let mut plan = Plan::none();
    let mut done = vec![false; spread.items.len()];
    for &place in by_id.values() {
        let target = places.0[place];
        if done[place] || is_held(spread, &spread.items[place], target) {
            continue;
        }
        let thread = spread.view_of(&spread.items[place]).id;
        let may_exchange = words.is_held(place);
        let partner = words.at[target].iter().copied().find(|&other| {
            may_exchange
                && !done[other]
                && wanted(&spread.items[other])
                && words.exchange_places(place, other)
        });
        done[place] = true;
        if let Some(partner) = partner {
            done[partner] = true;
            let second = spread.view_of(&spread.items[partner]).id;
            let reason = format!("{}; {}", words.reason(place), words.reason(partner));
            plan.push(Action::Swap { first: thread, second }, reason);
        } else {
            let cpus = CpuSet::from_iter([spread.tree.cpus[target]]);
            plan.push(Action::Allow { thread, cpus }, words.reason(place));
        }
    }
    plan
}

/// Is the thread held on this leaf and no other?
fn is_held(spread: &Spread<'_>, item: &Item, leaf: usize) -> bool {
    held_on(spread.view_of(item)) == Some(spread.tree.cpus[leaf])
}

struct Words<'a> {
    spread: &'a Spread<'a>,
    places: &'a Places,
    measure: &'a str,
    /// For each LLC the items that are on it now, and that will be.
    now: Vec<Vec<usize>>,
    then: Vec<Vec<usize>>,
    /// For each leaf the items that are on it now.
    at: Vec<Vec<usize>>,
}

impl<'a> Words<'a> {
    fn new(spread: &'a Spread<'a>, places: &'a Places, measure: &'a str) -> Self {
        let llcs = spread.view.machine.llcs().len();
        let (mut now, mut then) = (vec![Vec::new(); llcs], vec![Vec::new(); llcs]);
        let mut on_leaf = vec![Vec::new(); spread.tree.cpus.len()];
        for (place, item) in spread.items.iter().enumerate() {
            if let Some(at) = item.at {
                now[spread.tree.llc(at)].push(place);
                on_leaf[at].push(place);
            }
            then[spread.tree.llc(places.0[place])].push(place);
        }
        Self { spread, places, measure, now, then, at: on_leaf }
    }

    /// Is an item held where it is?
    fn is_held(&self, place: usize) -> bool {
        let item = &self.spread.items[place];
        item.at.is_some_and(|at| is_held(self.spread, item, at))
    }

    /// Does each of two held threads go where the other is? That the first is held is known.
    fn exchange_places(&self, one: usize, other: usize) -> bool {
        let (items, places) = (&self.spread.items, &self.places.0);
        items[one].at == Some(places[other])
            && items[other].at == Some(places[one])
            && self.is_held(other)
    }

    /// "milc06: 33.4 MPKI, from LLC 0 (with mcf06) to LLC 1 (with povray06)".
    fn reason(&self, place: usize) -> String {
        let item = &self.spread.items[place];
        let program = &self.spread.view_of(item).program;
        let figure = match item.mpki {
            Some(mpki) => format!("{mpki:.1} {}", self.measure),
            None => "miss rate not known yet".to_owned(),
        };
        let target = self.places.0[place];
        let (to, cpu) = (self.spread.tree.llc(target), self.spread.tree.cpus[target]);
        let beside = neighbours(self.spread, &self.then[to], place);
        let from = item.at.map(|at| (self.spread.tree.llc(at), self.spread.tree.cpus[at]));
        let way = match from {
            Some((_, from)) if from == cpu => format!("held on CPU {cpu}, LLC {to}{beside}"),
            Some((from, at)) if from == to => {
                format!("from CPU {at} to CPU {cpu} of LLC {to}{beside}")
            }
            Some((from, _)) => {
                let before = neighbours(self.spread, &self.now[from], place);
                format!("from LLC {from}{before} to LLC {to}{beside}")
            }
            None => format!("to CPU {cpu}, LLC {to}{beside}"),
        };
        format!("{program}: {figure}, {way}")
    }
}

/// " (with mcf06, namd06)", or nothing for a thread that is alone.
fn neighbours(spread: &Spread<'_>, on_llc: &[usize], place: usize) -> String {
    let others = on_llc.iter().filter(|&&other| other != place);
    // The thread itself is on the list.
    let count = on_llc.len().saturating_sub(1);
    if count == 0 {
        return String::new();
    }
    let name = |&place: &usize| spread.view_of(&spread.items[place]).program.as_str();
    let named: Vec<&str> = others.take(NAMED).map(name).collect();
    let more = match count.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(" (with {}{more})", named.join(", "))
}
