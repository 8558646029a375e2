//! From an event's text to what the kernel is asked.

use super::format::{Words, word};
use super::generic::{self, Generic};
use super::{Encoding, PerfEvent, Pmu, Pmus};

/// Why an event cannot be counted here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No such name.
    #[error("unknown event `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It needs hardware that the kernel does not show.
    #[error(
        "`{name}` needs hardware counters, and the kernel shows none here \
         (no `cpu` in /sys/bus/event_source/devices); a virtual machine has them only where its \
         host passes them on"
    )]
    NoHardware {
        /// The event.
        name: String,
    },
    /// No such kind of counter.
    #[error("`{name}`: this machine has no counters called `{pmu}`; it has {known}")]
    UnknownPmu {
        /// The event.
        name: String,
        /// The kind that was asked for.
        pmu: String,
        /// The kinds there are.
        known: String,
    },
    /// A part of the event's number that these counters do not have.
    #[error("`{name}`: `{term}` is no part of an event of `{pmu}`; expected {known}")]
    UnknownTerm {
        /// The event.
        name: String,
        /// The part.
        term: String,
        /// The kind of counter.
        pmu: String,
        /// The parts there are.
        known: String,
    },
    /// A part's value that cannot be.
    #[error("`{name}`: `{term}={value}`: expected a number that fits, such as 12 or 0x1f")]
    BadValue {
        /// The event.
        name: String,
        /// The part.
        term: String,
        /// Its value.
        value: String,
    },
    /// Letters after the colon.
    #[error(
        "`{name}`: found `:{found}`, expected :u (what programs do) or :k (what the kernel does)"
    )]
    Modifier {
        /// The event.
        name: String,
        /// What was found.
        found: String,
    },
    /// It counts for the machine as a whole.
    #[error("`{name}`: `{pmu}` counts for the machine as a whole, not for a thread or CPU")]
    NotInCores {
        /// The event.
        name: String,
        /// The kind of counter.
        pmu: String,
    },
}

impl Pmus {
    /// The event that a text asks for: a name that the kernel gives on every machine
    /// (`instructions`, `task-clock`), one of this machine's own (`mem-loads`, `cpu/mem-loads/`),
    /// a number (`r1a2`), or one in parts (`cpu/event=0xc0,umask=1/`); each may end in `:u` or
    /// `:k`.
    ///
    /// # Errors
    ///
    /// What was found and what can be asked for here.
    pub fn event(&self, text: &str) -> Result<PerfEvent, EventError> {
        let text = text.trim();
        let (base, user_only, kernel_only) = modifier(text)?;
        let mut event = match base.strip_suffix('/').and_then(|base| base.split_once('/')) {
            Some((pmu, terms)) => self.in_parts(text, pmu, terms)?,
            None => self.by_name(text, base)?,
        };
        for encoding in &mut event.encodings {
            (encoding.user_only, encoding.kernel_only) = (user_only, kernel_only);
        }
        Ok(event)
    }

    fn by_name(&self, text: &str, base: &str) -> Result<PerfEvent, EventError> {
        if let Some(generic) = generic::by_name(base) {
            return self.generic(text, generic);
        }
        if let Some(number) = raw(base) {
            return self.hardware(text, |pmu| {
                let kind = if self.cores().count() > 1 { pmu.kind } else { generic::RAW };
                Ok(Some((kind, [number, 0, 0, 0])))
            });
        }
        let has = |pmu: &Pmu| pmu.events.contains_key(base);
        if self.cores().any(has) {
            return self.hardware(text, |pmu| match pmu.events.get(base) {
                Some(terms) => pmu.words(text, terms).map(|words| Some((pmu.kind, words))),
                None => Ok(None),
            });
        }
        Err(EventError::Unknown { name: text.to_owned() })
    }

    pub(super) fn generic(&self, text: &str, generic: &Generic) -> Result<PerfEvent, EventError> {
        if !generic.is_software() {
            let several = self.cores().count() > 1;
            return self.hardware(text, |pmu| {
                // Which kind of core is meant stands in the upper half (perf_event_open(2)).
                let core = if several { u64::from(pmu.kind) << 32 } else { 0 };
                Ok(Some((generic.kind, [generic.config | core, 0, 0, 0])))
            });
        }
        Ok(PerfEvent {
            name: text.to_owned(),
            encodings: vec![encoding(generic.kind, [generic.config, 0, 0, 0], None)],
            is_time: generic.is_time(),
            is_software: true,
        })
    }

