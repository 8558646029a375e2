//! Real programs under the real plug-in, where QEMU's user mode is installed.

use std::env;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use corun_profile::{EngineKind, Phase, Profile, ProfileData, Recording, StackDistanceProfile};
use corun_trace::instruction_trace::RECORD_BYTES;
use corun_trace::trace_file::{Access, AccessKind, Ending, TraceReader, TraceTotals};
use corun_trace::{Progress, Request, TraceError, record, record_and_watch};

/// The kernels example, which cargo builds with the tests; `None` where QEMU is missing.
pub(super) fn kernels() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|folder| folder.join("qemu-x86_64").is_file()) {
        println!("skipped: qemu-x86_64 is not installed (apt-get install qemu-user)");
        return None;
    }
    let deps = env::current_exe().unwrap();
    let kernels = deps.parent().and_then(Path::parent).unwrap().join("examples/kernels");
    // `--test recorded` alone builds no examples, `cargo test -p corun-trace` does.
    assert!(kernels.is_file(), "{} was not built: cargo build --examples", kernels.display());
    Some(kernels)
}

/// The kernels example with these arguments, to a profile that nobody keeps.
pub(super) fn request(words: &[&str]) -> Option<Request> {
    let kernels = kernels()?;
    let command = std::iter::once(kernels.into_os_string());
    let command = command.chain(words.iter().map(Into::into)).collect();
    Some(Request { pack_quickly: true, ..Request::new(command) })
}

fn recording(profile: &Profile) -> &Recording {
    match &profile.data {
        ProfileData::Recording(recording) => recording,
        ProfileData::Table(_) => panic!("a table"),
    }
}

fn mpki(phase: &Phase, mib: f64) -> f64 {
    let reading = phase.curve.mpki(mib * 1048576.0);
    assert!(!reading.extrapolated);
    reading.value
}

#[test]
fn a_walk_falls_where_its_array_fits() {
    let Some(mut request) = request(&["walk", "1", "60"]) else { return };
    request.name = Some("a-walk".to_owned());
    request.settings.engine.lines = 64 * 1024;
    let recorded = record(&request).unwrap();
    assert!(recorded.status.success() && recorded.notes.is_empty(), "{:?}", recorded.notes);
    assert_eq!(recorded.profile.name, "a-walk");
    let recording = recording(&recorded.profile);
    assert!(recording.origin.complete && recording.origin.sampling_rate == 1.0);
    let phase = &recording.phases[0];
    // 61 passes over 16,384 lines, the first of which writes them.
    let passes = mpki(phase, 0.5) * phase.instructions as f64 / 1000.0 / 16_384.0;
    assert!((60.0..62.5).contains(&passes), "{passes}");
    assert!(mpki(phase, 1.25) < 0.05 * mpki(phase, 0.5));
    assert!(phase.prefetchable > 0.95, "{}", phase.prefetchable);
    assert!(phase.memory_level_parallelism > 4.0);
    assert!(phase.mix.mispredicted_pki < 1.0 && phase.mix.branches_pki > 50.0);
    let mib = phase.footprint_bytes as f64 / 1048576.0;
    assert!((1.0..1.5).contains(&mib), "{mib}");
}

/// A second of it at least, since processes tell what they touched once a second; beside others' load more.
#[test]
fn a_watcher_is_told_how_far_it_is() {
    let Some(mut request) = request(&["walk", "1", "100000"]) else { return };
    let mut told: Vec<Progress> = Vec::new();
    let mut instructions = 0;
    for seconds in [4, 30, 300] {
        request.duration = Some(Duration::from_secs(seconds));
        told.clear();
        let recorded =
            record_and_watch(&request, Some(&mut |progress| told.push(progress))).unwrap();
        instructions = recorded.profile.instructions();
        if told.last().is_some_and(|last| last.footprint_bytes >= 1 << 20) {
            break;
        }
    }
    assert!(told.is_sorted_by_key(|one| one.instructions), "{told:?}");
    assert!(told.iter().all(|one| one.instructions <= instructions), "{told:?}");
    let last = told.last().unwrap();
    assert!(last.instructions as f64 > 0.5 * instructions as f64, "{last:?} of {instructions}");
    let mib = last.footprint_bytes as f64 / 1048576.0;
    assert!((1.0..1.5).contains(&mib), "{mib}");
    // The curve as it forms: misses in 256 KiB, of which few are left in 4 MiB.
    let curve = last.mpki.unwrap();
    assert!(curve[1] > 1.0 && curve[3] < 0.05 * curve[1], "{curve:?}");
}

