//! The page of `corun compare`.

use corun_app::{Comparison, ComparisonRow, FrontierEntry, RowKind, Timeline};
use corun_machine::Machine;
use corun_model::LoadedProgram;
use corun_profile::Profile;
use corun_report::{counted, document, foot, head, percent, section, signed_percent};
use corun_sim::AppSpec;
use maud::{Markup, html};

use super::text::short_runs;
use super::{curves, distance, migrations, placements, services, slowdowns, trade_off};

/// What the page shows.
pub struct ComparisonPage<'a> {
    comparison: &'a Comparison,
    pub(crate) machine: &'a Machine,
    pub(crate) programs: Vec<Program>,
    /// The rows that are shown, each with its history; bounds have none.
    pub(crate) rows: Vec<(&'a ComparisonRow, Option<&'a Timeline>)>,
    /// Placements of which no other has more throughput without more unfairness.
    pub(crate) frontier: &'a [FrontierEntry],
    command: &'a str,
}

/// A program of the mix.
pub(crate) struct Program {
    /// The name shown, unique on the page.
    pub(crate) name: String,
    /// Misses per 1000 instructions alone on the machine.
    pub(crate) solo_mpki: f64,
    /// Its miss-rate curve: cache bytes and MPKI, by rising size.
    pub(crate) curve: Vec<(f64, f64)>,
}

impl Program {
    fn new(app: &AppSpec, profile: &Profile) -> Self {
        let point = |bytes: u64| (bytes as f64, profile.solo_mpki(bytes as f64).value);
        Self {
            name: app.name.clone(),
            solo_mpki: app.program.phase(LoadedProgram::WHOLE).best.llc_mpki,
            curve: profile.measured_sizes().into_iter().map(point).collect(),
        }
    }
}

impl<'a> ComparisonPage<'a> {
    /// A comparison of these programs. `timelines` has one for each row, in the same order. `command`
    /// is the command line that made it.
    pub fn new(
        comparison: &'a Comparison,
        machine: &'a Machine,
        programs: (&[AppSpec], &[Profile]),
        timelines: &'a [Option<Timeline>],
        frontier: &'a [FrontierEntry],
        command: &'a str,
    ) -> Self {
        let rows = comparison.policies.iter().zip(timelines);
        let programs = programs.0.iter().zip(programs.1);
        Self {
            comparison,
            machine,
            programs: programs.map(|(app, profile)| Program::new(app, profile)).collect(),
            rows: rows
                .filter(|(row, _)| row.same_as.is_none())
                .map(|(row, timeline)| (row, timeline.as_ref()))
                .collect(),
            frontier,
            command,
        }
    }

    /// The page as one HTML document. The same comparison gives the same bytes.
    pub fn render(&self) -> String {
        let programs = counted(self.programs.len(), "program");
        let heading = html! { (programs) " on " span.name { (self.machine.name()) } };
        let result = html! { (lead(self)) (figures(self)) };
        let body = html! {
            (head("corun compare", &heading, self.machine.title(), &result))
            main #main {
                (distance::of(self))
                (trade_off::of(self))
                (placements::of(self))
                (slowdowns::of(self))
                (services::of(self, self.comparison.seeds))
                (curves::of(self))
                (migrations::of(self))
                (basis(self))
            }
            (foot("corun", VERSION, WORDS))
        };
        document(&format!("{programs} on {}", self.machine.name()), VERSION, &body)
    }

    /// The optimum's row, where there is one.
    pub(crate) fn optimal(&self) -> Option<&ComparisonRow> {
        self.of_kind(RowKind::Optimal)
    }

    fn of_kind(&self, kind: RowKind) -> Option<&ComparisonRow> {
        self.rows.iter().map(|(row, _)| *row).find(|row| row.kind == kind)
    }

    /// The policy (not a bound) with the least mean slowdown; the first of equals.
    pub(crate) fn best_policy(&self) -> Option<&ComparisonRow> {
        let policies =
            self.rows.iter().map(|(row, _)| *row).filter(|row| row.kind == RowKind::Policy);
        policies.min_by(|one, other| one.mean_slowdown.total_cmp(&other.mean_slowdown))
    }

    fn bounds_proven(&self) -> bool {
        self.comparison.policies.iter().all(|row| row.optimal_proven != Some(false))
    }

    /// What can be said of the best placement.
    pub(crate) fn known(&self) -> &'static str {
        if self.bounds_proven() { "there is" } else { "found" }
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The result in a sentence.
fn lead(page: &ComparisonPage<'_>) -> Markup {
    let Some(best) = page.best_policy() else { return html! {} };
    let worst = page.of_kind(RowKind::Worst);
    let is_better = best.above_optimal_percent.is_some_and(|above| above < -0.05);
    html! {
        p.lead {
            strong { (best.policy) }
            @if is_better { " does better than the best placement " (page.known()) }
            @else { " comes closest" }
            ": on average its programs take "
            strong { (format!("{:.3} times", best.mean_slowdown)) } " as long as alone"
            @if let Some(above) = best.above_optimal_percent {
                ", " strong { (percent(above.abs())) } " "
                @if is_better { "less than there" } @else { "above the best placement " (page.known()) }
            }
            // What was found may not be the best.
            @if is_better && page.bounds_proven() {
                ": that placement stays while programs run, and leaves caches whole"
            }
            "."
            @if let Some(cost) = worst.and_then(|entry| entry.above_optimal_percent) {
                " The worst placement " @if !page.bounds_proven() { "found " }
                "would cost " (percent(cost)) "."
            }
        }
    }
}