    fn in_parts(&self, text: &str, pmu: &str, terms: &str) -> Result<PerfEvent, EventError> {
        let Some(found) = self.all.iter().find(|one| one.name == pmu) else {
            let known: Vec<&str> = self.all.iter().map(|one| one.name.as_str()).collect();
            let (name, pmu) = (text.to_owned(), pmu.to_owned());
            return Err(EventError::UnknownPmu { name, pmu, known: known.join(", ") });
        };
        let is_software = found.kind == generic::SOFTWARE;
        if !found.is_core && !is_software {
            return Err(EventError::NotInCores { name: text.to_owned(), pmu: pmu.to_owned() });
        }
        let terms = found.events.get(terms).map_or(terms, String::as_str);
        let words = found.words(text, terms)?;
        let core = self.cores().position(|one| one.name == pmu);
        Ok(PerfEvent {
            name: text.to_owned(),
            encodings: vec![encoding(found.kind, words, core)],
            is_time: is_software && words[0] <= 1,
            is_software,
        })
    }

    /// An event on every kind of core that has it.
    fn hardware(
        &self,
        text: &str,
        on: impl Fn(&Pmu) -> Result<Option<(u32, Words)>, EventError>,
    ) -> Result<PerfEvent, EventError> {
        let mut encodings = Vec::new();
        for (core, pmu) in self.cores().enumerate() {
            encodings.extend(on(pmu)?.map(|(kind, words)| encoding(kind, words, Some(core))));
        }
        if encodings.is_empty() {
            return Err(EventError::NoHardware { name: text.to_owned() });
        }
        Ok(PerfEvent { name: text.to_owned(), encodings, is_time: false, is_software: false })
    }
}

impl Pmu {
    /// The words that terms stand for: `event=0xc0,umask=1,edge`.
    pub(super) fn words(&self, text: &str, terms: &str) -> Result<Words, EventError> {
        let mut words = [0; 4];
        for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            // A part without a value is a flag that is set.
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let bad = || EventError::BadValue {
                name: text.to_owned(),
                term: name.to_owned(),
                value: value.to_owned(),
            };
            let number = number(value).ok_or_else(bad)?;
            if let Some(format) = self.formats.get(name) {
                format.put(&mut words, number).ok_or_else(bad)?;
            } else if let Some(word) = word(name) {
                words[word] |= number;
            } else {
                return Err(self.unknown_term(text, name));
            }
        }
        Ok(words)
    }

    fn unknown_term(&self, text: &str, term: &str) -> EventError {
        let known = self.formats.keys().map(String::as_str).chain(["config", "config1"]);
        EventError::UnknownTerm {
            name: text.to_owned(),
            term: term.to_owned(),
            pmu: self.name.clone(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }
}

fn encoding(kind: u32, words: Words, core: Option<usize>) -> Encoding {
    let [config, config1, config2, config3] = words;
    let (user_only, kernel_only) = (false, false);
    Encoding { kind, config, config1, config2, config3, user_only, kernel_only, core }
}

/// Splits off `:u` or `:k`, which after a slash may stand without the colon.
fn modifier(text: &str) -> Result<(&str, bool, bool), EventError> {
    let (base, letters) = match text.rsplit_once(':') {
        Some((base, letters)) => (base, letters),
        None => match text.rfind('/') {
            Some(slash) => (&text[..=slash], &text[slash + 1..]),
            None => (text, ""),
        },
    };
    match letters {
        "" if base.len() == text.len() => Ok((base, false, false)),
        "uk" | "ku" => Ok((base, false, false)),
        "u" => Ok((base, true, false)),
        "k" => Ok((base, false, true)),
        found => Err(EventError::Modifier { name: text.to_owned(), found: found.to_owned() }),
    }
}

/// `r` and a number in hexadecimal.
fn raw(base: &str) -> Option<u64> {
    let digits = base.strip_prefix('r')?;
    let hexadecimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if hexadecimal { u64::from_str_radix(digits, 16).ok() } else { None }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // A sign is no digit.
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}
