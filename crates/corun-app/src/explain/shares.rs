//! By what the scheduler shares CPUs between two programs, and what gives one of them more.
//!
//! The kernel shares a CPU among the groups at the top, then among what is in each, down to the threads. Cgroups count by
//! their weights where the controller of CPU time is passed on to them; where no such cgroup is, autogroups by theirs
//! (sched(7)); threads by their nice values. Between two programs that weighs which is where their ways from the top part.

use std::path::Path;

use corun_linux::Roots;
use corun_linux::cpu_weight::{CpuGroup, groups};
use corun_linux::procfs::{Autogroup, Process, weight_of_nice};
use serde::Serialize;

use super::advice::{advice, give_way, no_idle_policy, no_nice, word, write_to};
use super::causes::percent;
use super::diagnosis::Advice;
use super::facts::{Competitor, NiceFacts, ProgramFacts};

/// Ten times the weight that a cgroup has by default.
const HEAVY: f64 = 1000.0;
/// A tenth of it.
const LIGHT: f64 = 10.0;
/// The weight that a cgroup has by default.
const DEFAULT: f64 = 100.0;
/// The largest weight of a cgroup.
const HEAVIEST: f64 = 10_000.0;

/// `SCHED_IDLE`, as the kernel numbers it, and what it weighs beside the 1 of a nice value of 0 (`WEIGHT_IDLEPRIO`).
const SCHED_IDLE: u32 = 5;
const IDLE_WEIGHT: f64 = 3.0 / 1024.0;

/// `CAP_SYS_NICE`, as a bit of the line `CapEff` in `/proc/PID/status`.
const SYS_NICE: u64 = 1 << 23;

/// May this user give a process a nice value that is lower than its own (setpriority(2))?
pub(super) fn may_give_nice(roots: &Roots, pid: u32, nice: i32) -> bool {
    let own = Process::of_self(roots).capabilities();
    own.is_some_and(|held| held & SYS_NICE != 0)
        || Process::new(roots, pid).lowest_nice().is_some_and(|lowest| lowest <= nice)
}

/// The nice value of a process.
pub(super) fn nice_facts(roots: &Roots, pid: u32) -> Option<NiceFacts> {
    let stat = Process::new(roots, pid).stat_of_all_threads().ok()??;
    let is_idle_policy = stat.policy == SCHED_IDLE;
    // From SCHED_IDLE one comes to the nice value that one has.
    let may_be_0 = may_give_nice(roots, pid, if is_idle_policy { stat.nice } else { 0 });
    Some(NiceFacts { value: stat.nice, may_be_0, threads: stat.threads, is_idle_policy })
}

/// Where a process is in the scheduler's groups.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SchedulingPlace {
    /// Its cgroups, the outermost first.
    pub cgroups: Vec<CpuGroup>,
    /// The autogroup of its session, which counts where none of its cgroups has a weight.
    pub autogroup: Option<Autogroup>,
}

impl SchedulingPlace {
    pub(super) fn of_process(roots: &Roots, pid: u32) -> Self {
        Self { cgroups: groups(roots, pid), autogroup: Autogroup::of_process(roots, pid) }
    }

    /// The outermost of its cgroups that the other is not in.
    fn own_group(&self, other: &Self) -> Option<&CpuGroup> {
        let mut theirs = other.cgroups.iter();
        self.cgroups.iter().find(|own| theirs.next().is_none_or(|one| one.path != own.path))
    }

    /// What of it is weighed against the other.
    fn weighed_against(&self, other: &Self) -> Weighed<'_> {
        match (self.own_group(other), &self.autogroup) {
            (Some(group), _) if group.is_weighed => Weighed::Cgroup(group),
            _ if self.cgroups.iter().any(|one| one.is_weighed) => Weighed::Threads,
            (_, Some(own)) if other.counts_in(own) => Weighed::Threads,
            (_, Some(own)) => Weighed::Autogroup(*own),
            (_, None) => Weighed::Threads,
        }
    }

    /// Are its threads weighed within this autogroup?
    fn counts_in(&self, autogroup: &Autogroup) -> bool {
        let is_in = self.autogroup.is_some_and(|own| own.number == autogroup.number);
        is_in && !self.cgroups.iter().any(|one| one.is_weighed)
    }
}

