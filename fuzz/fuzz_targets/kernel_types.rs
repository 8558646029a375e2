//! Any bytes are a kernel's description of its types that has what corun's scheduler needs, or lacks some of it, or are
//! refused; never a panic. Those of a captured tree are read without a kernel behind them.
#![no_main]

use std::fs;

use corun_linux::Roots;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let root = tempfile::tempdir().expect("a folder");
    let roots = Roots::below(root.path());
    let kernel = roots.sys.join("kernel");
    for folder in ["sched_ext", "btf"] {
        fs::create_dir_all(kernel.join(folder)).expect("a folder in it");
    }
    fs::write(kernel.join("sched_ext/state"), "disabled\n").expect("a file in it");
    fs::write(kernel.join("btf/vmlinux"), bytes).expect("a file in it");
    if let Err(why) = corun_scx::check(&roots) {
        assert!(!why.to_string().is_empty());
    }
});
