//! Which line comes next: the same guess while writing and while reading.

use super::AccessKind;

const SLOTS_LOG2: u32 = 14;

/// Guesses a line by what was touched the last time in the same situation. A data access's
/// situation is the line of code that runs and the last few operations, which mostly tell the
/// instruction; a fetch's is the two lines of code before.
#[derive(Debug, Clone)]
pub(super) struct Predictor {
    seen: Box<[u64]>,
    code: u64,
    code_before: u64,
    operations: u32,
}

impl Predictor {
    pub(super) fn new() -> Self {
        let seen = vec![0; 1 << SLOTS_LOG2].into_boxed_slice();
        Self { seen, code: 0, code_before: 0, operations: 0 }
    }

    /// The line expected of an access with this operation byte. [`Self::learn`] is told next what
    /// it was.
    #[inline]
    pub(super) fn expected(&self, operation: u8, kind: AccessKind) -> (usize, u64) {
        let situation = if kind == AccessKind::Fetch {
            self.code ^ self.code_before.rotate_left(24) ^ 1 << 63
        } else {
            let recent = u64::from(self.operations) << 8 | u64::from(operation);
            self.code ^ recent << 24
        };
        // Fibonacci hashing (Knuth, TAOCP 3, section 6.4).
        let mixed = (situation ^ situation >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = (mixed >> (64 - SLOTS_LOG2)) as usize;
        (slot, self.seen[slot])
    }

    #[inline]
    pub(super) fn learn(&mut self, slot: usize, operation: u8, kind: AccessKind, line: u64) {
        self.seen[slot] = line;
        if kind == AccessKind::Fetch {
            self.code_before = self.code;
            self.code = line;
            self.operations = 0;
        } else {
            self.operations = self.operations << 8 | u32::from(operation);
        }
    }
}
