//! The lines of a journal, and what can be read of a journal that was damaged.
//!
//! A line is a JSON object. Its first field is the CRC-32 of all bytes that follow this field, its second
//! the number of the line. A changed byte shows by the checksum, a missing line by the numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Header, JournalName, UndoState};
use crate::Change;

/// The version of the format; a reader refuses later ones. Version 1 had no checksums.
pub(crate) const VERSION: u32 = 2;

/// A plan's line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PlanLine<'a> {
    pub(crate) changes: Cow<'a, [Change]>,
    /// The cgroups of processes that are held for the first time, by process number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) cgroups: BTreeMap<u32, String>,
}

/// A journal as far as it can be read.
#[derive(Debug, Default)]
pub(crate) struct ReadJournal {
    /// None where the file is empty: its writer ended before it wrote or did anything.
    pub(crate) header: Option<Header>,
    pub(crate) undo_state: UndoState,
    /// The first line that is damaged or missing, in words.
    pub(crate) broken: Option<String>,
    pub(crate) cut: Option<CutLine>,
}

/// A last line without its end.
#[derive(Debug)]
pub(crate) struct CutLine {
    /// Counted from 1.
    pub(crate) number: usize,
    /// The plan's first change, where the line has all of it. The changes of a plan are made in order:
    /// where the first was not made, none was.
    pub(crate) first: Option<Change>,
}

/// A line with its checksum and its number, counted from 1.
pub(crate) fn line_of(number: u64, value: &impl Serialize) -> Vec<u8> {
    let value = serde_json::to_vec(value).expect("keys are texts and all is in memory");
    let mut rest = format!("\"line\":{number},").into_bytes();
    rest.extend(&value[1..]);
    let mut line = format!("{PREFIX}{:08x}\",", crc32fast::hash(&rest)).into_bytes();
    line.extend(rest);
    line.push(b'\n');
    line
}

const PREFIX: &str = "{\"crc32\":\"";
/// The prefix, eight digits, a quote and a comma.
const PREFIX_BYTES: usize = PREFIX.len() + 10;

/// Reads a line with the checksum and the number that it must have.
fn checked<T: DeserializeOwned>(line: &[u8], number: usize) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Numbered {
        line: usize,
    }
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = &line[spaces(line)..];
    let (prefix, rest) =
        line.split_at_checked(PREFIX_BYTES).ok_or("it is shorter than its checksum")?;
    if prefix != format!("{PREFIX}{:08x}\",", crc32fast::hash(rest)).as_bytes() {
        return Err("its checksum does not fit".to_owned());
    }
    let words = |error: serde_json::Error| error.to_string();
    let found: Numbered = serde_json::from_slice(line).map_err(words)?;
    if found.line != number {
        return Err(format!("line {} stands in its place", found.line));
    }
    serde_json::from_slice(line).map_err(words)
}

fn header_of(line: &[u8]) -> Result<Header, String> {
    #[derive(Deserialize)]
    struct Version {
        corun_journal: u32,
    }
    let no_header = |why: &dyn std::fmt::Display| format!("line 1 is no header: {why}");
    let version = serde_json::from_slice::<Version>(line).map_err(|error| no_header(&error))?;
    match version.corun_journal {
        1 => serde_json::from_slice(line).map_err(|error| no_header(&error)),
        VERSION => checked(line, 1).map_err(|why| no_header(&why)),
        later => Err(format!("another corun wrote it (version {later}); restore with that one")),
    }
}

/// Reads a journal's bytes.
///
/// # Errors
/// When the first line does not say whose journal this is: nothing of it can be undone.
pub(crate) fn parse(bytes: &[u8], name: &JournalName) -> Result<ReadJournal, String> {
    let mut read = ReadJournal { undo_state: UndoState::of_writer(name), ..ReadJournal::default() };
    if bytes.is_empty() {
        return Ok(read);
    }
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().ok_or("line 1 is cut short")?;
    let header = header_of(first)?;
    if (header.pid, header.start_ticks) != (name.pid, name.start_ticks) {
        return Err(format!("its header says process {}, its name {}", header.pid, name.pid));
    }
    let has_checksums = header.corun_journal > 1;
    read.header = Some(header);
    let mut number = 1;
    for line in lines {
        number += 1;
        let plan = match has_checksums {
            true => checked::<PlanLine<'_>>(line, number),
            false => serde_json::from_slice(line).map_err(|error| error.to_string()),
        };
        match plan {
            Ok(plan) => read.undo_state.add_line(plan, read.broken.is_some()),
            Err(why) => {
                read.broken.get_or_insert(format!("line {number} cannot be read ({why})"));
            }
        }
    }
    let cut = &bytes[whole..];
    if spaces(cut) < cut.len() {
        read.cut = Some(CutLine { number: number + 1, first: first_change(cut) });
    }
    Ok(read)
}

