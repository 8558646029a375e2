use corun_machine::CpuSet;

use super::*;
use crate::act::sleeper::Sleeper;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("corun");
    (base, path)
}

fn lines(journal: &Journal) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(journal.path()).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn some_change(list: &str) -> Change {
    let task = corun_linux::Task { pid: 1 << 30, tid: 1 << 30, start_ticks: 1 };
    let after: CpuSet = list.parse().unwrap();
    Change::Affinity { task, before: "0-7".parse().unwrap(), after }
}

#[test]
fn a_plan_is_a_line_and_a_line_is_what_was_written() {
    let (_base, path) = folder();
    let mut journal = Journal::create(&path, &Roots::default()).unwrap();
    journal.write(&[]).unwrap();
    journal.write(&[some_change("0"), some_change("1")]).unwrap();
    journal.write(&[some_change("2")]).unwrap();
    let lines = lines(&journal);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["corun_journal"], VERSION);
    assert_eq!(lines[0]["pid"], std::process::id());
    assert_eq!(lines[1]["changes"].as_array().unwrap().len(), 2);
    assert_eq!(lines[2]["changes"][0]["what"], "affinity");
    assert_eq!(lines[2]["changes"][0]["after"], "2");
}

/// A kill may cut a write between two pages: what is left of the plan then tells that it was not carried out.
#[test]
fn a_write_cut_between_pages_leaves_the_first_change_whole_or_nothing() {
    let (_base, path) = folder();
    let mut journal = Journal::create(&path, &Roots::default()).unwrap();
    for plan in 0..60 {
        let changes: Vec<Change> = (0..1 + plan % 37).map(|_| some_change("0,2,4,6")).collect();
        journal.write(&changes).unwrap();
    }
    let bytes = std::fs::read(journal.path()).unwrap();
    assert!(bytes.len() > 20 * PAGE_BYTES);
    for cut in (PAGE_BYTES..bytes.len()).step_by(PAGE_BYTES) {
        let read = parse(&bytes[..cut], &journal.name).unwrap();
        assert_eq!(read.broken, None);
        assert!(read.cut.is_none_or(|cut| cut.first.is_some()), "{cut}");
    }
    let read = parse(&bytes, &journal.name).unwrap();
    assert!(read.broken.is_none() && read.cut.is_none());
}

#[test]
fn one_process_has_one_journal_in_a_folder() {
    let (_base, path) = folder();
    let _journal = Journal::create(&path, &Roots::default()).unwrap();
    let error = Journal::create(&path, &Roots::default()).unwrap_err();
    assert!(error.to_string().contains("cannot be made"), "{error}");
    // The kernel's answer is in the text, and is not said once more as its cause.
    assert!(std::error::Error::source(&error).is_none(), "{error:?}");
}