/// Most of it passes with only followed lines seen, and nothing of what is counted is lost.
#[test]
fn a_sampled_walk_tells_the_same_as_an_exact_one() {
    let Some(mut request) = request(&["walk", "4", "40"]) else { return };
    let sampled = record(&request).unwrap().profile;
    request.settings.engine.kind = EngineKind::Exact;
    let exact = record(&request).unwrap().profile;
    let [sampled, exact] = [&sampled, &exact].map(recording);
    assert!(sampled.origin.sampling_rate < 0.04 && exact.origin.sampling_rate == 1.0);
    let [one, other] = [&sampled.phases[0], &exact.phases[0]];
    // The loader reads a few bytes that differ from run to run.
    assert!(one.instructions.abs_diff(other.instructions) < 2000);
    assert!((one.mix.loads_pki / other.mix.loads_pki - 1.0).abs() < 1e-4);
    assert!((one.mix.branches_pki / other.mix.branches_pki - 1.0).abs() < 1e-4);
    for kib in [2.0, 16.0, 256.0, 3.9 * 1024.0] {
        let ratio = mpki(one, kib / 1024.0) / mpki(other, kib / 1024.0);
        assert!((ratio - 1.0).abs() < 0.03, "{kib} KiB: {ratio}");
    }
    assert!(mpki(one, 4.3) < 0.05 * mpki(one, 3.9));
    let footprint = one.footprint_bytes as f64 / other.footprint_bytes as f64;
    assert!((footprint - 1.0).abs() < 0.06, "{footprint}");
    assert!((one.prefetchable - other.prefetchable).abs() < 0.05);
}

#[test]
fn a_chase_is_serial_and_beyond_foresight() {
    let Some(request) = request(&["chase", "8", "10"]) else { return };
    let recorded = record(&request).unwrap();
    let recording = recording(&recorded.profile);
    // Twice as many lines as are followed at once.
    assert!(recording.origin.sampling_rate <= 0.5);
    let phase = &recording.phases[0];
    assert!(phase.memory_level_parallelism < 1.5, "{}", phase.memory_level_parallelism);
    assert!(phase.prefetchable < 0.5, "{}", phase.prefetchable);
    assert!(mpki(phase, 4.0) > 5.0 * mpki(phase, 9.0));
}

#[test]
fn two_loops_by_turns_are_two_phases() {
    let Some(mut request) = request(&["alternate", "3", "5"]) else { return };
    request.settings.window = 250_000;
    let recorded = record(&request).unwrap();
    let recording = recording(&recorded.profile);
    let is_walk = |phase: usize| recording.phases[phase].prefetchable > 0.5;
    // Windows that hold the end of one turn and the beginning of the next may be a phase of their own, between both, as
    // may be the set-up. What runs last, at the end of the program, is less than a window.
    let whole = recording.sequence.iter().filter(|one| one.instructions >= 250_000);
    let mut order: Vec<bool> = whole.map(|one| is_walk(one.phase)).collect();
    order.dedup();
    assert!(order.ends_with(&[true, false].repeat(4)), "{:?}", recording.sequence);
    assert!(order.len() <= 10 && recording.phases.len() <= 4, "{:?}", recording.sequence);
    let [walk, chase] = [true, false].map(|wanted| {
        let of_kind = (0..recording.phases.len()).filter(|&phase| is_walk(phase) == wanted);
        of_kind.map(|phase| &recording.phases[phase]).max_by_key(|one| one.instructions).unwrap()
    });
    let instructions: u64 = recording.phases.iter().map(|one| one.instructions).sum();
    assert!((walk.instructions + chase.instructions) as f64 > 0.7 * instructions as f64);
    assert!(walk.prefetchable > 0.9 && chase.prefetchable < 0.5);
    assert!(walk.memory_level_parallelism > 2.0 * chase.memory_level_parallelism);
    assert!(walk.footprint_bytes as f64 / 1048576.0 > 2.9);
    assert!(mpki(walk, 2.0) > 3.0 * mpki(chase, 2.0));
}

