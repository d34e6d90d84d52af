//! Memory in large pages, for programs that hold very many connections.
//!
//! Ten thousand simulated hosts, or a hundred thousand connections, are more memory than the
//! processor's table of pages (TLB) can name in pages of 4 KiB, and each packet finds its connection
//! behind a walk through the page tables. Linux gives pages of 2 MiB to who asks for them, if
//! `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise` (where it is `always` it does so
//! unasked, where it is `never` nothing happens). [`LargePages`] asks.
#![allow(unsafe_code)] // Each block says why it is sound.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

mod small;

/// The system's allocator, but for blocks of 1 MiB and more, and of 1 KiB and less.
///
/// A program chooses it as its own:
///
/// ```
/// #[global_allocator]
/// static MEMORY: narrows::device::pages::LargePages = narrows::device::pages::LargePages;
/// ```
///
/// Large blocks begin on a large page each and ask for large pages, as many as come nearest to their size:
/// the system's own begin and end within large pages, and when one is made of what others have given back, it
/// keeps the small pages of those. What is asked for zeroed does not ask: it may be a large buffer of which
/// little is touched, and a large page is taken whole.
///
/// Small blocks lie in large pages, too, which are not given back: a connection's records of what it has lost
/// are hundreds of bytes. A thread takes and gives most of them without another's knowledge, in fewer
/// instructions than the system's take.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargePages;

/// Bytes of a large page: 2 MiB on x86-64, and on AArch64 with pages of 4 KiB.
const LARGE: usize = 2 << 20;

/// Of which blocks are made: as large as any small page.
const GRAIN: usize = 64 << 10;

/// Whether a block is a mapping of its own.
#[inline]
const fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE / 2 && layout.align() <= LARGE
}

/// Whether a block is of a chunk.
#[inline]
const fn is_small(layout: Layout) -> bool {
    layout.size() <= small::MOST && layout.align() <= small::STEP
}

/// What of a block of so many bytes is in large pages, which may be more than it needs.
const fn in_large_pages(size: usize) -> usize {
    (size + LARGE / 2) / LARGE * LARGE
}

/// What a block of so many bytes takes.
fn whole(size: usize) -> usize {
    size.next_multiple_of(GRAIN).max(in_large_pages(size))
}

/// Asks for large pages for the `size` bytes from `block` on, for the first `kept` of which that is done.
fn advise(block: *mut u8, kept: usize, size: usize) {
    let (from, to) = (in_large_pages(kept), in_large_pages(size));
    if from < to {
        // SAFETY: the range is of whole pages within the block. The advice changes neither what is in
        // them nor who may touch them; refused, it does nothing.
        unsafe { libc::madvise(block.add(from).cast(), to - from, libc::MADV_HUGEPAGE) };
    }
}

/// Zeros for `size` bytes, from a large page's beginning on; null if there is no memory.
#[cold]
fn map(size: usize) -> *mut u8 {
    let all = whole(size) + LARGE;
    let (access, private) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, wherever there is room.
    let found = unsafe { libc::mmap(ptr::null_mut(), all, access, private, -1, 0) };
    if found == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let found = found.cast::<u8>();
    let before = found.align_offset(LARGE);
    let after = LARGE - before;
    // SAFETY: `before` is less than a large page, so that the block and both parts around it, of whole
    // pages, are within the mapping. Nobody knows of it yet.
    unsafe {
        let block = found.add(before);
        unmap(found, before);
        unmap(block.add(whole(size)), after);
        block
    }
}

/// Gives `bytes` from `from` on back.
///
/// # Safety
/// They are whole pages of a mapping of [`map`], which nobody uses any more.
unsafe fn unmap(from: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise. It fails only where the kernel has no room to note it, and then
        // the memory is lost, no more.
        unsafe { libc::munmap(from.cast(), bytes) };
    }
}

