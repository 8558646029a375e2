//! From facts to causes: what share of its time a program loses to what, how sure that is, and what would help.

use corun_machine::CpuSet;

use super::advice::{advice, profiles_option, record, record_neighbour, run_on, word};
use super::diagnosis::{
    Advice, Cause, CauseKind, Diagnosis, FarPartner, LostShare, Unknown, UnknownKind,
};
use super::facts::{MemoryFacts, ProgramFacts};
use super::partners::{far_partner, unknown_wakers};
use super::shares::{beyond_nice, held_by_nice, larger_share};
use super::stalls::{short_memory, slow_disk};
use super::standstill::{frozen, stopped, traced};

/// A cause that takes less than this share of the time is not named.
pub(super) const LEAST_SHARE: f64 = 0.05;
/// A program that is active for less than this share of the time of one CPU is asleep: of so little time, shares say
/// nothing.
const LEAST_ACTIVE: f64 = 0.01;
/// From this share of the time on, sleeping is what a program mostly does.
const MOSTLY: f64 = 0.5;
/// LLC misses per 1000 instructions from which on a cache is worth a question, where only counters tell.
const MANY_LLC_MPKI: f64 = 3.0;
/// A slowdown by a single neighbour from which on it is named.
const LEAST_NEIGHBOUR: f64 = 1.01;

/// Why the program is slow, as far as the facts tell.
pub fn diagnose(facts: &ProgramFacts) -> Diagnosis {
    let split = TimeSplit::of(facts);
    let finders = [
        waiting_for_cpu,
        throttled,
        stolen,
        short_memory,
        slow_disk,
        stopped,
        traced,
        frozen,
        slow_core,
        cache_by_nature,
        cache_by_neighbour,
        far_memory,
    ];
    let mut causes: Vec<Cause> = finders.iter().filter_map(|find| find(facts, &split)).collect();
    let is_active = split.active_s >= LEAST_ACTIVE * facts.interval_s;
    causes.retain(|cause| is_active && cause.lost.share() >= LEAST_SHARE);
    causes.sort_by(|one, other| other.lost.weight().total_cmp(&one.lost.weight()));
    let unknown = unknown(facts, &split);
    let far_partner = far_partner(facts);
    let verdict = verdict(facts, &split, &causes, far_partner.as_ref(), &unknown);
    Diagnosis { verdict, causes, far_partner, unknown }
}

/// The program's active time, in seconds of all its threads together.
pub(super) struct TimeSplit {
    pub(super) active_s: f64,
    on_cpu_s: f64,
    waiting_s: f64,
    throttled_s: f64,
    pub(super) blocked_s: f64,
    asleep_share: f64,
}

impl TimeSplit {
    /// A thread that its quota holds back counts as waiting in some kernels and in others not. What it waited beyond
    /// the time for which the quota held the group back is waiting for a CPU.
    fn of(facts: &ProgramFacts) -> Self {
        let time = &facts.time;
        let held_s = time.stopped_s + time.traced_s + time.frozen_s;
        let room_s =
            facts.threads as f64 * facts.interval_s - time.on_cpu_s - time.blocked_s - held_s;
        let throttled_s = facts.quota.as_ref().map_or(0.0, |quota| quota.throttled_s);
        let throttled_s = throttled_s.min(room_s.max(0.0));
        let waiting_s = (time.waiting_s.unwrap_or(0.0) - throttled_s).max(0.0);
        let active_s = time.on_cpu_s + waiting_s + throttled_s + time.blocked_s + held_s;
        let all_s = (active_s + time.asleep_s).max(1e-9);
        Self {
            active_s,
            on_cpu_s: time.on_cpu_s,
            waiting_s,
            throttled_s,
            blocked_s: time.blocked_s,
            asleep_share: (time.asleep_s / all_s).clamp(0.0, 1.0),
        }
    }

    pub(super) fn share(&self, seconds: f64) -> f64 {
        if self.active_s > 0.0 { seconds / self.active_s } else { 0.0 }
    }

