//! What the kernel keeps and refuses, by Documentation/filesystems/resctrl.rst.
//!
//! The texts of `last_cmd_status` are the kernel's own. One level of L3, whole or with code and data
//! apart, bandwidth in percent, monitoring by domain.

use std::collections::{BTreeMap, BTreeSet};

use fuser::Errno;

/// What a way of looking at the machine gives: occupancy in bytes and traffic in bytes so far, of
/// a set of threads in a domain.
pub(crate) type Counted = Box<dyn Fn(&BTreeSet<u32>, u32) -> (u64, u64) + Send + Sync>;

/// The threads there are, each with the one that it was born to.
pub(crate) type Born = Box<dyn Fn() -> BTreeMap<u32, u32> + Send + Sync>;

/// The state of resctrl.
pub(crate) struct Kernel {
    pub(crate) cbm_mask: u64,
    pub(crate) min_cbm_bits: u32,
    pub(crate) num_closids: usize,
    pub(crate) num_rmids: usize,
    pub(crate) bandwidth_gran: u64,
    pub(crate) min_bandwidth: u64,
    pub(crate) domains: Vec<u32>,
    /// Ways that devices use too.
    pub(crate) shareable_bits: u64,
    /// `L3`, or `L3CODE` and `L3DATA`.
    caches: &'static [&'static str],
    /// Do the files of monitoring say that there is no figure?
    pub(crate) unavailable: bool,
    /// Of the next so many threads that are put into groups every second one is refused.
    pub(crate) refusals: u32,
    /// Control groups by name; the root's is empty.
    groups: BTreeMap<String, Control>,
    /// The group of each thread there is, and its monitoring group there.
    tasks: BTreeMap<u32, (String, String)>,
    status: String,
    counted: Counted,
    /// None: threads come and go by [`Kernel::set_alive`].
    born: Option<Born>,
}

#[derive(Debug, Clone)]
struct Control {
    mode: Mode,
    /// By cache and domain.
    masks: BTreeMap<(&'static str, u32), u64>,
    bandwidth: BTreeMap<u32, u64>,
    monitoring: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Shareable,
    Exclusive,
    PseudoLocked,
}

type Answer<T = ()> = Result<T, Errno>;

impl Kernel {
    /// Two domains, 0 and 1, with threads in the root group.
    pub(crate) fn new(tasks: &[u32], counted: Counted) -> Self {
        let mut kernel = Self {
            cbm_mask: 0x7ff,
            min_cbm_bits: 1,
            num_closids: 4,
            num_rmids: 8,
            bandwidth_gran: 10,
            min_bandwidth: 10,
            domains: vec![0, 1],
            shareable_bits: 0,
            caches: &["L3"],
            unavailable: false,
            refusals: 0,
            groups: BTreeMap::new(),
            tasks: BTreeMap::new(),
            status: "ok\n".to_owned(),
            counted,
            born: None,
        };
        let root = kernel.fresh();
        kernel.groups.insert(String::new(), root);
        for &tid in tasks {
            kernel.tasks.insert(tid, (String::new(), String::new()));
        }
        kernel
    }

    /// As [`Self::new`], with these domains, as many ways and as many groups, and the threads that `born` says.
    pub(crate) fn of_machine(domains: Vec<u32>, ways: u32, groups: usize, born: Born) -> Self {
        let mut kernel = Self::new(&[], Box::new(|_, _| (0, 0)));
        kernel.domains = domains;
        kernel.cbm_mask = (1 << ways) - 1;
        (kernel.num_closids, kernel.num_rmids) = (groups, 2 * groups);
        kernel.unavailable = true;
        kernel.born = Some(born);
        let root = kernel.fresh();
        kernel.groups.insert(String::new(), root);
        kernel
    }

    /// Who is born is where its maker is; who ended is nowhere.
    fn see_threads(&mut self) {
        let Some(born) = &self.born else { return };
        let born = born();
        self.tasks.retain(|tid, _| born.contains_key(tid));
        for (&tid, maker) in &born {
            if !self.tasks.contains_key(&tid) {
                let place = self.tasks.get(maker).cloned().unwrap_or_default();
                self.tasks.insert(tid, place);
            }
        }
    }

    /// As though mounted with `cdp`: code and data apart, and half as many groups.
    pub(crate) fn part_code_and_data(&mut self) {
        self.caches = &["L3CODE", "L3DATA"];
        self.num_closids /= 2;
        let root = self.fresh();
        self.groups.insert(String::new(), root);
    }

