//! Which nodes Slurm's jobs prefer: `corun fleet rank-nodes` and the hook of job submission, also on a real Slurm of
//! three nodes on this host, which takes some 20 s, mostly of waiting. Without root or without Slurm that test is skipped.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use crate::control_plane::free_port;
use crate::fixture::Fixture;
use crate::hosting::Ended;

/// How long Slurm may take for anything: a job that it could not start it begins anew two minutes later.
const PATIENCE: Duration = Duration::from_secs(300);
const PROGRAMS: [&str; 7] =
    ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel"];
const NODES: [&str; 3] = ["n1", "n2", "n3"];

const SINFO: &str = "n1|mixed|4/4/0/8|n1\nn2|mixed|4/4/0/8|n2\nn3|idle|0/8/0/8|n3\nn3|idle|0/8/0/8|n3\n\
                     n4|drained|0/0/8/8|n4\nn5|idle|0/8/0/8|(null)\nother|idle|0/8/0/8|other\n";
const SQUEUE: &str =
    "7|n[1-2]|4|corun.profile=stream\n8|n1|2|corun.profile=stream\n9|n2|2|corun.profile=quiet\n";

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/slurm").join(name)
}

/// The table that the command prints, and what it says.
fn ranked(fixture: &Fixture, sinfo: &str, squeue: &str) -> (String, String) {
    fixture.write("sinfo", sinfo);
    fixture.write("squeue", squeue);
    let words = ["fleet", "rank-nodes", "--nodes", "2x-gold-6138-4c:n[1-5]", "--profiles"];
    let words = [&words[..], &["solo.csv", "--sinfo", "sinfo", "--squeue", "squeue"]].concat();
    let ran = fixture.run(&words);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    (ran.stdout(), ran.stderr())
}

/// The nodes of a line, with the slowdown there.
fn line<'a>(table: &'a str, profile: &str, cpus: u32) -> Option<Vec<(&'a str, f64)>> {
    let start = format!("{profile}\t{cpus}\t");
    let nodes = table.lines().find_map(|line| line.strip_prefix(&start))?;
    let one = |node: &'a str| {
        let (name, slowdown) = node.split_once('=').unwrap();
        (name, slowdown.parse().unwrap())
    };
    Some(nodes.split(' ').map(one).collect())
}

#[test]
fn nodes_are_ranked_by_what_a_job_costs_there() {
    let fixture = Fixture::new();
    let (table, said) = ranked(&fixture, SINFO, SQUEUE);
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("corun-nodes 1"));
    let at: u64 = lines.next().unwrap().strip_prefix("at ").unwrap().parse().unwrap();
    assert!(now_s().abs_diff(at) < 60, "{at}");
    // Nobody is on n3; two streams are on n2, four on n1.
    let needy = line(&table, "needy", 2).unwrap();
    assert_eq!(needy.iter().map(|one| one.0).collect::<Vec<_>>(), ["n3"], "{table}");
    assert!(needy[0].1 >= 1.0 && needy[0].1 < 1.5, "{table}");
    // An idler costs nothing anywhere: Slurm chooses. Eight CPUs are free on n3 alone, where there is nothing to choose.
    assert_eq!(line(&table, "idler", 1), None, "{table}");
    assert_eq!(line(&table, "needy", 8), None, "{table}");
    for never in ["n4=", "n5=", "other="] {
        assert!(!table.contains(never), "{table}");
    }
    for word in ["node n5 has no feature n5: never preferred", "node other is of no known machine"]
    {
        assert!(said.contains(word), "{said}");
    }
    // Who has a bound on n3 keeps it from those who would break it.
    let bounded = format!("{SQUEUE}10|n3|2|corun.profile=needy corun.bound=1.001\n");
    let (table, _) = ranked(&fixture, SINFO, &bounded);
    assert!(
        line(&table, "stream", 2).is_none_or(|nodes| nodes.iter().all(|one| one.0 != "n3")),
        "{table}"
    );
}

