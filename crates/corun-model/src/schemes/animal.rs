//! Turtle, sheep, rabbit, devil.

use serde::Deserialize;

use super::StackDistances;

/// The classes as shipped.
const SHIPPED: &str = include_str!("animals.toml");

/// The highest entry of a symbiosis table.
const MOST: u8 = 8;

/// What a program is to a shared cache (section 2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnimalClass {
    /// Uses the cache little.
    Turtle,
    /// Misses seldom, whatever ways it has.
    Sheep,
    /// Misses seldom with all ways, more often with fewer.
    Rabbit,
    /// Misses often: it hurts others, and suffers from those like it.
    Devil,
}

impl AnimalClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Turtle, Self::Sheep, Self::Rabbit, Self::Devil];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        ["turtle", "sheep", "rabbit", "devil"][self as usize]
    }
}

/// The limits of the classes, and what they do to one another.
#[derive(Debug, Clone, PartialEq)]
pub struct AnimalClasses {
    turtle_below_apki: f64,
    devil_from_mpki: f64,
    rabbit_growth: f64,
    rabbit_from_mpki: f64,
    /// Symmetric.
    symbiosis: [[u8; 4]; 4],
}

/// Why a file of animal classes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnimalFileError {
    /// It is no such file.
    #[error("animal classes: {0}")]
    Syntax(#[from] toml::de::Error),
    /// An entry is missing or too large.
    #[error(
        "animal classes: symbiosis of {first} and {second}: expected one entry of 0 to {MOST}, found {found}"
    )]
    Entry {
        /// The one class.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// What stands there.
        found: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    turtle_below_apki: f64,
    devil_from_mpki: f64,
    rabbit_growth: f64,
    rabbit_from_mpki: f64,
    symbiosis: Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    turtle: Row,
    sheep: Row,
    rabbit: Row,
    devil: Row,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    turtle: Option<u8>,
    sheep: Option<u8>,
    rabbit: Option<u8>,
    devil: Option<u8>,
}

impl AnimalClasses {
    /// The classes that corun ships.
    ///
    /// # Errors
    /// None: a test reads them.
    pub fn shipped() -> Result<Self, AnimalFileError> {
        Self::parse(SHIPPED)
    }

    /// From the text of a file: the limits, and for every pair of classes one entry.
    ///
    /// # Errors
    /// [`AnimalFileError`] for another form, an entry that is missing, given twice or above 8.
    pub fn parse(text: &str) -> Result<Self, AnimalFileError> {
        let file: File = toml::from_str(text)?;
        let rows = [
            &file.symbiosis.turtle,
            &file.symbiosis.sheep,
            &file.symbiosis.rabbit,
            &file.symbiosis.devil,
        ];
        let given = rows.map(|row| [row.turtle, row.sheep, row.rabbit, row.devil]);
        let mut symbiosis = [[0; 4]; 4];
        for first in AnimalClass::ALL {
            for second in AnimalClass::ALL.into_iter().filter(|second| *second >= first) {
                let (i, j) = (first as usize, second as usize);
                let entry = match (given[i][j], given[j][i]) {
                    (Some(entry), _) if i == j => Some(entry),
                    (Some(entry), None) | (None, Some(entry)) => Some(entry),
                    _ => None,
                };
                let entry = entry.filter(|&entry| entry <= MOST).ok_or_else(|| {
                    let found = format!("{:?} and {:?}", given[i][j], given[j][i]);
                    AnimalFileError::Entry { first: first.name(), second: second.name(), found }
                })?;
                symbiosis[i][j] = entry;
                symbiosis[j][i] = entry;
            }
        }
        Ok(Self {
            turtle_below_apki: file.turtle_below_apki,
            devil_from_mpki: file.devil_from_mpki,
            rabbit_growth: file.rabbit_growth,
            rabbit_from_mpki: file.rabbit_from_mpki,
            symbiosis,
        })
    }

    /// The class of a program.
    pub fn of(&self, program: &StackDistances) -> AnimalClass {
        let half = program.misses_with(program.hits_pki.len() / 2);
        let grows = half >= self.rabbit_growth * program.misses_pki
            && half - program.misses_pki >= self.rabbit_from_mpki;
        match program {
            _ if program.misses_pki >= self.devil_from_mpki => AnimalClass::Devil,
            _ if program.references_pki() < self.turtle_below_apki => AnimalClass::Turtle,
            _ if grows => AnimalClass::Rabbit,
            _ => AnimalClass::Sheep,
        }
    }

    /// What two classes suffer together, 0 to 8.
    pub fn symbiosis(&self, one: AnimalClass, other: AnimalClass) -> u8 {
        self.symbiosis[one as usize][other as usize]
    }

    /// The same with the entry of two classes changed by so much, within 0 to 8.
    #[must_use]
    pub fn with_entry_changed(&self, one: AnimalClass, other: AnimalClass, by: i8) -> Self {
        let mut changed = self.clone();
        let entry = self.symbiosis(one, other).saturating_add_signed(by).min(MOST);
        changed.symbiosis[one as usize][other as usize] = entry;
        changed.symbiosis[other as usize][one as usize] = entry;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_has_the_papers_ends() {
        let classes = AnimalClasses::shipped().unwrap();
        assert_eq!(classes.symbiosis(AnimalClass::Turtle, AnimalClass::Turtle), 0);
        assert_eq!(classes.symbiosis(AnimalClass::Devil, AnimalClass::Devil), 8);
        for one in AnimalClass::ALL {
            for other in AnimalClass::ALL {
                assert_eq!(classes.symbiosis(one, other), classes.symbiosis(other, one));
            }
        }
        let changed = classes.with_entry_changed(AnimalClass::Devil, AnimalClass::Devil, 1);
        assert_eq!(changed, classes);
        let changed = classes.with_entry_changed(AnimalClass::Devil, AnimalClass::Sheep, -1);
        assert_eq!(changed.symbiosis(AnimalClass::Sheep, AnimalClass::Devil), 2);
    }

    #[test]
    fn each_animal_is_known_by_its_profile() {
        let classes = AnimalClasses::shipped().unwrap();
        let of = |hits_pki: &[f64], misses_pki| {
            classes.of(&StackDistances { hits_pki: hits_pki.to_vec(), misses_pki })
        };
        assert_eq!(of(&[0.4, 0.0, 0.0, 0.0], 0.1), AnimalClass::Turtle);
        assert_eq!(of(&[9.0, 1.0, 0.01, 0.0], 0.5), AnimalClass::Sheep);
        assert_eq!(of(&[9.0, 1.0, 0.4, 0.1], 0.5), AnimalClass::Rabbit);
        assert_eq!(of(&[9.0, 1.0, 0.4, 0.1], 2.0), AnimalClass::Devil);
        // Few references that all miss: still one that others feel.
        assert_eq!(of(&[0.0; 4], 2.5), AnimalClass::Devil);
    }

    #[test]
    fn a_table_with_a_hole_or_a_contradiction_is_refused() {
        let hole = SHIPPED.replace("rabbit = 3, devil = 6", "rabbit = 3");
        let error = AnimalClasses::parse(&hole).unwrap_err().to_string();
        assert!(error.contains("rabbit and devil"), "{error}");
        let twice = SHIPPED.replace("devil = { devil = 8 }", "devil = { sheep = 1, devil = 8 }");
        assert!(AnimalClasses::parse(&twice).is_err());
        let large = SHIPPED.replace("devil = { devil = 8 }", "devil = { devil = 9 }");
        assert!(AnimalClasses::parse(&large).is_err());
        assert!(AnimalClasses::parse("turtle_below_apki = 1").is_err());
    }
}
