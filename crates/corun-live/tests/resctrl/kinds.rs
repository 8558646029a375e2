//! Caches of other kinds: with code and data apart, and with ways that devices use too.

use std::collections::BTreeMap;

use super::*;

/// The masks of a cache's line in a group's schemata, by domain.
fn line(bench: &Bench, group: &str, cache: &str) -> String {
    let schemata = bench.read(&format!("{group}/schemata"));
    let start = format!("{cache}:");
    let of = schemata.lines().find_map(|line| line.trim().strip_prefix(&start));
    of.unwrap_or_else(|| panic!("{cache} in {schemata}")).to_owned()
}

/// The group that a program is in, and all masks there.
fn place(bench: &Bench, program: usize) -> [String; 2] {
    let tid = bench.programs[program].id().to_string();
    let groups = bench.ours().into_iter().chain([".".to_owned()]);
    let mut groups = groups
        .filter(|group| bench.read(&format!("{group}/tasks")).lines().any(|line| line == tid));
    let group = groups.next().unwrap();
    ["L3CODE", "L3DATA"].map(|cache| line(bench, &group, cache))
}

#[test]
fn code_and_data_get_the_same_ways_and_all_is_restored() {
    let Some(bench) = Bench::new() else { return };
    bench.mounted.kernel.lock().unwrap().num_closids = 8;
    bench.mounted.kernel.lock().unwrap().part_code_and_data();
    let mut resctrl = bench.actuator();
    // What code and data may have together is half as many groups.
    assert_eq!(resctrl.info().num_closids(), Some(4));
    let caches: Vec<&str> = resctrl.info().llc().iter().map(|one| one.resource.as_str()).collect();
    assert_eq!(caches, ["L3CODE", "L3DATA"]);
    let mut done = bench.act(&mut resctrl, &partition(0, &[(0x00f, &[0]), (0x7f0, &[1])]), 1);
    // LLC 0 is domain 1.
    assert_eq!(place(&bench, 0), ["0=7ff;1=00f"; 2]);
    assert_eq!(place(&bench, 1), ["0=7ff;1=7f0"; 2]);
    done.extend(bench.act(&mut resctrl, &partition(0, &[(0x07f, &[0]), (0x780, &[1])]), 2));
    assert_eq!(place(&bench, 0), ["0=7ff;1=07f"; 2]);
    bench.undo(&done);
    assert_eq!(bench.ours(), [""; 0]);
    assert_eq!(
        (0..4).map(|one| place(&bench, one)).collect::<Vec<_>>(),
        vec![["0=7ff;1=7ff"; 2]; 4]
    );
}

#[test]
fn ways_that_are_kept_of_code_or_data_alone_are_kept() {
    for (kept, free) in [("L3CODE", "L3DATA"), ("L3DATA", "L3CODE")] {
        let Some(bench) = Bench::new() else { return };
        bench.mounted.kernel.lock().unwrap().num_closids = 8;
        bench.mounted.kernel.lock().unwrap().part_code_and_data();
        bench.write("schemata", &format!("{kept}:0=7f;1=7f\n"));
        let mut resctrl = bench.actuator();
        let refused = bench.prepare(&mut resctrl, &partition(0, &[(0x7c0, &[0])]), 1).unwrap_err();
        assert!(refused.contains("beyond 7f"), "{kept}: {refused}");
        bench.act(&mut resctrl, &partition(0, &[(0x03, &[0]), (0x7c, &[1])]), 2);
        assert_eq!(
            place(&bench, 0),
            if kept == "L3CODE" {
                ["0=07f;1=003", "0=7ff;1=003"]
            } else {
                ["0=7ff;1=003", "0=07f;1=003"]
            }
        );
        // The root's own lines are nobody's to change.
        assert_eq!(
            (line(&bench, ".", kept), line(&bench, ".", free)),
            ("0=07f;1=07f".into(), "0=7ff;1=7ff".into())
        );
    }
}

#[test]
fn ways_that_devices_use_are_shared_with_them() {
    let Some(bench) = Bench::new() else { return };
    bench.mounted.kernel.lock().unwrap().shareable_bits = 0x600;
    let mut resctrl = bench.actuator();
    assert_eq!(resctrl.info().llc()[0].shareable_bits, 0x600);
    let done = bench.act(&mut resctrl, &partition(0, &[(0x00f, &[0]), (0x7f0, &[1])]), 1);
    assert_eq!([0, 1].map(|program| bench.mask(program, 1).0), ["f", "7f0"]);
    // Groups of ours leave the devices what is theirs: none asks to be alone.
    for group in bench.ours() {
        assert_eq!(bench.read(&format!("{group}/mode")), "shareable\n");
    }
    let usage = bench.read("info/L3/bit_usage");
    assert_eq!(usage, "0=XXSSSSSSSSS;1=XXSSSSSSSSS\n");
    bench.undo(&done);
    assert_eq!(bench.ours(), [""; 0]);
    // The kernel lets nobody have them alone.
    bench.mkdir("others");
    bench.write("others/schemata", "L3:0=600;1=600\n");
    bench.write("schemata", "L3:0=1ff;1=1ff\n");
    let refused = std::fs::write(bench.mounted.path().join("others/mode"), "exclusive\n");
    assert!(refused.is_err());
    assert!(bench.read("info/last_cmd_status").contains("overlaps"));
}

/// The stand-in that follows a machine's threads, as the guest's cases have it.
#[test]
fn who_is_born_is_where_its_maker_is_and_who_ended_is_nowhere() {
    let maker = std::process::id();
    let there = std::sync::Arc::new(std::sync::Mutex::new(BTreeMap::from([(maker, 0)])));
    let threads = there.clone();
    let born = Box::new(move || threads.lock().unwrap().clone());
    let mut kernel = Kernel::of_machine(vec![0, 4], 16, 4, born);
    assert!(kernel.read("schemata").unwrap().ends_with("L3:0=ffff;4=ffff\n"));
    assert_eq!(kernel.read("tasks").unwrap(), format!("{maker}\n"));
    kernel.mkdir("one").unwrap();
    kernel.write("one/tasks", &format!("{maker}\n")).unwrap();
    let [child, stranger] = [maker + 1, maker + 2];
    there.lock().unwrap().extend([(child, maker), (stranger, 1)]);
    assert_eq!(kernel.read("one/tasks").unwrap(), format!("{maker}\n{child}\n"));
    assert_eq!(kernel.read("tasks").unwrap(), format!("{stranger}\n"));
    there.lock().unwrap().remove(&maker);
    assert_eq!(kernel.read("one/tasks").unwrap(), format!("{child}\n"));
    kernel.rmdir("one").unwrap();
    assert_eq!(kernel.read("tasks").unwrap(), format!("{child}\n{stranger}\n"));
}