fn figures(page: &ComparisonPage<'_>) -> Markup {
    let card = |label: &str, entry: &ComparisonRow| {
        html! {
            div.figure {
                dt { (label) }
                dd {
                    span.big { (format!("{:.3}", entry.mean_slowdown)) }
                    span.note {
                        @match (entry.kind, entry.above_optimal_percent) {
                            (RowKind::Optimal, _) | (_, None) => "mean slowdown",
                            (_, Some(above)) => (signed_percent(above)),
                        }
                    }
                }
            }
        }
    };
    let default = page.rows.iter().find(|(row, _)| row.policy == "linux-default");
    let best = page.best_policy();
    let optimum = if page.bounds_proven() { "Optimum" } else { "Best found" };
    html! {
        dl.figures {
            @if let Some(entry) = page.of_kind(RowKind::Optimal) { (card(optimum, entry)) }
            @if let Some(entry) = best { (card(&entry.policy, entry)) }
            @if let Some(entry) = default.map(|(row, _)| *row)
                && best.is_none_or(|best| best.policy != entry.policy) {
                (card("linux-default", entry))
            }
            @if let Some(entry) = page.of_kind(RowKind::Expectation) { (card("Random, expected", entry)) }
            @if let Some(entry) = page.of_kind(RowKind::Worst) { (card("Worst", entry)) }
        }
    }
}

fn basis(page: &ComparisonPage<'_>) -> Markup {
    let body = html! {
        dl.facts {
            @for (label, text) in facts(page) {
                dt { (label) }
                dd { (text) }
            }
            dt { "Extrapolated" }
            dd {
                @if page.comparison.data.extrapolated.is_empty() {
                    "Nothing: every figure was read inside the measured range."
                } @else {
                    ul { @for name in &page.comparison.data.extrapolated {
                        li { (name) ": read outside its measured cache sizes" }
                    } }
                }
            }
            dt { "Command" }
            dd { code.command { (page.command) } }
            dt { "Version" }
            dd { "corun " (VERSION) }
        }
    };
    section("ground", "What this stands on", "", &body)
}

/// Experiment, model and data, each with its label.
fn facts(page: &ComparisonPage<'_>) -> Vec<(&'static str, String)> {
    let comparison = page.comparison;
    let model = &comparison.data.model;
    let seeds = counted(comparison.seeds as usize, "seed");
    let mut facts = vec![
        ("Experiment", format!("{}; {seeds}", comparison.method)),
        ("Profiles", model.profiles.clone()),
        ("Model", format!("space by {}, bandwidth by {}", model.space, model.bandwidth_model)),
    ];
    if let Some(words) = model.prediction_error_words() {
        facts.push(("Measured here", words));
    }
    if let Some(words) = model.unmeasured_words() {
        facts.push(("Not in the machine file", words));
    }
    if let Some(peak) = model.peak_mb_per_s {
        facts.push(("Peak bandwidth", format!("{peak} MB/s, as asked for")));
    }
    if let Some(least) = comparison.data.least_mean_slowdown {
        let how = format!(
            "the best that a search found of programs held on CPUs; none that are held have a mean slowdown below {least:.3}"
        );
        facts.push(("Best found", how));
    } else if let Some(optimal) = page.optimal() {
        let proven = optimal.optimal_proven == Some(true);
        let how = if proven { "proven by search" } else { "the best found, not proven" };
        facts.push(("Optimum", format!("least mean slowdown over all placements, {how}")));
    }
    if let Some(row) = page.of_kind(RowKind::Expectation) {
        let how = match row.standard_error {
            Some(error) => format!("mean over sampled placements, standard error {error:.4}"),
            None => "exact mean over all placements".to_owned(),
        };
        facts.push(("Random", how));
    }
    for (first, others) in comparison.identical_policies() {
        facts.push(("Alike", format!("{first} and {} did the same here", others.join(", "))));
    }
    if let Some(words) = short_runs(&comparison.data.short_runs) {
        facts.push(("Short runs", words));
    }
    if let Some(why) = &comparison.data.no_optimum {
        facts.push(("No optimum", why.clone()));
    }
    facts.extend(page.machine.warnings().iter().map(|warning| ("Machine", warning.clone())));
    facts
}

