//! Numbers and choices out of bytes; when these run out, all are zero.

/// What is left of an input.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn u8(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) << 16 | u32::from(self.u16())
    }

    /// One of `n`.
    pub(super) fn below(&mut self, n: u8) -> u8 {
        self.u8() % n
    }

    pub(super) fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// At most `n` bytes.
    pub(super) fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// An offset near what matters: the edges of windows, the wrap, the far side of the circle.
    pub(super) fn offset(&mut self) -> i64 {
        match self.below(6) {
            0 | 1 => i64::from(self.u8() as i8),
            2 => i64::from(self.u16() as i16),
            3 => 20_000 + i64::from(self.u8() as i8),
            4 => i64::from(i32::MAX) + i64::from(self.u8() as i8),
            _ => i64::from(self.u32() as i32),
        }
    }
}
