//! The validation for the terminal.

use corun_report::{Columns, counted, fixed, signed};
use corun_validate::{
    Agreement, Alone, CoreUse, Estimate, MemberOf, NeighbourFindings, SeenAgreements, Validation,
    Without,
};

/// Cases of each kind that are shown as the worst.
const WORST: usize = 5;

/// Cycles an instruction that are worth a word.
const LEAST_SHOWN_CPI: f64 = 0.005;

/// Programs that took so many times as long as on a core of their own are worth a line.
const WORTH_SAYING: f64 = 1.02;

/// For people: how near predictions are, and the cases one by one.
pub fn text(found: &Validation) -> String {
    let mut lines = vec![format!(
        "Predicted against measured on {}: {}, {}",
        found.machine,
        counted(found.alone.len(), "program"),
        rounds(found),
    )];
    lines.push(String::new());
    lines.extend(summary(found).into_iter().map(|line| format!("  {line}")));
    lines.push(String::new());
    lines.push("Alone, from too fast to too slow:".to_owned());
    lines.extend(indented(&alone_table(found)));
    if !found.groups.is_empty() {
        lines.push(String::new());
        lines.push(format!(
            "Together ({}; ! where the slowdown is at least three times its interval's half width):",
            counted(found.groups.len(), "group")
        ));
        lines.extend(indented(&group_table(found)));
    }
    if !found.agreement.without.is_empty() {
        lines.push(String::new());
        lines.push("Times alone if the model left out the cycles of one cause:".to_owned());
        lines.extend(indented(&without_table(&found.agreement.without)));
    }
    lines.push(String::new());
    lines.push("Worst alone, and what the model takes their cycles for:".to_owned());
    lines.extend(worst(&found.alone).into_iter().map(|one| format!("  {}", stack_line(one))));
    for one in &found.left_out {
        lines.push(format!("left out: {}: {}", one.name, one.why));
    }
    lines.join("\n") + "\n"
}

/// How often was measured.
pub(crate) fn rounds(found: &Validation) -> String {
    let further = found.groups.iter().map(|group| group.further_rounds);
    let (groups, most) = (further.clone().filter(|&rounds| rounds > 0).count(), further.max());
    let first = counted(found.rounds, "round");
    match most {
        Some(most) if most > 0 => format!(
            "{first}, and up to {most} further ones for {} that could become clear",
            counted(groups, "group")
        ),
        _ => first,
    }
}

/// What comes out, in a line each.
pub(crate) fn summary(found: &Validation) -> Vec<String> {
    let mut lines = vec![
        format!("time alone        {}", agreement_words(&found.agreement.alone)),
        format!("core to itself    {}", agreement_words(&found.agreement.free_core)),
        format!(
            "CPI alone         rank correlation {}",
            correlation(found.agreement.cpi.rank_correlation)
        ),
    ];
    if !found.groups.is_empty() {
        lines.push(format!("slowdowns         {}", agreement_words(&found.agreement.slowdowns)));
        lines.push(format!(
            "clear slowdowns   {}",
            agreement_words(&found.agreement.clear_slowdowns)
        ));
    }
    let percent = |share: f64| fixed(100.0 * share, 1);
    lines.push(format!(
        "meanwhile         other processes used {} % of these CPUs, the host of a virtual machine took {} %",
        percent(found.load.others_share),
        percent(found.load.stolen_share),
    ));
    lines.extend(core_lines(&found.core));
    if found.cache.runs > 0 {
        lines.push(format!(
            "cache             {} of {} runs together on CPUs that did not share one then (a cache line between them \
             takes at least {} ns)",
            found.cache.apart_runs,
            found.cache.runs,
            fixed(found.cache.line_transfer_ns, 0),
        ));
    }
    lines.extend(found.clock.iter().map(|clock| {
        format!(
            "clock             {} MHz by {}; {} when calibrated",
            fixed(clock.seen.mhz, 0),
            counted(clock.seen.looks, "look"),
            fixed(clock.calibrated_mhz, 0),
        )
    }));
    lines.extend(found.neighbours.iter().map(neighbour_line));
    lines.extend(found.as_seen.iter().flat_map(seen_lines));
    lines
}

/// What programs had of their core, and what that is worth where it matters.
fn core_lines(core: &CoreUse) -> Vec<String> {
    let mut lines = vec![format!(
        "core              {} of {} runs alone beside a busy hardware thread; free, it does {} additions a cycle",
        core.shared_runs,
        core.runs,
        fixed(core.additions_per_cycle, 1),
    )];
    let worth_saying = core.times_as_long.filter(|&times| times >= WORTH_SAYING);
    lines.extend(worth_saying.map(|times| {
        format!(
            "  as it was       programs took {} times as long as on a core of their own",
            fixed(times, 2)
        )
    }));
    lines
}

/// What neighbours outside left of the last cache.
fn neighbour_line(found: &NeighbourFindings) -> String {
    let half = |ms: Option<f64>| {
        ms.map_or("longer than was waited".to_owned(), |ms| format!("{} ms", fixed(ms, 0)))
    };
    format!(
        "neighbours        half of the last cache's resting lines gone after {} by {}; {} when calibrated",
        half(found.half_left_ms),
        counted(found.seen.looks, "look"),
        half(found.calibrated_half_left_ms),
    )
}

