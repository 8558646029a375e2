//! Puts the scheduler into the running kernel: its types into the instructions, maps, programs, and the table of
//! operations (`struct sched_ext_ops`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use crate::btf::{Btf, BtfError, Kind, encoded};
use crate::object_file::{
    INSTRUCTION_BYTES, MapDefinition, ObjectFile, Program, Reference, Role, Step, field_offset,
};
use crate::syscalls::{self, MapAttributes, ProgramAttributes};
use crate::{LoadError, lacks_rights};

const STRUCT_OPS: u32 = 26;
const TASK_STORAGE: u32 = 29;
const PROGRAM_STRUCT_OPS: u32 = 27;
const PROGRAM_SYSCALL: u32 = 31;
pub(crate) const PROGRAM_TRACING: u32 = 26;
/// The map is attached by a link (`BPF_F_LINK`).
const BY_LINK: u32 = 1 << 13;
/// The program may sleep (`BPF_F_SLEEPABLE`).
const SLEEPABLE: u32 = 1 << 4;
/// Calls and loads with a meaning of their own (`src_reg` of an instruction).
const OF_MAP: u8 = 1;
const OF_KERNEL_FUNCTION: u8 = 2;

/// The scheduler in the kernel. It is in force while this lives.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) maps: BTreeMap<String, OwnedFd>,
    /// By their names.
    pub(crate) programs: BTreeMap<String, OwnedFd>,
    operations: OwnedFd,
    /// The programs that the kernel runs at its tracepoints.
    traces: Vec<String>,
}

impl Loaded {
    /// Loads maps and programs; nothing is in force yet.
    ///
    /// # Errors
    /// When this kernel lacks what the scheduler needs, or refuses it.
    pub(crate) fn load(
        object: &ObjectFile,
        kernel: &Btf<'_>,
        name: &str,
    ) -> Result<Self, LoadError> {
        let mut maps = BTreeMap::new();
        for map in &object.maps {
            let made =
                create_map(map).map_err(LoadError::kernel(format!("the map {}", map.name)))?;
            maps.insert(map.name.clone(), made);
        }
        let table = kernel.id_of(Kind::Struct, "sched_ext_ops")?;
        let members = kernel.members(table)?;
        let mut programs = BTreeMap::new();
        for program in &object.programs {
            let instructions = linked(program, kernel, &maps)?;
            let index = members.iter().position(|member| member.name == program.name);
            let (kind, flags, member) = match program.role {
                Role::Call => (PROGRAM_SYSCALL, SLEEPABLE, (0, 0)),
                Role::Trace => {
                    let tracepoint = tracepoint(kernel, &program.name)?;
                    (PROGRAM_TRACING, 0, (tracepoint, syscalls::TRACEPOINT))
                }
                Role::Iterator => {
                    return Err(LoadError::Object(format!("{} is no scheduler's", program.name)));
                }
                Role::Operation { is_sleepable } => {
                    let index = index.ok_or_else(|| {
                        BtfError::Missing(format!("operation {} of sched_ext", program.name))
                    })?;
                    let flags = if is_sleepable { SLEEPABLE } else { 0 };
                    (PROGRAM_STRUCT_OPS, flags, (table, index as u32))
                }
            };
            let attributes = ProgramAttributes {
                name: &program.name,
                kind,
                instructions: &instructions,
                license: &object.license,
                flags,
                member,
            };
            programs.insert(program.name.clone(), load_program(attributes)?);
        }
        let operations = operations(kernel, name, &programs, &FLAGS)?;
        let traces = object.programs.iter().filter(|program| program.role == Role::Trace);
        let traces = traces.map(|program| program.name.clone()).collect();
        Ok(Self { maps, programs, operations, traces })
    }

    /// A scheduler without programs of its own.
    ///
    /// # Errors
    /// When this kernel has no such schedulers, or refuses it.
    pub(crate) fn bare(kernel: &Btf<'_>, name: &str) -> Result<Self, LoadError> {
        let (maps, programs) = (BTreeMap::new(), BTreeMap::new());
        let operations = operations(kernel, name, &programs, &[])?;
        Ok(Self { maps, programs, operations, traces: Vec::new() })
    }

    /// Puts the scheduler in force, as long as the answer lives.
    pub(crate) fn attach(&self) -> io::Result<Vec<OwnedFd>> {
        let traces =
            self.traces.iter().map(|name| syscalls::attach_trace(self.programs[name].as_fd()));
        let mut links = traces.collect::<io::Result<Vec<_>>>()?;
        // Dropped first: what follows the kernel's events lasts as long as what goes by them.
        links.insert(0, syscalls::attach(self.operations.as_fd())?);
        Ok(links)
    }
}

