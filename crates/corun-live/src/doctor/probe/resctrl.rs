//! The resctrl file system: what its info folder says.

use std::path::Path;

use corun_linux::{Roots, files};

use crate::doctor::facts::{BandwidthControlFacts, CacheControlFacts, MonitoringFacts, Resctrl};

/// Flags of the processor that are about cache control and monitoring.
const FLAGS: [&str; 13] = [
    "rdt_a",
    "cat_l3",
    "cat_l2",
    "cdp_l3",
    "cdp_l2",
    "mba",
    "smba",
    "cqm",
    "cqm_llc",
    "cqm_occup_llc",
    "cqm_mbm_total",
    "cqm_mbm_local",
    "abmc",
];

const CACHES: [&str; 6] = ["L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA"];

pub(super) fn resctrl(roots: &Roots, flags: Option<&[&str]>) -> Resctrl {
    let processor = flags.map(|flags| {
        let known = FLAGS.iter().filter(|flag| flags.contains(flag));
        known.map(|flag| (*flag).to_owned()).collect()
    });
    let kernel = files::text(&roots.proc.join("filesystems"))
        .filter(|text| !text.is_empty())
        .map(|text| text.lines().any(|line| line.trim_start_matches("nodev").trim() == "resctrl"));
    let root = &roots.resctrl;
    let mounted = files::names(&roots.sys).map(|_| root.join("schemata").is_file());
    if mounted != Some(true) {
        return Resctrl { processor, kernel, mounted, ..Resctrl::default() };
    }
    let info = root.join("info");
    let is_group = |name: &&String| root.join(name).join("schemata").is_file();
    Resctrl {
        processor,
        kernel,
        mounted,
        writable: roots.are_here().then(|| files::writable(&root.join("schemata"))),
        caches: CACHES.iter().filter_map(|name| cache(&info, name)).collect(),
        bandwidth: bandwidth(&info.join("MB")),
        monitoring: monitoring(&info.join("L3_MON")),
        groups: files::names(root).map(|names| names.iter().filter(is_group).count()),
    }
}

fn cache(info: &Path, resource: &str) -> Option<CacheControlFacts> {
    let folder = info.join(resource);
    let mask = files::text(&folder.join("cbm_mask"))?;
    let bits = u64::from_str_radix(&mask, 16).ok();
    let is_mask = |text: &String| !text.is_empty() && u64::from_str_radix(text, 16).is_ok();
    Some(CacheControlFacts {
        resource: resource.to_owned(),
        ways: bits.map(u64::count_ones),
        min_ways: files::number(&folder.join("min_cbm_bits")),
        classes: files::number(&folder.join("num_closids")),
        shared_mask: files::text(&folder.join("shareable_bits")).filter(is_mask),
        sparse: files::switch(&folder.join("sparse_masks")),
    })
}

fn bandwidth(folder: &Path) -> Option<BandwidthControlFacts> {
    folder.is_dir().then(|| BandwidthControlFacts {
        classes: files::number(&folder.join("num_closids")),
        least: files::number(&folder.join("min_bandwidth")),
        step: files::number(&folder.join("bandwidth_gran")),
    })
}

fn monitoring(folder: &Path) -> Option<MonitoringFacts> {
    let features = files::text(&folder.join("mon_features"))?;
    Some(MonitoringFacts {
        features: features.lines().map(|line| super::one_line(line.to_owned())).collect(),
        groups: files::number(&folder.join("num_rmids")),
    })
}