#[test]
fn undo_goes_back_to_the_oldest_state_and_removes_the_file() {
    let (_base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let there = sleeper.change(&first);
    let on = Change::Affinity { task: sleeper.task, before: first, after: second };
    for change in [&there, &on] {
        journal.write(std::slice::from_ref(change)).unwrap();
        change.apply(&roots).unwrap();
    }
    let restored = journal.undo(&roots);
    assert_eq!(restored.len(), 1);
    assert_eq!(restored[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), sleeper.found);
    assert!(!journal.path().exists());
}

/// In a process of its own: tests beside this one need descriptors.
#[test]
fn what_was_done_is_undone_where_all_descriptors_are_in_use() {
    const NAME: &str = "CORUN_TEST_USES_ALL_DESCRIPTORS";
    if std::env::var_os(NAME).is_none() {
        let this = "journal::tests::what_was_done_is_undone_where_all_descriptors_are_in_use";
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        let output = own.args(["--exact", this]).env(NAME, "").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let (_base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let there = sleeper.change(&first);
    journal.write(std::slice::from_ref(&there)).unwrap();
    there.apply(&roots).unwrap();
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = Some(100);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let restored = journal.undo(&roots);
    drop(all);
    assert_eq!(restored[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn a_plan_that_was_written_and_not_carried_out_is_undone_too() {
    let (_base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let there = sleeper.change(&first);
    journal.write(std::slice::from_ref(&there)).unwrap();
    there.apply(&roots).unwrap();
    let on = Change::Affinity { task: sleeper.task, before: first, after: second };
    journal.write(&[on]).unwrap();
    assert_eq!(journal.undo(&roots)[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn a_removed_journal_stops_further_plans_and_undoes_what_it_knows() {
    let (_base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let change = sleeper.change(&first);
    journal.write(std::slice::from_ref(&change)).unwrap();
    change.apply(&roots).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let error = journal.write(&[some_change("1")]).unwrap_err().to_string();
    assert!(error.contains("it was removed"), "{error}");
    assert_eq!(journal.undo(&roots)[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn a_journal_that_nobody_would_find_is_noticed() {
    let (base, path) = folder();
    let roots = Roots::default();
    let found = |journal: &Journal| journal.check().unwrap_err().to_string();
    let mut journal = Journal::create(&path, &roots).unwrap();
    journal.check().unwrap();
    let moved = base.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    assert!(found(&journal).contains("was moved"), "{}", found(&journal));
    // Another folder in its place, as when one is mounted over it.
    std::fs::create_dir(&path).unwrap();
    assert!(found(&journal).contains("was moved"));
    std::fs::write(journal.path(), "").unwrap();
    assert!(found(&journal).contains("another file stands"));
    assert!(journal.write(&[some_change("1")]).is_err());
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::rename(&moved, &path).unwrap();
    journal.check().unwrap();
    std::fs::remove_file(journal.path()).unwrap();
    assert!(found(&journal).contains("it was removed"));
}

#[test]
fn a_plan_that_is_not_in_the_file_is_an_error_and_so_is_all_after_it() {
    let (_base, path) = folder();
    let mut journal = Journal::create(&path, &Roots::default()).unwrap();
    // Writing fails for want of room there, and so does taking back.
    journal.file = std::fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
    let line = PlanLine { changes: vec![some_change("2")].into(), ..PlanLine::default() };
    let error = journal.append(&line).unwrap_err().to_string();
    assert!(error.contains("cannot be written to: No space left"), "{error}");
    let error = journal.write(&[some_change("3")]).unwrap_err().to_string();
    assert!(error.contains("its last line is broken"), "{error}");
    assert_eq!(journal.undo(&Roots::default()), []);
}

#[test]
fn a_long_journal_is_written_anew_and_undoes_the_same() {
    let (_base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let there = sleeper.change(&first);
    journal.write(&[there.clone(), some_change("5")]).unwrap();
    there.apply(&roots).unwrap();
    let on = |from: &CpuSet, to: &CpuSet| Change::Affinity {
        task: sleeper.task,
        before: from.clone(),
        after: to.clone(),
    };
    let (forth, back) = (on(&first, &second), on(&second, &first));
    for _ in 0..20 {
        journal.write(std::slice::from_ref(&forth)).unwrap();
        journal.write(std::slice::from_ref(&back)).unwrap();
    }
    journal.write_anew_at_bytes = 0;
    journal.write(std::slice::from_ref(&forth)).unwrap();
    // The header, all before, the plan; the thread that never was is forgotten.
    let lines = lines(&journal);
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["changes"].as_array().unwrap().len(), 2);
    let mut read = UndoState::default();
    for line in &lines[1..] {
        let line: PlanLine<'_> = serde_json::from_value(line.clone()).unwrap();
        read.add_line(line, false);
    }
    assert_eq!(read.undo(&roots, ApplyMode::Apply)[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), sleeper.found);
}

/// Threads that come, are held and end, 10,000 of them: the file grows by no more than what has it written anew, and
/// neither it nor what is known in memory keeps those that ended.
#[test]
fn a_journal_of_short_lived_threads_stays_short() {
    let (_base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let mut journal = Journal::create(&path, &Roots::default()).unwrap();
    journal.write(&[sleeper.change(&first)]).unwrap();
    let (mut longest, mut written) = (0, 0);
    for number in 0..10_000 {
        // Above all numbers that the kernel gives.
        let pid = 5_000_000 + number;
        let task = Task { pid, tid: pid, start_ticks: 7 };
        let (before, after) = (sleeper.found.clone(), first.clone());
        let length = journal.length_bytes;
        journal.write(&[Change::Affinity { task, before, after }]).unwrap();
        written += journal.length_bytes.saturating_sub(length);
        longest = longest.max(std::fs::metadata(journal.path()).unwrap().len());
    }
    assert!(written > GROWN_BYTES * 11 / 10, "only {written} bytes were written");
    assert!(longest <= GROWN_BYTES + 2 * PAGE_BYTES as u64, "{longest} bytes");
    assert!(journal.length_bytes < written - GROWN_BYTES / 2, "{} bytes", journal.length_bytes);
    let known = journal.undo_state.shortest().len() as u64;
    assert!(known < 10_000 * 6 / 10, "{known} changes are known");
    let of_sleeper = journal.undo_state.shortest().into_iter();
    assert_eq!(of_sleeper.filter(|one| one.task() == Some(&sleeper.task)).count(), 1);
}

/// A program that starts another when it is told to, and that one's number.
struct Parent {
    program: std::process::Child,
    task: Task,
    found: CpuSet,
}

impl Parent {
    fn new() -> Self {
        let program = std::process::Command::new("sh")
            .args(["-c", "read line; sleep 1000 & echo $!; read line; kill $!"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let found = corun_linux::facts(&Roots::default(), program.id(), program.id()).unwrap();
        Self { program, task: found.task, found: found.affinity }
    }

    fn start_child(&mut self) -> u32 {
        use std::io::BufRead as _;
        self.program.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let mut line = String::new();
        std::io::BufReader::new(self.program.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

fn affinity_of(pid: u32) -> CpuSet {
    corun_linux::facts(&Roots::default(), pid, pid).unwrap().affinity
}

#[test]
fn what_a_held_program_starts_is_let_go_with_it() {
    for adopt in [false, true] {
        let (_base, path) = folder();
        let roots = Roots::default();
        let mut journal = Journal::create(&path, &roots).unwrap();
        let mut parent = Parent::new();
        let Some(first) = parent.found.first().filter(|_| parent.found.len() > 1) else {
            eprintln!("skipped: this test may run on one CPU only");
            return;
        };
        let one = CpuSet::from_iter([first]);
        let change = Change::Affinity {
            task: parent.task,
            before: parent.found.clone(),
            after: one.clone(),
        };
        journal.write(std::slice::from_ref(&change)).unwrap();
        change.apply(&roots).unwrap();
        let child = parent.start_child();
        assert_eq!(affinity_of(child), one);
        if adopt {
            let task = corun_linux::facts(&roots, child, child).unwrap().task;
            assert_eq!(journal.adopt(&task, &one).unwrap(), Some(parent.found.clone()));
            assert_eq!(journal.adopt(&task, &one).unwrap(), None);
            let own = Task { start_ticks: 1, ..task };
            assert_eq!(journal.adopt(&own, &one).unwrap(), None);
            assert_eq!(journal.adopt(&parent.task, &one).unwrap(), None);
        }
        let restored = journal.undo(&roots);
        assert_eq!(restored.len(), 2);
        assert!(restored.iter().all(|one| one.outcome == Ok(Reverted::Done)), "{restored:?}");
        assert_eq!(
            [parent.task.pid, child].map(affinity_of),
            [parent.found.clone(), parent.found.clone()]
        );
    }
}

#[test]
fn a_process_whose_threads_were_pinned_apart_has_no_heirs() {
    let (_base, path) = folder();
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let (one, other) = (Sleeper::new(), Sleeper::new());
    let Some((first, second)) = one.two_cpus() else { return };
    other.set(&first);
    let pinned =
        Change::Affinity { task: other.task, before: first.clone(), after: second.clone() };
    for change in [one.change(&first), pinned] {
        journal.write(std::slice::from_ref(&change)).unwrap();
        change.apply(&roots).unwrap();
    }
    let third = Sleeper::new();
    third.set(&second);
    assert_eq!(journal.adopt(&third.task, &second).unwrap(), None);
    journal.undo(&roots);
    assert_eq!([one.now(), other.now(), third.now()], [one.found.clone(), first, second]);
}

#[test]
fn who_was_born_held_is_let_go_after_those_that_were_sent_have_ended() {
    let (_base, path) = folder();
    let roots = Roots::default();
    let mut journal = Journal::create(&path, &roots).unwrap();
    let sleeper = Sleeper::new();
    let Some((one, other)) = sleeper.two_cpus() else { return };
    // Three threads of its process that were sent away and are no more; it was born of one of them.
    let ended = |tid: u32, after: &CpuSet| Change::Affinity {
        task: Task { tid, ..sleeper.task },
        before: sleeper.found.clone(),
        after: after.clone(),
    };
    let gone = 1 << 30;
    let plan = [ended(gone, &one), ended(gone + 1, &one), ended(gone + 2, &other)];
    journal.write(&plan).unwrap();
    sleeper.set(&one);
    journal.write_anew_at_bytes = 0;
    journal.write(&[some_change("5")]).unwrap();
    let lines = lines(&journal);
    assert_eq!(lines[1]["changes"].as_array().unwrap().len(), 2, "one for each place");
    let restored = journal.undo(&roots);
    assert!(restored.iter().any(|one| one.outcome == Ok(Reverted::Done)), "{restored:?}");
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn a_stranger_that_has_the_number_of_a_held_process_is_not_touched() {
    let (_base, path) = folder();
    let roots = Roots::default();
    let stranger = Sleeper::new();
    let Some((one, _)) = stranger.two_cpus() else { return };
    let mut journal = Journal::create(&path, &roots).unwrap();
    // The process that was held had the same number and ended.
    let task = Task { start_ticks: stranger.task.start_ticks - 1, ..stranger.task };
    let held = Change::Affinity { task, before: stranger.found.clone(), after: one.clone() };
    journal.write(&[held]).unwrap();
    // The stranger's user chose the same CPU.
    stranger.set(&one);
    assert_eq!(journal.adopt(&stranger.task, &one).unwrap(), None);
    let restored = journal.undo(&roots);
    assert_eq!(restored[0].outcome, Ok(Reverted::Gone));
    assert_eq!(stranger.now(), one);
}

#[test]
fn what_a_user_started_on_the_same_cpu_is_left_alone() {
    let (_base, path) = folder();
    let roots = Roots::default();
    let (held, own) = (Sleeper::new(), Sleeper::new());
    let Some((one, _)) = held.two_cpus() else { return };
    let mut journal = Journal::create(&path, &roots).unwrap();
    let change = held.change(&one);
    journal.write(std::slice::from_ref(&change)).unwrap();
    change.apply(&roots).unwrap();
    // Its parent runs and was never held.
    own.set(&one);
    let restored = journal.undo(&roots);
    assert_eq!((held.now(), own.now()), (held.found.clone(), one));
    assert!(restored.iter().all(|one| one.change.task() != Some(&own.task)), "{restored:?}");
}

#[test]
fn what_was_before_is_written_with_the_cpus_that_are_off_line() {
    let (base, path) = folder();
    let sleeper = Sleeper::new();
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let cpus = base.path().join("sys/devices/system/cpu");
    std::fs::create_dir_all(&cpus).unwrap();
    std::fs::write(cpus.join("online"), first.to_string()).unwrap();
    let roots = Roots { sys: base.path().join("sys"), ..Roots::default() };
    let mut journal = Journal::create(&path, &roots).unwrap();
    let change = Change::Affinity { task: sleeper.task, before: first, after: second };
    journal.write(&[change]).unwrap();
    assert_eq!(lines(&journal)[1]["changes"][0]["before"], sleeper.found.to_string());
}
