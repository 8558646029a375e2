//! Mounts the resctrl of corun-live's tests on a folder, with the caches and threads of this machine, and serves it until it
//! is killed: `resctrl_server FOLDER WAYS GROUPS`. For guests whose processor has no resctrl; nothing is really divided.

#[allow(dead_code)] // tests have machines of other kinds
#[path = "../tests/resctrl/kernel.rs"]
mod kernel;
#[path = "../tests/resctrl/mount.rs"]
mod mount;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};

use corun_linux::procfs::{Process, pids, tids};
use corun_linux::{Roots, sysfs};

use kernel::Kernel;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, ways, groups] = words.as_slice() else {
        return Err("resctrl_server FOLDER WAYS GROUPS".into());
    };
    let roots = Roots::default();
    let cpus = sysfs::online_cpus(&roots)?;
    let domains: BTreeSet<u32> =
        cpus.iter().filter_map(|cpu| sysfs::cache_id(&roots, cpu, "3")).collect();
    let domains: Vec<u32> = domains.into_iter().collect();
    println!("domains {domains:?}");
    let born = move || born(&roots);
    let kernel = Kernel::of_machine(domains, ways.parse()?, groups.parse()?, Box::new(born));
    let _served = mount::mount(Arc::new(Mutex::new(kernel)), Path::new(folder))?;
    println!("mounted");
    loop {
        std::thread::park();
    }
}

/// A process is born to its parent, a thread to the first one of its process.
fn born(roots: &Roots) -> BTreeMap<u32, u32> {
    let mut born = BTreeMap::new();
    for pid in pids(roots).unwrap_or_default() {
        let stat = Process::new(roots, pid).stat_of_all_threads().ok().flatten();
        for tid in tids(roots, pid).unwrap_or_default() {
            let maker = if tid == pid { stat.as_ref().map_or(0, |stat| stat.parent) } else { pid };
            born.insert(tid, maker);
        }
    }
    born
}
