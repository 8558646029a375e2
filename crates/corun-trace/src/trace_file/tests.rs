use std::io::{self, Write};

use proptest::prelude::*;

use super::*;
use crate::block::{Block, Exit};
use crate::event::TraceEvent;

fn header() -> TraceHeader {
    let command = vec!["gzip".to_owned(), "a file\n\"".to_owned()];
    TraceHeader { line_bytes: 64, guest: "x86_64".to_owned(), command }
}

fn written(accesses: &[Access], chunk: usize, instructions: u64) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    for part in accesses.chunks(chunk) {
        part.iter().for_each(|&access| writer.push(access).unwrap());
        writer.flush().unwrap();
    }
    writer.finish(instructions).unwrap()
}

/// What can be read before an error or the end.
fn read(bytes: &[u8]) -> (Vec<Access>, Option<Ending>, Option<TraceFileError>) {
    let mut reader = match TraceReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), None, Some(error)),
    };
    let mut accesses = Vec::new();
    let mut error = None;
    for next in &mut reader {
        match next {
            Ok(access) => accesses.push(access),
            Err(found) => error = Some(found),
        }
    }
    (accesses, reader.ending(), error)
}

fn access() -> impl Strategy<Value = Access> {
    let line = prop_oneof![0..40u64, 1_000_000..1_000_900u64, any::<u64>()];
    let gap = prop_oneof![0..5u64, 60..70u64, 0..=u64::MAX >> 20];
    let kind =
        prop_oneof![Just(AccessKind::Load), Just(AccessKind::Store), Just(AccessKind::Fetch)];
    (line, gap, kind).prop_map(|(line, gap, kind)| Access { line, gap, kind })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_read(
        accesses in prop::collection::vec(access(), 0..400),
        chunk in 1usize..300,
        after in 0u64..9,
    ) {
        let instructions = accesses.iter().map(|one| one.gap).sum::<u64>() + after;
        let bytes = written(&accesses, chunk, instructions);
        let mut reader = TraceReader::new(&bytes[..]).unwrap();
        prop_assert_eq!(reader.header(), &header());
        let back: Result<Vec<_>, _> = (&mut reader).collect();
        prop_assert_eq!(&back.unwrap(), &accesses);
        prop_assert_eq!(reader.ending(), Some(Ending::Whole));
        let totals = TraceTotals { accesses: accesses.len() as u64, instructions };
        prop_assert_eq!(reader.totals(), totals);
    }

    #[test]
    fn a_flipped_byte_is_noticed_or_ends_the_trace(
        accesses in prop::collection::vec(access(), 1..200),
        at in any::<prop::sample::Index>(),
        bits in 1u8..=255,
    ) {
        let mut bytes = written(&accesses, 50, 0);
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        let (back, ending, error) = read(&bytes);
        prop_assert!(error.is_some() || ending == Some(Ending::BrokenOff));
        prop_assert!(accesses.starts_with(&back), "accesses that were never written");
    }

    #[test]
    fn garbage_is_no_trace(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).2.is_some());
        let mut framed = MAGIC.to_vec();
        framed.extend(VERSION.to_le_bytes());
        framed.extend(bytes);
        let (back, _, error) = read(&framed);
        prop_assert!(back.is_empty() && error.is_some());
    }
}

/// A loop over an array.
fn walk(count: u64) -> Vec<Access> {
    (0..count)
        .map(|at| Access { line: 7000 + at / 8 % 512, gap: 3, kind: AccessKind::Load })
        .collect()
}

#[test]
fn a_file_cut_anywhere_reads_up_to_its_last_whole_chunk() {
    let accesses = walk(90);
    let bytes = written(&accesses, 30, 300);
    let mut counts = Vec::new();
    for length in 0..bytes.len() {
        let (back, ending, error) = read(&bytes[..length]);
        assert!(accesses.starts_with(&back));
        if error.is_none() {
            assert_eq!(ending, Some(Ending::BrokenOff));
            counts.push(back.len());
        } else {
            // Without its header it is no trace.
            assert!(counts.is_empty() && back.is_empty(), "{length}");
        }
    }
    counts.dedup();
    assert_eq!(counts, [0, 30, 60, 90]);
}