    /// Each cache in each domain.
    fn places(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.caches.iter().flat_map(|&cache| self.domains.iter().map(move |&one| (cache, one)))
    }

    /// A thread is born into the root group, or ends.
    pub(crate) fn set_alive(&mut self, tid: u32, is_alive: bool) {
        if is_alive {
            self.tasks.insert(tid, (String::new(), String::new()));
        } else {
            self.tasks.remove(&tid);
        }
    }

    fn fresh(&self) -> Control {
        // A new group gets all that no other has for itself alone.
        let mask = |place| (place, self.cbm_mask & !self.kept_by_others("", place));
        Control {
            mode: Mode::Shareable,
            masks: self.places().map(mask).collect(),
            bandwidth: self.domains.iter().map(|domain| (*domain, 100)).collect(),
            monitoring: BTreeSet::new(),
        }
    }

    /// Names in a folder; none where there is no such folder. Folders end with a slash.
    pub(crate) fn list(&self, path: &str) -> Option<Vec<String>> {
        let texts = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let watched = || self.domains.iter().map(|domain| format!("mon_L3_{domain:02}/")).collect();
        Some(match parts.as_slice() {
            [] => {
                let named = self.groups.keys().filter(|name| !name.is_empty());
                let mut names: Vec<String> = named.map(|name| format!("{name}/")).collect();
                names.push("info/".to_owned());
                names.extend(Self::in_group());
                names
            }
            ["info"] => {
                let caches = self.caches.iter().map(|cache| format!("{cache}/"));
                caches.chain(texts(&["MB/", "L3_MON/", "last_cmd_status"])).collect()
            }
            ["info", cache] if self.caches.contains(cache) => texts(&[
                "cbm_mask",
                "min_cbm_bits",
                "num_closids",
                "shareable_bits",
                "bit_usage",
                "sparse_masks",
            ]),
            ["info", "MB"] => {
                texts(&["num_closids", "bandwidth_gran", "min_bandwidth", "delay_linear"])
            }
            ["info", "L3_MON"] => texts(&["mon_features", "num_rmids"]),
            ["mon_data"] => watched(),
            ["mon_groups"] => self.monitoring(""),
            [group, "mon_groups"] if self.groups.contains_key(*group) => self.monitoring(group),
            [group, "mon_data"] if self.groups.contains_key(*group) => watched(),
            [group] if self.groups.contains_key(*group) => Self::in_group(),
            ["mon_groups", name] if self.groups[""].monitoring.contains(*name) => {
                texts(&["tasks", "mon_data/"])
            }
            [group, "mon_groups", name]
                if self.groups.get(*group).is_some_and(|one| one.monitoring.contains(*name)) =>
            {
                texts(&["tasks", "mon_data/"])
            }
            [.., "mon_groups", _, "mon_data"] => watched(),
            [.., "mon_data", domain] if domain.starts_with("mon_L3_") => {
                texts(&["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"])
            }
            _ => return None,
        })
    }

    fn in_group() -> Vec<String> {
        ["schemata", "tasks", "mode", "mon_groups/", "mon_data/"].map(str::to_owned).into()
    }

    fn monitoring(&self, group: &str) -> Vec<String> {
        self.groups[group].monitoring.iter().map(|name| format!("{name}/")).collect()
    }

