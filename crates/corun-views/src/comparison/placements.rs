//! The machine's tree, and who sits where under each policy.

use corun_app::ComparisonRow;
use corun_machine::{Core, CpuId, Llc, Package};
use corun_report::{counted, section, signed_percent, size};
use maud::{Markup, html};

use super::distance::class;
use super::page::{ComparisonPage, Program};

/// Bounds between the classes of memory intensity, in misses per 1000 instructions alone.
const INTENSITY: [f64; 3] = [1.0, 5.0, 15.0];

/// The class of memory intensity, 0 (light) to 3 (heavy).
pub(crate) fn intensity(program: &Program) -> usize {
    INTENSITY.iter().filter(|&&bound| program.solo_mpki >= bound).count()
}

/// A program's name on the colour of its intensity.
pub(crate) fn chip(program: &Program) -> Markup {
    html! {
        span class={ "chip h" (intensity(program)) }
            title={ (program.name) ": " (format!("{:.1}", program.solo_mpki)) " MPKI alone" } {
            (program.name)
        }
    }
}

/// The section.
pub(crate) fn of(page: &ComparisonPage<'_>) -> Markup {
    let placed = page.rows.iter().map(|(row, _)| *row).filter(|row| !row.cpu.is_empty());
    let body = html! {
        (legend())
        div.machines {
            @for entry in placed { (machine(page, entry)) }
        }
    };
    let about = "Boxes are packages, and in them last-level caches and their cores. Programs under \
                 a policy that moves them stand where they spent most of the run.";
    section("placements", "Who sits where", about, &body)
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

fn machine(page: &ComparisonPage<'_>, entry: &ComparisonRow) -> Markup {
    html! {
        article class={ "machine " (class(entry.kind)) } {
            h3 {
                (entry.policy)
                span.note {
                    @if let Some(above) = entry.above_optimal_percent { (signed_percent(above)) }
                }
            }
            div.packages {
                @for package in page.machine.packages() {
                    div.package {
                        p.place { "Package " (package.os_index) }
                        @for (number, llc) in llcs_of(page, package) {
                            (domain(page, entry, number, llc))
                        }
                    }
                }
            }
        }
    }
}

/// The LLCs of a package; one that spans packages stands in the first.
fn llcs_of<'a>(page: &'a ComparisonPage<'_>, package: &Package) -> Vec<(usize, &'a Llc)> {
    let first_is_here = |llc: &Llc| llc.cpus.first().is_some_and(|cpu| package.cpus.contains(cpu));
    page.machine.llcs().iter().enumerate().filter(|(_, llc)| first_is_here(llc)).collect()
}

fn domain(page: &ComparisonPage<'_>, entry: &ComparisonRow, number: usize, llc: &Llc) -> Markup {
    let on = |core: &Core| -> Vec<&Program> {
        let placed = page.programs.iter().zip(&entry.cpu);
        placed
            .filter(|(_, cpu)| core.cpus.contains(CpuId(**cpu)))
            .map(|(program, _)| program)
            .collect()
    };
    let cores = page.machine.cores().iter().filter(|core| core.cpus.is_subset(&llc.cpus));
    let (busy, idle): (Vec<_>, Vec<_>) =
        cores.map(|core| (core, on(core))).partition(|(_, programs)| !programs.is_empty());
    html! {
        div.llc {
            p.place {
                "LLC " (number)
                @if let Some(cache) = llc.cache { span.note { (size(cache.size_bytes as f64)) } }
            }
            ul.cores {
                @for (at, programs) in &busy { (core(at, programs)) }
                // Large machines have many idle cores: one line tells of all.
                @if !idle.is_empty() {
                    li.core { span.chip.idle { (counted(idle.len(), "core")) " idle" } }
                }
            }
        }
    }
}

fn core(core: &Core, programs: &[&Program]) -> Markup {
    let numbers: Vec<String> = core.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
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