/// The spaces before a line, which its checksum leaves out.
fn spaces(line: &[u8]) -> usize {
    line.iter().take_while(|&&byte| byte == b' ').count()
}

/// The first change of a plan's line that has no end.
fn first_change(cut: &[u8]) -> Option<Change> {
    const CHANGES: &[u8] = b"\"changes\":[";
    let place = cut.windows(CHANGES.len()).position(|window| window == CHANGES)?;
    let changes = serde_json::Deserializer::from_slice(&cut[place + CHANGES.len()..]);
    changes.into_iter::<Change>().next()?.ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: JournalName = JournalName { pid: 7, start_ticks: 5 };

    fn change(tid: u32, before: &str, after: &str) -> Change {
        let task = corun_linux::Task { pid: 1 << 30, tid, start_ticks: 9 };
        Change::Nice { task, before: before.parse().unwrap(), after: after.parse().unwrap() }
    }

    /// A header and three plans.
    fn journal() -> Vec<Vec<u8>> {
        let header = Header {
            corun_journal: VERSION,
            pid: NAME.pid,
            start_ticks: NAME.start_ticks,
            boot_id: "boot".to_owned(),
            began_ns: 3,
            pid_namespace: None,
        };
        let plan = |number: u64, one: Change| {
            line_of(number, &PlanLine { changes: vec![one].into(), ..PlanLine::default() })
        };
        vec![
            line_of(1, &header),
            plan(2, change(1, "0", "1")),
            plan(3, change(2, "0", "1")),
            plan(4, change(1, "1", "2")),
        ]
    }

    fn read(lines: &[Vec<u8>]) -> Result<ReadJournal, String> {
        parse(&lines.concat(), &NAME)
    }

    #[test]
    fn a_whole_journal_is_read_as_written() {
        let read = read(&journal()).unwrap();
        assert_eq!(read.header.unwrap().boot_id, "boot");
        assert_eq!(read.undo_state.shortest().len(), 3);
        assert!(read.broken.is_none() && read.cut.is_none());
    }

    #[test]
    fn a_missing_a_repeated_and_a_swapped_line_are_noticed() {
        let lines = journal();
        let pick = |places: &[usize]| {
            let picked: Vec<Vec<u8>> = places.iter().map(|&place| lines[place].clone()).collect();
            read(&picked).unwrap().broken
        };
        assert_eq!(pick(&[0, 1, 2, 3]), None);
        for places in [&[0, 2, 3][..], &[0, 1, 1, 2, 3], &[0, 2, 1, 3]] {
            assert!(pick(places).is_some(), "{places:?}");
        }
        assert!(read(&lines[1..]).unwrap_err().contains("no header"));
    }

    #[test]
    fn a_cut_last_line_is_no_empty_journal() {
        let lines = journal();
        let whole = lines[..2].concat();
        for cut in 1..lines[2].len() {
            let read = parse(&[&whole, &lines[2][..cut]].concat(), &NAME).unwrap();
            let cut_line = read.cut.unwrap();
            assert_eq!(cut_line.number, 3);
            // All of its change is there but for the end of the list, of the object and of the line.
            let has_change = cut >= lines[2].len() - 3;
            assert_eq!(cut_line.first.is_some(), has_change, "{cut}");
        }
        assert!(parse(b"", &NAME).unwrap().header.is_none());
        assert!(parse(&lines[0][..9], &NAME).unwrap_err().contains("cut short"));
    }

    proptest! {
        /// Whatever bit is flipped, the journal does not pass for whole, and nothing else is read.
        #[test]
        fn a_flipped_bit_is_noticed(place in 0usize..2000, bit in 0u8..8) {
            let mut bytes = journal().concat();
            let place = place % bytes.len();
            bytes[place] ^= 1 << bit;
            if let Ok(read) = parse(&bytes, &NAME) {
                prop_assert!(read.broken.is_some() || read.cut.is_some(), "byte {place}");
                let all = [change(1, "0", "1"), change(2, "0", "1"), change(1, "1", "2")];
                for one in read.undo_state.shortest() {
                    prop_assert!(all.contains(&one), "{one}");
                }
            }
        }

        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = parse(&bytes, &NAME);
            let _ = parse(&[&journal()[0], &bytes[..]].concat(), &NAME);
        }
    }
}
