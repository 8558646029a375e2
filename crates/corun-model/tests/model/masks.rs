//! Members held to ways, and caps on traffic.

use corun_model::{BandwidthModel, Demand, Flow, Member, Model, ModelOptions, Outcome, Scratch};

use crate::fixture::{WAY, load, solo_table};

fn gold(bandwidth: BandwidthModel) -> Model {
    let machine = corun_machine::preset("xeon-gold-6138").unwrap();
    let options = ModelOptions { bandwidth, ..ModelOptions::default() };
    Model::new(machine.into(), options).unwrap()
}

fn held(masks: &[u64], mpki: &[(f64, f64)]) -> Vec<Demand> {
    let model = gold(BandwidthModel::None);
    let programs: Vec<_> = mpki
        .iter()
        .map(|&(first, last)| load(&model, &solo_table("program", first, last)))
        .collect();
    let member = |(cpu, program)| Member { program, phase: 0, cpu };
    let members: Vec<Member<'_>> = programs.iter().enumerate().map(member).collect();
    let mut out = Vec::new();
    model.share_by_masks(masks, &members, &mut Scratch::new(), &mut out);
    out
}

fn ways(masks: &[u64], mpki: &[(f64, f64)]) -> Vec<f64> {
    held(masks, mpki).iter().map(|one| one.occupancy_bytes / WAY as f64).collect()
}

#[test]
fn equal_masks_share_by_the_law_and_others_stand_apart() {
    let programs = [(20.0, 2.0), (30.0, 28.0), (10.0, 1.0)];
    let found = ways(&[0xf, 0x7f0, 0xf], &programs);
    assert!((found[1] - 7.0).abs() < 1e-9, "{found:?}");
    assert!((found[0] + found[2] - 4.0).abs() < 1e-9 && found[0] > found[2], "{found:?}");
    // As the two alone in a group of four ways.
    let model = gold(BandwidthModel::None);
    let pair = [programs[0], programs[2]]
        .map(|(first, last)| load(&model, &solo_table("program", first, last)));
    let members = [0, 1].map(|cpu| Member { program: &pair[cpu], phase: 0, cpu });
    let mut out = Vec::new();
    model.share(4.0 * WAY as f64, &members, &mut Scratch::new(), &mut out);
    assert!((out[0].occupancy_bytes / WAY as f64 - found[0]).abs() < 1e-9);
}

/// Equal programs on ways 0-5 and 4-9: the two common ways are halved.
#[test]
fn common_ways_are_halved_between_equals() {
    let found = ways(&[0x3f, 0x3f0], &[(20.0, 20.0); 2]);
    assert!(found.iter().all(|ways| (ways - 5.0).abs() < 1e-6), "{found:?}");
}

/// One spreads its misses over four ways, the other over two of these: with the same rate all over,
/// its pull on a common way is half the other's.
#[test]
fn misses_spread_over_a_programs_own_ways() {
    let found = ways(&[0xf, 0x3], &[(20.0, 20.0); 2]);
    assert!((found[0] - (2.0 + 2.0 / 3.0)).abs() < 1e-6, "{found:?}");
    assert!((found[1] - 4.0 / 3.0).abs() < 1e-6, "{found:?}");
}

#[test]
fn masks_that_overlap_in_a_chain_lose_no_way() {
    let found =
        ways(&[0x7, 0x1c, 0x70, 0x780], &[(20.0, 2.0), (30.0, 28.0), (5.0, 1.0), (9.0, 3.0)]);
    assert!((found[..3].iter().sum::<f64>() - 7.0).abs() < 1e-6, "{found:?}");
    assert!((found[3] - 4.0).abs() < 1e-9, "{found:?}");
}

fn coupled(bandwidth: BandwidthModel, caps: &[f64]) -> Vec<Outcome> {
    let model = gold(bandwidth);
    let programs = [(30.0, 28.0), (20.0, 2.0)]
        .map(|(first, last)| load(&model, &solo_table("program", first, last)));
    let members = [0, 1].map(|cpu| Member { program: &programs[cpu], phase: 0, cpu });
    let mut scratch = Scratch::new();
    let mut demands = Vec::new();
    model.share_by_masks(&[0x3, 0x7fc], &members, &mut scratch, &mut demands);
    let flows: Vec<Flow<'_>> = members
        .iter()
        .zip(&demands)
        .map(|(member, demand)| Flow { member: *member, demand: *demand, home: &[] })
        .collect();
    let mut out = Vec::new();
    model.couple_capped(&flows, caps, &mut scratch, &mut out);
    out
}

#[test]
fn a_capped_program_draws_its_cap_and_slows_in_proportion() {
    let free = coupled(BandwidthModel::None, &[]);
    let cap = 0.5 * free[0].bytes_per_s;
    let capped = coupled(BandwidthModel::None, &[cap, f64::INFINITY]);
    assert!((capped[0].bytes_per_s / cap - 1.0).abs() < 1e-9);
    assert!((capped[0].slowdown / free[0].slowdown - 2.0).abs() < 1e-9);
    assert_eq!(capped[1], free[1]);
    assert_eq!(coupled(BandwidthModel::None, &[f64::INFINITY; 2]), free);
}

#[test]
fn a_cap_helps_the_neighbour_where_bandwidth_is_short() {
    let free = coupled(BandwidthModel::Additive, &[]);
    let capped = coupled(BandwidthModel::Additive, &[0.5 * free[0].bytes_per_s, f64::INFINITY]);
    assert!(capped[1].slowdown < free[1].slowdown);
    assert!(capped[0].slowdown > free[0].slowdown);
}
