//! The compiled scheduler: its programs, its maps, and what has to be put into its instructions on the running
//! kernel.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

use crate::LoadError;
use crate::btf::{Btf, BtfError, Kind};

/// Bytes of an instruction (`struct bpf_insn`).
pub(crate) const INSTRUCTION_BYTES: usize = 8;

/// Sections of programs begin so; the rest is the member of `sched_ext_ops` that the program is.
const OPERATION: &str = "struct_ops/";
const SLEEPABLE_OPERATION: &str = "struct_ops.s/";
/// Sections of programs that the kernel runs at one of its tracepoints begin so; the rest is the tracepoint's name.
const TRACE: &str = "trace/";
/// Sections of programs that user space runs begin so; the rest is the program's name.
const CALL: &str = "syscall/";
/// Sections of iterators begin so; the rest is the program's name.
const ITERATOR: &str = "iter/";

/// The compiled scheduler.
#[derive(Debug, PartialEq)]
pub(crate) struct ObjectFile {
    pub(crate) license: Vec<u8>,
    pub(crate) maps: Vec<MapDefinition>,
    pub(crate) programs: Vec<Program>,
}

/// A map, as the object defines it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MapDefinition {
    pub(crate) name: String,
    pub(crate) kind: u32,
    pub(crate) key_bytes: u32,
    pub(crate) value_bytes: u32,
    pub(crate) max_entries: u32,
    pub(crate) flags: u32,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// What it does beside that of the same name without a kind, in whose place it stands where that is asked for.
    pub(crate) kind: Option<String>,
    pub(crate) role: Role,
    pub(crate) instructions: Vec<u8>,
    /// By byte offset of the instruction.
    pub(crate) references: Vec<(usize, Reference)>,
}

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A member of `sched_ext_ops`; it may sleep or not.
    Operation { is_sleepable: bool },
    /// The kernel runs it at a tracepoint, with the tracepoint's arguments.
    Trace,
    /// User space runs it.
    Call,
    /// The kernel runs it for each task that is asked for, when user space reads.
    Iterator,
}

/// What the loader puts into an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    /// The number of a map.
    Map(String),
    /// The id of a function of the kernel, by its name.
    KernelFunction(String),
    /// Where a member is: the type's name, then an index or the name of a member for each step.
    Field { of: String, steps: Vec<Step> },
    /// The value of an enumerator.
    Enumerator { of: String, name: String },
}

/// A step from a type to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Member(String),
    Element(u32),
}

impl ObjectFile {
    /// Leaves out the programs of kinds that are not among `kinds`, those in whose place others stand, and the maps that
    /// none of the others uses.
    pub(crate) fn choose(&mut self, kinds: &[&str]) {
        let is_of = |kind: &String| kinds.contains(&kind.as_str());
        self.programs.retain(|program| program.kind.as_ref().is_none_or(is_of));
        let replaced: BTreeSet<String> = self
            .programs
            .iter()
            .filter(|one| one.kind.is_some())
            .map(|one| one.name.clone())
            .collect();
        self.programs.retain(|one| one.kind.is_some() || !replaced.contains(&one.name));
        let references = self.programs.iter().flat_map(|program| &program.references);
        let used: BTreeSet<&String> = references
            .filter_map(|(_, reference)| match reference {
                Reference::Map(name) => Some(name),
                _ => None,
            })
            .collect();
        self.maps.retain(|map| used.contains(&map.name));
    }

