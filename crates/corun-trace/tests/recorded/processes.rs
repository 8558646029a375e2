//! Programs that start others, under the real plug-in, where QEMU's user mode is installed.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use corun_profile::{CoreDetail, Phase, ProcessRecord, ProfileData, Recording};
use corun_trace::{Recorded, Request, record};

/// A request for a shell's command line, whose profile nobody keeps; `None` where QEMU is missing.
pub(super) fn shell(line: &str) -> Option<Request> {
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|folder| folder.join("qemu-x86_64").is_file()) {
        println!("skipped: qemu-x86_64 is not installed (apt-get install qemu-user)");
        return None;
    }
    let command = ["/bin/sh", "-c", line].map(Into::into).to_vec();
    Some(Request { pack_quickly: true, ..Request::new(command) })
}

pub(super) fn recording(recorded: &Recorded) -> &Recording {
    match &recorded.profile.data {
        ProfileData::Recording(recording) => recording,
        ProfileData::Table(_) => panic!("a table"),
    }
}

/// The commands of the processes.
pub(super) fn commands(recording: &Recording) -> Vec<String> {
    recording.processes.iter().map(|process| process.command.join(" ")).collect()
}

/// Runs a shell's command line that writes to `out`, and returns what it wrote.
fn output(line: &str) -> Option<(Recorded, String)> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let request = shell(&format!("exec >{}; {line}", out.display()))?;
    let recorded = record(&request).unwrap();
    Some((recorded, fs::read_to_string(out).unwrap()))
}

#[test]
fn children_and_what_they_execute_are_in_the_profile() {
    let Some((recorded, out)) = output("seq 3 | wc -l; (exit 4); echo $?; exit 3") else { return };
    assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["3", "4"]);
    assert_eq!(recorded.status.code(), Some(3));
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
    let recording = recording(&recorded);
    assert!(recording.origin.complete);
    assert_eq!((recording.origin.exit_code, recording.origin.untraced_processes), (Some(3), 0));
    let commands = commands(recording);
    assert_eq!(commands.len(), 4, "{commands:?}");
    assert!(commands[0].starts_with("/bin/sh -c"));
    assert_eq!(commands[1..3], ["seq 3", "wc -l"]);
    // The subshell executes nothing.
    assert_eq!(commands[3], commands[0]);
    assert!(recording.processes.iter().all(|process| process.complete));
    let sum: u64 = recording.processes.iter().map(|process| process.instructions).sum();
    assert_eq!(sum, recording.instructions());
    assert!(recording.processes[1].instructions > 50_000);
}

#[test]
fn a_chain_of_programs_is_one_process() {
    let Some((recorded, out)) =
        output("exec env A=1 nice -n 1 sh -c 'echo $0 $A; exec printenv A' called")
    else {
        return;
    };
    assert_eq!(out, "called 1\n1\n");
    let recording = recording(&recorded);
    assert!(recording.origin.complete && recording.processes.is_empty());
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
}

#[test]
fn main_only_leaves_children_out_and_says_so() {
    let Some(mut request) = shell("ls / >/dev/null; true; exec true") else { return };
    request.settings.main_only = true;
    let recorded = record(&request).unwrap();
    let recording = recording(&recorded);
    assert!(recording.origin.complete && recording.processes.is_empty());
    assert_eq!(recording.origin.untraced_processes, 1);
    assert_eq!(recorded.notes, ["1 process ran that is not in the profile, as asked"]);
}

#[test]
fn an_execution_that_fails_fails_alike() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8], mode| {
        let (written, path) = (folder.path().join("written"), folder.path().join(name));
        fs::write(&written, content).unwrap();
        // A program that a child of another test still has open for writing could not be started.
        let mut install = Command::new("install");
        install.args(["-m", mode]).args([&written, &path]);
        assert!(install.status().unwrap().success());
        path.display().to_string()
    };
    let (plain, odd) = (file("plain", b"x", "644"), file("odd", b"\x7fELF\x02\x01", "755"));
    let script = file("script", b"echo from a script without a first line $1", "755");
    let line = format!("/no/such; echo $?; {plain}; echo $?; /usr; echo $?; {script} x; {odd}");
    let line = format!("exec 2>/dev/null; {line}; echo $?");
    let Some((recorded, out)) = output(&line) else { return };
    let native = Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
    assert_eq!(out, String::from_utf8(native.stdout).unwrap());
    assert!(out.starts_with("127\n126\n126\nfrom a script"), "{out}");
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
}

