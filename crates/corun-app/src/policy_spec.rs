//! Policies as they are typed: one, or one that places and one that partitions, `dio+lfoc`; and
//! policies that are not in the registry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use corun_machine::Machine;
use corun_policy::{
    BuildOptions, LiveForm, Policy, PolicyEntry, PolicyKind, parse_parameter, registry,
};
use corun_runtime::RuntimeError;

use crate::{Error, Result};

/// The policies of a name such as `dio+lfoc`. Each decides something else.
///
/// # Errors
/// Bad input for a name that is no policy's, and for two policies that decide the same.
pub fn policy_names(name: &str) -> Result<Vec<&str>> {
    let mut kinds: Vec<(PolicyKind, &str)> = Vec::new();
    for part in name.split('+').map(str::trim) {
        let Some(entry) = PolicyEntry::named(part) else {
            let known = registry().iter().map(|entry| entry.name);
            return Err(Error::unknown("policy", part, known));
        };
        let kind = entry.kind();
        if let Some((_, first)) = kinds.iter().find(|(known, _)| *known == kind) {
            let both = match kind {
                PolicyKind::Placement => "place programs",
                PolicyKind::Partitioning => "partition caches",
            };
            return Err(Error::input(format!(
                "`{name}`: `{first}` and `{part}` both {both}, and one at a time can"
            )));
        }
        kinds.push((kind, part));
    }
    // PlacementDocument first: who is on a cache comes before its partition.
    kinds.sort_by_key(|(kind, _)| *kind == PolicyKind::Partitioning);
    Ok(kinds.into_iter().map(|(_, part)| part).collect())
}

/// May these policies act on a real machine? The one place that decides it: not where the live form of one was
/// never evaluated, unless the user insists.
///
/// # Errors
/// As [`policy_names`]; bad input that names the policy and says why.
pub fn check_live_form(name: &str, may_be_untested: bool) -> Result<()> {
    for part in policy_names(name)? {
        let entry = PolicyEntry::named(part);
        if let Some(LiveForm::Untested { why }) = entry.map(|entry| entry.live)
            && !may_be_untested
        {
            let message =
                format!("policy `{part}` is not known to do well on a real machine: {why}");
            return Err(Error::input(message).hint("--untested"));
        }
    }
    Ok(())
}

/// The policies of a name with a seed.
///
/// # Errors
/// As [`policy_names`].
pub fn build_policies(name: &str, seed: u64) -> Result<Vec<Box<dyn Policy>>> {
    build_policies_with(name, &BuildOptions { seed, ..Default::default() })
}

/// The policies of a name, each with those of the parameters that it has.
///
/// # Errors
/// As [`policy_names`]; bad input for a parameter that none of them has, or a value out of its range.
pub fn build_policies_with(name: &str, options: &BuildOptions) -> Result<Vec<Box<dyn Policy>>> {
    let parts = policy_names(name)?;
    let of = |part: &str| {
        let entry = PolicyEntry::named(part);
        entry.map_or(&[][..], |entry| entry.parameters).iter().map(|one| one.name)
    };
    let known = || parts.iter().flat_map(|part| of(part));
    if let Some(unknown) = options.parameters.keys().find(|key| !known().any(|one| one == *key)) {
        return Err(Error::unknown("parameter", unknown, known()));
    }
    let one = |part: &&str| {
        let own = options.parameters.iter().filter(|(key, _)| of(part).any(|one| one == *key));
        let parameters = own.map(|(key, value)| (key.clone(), *value)).collect();
        let options = BuildOptions { seed: options.seed, parameters };
        corun_policy::build(part, &options).map_err(Error::input)
    };
    parts.iter().map(one).collect()
}

/// How policies are built for a run with a seed.
type BuildWithSeed = dyn Fn(u64) -> Result<Vec<Box<dyn Policy>>> + Send + Sync;

/// Policies that act together in a run, under one name, built anew for each run.
#[derive(Clone)]
pub struct PolicySpec {
    name: String,
    build: Arc<BuildWithSeed>,
}

