//! A machine as a person and as a program read it: the tree as text, and the JSON document.

use serde_json::{Map, Value, json};

use crate::CpuSet;
use crate::machine::{Cache, Machine, Object, ObjectIndex};
use crate::spec::{CacheType, ObjectType};

/// How many groups of CPUs a folded line names before it only counts the rest.
const NAMED_GROUPS: usize = 4;

/// `L2`, `L1d`, `L1i`: the name of a cache for people.
pub(crate) fn cache_name(level: u32, holds: CacheType) -> String {
    match holds {
        CacheType::Unified => format!("L{level}"),
        CacheType::Data => format!("L{level}d"),
        CacheType::Instruction => format!("L{level}i"),
    }
}

/// A size in the largest unit that needs at most one decimal.
fn size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, one) in units {
        let tenths = u128::from(bytes) * 10;
        if bytes >= one && tenths.is_multiple_of(u128::from(one)) {
            let tenths = tenths / u128::from(one);
            let decimal =
                if tenths.is_multiple_of(10) { String::new() } else { format!(".{}", tenths % 10) };
            return format!("{}{decimal} {unit}", tenths / 10);
        }
    }
    let kib = bytes / 1024;
    if bytes.is_multiple_of(1024) { format!("{kib} KiB") } else { format!("{bytes} bytes") }
}

