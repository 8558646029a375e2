//! A machine from the XML that hwloc writes (`lstopo FILE.xml`), of versions 1 and 2 of its format.
//!
//! The pieces are the same as those that sysfs shows, and are put together by the same rules. What
//! XML does not tell (bandwidths, latencies, mostly clocks) stays unknown or is assumed, and said.

use std::collections::BTreeSet;

use corun_input::FileError;
use roxmltree::{Document, Node, ParsingOptions};

use super::tree::{self, Piece};
use crate::spec::{CacheType, Inclusion, ObjectSpec, ObjectType};
use crate::{CoreType, CpuId, CpuSet, MAX_CPU, Machine, MachineError, MachineSpec};

/// The most elements that are read: hundreds for each CPU of the largest machines.
const MOST_ELEMENTS: u32 = 1_000_000;
/// Stands for a clock that the file does not tell.
const ASSUMED_MHZ: f64 = 2000.0;
/// Of a matrix of distances: its values mean latency.
const MEANS_LATENCY: u64 = 4;

impl Machine {
    /// The machine that an XML file of hwloc describes; `file` is its name in errors. Bandwidths and
    /// latencies stay unknown; see [`Machine::with_assumed_memory`].
    ///
    /// # Errors
    /// [`MachineError::Invalid`] for what is no XML of hwloc, or describes no machine.
    pub fn from_hwloc_xml(text: &str, file: &str) -> Result<Self, MachineError> {
        let invalid = |line: Option<u32>, why: String| {
            let line = line.map(u64::from);
            MachineError::Invalid(FileError { line, ..FileError::whole(file, why) })
        };
        // hwloc's files name a document type, which is not read.
        let options =
            ParsingOptions { allow_dtd: true, nodes_limit: MOST_ELEMENTS, ..Default::default() };
        let document = Document::parse_with_options(text, options)
            .map_err(|error| invalid(Some(error.pos().row), error.to_string()))?;
        let root = document.root_element();
        if root.tag_name().name() != "topology" {
            let found = root.tag_name().name();
            return Err(invalid(None, format!("found <{found}>, expected hwloc's <topology>")));
        }
        let mut reader = Reader::default();
        for object in root.descendants().filter(|node| node.has_tag_name("object")) {
            reader.object(object).map_err(|why| {
                let line = document.text_pos_at(object.range().start).row;
                invalid(Some(line), why)
            })?;
        }
        reader.kinds(root);
        let spec = reader.spec(root, file).map_err(|why| invalid(None, why))?;
        let mut machine =
            Self::from_spec(spec).map_err(|error| invalid(None, error.to_string()))?;
        for warning in reader.warnings {
            machine.warn(warning);
        }
        Ok(machine)
    }
}

/// What was read so far.
#[derive(Default)]
struct Reader {
    pieces: Vec<Piece>,
    /// Each core's CPUs, with its number.
    cores: Vec<(CpuSet, Option<u32>)>,
    /// All hardware threads.
    cpus: CpuSet,
    /// CPUs that the machine has, on line or not.
    complete: CpuSet,
    /// CPUs that programs may use; none where the file does not tell.
    allowed: Option<CpuSet>,
    nodes: Vec<(CpuSet, ObjectSpec)>,
    /// CPUs, name and clock of each kind of core.
    kinds: Vec<(CpuSet, String, Option<f64>)>,
    warnings: BTreeSet<String>,
}

