//! What resctrl can do on this machine: the folder `info`.

use std::path::Path;
use std::str::FromStr;

use corun_machine::{Machine, ObjectSpec, ObjectType};
use serde::Serialize;

use super::{ResctrlError, Schemata, read};
use crate::Roots;

/// What resctrl can do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResctrlInfo {
    /// Caches whose ways can be given out, by name.
    pub caches: Vec<CacheControl>,
    /// Memory bandwidth that can be held back.
    pub bandwidth: Option<BandwidthControl>,
    /// What can be watched.
    pub monitoring: Option<Monitoring>,
}

/// A cache whose ways can be given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheControl {
    /// `L3`, `L2`, or with code and data apart `L3CODE` and `L3DATA`.
    pub resource: String,
    /// All its ways.
    pub cbm_mask: u64,
    /// The fewest ways that a group can have.
    pub min_cbm_bits: u32,
    /// How many groups there can be, the root among them.
    pub num_closids: u32,
    /// Ways that devices use too.
    pub shareable_bits: u64,
    /// May a mask have gaps?
    pub sparse_masks: bool,
}

/// How memory bandwidth is held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BandwidthControl {
    /// How many groups there can be, the root among them.
    pub num_closids: u32,
    /// Steps between values.
    pub bandwidth_gran: u64,
    /// The least value.
    pub min_bandwidth: u64,
    /// Does traffic follow the value in a straight line? Otherwise the value is a hint.
    pub delay_linear: bool,
    /// What a value counts.
    pub unit: BandwidthUnit,
}

/// What a value of bandwidth counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BandwidthUnit {
    /// Percent of what a core can draw.
    Percent,
    /// MiB a second, kept by the kernel (mounted with `mba_MBps`).
    MebibytesPerSecond,
    /// Eighths of 1e9 bytes a second (AMD).
    EighthGigabytesPerSecond,
}

/// What can be watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Monitoring {
    /// `llc_occupancy`, `mbm_total_bytes`, `mbm_local_bytes`.
    pub features: Vec<String>,
    /// How many groups can be watched, the root among them.
    pub num_rmids: u32,
}

impl ResctrlInfo {
    /// Reads what resctrl can do. Resources that this crate does not know are passed over.
    ///
    /// # Errors
    /// When resctrl is not mounted, or says what the kernel does not document.
    pub fn probe(roots: &Roots) -> Result<Self, ResctrlError> {
        let info = roots.resctrl.join("info");
        if !info.is_dir() {
            return Err(ResctrlError::NotMounted { path: roots.resctrl.clone() });
        }
        let mut caches = Vec::new();
        for resource in ["L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA"] {
            let folder = info.join(resource);
            if folder.is_dir() {
                caches.push(cache(&folder, resource)?);
            }
        }
        let bandwidth = info.join("MB");
        let bandwidth = bandwidth.is_dir().then(|| bandwidth_of(&bandwidth, roots)).transpose()?;
        let watched = info.join("L3_MON");
        let monitoring = watched.is_dir().then(|| monitoring_of(&watched)).transpose()?;
        Ok(Self { caches, bandwidth, monitoring })
    }

    /// How many groups there can be, the root among them: the fewest that any resource has.
    pub fn num_closids(&self) -> Option<u32> {
        let caches = self.caches.iter().map(|cache| cache.num_closids);
        caches.chain(self.bandwidth.iter().map(|bandwidth| bandwidth.num_closids)).min()
    }

    /// The machine with partitions of its LLCs at least as wide as resctrl takes them, so that
    /// policies ask for no narrower ones; none where the machine's file says so already.
    pub fn widened(&self, machine: &Machine) -> Option<Machine> {
        fn widen(objects: &mut [ObjectSpec], level: u32, least: u32) -> bool {
            let mut changed = false;
            for object in objects {
                let is_llc = object.kind == ObjectType::Cache && object.level == Some(level);
                if is_llc && object.min_partition_ways.is_none_or(|known| known < least) {
                    object.min_partition_ways = Some(least);
                    changed = true;
                }
                changed |= widen(&mut object.objects, level, least);
            }
            changed
        }
        let least = self.llc().iter().map(|cache| cache.min_cbm_bits).max()?;
        let level = machine.llcs().first()?.cache?.level;
        let mut spec = machine.spec().clone();
        let changed = widen(&mut spec.objects, level, least);
        // A minimum beyond the machine's ways is none that its file can have.
        changed.then(|| Machine::from_spec(spec).ok()).flatten()
    }

