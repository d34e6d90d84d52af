//! Asking for memory before it is needed.
//!
//! Of many connections each one is out of the cache when its next segment comes. Whoever knows
//! beforehand whose segment is next can have its cache lines come while something else is done.
//! Where the processor has no instruction for it (x86-64 and AArch64 do) nothing happens, and
//! nothing else changes.

use core::ops::Range;
use prefetch_index::prefetch_index;

/// What processors of today bring in at once.
const LINE: usize = 64;

/// Asks for the cache lines of `value`, not of what it points to.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_span(value, size_of::<T>());
}

/// The same of what there may be, without looking whether there is.
#[inline]
pub fn prefetch_any<T>(value: Option<&T>) {
    ask::<T>(
        value.map_or(0, |value| core::ptr::from_ref(value).addr()),
        0..size_of::<T>(),
    );
}

/// Asks for the cache lines of the `bytes` bytes from the start of `first` on, which need not all
/// be of `first`.
#[inline]
pub fn prefetch_span<T>(first: &T, bytes: usize) {
    prefetch_part(first, 0..bytes);
}

/// Asks for the cache lines of the bytes in `part`, counted from the start of `first` on.
#[inline]
pub fn prefetch_part<T>(first: &T, part: Range<usize>) {
    ask::<T>(core::ptr::from_ref(first).addr(), part);
}

/// Asks for the cache lines of one more that would follow `all`.
#[inline]
pub fn prefetch_after<T>(all: &[T]) {
    ask::<T>(all.as_ptr_range().end.addr(), 0..size_of::<T>());
}

/// Those of the bytes in `part` of a `T` that begins at `start`.
#[inline]
fn ask<T>(start: usize, part: Range<usize>) {
    // Where what is aligned begins a line is known here, and then each line is one instruction.
    let skew = match align_of::<T>() % LINE {
        0 => 0,
        // It is within a line.
        align if part.end <= align => 0,
        _ => start % LINE,
    };
    let begin = (part.start + skew) / LINE;
    let end = (part.end + skew).div_ceil(LINE);
    // An index counts from where the slice is, and a hint may name any address.
    let nothing: &[u8] = &[];
    let base = (start - skew).wrapping_sub(nothing.as_ptr().addr());
    if !part.is_empty() {
        for line in begin..end {
            prefetch_index(nothing, base.wrapping_add(line * LINE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any address will do: nothing is read.
    #[test]
    fn reads_nothing() {
        let value = [0_u8; 200];
        prefetch(&value);
        prefetch_span(&value[199], 1 << 16);
        prefetch_part(&value, 64..64);
        prefetch_after(&value);
        prefetch_after::<u64>(&[]);
        prefetch_part(&value, 100..1 << 16);
        prefetch(&());
        prefetch_any(Some(&value));
        prefetch_any::<[u8; 200]>(None);
    }
}
