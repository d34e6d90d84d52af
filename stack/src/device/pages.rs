//! Memory in large pages, for programs that hold very many connections.
//!
//! Ten thousand simulated hosts, or a hundred thousand connections, are more memory than the
//! processor's table of pages (TLB) can name in pages of 4 KiB, and each packet finds its connection
//! behind a walk through the page tables. Linux gives pages of 2 MiB to who asks for them, if
//! `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise` (where it is `always` it does so
//! unasked, where it is `never` nothing happens). [`LargePages`] asks.
#![allow(unsafe_code)] // Each block says why it is sound.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which asks for large pages where blocks are of 2 MiB and more.
///
/// A program chooses it as its own:
///
/// ```
/// #[global_allocator]
/// static MEMORY: narrows::device::pages::LargePages = narrows::device::pages::LargePages;
/// ```
///
/// What is asked for zeroed is left as it is: it may be a large buffer of which little is touched,
/// and a large page is taken whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargePages;

/// Bytes of a large page: 2 MiB on x86-64, and on AArch64 with pages of 4 KiB.
const LARGE: usize = 2 << 20;

/// Asks for large pages for a block that was just allocated, if it is large.
#[inline]
fn advise(block: *mut u8, size: usize) -> *mut u8 {
    if size >= LARGE && !block.is_null() {
        advise_large(block, size);
    }
    block
}

#[cold]
fn advise_large(block: *mut u8, size: usize) {
    let inside = block.align_offset(LARGE);
    let pages = size.saturating_sub(inside) / LARGE * LARGE;
    if pages > 0 {
        // SAFETY: `inside` is at most `size` here, and the range is whole pages of the block. The
        // advice changes neither what is in them nor who may touch them; refused, it does nothing.
        unsafe { libc::madvise(block.add(inside).cast(), pages, libc::MADV_HUGEPAGE) };
    }
}

// Compiled here, where it is optimised, and not in the program, which need not be.
// SAFETY: each call is that of `System` with the same arguments, and gives what it gives.
unsafe impl GlobalAlloc for LargePages {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is that of `System`.
        advise(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; the block is from `System`.
        advise(unsafe { System.realloc(block, layout, size) }, size)
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the block is from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of all sizes keep what is in them when they grow and shrink, also over the bound.
    #[test]
    fn gives_what_the_system_gives() {
        let mut size = LARGE / 4;
        let mut layout = Layout::from_size_align(size, 64).expect("a small power of two");
        // SAFETY: the size is not zero.
        let mut block = unsafe { LargePages.alloc(layout) };
        for next in [LARGE - 1, LARGE, 3 * LARGE + 5, 40 * LARGE, LARGE / 2] {
            assert!(!block.is_null());
            assert_eq!(block.align_offset(64), 0);
            // SAFETY: within the block, which nobody else has.
            unsafe {
                block.write(1);
                block.add(size / 2).write(2);
                block.add(size - 1).write(3);
            }
            let kept = (size / 2 < next, size <= next);
            // SAFETY: the block is of `layout`, and `next` is not zero.
            block = unsafe { LargePages.realloc(block, layout, next) };
            assert!(!block.is_null());
            // SAFETY: within the block, and written above.
            unsafe {
                assert_eq!(block.read(), 1);
                assert!(!kept.0 || block.add(size / 2).read() == 2);
                assert!(!kept.1 || block.add(size - 1).read() == 3);
            }
            size = next;
            layout = Layout::from_size_align(size, 64).expect("as above");
        }
        // SAFETY: the block is of `layout`.
        unsafe { LargePages.dealloc(block, layout) };
    }

    /// Whether the kernel has been asked for large pages at this address: `hg` among the flags of
    /// its range in `/proc/self/smaps`.
    fn is_advised(address: usize) -> bool {
        let ranges = std::fs::read_to_string("/proc/self/smaps").expect("proc is mounted");
        let mut inside = false;
        for line in ranges.lines() {
            let bounds = line
                .split_once(' ')
                .and_then(|(range, _)| range.split_once('-'))
                .and_then(|(from, to)| {
                    let from = usize::from_str_radix(from, 16).ok()?;
                    Some(from..usize::from_str_radix(to, 16).ok()?)
                });
            if let Some(bounds) = bounds {
                inside = bounds.contains(&address);
            } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
        }
        panic!("{address:x} is in no range");
    }

    /// Large blocks are advised, and zeros are not.
    #[test]
    fn asks_where_blocks_are_large() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return; // A kernel without them.
        }
        let layout = Layout::from_size_align(64 * LARGE, 1).expect("a size");
        // SAFETY: the size is not zero.
        let (block, zeros) = unsafe { (LargePages.alloc(layout), LargePages.alloc_zeroed(layout)) };
        assert!(!block.is_null() && !zeros.is_null());
        assert!(is_advised(block.addr() + 32 * LARGE));
        assert!(!is_advised(zeros.addr() + 32 * LARGE));
        // SAFETY: both blocks are of `layout`.
        unsafe {
            LargePages.dealloc(block, layout);
            LargePages.dealloc(zeros, layout);
        }
    }
}