    /// What a slowdown of the time on CPUs takes of the active time.
    fn lost_to(&self, slowdown: f64) -> f64 {
        self.share(self.on_cpu_s) * (1.0 - 1.0 / slowdown.max(1.0))
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn waiting_for_cpu(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let share = split.share(split.waiting_s);
    let others: Vec<String> = facts
        .competitors
        .iter()
        .take(3)
        .map(|one| format!("{} ({}, {} of a CPU)", one.name, one.pid, percent(one.cpus_busy)))
        .collect();
    let mut found = format!(
        "Runnable and without a CPU for {:.2} s, beside {:.2} s on {}.",
        split.waiting_s,
        split.on_cpu_s,
        facts.may_run_on.in_words(),
    );
    if !others.is_empty() {
        found.push_str(&format!(" On its CPUs run {}.", others.join(", ")));
    }
    if let Some(why) = beyond_nice(facts) {
        found.push_str(&format!(" {why}"));
    }
    if !facts.barred_cpus.is_empty() {
        let barred = facts.barred_cpus.in_words();
        found.push_str(&format!(
            " It may not run on {barred}, though nothing but its affinity forbids it."
        ));
    }
    let held = held_by_nice(facts);
    if let Some((why, _)) = &held {
        found.push_str(&format!(" {why}"));
    }
    let is_sampled = facts.time.waiting_is_sampled;
    Some(Cause {
        kind: CauseKind::WaitingForCpu,
        lost: if is_sampled { LostShare::Estimated(share) } else { LostShare::Measured(share) },
        found,
        advice: more_cpu(facts, held.map(|(_, advice)| advice)),
    })
}

/// What has it wait less, the surest first: idle CPUs, the nice value that it was given, CPUs where it has to share again.
/// `own`: what gives it as much as others by its nice value.
fn more_cpu(facts: &ProgramFacts, own: Option<Advice>) -> Vec<Advice> {
    let wider = |cpus: &CpuSet, does: String| run_on(&facts.may_run_on.union(cpus), does, facts);
    let (idle, barred) = (&facts.idle_cpus, &facts.barred_cpus);
    let mut helps = Vec::new();
    if !idle.is_empty() {
        let are = if idle.len() == 1 { "is" } else { "are" };
        let words = idle.in_words();
        helps.push(wider(idle, format!("lets it run on {words} too, which {are} idle")));
    }
    let is_held = own.is_some();
    helps.extend(own);
    if idle.is_empty() && !barred.is_empty() {
        let words = barred.in_words();
        helps.push(wider(
            barred,
            format!("lets it run on {words} too, which others keep busy as well"),
        ));
    }
    if !is_held {
        let shows = || advice("shows who uses the CPUs", "corun top");
        helps.push(larger_share(facts).unwrap_or_else(shows));
    }
    helps
}

fn throttled(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let quota = facts.quota.as_ref()?;
    let share = split.share(split.throttled_s);
    let found = format!(
        "The quota of {} allows {:.2} CPUs, and held the group back in {} of its periods, for {:.2} s.",
        quota.group,
        quota.cpus,
        percent(quota.throttled_periods_share),
        quota.throttled_s
    );
    let set = |times: f64| match quota.group.rsplit('/').next() {
        Some(unit) if is_unit(unit) => {
            let percent = (quota.cpus * 100.0 * times).ceil();
            format!("systemctl set-property --runtime {} CPUQuota={percent:.0}%", word(unit))
        }
        _ => {
            let quota_us = (quota.cpus * quota.period_us * times).ceil();
            let file = quota.file.to_string_lossy();
            let file = word(&file);
            // Version 2 of cgroups has quota and period in one file.
            if quota.file.ends_with("cpu.max") {
                format!("echo '{quota_us:.0} {:.0}' > {file}", quota.period_us)
            } else {
                format!("echo {quota_us:.0} > {file}")
            }
        }
    };
    let raise = advice("doubles the quota; of a pod it is the CPU limit", set(2.0));
    Some(Cause {
        kind: CauseKind::ThrottledByQuota,
        lost: LostShare::Measured(share),
        found,
        advice: vec![Advice { undo: Some(set(1.0)), ..raise }],
    })
}

/// Is a cgroup of this name a unit of systemd's?
pub(super) fn is_unit(name: &str) -> bool {
    [".service", ".slice", ".scope"].iter().any(|ending| name.ends_with(ending))
}

fn stolen(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    // Stolen time counts as time on a CPU.
    let share = split.share(split.on_cpu_s) * facts.stolen_share;
    Some(Cause {
        kind: CauseKind::StolenByHost,
        lost: LostShare::Estimated(share),
        found: format!(
            "The host of this virtual machine gave {} of the time of its CPUs to others.",
            percent(facts.stolen_share)
        ),
        advice: vec![advice(
            "shows the share over time (column st); only the host can change it",
            "vmstat 1",
        )],
    })
}

fn slow_core(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let cores = facts.cores.as_ref()?;
    let allowed = facts.may_run_on.iter().any(|cpu| cores.fast_cpus.contains(cpu));
    let mut found = format!(
        "{} of its CPU time was on slower cores: {} of the speed of the fastest ({}).",
        percent(cores.slow_share),
        percent(cores.speed),
        cores.fast_cpus.in_words()
    );
    if !allowed {
        found.push_str(" It may not run there.");
    }
    Some(Cause {
        kind: CauseKind::SlowCore,
        lost: LostShare::Estimated(split.lost_to(1.0 / cores.speed.max(0.01))),
        found,
        advice: vec![run_on(&cores.fast_cpus, "keeps it on the fastest cores".to_owned(), facts)],
    })
}

fn cache_by_nature(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let cache = &facts.cache;
    let (profile, share) = (cache.profile.as_ref()?, cache.solo_memory_cycles_share?);
    let mut found = format!(
        "Alone on this machine {profile} waits for memory in {} of its cycles",
        percent(share)
    );
    if let Some(mpki) = cache.solo_llc_mpki {
        found.push_str(&format!(" ({mpki:.1} LLC misses per 1000 instructions)"));
    }
    found.push_str(": its data does not fit in the cache, whoever runs beside it.");
    Some(Cause {
        kind: CauseKind::CacheByItsNature,
        lost: LostShare::Predicted(split.share(split.on_cpu_s) * share),
        found,
        advice: vec![advice(
            "shows how much cache it would need",
            format!(
                "corun profiles show {} --machine this{}",
                word(profile),
                profiles_option(facts)
            ),
        )],
    })
}

fn cache_by_neighbour(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let cache = &facts.cache;
    let factors = cache.predicted?;
    let slowdown = factors.cache * factors.hardware_threads * factors.memory;
    let parts = [
        ("less of the cache", factors.cache),
        ("a busy core", factors.hardware_threads),
        ("memory traffic", factors.memory),
    ];
    let parts = parts.iter().filter(|(_, factor)| *factor >= LEAST_NEIGHBOUR);
    let parts: Vec<String> = parts.map(|(what, factor)| format!("{what} {factor:.2}")).collect();
    let mut found = format!(
        "Its neighbours make it {slowdown:.2} times as slow as alone: {}.",
        parts.join(", ")
    );
    let worst = cache.neighbours.iter().filter(|one| one.factor >= LEAST_NEIGHBOUR);
    let worst: Vec<String> = worst
        .take(3)
        .map(|one| format!("{} ({}, CPU {}) by {:.2}", one.profile, one.pid, one.cpu, one.factor))
        .collect();
    if !worst.is_empty() {
        found.push_str(&format!(" It is slowed by {}.", worst.join(", ")));
    }
    if let (Some(now), Some(alone)) = (cache.llc_mpki, cache.solo_llc_mpki)
        && !cache.is_modelled
    {
        found.push_str(&format!(
            " Counted: {now:.1} LLC misses per 1000 instructions; {alone:.1} alone by its profile."
        ));
    }
    let mut helps = Vec::new();
    if let Some((cpu, slowdown)) = cache.better_cpu {
        let does = format!("moves it to CPU {cpu}, where a slowdown of {slowdown:.2} is predicted");
        helps.push(run_on(&CpuSet::from_iter([cpu]), does, facts));
    }
    let pid = facts.pids.first().copied().unwrap_or(0);
    // The policy goes by counters: where nothing counts, the model computes them from the profiles.
    let counters = if cache.ipc.is_none() || cache.is_modelled { " --counters model" } else { "" };
    helps.push(advice(
        "shows what a policy would do about it, and changes nothing",
        format!(
            "corun top --policy corun{counters}{} -p {}",
            profiles_option(facts),
            with_neighbours(pid, facts)
        ),
    ));
    Some(Cause {
        kind: CauseKind::CacheBecauseOfNeighbour,
        lost: LostShare::Predicted(split.lost_to(slowdown)),
        found,
        advice: helps,
    })
}

fn with_neighbours(pid: u32, facts: &ProgramFacts) -> String {
    let others = facts.cache.neighbours.iter().map(|one| one.pid);
    let mut pids: Vec<u32> = std::iter::once(pid).chain(others).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// What far memory costs is bounded by a program that waits for memory all the time.
fn far_memory(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let memory = facts.memory.as_ref()?;
    let waits = facts.cache.solo_memory_cycles_share;
    let longer = memory.far_share * (memory.latency_ratio - 1.0).max(0.0);
    let on_cpu = split.share(split.on_cpu_s);
    let lost = match waits {
        Some(waits) => LostShare::Predicted(on_cpu * (1.0 - 1.0 / (1.0 + waits * longer))),
        None => LostShare::AtMost(on_cpu * (1.0 - 1.0 / (1.0 + longer))),
    };
    let is_whole = memory.home_node != memory.ran_on_node && memory.home_share >= 0.8;
    let found = format!(
        "It ran on node {}, and {} of its memory was on other nodes, {} of all on node {}; that memory takes {:.1} \
         times as long.",
        memory.ran_on_node,
        percent(memory.far_share),
        percent(memory.home_share),
        memory.home_node,
        memory.latency_ratio
    );
    let kind = if is_whole { CauseKind::FarNode } else { CauseKind::PagesElsewhere };
    Some(Cause { kind, lost, found, advice: memory_advice(facts, memory, is_whole) })
}

fn memory_advice(facts: &ProgramFacts, memory: &MemoryFacts, is_whole: bool) -> Vec<Advice> {
    let does = format!("runs it on node {}, where most of its memory is", memory.home_node);
    let move_threads = run_on(&memory.home_cpus, does, facts);
    let pid = facts.pids.first().copied().unwrap_or(0);
    let move_pages = advice(
        format!("brings its memory to node {}", memory.ran_on_node),
        format!("migratepages {pid} all {}", memory.ran_on_node),
    );
    if is_whole && memory.may_run_at_home {
        vec![move_threads, move_pages]
    } else {
        vec![move_pages]
    }
}

fn unknown(facts: &ProgramFacts, split: &TimeSplit) -> Vec<Unknown> {
    let mut found = Vec::new();
    let pid = facts.pids.first().copied().unwrap_or(0);
    if facts.time.waiting_s.is_none() {
        found.push(Unknown {
            kind: UnknownKind::WaitingForCpu,
            why: "this kernel does not count how long threads wait for a CPU (it was built without CONFIG_SCHED_INFO)"
                .to_owned(),
            advice: vec![advice("shows how many threads are runnable (column r)", "vmstat 1")],
        });
    }
    let cache = &facts.cache;
    let runs = split.on_cpu_s >= LEAST_ACTIVE * facts.interval_s;
    if runs && cache.profile.is_none() && cache.llc_mpki.is_none() {
        found.push(Unknown {
            kind: UnknownKind::Cache,
            why: "nothing counts cache misses here, and the program has no stored profile"
                .to_owned(),
            advice: record(facts)
                .into_iter()
                .chain([advice("says what this machine can count, and why not", "corun doctor")])
                .collect(),
        });
    } else if runs && cache.profile.is_none() && cache.llc_mpki.unwrap_or(0.0) >= MANY_LLC_MPKI {
        found.push(Unknown {
            kind: UnknownKind::CacheOrNeighbour,
            why: format!(
                "it has {:.1} LLC misses per 1000 instructions; whether it would alone too, only a profile tells",
                cache.llc_mpki.unwrap_or(0.0)
            ),
            advice: record(facts),
        });
    } else if runs && let Some(first) = cache.unknown_neighbours.first() {
        found.push(Unknown {
            kind: UnknownKind::CacheOrNeighbour,
            why: format!(
                "under its caches run programs without a stored profile: {}",
                cache.unknown_neighbours.join(", ")
            ),
            advice: record_neighbour(first, facts),
        });
    }
    if let Some(why) = &facts.memory_unseen {
        found.push(Unknown {
            kind: UnknownKind::Memory,
            why: format!("on which nodes its memory is cannot be read: {why}"),
            advice: vec![advice("as root it can", format!("sudo corun explain {pid}"))],
        });
    }
    found.extend(unknown_wakers(facts));
    if split.asleep_share >= MOSTLY {
        found.push(Unknown {
            kind: UnknownKind::Sleep,
            why: format!(
                "its threads slept by their own wish for {} of the time, for input, the network, a lock, a timer or \
                 another process",
                percent(split.asleep_share)
            ),
            advice: vec![advice("shows in which calls it waits", format!("strace -f -c -p {pid}"))],
        });
    }
    found
}

fn verdict(
    facts: &ProgramFacts,
    split: &TimeSplit,
    causes: &[Cause],
    far_partner: Option<&FarPartner>,
    unknown: &[Unknown],
) -> String {
    let name = &facts.program;
    if let Some(first) = causes.first() {
        let share = match first.lost {
            LostShare::Measured(share) => {
                format!("{} of its active time, measured", percent(share))
            }
            LostShare::Estimated(share) => {
                format!("{} of its active time, estimated from samples", percent(share))
            }
            LostShare::Predicted(share) => {
                format!("{} of its active time, predicted from profiles", percent(share))
            }
            LostShare::AtMost(share) => format!("at most {} of its active time", percent(share)),
        };
        let asleep = if split.asleep_share >= MOSTLY {
            format!("; it slept for {} of the time", percent(split.asleep_share))
        } else {
            String::new()
        };
        return format!("{name} {}: {share}{asleep}.", first.kind.words());
    }
    if let Some(partner) = far_partner {
        return format!(
            "{name} and {} ({}) wake each other {:.0} times a second from one LLC to another; what that costs is not known.",
            partner.name, partner.pid, partner.wakeups_per_s
        );
    }
    match unknown.first() {
        None => format!("Nothing here slows {name} down by {} or more.", percent(LEAST_SHARE)),
        Some(first) if first.kind == UnknownKind::Sleep => format!(
            "Cannot tell why {name} is slow: it slept by its own wish for {} of the time.",
            percent(split.asleep_share)
        ),
        Some(_) => format!(
            "Cannot tell why {name} is slow: no cause was found, and not all could be looked at."
        ),
    }
}