/// What the scheduler weighs of a program.
enum Weighed<'a> {
    /// A cgroup, by its weight.
    Cgroup(&'a CpuGroup),
    /// The autogroup of its session, by that one's nice value.
    Autogroup(Autogroup),
    /// Each thread, by its nice value.
    Threads,
}

/// What gives the program more of the CPUs that it shares with others: by the busiest of these for which there is something.
pub(super) fn larger_share(facts: &ProgramFacts) -> Option<Advice> {
    if facts.competitors.is_empty() {
        let own = facts.place.cgroups.iter().rev();
        return own.filter(|group| unit_of(group).is_some()).find_map(raise);
    }
    facts.competitors.iter().filter(|other| other.is_weighed).find_map(|other| {
        let own_group = facts.place.own_group(&other.place);
        let has_weight = |group: &&CpuGroup| group.is_weighed || unit_of(group).is_some();
        own_group.filter(has_weight).and_then(raise).or_else(|| {
            match other.place.weighed_against(&facts.place) {
                Weighed::Cgroup(group) => lower(group, other),
                Weighed::Autogroup(group) => lower_session(group, other),
                Weighed::Threads => give_way(other),
            }
        })
    })
}

/// That the program's own nice value gives it less than others have, in a sentence, and what gives it as much. Of the busiest
/// of those with which its threads share CPUs by nice values.
pub(super) fn held_by_nice(facts: &ProgramFacts) -> Option<(String, Advice)> {
    let gives_way = |own: &NiceFacts| own.value > 0 || own.is_idle_policy;
    let ([pid], Some(own)) = (facts.pids.as_slice(), facts.nice.filter(gives_way)) else {
        return None;
    };
    let by_threads = |one: &SchedulingPlace, other: &SchedulingPlace| {
        matches!(one.weighed_against(other), Weighed::Threads)
    };
    let other = facts.competitors.iter().find(|other| {
        other.is_weighed
            && (own.is_idle_policy || other.nice < own.value)
            && by_threads(&facts.place, &other.place)
            && by_threads(&other.place, &facts.place)
    })?;
    let [weight, others] = [own.value, other.nice].map(weight_of_nice);
    if own.is_idle_policy {
        let found = format!(
            "It runs under the policy SCHED_IDLE: of a CPU that {} wants too it gets {:.1} %.",
            other.name,
            100.0 * IDLE_WEIGHT / (IDLE_WEIGHT + others)
        );
        return Some((found, no_idle_policy(own, *pid)));
    }
    let found = format!(
        "Its nice value is {}, and that of {} {}: of a CPU that the two share it gets {}.",
        own.value,
        other.name,
        other.nice,
        percent(weight / (weight + others))
    );
    Some((found, no_nice(own, *pid)))
}

/// Why nice values do not tell who gets more of a CPU, where they do not; of the busiest of the others.
pub(super) fn beyond_nice(facts: &ProgramFacts) -> Option<String> {
    let other = facts.competitors.first()?;
    let name = &other.name;
    if !other.is_weighed {
        return Some(format!(
            "{name} is scheduled in real time and goes before all others, whatever their nice values and weights."
        ));
    }
    let both =
        [facts.place.weighed_against(&other.place), other.place.weighed_against(&facts.place)];
    let is_cgroup = |one: &Weighed<'_>| matches!(one, Weighed::Cgroup(_));
    let is_autogroup = |one: &Weighed<'_>| matches!(one, Weighed::Autogroup(_));
    if both.iter().any(is_cgroup) {
        return Some(format!(
            "{name} is in another cgroup: between the two the cgroups' weights count, and nice values do not."
        ));
    }
    both.iter().all(is_autogroup).then(|| {
        format!(
            "{name} is of another session: between the two their autogroups count, and nice values do not."
        )
    })
}