#[test]
fn a_killed_child_is_marked() {
    let Some((recorded, out)) = output("sh -c 'kill -9 $$'; echo $?") else { return };
    assert_eq!(out, "137\n");
    let recording = recording(&recorded);
    assert!(recording.origin.complete);
    let complete: Vec<bool> = recording.processes.iter().map(|one| one.complete).collect();
    assert_eq!(complete, [true, false]);
    assert!(recorded.notes[0].contains("crashed or was killed"), "{:?}", recorded.notes);
}

#[test]
fn a_child_that_another_process_ends_by_a_signal_loses_nothing() {
    // It says who it is once it runs, and is ended then.
    let begin = "sh -c 'echo $$; while :; do :; done'; echo $? >&3";
    let line = format!("{{ {{ {begin}; }} | {{ read child; kill -TERM $child; }}; }} 3>&1");
    let Some((recorded, out)) = output(&line) else { return };
    assert_eq!(out, "143\n");
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
    let complete: Vec<bool> =
        recording(&recorded).processes.iter().map(|one| one.complete).collect();
    assert!(complete[0] && complete[1..].contains(&false), "{complete:?}");
}

#[test]
fn a_program_killed_by_a_signal_has_the_code_that_shells_give_it() {
    let Some(request) = shell("kill -TERM $$") else { return };
    let recorded = record(&request).unwrap();
    assert_eq!((recorded.status.code(), recorded.exit_code()), (None, 128 + 15));
    assert!(!recording(&recorded).origin.complete);
}

/// Python, where it is installed: it can do what a shell cannot.
pub(super) fn python(program: &str) -> Option<(Recorded, String)> {
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| Path::new(path).is_file())
    else {
        println!("skipped: python3 is not installed");
        return None;
    };
    output(&format!("exec {python} -c '{program}'"))
}

/// What a program asks of the kernel by name is counted by its kind.
#[test]
fn calls_that_sleep_and_that_map_are_counted() {
    let run = |calls: &str| {
        let (recorded, _) = python(&format!(
            "import ctypes, mmap\nlibc = ctypes.CDLL(None)\nfor _ in range(60):\n {calls}\n"
        ))?;
        let recording = recording(&recorded);
        let sum = |rate: fn(&CoreDetail) -> f64| {
            let phases = recording.phases.iter();
            let counts = phases
                .map(|phase| rate(phase.core.as_ref().unwrap()) * phase.instructions as f64 * 1e-3);
            counts.sum::<f64>().round()
        };
        let kinds: [fn(&CoreDetail) -> f64; 3] = [
            |core| core.mapping_calls_pki,
            |core| core.sleeping_calls_pki,
            |core| core.light_calls_pki,
        ];
        Some(kinds.map(sum))
    };
    let Some([mapping, sleeping, light]) = run("pass") else { return };
    let slept = run("libc.usleep(100)").unwrap();
    assert_eq!(slept[1] - sleeping, 60.0, "{slept:?}");
    // Memory of the interpreter's own comes and goes beside.
    let mapped = run("mmap.mmap(-1, 1 << 20).close()").unwrap();
    assert!((100.0..150.0).contains(&(mapped[0] - mapping)), "{mapped:?} {mapping}");
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    // FUTEX_WAIT for a value that is not there, and for one that is, for a time.
    let futexes = run("libc.syscall(202, ctypes.byref(ctypes.c_int(1)), 0, 2, None)").unwrap();
    assert_eq!(futexes[1], sleeping, "{futexes:?}");
    assert!((futexes[2] - light - 60.0).abs() < 5.0, "{futexes:?} {light}");
    let time = "(ctypes.c_long * 2)(0, 100000)";
    let waited = run(&format!("libc.syscall(202, ctypes.byref(ctypes.c_int(1)), 0, 1, {time})"));
    assert_eq!(waited.unwrap()[1] - sleeping, 60.0);
}

