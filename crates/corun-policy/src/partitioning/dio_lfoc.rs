//! `dio-lfoc`: programs spread over the LLCs as `dio-2010` does, and clustered inside each as `lfoc-online` does.
//!
//! No paper has both. Side by side the two disturb each other: DIO takes the misses of a sampling
//! partition for the program's own and moves it, and LFOC samples on another LLC than it began on.
//! Here nobody is moved while anybody is sampled, and nobody for a small gain.

use super::lfoc_online::{self, LfocOnline};
use crate::partitioning::online::OnlinePolicy;
use crate::placement::dio_2010::{self, Dio2010};
use crate::{
    Action, Build, BuildOptions, Event, LiveForm, Nanoseconds, Needs, Parameter, ParameterKind,
    Plan, Policy, PolicyEntry, View,
};

const PLACE_MS: Parameter = Parameter {
    name: "place-ms",
    kind: ParameterKind::Number,
    default: 500.0,
    min: 1.0,
    max: 1e6,
    summary: "time between looks at who should be on which LLC, in ms",
};

const MIN_GAIN: Parameter = Parameter {
    name: "min-gain-mpki",
    kind: ParameterKind::Number,
    default: 1.0,
    min: dio_2010::MIN_GAIN.min,
    max: dio_2010::MIN_GAIN.max,
    summary: "fall of the most loaded LLC's total of misses below which nobody moves",
};

const LISTS: &[&[Parameter]] = &[&[PLACE_MS, MIN_GAIN], lfoc_online::PARAMETERS];

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dio-lfoc",
    summary: "places programs as dio-2010, clusters those of each LLC as lfoc-online, one after the other",
    source: "Blagodurov et al., TOCS 2010, section 4.2; García García, thesis, UCM 2021, section 6.3.2",
    parameters: &Parameter::joined::<{ Parameter::count(LISTS) }>(LISTS),
    build: Build::Online(|options: &BuildOptions| Box::new(DioLfoc::new(options))),
    live: LiveForm::Untested {
        why: "in simulation as live, with noise and counters that take turns, it cost up to 4 %",
    },
};

struct DioLfoc {
    dio: Dio2010,
    lfoc: OnlinePolicy<LfocOnline>,
    place_every: Nanoseconds,
    placed_at: Nanoseconds,
}

impl DioLfoc {
    fn new(options: &BuildOptions) -> Self {
        let gain = (dio_2010::MIN_GAIN.name.to_owned(), options.value(&MIN_GAIN));
        let of_dio = BuildOptions { seed: options.seed, parameters: [gain].into() };
        Self {
            dio: Dio2010::new(&of_dio),
            lfoc: lfoc_online::policy(options),
            place_every: Nanoseconds((options.value(&PLACE_MS) * 1e6) as u64),
            placed_at: Nanoseconds(0),
        }
    }
}

impl Policy for DioLfoc {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        let mut needs = self.lfoc.needs();
        needs.controls.extend(self.dio.needs().controls);
        for counter in self.dio.needs().counters {
            if !needs.counters.contains(&counter) {
                needs.counters.push(counter);
            }
        }
        needs
    }

    fn unfit_for(&self, machine: &corun_machine::Machine) -> Option<String> {
        self.lfoc.unfit_for(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        let plans = [self.dio.on_event(event, view), self.lfoc.on_event(event, view)];
        let steps: Vec<_> = plans.into_iter().flatten().flat_map(|plan| plan.steps).collect();
        (!steps.is_empty()).then_some(Plan { steps })
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = self.lfoc.decide(view);
        let is_due = view.now.0 >= self.placed_at.0 + self.place_every.0;
        if is_due && !self.lfoc.is_sampling() {
            self.placed_at = view.now;
            plan.steps.extend(self.dio.decide(view).steps);
        }
        plan
    }

    fn next_interval(&self) -> Option<Nanoseconds> {
        self.lfoc.next_interval()
    }

    fn not_in_force(&mut self, action: &Action) {
        self.dio.not_in_force(action);
        self.lfoc.not_in_force(action);
    }
}