    /// The resources that hold the ways of the last-level cache: `L3`, or `L3CODE` and `L3DATA`,
    /// or those of `L2` where there is no other.
    pub fn llc(&self) -> Vec<&CacheControl> {
        let of = |level: &str| -> Vec<&CacheControl> {
            self.caches.iter().filter(|cache| cache.resource.starts_with(level)).collect()
        };
        Some(of("L3")).filter(|found| !found.is_empty()).unwrap_or_else(|| of("L2"))
    }
}

fn cache(folder: &Path, resource: &str) -> Result<CacheControl, ResctrlError> {
    Ok(CacheControl {
        resource: resource.to_owned(),
        cbm_mask: mask(&folder.join("cbm_mask"))?,
        min_cbm_bits: number(&folder.join("min_cbm_bits"))?,
        num_closids: number(&folder.join("num_closids"))?,
        // Later kernels have these two.
        shareable_bits: optional(&folder.join("shareable_bits"), mask)?.unwrap_or(0),
        sparse_masks: optional(&folder.join("sparse_masks"), number::<u32>)? == Some(1),
    })
}

fn bandwidth_of(folder: &Path, roots: &Roots) -> Result<BandwidthControl, ResctrlError> {
    let schemata: Schemata = parsed(&roots.resctrl.join("schemata"), "schemata")?;
    let line = schemata.line("MB");
    let largest = line.and_then(|line| line.values.iter().map(|(_, value)| *value).max());
    let unit = match largest {
        _ if in_mebibytes(roots) => BandwidthUnit::MebibytesPerSecond,
        Some(101..) => BandwidthUnit::EighthGigabytesPerSecond,
        _ => BandwidthUnit::Percent,
    };
    Ok(BandwidthControl {
        num_closids: number(&folder.join("num_closids"))?,
        bandwidth_gran: number::<u64>(&folder.join("bandwidth_gran"))?.max(1),
        min_bandwidth: number(&folder.join("min_bandwidth"))?,
        delay_linear: optional(&folder.join("delay_linear"), number::<u32>)? == Some(1),
        unit,
    })
}

/// Was resctrl mounted with `mba_MBps`?
fn in_mebibytes(roots: &Roots) -> bool {
    let Ok(mounts) = std::fs::read_to_string(roots.proc.join("self/mounts")) else { return false };
    let at = roots.resctrl.to_string_lossy().into_owned();
    mounts.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        fields.len() > 3 && fields[1] == at && fields[3].split(',').any(|one| one == "mba_MBps")
    })
}

fn monitoring_of(folder: &Path) -> Result<Monitoring, ResctrlError> {
    let features = read(&folder.join("mon_features"))?;
    Ok(Monitoring {
        features: features.split_whitespace().map(str::to_owned).collect(),
        num_rmids: number(&folder.join("num_rmids"))?,
    })
}

/// Who uses each way in a domain, by the kernel's letter, lowest way first.
pub fn bit_usage(text: &str, domain: u32) -> Option<Vec<char>> {
    text.trim().split(';').find_map(|part| {
        let (one, letters) = part.split_once('=')?;
        // The kernel writes the highest way first.
        (one.trim().parse() == Ok(domain)).then(|| letters.trim().chars().rev().collect())
    })
}

fn optional<T>(
    path: &Path,
    read: impl FnOnce(&Path) -> Result<T, ResctrlError>,
) -> Result<Option<T>, ResctrlError> {
    if path.exists() { read(path).map(Some) } else { Ok(None) }
}