    /// Reads an object that clang made for `bpfel`.
    ///
    /// # Errors
    /// When it is none, or has what this loader does not do.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, LoadError> {
        let elf = ElfFile64::<LittleEndian>::parse(bytes)
            .map_err(|error| LoadError::Object(error.to_string()))?;
        let section = |name: &str| {
            let section = elf.section_by_name(name);
            let data = section.and_then(|section| section.data().ok());
            data.ok_or_else(|| LoadError::Object(format!("it has no section {name}")))
        };
        let types = Btf::parse(section(".BTF")?)?;
        let mut programs = Vec::new();
        let relocations = core_relocations(&types, section(".BTF.ext")?)?;
        for section in elf.sections() {
            let name = section.name().unwrap_or_default();
            let (name, kind) =
                name.split_once(':').map_or((name, None), |(of, kind)| (of, Some(kind)));
            let (name, role) = if let Some(name) = name.strip_prefix(OPERATION) {
                (name, Role::Operation { is_sleepable: false })
            } else if let Some(name) = name.strip_prefix(SLEEPABLE_OPERATION) {
                (name, Role::Operation { is_sleepable: true })
            } else if let Some(name) = name.strip_prefix(TRACE) {
                (name, Role::Trace)
            } else if let Some(name) = name.strip_prefix(CALL) {
                (name, Role::Call)
            } else if let Some(name) = name.strip_prefix(ITERATOR) {
                (name, Role::Iterator)
            } else {
                continue;
            };
            let data = section.data().map_err(|error| LoadError::Object(error.to_string()))?;
            let mut references = Vec::new();
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(index) = relocation.target() else { continue };
                let symbol = elf.symbol_by_index(index);
                let symbol = symbol.map_err(|error| LoadError::Object(error.to_string()))?;
                let target = symbol.name().unwrap_or_default().to_owned();
                let reference = match symbol.is_undefined() {
                    true => Reference::KernelFunction(target),
                    false => Reference::Map(target),
                };
                references.push((offset as usize, reference));
            }
            let own = relocations.get(section.name().unwrap_or_default());
            references.extend(own.into_iter().flatten().cloned());
            let instructions = data.to_vec();
            let (name, kind) = (name.to_owned(), kind.map(str::to_owned));
            programs.push(Program { name, kind, role, instructions, references });
        }
        let license = section("license")?.to_vec();
        Ok(Self { license, maps: map_definitions(&types)?, programs })
    }
}

/// The maps, each a variable in `.maps` whose members tell by their types: the number of elements of an array
/// that a pointer points to, or the size of what it points to.
fn map_definitions(types: &Btf<'_>) -> Result<Vec<MapDefinition>, BtfError> {
    let mut maps = Vec::new();
    let variables = match types.variables(".maps") {
        Err(BtfError::Missing(_)) => Vec::new(),
        other => other?,
    };
    for variable in variables {
        let of = types.resolved(types.size_or_type(variable)?)?;
        let mut map =
            MapDefinition { name: types.name_of(variable)?.to_owned(), ..MapDefinition::default() };
        for member in types.members(of)? {
            let target = types.size_or_type(types.resolved(member.type_id)?)?;
            let number = || types.array(types.resolved(target)?).map(|(_, count)| count);
            match member.name {
                "type" => map.kind = number()?,
                "max_entries" => map.max_entries = number()?,
                "map_flags" => map.flags = number()?,
                "key" => map.key_bytes = types.size_of(target)?,
                "value" => map.value_bytes = types.size_of(target)?,
                other => return Err(BtfError::Missing(format!("map attribute {other}"))),
            }
        }
        maps.push(map);
    }
    Ok(maps)
}

