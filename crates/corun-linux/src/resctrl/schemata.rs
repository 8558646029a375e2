//! The text of a group's `schemata`: `L3:0=7ff;1=7ff` and `MB:0=100;1=100`.

use std::fmt;
use std::str::FromStr;

/// What a group may use, resource by resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schemata {
    /// In the kernel's order.
    pub lines: Vec<SchemataLine>,
}

/// What a group may use of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemataLine {
    /// `L3`, `L3CODE`, `L3DATA`, `L2`, `MB`, and so on.
    pub resource: String,
    /// By domain (the kernel's id of the cache): a mask of ways, or an amount of bandwidth in the
    /// resource's unit.
    pub values: Vec<(u32, u64)>,
}

/// Why a text is no schemata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no line of schemata: expected RESOURCE:DOMAIN=VALUE;.. such as L3:0=7ff;1=7ff"
)]
pub struct SchemataError {
    /// The line that was found.
    pub text: String,
}

impl Schemata {
    /// The line of a resource.
    pub fn line(&self, resource: &str) -> Option<&SchemataLine> {
        self.lines.iter().find(|line| line.resource == resource)
    }
}

impl SchemataLine {
    /// The value of a domain.
    pub fn value(&self, domain: u32) -> Option<u64> {
        self.values.iter().find(|(one, _)| *one == domain).map(|(_, value)| *value)
    }

    /// The same line with another value for a domain.
    #[must_use]
    pub fn with(&self, domain: u32, value: u64) -> Self {
        let change = |&(one, old)| (one, if one == domain { value } else { old });
        Self { resource: self.resource.clone(), values: self.values.iter().map(change).collect() }
    }
}

/// Are its values amounts, in decimal digits, and not masks?
fn is_amount(resource: &str) -> bool {
    matches!(resource, "MB" | "SMBA")
}

impl FromStr for Schemata {
    type Err = SchemataError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        Ok(Self { lines: lines.map(str::parse).collect::<Result<_, _>>()? })
    }
}

impl FromStr for SchemataLine {
    type Err = SchemataError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || SchemataError { text: text.trim().to_owned() };
        let (resource, values) = text.split_once(':').ok_or_else(wrong)?;
        let resource = resource.trim();
        let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if resource.is_empty() || !resource.chars().all(named) {
            return Err(wrong());
        }
        let radix = if is_amount(resource) { 10 } else { 16 };
        let value = |part: &str| {
            let (domain, value) = part.split_once('=')?;
            let digits = |text: &str| text.trim().chars().all(|one| one.is_ascii_hexdigit());
            if !digits(domain) || !digits(value) {
                return None;
            }
            let value = u64::from_str_radix(value.trim(), radix).ok()?;
            Some((domain.trim().parse().ok()?, value))
        };
        let values: Option<Vec<(u32, u64)>> = values.trim().split(';').map(value).collect();
        Ok(Self { resource: resource.to_owned(), values: values.ok_or_else(wrong)? })
    }
}

impl fmt::Display for SchemataLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.resource)?;
        for (place, (domain, value)) in self.values.iter().enumerate() {
            let separator = if place == 0 { "" } else { ";" };
            match is_amount(&self.resource) {
                true => write!(f, "{separator}{domain}={value}")?,
                false => write!(f, "{separator}{domain}={value:x}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Schemata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernel_s_own_text_is_read() {
        // Blanks as the kernel writes them, to align the resources.
        let text = "    MB:0=100;1= 50\nL3CODE:0=00ff;1=7ff\n    L2:7=3\n";
        let schemata: Schemata = text.parse().unwrap();
        assert_eq!(schemata.line("MB").unwrap().values, [(0, 100), (1, 50)]);
        assert_eq!(schemata.line("L3CODE").unwrap().value(1), Some(0x7ff));
        assert_eq!(schemata.line("L2").unwrap().value(0), None);
        assert_eq!(schemata.line("L3"), None);
        assert_eq!(schemata.to_string(), "MB:0=100;1=50\nL3CODE:0=ff;1=7ff\nL2:7=3\n");
        let changed = schemata.line("L3CODE").unwrap().with(1, 0xf0);
        assert_eq!(changed.to_string(), "L3CODE:0=ff;1=f0");
    }

    #[test]
    fn what_is_no_schemata_is_refused() {
        for text in
            ["L3", ":0=1", "L3:", "L3:0", "L3:0=", "L3:0=xyz", "L3:0=+1", "L3:a=1", "MB:0=ff"]
        {
            assert!(text.parse::<Schemata>().is_err(), "{text}");
        }
    }

    fn line() -> impl Strategy<Value = SchemataLine> {
        let name = prop::sample::select(vec!["L2", "L3", "L3CODE", "L3DATA", "MB", "SMBA"]);
        let values = prop::collection::vec((any::<u32>(), any::<u64>()), 1..5);
        (name, values)
            .prop_map(|(resource, values)| SchemataLine { resource: resource.to_owned(), values })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(lines in prop::collection::vec(line(), 0..4)) {
            let schemata = Schemata { lines };
            prop_assert_eq!(schemata.to_string().parse(), Ok(schemata));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[L3MB0-9a-f:;=\\n \\PC]{0,40}") {
            if let Ok(schemata) = text.parse::<Schemata>() {
                prop_assert_eq!(schemata.to_string().parse(), Ok(schemata));
            }
        }
    }
}
