//! What the texts of several answers say alike: on what the figures stand, how good all is together, what is proven.

use corun_app::DataSources;
use corun_report::or_dash;

/// On what the figures stand, a line each.
pub(crate) fn sources(of: &DataSources) -> impl Iterator<Item = String> {
    let measured = of.prediction_error_words().map(|words| format!("measured here: {words}"));
    let lacking = of.unmeasured_words().map(|words| format!("not in the machine file: {words}"));
    let profiles = format!("profiles: {}", of.profiles);
    let model = format!("model: space {}, bandwidth {}", of.space, of.bandwidth_model);
    [profiles, model].into_iter().chain(measured).chain(lacking)
}

/// A line on all programs together.
pub(crate) fn together(antt: Option<f64>, stp: Option<f64>, unfairness: Option<f64>) -> String {
    let [mean, stp, unfairness] = [antt, stp, unfairness].map(|figure| or_dash(figure, 3));
    format!("mean slowdown {mean}, STP {stp}, unfairness {unfairness}\n")
}

/// A line on what all programs together draw.
pub(crate) fn drawn(
    above_idle_w: f64,
    energy_j: Option<f64>,
    energy_delay_j: Option<f64>,
) -> String {
    let [energy, product] = [energy_j, energy_delay_j].map(|figure| or_dash(figure, 2));
    format!(
        "{above_idle_w:.1} W above idle; energy {energy} J for a second's work of a program alone, x delay {product} J\n"
    )
}

/// Who is slower than a target.
pub(crate) fn beyond_target(target: f64, slower: &[String]) -> String {
    if slower.is_empty() {
        return format!("nobody is slower than {target}\n");
    }
    format!("slower than {target}: {}\n", slower.join(", "))
}

/// A line on what a search has proven; empty where nothing was searched. `what`: what there may be none better of, or none
/// worse where the policy is `worst`.
pub(crate) fn proof(
    what: &str,
    policy: Option<&str>,
    proven: Option<bool>,
    gap: Option<f64>,
) -> String {
    let beyond = if policy == Some("worst") { "worse" } else { "better" };
    match (proven, gap) {
        (Some(true), _) => format!("proven: no {what} is {beyond}\n"),
        (Some(false), Some(gap)) => {
            format!("not proven: at most {:.2} % from the bound\n", gap * 100.0)
        }
        (Some(false), None) => "not proven: the best found\n".to_owned(),
        (None, _) => String::new(),
    }
}