/// A block of `old` bytes becomes one of `new`; null if there is no memory, and then it stays.
///
/// # Safety
/// `block` is of [`map`], for `old` bytes, and its user uses what is returned in place of it.
#[cold]
unsafe fn remap(block: *mut u8, old: usize, new: usize) -> *mut u8 {
    let (before, after) = (whole(old), whole(new));
    if after <= before {
        // SAFETY: what is beyond the new end is of the block, and not used any more.
        unsafe { unmap(block.add(after), before - after) };
        return block;
    }
    // SAFETY: it is a mapping of the block's user, and stays where it is.
    let grown = unsafe { libc::mremap(block.cast(), before, after, 0) };
    if grown != libc::MAP_FAILED {
        advise(block, old, new);
        return block;
    }
    let place = map(new);
    if place.is_null() {
        return place;
    }
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the block's pages move to the beginning of a larger mapping that nobody knows of yet, and
    // its user uses them there.
    let moved = unsafe { libc::mremap(block.cast(), before, before, how, place) };
    if moved == libc::MAP_FAILED {
        // SAFETY: it was made above. Where the block was to go the kernel may have made room, which by
        // now can be somebody else's: that is left as it is.
        unsafe { unmap(place.add(before), after - before) };
        return ptr::null_mut();
    }
    advise(place, 0, new);
    place
}

// Compiled here, where it is optimised, and not in the program, which need not be.
// SAFETY: what is neither large nor small is `System`'s, with the same arguments. What is large is a mapping
// of its own, aligned to more than the layout asks, of at least its size, and its pages keep what is in them.
// What is small is a block of `small`, of its size rounded up, aligned to `STEP`.
unsafe impl GlobalAlloc for LargePages {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_small(layout) {
            return small::with_lists(|lists| {
                lists.alloc(small::class(layout.size()), &small::SHARED)
            });
        }
        if is_large(layout) {
            let block = map(layout.size());
            if !block.is_null() {
                advise(block, 0, layout.size());
            }
            return block;
        }
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc(layout) }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_small(layout) {
            // SAFETY: the caller's promise.
            let block = unsafe { self.alloc(layout) };
            if !block.is_null() {
                // SAFETY: nobody else has the block.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        if is_large(layout) {
            return map(layout.size());
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that a layout may have.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if is_small(layout) && is_small(new) && small::class(layout.size()) == small::class(size) {
            return block;
        }
        match (
            is_small(layout) || is_small(new),
            is_large(layout),
            is_large(new),
        ) {
            // SAFETY: as above; the block is from `System`.
            (false, false, false) => unsafe { System.realloc(block, layout, size) },
            // SAFETY: the block is of `map`.
            (false, true, true) => unsafe { remap(block, layout.size(), size) },
            // SAFETY: the block is of `layout`, the other one of `new`, and they are not the same.
            _ => unsafe {
                let other = self.alloc(new);
                if !other.is_null() {
                    ptr::copy_nonoverlapping(block, other, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                other
            },
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_small(layout) {
            let class = small::class(layout.size());
            // SAFETY: the block is of `alloc`, and not used any more.
            return small::with_lists(|lists| unsafe {
                lists.dealloc(block, class, &small::SHARED)
            });
        }
        if is_large(layout) {
            // SAFETY: the block is of `map`, and not used any more.
            return unsafe { unmap(block, whole(layout.size())) };
        }
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
        for align in [8, 64] {
            keeps_what_is_in_it(align);
        }
    }

    fn keeps_what_is_in_it(align: usize) {
        let mut size = LARGE / 4;
        let mut layout = Layout::from_size_align(size, align).expect("a small power of two");
        // SAFETY: the size is not zero.
        let mut block = unsafe { LargePages.alloc(layout) };
        for next in [
            LARGE - 1,
            LARGE,
            3 * LARGE + 5,
            40 * LARGE,
            LARGE / 2,
            LARGE / 8,
            small::MOST,
            small::MOST - 1,
            17,
            2 * small::MOST,
            24,
            LARGE,
        ] {
            assert!(!block.is_null());
            assert_eq!(block.align_offset(align), 0);
            assert!(!is_large(layout) || block.align_offset(LARGE) == 0);
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
            layout = Layout::from_size_align(size, align).expect("as above");
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