impl Reader {
    fn object(&mut self, node: Node<'_, '_>) -> Result<(), String> {
        let Some(set) = node.attribute("cpuset") else { return Ok(()) };
        let cpus = self.allowed_of(cpu_set(set)?);
        let os_index = number(node, "os_index")?;
        let kind = node.attribute("type").unwrap_or_default();
        let mut spec = match kind {
            "Machine" => {
                if let Some(complete) = node.attribute("complete_cpuset") {
                    self.complete = cpu_set(complete)?;
                }
                if let Some(allowed) = node.attribute("allowed_cpuset") {
                    self.allow(&cpus, cpu_set(allowed)?);
                }
                return Ok(());
            }
            "PU" => {
                self.cpus.extend(cpus.iter());
                return Ok(());
            }
            "Core" => {
                self.cores.push((cpus, os_index));
                return Ok(());
            }
            "NUMANode" | "Node" => {
                let mut spec = ObjectSpec::new(ObjectType::NumaNode);
                spec.os_index = os_index;
                spec.memory_mib = number::<u64>(node, "local_memory")?.map(|bytes| bytes >> 20);
                self.nodes.push((cpus, spec));
                return Ok(());
            }
            "Package" | "Socket" => ObjectSpec::new(ObjectType::Package),
            "Die" => ObjectSpec::new(ObjectType::Die),
            "Group" if node.attribute("subtype") == Some("Cluster") => {
                ObjectSpec::new(ObjectType::Cluster)
            }
            _ if kind.ends_with("Cache") => cache(node)?,
            // Other groups are hwloc's own; devices have no CPUs of their own.
            _ => return Ok(()),
        };
        if spec.kind != ObjectType::Cache {
            spec.os_index = os_index;
        }
        if !cpus.is_empty() {
            self.pieces.push(Piece { cpus, spec });
        }
        Ok(())
    }

    /// Of all CPUs that are on line these may be used. The others are to programs as those off line.
    fn allow(&mut self, online: &CpuSet, allowed: CpuSet) {
        let barred: CpuSet = online.iter().filter(|cpu| !allowed.contains(*cpu)).collect();
        if !barred.is_empty() {
            self.warnings.insert(format!(
                "whoever wrote the file might not use {}: the machine is what is left, and these count as off line",
                barred.in_words()
            ));
            self.complete.extend(barred.iter());
        }
        self.allowed = Some(allowed);
    }

    fn allowed_of(&self, cpus: CpuSet) -> CpuSet {
        match &self.allowed {
            Some(allowed) => cpus.intersection(allowed),
            None => cpus,
        }
    }

    fn kinds(&mut self, root: Node<'_, '_>) {
        for kind in root.children().filter(|node| node.has_tag_name("cpukind")) {
            let Some(Ok(cpus)) = kind.attribute("cpuset").map(cpu_set) else { continue };
            let info = |name: &str| self::info(kind, name);
            let clock = info("FrequencyMaxMHz").or_else(|| info("FrequencyBaseMHz"));
            let clock = clock.and_then(|text| text.parse::<f64>().ok());
            let name = info("CoreType").unwrap_or_default().to_lowercase();
            self.kinds.push((cpus, name, clock.filter(|mhz| (1.0..1e6).contains(mhz))));
        }
    }

    fn spec(&mut self, root: Node<'_, '_>, file: &str) -> Result<MachineSpec, String> {
        self.whole_cores();
        if self.cores.is_empty() {
            return Err("found no CPU: expected objects of type Core or PU".to_owned());
        }
        let online: CpuSet = self.cores.iter().flat_map(|(cpus, _)| cpus.iter()).collect();
        let core_types = self.core_types();
        let mut pieces = std::mem::take(&mut self.pieces);
        let mut memory_only = Vec::new();
        let mut taken = CpuSet::new();
        for (cpus, spec) in std::mem::take(&mut self.nodes) {
            if !cpus.is_empty() && cpus.is_disjoint(&taken) {
                taken.extend(cpus.iter());
                pieces.push(Piece { cpus, spec });
                continue;
            }
            if !cpus.is_empty() {
                self.warnings.insert(
                    "several NUMA nodes are next to the same CPUs: the first is theirs, the others \
                     count as memory without CPUs"
                        .to_owned(),
                );
            }
            memory_only.push(spec);
        }
        let mut objects = tree::nest(pieces);
        objects.extend(memory_only);
        let offline = self.complete.iter().filter(|cpu| !online.contains(*cpu)).collect();
        self.warnings.insert(
            "dispatch width, reorder buffer, outstanding misses and branch penalty of the cores \
             are the defaults of a machine file"
                .to_owned(),
        );
        Ok(MachineSpec {
            title: title(root),
            offline_cpus: offline,
            core_types,
            node_distance: self.distances(root),
            objects,
            ..MachineSpec::new(&name(file))
        })
    }

