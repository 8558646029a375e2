use proptest::prelude::*;

use super::*;

fn entry(at: usize, bits: u64) -> MicroOp {
    let back = |shift: u64| (bits.rotate_right(shift as u32 * 7) % (at as u64 + 1)) as u16;
    MicroOp {
        operation: OPERATIONS[bits as usize % OPERATIONS.len()],
        marks: Marks((bits >> 5) as u16),
        inputs: [back(1), back(2), back(3)],
        address_inputs: [back(4), back(5)],
        forwarded_from: back(6),
        line_before: back(7),
        stream_before: back(8),
        reuse: Reuse(bits as u8),
        page_reuse: Reuse((bits >> 8) as u8),
        fetch_reuse: Reuse((bits >> 16) as u8),
        reconvergence: Reconvergence::of([
            (bits >> 24) as u16,
            if bits >> 39 & 1 == 0 { 0 } else { bits as u16 },
        ]),
        hangs_on: back(9),
    }
}

proptest! {
    #[test]
    fn traces_come_back_from_text(
        traces in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..200), 0..5)
    ) {
        let traces: Vec<MicroTrace> = traces
            .iter()
            .map(|trace| trace.iter().enumerate().map(|(at, &bits)| entry(at, bits)).collect())
            .collect();
        for packed in [MicroTraces::pack(&traces), MicroTraces::pack_quickly(&traces)] {
            let read = MicroTraces::from_base64(&packed.to_base64()).unwrap();
            prop_assert_eq!(read.unpack().unwrap(), traces.clone());
        }
    }

    #[test]
    fn a_step_holds_its_distance(distance in 0u64..1 << 24) {
        let least = Reuse::of(distance).distance();
        prop_assert!(least <= distance as f64 * (1.0 + 1e-12));
        prop_assert!(distance < 16 || least > distance as f64 / 1.0906);
    }
}

#[test]
fn damage_is_named() {
    let wrong = |text: &str| MicroTraces::from_base64(text).and_then(|read| read.unpack());
    assert!(matches!(wrong("%%"), Err(MicroTraceError::Text(_))));
    assert!(matches!(wrong("AAAA"), Err(MicroTraceError::Packed(_))));
    let packed = |raw: &[u8]| MicroTraces { packed: zstd::bulk::compress(raw, 1).unwrap().into() };
    let of = |raw: &[u8]| packed(raw).unpack().unwrap_err();
    assert_eq!(of(&[9]), MicroTraceError::Version { found: 9 });
    assert_eq!(of(&[1, 1, 0, 0, 0, 5, 0, 0, 0]).to_string(), "cannot be unpacked: cut short");
    assert!(of(&[1, 0, 0, 1, 0]).to_string().contains("65536 micro-traces, expected at most 1024"));
    assert!(of(&[1, 1, 0, 0, 0, 0, 0, 1, 0]).to_string().contains("65536 entries"));
    // One entry: an operation that there is not, then a distance beyond the beginning.
    let entry = |place: usize, value: u8| {
        let mut raw = vec![1, 1, 0, 0, 0, 1, 0, 0, 0];
        raw.extend([0; BYTES_OF_ONE_DIRECTION]);
        raw[9 + place] = value;
        of(&raw)
    };
    assert_eq!(
        entry(0, 99),
        MicroTraceError::Entry { trace: 0, entry: 0, why: "an unknown operation" }
    );
    assert!(entry(3, 1).to_string().contains("beyond the beginning"));
}

/// A recording of the first version says nothing of meetings, and all else as before.
#[test]
fn the_first_version_is_read() {
    let mut raw = vec![1, 1, 0, 0, 0, 2, 0, 0, 0];
    let entries = [entry(0, 0x1234_5678_9abc_def0), entry(1, 0x0fed_cba9_8765_4321)];
    for column in 0..BYTES_OF_ONE_DIRECTION {
        raw.extend(entries.map(|one| bytes(&one)[column]));
    }
    let read = MicroTraces { packed: zstd::bulk::compress(&raw, 1).unwrap().into() };
    let expected =
        entries.map(|one| MicroOp { reconvergence: Reconvergence::Unknown, hangs_on: 0, ..one });
    assert_eq!(read.unpack().unwrap(), [expected.to_vec()]);
}

#[test]
fn none_is_none() {
    assert!(MicroTraces::default().is_empty());
    assert_eq!(MicroTraces::default().unpack(), Ok(Vec::new()));
}