/// What predictions come to that know what was seen.
fn seen_lines(agreement: &SeenAgreements) -> Vec<String> {
    let mut lines = vec![format!("by these looks    {}", agreement_words(&agreement.alone))];
    if agreement.slowdowns.count > 0 {
        lines.push(format!("  slowdowns       {}", agreement_words(&agreement.slowdowns)));
        lines.push(format!("  clear           {}", agreement_words(&agreement.clear_slowdowns)));
    }
    lines
}

fn agreement_words(one: &Agreement) -> String {
    let percent =
        |value: Option<f64>| value.map_or("-".to_owned(), |value| fixed(100.0 * value, 1));
    format!(
        "of {}: mean error {} %, bias {} %, {} % within 25 %, rank correlation {}",
        one.count,
        percent(one.mean_error),
        one.bias.map_or("-".to_owned(), |bias| signed(100.0 * bias, 1)),
        percent(one.within_a_quarter),
        correlation(one.rank_correlation),
    )
}

fn correlation(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| fixed(value, 2))
}

/// The worst first.
pub(crate) fn worst(alone: &[Alone]) -> Vec<&Alone> {
    let mut all: Vec<&Alone> = alone.iter().collect();
    let off = |one: &&Alone| (one.predicted_s / one.measured_s.median).ln().abs();
    all.sort_by(|one, other| off(other).total_cmp(&off(one)));
    all.truncate(WORST);
    all
}

fn stack_line(one: &Alone) -> String {
    let parts = one.cpi_stack.iter().flatten().filter_map(|(cause, cycles)| {
        let cycles = cycles.as_f64().filter(|&cycles| cycles >= LEAST_SHOWN_CPI)?;
        Some(format!("{} {}", cause.replace('_', " "), fixed(cycles, 2)))
    });
    let parts: Vec<String> = parts.collect();
    format!(
        "{}: CPI {} predicted, {} measured ({})",
        one.name,
        fixed(one.predicted_cpi, 2),
        fixed(one.measured_cpi, 2),
        if parts.is_empty() { "no stack".to_owned() } else { parts.join(", ") }
    )
}

fn without_table(without: &[Without]) -> String {
    let percent = |value: Option<f64>, text: fn(f64, usize) -> String| {
        value.map_or("-".to_owned(), |value| text(100.0 * value, 1))
    };
    Columns::of(without)
        .left("left out", |one| one.cause.replace('_', " "))
        .right("mean error, %", |one| percent(one.alone.mean_error, fixed))
        .right("bias, %", |one| percent(one.alone.bias, signed))
        .right("rank of CPI", |one| correlation(one.cpi.rank_correlation))
        .table()
}

fn alone_table(found: &Validation) -> String {
    let mut rows: Vec<&Alone> = found.alone.iter().collect();
    rows.sort_by(|one, other| one.error.total_cmp(&other.error));
    Columns::of(&rows)
        .left("program", |one| one.name.clone())
        .right("rounds", |one| match one.from_shared_runs {
            true => format!("{} runs", one.measured_s.rounds),
            false => one.measured_s.rounds.to_string(),
        })
        .right("measured, s", |one| spread(&one.measured_s, 3))
        .right("predicted, s", |one| fixed(one.predicted_s, 3))
        .right("error, %", |one| signed(100.0 * one.error, 1))
        .right("CPI measured", |one| fixed(one.measured_cpi, 2))
        .right("predicted", |one| fixed(one.predicted_cpi, 2))
        .left("", |one| match (one.had_core, one.from_shared_runs) {
            (_, true) => "by runs on a shared core",
            (true, false) => "",
            (false, false) => "core shared",
        })
        .table()
}

fn group_table(found: &Validation) -> String {
    let mut rows: Vec<(String, &MemberOf)> = Vec::new();
    for group in &found.groups {
        for at in 0..group.members.len() {
            let others = group.members.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<&str> = others.map(|(_, other)| other.name.as_str()).collect();
            rows.push((others.join(", "), &group.members[at]));
        }
    }
    rows.sort_by(|one, other| {
        other.1.measured_slowdown.median.total_cmp(&one.1.measured_slowdown.median)
    });
    Columns::of(&rows)
        .left("program", |one| one.1.name.clone())
        .left("beside", |one| one.0.clone())
        .right("rounds", |one| one.1.measured_slowdown.rounds.to_string())
        .right("measured", |one| spread(&one.1.measured_slowdown, 2))
        .right("predicted", |one| fixed(one.1.predicted_slowdown, 2))
        .right("error, %", |one| signed(100.0 * one.1.pair().error(), 1))
        .left("", |one| if one.1.clear { "!" } else { "" })
        .table()
}

fn spread(one: &Estimate, decimals: usize) -> String {
    format!(
        "{} ({} to {})",
        fixed(one.median, decimals),
        fixed(one.low, decimals),
        fixed(one.high, decimals)
    )
}

fn indented(table: &str) -> Vec<String> {
    table.lines().map(|line| format!("  {line}")).collect()
}
