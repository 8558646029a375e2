use std::process::{Child, Command};

use corun_machine::CpuSet;

use super::*;
use crate::Change;
use crate::act::sleeper::Sleeper;
use crate::journal::{Header, PlanLine, VERSION, line_of};

/// A folder with the journal of a process that is no more.
struct Left {
    _base: tempfile::TempDir,
    folder: PathBuf,
    name: JournalName,
    header: Header,
}

impl Left {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("corun");
        JournalFolder::create(&folder).unwrap();
        // Above the kernel's highest process id.
        let name = JournalName { pid: 1 << 30, start_ticks: 5 };
        let roots = Roots::default();
        let header = Header {
            corun_journal: VERSION,
            pid: name.pid,
            start_ticks: name.start_ticks,
            boot_id: boot_id(&roots).unwrap(),
            began_ns: 5,
            pid_namespace: pid_namespace(&roots).unwrap(),
        };
        Self { _base: base, folder, name, header }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(self.name.to_string())
    }

    fn write(&self, plans: &[&[Change]], rest: &str) {
        let mut text = text(&self.header, plans);
        text.extend(rest.as_bytes());
        std::fs::write(self.path(), text).unwrap();
    }

    fn restore(&self) -> Vec<RestoredJournal> {
        restore(&self.folder, &Roots::default(), Which::Dead).unwrap()
    }

    fn outcome(&self) -> RestoreOutcome {
        let mut all = self.restore();
        assert_eq!(all.len(), 1);
        all.remove(0).outcome
    }
}

/// A journal's bytes.
fn text(header: &Header, plans: &[&[Change]]) -> Vec<u8> {
    let mut text = line_of(1, header);
    for (number, &plan) in (2..).zip(plans) {
        text.extend(line_of(number, &PlanLine { changes: plan.into(), ..PlanLine::default() }));
    }
    text
}

fn why(outcome: RestoreOutcome) -> String {
    match outcome {
        RestoreOutcome::Left { why } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_folder_holds_no_journal() {
    let none = Path::new("/nowhere/at/all");
    assert_eq!(restore(none, &Roots::default(), Which::All).unwrap(), []);
}

#[test]
fn what_a_dead_process_left_is_undone_and_a_second_time_nothing() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let change = sleeper.change(&first);
    change.apply(&Roots::default()).unwrap();
    left.write(&[&[change]], "");
    let looked = would_restore(&left.folder, &Roots::default(), Which::Dead).unwrap();
    assert_eq!(looked[0].changes[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), first);
    let all = left.restore();
    assert_eq!((&all[0].outcome, all[0].is_left()), (&RestoreOutcome::Undone, false));
    assert_eq!(all[0].changes[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), sleeper.found);
    assert!(!left.path().exists());
    assert_eq!(left.restore(), []);
}

#[test]
fn what_others_set_since_is_left_as_found() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, second)) = sleeper.two_cpus() else { return };
    left.write(&[&[sleeper.change(&first)]], "");
    sleeper.set(&second);
    let all = left.restore();
    let found = second.to_string();
    assert_eq!(all[0].changes[0].outcome, Ok(Reverted::ChangedByOthers { found }));
    assert_eq!(sleeper.now(), second);
    assert!(!left.path().exists());
}

#[test]
fn two_owners_of_one_thread_do_not_undo_each_other() {
    let (ours, theirs, sleeper) = (Left::new(), Left::new(), Sleeper::new());
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let roots = Roots::default();
    let change = sleeper.change(&first);
    change.apply(&roots).unwrap();
    ours.write(&[&[change]], "");
    // The other one found what we had set, and sets another.
    let other =
        Change::Affinity { task: sleeper.task, before: first.clone(), after: second.clone() };
    other.apply(&roots).unwrap();
    theirs.write(&[&[other]], "");
    let found = second.to_string();
    assert_eq!(ours.restore()[0].changes[0].outcome, Ok(Reverted::ChangedByOthers { found }));
    assert_eq!(theirs.restore()[0].changes[0].outcome, Ok(Reverted::Done));
    assert_eq!(sleeper.now(), first);
}

#[test]
fn the_newest_journal_is_undone_first() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, second)) = sleeper.two_cpus() else { return };
    left.write(&[&[sleeper.change(&first)]], "");
    // The later one has the lower number.
    let name = JournalName { pid: left.name.pid - 1, ..left.name };
    let header = Header { pid: name.pid, began_ns: 6, ..left.header.clone() };
    let later = Change::Affinity { task: sleeper.task, before: first, after: second.clone() };
    std::fs::write(left.folder.join(name.to_string()), text(&header, &[&[later]])).unwrap();
    sleeper.set(&second);
    let all = left.restore();
    assert_eq!(all.iter().map(|one| one.pid).collect::<Vec<_>>(), [name.pid, left.name.pid]);
    assert!(all.iter().all(|one| one.changes[0].outcome == Ok(Reverted::Done)));
    assert_eq!(sleeper.now(), sleeper.found);
}