/// Of what is written to a file, a pipe and a device, the first alone has pages found for it.
#[test]
fn what_is_written_to_files_is_told_from_other_bytes() {
    let Some((recorded, _)) = python(
        "import os, tempfile\n\
         file, (read, pipe) = tempfile.TemporaryFile(), os.pipe()\n\
         null = os.open(\"/dev/null\", os.O_WRONLY)\n\
         for _ in range(7): os.write(file.fileno(), bytes(10_000))\n\
         for one in (pipe, null): os.write(one, bytes(20_000))\n",
    ) else {
        return;
    };
    let phases = &recording(&recorded).phases;
    let sum = |rate: fn(&CoreDetail) -> f64| {
        let bytes = |phase: &Phase| rate(phase.core.as_ref().unwrap()) * phase.instructions as f64;
        phases.iter().map(bytes).sum::<f64>() * 1e-3
    };
    let [written, all] =
        [sum(|core| core.file_written_bytes_pki), sum(|core| core.transferred_bytes_pki)];
    assert!((written / 70_000.0 - 1.0).abs() < 1e-3, "{written}");
    assert!(all > 110_000.0 * 0.999, "{all}");
}

#[test]
fn closed_files_and_signals_survive() {
    let Some((recorded, out)) = python(
        "import os, signal\n\
         os.closerange(3, 100)\n\
         os.close(0)\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])\n\
         signal.signal(signal.SIGUSR2, signal.SIG_IGN)\n\
         os.execv(\"/bin/grep\", [\"grep\", \"-E\", \"SigBlk\", \"/proc/self/status\"])",
    ) else {
        return;
    };
    assert!(out.starts_with("SigBlk:") && out.trim_end().ends_with("4200"), "{out}");
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
    assert!(recording(&recorded).origin.complete);
}

/// As `nohup` has it, through programs that execute one another. USR1 ends
/// the program where it is not ignored.
#[test]
fn signals_stay_ignored_over_several_executions() {
    let last = "sh -c 'kill -HUP $$; kill -USR1 $$; echo alive'";
    let Some((recorded, out)) = output(&format!(
        "trap '' HUP USR1; exec env env sh -c \"exec {}\"",
        last.replace('$', "\\$")
    )) else {
        return;
    };
    assert_eq!((out.as_str(), recorded.status.code()), ("alive\n", Some(0)));
    let Some((recorded, out)) = output(&format!("trap '' HUP; exec env env {last}")) else {
        return;
    };
    assert_eq!((out.as_str(), recorded.status.code()), ("", None));
    // A child's too.
    let Some((_, out)) = output(&format!("trap '' HUP USR1; env env env {last}; echo $?")) else {
        return;
    };
    assert_eq!(out, "alive\n0\n");
}

#[test]
fn long_arguments_and_an_odd_environment_survive() {
    let Some((recorded, out)) = python(
        "import os\n\
         show = \"echo $0 $#; echo ${#1}; echo $ODD\"\n\
         words = [\"odd name\", \"-c\", show, \"zero\", \"x\" * 120000] + [\"y\"] * 20000\n\
         os.execve(\"/bin/sh\", words, {\"PATH\": \"/usr/bin\", \"ODD\": \"a,b=c\"})",
    ) else {
        return;
    };
    assert_eq!(out, "zero 20001\n120000\na,b=c\n");
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
}

#[test]
fn an_error_of_a_child_reaches_its_parent() {
    let Some((recorded, out)) = python(
        "import subprocess\n\
         print(subprocess.run([\"echo\", \"hi\"], capture_output=True).stdout)\n\
         try: subprocess.run([\"/no/such\"])\n\
         except OSError as error: print(error.errno)\n\
         import os\n\
         try: os.execv(\"/no/such\", [\"x\"])\n\
         except OSError as error: print(error.errno)",
    ) else {
        return;
    };
    assert_eq!(out, "b'hi\\n'\n2\n2\n");
    assert!(recording(&recorded).origin.complete);
}

#[test]
fn threads_that_fork_at_the_same_time_do_not_hang() {
    let Some((recorded, out)) = python(
        "import os, threading\n\
         def work():\n \
          for _ in range(10):\n  \
           child = os.fork()\n  \
           if child == 0: os._exit(sum(range(1000)) % 7)\n  \
           assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 499500 % 7\n\
         threads = [threading.Thread(target=work) for _ in range(4)]\n\
         [one.start() for one in threads]\n\
         [one.join() for one in threads]\n\
         print(\"done\")",
    ) else {
        return;
    };
    assert_eq!(out, "done\n");
    let recording = recording(&recorded);
    let count: u64 = recording.processes.iter().map(|one| one.count).sum();
    assert_eq!((count, recording.origin.untraced_processes), (41, 0));
}