    /// Every CPU is in a core; where a file shows none, each is one.
    fn whole_cores(&mut self) {
        let known: CpuSet = self.cores.iter().flat_map(|(cpus, _)| cpus.iter()).collect();
        let alone: Vec<CpuId> = self.cpus.iter().filter(|cpu| !known.contains(*cpu)).collect();
        self.cores.extend(alone.into_iter().map(|cpu| (CpuSet::from_iter([cpu]), None)));
        self.cores.retain(|(cpus, _)| !cpus.is_empty());
    }

    /// The kinds of core; the cores become pieces.
    fn core_types(&mut self) -> Vec<CoreType> {
        let of = |cpus: &CpuSet| {
            let first = cpus.first().unwrap_or_default();
            self.kinds.iter().position(|(kind, _, _)| kind.contains(first))
        };
        let kinds: Vec<Option<usize>> = self.cores.iter().map(|(cpus, _)| of(cpus)).collect();
        let used: BTreeSet<Option<usize>> = kinds.iter().copied().collect();
        let mut types: Vec<CoreType> = Vec::new();
        for &kind in &used {
            let known = kind.map(|place| &self.kinds[place]);
            let own = known.map(|(_, name, _)| name.clone()).filter(|name| !name.is_empty());
            let plain =
                if used.len() == 1 { "core".to_owned() } else { format!("kind-{}", types.len()) };
            let mut name = own.unwrap_or(plain);
            if types.iter().any(|one| one.name == name) {
                name = format!("{name}-{}", types.len());
            }
            let of_kind = self.cores.iter().zip(&kinds).filter(|(_, one)| **one == kind);
            let threads = of_kind.map(|((cpus, _), _)| cpus.len()).max().unwrap_or(1) as u32;
            let clock = known.and_then(|(_, _, clock)| *clock);
            if clock.is_none() {
                self.warnings
                    .insert(format!("the clock of the cores is unknown: {ASSUMED_MHZ} MHz"));
            }
            types.push(CoreType::new(&name, clock.unwrap_or(ASSUMED_MHZ), threads));
        }
        let most = types.iter().map(|one| one.clock_mhz).fold(f64::MIN_POSITIVE, f64::max);
        if types.len() > 1 {
            self.warnings.insert(
                "the capacities of the core types are unknown: they go by clock alone".to_owned(),
            );
            types.iter_mut().for_each(|one| one.capacity = one.clock_mhz / most);
        }
        let order: Vec<Option<usize>> = used.into_iter().collect();
        for ((cpus, os_index), kind) in self.cores.iter().zip(&kinds) {
            let mut spec = ObjectSpec::new(ObjectType::Core);
            let place = order.iter().position(|one| one == kind).unwrap_or(0);
            spec.os_index = *os_index;
            spec.cpus = Some(cpus.clone());
            spec.core_type = Some(types[place].name.clone());
            self.pieces.push(Piece { cpus: cpus.clone(), spec });
        }
        types
    }