/// What the compiler noted of accesses to types of the kernel (`.BTF.ext`, `struct bpf_core_relo`), by section.
fn core_relocations(
    types: &Btf<'_>,
    bytes: &[u8],
) -> Result<BTreeMap<String, Vec<(usize, Reference)>>, LoadError> {
    const FIELD_BYTE_OFFSET: u32 = 0;
    const ENUMERATOR_VALUE: u32 = 11;
    let word = |offset: usize| -> Result<u32, LoadError> {
        let word = bytes.get(offset..offset + 4).ok_or(BtfError::Damaged(offset))?;
        Ok(u32::from_le_bytes(word.try_into().expect("four bytes")))
    };
    let header = word(4)? as usize;
    let mut offset = header + word(24)? as usize;
    let end = offset + word(28)? as usize;
    let record = word(offset)? as usize;
    offset += 4;
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    while offset < end {
        let of_section = found.entry(types.text_at(word(offset)?).to_owned()).or_default();
        let count = word(offset + 4)? as usize;
        offset += 8;
        for _ in 0..count {
            let (instruction, id) = (word(offset)? as usize, word(offset + 4)?);
            let access = types.text_at(word(offset + 8)?);
            let reference = match word(offset + 12)? {
                FIELD_BYTE_OFFSET => field(types, id, access)?,
                ENUMERATOR_VALUE => {
                    let index = access.parse().map_err(|_| BtfError::Damaged(offset))?;
                    let id = types.resolved(id)?;
                    let name = types.enumerator_name(id, index)?.to_owned();
                    Reference::Enumerator { of: types.name_of(id)?.to_owned(), name }
                }
                kind => {
                    return Err(LoadError::Object(format!("relocations of kind {kind} are new")));
                }
            };
            of_section.push((instruction, reference));
            offset += record;
        }
    }
    Ok(found)
}

/// An access in the compiler's words, `0:3:1`: the first index is that of the pointer.
fn field(types: &Btf<'_>, id: u32, access: &str) -> Result<Reference, BtfError> {
    let mut at = types.resolved(id)?;
    let of = types.name_of(at)?.to_owned();
    let mut steps = Vec::new();
    for index in access.split(':').skip(1) {
        let index: u32 = index.parse().map_err(|_| BtfError::Damaged(id as usize))?;
        let next = match types.kind_of(at)? {
            Kind::Array => {
                steps.push(Step::Element(index));
                types.array(at)?.0
            }
            _ => {
                let members = types.members(at)?;
                let member = members.get(index as usize).ok_or(BtfError::Damaged(id as usize))?;
                steps.push(Step::Member(member.name.to_owned()));
                member.type_id
            }
        };
        at = types.resolved(next)?;
    }
    Ok(Reference::Field { of, steps })
}

/// Where a field is in the running kernel's type, in bytes.
///
/// # Errors
/// When the kernel has no such type or member, and when the description is damaged.
pub(crate) fn field_offset(kernel: &Btf<'_>, of: &str, steps: &[Step]) -> Result<u32, BtfError> {
    let mut at = kernel.id_of(Kind::Struct, of)?;
    let mut offset = 0_u32;
    for step in steps {
        let damaged = || BtfError::Damaged(at as usize);
        let (next, more) = match step {
            Step::Element(index) => {
                let (element, _) = kernel.array(at)?;
                let more = index.checked_mul(kernel.size_of(element)?).ok_or_else(damaged)?;
                (element, more)
            }
            Step::Member(name) => member_of(kernel, at, name, &mut BTreeSet::new())?
                .ok_or_else(|| BtfError::Missing(format!("{of}.{name}")))?,
        };
        offset = offset.checked_add(more).ok_or_else(damaged)?;
        at = kernel.resolved(next)?;
    }
    Ok(offset)
}