impl PolicySpec {
    /// Those of the registry, as they are typed: `dio`, `dio+lfoc`, with parameters
    /// `lfoc:max-streaming-way=4:gaps-per-streaming=2`.
    ///
    /// # Errors
    /// As [`build_policies_with`], and for a parameter without a value.
    pub fn parse(name: &str) -> Result<Self> {
        let mut policies: Vec<&str> = Vec::new();
        let mut parameters = BTreeMap::new();
        for part in name.split('+') {
            let mut words = part.split(':').map(str::trim);
            let policy = words.next().unwrap_or_default();
            let mut own = BTreeMap::new();
            for word in words {
                let Some((key, value)) = word.split_once('=') else {
                    let message = format!("`{part}`: found `{word}`, expected PARAMETER=VALUE");
                    return Err(Error::input(message).hint(format!("{policy}:PARAMETER=VALUE")));
                };
                let key = key.trim();
                let value = parse_parameter(key, value)
                    .map_err(|why| Error::input(format!("`{part}`: {key}: {why}")))?;
                own.insert(key.to_owned(), value);
            }
            // Each part's parameters are its own.
            build_policies_with(policy, &BuildOptions { seed: 0, parameters: own.clone() })?;
            policies.push(policy);
            parameters.extend(own);
        }
        let policies = policies.join("+");
        policy_names(&policies)?;
        let build = move |seed| {
            build_policies_with(&policies, &BuildOptions { seed, parameters: parameters.clone() })
        };
        Ok(Self { name: name.to_owned(), build: Arc::new(build) })
    }

    /// Policies that the registry does not know.
    pub fn custom(
        name: String,
        build: impl Fn(u64) -> Result<Vec<Box<dyn Policy>>> + Send + Sync + 'static,
    ) -> Self {
        Self { name, build: Arc::new(build) }
    }

    /// Those that were asked for, each once; where none was, all of the registry that place.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_all(asked: &[String]) -> Result<Vec<Self>> {
        if asked.is_empty() {
            let placing = registry().iter().filter(|entry| entry.kind() == PolicyKind::Placement);
            return placing.map(|entry| Self::parse(entry.name)).collect();
        }
        let mut chosen: Vec<Self> = Vec::new();
        for name in asked.iter().map(|name| name.trim()) {
            let one = Self::parse(name)?;
            if !chosen.iter().any(|known| known.name == name) {
                chosen.push(one);
            }
        }
        Ok(chosen)
    }

    /// The name shown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policies for a run.
    ///
    /// # Errors
    /// What keeps them from being built.
    pub fn build(&self, seed: u64) -> Result<Vec<Box<dyn Policy>>> {
        (self.build)(seed)
    }

    /// Those that are for the machine. One that was asked for and is not is refused with its
    /// reason.
    ///
    /// # Errors
    /// As [`Self::build`]; a policy that was asked for and is not for the machine.
    pub(crate) fn suitable_for(
        machine: &Machine,
        chosen: Vec<Self>,
        asked: bool,
    ) -> Result<Vec<Self>> {
        let mut fit = Vec::new();
        for one in chosen {
            let built = one.build(0)?;
            let unfit = built.iter().find_map(|one| Some((one.name(), one.unfit_for(machine)?)));
            match unfit {
                Some((policy, why)) if asked => {
                    let (policy, machine) = (policy.to_owned(), machine.name().to_owned());
                    return Err(RuntimeError::Unfit { policy, machine, why }.into());
                }
                Some(_) => {}
                None => fit.push(one),
            }
        }
        Ok(fit)
    }
}