    /// The text of a file.
    pub(crate) fn read(&mut self, path: &str) -> Answer<String> {
        if path.ends_with("tasks") {
            self.see_threads();
        }
        let parts: Vec<&str> = path.split('/').collect();
        Ok(match parts.as_slice() {
            ["info", "last_cmd_status"] => self.status.clone(),
            ["info", cache, _] if cache.starts_with("L3") && !self.is_known(cache) => {
                return Err(Errno::ENOENT);
            }
            ["info", _, "cbm_mask"] => format!("{:x}\n", self.cbm_mask),
            ["info", _, "min_cbm_bits"] => format!("{}\n", self.min_cbm_bits),
            ["info", _, "num_closids"] => format!("{}\n", self.num_closids),
            ["info", _, "shareable_bits"] => format!("{:x}\n", self.shareable_bits),
            ["info", _, "sparse_masks"] => "0\n".to_owned(),
            ["info", cache, "bit_usage"] => self.bit_usage(cache),
            ["info", "MB", "bandwidth_gran"] => format!("{}\n", self.bandwidth_gran),
            ["info", "MB", "min_bandwidth"] => format!("{}\n", self.min_bandwidth),
            ["info", "MB", "delay_linear"] => "1\n".to_owned(),
            ["info", "L3_MON", "mon_features"] => {
                "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n".to_owned()
            }
            ["info", "L3_MON", "num_rmids"] => format!("{}\n", self.num_rmids),
            [.., "mon_data", _, "llc_occupancy"] if self.unavailable => "Unavailable\n".to_owned(),
            [.., "mon_data", _, _] if self.unavailable => "Error\n".to_owned(),
            [group @ .., "mon_data", domain, event] => {
                let domain: u32 = domain[7..].parse().map_err(|_| Errno::ENOENT)?;
                let (occupancy, traffic) = (self.counted)(&self.members(group)?, domain);
                let value = if *event == "llc_occupancy" { occupancy } else { traffic };
                format!("{value}\n")
            }
            [group @ .., "tasks"] => {
                self.members(group)?.iter().map(|tid| format!("{tid}\n")).collect()
            }
            [group @ .., "schemata"] => self.schemata(&group.join("/"))?,
            [group @ .., "mode"] => match self.control(&group.join("/"))?.mode {
                Mode::Shareable => "shareable\n".to_owned(),
                Mode::Exclusive => "exclusive\n".to_owned(),
                Mode::PseudoLocked => "pseudo-locked\n".to_owned(),
            },
            _ => return Err(Errno::ENOENT),
        })
    }

    /// Is it a cache of this kernel, or what is watched?
    fn is_known(&self, resource: &str) -> bool {
        self.caches.contains(&resource) || resource == "L3_MON"
    }

    fn control(&self, group: &str) -> Answer<&Control> {
        self.groups.get(group).ok_or(Errno::ENOENT)
    }

    /// A group's threads: of a control group all, of a monitoring group its own.
    fn members(&self, group: &[&str]) -> Answer<BTreeSet<u32>> {
        let (control, monitoring) = match group {
            [] => ("", None),
            ["mon_groups", name] => ("", Some(*name)),
            [control] => (*control, None),
            [control, "mon_groups", name] => (*control, Some(*name)),
            _ => return Err(Errno::ENOENT),
        };
        self.control(control)?;
        let of = |(_, (in_control, in_monitoring)): &(&u32, &(String, String))| {
            in_control == control && monitoring.is_none_or(|name| in_monitoring == name)
        };
        Ok(self.tasks.iter().filter(of).map(|(tid, _)| *tid).collect())
    }

    fn schemata(&self, group: &str) -> Answer<String> {
        let control = self.control(group)?;
        let amount = |(domain, value): (&u32, &u64)| format!("{domain}={value:3}");
        let amounts: Vec<String> = control.bandwidth.iter().map(amount).collect();
        let mut text = format!("    MB:{}\n", amounts.join(";"));
        for &cache in self.caches {
            let mask = |domain: &u32| format!("{domain}={:03x}", control.masks[&(cache, *domain)]);
            let masks: Vec<String> = self.domains.iter().map(mask).collect();
            text += &format!("{cache:>6}:{}\n", masks.join(";"));
        }
        Ok(text)
    }

    fn bit_usage(&self, cache: &str) -> String {
        let usage = |domain: &u32| {
            let has = |mode: Mode, way: u32| {
                let of = |one: &Control| {
                    let mut masks = one.masks.iter();
                    masks.any(|(place, mask)| *place == (cache, *domain) && mask >> way & 1 == 1)
                };
                self.groups.values().any(|one| one.mode == mode && of(one))
            };
            let letter = |way: u32| match self.shareable_bits >> way & 1 == 1 {
                _ if has(Mode::PseudoLocked, way) => 'P',
                _ if has(Mode::Exclusive, way) => 'E',
                true if has(Mode::Shareable, way) => 'X',
                true => 'H',
                false if has(Mode::Shareable, way) => 'S',
                false => '0',
            };
            let letters: String = (0..self.cbm_mask.count_ones()).rev().map(letter).collect();
            format!("{domain}={letters}")
        };
        self.domains.iter().map(usage).collect::<Vec<_>>().join(";") + "\n"
    }

