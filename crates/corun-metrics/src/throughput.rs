//! What a co-run cost its programs, and what the machine got done.

use crate::{finite, mean, positive};

/// Slowdown of a program: its completion time in the co-run over that solo (García García, thesis
/// UCM 2021, equation 3.2). Any unit of time, the same for both; the result has none.
///
/// `None` unless both are finite and above 0.
pub fn slowdown(co_run_time: f64, solo_time: f64) -> Option<f64> {
    positive(&[co_run_time, solo_time])?;
    finite(co_run_time / solo_time)
}

/// Degradation: slowdown - 1, the share of its solo time that a program loses (Blagodurov et al.,
/// TOCS 2010, section 2.1.1). Negative for a program that gains.
///
/// `None` unless the slowdown is finite and above 0.
pub fn degradation(slowdown: f64) -> Option<f64> {
    positive(&[slowdown])?;
    Some(slowdown - 1.0)
}

/// System throughput: the sum of 1 / slowdown (García García 2021, equation 3.4), in programs' worth
/// of solo progress; with n programs that disturb nobody it is n. Higher is better.
///
/// `None` for an empty slice or a slowdown that is not finite and above 0.
pub fn stp(slowdowns: &[f64]) -> Option<f64> {
    finite(positive(slowdowns)?.iter().map(|slowdown| 1.0 / slowdown).sum())
}

/// Mean slowdown, the arithmetic mean over programs (no unit; lower is better).
///
/// `None` for an empty slice or a slowdown that is not finite and above 0.
pub fn mean_slowdown(slowdowns: &[f64]) -> Option<f64> {
    mean(positive(slowdowns)?)
}

/// Average normalised turnaround time (Eyerman and Eeckhout, IEEE Micro 2008): another name for
/// [`mean_slowdown`].
///
/// `None` as there.
pub fn antt(slowdowns: &[f64]) -> Option<f64> {
    mean_slowdown(slowdowns)
}

/// Unfairness: the highest slowdown over the lowest (García García 2021, equation 3.1), 1 when all
/// programs suffer alike. Lower is better; to be read beside the throughput, since slowing all
/// programs down alike is fair too.
///
/// `None` for an empty slice or a slowdown that is not finite and above 0.
pub fn unfairness(slowdowns: &[f64]) -> Option<f64> {
    let least = positive(slowdowns)?.iter().copied().fold(f64::INFINITY, f64::min);
    finite(worst_slowdown(slowdowns)? / least)
}

/// The highest slowdown.
///
/// `None` for an empty slice or a slowdown that is not finite and above 0.
pub fn worst_slowdown(slowdowns: &[f64]) -> Option<f64> {
    Some(positive(slowdowns)?.iter().copied().fold(0.0, f64::max))
}

/// Jain's index of the slowdowns x: (sum x)^2 / (n sum x^2) (Jain, Chiu and Hawe, DEC-TR-301,
/// 1984), from 1 / n to 1; 1 is fair.
///
/// `None` for an empty slice or a slowdown that is not finite and above 0.
pub fn jain_of_slowdowns(slowdowns: &[f64]) -> Option<f64> {
    // Scaled by the largest, so that no square leaves the range of f64; the index does not change.
    let largest = worst_slowdown(slowdowns)?;
    let sum: f64 = slowdowns.iter().map(|slowdown| slowdown / largest).sum();
    let squares: f64 = slowdowns.iter().map(|slowdown| (slowdown / largest).powi(2)).sum();
    finite(sum * sum / (slowdowns.len() as f64 * squares))
}

/// Aggregate speedup on an asymmetric machine: the sum over programs of (time alone on small cores
/// / time in the co-run) - 1 (García García 2021, equation 3.5). Times in one unit; the result has
/// none. Higher is better; negative when programs do worse than on small cores alone.
///
/// `None` when the slices are empty or differ in length, or a time is not finite and above 0.
pub fn asp(small_core_solo_times: &[f64], co_run_times: &[f64]) -> Option<f64> {
    if small_core_solo_times.len() != co_run_times.len() {
        return None;
    }
    let pairs = positive(small_core_solo_times)?.iter().zip(positive(co_run_times)?);
    finite(pairs.map(|(small, co_run)| small / co_run - 1.0).sum())
}

/// Energy-delay product: energy above idle times time over instructions retired (Blagodurov et al.
/// 2010, equation 9), in J s per instruction. Lower is better.
///
/// `None` when the energy is negative, the time is negative, there is no instruction, or a figure
/// is not finite.
pub fn edp_joule_seconds_per_instruction(
    energy_above_idle_j: f64,
    time_s: f64,
    instructions: f64,
) -> Option<f64> {
    let known = energy_above_idle_j >= 0.0 && time_s >= 0.0 && instructions > 0.0;
    finite(energy_above_idle_j * time_s / instructions)
        .filter(|_| known && instructions.is_finite())
}

/// Energy for a unit of work, in joules: what is drawn above idle over the work done in a second. The unit of work is
/// what a program does in a second alone, so that programs of these slowdowns do sum(1 / slowdown) (STP) of it a
/// second. Lower is better.
///
/// `None` for an empty slice, a slowdown that is not finite and above 0, and a power that is negative or not finite.
pub fn energy_per_work_j(above_idle_w: f64, slowdowns: &[f64]) -> Option<f64> {
    finite(above_idle_w / stp(slowdowns)?).filter(|_| above_idle_w >= 0.0)
}

/// Energy for a unit of work, [`energy_per_work_j`], times how many times as long the work takes as alone: the harmonic
/// mean of the slowdowns, n / STP. In joules; lower is better. For work that is given it is in proportion to energy x
/// time.
///
/// `None` as for [`energy_per_work_j`].
pub fn energy_delay_per_work_j(above_idle_w: f64, slowdowns: &[f64]) -> Option<f64> {
    let delay = slowdowns.len() as f64 / stp(slowdowns)?;
    finite(energy_per_work_j(above_idle_w, slowdowns)? * delay)
}

/// How far a mean slowdown is above the optimal one, in percent:
/// (mean slowdown / optimal mean slowdown - 1) * 100.
///
/// `None` unless both are finite and above 0.
pub fn above_optimal_percent(mean_slowdown: f64, optimal_mean_slowdown: f64) -> Option<f64> {
    Some((slowdown(mean_slowdown, optimal_mean_slowdown)? - 1.0) * 100.0)
}