#[test]
fn what_is_wrong_is_said_and_left_out() {
    let fixture = Fixture::new();
    let squeue = "7|n1|x|corun.profile=stream\n8|n1|2|corun.profile=unheard\n\
                  9|n1|2|corun.profile=stream corun.bound=fast\n";
    let (table, said) = ranked(&fixture, &format!("n1 idle\n{SINFO}"), squeue);
    assert!(table.starts_with("corun-nodes 1\nat "), "{table}");
    for word in [
        "sinfo: \"n1 idle\" cannot be read",
        "squeue: \"7|n1|x|corun.profile=stream\" cannot be read",
        "job 8: no profile \"unheard\": it counts as quiet",
        "job 9: corun.bound is \"fast\", no number above 1: no bound",
    ] {
        assert!(said.contains(word), "no {word} in {said}");
    }
    // Nothing else is said of nodes whose CPUs Slurm counts as we do.
    assert!(!said.contains("CPUs for Slurm"), "{said}");
    let (_, said) = ranked(&fixture, &SINFO.replace("/8|", "/16|"), SQUEUE);
    let otherwise = "node n1 has 16 CPUs for Slurm, 2x-gold-6138-4c has 8 here: 8 are given out";
    assert_eq!(said.matches(otherwise).count(), 1, "{said}");
    assert_eq!(said.matches("CPUs for Slurm").count(), 1, "once for a machine: {said}");
    let rank_nodes = ["fleet", "rank-nodes", "--profiles", "solo.csv"];
    let run = |words: &[&str]| fixture.run(&[&rank_nodes[..], words].concat());
    run(&["--nodes", "n1"]).refused(&["expected MACHINE:NODES"]);
    run(&["--nodes", "i7-2600:n[2-1]"]).refused(&["Slurm's list of nodes"]);
    run(&["--nodes", "i7-2600:n1", "--nodes", "i7-2600:n[1-2]"]).refused(&["`n1` stands twice"]);
    run(&["--nodes", "none-such:n1"]).refused(&["none-such"]);
    run(&["--nodes", "i7-2600:n1", "--sinfo", "none"]).refused(&["none: No such file"]);
    run(&["--nodes", "i7-2600:n1", "--every", "5"]).refused(&["--output"]);
}