#[test]
fn threads_have_their_own_cliffs_and_share_one() {
    let Some(request) = request(&["two-walks", "2", "15"]) else { return };
    let recorded = record(&request).unwrap();
    let recording = recording(&recorded.profile);
    let [phase] = recording.phases.as_slice() else { panic!("several phases") };
    assert_eq!((phase.threads, recording.threads.len()), (2, 2));
    let sum: u64 = recording.threads.iter().map(|thread| thread.instructions).sum();
    assert_eq!(sum, phase.instructions);
    for (number, thread) in recording.threads.iter().enumerate() {
        assert_eq!((thread.process, thread.thread as usize), (0, number));
        let mpki = |mib: f64| thread.curve.mpki(mib * 1048576.0).value;
        assert!(mpki(2.25) < 0.1 * mpki(1.75), "{}: {} {}", number, mpki(2.25), mpki(1.75));
    }
    // Both arrays lie between two reads of a line, unless one thread begins a round late.
    assert!(mpki(phase, 2.25) > 0.3 * mpki(phase, 1.75));
    assert!(mpki(phase, 4.5) < 0.1 * mpki(phase, 1.75));
}

#[test]
fn set_profiles_count_what_passes_the_private_caches() {
    let Some(mut request) = request(&["walk", "1", "20"]) else { return };
    let shape = |text: &str| text.parse().unwrap();
    request.settings.caches.private = vec![shape("32KiB/8"), shape("256KiB/8")];
    request.settings.caches.llcs = vec![shape("2MiB/16"), shape("512KiB/8"), shape("2MiB/32768")];
    let recorded = record(&request).unwrap();
    let recording = recording(&recorded.profile);
    let [large, small, one_set] = &recording.stack_distances[..] else { panic!("three LLCs") };
    assert_eq!((large.sets, large.ways(), one_set.sets), (2048, 16, 1));
    assert_eq!(large.private_caches, [(32 << 10, 8), (256 << 10, 8)]);
    let reached = |one: &StackDistanceProfile| one.hits_pki.iter().sum::<f64>() + one.misses_pki;
    // 16,384 lines 21 times, of which neither private cache holds any.
    let passes = reached(large) * recording.instructions() as f64 / 1000.0 / 16_384.0;
    assert!((21.0..22.0).contains(&passes), "{passes}");
    assert!((reached(small) / reached(large) - 1.0).abs() < 1e-4);
    // A cyclic walk over 1 MiB: 8 lines a set of 2 MiB in 16 ways, so position 7; the small one
    // holds nothing of it, and in one set the depth is the walk's length less the hits before.
    assert!(large.hits_pki[7] > 0.9 * reached(large), "{:?}", large.hits_pki);
    assert!(small.misses_pki > 0.95 * reached(small));
    let deepest = one_set.hits_pki.iter().skip(16_000).take(800).sum::<f64>();
    assert!(deepest > 0.9 * reached(one_set), "{deepest}");
    // As large as both caches with what is in front: the fully associative curves say the same, but that
    // they know what the kernel clears, of which the program touches nearly all.
    let filled = recording.phases[0].filling_curve().mpki(2.0 * 1048576.0).value;
    let share = large.misses_pki / filled;
    assert!((0.85..=1.0).contains(&share), "{share}");
}

#[test]
fn the_instruction_limit_ends_it() {
    let Some(mut request) = request(&["walk", "1", "1000"]) else { return };
    request.instructions = Some(2_000_000);
    let recorded = record(&request).unwrap();
    let recording = recording(&recorded.profile);
    assert!(!recording.origin.complete && recording.origin.exit_code.is_none());
    let instructions = recording.phases[0].instructions;
    assert!((2_000_000..2_000_600).contains(&instructions), "{instructions}");
    assert!(recorded.notes[0].contains("instruction limit"));
}

#[test]
fn the_time_limit_ends_a_busy_and_a_sleeping_program() {
    let Some(busy) = request(&["walk", "1", "100000000"]) else { return };
    let sleeping =
        Request { pack_quickly: true, ..Request::new(["sleep", "1000"].map(Into::into).to_vec()) };
    for mut request in [busy, sleeping] {
        request.duration = Some(Duration::from_millis(300));
        let recorded = record(&request).unwrap();
        assert!(!recording(&recorded.profile).origin.complete);
        assert!(recorded.notes[0].contains("time limit"), "{:?}", recorded.notes);
    }
}

#[test]
fn a_crash_leaves_its_profile() {
    for (kernel, signal) in [("crash", 6), ("fault", 11)] {
        let Some(request) = request(&[kernel, "1", "5"]) else { return };
        let recorded = record(&request).unwrap();
        assert_eq!((recorded.status.code(), recorded.exit_code()), (None, 128 + signal));
        let recording = recording(&recorded.profile);
        assert!(!recording.origin.complete);
        // All of it: 6 passes over 16,384 lines.
        assert!(recording.phases[0].instructions > 6 * 16_384 * 4);
        assert!(
            recorded.notes[0].starts_with("a signal ended the program"),
            "{:?}",
            recorded.notes
        );
    }
}

