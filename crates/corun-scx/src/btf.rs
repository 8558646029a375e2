//! BTF, the kernel's description of its own types (`Documentation/bpf/btf.rst`): as much of it as a loader needs.

use std::ffi::CStr;

use rustc_hash::FxHashMap;

/// A type's kind, as numbered in `linux/btf.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Int = 1,
    Pointer = 2,
    Array = 3,
    Struct = 4,
    Union = 5,
    Enum = 6,
    Forward = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Function = 12,
    FunctionType = 13,
    Variable = 14,
    DataSection = 15,
    Float = 16,
    DeclarationTag = 17,
    TypeTag = 18,
    Enum64 = 19,
}

const KINDS: [Kind; 19] = [
    Kind::Int,
    Kind::Pointer,
    Kind::Array,
    Kind::Struct,
    Kind::Union,
    Kind::Enum,
    Kind::Forward,
    Kind::Typedef,
    Kind::Volatile,
    Kind::Const,
    Kind::Restrict,
    Kind::Function,
    Kind::FunctionType,
    Kind::Variable,
    Kind::DataSection,
    Kind::Float,
    Kind::DeclarationTag,
    Kind::TypeTag,
    Kind::Enum64,
];

/// Why BTF cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// The bytes end too early, or have an unknown kind of type: the offset of the type.
    #[error("the description of types (BTF) is damaged at byte {0}")]
    Damaged(usize),
    /// What the scheduler needs and this kernel does not have.
    #[error("this kernel has no {0}")]
    Missing(String),
}

/// One description of types: the kernel's, or that of an object.
#[derive(Debug)]
pub(crate) struct Btf<'a> {
    strings: &'a [u8],
    types: &'a [u8],
    /// Where each type begins in `types`, by its id; id 0 is `void`.
    offsets: Vec<u32>,
    /// Structs, functions, enumerations and type definitions that have a name.
    ids: FxHashMap<(Kind, &'a [u8]), u32>,
}

/// A member of a struct or union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_id: u32,
    pub(crate) offset_bytes: u32,
}

fn u32_at(bytes: &[u8], offset: usize) -> Result<u32, BtfError> {
    let word = bytes.get(offset..offset + 4).ok_or(BtfError::Damaged(offset))?;
    Ok(u32::from_le_bytes(word.try_into().expect("four bytes")))
}