impl fmt::Debug for PolicySpec {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("PolicySpec").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_behind_their_policy() {
        let needs = |text: &str| PolicySpec::parse(text).unwrap().build(1).unwrap()[0].needs();
        assert_ne!(needs("dio").interval, needs("dio:interval-cycles=5e8").interval);
        let label = PolicySpec::parse("corun:objective=energy:ways=off").unwrap();
        assert_eq!(label.name(), "corun:objective=energy:ways=off");
        let both =
            PolicySpec::parse("lfoc:max-streaming-way=4 + dio : half-life-intervals=2").unwrap();
        assert_eq!(both.name(), "lfoc:max-streaming-way=4 + dio : half-life-intervals=2");
        assert_eq!(both.build(1).unwrap().len(), 2);
        for (wrong, why) in [
            ("dio:min-gain=1", "parameter"),
            ("dio:half-life-intervals", "expected PARAMETER=VALUE"),
            (
                "dio:half-life-intervals=much",
                "half-life-intervals: found `much`, expected a number",
            ),
            ("corun:objective=1.5", "parameter `objective` is 1.5: expected 0 (mean-slowdown), 1"),
            ("corun:objective=speed", "objective: found `speed`, expected 0 (mean-slowdown), 1"),
            ("corun:target-slowdown=0.5", "expected 0 or a number from 1 to"),
            ("dio:half-life-intervals=-1", "half-life-intervals"),
            // The other part's.
            ("dio:max-streaming-way=4+lfoc", "parameter"),
        ] {
            let error = PolicySpec::parse(wrong).unwrap_err();
            assert!(error.to_string().contains(why), "{wrong}: {error}");
        }
    }

    fn names(chosen: &[PolicySpec]) -> Vec<&str> {
        chosen.iter().map(PolicySpec::name).collect()
    }

    #[test]
    fn policies_keep_their_order_and_stand_once() {
        let asked = ["random", "linux-default", " random"].map(str::to_owned);
        assert_eq!(names(&PolicySpec::parse_all(&asked).unwrap()), ["random", "linux-default"]);
        let refused = PolicySpec::parse_all(&["dioo".to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("unknown policy"), "{refused}");
        let all = PolicySpec::parse_all(&[]).unwrap();
        let all = names(&all);
        assert!(["linux-default", "random", "di", "dio"].iter().all(|name| all.contains(name)));
    }

    #[test]
    fn a_policy_that_is_not_for_the_machine_is_left_out_unless_asked_for() {
        let machine = |name| corun_machine::preset(name).unwrap();
        let has = |name, asked: &[String]| {
            let chosen = PolicySpec::parse_all(asked).unwrap();
            let fit = PolicySpec::suitable_for(&machine(name), chosen, !asked.is_empty())?;
            Ok::<bool, Error>(names(&fit).contains(&"n-mass"))
        };
        assert!(has("xeon-e5520", &[]).unwrap());
        assert!(!has("xeon-x5365", &[]).unwrap());
        let refused = has("xeon-x5365", &["n-mass".to_owned()]).unwrap_err().to_string();
        assert!(
            refused.contains("`n-mass` is not for machine `xeon-x5365`: it decides"),
            "{refused}"
        );
    }

    #[test]
    fn a_policy_whose_live_form_was_not_evaluated_acts_only_where_the_user_insists() {
        check_live_form("dio+lfoc", false).unwrap();
        let refused = check_live_form("lfoc+vbsc", false).unwrap_err().to_string();
        assert!(refused.contains("policy `vbsc` is not known to do well"), "{refused}");
        check_live_form("vbsc", true).unwrap();
        assert!(check_live_form("vbcs", true).is_err());
    }

    #[test]
    fn a_placement_and_a_partitioning_policy_run_together() {
        assert_eq!(policy_names("lfoc+dio").unwrap(), ["dio", "lfoc"]);
        assert_eq!(build_policies("dio+lfoc", 1).unwrap().len(), 2);
        let both = policy_names("kpart+lfoc").unwrap_err().to_string();
        assert!(both.contains("both partition caches"), "{both}");
        assert!(policy_names("dio+").is_err() && policy_names("di+dio").is_err());
    }

    #[test]
    fn each_policy_gets_its_own_parameters() {
        let with = |name: &str, key: &str, value: f64| {
            let parameters = [(key.to_owned(), value)].into();
            build_policies_with(name, &BuildOptions { seed: 1, parameters })
                .map(|built| built.len())
        };
        assert_eq!(with("n-mass+dunn", "curvature", 2.0).unwrap(), 2);
        assert_eq!(with("n-mass+dunn", "move-pages-after-epochs", 2.0).unwrap(), 2);
        let unknown = with("dunn", "curvatur", 2.0).unwrap_err().to_string();
        assert!(unknown.contains("unknown parameter `curvatur`"), "{unknown}");
        assert!(with("n-mass", "curvature", 2.0).is_err());
        assert!(with("dunn", "curvature", -1.0).is_err());
    }
}