/// The kernel describes the arguments of its tracepoints by types of these names.
fn tracepoint(kernel: &Btf<'_>, name: &str) -> Result<u32, BtfError> {
    kernel.id_of(Kind::Typedef, &format!("btf_trace_{name}"))
}

fn create_map(map: &MapDefinition) -> io::Result<OwnedFd> {
    let attributes = MapAttributes {
        name: &map.name,
        kind: map.kind,
        key_bytes: map.key_bytes,
        value_bytes: map.value_bytes,
        max_entries: map.max_entries,
        flags: map.flags,
        ..MapAttributes::default()
    };
    if map.kind != TASK_STORAGE {
        return syscalls::create_map(attributes);
    }
    let types = syscalls::load_types(&types_of_storage(map.value_bytes))?;
    syscalls::create_map(MapAttributes { types: Some((types.as_fd(), 1, 3)), ..attributes })
}

/// Storage of threads wants its key and value described: type 1 is an int, type 2 a byte, type 3 an array of
/// as many bytes as the value has.
fn types_of_storage(value_bytes: u32) -> Vec<u8> {
    const INT: u32 = 1 << 24;
    const ARRAY: u32 = 3 << 24;
    let types: [u32; 14] = [1, INT, 4, 32, 5, INT, 1, 8, 0, ARRAY, 0, 2, 1, value_bytes];
    encoded(&types, b"\0int\0u8\0")
}

/// What the kernel lacks of what the scheduler needs, in the kernel's names, each once. Nothing is loaded.
///
/// # Errors
/// When the kernel's description of types is damaged.
pub(crate) fn missing(object: &ObjectFile, kernel: &Btf<'_>) -> Result<Vec<String>, BtfError> {
    let mut answers: Vec<Result<(), BtfError>> = Vec::new();
    let of_role = |is: fn(Role) -> bool| object.programs.iter().filter(move |one| is(one.role));
    let operations = of_role(|role| matches!(role, Role::Operation { .. }));
    for name in operations.map(|program| program.name.as_str()).chain(["flags", "name"]) {
        let steps = [Step::Member(name.to_owned())];
        answers.push(field_offset(kernel, "sched_ext_ops", &steps).map(drop));
    }
    let traces = of_role(|role| role == Role::Trace);
    answers.extend(traces.map(|program| tracepoint(kernel, &program.name).map(drop)));
    let enumerator = |of: &str, name: &str| {
        kernel.enumeration(of).and_then(|of| kernel.enumerator(of, name)).map(drop)
    };
    answers.extend(FLAGS.map(|flag| enumerator("scx_ops_flags", flag)));
    for (_, reference) in object.programs.iter().flat_map(|program| &program.references) {
        answers.push(match reference {
            Reference::Map(_) => Ok(()),
            Reference::KernelFunction(name) => kernel.id_of(Kind::Function, name).map(drop),
            Reference::Field { of, steps } => field_offset(kernel, of, steps).map(drop),
            Reference::Enumerator { of, name } => enumerator(of, name),
        });
    }
    let mut missing = BTreeSet::new();
    for answer in answers {
        match answer {
            Ok(()) => {}
            Err(BtfError::Missing(name)) => drop(missing.insert(name)),
            Err(damaged) => return Err(damaged),
        }
    }
    Ok(missing.into_iter().collect())
}

/// A program's instructions with what the running kernel says of its types and functions.
pub(crate) fn linked(
    program: &Program,
    kernel: &Btf<'_>,
    maps: &BTreeMap<String, OwnedFd>,
) -> Result<Vec<u8>, LoadError> {
    let mut bytes = program.instructions.clone();
    for (offset, reference) in &program.references {
        let damaged = || LoadError::Object(format!("{}: a reference is damaged", program.name));
        let last = bytes.len().checked_sub(2 * INSTRUCTION_BYTES).ok_or_else(damaged)?;
        if *offset > last + INSTRUCTION_BYTES {
            return Err(damaged());
        }
        match reference {
            Reference::Map(name) => {
                let map = maps.get(name).ok_or_else(damaged)?;
                set_source(&mut bytes, *offset, OF_MAP);
                set_immediate(&mut bytes, *offset, map.as_raw_fd() as u32);
            }
            Reference::KernelFunction(name) => {
                let id = kernel.id_of(Kind::Function, name)?;
                set_source(&mut bytes, *offset, OF_KERNEL_FUNCTION);
                set_immediate(&mut bytes, *offset, id);
            }
            Reference::Field { of, steps } => {
                let value = field_offset(kernel, of, steps)?;
                set_field(&mut bytes, *offset, value);
            }
            Reference::Enumerator { of, name } => {
                let value = kernel.enumerator(kernel.enumeration(of)?, name)?;
                set_immediate(&mut bytes, *offset, value as u32);
                if *offset > last {
                    return Err(damaged());
                }
                set_immediate(&mut bytes, offset + INSTRUCTION_BYTES, (value >> 32) as u32);
            }
        }
    }
    Ok(bytes)
}