#[test]
fn a_full_chunk_is_written_by_itself_and_regular_accesses_take_no_room() {
    let accesses = walk(CHUNK_ACCESSES as u64 + 5);
    let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    accesses.iter().for_each(|&access| writer.push(access).unwrap());
    let bytes = writer.finish(0).unwrap();
    assert_eq!(read(&bytes).0, accesses);
    assert!(bytes.len() < accesses.len() / 50, "{} bytes", bytes.len());
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let mut bytes = written(&walk(3), 9, 0);
    assert!(matches!(read(b"# a profile\nversion = 1").2, Some(TraceFileError::NotATrace)));
    bytes[8] = 9;
    let error = read(&bytes).2.unwrap();
    assert_eq!(error.to_string(), "is a trace of version 9: expected 1");
}

#[test]
fn what_stands_behind_the_end_is_an_error() {
    let mut bytes = written(&walk(10), 10, 10);
    bytes.extend(written(&walk(10), 10, 10));
    let (accesses, ending, error) = read(&bytes);
    assert_eq!((accesses.len(), ending), (10, None));
    let error = error.unwrap().to_string();
    assert!(error.contains("frame 3") && error.contains("behind the end"), "{error}");
}

#[test]
fn totals_that_do_not_fit_are_an_error() {
    // The end of one trace behind the chunks of another.
    let (long, short) = (written(&walk(60), 30, 0), written(&walk(30), 30, 0));
    let end_of = |bytes: &[u8]| {
        let mut at = 12;
        while bytes[at] != b'E' {
            let length = bytes[at + 1..at + 5].try_into().unwrap();
            at += 5 + u32::from_le_bytes(length) as usize;
        }
        at
    };
    let mixed = [&long[..end_of(&long)], &short[end_of(&short)..]].concat();
    let (back, _, error) = read(&mixed);
    assert_eq!(back.len(), 60);
    assert!(error.unwrap().to_string().contains("do not fit"));
}

/// A disk with so much room.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let whole = written(&walk(1000), 1000, 0).len();
    for room in [0, 20, whole - 1] {
        let ended = TraceWriter::new(Disk(room), &header()).and_then(|mut writer| {
            walk(1000).into_iter().try_for_each(|access| writer.push(access))?;
            writer.finish(0)
        });
        assert!(matches!(ended, Err(TraceFileError::Io(_))), "{room}");
    }
}

#[test]
fn events_become_accesses() {
    // A block of 4 instructions over two lines of code, then one of 2 in the second line that
    // repeats itself.
    let first = Block::undecoded(0x1038, 0x1044, 0x1048, 4);
    let mut again = Block::undecoded(0x1048, 0x1048, 0x104a, 2);
    again.exit = Exit::Repeat;
    let blocks = [first, again];
    let events = [
        TraceEvent::block(0),
        TraceEvent::data(8 * 900, 1, false),
        TraceEvent::data(8 * 901, 3, true),
        TraceEvent::block(7),
        TraceEvent::block(1),
        TraceEvent::data(8 * 902, 0, true),
        TraceEvent::block(1),
        TraceEvent::data(8 * 903, 0, true),
        TraceEvent::block(0),
    ];
    let writer = TraceWriter::new(Vec::new(), &header()).unwrap();
    let mut recorder = Recorder::new(writer);
    let mut position = Position::default();
    // In two batches: the thread's state goes from one to the other.
    for batch in events.chunks(3) {
        recorder.record(&mut position, batch, 7, |id| blocks.get(id as usize)).unwrap();
    }
    let bytes = recorder.finish().unwrap();
    let mut reader = TraceReader::new(&bytes[..]).unwrap();
    let read: Vec<(u64, u64, AccessKind)> = (&mut reader)
        .map(|access| access.map(|one| (one.line, one.gap, one.kind)).unwrap())
        .collect();
    use AccessKind::{Fetch, Load, Store};
    let expected = [
        (0x40, 1, Fetch),
        (0x41, 0, Fetch),
        (900, 1, Load),
        (901, 2, Store),
        (902, 1, Store),
        (903, 2, Store),
    ];
    assert_eq!(read, expected);
    // 4 + 2 + (2 - 1, as it repeats): the limit, so that the last block is not taken in.
    assert_eq!(reader.totals(), TraceTotals { accesses: 6, instructions: 7 });
}