/// What is neither as an earlier corun found it nor as it left it was not changed by others, while a later
/// corun's journal cannot be read.
#[test]
fn while_a_later_journal_is_left_an_earlier_one_does_not_blame_others() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, second)) = sleeper.two_cpus() else { return };
    left.write(&[&[sleeper.change(&first)]], "");
    let name = JournalName { pid: left.name.pid - 1, ..left.name };
    let header = Header { pid: name.pid, began_ns: 6, ..left.header.clone() };
    let on = Change::Affinity { task: sleeper.task, before: first, after: second.clone() };
    let (path, whole) = (left.folder.join(name.to_string()), text(&header, &[&[on]]));
    sleeper.set(&second);
    // It cannot be opened as a file, or be read; then it can.
    std::fs::create_dir(&path).unwrap();
    let all = left.restore();
    assert!(all.iter().all(RestoredJournal::is_unresolved), "{all:?}");
    let why = all[1].changes[0].outcome.clone().unwrap_err();
    assert!(why.contains(&name.to_string()), "{why}");
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, whole).unwrap();
    assert!(left.restore().iter().all(|one| one.outcome == RestoreOutcome::Undone));
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn threads_that_ended_are_gone() {
    let (left, mut sleeper) = (Left::new(), Sleeper::new());
    left.write(&[&[sleeper.change(&"0".parse().unwrap())]], "");
    sleeper.end();
    assert_eq!(left.restore()[0].changes[0].outcome, Ok(Reverted::Gone));
}

#[test]
fn a_journal_of_another_boot_is_dropped() {
    let (mut left, sleeper) = (Left::new(), Sleeper::new());
    left.header.boot_id = "another".to_owned();
    left.write(&[&[sleeper.change(&"0".parse().unwrap())]], "");
    let looked = would_restore(&left.folder, &Roots::default(), Which::Dead).unwrap();
    assert_eq!(looked[0].outcome, RestoreOutcome::OtherBoot);
    assert!(left.path().exists());
    assert_eq!(left.outcome(), RestoreOutcome::OtherBoot);
    assert!(!left.path().exists());
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn other_containers_later_versions_and_liars_are_left() {
    let mut left = Left::new();
    left.header.pid_namespace = Some("pid:[1]".to_owned());
    left.write(&[], "");
    assert!(why(left.outcome()).contains("another container"));
    left.header.corun_journal = VERSION + 1;
    left.write(&[], "");
    assert!(why(left.outcome()).contains("another corun wrote it (version 3)"));
    left.header = Header { corun_journal: VERSION, pid: 7, ..left.header };
    left.write(&[], "");
    assert!(why(left.outcome()).contains("its header says process 7"));
    std::fs::write(left.path(), "what is this\n").unwrap();
    assert!(why(left.outcome()).contains("line 1 is no header"));
    assert!(left.path().exists());
}

#[test]
fn an_empty_journal_undoes_nothing_and_a_cut_one_is_kept() {
    let left = Left::new();
    std::fs::write(left.path(), "").unwrap();
    assert_eq!(left.outcome(), RestoreOutcome::Undone);
    assert!(!left.path().exists());
    std::fs::write(left.path(), "{\"corun_jou").unwrap();
    assert!(why(left.outcome()).contains("line 1 is cut short"));
    assert!(left.path().exists());
}

#[test]
fn a_broken_line_keeps_the_others_from_nothing() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let change = sleeper.change(&first);
    change.apply(&Roots::default()).unwrap();
    left.write(&[std::slice::from_ref(&change)], "{\"changes\":[\n");
    // Who only looks undoes nothing, and must not be told to remove what tells how.
    let looked = would_restore(&left.folder, &Roots::default(), Which::Dead).unwrap();
    let told = why(looked[0].outcome.clone());
    assert!(told.contains("corun restore would undo what all other lines say"), "{told}");
    assert!(!told.contains("is undone") && !told.contains("remove"), "{told}");
    assert_eq!(sleeper.now(), first);
    let all = left.restore();
    assert_eq!(all[0].changes[0].outcome, Ok(Reverted::Done));
    assert!(all[0].is_unresolved());
    assert!(why(all[0].outcome.clone()).contains("line 3"));
    assert_eq!(sleeper.now(), sleeper.found);
    assert!(left.path().exists());
}

#[test]
fn what_a_flipped_line_may_have_said_is_not_guessed() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let on = Change::Affinity { task: sleeper.task, before: first.clone(), after: second.clone() };
    let mut bytes = text(&left.header, &[&[sleeper.change(&first)], &[on]]);
    let place = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 60;
    bytes[place] ^= 1;
    std::fs::write(left.path(), bytes).unwrap();
    sleeper.set(&second);
    let all = left.restore();
    assert!(why(all[0].outcome.clone()).contains("line 2 cannot be read (its checksum"));
    // The state before the second plan was corun's own.
    let reason = all[0].changes[0].outcome.clone().unwrap_err();
    assert!(reason.contains("cannot be read"), "{reason}");
    assert_eq!(sleeper.now(), second);
}

