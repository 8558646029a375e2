//! What the parameters of policies stand for: which values they take, and how those are written.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use crate::{Parameter, registry};

/// Which values a parameter takes, within its lowest and highest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ParameterKind {
    /// Any number.
    Number,
    /// Numbers from this one on, and 0, which stands for none.
    ZeroOrFrom(f64),
    /// A count.
    WholeNumber,
    /// One of these, by its name or by its number from 0.
    Choice(&'static [&'static str]),
}

impl ParameterKind {
    /// Off or on.
    pub const SWITCH: Self = Self::Choice(&["off", "on"]);
}

impl Parameter {
    /// May it have this value? Not a number is in no range.
    pub fn takes(&self, value: f64) -> bool {
        let in_range = (self.min..=self.max).contains(&value);
        in_range
            && match self.kind {
                ParameterKind::Number => true,
                ParameterKind::ZeroOrFrom(least) => value == 0.0 || value >= least,
                ParameterKind::WholeNumber | ParameterKind::Choice(_) => value.fract() == 0.0,
            }
    }

    /// The values that it may have, for people: `a number from 0 to 1`, `0 (off) or 1 (on)`.
    pub fn expected(&self) -> String {
        let Self { min, max, .. } = self;
        match self.kind {
            ParameterKind::Number => format!("a number from {min} to {max}"),
            ParameterKind::ZeroOrFrom(least) => format!("0 or a number from {least} to {max}"),
            ParameterKind::WholeNumber => format!("a whole number from {min} to {max}"),
            ParameterKind::Choice(names) => {
                let all: Vec<String> =
                    names.iter().enumerate().map(|(at, name)| format!("{at} ({name})")).collect();
                match all.as_slice() {
                    [most @ .., last] if !most.is_empty() => {
                        format!("{} or {last}", most.join(", "))
                    }
                    all => all.concat(),
                }
            }
        }
    }

    /// The names of its values, where it is a choice.
    pub const fn names(&self) -> &'static [&'static str] {
        match self.kind {
            ParameterKind::Choice(names) => names,
            _ => &[],
        }
    }
}

/// The value of a parameter as it is written: a number, or a name where the parameter is a choice. Parameters of one name are of
/// one kind in all policies. Whether the policy has the parameter and takes the value, [`build`](crate::build) checks.
///
/// # Errors
/// What was found and what is expected.
pub fn parse_parameter(name: &str, text: &str) -> Result<f64, String> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let mut known = registry().iter().flat_map(|entry| entry.parameters);
    let parameter = known.find(|parameter| parameter.name == name);
    let names = parameter.map_or(&[][..], Parameter::names);
    let expected = parameter.map_or("a number".to_owned(), Parameter::expected);
    let place = names.iter().position(|known| *known == text);
    place.map(|place| place as f64).ok_or_else(|| format!("found `{text}`, expected {expected}"))
}

/// Reads parameters from a table or a map: `{ objective = "energy", caution = 1 }`.
///
/// # Errors
/// A value that is neither a number nor the name of a choice of that parameter.
pub fn deserialize_parameters<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, f64>, D::Error> {
    from.deserialize_map(Parameters)
}

struct Parameters;

impl<'de> Visitor<'de> for Parameters {
    type Value = BTreeMap<String, f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of parameters")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(ValueOf(&name))?;
            all.insert(name, value);
        }
        Ok(all)
    }
}

/// The value of the parameter of this name.
struct ValueOf<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for ValueOf<'_> {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<f64, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for ValueOf<'_> {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or the name of a choice")
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<f64, E> {
        Ok(number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        parse_parameter(self.0, text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildOptions, build};

    fn refusal(policy: &str, name: &str, value: f64) -> Option<String> {
        let parameters = [(name.to_owned(), value)].into();
        let built = build(policy, &BuildOptions { seed: 0, parameters });
        built.err().map(|error| error.to_string())
    }

    #[test]
    fn each_kind_takes_its_values_alone() {
        for (policy, name, good, bad, expected) in [
            (
                "corun",
                "objective",
                &[0.0, 4.0][..],
                &[1.5, 5.0, -1.0, f64::NAN][..],
                "expected 0 (mean-slowdown), 1 (worst-slowdown), 2 (unfairness), 3 (energy) or 4 (energy-delay)",
            ),
            ("corun", "ways", &[0.0, 1.0], &[0.5, 2.0], "expected 0 (off) or 1 (on)"),
            (
                "corun",
                "target-slowdown",
                &[0.0, 1.0, 1.2],
                &[0.5, -1.0, f64::INFINITY],
                "expected 0 or a number from 1 to 1000000",
            ),
            (
                "dino",
                "readings",
                &[1.0, 10.0],
                &[0.0, 1.5],
                "expected a whole number from 1 to 1000",
            ),
            ("corun", "caution", &[0.0, 0.25], &[-0.1, 101.0], "expected a number from 0 to 100"),
        ] {
            for &value in good {
                assert_eq!(refusal(policy, name, value), None, "{name} {value}");
            }
            for &value in bad {
                let said = refusal(policy, name, value).unwrap();
                let known = format!("policy `{policy}`: parameter `{name}` is {value}: {expected}");
                assert_eq!(said, known);
            }
        }
    }

    #[test]
    fn a_choice_is_written_by_name_or_by_number() {
        assert_eq!(parse_parameter("objective", " energy "), Ok(3.0));
        assert_eq!(parse_parameter("objective", "3"), Ok(3.0));
        assert_eq!(parse_parameter("ways", "off"), Ok(0.0));
        for (name, text, said) in [
            ("ways", "of", "found `of`, expected 0 (off) or 1 (on)"),
            ("readings", "many", "found `many`, expected a whole number from 1 to 1000"),
            ("no-such", "on", "found `on`, expected a number"),
        ] {
            assert_eq!(parse_parameter(name, text).unwrap_err(), said);
        }
    }

    #[test]
    fn parameters_are_read_from_a_table() {
        let read = |text: &str| {
            deserialize_parameters(&mut serde_json::Deserializer::from_str(text))
                .map_err(|error| error.to_string())
        };
        let read_as = |text| read(text).map(|all| all.into_values().collect::<Vec<f64>>());
        let all = read_as(r#"{"caution": 1, "min-gain-mpki": -0.5, "objective": "energy"}"#);
        assert_eq!(all, Ok(vec![1.0, -0.5, 3.0]));
        for (text, said) in [
            (r#"{"objective": "speed"}"#, "found `speed`, expected 0 (mean-slowdown)"),
            (r#"{"objective": true}"#, "expected a number or the name of a choice"),
            ("3", "expected a table of parameters"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(said), "{found}");
        }
    }

    #[test]
    fn parameters_of_one_name_have_the_same_names_of_values() {
        let mut known: BTreeMap<&str, &Parameter> = BTreeMap::new();
        for parameter in registry().iter().flat_map(|entry| entry.parameters) {
            let first = known.entry(parameter.name).or_insert(parameter);
            assert_eq!(first.names(), parameter.names(), "{}", parameter.name);
            if let count @ 1.. = parameter.names().len() {
                let range = (parameter.min, parameter.max);
                assert_eq!(range, (0.0, (count - 1) as f64), "{}", parameter.name);
            }
        }
    }
}