/// Gives a cgroup of the program a larger weight; none where it has nearly the largest.
fn raise(group: &CpuGroup) -> Option<Advice> {
    let old = group.weight.unwrap_or(DEFAULT);
    let new = if old < HEAVY { HEAVY } else { (old * 10.0).min(HEAVIEST) };
    let what = match unit_of(group) {
        Some(unit) if unit.name.ends_with(".slice") => format!("all of {}", unit.name),
        Some(_) => "its unit".to_owned(),
        None => format!("its cgroup {}", group.path),
    };
    // A unit's weight is on the scale of version 2, whatever its file has.
    let default = match unit_of(group) {
        Some(_) => format!("{DEFAULT:.0}"),
        None => group.in_file(DEFAULT),
    };
    let does = format!("gives {what} a larger share of the CPUs ({default} is the default)");
    (new > old).then(|| weigh(group, new, does)).flatten()
}

/// Gives a cgroup of another program a smaller weight; none where it has nearly the smallest.
fn lower(group: &CpuGroup, other: &Competitor) -> Option<Advice> {
    let new = [LIGHT, 1.0].into_iter().find(|&new| group.weight.is_none_or(|old| new < old))?;
    let whose = unit_of(group).map_or_else(|| group.path.clone(), |unit| unit.name.to_owned());
    weigh(group, new, format!("lets {whose} give way, with {} in it", other.name))
}

/// Sets a cgroup's weight, by systemd where the group is a unit; none where neither can.
fn weigh(group: &CpuGroup, weight: f64, does: String) -> Option<Advice> {
    if !group.may_be_weighed {
        return None;
    }
    let (set, undo) = if let Some(unit) = unit_of(group) {
        // Nothing behind the sign stands for the default.
        let set = |weight: &str| {
            let manager = if unit.is_users { "systemctl --user" } else { "systemctl" };
            format!("{manager} set-property --runtime {} CPUWeight={weight}", word(unit.name))
        };
        let before = group.weight.map_or(String::new(), |weight| format!("{weight:.0}"));
        (set(&format!("{weight:.0}")), Some(set(&before)))
    } else {
        let file = group.file.to_string_lossy();
        let set = |weight: f64| format!("echo {} > {}", group.in_file(weight), word(&file));
        (set(weight), group.weight.map(set))
    };
    Some(Advice { undo, ..advice(does, set) })
}

/// Lets a session give way; none where it already does as much as it can.
fn lower_session(group: Autogroup, other: &Competitor) -> Option<Advice> {
    let nice = [10, 19].into_iter().find(|&nice| nice > group.nice)?;
    let file = format!("/proc/{}/autogroup", group.pid);
    let set = |nice: i32| write_to(&nice.to_string(), Path::new(&file), group.may_be_set);
    let does = format!("lets the session of {} give way, with all that runs in it", other.name);
    Some(Advice { undo: Some(set(group.nice)), ..advice(does, set(nice)) })
}

/// A unit that a cgroup is.
struct Unit<'a> {
    name: &'a str,
    /// Is it a unit of a user's own manager?
    is_users: bool,
}