/// What the hook makes jobs prefer, one after the other: each is a script that sets `job` before the hook sees it. None
/// without Lua.
fn preferred(fixture: &Fixture, table: &str, jobs: &[&str]) -> Option<Vec<String>> {
    Command::new("lua").arg("-v").output().ok()?;
    let path = fixture.path("nodes.tsv");
    fs::write(&path, table).unwrap();
    let library = fs::read_to_string(packaging("corun.lua")).unwrap();
    let library = library.replace("/run/corun/nodes.tsv", &path.display().to_string());
    fixture.write("corun.lua", &library);
    let own = fixture.path("corun.lua");
    let mut script = "slurm = { log_info = function() end, log_error = error }\n".to_owned();
    for job in jobs {
        writeln!(script, "job = {{ comment = 'corun.profile=stream', min_nodes = 1 }} {job}")
            .unwrap();
        writeln!(script, "dofile('{}').prefer(job) print(job.prefer or '-')", own.display())
            .unwrap();
    }
    fixture.write("jobs.lua", &script);
    let ran = Command::new("lua").arg(fixture.path("jobs.lua")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Some(String::from_utf8(ran.stdout).unwrap().lines().map(str::to_owned).collect())
}

/// The first job of a controller prefers all nodes, as does every one where Slurm keeps no state; those behind it go to one
/// node after the other, and prefer all again once each had one. A new table begins anew.
#[test]
fn a_burst_of_jobs_is_dealt_over_the_preferred_nodes() {
    let fixture = Fixture::new();
    let of = |at: u64| format!("corun-nodes 1\nat {at}\nstream\t4\tn1=1.0 n2=1.1 n3=1.1\n");
    let renew = format!(
        "local file = io.open('{}', 'w') file:write([[{}]]) file:close()",
        fixture.path("nodes.tsv").display(),
        of(now_s() + 1)
    );
    let bounded = "job.comment = 'corun.profile=stream corun.bound=1.05'";
    let jobs = ["", "", "job.min_nodes = 2", "", bounded, "", "", &renew, ""];
    let Some(found) = preferred(&fixture, &of(now_s()), &jobs) else {
        println!("skipped: no lua here");
        return;
    };
    let all = "n1|n2|n3";
    assert_eq!(found, [all, "n1", all, "n2", "n1", "n3", all, "n1", "n2"]);
}

/// A Slurm of three nodes below a folder of its own.
struct Slurm {
    folder: PathBuf,
    started: Vec<Child>,
}

impl Slurm {
    /// Starts munge, the controller and three nodes of eight CPUs, with corun's hook.
    ///
    /// # Errors
    /// Why there can be no Slurm here.
    fn start(folder: PathBuf) -> Result<Self, String> {
        let found = |name: &&&str| {
            Command::new("which").arg(name).output().is_ok_and(|one| one.status.success())
        };
        let missing: Vec<&str> = PROGRAMS.iter().filter(|name| !found(name)).copied().collect();
        if !missing.is_empty() {
            return Err(format!("not installed: {}", missing.join(", ")));
        }
        if !rustix::process::geteuid().is_root() {
            return Err("slurmd starts jobs as their users, which takes root".to_owned());
        }
        fs::create_dir_all(folder.join("state")).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.parent().unwrap(), open).unwrap();
        let key: Vec<u8> = fs::read("/proc/sys/kernel/random/uuid").unwrap().repeat(4);
        fs::write(folder.join("munge.key"), key).unwrap();
        let secret = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        fs::set_permissions(folder.join("munge.key"), secret).unwrap();
        fs::write(folder.join("slurm.conf"), configuration(&folder)).unwrap();
        fs::write(folder.join("job_submit.lua"), hook(&folder)).unwrap();
        let mut own = Self { folder, started: Vec::new() };
        let below = own.folder.clone();
        let file = |name: &str| format!("{}/{name}", below.display());
        let munge = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            format!("--key-file={}", file("munge.key")),
            format!("--socket={}", file("munge.socket")),
            format!("--pid-file={}", file("munged.pid")),
            format!("--log-file={}", file("munged.log")),
            format!("--seed-file={}", file("munged.seed")),
        ];
        let conf = file("slurm.conf");
        own.begin("munged", &munge.each_ref().map(String::as_str));
        own.begin("slurmctld", &["-D", "-f", &conf]);
        for node in NODES {
            fs::create_dir_all(own.folder.join(format!("spool-{node}"))).unwrap();
            own.begin("slurmd", &["-D", "-N", node, "-f", &conf]);
        }
        let start = Instant::now();
        while own.asked(&["sinfo", "--noheader", "--Node", "--format=%T"]) != "idle\nidle\nidle" {
            let ended = own.started.iter_mut().any(|one| one.try_wait().unwrap().is_some());
            if ended || start.elapsed() > PATIENCE {
                let said =
                    own.asked(&["tail", "-qn2", &file("slurmctld.log"), &file("slurmd-n1.log")]);
                return Err(format!("it does not come up: {}", said.replace('\n', " | ")));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(own)
    }

    fn begin(&mut self, program: &str, words: &[&str]) {
        let log =
            fs::File::options().create(true).append(true).open(self.folder.join("out")).unwrap();
        let mut command = Command::new(program);
        command.args(words).env("SLURM_CONF", self.folder.join("slurm.conf"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.started.push(command.spawn().unwrap());
    }

    /// What a command prints, and where it refuses what it says.
    fn asked(&self, words: &[&str]) -> String {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("SLURM_CONF", self.folder.join("slurm.conf"));
        let output = command.output().unwrap();
        let said = if output.status.success() { output.stdout } else { output.stderr };
        String::from_utf8(said).unwrap().trim().to_owned()
    }

    /// Submits a job that sleeps, and gives its node once it runs.
    fn node_of(&self, cpus: u32, words: &[&str]) -> String {
        let count = format!("--cpus-per-task={cpus}");
        let job = ["sbatch", "--parsable", "--output=/dev/null", "--wrap=exec sleep 600", &count];
        let number = self.asked(&[&job[..], words].concat());
        assert!(number.parse::<u32>().is_ok(), "{number}");
        let start = Instant::now();
        loop {
            let node = self.asked(&["squeue", "--noheader", "--format=%N", "--jobs", &number]);
            if !node.is_empty() {
                return node;
            }
            assert!(start.elapsed() < PATIENCE, "job {number} does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The same, and ends the job.
    fn node_once(&self, cpus: u32, words: &[&str]) -> String {
        let node = self.node_of(cpus, &[words, &["--job-name=once"]].concat());
        self.end("--name=once");
        node
    }

    /// Ends jobs that run, and waits until they are no more. Asked to end instead of killed, each takes some four seconds.
    fn end(&self, which: &str) {
        self.asked(&["scancel", "--signal=KILL", "--full", which]);
        let start = Instant::now();
        while !self.asked(&["squeue", "--noheader", which]).is_empty() {
            assert!(start.elapsed() < PATIENCE, "jobs do not end: {which}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.asked(&["scancel", "--signal=KILL", "--full", "--user=root"]);
        self.asked(&["scancel", "--user=root"]);
        let start = Instant::now();
        while !self.asked(&["squeue", "--noheader"]).is_empty() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
        }
        for one in self.started.iter_mut().rev() {
            let _ = kill_process(Pid::from_child(one), Signal::TERM);
        }
        for one in &mut self.started {
            let start = Instant::now();
            while one.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(50));
            }
            let _ = one.kill();
            let _ = one.wait();
        }
    }
}

fn configuration(folder: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let below = folder.display();
    let mut text = format!(
        "ClusterName=corun\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={below}/munge.socket\nStateSaveLocation={below}/state\n\
         SlurmdSpoolDir={below}/spool-%n\nSlurmctldPidFile={below}/slurmctld.pid\n\
         SlurmdPidFile={below}/slurmd-%n.pid\nSlurmctldLogFile={below}/slurmctld.log\n\
         SlurmdLogFile={below}/slurmd-%n.log\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nMpiDefault=none\nReturnToService=2\nKillWait=2\nMessageTimeout=100\n\
         SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,ignore_prefer_validation\n\
         SlurmdParameters=config_overrides\nJobSubmitPlugins=lua\n",
        free_port()
    );
    for node in NODES {
        let port = free_port();
        writeln!(
            text,
            "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 Features={node} State=UNKNOWN"
        )
        .unwrap();
    }
    text + "PartitionName=all Nodes=n[1-3] Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP\n"
}

/// The shipped hook, with the library and the table where this test has them.
fn hook(folder: &Path) -> String {
    let shipped = fs::read_to_string(packaging("job_submit.lua")).unwrap();
    let library = fs::read_to_string(packaging("corun.lua")).unwrap();
    let (installed, table) = ("/usr/local/lib/corun/corun.lua", "/run/corun/nodes.tsv");
    assert!(shipped.contains(installed) && library.contains(table));
    let own = folder.join("corun.lua");
    let library = library.replace(table, &folder.join("nodes.tsv").display().to_string());
    fs::write(&own, library).unwrap();
    shipped.replace(installed, &own.display().to_string())
}

#[test]
fn a_slurm_of_three_nodes_places_jobs_where_they_cost_least_and_goes_on_without_corun() {
    let fixture = Fixture::new();
    let slurm = match Slurm::start(fixture.path("slurm")) {
        Ok(slurm) => slurm,
        Err(why) => {
            println!("skipped: no Slurm here: {why}");
            return;
        }
    };
    let table = slurm.folder.join("nodes.tsv");
    let rank = |words: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("corun"));
        command.args(["fleet", "rank-nodes", "--nodes", "2x-gold-6138-4c:n[1-3]", "--profiles"]);
        command.arg(fixture.path("solo.csv")).arg("--output").arg(&table).args(words);
        command.env("SLURM_CONF", slurm.folder.join("slurm.conf"));
        command
    };
    // Streams fill half of n1; something quiet runs on n2.
    assert_eq!(slurm.node_of(4, &["--nodelist=n1", "--comment=corun.profile=stream"]), "n1");
    assert_eq!(slurm.node_of(2, &["--nodelist=n2", "--comment=corun.profile=quiet"]), "n2");
    let needy = ["--comment=corun.profile=needy"];
    // Slurm itself takes the fullest node: there is no table yet.
    let own_choice = slurm.node_once(2, &needy);
    assert_eq!(own_choice, "n1");
    let mut daemon = Ended(rank(&["--every", "1"]).stderr(Stdio::null()).spawn().unwrap());
    let start = Instant::now();
    while !table.exists() {
        assert!(start.elapsed() < PATIENCE, "no table");
        std::thread::sleep(Duration::from_millis(50));
    }
    let written = fs::read_to_string(&table).unwrap();
    let best: Vec<&str> = line(&written, "needy", 2).unwrap().iter().map(|one| one.0).collect();
    assert!(!best.contains(&"n1"), "{written}");
    let preferred = slurm.node_once(2, &needy);
    assert!(best.contains(&preferred.as_str()), "{preferred} of {best:?}");
    // A preference of the user's own stands, and who does not take part is placed as ever.
    assert_eq!(slurm.node_once(2, &["--nodelist=n1", needy[0]]), "n1");
    assert_eq!(slurm.node_once(2, &["--prefer=n1", needy[0]]), "n1");
    assert_eq!(slurm.node_once(2, &[]), own_choice);
    // A bound that no node keeps refuses nothing.
    assert_eq!(slurm.node_once(2, &["--comment=corun.profile=needy corun.bound=0.5"]), own_choice);
    // Where no preferred node has room, the job takes another.
    let everything = ["--nodelist=n2", "--job-name=full"];
    assert_eq!(slurm.node_of(6, &everything), "n2");
    assert_eq!(slurm.node_of(8, &["--nodelist=n3", "--job-name=full"]), "n3");
    assert_eq!(slurm.node_once(2, &needy), "n1");
    slurm.end("--name=full");
    // corun ends and takes its table along; then one that is old, of another version, and no table at all.
    kill_process(Pid::from_child(&daemon.0), Signal::TERM).unwrap();
    assert!(daemon.0.wait().unwrap().success());
    assert!(!table.exists());
    let old = format!("corun-nodes 1\nat {}\nneedy\t2\tn3=1.0000\n", now_s() - 3600);
    for text in [&old, &old.replace("nodes 1", "nodes 2"), "corun-nodes 1\nat soon\n"] {
        fs::write(&table, text).unwrap();
        assert_eq!(slurm.node_once(2, &needy), own_choice, "{text}");
    }
    // Two equal jobs go to two nodes, though no table tells of the first. Slurm alone would fill n2.
    let two = format!("corun-nodes 1\nat {}\nneedy\t2\tn3=1.0000 n2=1.0000\n", now_s());
    fs::write(&table, two).unwrap();
    let burst = [needy[0], "--job-name=full"];
    let mut nodes = [slurm.node_of(2, &burst), slurm.node_of(2, &burst)];
    nodes.sort();
    assert_eq!(nodes, ["n2", "n3"]);
    slurm.end("--name=full");
    // A node that Slurm no longer knows by that feature.
    fs::write(&table, format!("corun-nodes 1\nat {}\nneedy\t2\tgone=1.0000\n", now_s())).unwrap();
    assert_eq!(slurm.node_once(2, &needy), own_choice);
    a_job_is_told_what_it_may_use(&slurm);
}

/// Inside a job that may use one CPU `topology`, `doctor` and `run` say so, and which job it is.
fn a_job_is_told_what_it_may_use(slurm: &Slurm) {
    let corun = assert_cmd::cargo::cargo_bin!("corun").display().to_string();
    let (script, said) = (slurm.folder.join("job.sh"), slurm.folder.join("said"));
    let first = "taskset -c $(taskset -cp $$ | sed 's/.*: \\([0-9]*\\).*/\\1/')";
    let text = format!(
        "#!/bin/sh\nset -e\n{first} {corun} topology\n{first} {corun} doctor | tr -s '\\n ' ' '\necho\n\
         {first} {corun} run --dry-run --policy di --counters profiles -- true 2>&1\necho done\n"
    );
    fs::write(&script, text).unwrap();
    let output = format!("--output={}", said.display());
    let number = slurm.asked(&["sbatch", "--parsable", &output, &script.display().to_string()]);
    let start = Instant::now();
    let text = loop {
        let text = fs::read_to_string(&said).unwrap_or_default();
        if text.ends_with("done\n") {
            break text;
        }
        assert!(start.elapsed() < PATIENCE, "job {number} does not end: {text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let may = "his process may use CPU ";
    let told = text.lines().filter(|line| {
        let of = line.split_once(may).map(|(_, of)| of);
        of.is_some_and(|of| of.contains(" of ") && of.contains(&format!("Slurm job {number}")))
    });
    assert_eq!(told.count(), 3, "{text}");
}