fn set_source(bytes: &mut [u8], offset: usize, source: u8) {
    bytes[offset + 1] = bytes[offset + 1] & 0x0f | source << 4;
}

fn set_immediate(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset + 4..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// The offset of a member stands in a load's or store's offset, in arithmetic in the immediate.
fn set_field(bytes: &mut [u8], offset: usize, value: u32) {
    let is_memory = matches!(bytes[offset] & 7, 1..=3);
    if is_memory {
        bytes[offset + 2..offset + 4].copy_from_slice(&(value as u16).to_le_bytes());
    } else {
        set_immediate(bytes, offset, value);
    }
}

/// Loads a program; where the verifier refuses it, once more to hear why.
pub(crate) fn load_program(program: ProgramAttributes<'_>) -> Result<OwnedFd, LoadError> {
    const LOG_BYTES: usize = 1 << 24;
    let first = match syscalls::load_program(program, None) {
        Ok(loaded) => return Ok(loaded),
        Err(denied) if lacks_rights(&denied) => {
            return Err(LoadError::kernel(format!("the program {}", program.name))(denied));
        }
        Err(refused) => refused,
    };
    let mut log = vec![0; LOG_BYTES];
    let _ = syscalls::load_program(program, Some(&mut log));
    let log = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let log = String::from_utf8_lossy(log);
    let lines: Vec<&str> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(40)..].join("\n");
    Err(LoadError::Refused { program: program.name.to_owned(), reason: first, log: end })
}

/// The table of operations, filled with the programs that are members of it.
fn operations(
    kernel: &Btf<'_>,
    name: &str,
    programs: &BTreeMap<String, OwnedFd>,
    flags: &[&str],
) -> Result<OwnedFd, LoadError> {
    let whole = kernel.id_of(Kind::Struct, "bpf_struct_ops_sched_ext_ops")?;
    let table = kernel.id_of(Kind::Struct, "sched_ext_ops")?;
    let start = member_offset(kernel, whole, "data")?;
    let mut value = vec![0; kernel.size_of(whole)? as usize];
    let mut put = |member: &str, bytes: &[u8]| -> Result<(), LoadError> {
        let offset = start + member_offset(kernel, table, member)?;
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    };
    let members = kernel.members(table)?;
    let is_member = |name: &String| members.iter().any(|member| member.name == *name);
    for (program, descriptor) in programs.iter().filter(|(program, _)| is_member(program)) {
        put(program, &(descriptor.as_raw_fd() as u64).to_ne_bytes())?;
    }
    let known = kernel.enumeration("scx_ops_flags")?;
    let mut all = 0;
    for flag in flags {
        all |= kernel.enumerator(known, flag)?;
    }
    put("flags", &all.to_ne_bytes())?;
    put("name", name.as_bytes())?;
    // The kernel wants a description of types with the map, though the value's type is its own.
    let types = syscalls::load_types(&types_of_storage(1))
        .map_err(LoadError::kernel("a description of types".to_owned()))?;
    let map = MapAttributes {
        name: "corun_ops",
        kind: STRUCT_OPS,
        key_bytes: 4,
        value_bytes: value.len() as u32,
        max_entries: 1,
        flags: BY_LINK,
        kernel_type: whole,
        types: Some((types.as_fd(), 0, 0)),
    };
    let map = syscalls::create_map(map)
        .map_err(LoadError::kernel("making the table of operations".to_owned()))?;
    syscalls::update(map.as_fd(), &0u32.to_ne_bytes(), &value)
        .map_err(LoadError::kernel("filling the table of operations".to_owned()))?;
    Ok(map)
}

/// Only threads of the policy `SCHED_EXT`; what runs alone on a CPU is asked about too, because its plan may have
/// changed; and a thread whose CPU somebody else takes comes back to the scheduler.
const FLAGS: [&str; 3] = ["SCX_OPS_SWITCH_PARTIAL", "SCX_OPS_ENQ_LAST", "SCX_OPS_ALWAYS_ENQ_IMMED"];

fn member_offset(kernel: &Btf<'_>, of: u32, name: &str) -> Result<usize, BtfError> {
    let members = kernel.members(of)?;
    let member = members.iter().find(|member| member.name == name);
    let member = member.ok_or_else(|| BtfError::Missing(format!("sched_ext_ops.{name}")))?;
    Ok(member.offset_bytes as usize)
}