/// The unit that a cgroup is; none where it is not one. systemd puts an underscore before names that the kernel would take
/// for its own files.
fn unit_of(group: &CpuGroup) -> Option<Unit<'_>> {
    let (above, name) = group.path.rsplit_once('/')?;
    let is_unit = [".service", ".slice", ".scope"].iter().any(|ending| name.ends_with(ending));
    let is_manager = |one: &str| one.starts_with("user@") && one.ends_with(".service");
    // What is below any other service or scope is that one's own, such as a container.
    let mut inner = above.split('/').skip_while(|one| one.is_empty() || one.ends_with(".slice"));
    let is_users = match inner.next() {
        None => false,
        Some(first) if is_manager(first) && inner.all(|one| one.ends_with(".slice")) => true,
        Some(_) => return None,
    };
    let name = name.strip_prefix('_').unwrap_or(name);
    is_unit.then_some(Unit { name, is_users })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::tests::calm;
    use crate::explain::{ThreadTime, diagnose};

    fn group(path: &str, weight: Option<f64>) -> CpuGroup {
        CpuGroup {
            path: path.to_owned(),
            file: format!("/sys/fs/cgroup{path}/cpu.weight").into(),
            is_weighed: weight.is_some(),
            may_be_weighed: true,
            weight,
        }
    }

    fn place(cgroups: &[(&str, Option<f64>)], autogroup: Option<u64>) -> SchedulingPlace {
        SchedulingPlace {
            cgroups: cgroups.iter().map(|(path, weight)| group(path, *weight)).collect(),
            autogroup: autogroup.map(|number| Autogroup {
                number,
                nice: 0,
                pid: 9,
                may_be_set: true,
            }),
        }
    }

    fn competitor(place: SchedulingPlace) -> Competitor {
        Competitor {
            pid: 9,
            name: "batch".to_owned(),
            cpus_busy: 1.0,
            nice: 0,
            may_be_given_back: true,
            is_weighed: true,
            threads: 1,
            place,
        }
    }

    /// A program that waits for half of the time, beside these others.
    fn waiting(own: SchedulingPlace, others: Vec<Competitor>) -> ProgramFacts {
        let time = ThreadTime { on_cpu_s: 5.0, waiting_s: Some(5.0), ..ThreadTime::default() };
        ProgramFacts { time, place: own, competitors: others, ..calm() }
    }

    /// What is advised and what takes it back, with what was found.
    fn advised(own: SchedulingPlace, other: SchedulingPlace) -> (String, String, String) {
        let cause = diagnose(&waiting(own, vec![competitor(other)])).causes.remove(0);
        let advice = cause.advice.into_iter().next().unwrap();
        (advice.command, advice.undo.unwrap_or_default(), cause.found)
    }

    const SYSTEM: (&str, Option<f64>) = ("/system.slice", Some(100.0));
    const USERS: (&str, Option<f64>) = ("/user.slice", Some(100.0));
    const DB: (&str, Option<f64>) = ("/system.slice/db.service", Some(200.0));
    const WEB: (&str, Option<f64>) = ("/system.slice/web.service", Some(100.0));

    #[test]
    fn within_one_group_nice_values_weigh() {
        let renice = ("renice -n 10 -p 9", "renice -n 0 -p 9");
        let unweighed = |unit| place(&[SYSTEM, (unit, None)], None);
        for (what, own, other) in [
            ("no groups at all", place(&[], None), place(&[], None)),
            ("one session", place(&[], Some(17)), place(&[], Some(17))),
            ("of a session, and of none", place(&[], Some(17)), place(&[], None)),
            (
                "one cgroup, two sessions",
                place(&[SYSTEM, DB], Some(17)),
                place(&[SYSTEM, DB], Some(18)),
            ),
            (
                "two cgroups without weights in one that has a weight, two sessions",
                unweighed("/system.slice/a"),
                SchedulingPlace {
                    autogroup: place(&[], Some(18)).autogroup,
                    ..unweighed("/system.slice/b")
                },
            ),
        ] {
            let (command, undo, found) = advised(own, other);
            assert_eq!((command.as_str(), undo.as_str()), renice, "{what}");
            assert!(!found.contains("nice values do not"), "{what}: {found}");
        }
    }

    /// Anybody may raise the nice value of an own process, and root alone may lower it again.
    #[test]
    fn who_may_not_give_a_nice_value_back_is_told_to_do_it_as_root() {
        let other = Competitor { may_be_given_back: false, ..competitor(place(&[], None)) };
        let advice = larger_share(&waiting(place(&[], None), vec![other])).unwrap();
        assert_eq!(advice.command, "renice -n 10 -p 9");
        assert_eq!(advice.undo.as_deref(), Some("sudo renice -n 0 -p 9"));
    }

    /// 1.25 to the power of -15 is 0.035, of which the other has 1.
    #[test]
    fn a_program_with_a_nice_value_of_its_own_is_told_what_that_costs() {
        let nice = |value, may_be_0| {
            Some(NiceFacts { value, may_be_0, threads: 1, is_idle_policy: false })
        };
        let niced = |own, place| ProgramFacts {
            nice: own,
            ..waiting(place, vec![competitor(self::place(&[], Some(17)))])
        };
        let cause = |facts: &ProgramFacts| diagnose(facts).causes.remove(0);
        let found = cause(&niced(nice(15, true), place(&[], Some(17))));
        let said =
            "Its nice value is 15, and that of batch 0: of a CPU that the two share it gets 3 %.";
        assert!(found.found.ends_with(said), "{}", found.found);
        let [advice] = found.advice.as_slice() else { panic!("{found:?}") };
        assert_eq!(advice.command, "renice -n 0 -p 7");
        assert_eq!(advice.undo.as_deref(), Some("renice -n 15 -p 7"));
        let found = cause(&niced(nice(15, false), place(&[], Some(17))));
        assert_eq!(found.advice[0].command, "sudo renice -n 0 -p 7");
        // Where nice values do not weigh, or it has none, the other gives way.
        for (own, place) in [(15, place(&[], Some(18))), (0, place(&[], Some(17)))] {
            let found = cause(&niced(nice(own, true), place));
            assert!(!found.found.contains("Its nice value"), "{}", found.found);
        }
    }

    /// It weighs 3 beside 1024.
    #[test]
    fn a_program_that_gets_what_others_leave_is_told_so() {
        let idle = |may_be_0, place| ProgramFacts {
            nice: Some(NiceFacts { value: 0, may_be_0, threads: 2, is_idle_policy: true }),
            ..waiting(place, vec![competitor(self::place(&[], Some(17)))])
        };
        let cause = |facts: &ProgramFacts| diagnose(facts).causes.remove(0);
        let found = cause(&idle(true, place(&[], Some(17))));
        let said =
            "It runs under the policy SCHED_IDLE: of a CPU that batch wants too it gets 0.3 %.";
        assert!(found.found.ends_with(said), "{}", found.found);
        let [advice] = found.advice.as_slice() else { panic!("{found:?}") };
        assert_eq!(advice.command, "chrt --all-tasks --other --pid 0 7");
        assert_eq!(advice.undo.as_deref(), Some("chrt --all-tasks --idle --pid 0 7"));
        let found = cause(&idle(false, place(&[], Some(17))));
        assert_eq!(found.advice[0].command, "sudo chrt --all-tasks --other --pid 0 7");
        // Between sessions the policy of a thread does not weigh.
        let found = cause(&idle(true, place(&[], Some(18))));
        assert!(!found.found.contains("SCHED_IDLE"), "{}", found.found);
    }

    #[test]
    fn between_sessions_their_autogroups_weigh() {
        let (command, undo, found) = advised(place(&[], Some(17)), place(&[], Some(18)));
        let expected = ["echo 10 > /proc/9/autogroup", "echo 0 > /proc/9/autogroup"];
        assert_eq!([command, undo], expected);
        let why = " batch is of another session: between the two their autogroups count, and nice values do not.";
        assert!(found.ends_with(why), "{found}");
        let given_way = |nice| SchedulingPlace {
            autogroup: Some(Autogroup { number: 18, nice, pid: 5, may_be_set: true }),
            ..SchedulingPlace::default()
        };
        let (command, undo, _) = advised(place(&[], Some(17)), given_way(10));
        // By the leader of the session, which is there longer than a program that is busy for a moment.
        let expected = ["echo 19 > /proc/5/autogroup", "echo 10 > /proc/5/autogroup"];
        assert_eq!([command, undo], expected);
        assert_eq!(advised(place(&[], Some(17)), given_way(19)).0, "corun top");
        // The program's own threads count one by one where it is of no session's autogroup.
        assert_eq!(advised(place(&[], None), given_way(0)).0, "echo 10 > /proc/5/autogroup");
    }

    #[test]
    fn between_cgroups_with_weights_these_weigh() {
        let web = || place(&[SYSTEM, WEB], Some(18));
        let unit = |unit: &str, weight| {
            format!("systemctl set-property --runtime {unit} CPUWeight={weight}")
        };
        let (command, undo, found) = advised(place(&[SYSTEM, DB], Some(17)), web());
        assert_eq!([command, undo], [unit("db.service", "1000"), unit("db.service", "200")]);
        assert!(found.ends_with("the cgroups' weights count, and nice values do not."), "{found}");
        // Not that of the unit, but of the slice that it has for itself.
        let session = ("/user.slice/user-7.slice/session-3.scope", Some(100.0));
        let user = || place(&[USERS, ("/user.slice/user-7.slice", Some(100.0)), session], Some(19));
        let (command, undo, _) = advised(place(&[SYSTEM, DB], None), user());
        assert_eq!([command, undo], [unit("system.slice", "1000"), unit("system.slice", "100")]);
        // A program in the root has no weight that could be raised.
        let (command, undo, _) = advised(place(&[], Some(17)), user());
        assert_eq!([command, undo], [unit("user.slice", "10"), unit("user.slice", "100")]);
        let (command, undo, _) = advised(place(&[("/a b", Some(100.0))], None), web());
        let file = "'/sys/fs/cgroup/a b/cpu.weight'";
        assert_eq!([command, undo], [format!("echo 1000 > {file}"), format!("echo 100 > {file}")]);
    }

    /// systemd passes the controller on to a unit that is given a weight, and to those beside it.
    #[test]
    fn a_unit_without_a_weight_gets_one_where_it_may() {
        let unweighed = |unit| place(&[SYSTEM, (unit, None)], None);
        let (a, b) = (unweighed("/system.slice/a.service"), unweighed("/system.slice/b.service"));
        let (command, undo, _) = advised(a.clone(), b.clone());
        let unit = "systemctl set-property --runtime a.service CPUWeight=";
        assert_eq!([command, undo], [format!("{unit}1000"), unit.to_owned()]);
        let without_controller = |mut place: SchedulingPlace| {
            place.cgroups[1].may_be_weighed = false;
            place
        };
        assert_eq!(advised(without_controller(a), without_controller(b)).0, "renice -n 10 -p 9");
    }

    #[test]
    fn who_has_no_way_to_give_way_is_passed_over() {
        let of = |own: SchedulingPlace, others| {
            let cause = diagnose(&waiting(own, others)).causes.remove(0);
            cause.advice.into_iter().next().unwrap().command
        };
        let first = Competitor { is_weighed: false, ..competitor(place(&[], None)) };
        let second = Competitor { pid: 10, ..competitor(place(&[], None)) };
        let own = || place(&[], None);
        assert_eq!(of(own(), vec![first.clone(), second]), "renice -n 10 -p 10");
        assert_eq!(of(own(), vec![first.clone()]), "corun top");
        let in_a_unit = place(&[DB], None);
        let cause = diagnose(&waiting(in_a_unit, vec![first])).causes.remove(0);
        assert_eq!(cause.advice[0].command, "corun top");
        assert!(cause.found.contains("batch is scheduled in real time"), "{}", cause.found);
        let light = [("/x", Some(1.0))];
        assert_eq!(of(own(), vec![competitor(place(&light, None))]), "corun top");
        let heavy = |weight| [("/system.slice/db.service", Some(weight))];
        let beside = || vec![competitor(place(&[WEB], None))];
        assert!(of(place(&heavy(2000.0), None), beside()).ends_with("CPUWeight=10000"));
        // Its own weight is the largest: the other's is made smaller.
        assert!(of(place(&heavy(10_000.0), None), beside()).ends_with("web.service CPUWeight=10"));
    }

    #[test]
    fn a_unit_of_a_user_is_its_user_s_manager_s() {
        for (path, expected) in [
            ("/system.slice/_a.service", Some(("a.service", false))),
            ("/user.slice/user-7.slice/session-3.scope", Some(("session-3.scope", false))),
            ("/user.slice/user-7.slice/user@7.service", Some(("user@7.service", false))),
            (
                "/user.slice/user-7.slice/user@7.service/app.slice/b.service",
                Some(("b.service", true)),
            ),
            ("/system.slice/docker-1.scope/init.scope", None),
            ("/batch", None),
            ("/", None),
        ] {
            let group = group(path, None);
            let found = unit_of(&group).map(|unit| (unit.name, unit.is_users));
            assert_eq!(found, expected, "{path}");
        }
    }
}