    /// The kernel's relative distances between nodes, where the file has them for all.
    fn distances(&mut self, root: Node<'_, '_>) -> Vec<Vec<u32>> {
        let found = root.children().filter(|node| node.has_tag_name("distances2")).find(|node| {
            let kind = node.attribute("kind").and_then(|text| text.parse::<u64>().ok());
            node.attribute("type") == Some("NUMANode")
                && kind.is_some_and(|kind| kind & MEANS_LATENCY != 0)
        });
        let Some(found) = found else { return Vec::new() };
        let numbers = |tag: &str| -> Option<Vec<u32>> {
            let texts = found.children().filter(|node| node.has_tag_name(tag));
            let words = texts.filter_map(|node| node.text()).flat_map(str::split_whitespace);
            words.map(|word| word.parse().ok()).collect()
        };
        let matrix = || {
            let (indexes, values) = (numbers("indexes")?, numbers("u64values")?);
            let count = indexes.len();
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by_key(|&place| indexes[place]);
            let row = |from: &usize| {
                order.iter().map(|to| values.get(from * count + to).copied()).collect()
            };
            order.iter().map(row).collect::<Option<Vec<Vec<u32>>>>()
        };
        let matrix = matrix();
        if matrix.is_none() {
            self.warnings.insert("the distances between nodes cannot be read".to_owned());
        }
        matrix.unwrap_or_default()
    }
}

fn cache(node: Node<'_, '_>) -> Result<ObjectSpec, String> {
    let mut spec = ObjectSpec::new(ObjectType::Cache);
    spec.level = number(node, "depth")?;
    spec.holds = match number::<i64>(node, "cache_type")?.unwrap_or(0) {
        1 => Some(CacheType::Data),
        2 => Some(CacheType::Instruction),
        _ => Some(CacheType::Unified),
    };
    // hwloc writes 0 for unknown, and -1 for a fully associative cache.
    let known =
        |value: Option<i64>| value.and_then(|one| u32::try_from(one).ok()).filter(|&n| n > 0);
    spec.ways = known(number(node, "cache_associativity")?);
    spec.line_bytes = known(number(node, "cache_linesize")?);
    spec.size_kib = number::<u64>(node, "cache_size")?.map(|bytes| bytes >> 10).filter(|&n| n > 0);
    spec.inclusion = match info(node, "Inclusive").filter(|_| spec.holds() == CacheType::Unified) {
        Some("1") => Some(Inclusion::Inclusive),
        Some("0") => Some(Inclusion::NonInclusive),
        _ => None,
    };
    Ok(spec)
}

fn number<T: std::str::FromStr>(node: Node<'_, '_>, name: &str) -> Result<Option<T>, String> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    let wrong = |_| format!("{name} is `{text}`, expected a whole number");
    text.parse().map(Some).map_err(wrong)
}

fn info<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut infos = node.children().filter(|one| one.has_tag_name("info"));
    let found = infos.find(|one| one.attribute("name") == Some(name))?;
    found.attribute("value").map(str::trim).filter(|value| !value.is_empty())
}

/// A set as hwloc writes it: words of 32 bits in hexadecimal, the highest first.
fn cpu_set(text: &str) -> Result<CpuSet, String> {
    let wrong = || format!("the set of CPUs is `{text}`, expected such as 0x0000000f,0xffffffff");
    let mut cpus = CpuSet::new();
    for (place, word) in text.rsplit(',').enumerate() {
        let word = word.strip_prefix("0x").unwrap_or(word);
        let bits = match word {
            "" => 0,
            word => u32::from_str_radix(word, 16).map_err(|_| wrong())?,
        };
        for bit in (0..u32::BITS).filter(|bit| bits >> bit & 1 == 1) {
            let cpu = u32::try_from(place).ok().and_then(|place| place.checked_mul(32));
            let cpu = cpu.map(|cpu| cpu + bit).filter(|&cpu| cpu <= MAX_CPU);
            cpus.insert(CpuId(cpu.ok_or_else(wrong)?));
        }
    }
    Ok(cpus)
}

fn name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or_default();
    let stem = base.strip_suffix(".xml").unwrap_or(base);
    if stem.is_empty() { "hwloc".to_owned() } else { stem.to_owned() }
}

fn title(root: Node<'_, '_>) -> String {
    let objects = || root.descendants().filter(|node| node.has_tag_name("object"));
    let first = |name: &str| objects().find_map(|node| info(node, name)).map(str::to_owned);
    let parts = [first("DMIProductName"), first("CPUModel")];
    let title = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    title.chars().filter(|c| !c.is_control()).collect()
}
