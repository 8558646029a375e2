//! From MB/s to what resctrl takes, and what is lost on the way.

use corun_machine::Machine;

use corun_linux::resctrl::{BandwidthControl, BandwidthUnit};

/// A cap as resctrl has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cap {
    pub(super) value: u64,
    /// What that comes to, in MB/s (1e6 bytes a second).
    pub(super) mb_per_s: f64,
}

/// The value nearest to `mb_per_s`, from the least that the kernel takes to `most`. `peak_mb_per_s` is what a
/// value of 100 % stands for; none where the unit is a percentage and the peak is not known.
pub(super) fn cap_of(
    control: &BandwidthControl,
    mb_per_s: f64,
    most: u64,
    peak_mb_per_s: Option<f64>,
) -> Option<Cap> {
    let mb_per_s_of_one = match control.unit {
        BandwidthUnit::Percent => peak_mb_per_s? / 100.0,
        BandwidthUnit::MebibytesPerSecond => f64::from(1u32 << 20) / 1e6,
        BandwidthUnit::EighthGigabytesPerSecond => 125.0,
    };
    let step = control.bandwidth_gran as f64;
    let steps = (mb_per_s / mb_per_s_of_one / step).round();
    let value = ((steps * step) as u64).clamp(control.min_bandwidth.min(most), most);
    Some(Cap { value, mb_per_s: value as f64 * mb_per_s_of_one })
}

/// What the CPUs of an LLC can draw from memory in MB/s, where the machine says it.
pub(super) fn peak_mb_per_s(machine: &Machine, llc: usize) -> Option<f64> {
    let cpu = machine.cpu_index(machine.llcs().get(llc)?.cpus.first()?)?;
    let node = machine.cpus().get(cpu)?.node;
    let domains = machine.memory_path(cpu, node);
    let peaks = domains.iter().map(|&domain| machine.bandwidth_domains()[domain].peak_mb_per_s);
    peaks.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(unit: BandwidthUnit) -> BandwidthControl {
        BandwidthControl {
            num_closids: 8,
            bandwidth_gran: 10,
            min_bandwidth: 10,
            delay_linear: true,
            unit,
        }
    }

    #[test]
    fn the_nearest_step_is_taken_and_what_it_comes_to_is_told() {
        let percent = control(BandwidthUnit::Percent);
        let cap = cap_of(&percent, 5_400.0, 100, Some(20_000.0)).unwrap();
        assert_eq!((cap.value, cap.mb_per_s), (30, 6_000.0));
        assert_eq!(cap_of(&percent, 1.0, 100, Some(20_000.0)).unwrap().value, 10);
        assert_eq!(cap_of(&percent, 1e9, 100, Some(20_000.0)).unwrap().value, 100);
        assert_eq!(cap_of(&percent, 1.0, 100, None), None);
        let mebibytes =
            BandwidthControl { bandwidth_gran: 1, ..control(BandwidthUnit::MebibytesPerSecond) };
        let cap = cap_of(&mebibytes, 1_048.576, u64::from(u32::MAX), None).unwrap();
        assert_eq!((cap.value, cap.mb_per_s), (1000, 1_048.576));
        let eighths = BandwidthControl {
            bandwidth_gran: 1,
            min_bandwidth: 1,
            ..control(BandwidthUnit::EighthGigabytesPerSecond)
        };
        assert_eq!(cap_of(&eighths, 1_000.0, 2048, None).unwrap().value, 8);
    }
}