/// All accesses of a trace, its totals and how it ends.
fn accesses(path: &Path) -> (Vec<Access>, TraceTotals, Option<Ending>) {
    let file = BufReader::new(File::open(path).unwrap());
    let mut reader = TraceReader::new(file).unwrap();
    assert_eq!((reader.header().line_bytes, reader.header().guest.as_str()), (64, "x86_64"));
    let accesses = (&mut reader).collect::<Result<_, _>>().unwrap();
    (accesses, reader.totals(), reader.ending())
}

#[test]
fn a_trace_holds_what_the_profile_counts() {
    let Some(mut request) = request(&["walk", "1", "3"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk, all.trace");
    request.trace = Some(path.clone());
    request.settings.engine.lines = 64 * 1024;
    let recorded = record(&request).unwrap();
    assert_eq!(recorded.trace.unwrap().unwrap(), Ending::Whole);
    let phase = &recording(&recorded.profile).phases[0];
    let (accesses, totals, ending) = accesses(&path);
    assert_eq!((totals.instructions, ending), (phase.instructions, Some(Ending::Whole)));
    let distinct: std::collections::HashSet<u64> = accesses.iter().map(|one| one.line).collect();
    // However large the cache: a line misses once, when the program touches it or the kernel clears its
    // page before that, as it does with the 16,384 lines that are walked.
    let largest = phase.curve.points().last().unwrap().bytes as f64;
    let lines = |mpki: f64| mpki * phase.instructions as f64 / 1000.0;
    let cold = lines(phase.curve.mpki(largest).value);
    let cleared = lines(phase.cleared_mpki(largest));
    let found_cleared = distinct.len() as f64 - cold;
    assert!((16_384.0..=cleared).contains(&found_cleared), "{found_cleared} of {cleared}");
    let pages = cleared / 64.0;
    assert!((pages - pages.round()).abs() < 0.01 && pages < 400.0, "{pages}");
    let data = accesses.iter().filter(|one| one.kind != AccessKind::Fetch).count();
    let expected = phase.data_accesses_pki * phase.instructions as f64 / 1000.0;
    // Eight words a line: the repeats that follow at once are not in the trace.
    assert!((0.12..1.0).contains(&(data as f64 / expected)), "{data} {expected}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_trace_of_instructions_holds_what_the_profile_counts() {
    let Some(mut request) = request(&["hash-join", "1", "1"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hash-join.champsim");
    request.instruction_trace = Some(path.clone());
    request.instructions = Some(400_000);
    request.settings.engine.kernel = false;
    let recorded = record(&request).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let records: Vec<&[u8]> = bytes.chunks(RECORD_BYTES).collect();
    assert_eq!(recorded.instruction_trace.unwrap().unwrap(), records.len() as u64);
    let phase = &recording(&recorded.profile).phases[0];
    let faults = phase.core.as_ref().map(|core| core.page_faults_pki);
    assert_eq!((faults, phase.cleared_mpki(0.0)), (Some(0.0), 0.0));
    // Each instruction is followed by the next one of the code, but for branches that are taken.
    let address = |one: &[u8]| u64::from_le_bytes(one[..8].try_into().unwrap());
    let strange = records.windows(2).filter(|pair| {
        let apart = address(pair[1]).wrapping_sub(address(pair[0]));
        pair[0][9] == 0 && !(1..=15).contains(&apart) && apart != 0
    });
    assert_eq!(strange.count(), 0);
    let share = |holds: &dyn Fn(&[u8]) -> bool| {
        records.iter().filter(|one| holds(one)).count() as f64 * 1000.0 / records.len() as f64
    };
    let mix = &phase.mix;
    // A repeated instruction is counted once, and told once a line.
    let near = |found: f64, counted: f64| (found - counted).abs() <= 0.02 * counted;
    let loads = share(&|one| one[32..].iter().any(|&byte| byte != 0));
    let stores = share(&|one| one[16..32].iter().any(|&byte| byte != 0));
    let branches = share(&|one| one[8] == 1);
    assert!(near(loads, mix.loads_pki), "{loads} {}", mix.loads_pki);
    assert!(near(stores, mix.stores_pki), "{stores} {}", mix.stores_pki);
    assert!(near(branches, mix.branches_pki), "{branches} {}", mix.branches_pki);
    assert!(records.len().abs_diff(400_000) < 8000);
}

#[test]
fn what_is_skipped_is_in_neither_profile_nor_trace() {
    let Some(mut request) = request(&["walk", "1", "40"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.champsim");
    let mut recorded_from = |skip| {
        request.instruction_trace = Some(path.clone());
        request.instructions = Some(100_000);
        request.skip = skip;
        let recorded = record(&request).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (recording(&recorded.profile).phases[0].clone(), bytes)
    };
    let (from_start, whole) = recorded_from(None);
    let (later, rest) = recorded_from(Some(2_000_000));
    for (phase, bytes) in [(&from_start, &whole), (&later, &rest)] {
        assert!((100_000..100_600).contains(&phase.instructions), "{}", phase.instructions);
        assert!(bytes.len().abs_diff(100_000 * RECORD_BYTES) < 2000 * RECORD_BYTES);
    }
    // The start is the loader's; the walk is a load a word, and its pages are old.
    let faults = |phase: &Phase| phase.core.as_ref().unwrap().page_faults_pki;
    assert!(faults(&from_start) > 0.1 && faults(&later) == 0.0);
    let addresses = |bytes: &[u8]| {
        let codes = bytes.chunks(RECORD_BYTES).map(|one| one[..8].to_vec());
        codes.collect::<std::collections::HashSet<_>>().len()
    };
    assert!(addresses(&whole) > 500 && addresses(&rest) < 100);
    // A program that ends before leaves nothing.
    request.skip = Some(1 << 40);
    assert!(matches!(record(&request), Err(TraceError::NoRecord { .. })));
}

#[test]
fn a_crash_leaves_the_trace_so_far() {
    let Some(mut request) = request(&["crash", "1", "6"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crash.trace");
    request.trace = Some(path.clone());
    let recorded = record(&request).unwrap();
    assert_eq!(recorded.trace.unwrap().unwrap(), Ending::BrokenOff);
    let (_, totals, ending) = accesses(&path);
    assert_eq!(ending, Some(Ending::BrokenOff));
    let phase = &recording(&recorded.profile).phases[0];
    assert!(totals.instructions.abs_diff(phase.instructions) < 600, "{totals:?}");
}

#[test]
fn a_trace_on_a_full_disk_is_an_error_and_leaves_no_file() {
    let Some(mut request) = request(&["walk", "1", "3"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    request.trace = Some(folder.path().join("none/x.trace"));
    assert!(matches!(record(&request), Err(TraceError::NoTrace { .. })));
    // A limit on the size of files stands in for the disk; the traced program ignores its signal.
    let record = env::current_exe().unwrap();
    let record = record.parent().and_then(Path::parent).unwrap().join("examples/record");
    let line = "trap '' XFSZ; ulimit -f 1000; exec \"$0\" -o p.toml --trace t.trace -- \"$1\" \
                hash-join 4 1";
    let ended = Command::new("sh")
        .args(["-c", line])
        .args([&record, &kernels().unwrap()])
        .current_dir(&folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("no trace was written to t.trace"), "{said}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn exit_codes_pass_through() {
    let Some(request) = request(&["no-such-kernel", "1", "1"]) else { return };
    let recorded = record(&request).unwrap();
    assert_eq!(recorded.status.code(), Some(2));
    let origin = &recording(&recorded.profile).origin;
    assert!(origin.complete);
    assert_eq!(origin.exit_code, Some(2));
}

#[test]
fn the_same_run_gives_the_same_profile() {
    let Some(request) = request(&["walk", "1", "3"]) else { return };
    // Address space randomisation moves the stack, so allow what that moves.
    let runs = [(); 2].map(|()| record(&request).unwrap().profile);
    let [first, second] = runs.each_ref().map(|profile| &recording(profile).phases[0]);
    let ratio = first.instructions as f64 / second.instructions as f64;
    assert!((0.999..1.001).contains(&ratio), "{ratio}");
    assert!((mpki(first, 0.5) / mpki(second, 0.5) - 1.0).abs() < 0.01);
}

#[test]
fn what_is_no_program_is_refused() {
    let refused = |word: &str| record(&Request::new(vec![word.into()])).unwrap_err();
    assert!(matches!(refused("/no/such/program"), TraceError::NotFound { .. }));
    assert!(matches!(refused("/usr"), TraceError::Directory { .. }));
    assert!(matches!(refused("/etc/passwd"), TraceError::NotExecutable { .. }));
}

/// Nothing of QEMU may be needed to link what starts the tracer.
#[test]
fn the_example_starts_without_qemu() {
    let deps = env::current_exe().unwrap();
    let record = deps.parent().and_then(Path::parent).unwrap().join("examples/record");
    let ended = Command::new(record).arg("--help").output().unwrap();
    assert!(ended.status.success());
}