/// A member's type and offset, in the struct itself or in a part of it that has no name. Parts that were looked
/// into are not looked into again: a struct that is a part of itself is damage, and has no member that the first
/// look did not find.
fn member_of(
    kernel: &Btf<'_>,
    id: u32,
    name: &str,
    seen: &mut BTreeSet<u32>,
) -> Result<Option<(u32, u32)>, BtfError> {
    if !seen.insert(id) {
        return Ok(None);
    }
    for member in kernel.members(id)? {
        if member.name == name {
            return Ok(Some((member.type_id, member.offset_bytes)));
        }
        if !member.name.is_empty() {
            continue;
        }
        let part = kernel.resolved(member.type_id)?;
        if matches!(kernel.kind_of(part)?, Kind::Struct | Kind::Union)
            && let Some((found, offset)) = member_of(kernel, part, name, seen)?
        {
            let offset = member.offset_bytes.checked_add(offset);
            return Ok(Some((found, offset.ok_or(BtfError::Damaged(part as usize))?)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use crate::btf::encoded;
    use crate::{OBJECT, THREADS_OBJECT};

    #[test]
    fn the_shipped_object_has_the_programs_and_maps_of_its_source() {
        let object = ObjectFile::parse(OBJECT).unwrap();
        assert_eq!(object.license, b"Dual MIT/GPL\0");
        let mut sleepable = object
            .programs
            .iter()
            .filter(|program| matches!(program.role, Role::Operation { is_sleepable: true }));
        assert_eq!(sleepable.next().unwrap().name, "init");
        assert!(sleepable.next().is_none());
        let traces = object.programs.iter().filter(|program| program.role == Role::Trace);
        let traces: Vec<&str> = traces.map(|program| program.name.as_str()).collect();
        assert_eq!(traces, ["cgroup_attach_task", "cpuhp_enter", "cpuhp_exit"]);
        let map = |name: &str| object.maps.iter().find(|map| map.name == name).unwrap();
        let threads = map("threads");
        // `struct thread`: three numbers of its plan in two words, nine counts, four times, and who woke it.
        assert_eq!((threads.kind, threads.key_bytes, threads.value_bytes), (29, 4, 136));
        assert_eq!(threads.value_bytes as usize, crate::layout::THREAD_BYTES);
        assert_eq!(map("sets").value_bytes, (16 + 3) * 8);
        assert_eq!(map("sets").max_entries, crate::layout::SETS);
        assert_eq!(map("cpus").value_bytes, (1 + 16 + 2) * 4);
        assert_eq!(map("cpus").max_entries, crate::layout::CPUS);
        assert_eq!((map("groups").key_bytes, map("groups").value_bytes), (8, 16));
        assert_eq!(map("groups").max_entries as usize, crate::layout::GROUPS);
        assert_eq!(map("settings").value_bytes, 8);
        assert_eq!(map("online").value_bytes, 16 * 8);
        assert_eq!(map("wakers").max_entries, crate::layout::WAKER_PAIRS);
        assert_eq!(map("threads").value_bytes as usize, crate::layout::THREAD_BYTES);
        assert_eq!(
            (map("stints").key_bytes, map("stints").max_entries),
            (0, crate::layout::STINTS as u32)
        );
        assert_eq!(map("stints").value_bytes as usize, crate::layout::STINT_BYTES);
        assert_eq!(map("exits").value_bytes as usize, crate::layout::EXIT_BYTES);
    }

    #[test]
    fn accesses_to_the_kernels_types_are_noted_by_name() {
        let object = ObjectFile::parse(OBJECT).unwrap();
        let enqueue = object.programs.iter().find(|program| program.name == "enqueue").unwrap();
        let steps = ["se", "sum_exec_runtime"].map(|name| Step::Member(name.to_owned())).to_vec();
        let field = Reference::Field { of: "task_struct".to_owned(), steps };
        assert!(enqueue.references.iter().any(|(_, reference)| *reference == field));
        let queued = Reference::KernelFunction("__scx_bpf_dsq_insert_vtime".to_owned());
        assert!(enqueue.references.iter().any(|(_, reference)| *reference == queued));
    }

    /// Each operation stands once, and one that nobody asked for costs nothing.
    #[test]
    fn programs_of_a_kind_stand_where_they_are_asked_for() {
        let chosen = |kinds: &[&str]| {
            let mut object = ObjectFile::parse(OBJECT).unwrap();
            object.choose(kinds);
            let of = object.programs.into_iter().map(|one| (one.name, one.kind));
            let shown = ["enqueue", "running", "select_cpu", "stopping"];
            let mut of: Vec<_> = of.filter(|(name, _)| shown.contains(&name.as_str())).collect();
            of.sort_unstable();
            of
        };
        let named = |name: &str, kind: Option<&str>| (name.to_owned(), kind.map(str::to_owned));
        let plain = ["enqueue", "running", "select_cpu"].map(|name| named(name, None));
        assert_eq!(chosen(&[]), plain);
        let (enqueue, running, select) = ("enqueue", "running", "select_cpu");
        let kept = |name| named(name, Some("stints"));
        let expected = [named(enqueue, None), kept(running), named(select, None), kept("stopping")];
        assert_eq!(chosen(&["stints"]), expected);
        let counted = |name| named(name, Some("wakers"));
        let expected = [counted(enqueue), kept(running), counted(select), kept("stopping")];
        assert_eq!(chosen(&["stints", "wakers"]), expected);
    }

    /// What nobody asked to count takes no memory, and who looks for the counts does not find them.
    #[test]
    fn maps_that_no_program_uses_are_not_made() {
        let chosen = |kinds: &[&str]| {
            let mut object = ObjectFile::parse(OBJECT).unwrap();
            object.choose(kinds);
            let mut names: Vec<String> = object.maps.into_iter().map(|map| map.name).collect();
            names.sort_unstable();
            names
        };
        let plain = ["cpus", "exits", "groups", "online", "sets", "settings", "threads"];
        assert_eq!(chosen(&[]), plain);
        let mut all = [&plain[..], &["stints", "wakers"]].concat();
        all.sort_unstable();
        assert_eq!(chosen(&["stints", "wakers"]), all);
    }

    /// `struct s { struct a; }` where `struct a { struct a; unsigned last; }`: neither member that is
    /// a struct has a name.
    #[test]
    fn a_struct_that_is_a_part_of_itself_has_no_more_members_by_that() {
        const STRUCT: u32 = 4 << 24;
        let types = [
            [1, STRUCT | 1, 8, 0, 2, 0].as_slice(),
            &[0, STRUCT | 2, 8, 0, 2, 0, 3, 3, 32],
            &[0, 1 << 24, 4, 32],
        ];
        let bytes = encoded(&types.concat(), b"\0s\0last\0");
        let kernel = Btf::parse(&bytes).unwrap();
        let offset = |name: &str| field_offset(&kernel, "s", &[Step::Member(name.to_owned())]);
        assert_eq!(offset("last"), Ok(4));
        assert_eq!(offset("first"), Err(BtfError::Missing("s.first".to_owned())));
    }

    #[test]
    fn an_element_beyond_32_bits_is_damage() {
        let types = [
            [1, 4 << 24 | 1, 8, 3, 2, 0].as_slice(),
            &[0, 3 << 24, 0, 3, 3, 9],
            &[0, 1 << 24, u32::MAX, 32],
        ];
        let bytes = encoded(&types.concat(), b"\0s\0list\0");
        let kernel = Btf::parse(&bytes).unwrap();
        let steps = [Step::Member("list".to_owned()), Step::Element(2)];
        assert_eq!(field_offset(&kernel, "s", &steps), Err(BtfError::Damaged(2)));
    }

    /// Another version of clang may order instructions differently: only that of the shipped object is asked.
    #[test]
    fn source_and_shipped_object_agree() {
        let Ok(version) = Command::new("clang-19").arg("--version").output() else {
            eprintln!("skipped: the scheduler in the kernel is compiled by clang-19");
            return;
        };
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        if !version.contains("19.1.7") {
            eprintln!("skipped: the shipped object is of clang 19.1.7, not of {version}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/build.sh");
        let answer = Command::new(script).arg(folder.path()).output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        for (name, shipped) in [("corun", OBJECT), ("threads", THREADS_OBJECT)] {
            let made = std::fs::read(folder.path().join(format!("{name}.bpf.o"))).unwrap();
            let (made, shipped) = (ObjectFile::parse(&made).unwrap(), ObjectFile::parse(shipped));
            assert!(made == shipped.unwrap(), "{name}: run crates/corun-scx/bpf/build.sh");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(place in 0usize..1 << 20, byte: u8, length in 0usize..1 << 17) {
            let mut bytes = OBJECT[..OBJECT.len().min(length)].to_vec();
            if !bytes.is_empty() {
                let place = place % bytes.len();
                bytes[place] = byte;
            }
            let _ = ObjectFile::parse(&bytes);
        }
    }
}
