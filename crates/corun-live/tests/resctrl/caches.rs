//! The machine's caches in sysfs, as a kernel that numbers the LLCs backwards has them.

use corun_linux::Roots;
use corun_machine::Machine;

/// Writes them below [`Roots::sys`].
pub(crate) fn write_caches(roots: &Roots, machine: &Machine) {
    for (llc, of) in machine.llcs().iter().enumerate() {
        for cpu in of.cpus.iter() {
            for (index, level, id) in [(2, 2, 77), (3, 3, machine.llcs().len() - 1 - llc)] {
                let cache = format!("devices/system/cpu/cpu{cpu}/cache/index{index}");
                let cache = roots.sys.join(cache);
                std::fs::create_dir_all(&cache).unwrap();
                std::fs::write(cache.join("level"), format!("{level}\n")).unwrap();
                std::fs::write(cache.join("type"), "Unified\n").unwrap();
                std::fs::write(cache.join("id"), format!("{id}\n")).unwrap();
            }
        }
    }
}