const WORDS: &str = "Slowdown: completion time beside the others / completion time alone. MPKI: cache lines fetched \
     from memory per 1000 instructions. STP: sum of 1 / slowdown. Unfairness: largest / smallest slowdown.";

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicBool;

    use corun_app::{ComparisonHooks, ComparisonRequest, ComparisonSetup, PolicySpec, timeline};
    use corun_profile::Mix;

    use super::*;

    /// The page of two policies over four programs, as `change` leaves the comparison.
    pub(crate) fn with_page<T>(
        change: impl FnOnce(&mut Comparison),
        look: impl FnOnce(&ComparisonPage<'_>) -> T,
    ) -> T {
        let request = ComparisonRequest {
            library: None,
            machine: Some(corun_machine::preset("xeon-x5365").unwrap()),
            mix: Some((Mix::of_apps(&["sort", "xz", "numpy", "flac"]).unwrap(), None)),
            policies: Some(["di", "dio"].map(|name| PolicySpec::parse(name).unwrap()).into()),
            seeds: Some(1),
            instructions: None,
            options: Default::default(),
        };
        let setup = ComparisonSetup::new(request).unwrap();
        let hooks = ComparisonHooks { stop: &AtomicBool::new(false), step: &|| {} };
        let mut compared = setup.compare(60.0, hooks).unwrap();
        change(&mut compared.comparison);
        let mut runs = compared.runs.iter();
        let machine = setup.model.machine();
        let rows = compared.comparison.policies.iter();
        let timelines: Vec<Option<Timeline>> = rows
            .map(|row| {
                (row.kind == RowKind::Policy).then(|| timeline(machine, &runs.next().unwrap()[0]))
            })
            .collect();
        let programs = (&setup.apps[..], &setup.profiles[..]);
        let command = "corun compare --apps '<b>&\"'";
        let comparison = &compared.comparison;
        let frontier = setup.frontier(60.0, &AtomicBool::new(false)).unwrap();
        let page =
            ComparisonPage::new(comparison, machine, programs, &timelines, &frontier, command);
        look(&page)
    }

    #[test]
    fn the_same_report_gives_the_same_bytes() {
        with_page(|_| {}, |page| assert_eq!(page.render(), page.render()));
    }

    #[test]
    fn what_was_typed_is_escaped_and_nothing_outside_is_reached_for() {
        let page = with_page(|_| {}, |page| page.render());
        assert!(!page.contains("<b>&") && page.contains("&lt;b&gt;&amp;"));
        for word in ["http://", "https://", "<script", "<img", "@import", "<link"] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn a_policy_that_beats_the_best_placement_is_said_to_and_why() {
        let better = |comparison: &mut Comparison| {
            let policies = comparison.policies.iter_mut();
            policies.for_each(|row| row.above_optimal_percent = Some(-0.3));
        };
        let page = with_page(better, |page| page.render());
        assert!(page.contains("does better than the best placement there is: on average"));
        assert!(page.contains("less than there: that placement stays while programs run"));
        assert!(!page.contains("comes closest"));
    }

    #[test]
    fn a_report_without_bounds_still_reads() {
        let without_bounds = |comparison: &mut Comparison| {
            comparison.policies.retain(|row| row.kind == RowKind::Policy);
            for row in &mut comparison.policies {
                row.above_optimal_percent = None;
            }
        };
        let page = with_page(without_bounds, |page| page.render());
        assert!(page.contains("comes closest"));
        assert!(!page.contains("above the best placement"));
    }
}