    /// Ways that groups other than this one have for themselves alone.
    fn kept_by_others(&self, group: &str, place: (&'static str, u32)) -> u64 {
        let kept =
            self.groups.iter().filter(|(name, one)| *name != group && one.mode != Mode::Shareable);
        kept.map(|(_, one)| one.masks[&place]).fold(0, |all, mask| all | mask)
    }

    /// Refuses, and says why in `last_cmd_status`.
    fn refuse<T>(&mut self, why: impl Into<String>, errno: Errno) -> Answer<T> {
        self.status = why.into();
        Err(errno)
    }

    /// Writes a file.
    pub(crate) fn write(&mut self, path: &str, text: &str) -> Answer {
        self.status = "ok\n".to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        if !text.ends_with('\n') {
            return Err(Errno::EINVAL);
        }
        match parts.as_slice() {
            [group @ .., "tasks"] => self.move_task(group, text.trim()),
            [group @ .., "schemata"] => {
                let group = group.join("/");
                if self.control(&group)?.mode == Mode::PseudoLocked {
                    return self.refuse("Resource group is pseudo-locked\n", Errno::EINVAL);
                }
                text.lines().try_for_each(|line| self.write_line(&group, line))
            }
            [group @ .., "mode"] => self.write_mode(&group.join("/"), text.trim()),
            _ => Err(Errno::EPERM),
        }
    }

    fn move_task(&mut self, group: &[&str], text: &str) -> Answer {
        self.see_threads();
        self.members(group)?;
        let Ok(tid) = text.parse::<u32>() else {
            return self.refuse(format!("Task list parsing error pid {text}\n"), Errno::EINVAL);
        };
        // The kernel knows all threads there are; this one asks it about those it does not know.
        let exists = std::path::Path::new(&format!("/proc/{tid}")).exists();
        if !exists {
            return self.refuse(format!("No task {tid}\n"), Errno::ESRCH);
        }
        let to = match group {
            [] => (String::new(), String::new()),
            ["mon_groups", name] => (String::new(), (*name).to_owned()),
            [control] => ((*control).to_owned(), String::new()),
            [control, _, name] => ((*control).to_owned(), (*name).to_owned()),
            _ => return Err(Errno::ENOENT),
        };
        if self.control(&to.0)?.mode == Mode::PseudoLocked {
            return self.refuse("Pseudo-locking in progress\n", Errno::EINVAL);
        }
        let from = self.tasks.get(&tid).map_or("", |(control, _)| control);
        if !to.1.is_empty() && from != to.0 {
            return self.refuse("Can't move task to different control group\n", Errno::EINVAL);
        }
        let is_put_in = !to.0.is_empty();
        self.refusals = self.refusals.saturating_sub(is_put_in.into());
        if is_put_in && self.refusals % 2 == 1 {
            return self.refuse("No permission to move task\n", Errno::EPERM);
        }
        self.tasks.insert(tid, to);
        Ok(())
    }

    fn write_line(&mut self, group: &str, line: &str) -> Answer {
        let Some((resource, values)) = line.split_once(':') else {
            return self.refuse("Missing ':'\n", Errno::EINVAL);
        };
        for part in values.split(';') {
            let Some((domain, value)) = part.split_once('=') else {
                return self.refuse("Missing '=' or non-numeric domain\n", Errno::EINVAL);
            };
            let domain = match domain.trim().parse::<u32>() {
                Ok(domain) if self.domains.contains(&domain) => domain,
                Ok(_) => return Err(Errno::EINVAL),
                Err(_) => {
                    return self.refuse("Missing '=' or non-numeric domain\n", Errno::EINVAL);
                }
            };
            match resource.trim() {
                "MB" => self.set_bandwidth(group, domain, value.trim())?,
                other => {
                    if let Some(&cache) = self.caches.iter().find(|&&cache| cache == other) {
                        self.set_mask(group, (cache, domain), value.trim())?;
                        continue;
                    }
                    let why = format!("Unknown or unsupported resource name '{other}'\n");
                    return self.refuse(why, Errno::EINVAL);
                }
            }
        }
        Ok(())
    }

    fn set_mask(&mut self, group: &str, place: (&'static str, u32), text: &str) -> Answer {
        let Ok(mask) = u64::from_str_radix(text, 16) else {
            return self.refuse(format!("Non-hex character in the mask {text}\n"), Errno::EINVAL);
        };
        if mask == 0 || mask > self.cbm_mask {
            return self.refuse("Mask out of range\n", Errno::EINVAL);
        }
        if (mask >> mask.trailing_zeros()).trailing_ones() != mask.count_ones() {
            let why = format!("The mask {mask:x} has non-consecutive 1-bits\n");
            return self.refuse(why, Errno::EINVAL);
        }
        if mask.count_ones() < self.min_cbm_bits {
            let why = format!("Need at least {} bits in the mask\n", self.min_cbm_bits);
            return self.refuse(why, Errno::EINVAL);
        }
        if mask & self.kept_by_others(group, place) != 0 {
            return self.refuse("Overlaps with exclusive group\n", Errno::EINVAL);
        }
        let exclusive = self.control(group)?.mode == Mode::Exclusive;
        let others = self.groups.iter().filter(|(name, _)| *name != group);
        if exclusive && others.into_iter().any(|(_, one)| one.masks[&place] & mask != 0) {
            return self.refuse("Overlaps with other group\n", Errno::EINVAL);
        }
        self.groups.get_mut(group).ok_or(Errno::ENOENT)?.masks.insert(place, mask);
        Ok(())
    }

    fn set_bandwidth(&mut self, group: &str, domain: u32, text: &str) -> Answer {
        let Ok(value) = text.parse::<u64>() else {
            return self.refuse(format!("Invalid MB value {text}\n"), Errno::EINVAL);
        };
        if value < self.min_bandwidth || value > 100 {
            let why = format!("MB value {value} out of range [{},100]\n", self.min_bandwidth);
            return self.refuse(why, Errno::EINVAL);
        }
        let value = value.next_multiple_of(self.bandwidth_gran);
        self.groups.get_mut(group).ok_or(Errno::ENOENT)?.bandwidth.insert(domain, value);
        Ok(())
    }

    fn write_mode(&mut self, group: &str, mode: &str) -> Answer {
        let control = self.control(group)?.clone();
        let mode = match mode {
            "shareable" => Mode::Shareable,
            "exclusive" => Mode::Exclusive,
            // What writing schemata in the mode pseudo-locksetup leads to.
            "pseudo-locked" => Mode::PseudoLocked,
            _ => return self.refuse("Unknown or unsupported mode\n", Errno::EINVAL),
        };
        if mode != Mode::Shareable {
            if group.is_empty() {
                return self
                    .refuse("Cannot set exclusive mode on the default group\n", Errno::EINVAL);
            }
            let others = self.groups.iter().filter(|(name, _)| *name != group);
            let overlaps = |one: &Control| {
                control.masks.iter().any(|(place, mask)| one.masks[place] & mask != 0)
            };
            // What devices use is nobody's for himself alone.
            if control.masks.values().any(|mask| mask & self.shareable_bits != 0) {
                return self.refuse("Schemata overlaps\n", Errno::EINVAL);
            }
            if others.into_iter().any(|(_, one)| overlaps(one)) {
                return self.refuse("Schemata overlaps\n", Errno::EINVAL);
            }
        }
        self.groups.get_mut(group).ok_or(Errno::ENOENT)?.mode = mode;
        Ok(())
    }

    pub(crate) fn mkdir(&mut self, path: &str) -> Answer {
        self.status = "ok\n".to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        let watched: usize = self.groups.values().map(|one| 1 + one.monitoring.len()).sum();
        if watched >= self.num_rmids {
            return self.refuse("Out of RMIDs\n", Errno::ENOSPC);
        }
        let (control, name) = match parts.as_slice() {
            [name] => {
                if self.groups.len() >= self.num_closids {
                    return self.refuse("Out of CLOSIDs\n", Errno::ENOSPC);
                }
                let fresh = self.fresh();
                self.groups.insert((*name).to_owned(), fresh);
                return Ok(());
            }
            ["mon_groups", name] => ("", *name),
            [control, "mon_groups", name] => (*control, *name),
            _ => return Err(Errno::EPERM),
        };
        let control = self.groups.get_mut(control).ok_or(Errno::ENOENT)?;
        control.monitoring.insert(name.to_owned());
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, path: &str) -> Answer {
        self.status = "ok\n".to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        match parts.as_slice() {
            [name] if self.groups.contains_key(*name) => {
                self.groups.remove(*name);
                for place in self.tasks.values_mut().filter(|(control, _)| control == name) {
                    *place = (String::new(), String::new());
                }
            }
            ["mon_groups", name] => return self.remove_monitoring("", name),
            [control, "mon_groups", name] => return self.remove_monitoring(control, name),
            _ => return Err(Errno::EPERM),
        }
        Ok(())
    }

    fn remove_monitoring(&mut self, control: &str, name: &str) -> Answer {
        if !self.groups.get_mut(control).ok_or(Errno::ENOENT)?.monitoring.remove(name) {
            return Err(Errno::ENOENT);
        }
        for place in self.tasks.values_mut() {
            if place.0 == control && place.1 == name {
                place.1 = String::new();
            }
        }
        Ok(())
    }
}
