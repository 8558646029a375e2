//! The stream of what a guest thread did: blocks it ran, lines and pages it touched, 8 bytes an event.

/// Bytes of a cache line. All distances are counted in these.
pub const LINE_BYTES: u64 = 64;

/// Bytes of a word: how finely an access's place is told.
pub(crate) const WORD_BYTES: u64 = 8;

const BLOCK: u64 = 1 << 63;
const STORE: u64 = 1 << 62;
/// With [`BLOCK`]: a page.
const PAGE: u64 = BLOCK | 1 << 62;
/// With [`PAGE`]: it is written to.
const PAGE_STORE: u64 = 1 << 61;
const INDEX_SHIFT: u32 = 50;
const INDEX_MASK: u64 = 0xfff;
const WORD_MASK: u64 = (1 << INDEX_SHIFT) - 1;
const WORDS_A_LINE: u64 = LINE_BYTES / WORD_BYTES;

/// One event, packed: a block's number, the place that an instruction of the running block touched, or
/// the number of a page that was not touched of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent(u64);

/// An [`TraceEvent`], taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpacked {
    /// A block of code begins.
    Block(u32),
    /// A page, which may be new or not yet written to, is touched by the next access.
    Page {
        /// Address / 4096.
        page: u64,
        /// Does it write?
        store: bool,
    },
    /// A data access of the block that began last.
    Data {
        /// Address / 8, modulo 2^50.
        word: u64,
        /// Which instruction of the block.
        index: u32,
        /// Does it write?
        store: bool,
    },
}

/// The line of a word.
#[inline(always)]
pub fn line_of(word: u64) -> u64 {
    word / WORDS_A_LINE
}

impl TraceEvent {
    /// The block with this number begins.
    #[inline]
    pub fn block(id: u32) -> Self {
        Self(BLOCK | u64::from(id))
    }

    /// The next access touches this page (address / 4096), which may be new or not yet written to.
    #[inline]
    pub fn page(number: u64, store: bool) -> Self {
        Self(PAGE | number | if store { PAGE_STORE } else { 0 })
    }

    /// Instruction `index` (modulo 4096; QEMU's blocks end at 512) of the running block touches a
    /// word (address / 8).
    #[inline]
    pub fn data(word: u64, index: u32, store: bool) -> Self {
        let store = if store { STORE } else { 0 };
        Self(store | (u64::from(index) & INDEX_MASK) << INDEX_SHIFT | word & WORD_MASK)
    }

    /// Does this access add nothing to the event before it: the same word again, and not written
    /// first? In every cache it hits, and the order of lines stays as it is.
    #[inline]
    pub fn repeats(self, before: Self) -> bool {
        let told_apart = BLOCK | WORD_MASK | self.0 & STORE;
        (self.0 ^ before.0) & told_apart == 0
    }

    /// Takes it apart.
    #[inline]
    pub fn unpack(self) -> Unpacked {
        if self.0 & BLOCK != 0 {
            return if self.0 & PAGE == PAGE {
                let store = self.0 & PAGE_STORE != 0;
                Unpacked::Page { page: self.0 & !(PAGE | PAGE_STORE), store }
            } else {
                Unpacked::Block(self.0 as u32)
            };
        }
        Unpacked::Data {
            word: self.0 & WORD_MASK,
            index: (self.0 >> INDEX_SHIFT & INDEX_MASK) as u32,
            store: self.0 & STORE != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks() {
        assert_eq!(TraceEvent::block(u32::MAX).unpack(), Unpacked::Block(u32::MAX));
        let page = 0xf_ffff_ffff_ffff;
        for store in [false, true] {
            assert_eq!(TraceEvent::page(page, store).unpack(), Unpacked::Page { page, store });
            let word = 0x7fff_ffff_ffff / WORD_BYTES;
            let event = TraceEvent::data(word, 511, store);
            assert_eq!(event.unpack(), Unpacked::Data { word, index: 511, store });
            assert_eq!(line_of(word), 0x7fff_ffff_ffff / LINE_BYTES);
        }
    }

    #[test]
    fn the_same_word_again_adds_nothing_unless_written_first() {
        let [load, store] = [false, true].map(|store| TraceEvent::data(7, 3, store));
        assert!(
            TraceEvent::data(7, 4, false).repeats(load)
                && TraceEvent::data(7, 4, false).repeats(store)
        );
        assert!(
            TraceEvent::data(7, 4, true).repeats(store)
                && !TraceEvent::data(7, 4, true).repeats(load)
        );
        assert!(!TraceEvent::data(6, 3, false).repeats(load));
        assert!(!TraceEvent::data(7, 3, false).repeats(TraceEvent::block(7)));
        assert!(!TraceEvent::data(7, 3, true).repeats(TraceEvent::page(7, true)));
    }
}
