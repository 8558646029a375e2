//! What a program loses while memory is short or a disk is slow.

use super::advice::{advice, word};
use super::causes::{LEAST_SHARE, TimeSplit, is_unit, percent};
use super::diagnosis::{Advice, Cause, CauseKind, LostShare};
use super::facts::{MemoryLimitFacts, PressureFacts, ProgramFacts};

/// Page faults a second that are read from a disk or from swap from which on a program has too little memory, or maps
/// files that it has not read before.
const MANY_MAJOR_FAULTS_PER_S: f64 = 20.0;
/// Pressure on memory, as a share of the time, from which on a blocked program waits for memory.
const MEMORY_IS_SHORT: f64 = 0.05;
/// Pressure on memory below which pages come for the first time: of those that come back the kernel counts the time as
/// pressure.
const NO_PRESSURE: f64 = 0.01;

/// Time in which the program is blocked, or in the kernel on its CPU, since memory is short.
pub(super) fn short_memory(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    let is_faulting = is_faulting(facts);
    let blocked_s = if is_blocked_by_memory(facts) { split.blocked_s } else { 0.0 };
    let stalled_s = blocked_s.max(stalled_s(facts, split));
    let share = split.share(stalled_s);
    // Pages that come from compressed memory are never waited for: the time is the kernel's on the program's CPU.
    let lost = if share < LEAST_SHARE && is_faulting {
        LostShare::AtMost(split.share(blocked_s + facts.time.in_kernel_s))
    } else {
        LostShare::Estimated(share)
    };
    let mut found = format!(
        "Blocked for {:.2} s, by samples, and in the kernel for {:.2} s, with {:.0} page faults a second that are read \
         from a disk or from swap",
        split.blocked_s, facts.time.in_kernel_s, facts.major_faults_per_s
    );
    if let Some(bytes) = facts.swapped_bytes.filter(|&bytes| bytes > 0) {
        found.push_str(&format!("; {} of it are in swap", mib(bytes)));
    }
    found.push('.');
    if let Some(pressure) = &facts.memory_pressure {
        found.push_str(&lost_of(pressure, "a shortage of memory"));
    }
    let limit = facts.memory_limit.as_ref();
    if let Some(limit) = limit {
        found.push_str(&reached(limit));
    }
    let shows_limits = facts.unit.as_ref().map(|unit| {
        advice(
            "shows the unit's limits of memory, and what it has",
            format!("systemctl show {} -p MemoryHigh,MemoryMax,MemoryCurrent", word(unit)),
        )
    });
    let shows_users = advice(
        "shows who has the memory, the largest first",
        "ps -eo pid,rss,comm --sort=-rss | head",
    );
    let raised = limit.and_then(raise);
    // Where a limit is short and not the machine, nobody else has what is missing.
    let users = raised.is_none().then_some(shows_users);
    let helps = raised.into_iter().chain(shows_limits).chain(users).collect();
    Some(Cause { kind: CauseKind::WaitingForMemory, lost, found, advice: helps })
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / 1048576.0)
}

/// What a limit did, in a sentence.
fn reached(limit: &MemoryLimitFacts) -> String {
    let left = limit
        .available_bytes
        .map_or(String::new(), |left| format!(", while the machine has {} left", mib(left)));
    format!(
        " {} may have {}, and wanted more {} times meanwhile{left}.",
        limit.group,
        mib(limit.bytes),
        limit.times_reached
    )
}

/// Doubles a limit of memory; none where the machine has not as much left.
fn raise(limit: &MemoryLimitFacts) -> Option<Advice> {
    limit.available_bytes.filter(|&left| left >= limit.bytes)?;
    let set = |bytes: u64| match limit.group.rsplit('/').next() {
        Some(unit) if is_unit(unit) => {
            let property =
                if limit.file.ends_with("memory.high") { "MemoryHigh" } else { "MemoryMax" };
            format!("systemctl set-property --runtime {} {property}={bytes}", word(unit))
        }
        _ => format!("echo {bytes} > {}", word(&limit.file.to_string_lossy())),
    };
    let double = advice(
        "doubles the limit of memory; of a pod it is the memory limit",
        set(limit.bytes.saturating_mul(2)),
    );
    Some(Advice { undo: Some(set(limit.bytes)), ..double })
}

/// Time in which the program is blocked for other reasons.
pub(super) fn slow_disk(facts: &ProgramFacts, split: &TimeSplit) -> Option<Cause> {
    if is_blocked_by_memory(facts) {
        return None;
    }
    let mut found = format!("Blocked for {:.2} s, by samples.", split.blocked_s);
    if let Some(pressure) = &facts.io_pressure {
        found.push_str(&lost_of(pressure, "disks"));
    }
    let pid = facts.pids.first().copied().unwrap_or(0);
    Some(Cause {
        kind: CauseKind::WaitingForDisk,
        lost: LostShare::Estimated(split.share(split.blocked_s)),
        found,
        advice: vec![
            advice("shows what it reads and writes each second", format!("pidstat -d -p {pid} 1")),
            advice("shows how busy each disk is", "iostat -x 1"),
        ],
    })
}

/// Do pages of the program come back that it had before?
fn is_faulting(facts: &ProgramFacts) -> bool {
    let is_short = |one: &PressureFacts| one.some_share >= NO_PRESSURE;
    facts.major_faults_per_s >= MANY_MAJOR_FAULTS_PER_S
        && (facts.memory_pressure.as_ref().is_none_or(is_short)
            || facts.swapped_bytes.is_some_and(|bytes| bytes > 0))
}

fn is_blocked_by_memory(facts: &ProgramFacts) -> bool {
    let some = |one: &Option<PressureFacts>| one.as_ref().map_or(0.0, |one| one.some_share);
    let memory = some(&facts.memory_pressure);
    is_faulting(facts) || (memory >= MEMORY_IS_SHORT && memory >= some(&facts.io_pressure))
}

/// Seconds in which the program's threads waited for memory, as far as the pressure is the program's: that of all
/// threads that were not idle always is, that of some only in a group of its own, or where its pages come back.
fn stalled_s(facts: &ProgramFacts, split: &TimeSplit) -> f64 {
    let Some(pressure) = &facts.memory_pressure else { return 0.0 };
    let is_own = pressure.is_of_program_alone || is_faulting(facts);
    let of_some = if is_own { pressure.some_share * facts.interval_s } else { 0.0 };
    let of_all =
        if pressure.group.is_some() || is_own { pressure.full_share * split.active_s } else { 0.0 };
    of_some.max(of_all).min(split.active_s)
}

fn lost_of(pressure: &PressureFacts, what: &str) -> String {
    let whose = pressure.group.as_deref().unwrap_or("The machine");
    format!(" {whose} lost {} of the time to {what}.", percent(pressure.some_share))
}