fn number<T: FromStr>(path: &Path) -> Result<T, ResctrlError> {
    parsed(path, "a number")
}

fn mask(path: &Path) -> Result<u64, ResctrlError> {
    let text = read(path)?;
    let digits = text.trim();
    let plain = digits.chars().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, 16).ok()).flatten().ok_or_else(|| {
        let (path, found) = (path.to_owned(), digits.to_owned());
        ResctrlError::Unexpected { path, found, expected: "a mask in hexadecimal digits" }
    })
}

fn parsed<T: FromStr>(path: &Path, expected: &'static str) -> Result<T, ResctrlError> {
    let text = read(path)?;
    text.trim().parse().map_err(|_| ResctrlError::Unexpected {
        path: path.to_owned(),
        found: text.trim().to_owned(),
        expected,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let roots =
            Roots { resctrl: folder.path().into(), proc: folder.path().into(), ..Roots::default() };
        (folder, roots)
    }

    const BASE: [(&str, &str); 8] = [
        ("schemata", "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n"),
        ("info/L3/cbm_mask", "7ff\n"),
        ("info/L3/min_cbm_bits", "1\n"),
        ("info/L3/num_closids", "16\n"),
        ("info/L3/shareable_bits", "600\n"),
        ("info/MB/num_closids", "8\n"),
        ("info/MB/bandwidth_gran", "10\n"),
        ("info/MB/min_bandwidth", "10\n"),
    ];

    #[test]
    fn what_the_kernel_offers_is_read() {
        let (_folder, roots) = made(&BASE);
        let info = ResctrlInfo::probe(&roots).unwrap();
        assert_eq!(info.num_closids(), Some(8));
        let l3 = info.llc()[0];
        assert_eq!((l3.cbm_mask, l3.shareable_bits, l3.sparse_masks), (0x7ff, 0x600, false));
        assert_eq!(info.bandwidth.unwrap().unit, BandwidthUnit::Percent);
        assert_eq!(info.monitoring, None);
    }

    #[test]
    fn the_unit_of_bandwidth_is_told_apart() {
        let (folder, roots) = made(&BASE);
        std::fs::write(folder.path().join("schemata"), "MB:0=2048\n").unwrap();
        let unit = |roots| ResctrlInfo::probe(roots).unwrap().bandwidth.unwrap().unit;
        assert_eq!(unit(&roots), BandwidthUnit::EighthGigabytesPerSecond);
        std::fs::create_dir(folder.path().join("self")).unwrap();
        let mounts = format!("resctrl {} resctrl rw,mba_MBps 0 0\n", folder.path().display());
        std::fs::write(folder.path().join("self/mounts"), mounts).unwrap();
        assert_eq!(unit(&roots), BandwidthUnit::MebibytesPerSecond);
    }

    #[test]
    fn no_mount_and_odd_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { resctrl: folder.path().into(), ..Roots::default() };
        assert!(ResctrlInfo::probe(&roots).unwrap_err().to_string().contains("mount -t resctrl"));
        let (folder, roots) = made(&BASE);
        std::fs::write(folder.path().join("info/L3/cbm_mask"), "+7\n").unwrap();
        let error = ResctrlInfo::probe(&roots).unwrap_err().to_string();
        assert!(error.contains("cbm_mask") && error.contains("hexadecimal"), "{error}");
    }

    #[test]
    fn the_first_letter_is_the_highest_way() {
        let text = "0=XXSSSS0E;1=SSSSSSSS\n";
        assert_eq!(bit_usage(text, 0).unwrap()[..2], ['E', '0']);
        assert_eq!(bit_usage(text, 2), None);
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_named(text in "\\PC{0,20}", which in 0..BASE.len()) {
            let (folder, roots) = made(&BASE);
            std::fs::write(folder.path().join(BASE[which].0), text).unwrap();
            let _ = ResctrlInfo::probe(&roots);
        }

        #[test]
        fn any_bit_usage_is_read(text in "\\PC{0,20}", domain: u32) {
            let _ = bit_usage(&text, domain);
        }
    }
}