fn plural(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

impl Machine {
    /// The tree as text, a line an object; what contains one thing alone shares its line with it.
    /// With `fold`, equal siblings are one line and the first speaks for all.
    pub fn tree_text(&self, fold: bool) -> String {
        let mut text = self.name().to_owned();
        if !self.title().is_empty() {
            text.push_str(&format!(": {}", self.title()));
        }
        text.push_str(&format!(
            "\n{}, {}, {}, {}, {}\n",
            plural(self.packages().len(), "package"),
            plural(self.cores().len(), "core"),
            plural(self.cpus().len(), "CPU"),
            plural(self.nodes().len(), "NUMA node"),
            plural(self.llcs().len(), "LLC"),
        ));
        let shapes = if fold { self.shapes() } else { Vec::new() };
        self.lines_below(0, 1, &shapes, &mut text);
        if !self.spec().offline_cpus.is_empty() {
            text.push_str(&format!("off line: CPUs {}\n", self.spec().offline_cpus));
        }
        for domain in self.bandwidth_domains() {
            let peak = domain.peak_mb_per_s;
            text.push_str(&format!("bandwidth: {} {peak} MB/s\n", domain.name));
        }
        for warning in self.warnings() {
            text.push_str(&format!("assumed: {warning}\n"));
        }
        text
    }

    /// What each object and all below it are, without numbers: equal for equal siblings.
    fn shapes(&self) -> Vec<String> {
        let mut shapes = vec![String::new(); self.objects().len()];
        for index in (0..shapes.len()).rev() {
            let object = &self.objects()[index];
            let below: Vec<&str> =
                object.children.iter().map(|&child| shapes[child].as_str()).collect();
            let shape = format!("{}({})", self.label(object, false), below.join(","));
            shapes[index] = shape;
        }
        shapes
    }

    fn lines_below(&self, parent: ObjectIndex, depth: usize, shapes: &[String], text: &mut String) {
        let children: Vec<ObjectIndex> = self.objects()[parent]
            .children
            .iter()
            .copied()
            .filter(|&child| self.objects()[child].kind != ObjectType::Cpu)
            .collect();
        let equal = |a: &ObjectIndex, b: &ObjectIndex| {
            shapes.get(*a).is_some_and(|shape| shapes.get(*b) == Some(shape))
        };
        for group in children.chunk_by(equal) {
            text.push_str(&"  ".repeat(depth));
            if group.len() > 1 {
                text.push_str(&format!("{} x ", group.len()));
            }
            // What contains one thing alone shares its line with it.
            let mut at = group[0];
            text.push_str(&self.label(&self.objects()[at], group.len() == 1));
            while let [only] = self.objects()[at].children[..]
                && self.objects()[only].kind != ObjectType::Cpu
            {
                at = only;
                let label = self.label(&self.objects()[at], group.len() == 1);
                text.push_str(&format!(" + {label}"));
            }
            text.push_str(&self.groups(group));
            text.push('\n');
            self.lines_below(at, depth + 1, shapes, text);
        }
    }

    fn groups(&self, group: &[ObjectIndex]) -> String {
        let sets: Vec<String> =
            group.iter().map(|&index| self.objects()[index].cpus.to_string()).collect();
        if sets.iter().all(String::is_empty) {
            return String::new();
        }
        let named = sets.iter().take(NAMED_GROUPS).cloned().collect::<Vec<_>>().join(" | ");
        let rest = if sets.len() > NAMED_GROUPS { " | ..." } else { "" };
        format!(": CPUs {named}{rest}")
    }

    fn label(&self, object: &Object, numbered: bool) -> String {
        let number = object.os_index.filter(|_| numbered).map(|number| format!(" {number}"));
        let number = number.unwrap_or_default();
        match object.kind {
            ObjectType::Machine => "Machine".to_owned(),
            ObjectType::Package => format!("Package{number}"),
            ObjectType::Die => format!("Die{number}"),
            ObjectType::Cluster => format!("Cluster{number}"),
            ObjectType::Cpu => "CPU".to_owned(),
            ObjectType::NumaNode => {
                let memory = object.memory_mib.map(|mib| size(mib.saturating_mul(1 << 20)));
                let memory = memory.map(|memory| format!(", {memory}")).unwrap_or_default();
                format!("NUMA node{number}{memory}")
            }
            ObjectType::Core => match self.core_types() {
                [_] => format!("Core{number}"),
                types => {
                    let name = object.core_type.and_then(|place| types.get(place));
                    let name = name.map(|one| one.name.as_str()).unwrap_or_default();
                    format!("Core{number} ({name})")
                }
            },
            ObjectType::Cache => object.cache.as_ref().map(cache_label).unwrap_or_default(),
        }
    }

    /// The document of `corun topology --format json`: counts, one entry for every cache, the tree,
    /// and what else is known. Absent figures are null.
    pub fn document(&self) -> Value {
        let caches: Vec<Value> = self
            .objects()
            .iter()
            .filter_map(|object| {
                let mut entry = cache_entry(object.cache.as_ref()?);
                entry.insert("cpus".to_owned(), json!(self.cpus_at(object).to_string()));
                Some(Value::Object(entry))
            })
            .collect();
        let nodes = self.nodes().iter().map(|node| {
            let cpus = node.cpus.to_string();
            json!({"os_index": node.os_index, "cpus": cpus, "memory_mib": node.memory_mib})
        });
        let llcs = self.llcs().iter().map(|llc| {
            let size_bytes = llc.cache.map(|cache| cache.size_bytes);
            json!({"cpus": llc.cpus.to_string(), "size_bytes": size_bytes})
        });
        json!({
            "name": self.name(),
            "title": self.title(),
            "packages": self.packages().len(),
            "cores": self.cores().len(),
            "cpus": self.cpus().len(),
            "numa_nodes": self.nodes().len(),
            "caches": caches,
            "tree": self.branch(0),
            "llcs": llcs.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
            "node_distance": self.spec().node_distance,
            "core_types": self.core_types(),
            "bandwidth": self.bandwidth_domains(),
            "line_transfer": self.spec().line_transfer,
            "kernel": self.spec().kernel,
            "measurement": self.spec().measurement,
            "offline_cpus": self.spec().offline_cpus.to_string(),
            "warnings": self.warnings(),
        })
    }

    /// The CPUs below an object; of a cache written inside a core those of the core.
    fn cpus_at<'a>(&'a self, object: &'a Object) -> &'a CpuSet {
        let mut at = object;
        while at.kind == ObjectType::Cache && at.cpus.is_empty() {
            let Some(parent) = at.parent else { break };
            at = &self.objects()[parent];
        }
        &at.cpus
    }

    fn branch(&self, index: ObjectIndex) -> Value {
        let object = &self.objects()[index];
        let mut entry = object.cache.as_ref().map(cache_entry).unwrap_or_default();
        if let Some(holds) = entry.remove("type") {
            entry.insert("holds".to_owned(), holds);
        }
        entry.insert("type".to_owned(), json!(object.kind.name()));
        entry.insert("cpus".to_owned(), json!(self.cpus_at(object).to_string()));
        if let Some(number) = object.os_index {
            entry.insert("os_index".to_owned(), json!(number));
        }
        if let Some(memory_mib) = object.memory_mib {
            entry.insert("memory_mib".to_owned(), json!(memory_mib));
        }
        if let Some(one) = object.core_type.and_then(|place| self.core_types().get(place)) {
            entry.insert("core_type".to_owned(), json!(one.name));
        }
        let children: Vec<Value> =
            object.children.iter().map(|&child| self.branch(child)).collect();
        if !children.is_empty() {
            entry.insert("children".to_owned(), Value::Array(children));
        }
        Value::Object(entry)
    }
}

fn cache_label(cache: &Cache) -> String {
    let name = cache_name(cache.level, cache.holds);
    let ways = cache.ways.map(|ways| format!(" {ways}-way")).unwrap_or_default();
    format!("{name} {}{ways}", size(cache.size_bytes))
}

fn cache_entry(cache: &Cache) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("level".to_owned(), json!(cache.level));
    entry.insert("type".to_owned(), json!(cache.holds.name()));
    entry.insert("name".to_owned(), json!(cache_name(cache.level, cache.holds)));
    entry.insert("size_bytes".to_owned(), json!(cache.size_bytes));
    entry.insert("ways".to_owned(), json!(cache.ways));
    entry.insert("line_bytes".to_owned(), json!(cache.line_bytes));
    entry.insert("inclusion".to_owned(), json!(cache.inclusion));
    entry.insert("latency_ns".to_owned(), json!(cache.latency_ns));
    entry.insert("effective_bytes".to_owned(), json!(cache.effective_bytes));
    entry.insert("random_page_bytes".to_owned(), json!(cache.random_page_bytes));
    entry.insert("rates".to_owned(), json!(cache.rates));
    entry
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