impl<'a> Btf<'a> {
    /// Reads little-endian BTF.
    ///
    /// # Errors
    /// When the bytes are none.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        if u32_at(bytes, 0)? & 0xffff != 0xeb9f {
            return Err(BtfError::Damaged(0));
        }
        let header = u32_at(bytes, 4)? as usize;
        let section = |place: usize| -> Result<&'a [u8], BtfError> {
            let start = header + u32_at(bytes, place)? as usize;
            let end = start + u32_at(bytes, place + 4)? as usize;
            bytes.get(start..end).ok_or(BtfError::Damaged(place))
        };
        let (types, strings) = (section(8)?, section(16)?);
        let mut btf = Self { strings, types, offsets: vec![0], ids: FxHashMap::default() };
        let mut offset = 0;
        while offset < types.len() {
            let id = btf.offsets.len() as u32;
            btf.offsets.push(offset as u32);
            let (kind, count) = kind_and_count(types, offset)?;
            let named = [Kind::Struct, Kind::Function, Kind::Enum, Kind::Enum64, Kind::Typedef];
            if named.contains(&kind) {
                let name = btf.bytes_at(u32_at(types, offset)?);
                btf.ids.entry((kind, name)).or_insert(id);
            }
            offset += 12 + payload_bytes(kind, count);
        }
        Ok(btf)
    }

    fn bytes_at(&self, offset: u32) -> &'a [u8] {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        CStr::from_bytes_until_nul(rest).map_or(rest, CStr::to_bytes)
    }

    /// A text of the string table; empty where there is none.
    pub(crate) fn text_at(&self, offset: u32) -> &'a str {
        std::str::from_utf8(self.bytes_at(offset)).unwrap_or_default()
    }

    /// The id of a type by name.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when there is none.
    pub(crate) fn id_of(&self, kind: Kind, name: &str) -> Result<u32, BtfError> {
        let id = self.ids.get(&(kind, name.as_bytes())).copied();
        id.ok_or_else(|| BtfError::Missing(format!("{name} ({kind:?})").to_lowercase()))
    }

    fn offset_of(&self, id: u32) -> Result<usize, BtfError> {
        let offset = self.offsets.get(id as usize).filter(|_| id > 0);
        offset.map(|&offset| offset as usize).ok_or(BtfError::Damaged(id as usize))
    }

    pub(crate) fn kind_of(&self, id: u32) -> Result<Kind, BtfError> {
        Ok(kind_and_count(self.types, self.offset_of(id)?)?.0)
    }

    /// The name of a type; empty where it has none.
    pub(crate) fn name_of(&self, id: u32) -> Result<&'a str, BtfError> {
        Ok(self.text_at(u32_at(self.types, self.offset_of(id)?)?))
    }

    /// What a pointer, typedef, qualifier or variable is of; a struct's or integer's size in bytes.
    pub(crate) fn size_or_type(&self, id: u32) -> Result<u32, BtfError> {
        u32_at(self.types, self.offset_of(id)? + 8)
    }

    /// The type under typedefs and qualifiers.
    pub(crate) fn resolved(&self, mut id: u32) -> Result<u32, BtfError> {
        // A chain without an end would be damage; none is longer than this.
        for _ in 0..32 {
            match self.kind_of(id)? {
                Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag => {
                    id = self.size_or_type(id)?;
                }
                _ => return Ok(id),
            }
        }
        Err(BtfError::Damaged(id as usize))
    }

    /// The size of a type in bytes.
    pub(crate) fn size_of(&self, mut id: u32) -> Result<u32, BtfError> {
        let mut count = 1_u32;
        // An array of itself would be damage; none is of more dimensions than this.
        for _ in 0..32 {
            id = self.resolved(id)?;
            let size = match self.kind_of(id)? {
                Kind::Pointer => 8,
                Kind::Array => {
                    let (element, more) = self.array(id)?;
                    count = count.saturating_mul(more);
                    id = element;
                    continue;
                }
                _ => self.size_or_type(id)?,
            };
            return Ok(count.saturating_mul(size));
        }
        Err(BtfError::Damaged(id as usize))
    }

    /// An array's type of elements, and how many there are.
    pub(crate) fn array(&self, id: u32) -> Result<(u32, u32), BtfError> {
        let offset = self.offset_of(id)? + 12;
        Ok((u32_at(self.types, offset)?, u32_at(self.types, offset + 8)?))
    }

    /// The members of a struct or union, in order.
    pub(crate) fn members(&self, id: u32) -> Result<Vec<Member<'a>>, BtfError> {
        let offset = self.offset_of(id)?;
        let (_, count) = kind_and_count(self.types, offset)?;
        let has_bit_fields = u32_at(self.types, offset + 4)? >> 31 == 1;
        (0..count)
            .map(|member| {
                let offset = offset + 12 + member * 12;
                let bits = u32_at(self.types, offset + 8)?;
                let bits = if has_bit_fields { bits & 0xff_ffff } else { bits };
                Ok(Member {
                    name: self.text_at(u32_at(self.types, offset)?),
                    type_id: u32_at(self.types, offset + 4)?,
                    offset_bytes: bits / 8,
                })
            })
            .collect()
    }

    /// The variables of a data section: the ids of their types.
    pub(crate) fn variables(&self, section: &str) -> Result<Vec<u32>, BtfError> {
        for id in 1..self.offsets.len() as u32 {
            if self.kind_of(id)? == Kind::DataSection && self.name_of(id)? == section {
                let offset = self.offset_of(id)?;
                let (_, count) = kind_and_count(self.types, offset)?;
                return (0..count).map(|one| u32_at(self.types, offset + 12 + one * 12)).collect();
            }
        }
        Err(BtfError::Missing(section.to_owned()))
    }

    /// The value of an enumerator.
    ///
    /// # Errors
    /// [`BtfError::Missing`] when the enumeration has none of that name.
    pub(crate) fn enumerator(&self, id: u32, name: &str) -> Result<u64, BtfError> {
        let offset = self.offset_of(id)?;
        let (kind, count) = kind_and_count(self.types, offset)?;
        let bytes = if kind == Kind::Enum64 { 12 } else { 8 };
        for one in 0..count {
            let offset = offset + 12 + one * bytes;
            if self.text_at(u32_at(self.types, offset)?) == name {
                let low = u32_at(self.types, offset + 4)?;
                let high = match kind {
                    Kind::Enum64 => u32_at(self.types, offset + 8)?,
                    _ => 0,
                };
                return Ok(u64::from(high) << 32 | u64::from(low));
            }
        }
        Err(BtfError::Missing(name.to_owned()))
    }

    /// The name of an enumerator by its index.
    pub(crate) fn enumerator_name(&self, id: u32, index: u32) -> Result<&'a str, BtfError> {
        let offset = self.offset_of(id)?;
        let (kind, _) = kind_and_count(self.types, offset)?;
        let bytes = if kind == Kind::Enum64 { 12 } else { 8 };
        Ok(self.text_at(u32_at(self.types, offset + 12 + index as usize * bytes)?))
    }

    /// The enumeration of a name, of 32 or 64 bits.
    pub(crate) fn enumeration(&self, name: &str) -> Result<u32, BtfError> {
        self.id_of(Kind::Enum, name).or_else(|_| self.id_of(Kind::Enum64, name))
    }
}

