//! What others' traffic does to a program, as a formula: for searches that put many co-runs of the
//! same programs beside one another.

use crate::model::Model;
use crate::outcome::Demand;
use crate::program::Member;

/// A bandwidth domain on a program's way to memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassedDomain {
    /// Which one; the same number names the same domain on every way.
    pub domain: usize,
    /// Its peak in bytes a second.
    pub peak_bytes_per_s: f64,
    /// q of the bandwidth model `loaded`: at a share T of the peak an access takes 1 + q T / (1 - T) times
    /// as long as in an idle domain. Above 0 and below 1.
    pub queueing: f64,
    /// Is that all? Not in a domain whose latency was measured: there it is the queue that comes nearest.
    pub is_queue: bool,
}

/// A program's slowdown as a line: `solo + per_ratio * (B / B' - 1)`, where B is what it would
/// draw alone and B' what it gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretched {
    /// The slowdown when it gets all that it would draw alone.
    pub solo: f64,
    /// What each further multiple of B / B' adds.
    pub per_ratio: f64,
}

impl Model {
    /// The domains that a program on a CPU passes to the memory of its own node, in the order in
    /// which they cut it.
    pub fn local_domains(&self, cpu: usize) -> Vec<PassedDomain> {
        self.domains().passed(cpu, self.machine().cpus()[cpu].node).collect()
    }

    /// Does the machine tell what traffic takes of a CPU's memory by how much of it is written? Then
    /// [`Demand::busy_bytes_per_s`] is other than the traffic.
    pub fn weighs_written_lines(&self, cpu: usize) -> bool {
        self.site(cpu).memory_rates.is_some()
    }

    /// The slowdown of a member with these figures and all its pages on its node, as a line in
    /// B / B'. Every bandwidth model's CPI is such a line. `busy_threads`: of its core, itself
    /// included; on a core of [`corun_machine::Smt::FineGrained`] it is taken to be 1, since there the
    /// slowdown is no line.
    pub fn stretched(&self, member: &Member<'_>, demand: &Demand, busy_threads: u32) -> Stretched {
        let cpi = self.bandwidth().cpi(demand, 1.0, 1.0);
        let more = self.bandwidth().cpi(demand, 1.0, 2.0) - cpi;
        let speed = self.thread_speed(member.cpu, busy_threads);
        let of_cycle =
            member.phase().best_instructions_per_s / (self.site(member.cpu).clock_hz() * speed);
        Stretched { solo: of_cycle * cpi, per_ratio: of_cycle * more }
    }

    /// Speed of each hardware thread relative to alone when so many threads of its core run; 1 on a
    /// core of [`corun_machine::Smt::FineGrained`], where it depends on who they are.
    pub fn thread_speed(&self, cpu: usize, busy_threads: u32) -> f64 {
        self.site(cpu).smt_speed(busy_threads)
    }
}