#[test]
fn limits_hold_for_all_processes_together() {
    let Some(mut request) = shell("while :; do /bin/true; done") else { return };
    request.instructions = Some(3_000_000);
    let recorded = record(&request).unwrap();
    let instructions = recording(&recorded).instructions();
    // The shell and one child may pass the limit by a batch each.
    assert!((3_000_000..3_200_000).contains(&instructions), "{instructions}");
    assert!(recorded.stopped && recorded.exit_code() == 0);
    assert!(recorded.notes[0].contains("instruction limit"), "{:?}", recorded.notes);
    let Some(mut request) = shell("sleep 1000 & while :; do /bin/true; done") else { return };
    request.duration = Some(Duration::from_millis(500));
    let recorded = record(&request).unwrap();
    assert!(recorded.stopped && recorded.exit_code() == 0);
    assert!(recorded.notes[0].contains("time limit"), "{:?}", recorded.notes);
    assert_eq!(recorded.notes.len(), 1, "{:?}", recorded.notes);
}

#[test]
fn what_outlives_the_program_is_left_running() {
    let Some((recorded, out)) = output("sleep 1000 & echo $!") else { return };
    // On a busy machine it may not have come to its first report, which is said then too.
    let (left, other): (Vec<_>, Vec<_>) =
        recorded.notes.iter().partition(|note| note.starts_with("1 process of the program still"));
    assert_eq!(left.len(), 1, "{:?}", recorded.notes);
    let late = "1 process ran that is not in the profile";
    assert!(other.is_empty() || other == [late], "{:?}", recorded.notes);
    assert!(!recording(&recorded).origin.complete);
    let process = Path::new("/proc").join(out.trim());
    assert!(process.is_dir());
    // It is of no use any longer.
    let number = out.trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
}

/// What is left out is the program's beginning alone.
#[test]
fn a_program_that_ends_within_what_is_left_out_did_not_crash() {
    let Some(mut request) = shell("(seq 30000 >/dev/null); :") else { return };
    request.skip = Some(1 << 40);
    let recorded = record(&request).unwrap();
    let start = "the program ended within the instructions that were left out";
    assert_eq!(recorded.notes.len(), 1, "{:?}", recorded.notes);
    assert!(recorded.notes[0].starts_with(start), "{:?}", recorded.notes);
    let recording = recording(&recorded);
    assert!(recording.origin.complete && recording.origin.untraced_processes == 0);
    assert!(commands(recording).contains(&"seq 30000".to_owned()));
    let Some(mut request) = shell("exec seq 30000 >/dev/null") else { return };
    request.skip = Some(1 << 40);
    let recorded = record(&request).unwrap();
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
}

#[test]
fn the_program_ends_with_whoever_records_it() {
    if shell("").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = env::current_exe().unwrap();
    let record = record.parent().and_then(Path::parent).unwrap().join("examples/record");
    let started = folder.path().join("started");
    let line = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000", started.display());
    let mut recorder = Command::new(record)
        .args(["-o", "p.toml", "--", "/bin/sh", "-c", &line])
        .current_dir(&folder)
        .env("TMPDIR", folder.path())
        .spawn()
        .unwrap();
    while !started.exists() {
        assert!(
            recorder.try_wait().unwrap().is_none(),
            "the recorder ended before its program began"
        );
        thread::sleep(Duration::from_millis(20));
    }
    let process = fs::read_to_string(&started).unwrap();
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let status = Path::new("/proc").join(process.trim()).join("status");
    // Whoever inherits it may take its time to collect what is left of it.
    let is_over = || fs::read_to_string(&status).map_or(true, |text| text.contains("State:\tZ"));
    for _ in 0..500 {
        if is_over() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("process {process} runs on");
}

#[test]
fn many_children_are_recorded_and_listed_together() {
    let Some((recorded, _)) = output("i=0; while [ $i -lt 300 ]; do (:); i=$((i+1)); done") else {
        return;
    };
    let processes: &[ProcessRecord] = &recording(&recorded).processes;
    assert_eq!(processes.iter().map(|one| one.count).sum::<u64>(), 301);
    assert!(processes.len() <= 64, "{}", processes.len());
    assert!(recorded.notes.is_empty(), "{:?}", recorded.notes);
}