#[test]
fn a_cut_last_line_is_taken_for_undone_only_where_it_shows() {
    let (left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, second)) = sleeper.two_cpus() else { return };
    let on = |to: &CpuSet| Change::Affinity {
        task: sleeper.task,
        before: first.clone(),
        after: to.clone(),
    };
    let bytes = text(&left.header, &[&[sleeper.change(&first)], &[on(&second)]]);
    let cut = |bytes_less: usize| &bytes[..bytes.len() - bytes_less];
    // The writer was killed before it carried the plan out.
    sleeper.set(&first);
    std::fs::write(left.path(), cut(2)).unwrap();
    assert_eq!(left.outcome(), RestoreOutcome::Undone);
    assert_eq!(sleeper.now(), sleeper.found);
    // The file was shortened later; or the line has too little to tell.
    for less in [2, 40] {
        sleeper.set(&second);
        std::fs::write(left.path(), cut(less)).unwrap();
        assert!(why(left.outcome()).contains("line 3 is cut short"), "{less}");
        assert!(left.path().exists());
        std::fs::remove_file(left.path()).unwrap();
    }
}

#[test]
fn a_journal_of_version_1_is_read_without_checksums() {
    let (mut left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, _)) = sleeper.two_cpus() else { return };
    sleeper.set(&first);
    left.header.corun_journal = 1;
    let plan = PlanLine { changes: vec![sleeper.change(&first)].into(), ..PlanLine::default() };
    let lines =
        [serde_json::to_string(&left.header).unwrap(), serde_json::to_string(&plan).unwrap()];
    std::fs::write(left.path(), lines.join("\n") + "\n").unwrap();
    assert_eq!(left.outcome(), RestoreOutcome::Undone);
    assert_eq!(sleeper.now(), sleeper.found);
}

#[test]
fn a_journal_in_use_is_left() {
    let left = Left::new();
    left.write(&[], "");
    let file = std::fs::File::open(left.path()).unwrap();
    lock(&file, &left.path()).unwrap();
    assert!(why(left.outcome()).contains("another corun"));
    // Closed alone it may stay locked, by a child of another test that has not come to execute its program.
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    assert_eq!(left.outcome(), RestoreOutcome::Undone);
}

/// A process in whose name a journal stands.
fn owner(left: &mut Left, script: &str) -> Child {
    let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
    let stat = Process::new(&Roots::default(), child.id()).stat().unwrap().unwrap();
    left.name = JournalName { pid: child.id(), start_ticks: stat.start_ticks };
    left.header.pid = child.id();
    left.header.start_ticks = stat.start_ticks;
    child
}

#[test]
fn running_owners_are_left_in_charge_or_asked_to_stop() {
    let (mut left, sleeper) = (Left::new(), Sleeper::new());
    let Some((first, _)) = sleeper.two_cpus() else { return };
    let mut child = owner(&mut left, "exec sleep 1000");
    let change = sleeper.change(&first);
    change.apply(&Roots::default()).unwrap();
    left.write(&[&[change]], "");
    assert_eq!(left.outcome(), RestoreOutcome::Running);
    assert_eq!(sleeper.now(), first);
    let looked = would_restore(&left.folder, &Roots::default(), Which::All).unwrap();
    assert_eq!(looked[0].outcome, RestoreOutcome::Stopped);
    assert_eq!(child.try_wait().unwrap(), None);
    let all = restore(&left.folder, &Roots::default(), Which::All).unwrap();
    assert_eq!(all[0].outcome, RestoreOutcome::Undone);
    assert_eq!(sleeper.now(), sleeper.found);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_reused_process_number_is_not_stopped() {
    let mut left = Left::new();
    let mut child = owner(&mut left, "exec sleep 1000");
    left.name.start_ticks -= 1;
    left.header.start_ticks -= 1;
    left.write(&[], "");
    let all = restore(&left.folder, &Roots::default(), Which::All).unwrap();
    assert_eq!(all[0].outcome, RestoreOutcome::Undone);
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_unfinished_new_journal_is_removed() {
    let left = Left::new();
    left.write(&[], "");
    let unfinished = left.folder.join(format!("{}.new", left.name));
    std::fs::write(&unfinished, "{").unwrap();
    std::fs::write(left.folder.join("notes.txt"), "mine").unwrap();
    assert_eq!(left.outcome(), RestoreOutcome::Undone);
    assert!(!unfinished.exists());
    assert!(left.folder.join("notes.txt").exists());
}