/// Little-endian BTF of these types, in words, and these strings, each with a 0 behind it.
pub(crate) fn encoded(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let types_bytes = types.len() as u32 * 4;
    let header = [0x0001_eb9f, 24, 0, types_bytes, types_bytes, strings.len() as u32];
    let words = header.iter().chain(types).flat_map(|word| word.to_le_bytes());
    words.chain(strings.iter().copied()).collect()
}

fn kind_and_count(types: &[u8], offset: usize) -> Result<(Kind, usize), BtfError> {
    let info = u32_at(types, offset + 4)?;
    let kind = KINDS.get(((info >> 24 & 0x1f) as usize).wrapping_sub(1));
    Ok((*kind.ok_or(BtfError::Damaged(offset))?, (info & 0xffff) as usize))
}

/// What follows the 12 bytes that every type has.
fn payload_bytes(kind: Kind, count: usize) -> usize {
    match kind {
        Kind::Int | Kind::Variable | Kind::DeclarationTag => 4,
        Kind::Array => 12,
        Kind::Struct | Kind::Union | Kind::DataSection | Kind::Enum64 => count * 12,
        Kind::Enum | Kind::FunctionType => count * 8,
        Kind::Pointer
        | Kind::Forward
        | Kind::Typedef
        | Kind::Volatile
        | Kind::Const
        | Kind::Restrict
        | Kind::Function
        | Kind::Float
        | Kind::TypeTag => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `struct pair { unsigned first; u8 bytes[3]; }` and `enum kind { A = 1, B = 7 }`, written by hand after
    /// `Documentation/bpf/btf.rst`.
    fn by_hand() -> Vec<u8> {
        let strings = b"\0pair\0first\0bytes\0kind\0A\0B\0";
        let types: [u32; 30] = [
            0,
            1 << 24,
            4,
            32, // 1: int of 4 bytes
            0,
            1 << 24,
            1,
            8, // 2: int of 1 byte
            0,
            3 << 24,
            0,
            2,
            1,
            3, // 3: array of three of type 2
            1,
            4 << 24 | 2,
            8,
            6,
            1,
            0,
            12,
            3,
            32, // 4: the struct
            18,
            6 << 24 | 2,
            4,
            23,
            1,
            25,
            7, // 5: the enumeration
        ];
        encoded(&types, strings)
    }

    #[test]
    fn structs_arrays_and_enumerations_are_as_written() {
        let bytes = by_hand();
        let btf = Btf::parse(&bytes).unwrap();
        let pair = btf.id_of(Kind::Struct, "pair").unwrap();
        assert_eq!((pair, btf.size_of(pair)), (4, Ok(8)));
        let first = Member { name: "first", type_id: 1, offset_bytes: 0 };
        let rest = Member { name: "bytes", type_id: 3, offset_bytes: 4 };
        assert_eq!(btf.members(pair), Ok(vec![first, rest]));
        assert_eq!((btf.size_of(3), btf.array(3)), (Ok(3), Ok((2, 3))));
        let kind = btf.enumeration("kind").unwrap();
        assert_eq!((btf.enumerator(kind, "B"), btf.enumerator_name(kind, 0)), (Ok(7), Ok("A")));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let bytes = by_hand();
        let btf = Btf::parse(&bytes).unwrap();
        let missing = |name: &str| Err(BtfError::Missing(name.to_owned()));
        assert_eq!(
            btf.id_of(Kind::Function, "scx_bpf_now").map(drop),
            missing("scx_bpf_now (function)")
        );
        assert_eq!(btf.enumerator(5, "C").map(drop), missing("C"));
        assert!(matches!(btf.kind_of(99), Err(BtfError::Damaged(_))));
        assert!(matches!(btf.kind_of(0), Err(BtfError::Damaged(_))));
    }

    /// The array's elements, at byte 24 + 16 + 16 + 12, are of type 2; here of the array's own.
    #[test]
    fn an_array_of_itself_is_damage() {
        let mut bytes = by_hand();
        bytes[68] = 3;
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!((btf.array(3), btf.size_of(3)), (Ok((3, 3)), Err(BtfError::Damaged(3))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>, place in 0usize..200, byte: u8) {
            let _ = Btf::parse(&bytes);
            let mut damaged = by_hand();
            let place = place % damaged.len();
            damaged[place] = byte;
            if let Ok(btf) = Btf::parse(&damaged) {
                for id in 0..8 {
                    let _ = (btf.members(id), btf.size_of(id), btf.enumerator(id, "A"));
                }
            }
        }
    }
}
