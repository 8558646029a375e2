//! What a machine draws above idle.

use crate::{Machine, PowerModel};

impl PowerModel {
    /// What is drawn above idle, in watts, with so many packages that have a busy core, so many busy cores, and so many
    /// bytes to and from memory a second.
    pub fn above_idle_w(&self, packages: usize, cores: usize, bytes_per_s: f64) -> f64 {
        self.package_active_w * packages as f64
            + self.core_w * cores as f64
            + self.w_per_gb_per_s * bytes_per_s * 1e-9
    }
}

impl Machine {
    /// How many packages and how many cores are busy with a thread on each of some CPUs (indices). Two hardware
    /// threads of a core are one busy core.
    pub fn busy(&self, cpus: impl IntoIterator<Item = usize>) -> (usize, usize) {
        let mut packages = vec![false; self.packages().len()];
        let mut cores = vec![false; self.cores().len()];
        for cpu in cpus {
            packages[self.cpus()[cpu].package] = true;
            cores[self.cpus()[cpu].core] = true;
        }
        let count = |busy: &[bool]| busy.iter().filter(|&&busy| busy).count();
        (count(&packages), count(&cores))
    }

    /// What the machine draws above idle, in watts, with a thread on each of some CPUs (indices) and so many bytes to
    /// and from memory a second; none where its power is not known. The simulator counts the same over time.
    pub fn power_above_idle_w(
        &self,
        cpus: impl IntoIterator<Item = usize>,
        bytes_per_s: f64,
    ) -> Option<f64> {
        let (packages, cores) = self.busy(cpus);
        Some(self.power()?.above_idle_w(packages, cores, bytes_per_s))
    }
}
