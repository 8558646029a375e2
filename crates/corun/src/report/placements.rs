//! The machine's tree, and who sits where under each policy.

use maud::{Markup, html};

use super::distance::class;
use super::document::{Entry, Llc, Program, Report, size};
use super::page::{self, signed_percent};

/// Bounds between the classes of memory intensity, in misses per 1000 instructions alone.
const INTENSITY: [f64; 3] = [1.0, 5.0, 15.0];

/// The class of memory intensity, 0 (light) to 3 (heavy).
pub(super) fn intensity(program: &Program) -> usize {
    INTENSITY.iter().filter(|&&bound| program.solo_mpki >= bound).count()
}

/// A program's name on the colour of its intensity.
pub(super) fn chip(program: &Program) -> Markup {
    html! {
        span class={ "chip h" (intensity(program)) }
            title={ (program.name) ": " (format!("{:.1}", program.solo_mpki)) " MPKI alone" } {
            (program.name)
        }
    }
}

/// The section.
pub(super) fn section(report: &Report) -> Markup {
    let placed: Vec<&Entry> =
        report.results.iter().filter(|entry| !entry.placement.is_empty()).collect();
    let body = html! {
        (legend())
        div.machines {
            @for entry in placed { (machine(report, entry)) }
        }
    };
    let about = "Boxes are packages, and in them last-level caches and their cores. Programs under \
                 a policy that moves them stand where they spent most of the run.";
    page::section("placements", "Who sits where", about, &body)
}

fn legend() -> Markup {
    let texts = ["below 1", "1 to 5", "5 to 15", "15 and more"];
    html! {
        p.legend {
            span.legend-title { "MPKI alone" }
            @for (place, text) in texts.iter().enumerate() {
                span.key { span class={ "swatch h" (place) } aria-hidden="true" {} (text) }
            }
        }
    }
}

fn machine(report: &Report, entry: &Entry) -> Markup {
    html! {
        article class={ "machine " (class(entry.kind)) } {
            h3 {
                (entry.name)
                span.note {
                    @if let Some(above) = entry.above_optimal_percent { (signed_percent(above)) }
                }
            }
            div.packages {
                @for package in &report.machine.packages {
                    div.package {
                        p.place { (package.label) }
                        @for llc in &package.llcs { (domain(report, entry, llc)) }
                    }
                }
            }
        }
    }
}

fn domain(report: &Report, entry: &Entry, llc: &Llc) -> Markup {
    let on = |cpus: &Vec<u32>| -> Vec<&Program> {
        let placed = report.programs.iter().zip(&entry.placement);
        placed.filter(|(_, cpu)| cpus.contains(cpu)).map(|(program, _)| program).collect()
    };
    let busy: Vec<(&Vec<u32>, Vec<&Program>)> = llc
        .cores
        .iter()
        .map(|cpus| (cpus, on(cpus)))
        .filter(|(_, programs)| !programs.is_empty())
        .collect();
    // Large machines have many idle cores: one line tells of all.
    let idle = llc.cores.len() - busy.len();
    html! {
        div.llc {
            p.place {
                (llc.label)
                @if let Some(bytes) = llc.bytes { span.note { (size(bytes as f64)) } }
            }
            ul.cores {
                @for (cpus, programs) in &busy { (core(cpus, programs)) }
                @if idle > 0 {
                    li.core {
                        span.chip.idle {
                            @if idle == 1 { "1 core idle" } @else { (idle) " cores idle" }
                        }
                    }
                }
            }
        }
    }
}

fn core(cpus: &[u32], programs: &[&Program]) -> Markup {
    let numbers: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let label = format!("CPU {}", numbers.join(", "));
    // A long name is cut where it is drawn, not here.
    let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    let hover = format!("{label}: {}", names.join(", "));
    html! {
        li.core title=(hover) {
            span.visually-hidden { (label) ": " }
            @for program in programs { (chip(program)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intensity_rises_with_misses() {
        let with =
            |solo_mpki| intensity(&Program { name: String::new(), solo_mpki, curve: Vec::new() });
        assert_eq!([0.0, 1.0, 5.0, 14.9, 15.0].map(with), [0, 1, 2, 2, 3]);
    }
}
