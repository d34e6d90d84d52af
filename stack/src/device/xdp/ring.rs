//! Rings shared with the kernel: one side writes entries and moves the producer index, the other
//! reads them and moves the consumer index. Both indices run through all of `u32` and wrap.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::sys::Mapping;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a ring holds.
pub(super) trait Entry: Copy {}
/// A frame of the fill or completion ring: its address in the UMEM.
impl Entry for u64 {}
/// A frame of the receive or transmit ring.
impl Entry for Descriptor {}

/// The kernel's `xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Where in the UMEM the frame begins.
    pub(super) addr: u64,
    /// Its length.
    pub(super) len: u32,
    pub(super) options: u32,
}

/// Where in the memory of a ring its parts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) producer: u64,
    pub(super) consumer: u64,
    pub(super) flags: u64,
    pub(super) entries: u64,
    /// Entries, a power of two.
    pub(super) size: u32,
}

impl Layout {
    pub(super) fn new(offsets: &libc::xdp_ring_offset, size: u32) -> Self {
        Self {
            producer: offsets.producer,
            consumer: offsets.consumer,
            flags: offsets.flags,
            entries: offsets.desc,
            size,
        }
    }

    /// Bytes of a ring of `T`.
    pub(super) fn len<T: Entry>(&self) -> usize {
        self.entries as usize + self.size as usize * size_of::<T>()
    }
}

/// The kernel does not keep to the rules of the ring.
pub(super) fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Entries between the two indices; `None`: more than there can be.
fn filled(producer: u32, consumer: u32, size: u32) -> Option<u32> {
    let n = producer.wrapping_sub(consumer);
    (n <= size).then_some(n)
}

/// The memory of a ring.
#[derive(Debug)]
struct Shared<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// What the pointers point into.
    _memory: Mapping,
}

// SAFETY: the pointers are into the mapping, which the value owns and which may change threads;
// entries are plain numbers.
unsafe impl<T: Entry + Send> Send for Shared<T> {}

impl<T: Entry> Shared<T> {
    fn new(memory: Mapping, layout: &Layout) -> io::Result<Self> {
        if !layout.size.is_power_of_two() {
            return Err(broken("a ring whose size is no power of two"));
        }
        let at = |offset: u64, len: usize, align: usize| {
            let offset = usize::try_from(offset).ok();
            let end = offset.and_then(|o| o.checked_add(len));
            match (offset, end) {
                (Some(offset), Some(end)) if end <= memory.len() && offset % align == 0 => {
                    // SAFETY: the offset is within the mapping, as just found.
                    Ok(unsafe { memory.start().add(offset) })
                }
                _ => Err(broken("a ring that is not in its memory")),
            }
        };
        let index = |offset| at(offset, size_of::<u32>(), align_of::<AtomicU32>());
        let len = layout.size as usize * size_of::<T>();
        Ok(Self {
            producer: index(layout.producer)?.cast(),
            consumer: index(layout.consumer)?.cast(),
            flags: index(layout.flags)?.cast(),
            entries: at(layout.entries, len, align_of::<T>())?.cast(),
            size: layout.size,
            _memory: memory,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `new` found it to be in the mapping and aligned; both sides use it atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    fn flags(&self) -> u32 {
        // SAFETY: as for the producer.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed)
    }

    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, the index is below `size`, and `new` found that many entries to be in
        // the mapping.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// Our end of a ring that we fill: fill and transmit.
#[derive(Debug)]
pub(super) struct Producer<T> {
    shared: Shared<T>,
    /// The next entry to write.
    head: u32,
    /// What the kernel knows of.
    published: u32,
    /// The consumer index as seen last.
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn new(memory: Mapping, layout: &Layout) -> io::Result<Self> {
        let shared = Shared::new(memory, layout)?;
        let head = shared.producer().load(Ordering::Relaxed);
        let mut ring = Self {
            shared,
            head,
            published: head,
            consumed: head,
        };
        ring.look()?;
        Ok(ring)
    }

    /// Look how far the kernel is; entries that it has not consumed.
    fn look(&mut self) -> io::Result<u32> {
        // Acquire: the kernel has read an entry before it is written again.
        self.consumed = self.shared.consumer().load(Ordering::Acquire);
        filled(self.head, self.consumed, self.shared.size)
            .ok_or_else(|| broken("the kernel's consumer index is out of range"))
    }

    /// Entries that the kernel knows of and has not consumed.
    pub(super) fn pending(&mut self) -> io::Result<u32> {
        self.look()?;
        Ok(self.published.wrapping_sub(self.consumed))
    }

    /// Whether another entry has room.
    pub(super) fn has_room(&mut self) -> io::Result<bool> {
        if self.head.wrapping_sub(self.consumed) < self.shared.size {
            return Ok(true);
        }
        Ok(self.look()? < self.shared.size)
    }

    /// Add an entry. The kernel sees it with the next [`publish`](Self::publish).
    ///
    /// # Panics
    /// Without [room](Self::has_room).
    pub(super) fn push(&mut self, entry: T) {
        let used = self.head.wrapping_sub(self.consumed);
        assert!(used < self.shared.size, "a full ring");
        // SAFETY: the entry is in the mapping; the kernel reads what lies between the consumer
        // index and the published producer index only, and the assertion keeps us out of there.
        unsafe { self.shared.entry(self.head).write_volatile(entry) };
        self.head = self.head.wrapping_add(1);
    }

    /// Whether the kernel sees all that was added.
    pub(super) fn is_published(&self) -> bool {
        self.published == self.head
    }

    /// Let the kernel see what was added.
    pub(super) fn publish(&mut self) {
        if self.published != self.head {
            self.published = self.head;
            // Release: the entries are written before the kernel sees that they are there.
            self.shared.producer().store(self.head, Ordering::Release);
        }
    }

    /// The kernel looks at the ring only when it is woken.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.shared.flags() & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our end of a ring that the kernel fills: receive and completion.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    shared: Shared<T>,
    /// The next entry to read.
    tail: u32,
    /// The producer index as seen last.
    produced: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn new(memory: Mapping, layout: &Layout) -> io::Result<Self> {
        let shared = Shared::new(memory, layout)?;
        let tail = shared.consumer().load(Ordering::Relaxed);
        let mut ring = Self {
            shared,
            tail,
            produced: tail,
        };
        ring.available()?;
        Ok(ring)
    }

    /// Look how far the kernel is; entries that can be read.
    pub(super) fn available(&mut self) -> io::Result<u32> {
        // Acquire: the entries up to there are written.
        self.produced = self.shared.producer().load(Ordering::Acquire);
        filled(self.produced, self.tail, self.shared.size)
            .ok_or_else(|| broken("the kernel's producer index is out of range"))
    }

    /// The next entry of those that were [available](Self::available).
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.tail == self.produced {
            return None;
        }
        // SAFETY: the entry is in the mapping; the kernel has published it and writes it again
        // only after the consumer index has passed it, which `release` does. It is read once, so
        // that what is checked is what is used.
        let entry = unsafe { self.shared.entry(self.tail).read_volatile() };
        self.tail = self.tail.wrapping_add(1);
        Some(entry)
    }

    /// Give the entries that were read back to the kernel.
    pub(super) fn release(&mut self) {
        // Release: they have been read before they are written again.
        self.shared.consumer().store(self.tail, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        producer: 0,
        consumer: 64,
        flags: 128,
        entries: 192,
        size: 8,
    };

    fn memory(producer: u32, consumer: u32) -> (Mapping, [NonNull<AtomicU32>; 3]) {
        let memory = Mapping::anonymous(LAYOUT.len::<Descriptor>()).unwrap();
        let at = [0, 64, 128].map(|offset| {
            // SAFETY: within the mapping, and aligned.
            unsafe { memory.start().add(offset) }.cast::<AtomicU32>()
        });
        set(at[0], producer);
        set(at[1], consumer);
        (memory, at)
    }

    fn set(at: NonNull<AtomicU32>, to: u32) {
        // SAFETY: it points into the memory of a ring that is alive in the test.
        unsafe { at.as_ref() }.store(to, Ordering::Release);
    }

    fn get(at: NonNull<AtomicU32>) -> u32 {
        // SAFETY: it points into the memory of a ring that is alive in the test.
        unsafe { at.as_ref() }.load(Ordering::Acquire)
    }

    #[test]
    fn indices_wrap() {
        assert_eq!(filled(3, u32::MAX - 1, 8), Some(5));
        assert_eq!(filled(u32::MAX, u32::MAX, 8), Some(0));
        assert_eq!(filled(7, u32::MAX, 8), Some(8));
        assert_eq!(filled(8, u32::MAX, 8), None);
        assert_eq!(filled(0, 1, 8), None);
    }

    #[test]
    fn a_producer_fills_and_wraps() {
        let start = u32::MAX - 2;
        let (memory, [producer, consumer, flags]) = memory(start, start);
        let mut ring = Producer::<u64>::new(memory, &LAYOUT).unwrap();
        for i in 0..8 {
            assert!(ring.has_room().unwrap(), "{i}");
            ring.push(i);
        }
        assert!(!ring.has_room().unwrap());
        // Nothing is seen before it is published.
        assert_eq!(get(producer), start);
        assert_eq!(ring.pending().unwrap(), 0);
        ring.publish();
        assert_eq!(get(producer), start.wrapping_add(8));
        assert_eq!(ring.pending().unwrap(), 8);
        set(consumer, start.wrapping_add(5));
        assert_eq!(ring.pending().unwrap(), 3);
        for i in 8..13 {
            assert!(ring.has_room().unwrap());
            ring.push(i);
        }
        assert!(!ring.has_room().unwrap());
        assert!(!ring.needs_wakeup());
        set(flags, libc::XDP_RING_NEED_WAKEUP);
        assert!(ring.needs_wakeup());
    }

    #[test]
    fn a_consumer_reads_what_a_producer_wrote() {
        let start = u32::MAX - 4;
        let (theirs, [written, read, _]) = memory(start, start);
        let mut from = Producer::<Descriptor>::new(theirs, &LAYOUT).unwrap();
        let (ours, [producer, consumer, _]) = memory(start, start);
        let entries = |memory: NonNull<AtomicU32>| {
            // SAFETY: the entries are 192 bytes behind the producer index of a live ring.
            unsafe { memory.cast::<u8>().add(192) }
        };
        let mut to = Consumer::<Descriptor>::new(ours, &LAYOUT).unwrap();
        let mut next = 0;
        for round in 1..20_u32 {
            let n = round % 8 + 1;
            for i in 0..n {
                assert!(from.has_room().unwrap());
                from.push(Descriptor {
                    addr: u64::from(next + i),
                    len: i,
                    options: 0,
                });
            }
            from.publish();
            // What the kernel is: the same memory in both rings.
            // SAFETY: both are as long as eight descriptors, and apart.
            unsafe {
                entries(written)
                    .copy_to_nonoverlapping(entries(producer), 8 * size_of::<Descriptor>());
            }
            set(producer, get(written));
            assert_eq!(to.available().unwrap(), n);
            for i in 0..n {
                let entry = to.pop().unwrap();
                assert_eq!((entry.addr, entry.len), (u64::from(next + i), i));
            }
            assert_eq!(to.pop(), None);
            to.release();
            set(read, get(consumer));
            next += n;
        }
    }

    /// A side of a ring as the other side sees it.
    #[derive(Clone, Copy)]
    struct Kernel {
        producer: NonNull<AtomicU32>,
        consumer: NonNull<AtomicU32>,
        entries: NonNull<u64>,
    }

    // SAFETY: the pointers are into the memory of a ring that outlives the thread; the indices are
    // atomic and say who may touch which entry.
    unsafe impl Send for Kernel {}

    impl Kernel {
        fn of(memory: &Mapping, [producer, consumer, _]: [NonNull<AtomicU32>; 3]) -> Self {
            // SAFETY: within the mapping, and aligned.
            let entries = unsafe { memory.start().add(LAYOUT.entries as usize) }.cast();
            Self {
                producer,
                consumer,
                entries,
            }
        }

        fn entry(&self, index: u32) -> NonNull<u64> {
            // SAFETY: masked, the index is below the number of entries.
            unsafe { self.entries.add((index & (LAYOUT.size - 1)) as usize) }
        }
    }

    const ENTRIES: u32 = 200;

    /// The other side runs beside us, and nothing but the indices says what it may touch: Miri and
    /// the thread sanitizer notice if they do not say enough.
    #[test]
    fn a_producer_beside_the_other_side() {
        let (memory, at) = memory(0, 0);
        let kernel = Kernel::of(&memory, at);
        let mut ring = Producer::<u64>::new(memory, &LAYOUT).unwrap();
        std::thread::scope(|threads| {
            let other = threads.spawn(move || {
                let kernel = kernel;
                for index in 0..ENTRIES {
                    while get(kernel.producer) == index {
                        std::thread::yield_now();
                    }
                    // SAFETY: published, and not yet consumed.
                    let entry = unsafe { kernel.entry(index).read_volatile() };
                    assert_eq!(entry, u64::from(index));
                    set(kernel.consumer, index + 1);
                }
            });
            for index in 0..ENTRIES {
                while !ring.has_room().unwrap() {
                    assert!(!other.is_finished());
                    std::thread::yield_now();
                }
                ring.push(index.into());
                if index % 3 != 1 {
                    ring.publish();
                }
            }
            ring.publish();
        });
        assert_eq!(ring.pending().unwrap(), 0);
    }

    #[test]
    fn a_consumer_beside_the_other_side() {
        let (memory, at) = memory(0, 0);
        let kernel = Kernel::of(&memory, at);
        let mut ring = Consumer::<u64>::new(memory, &LAYOUT).unwrap();
        std::thread::scope(|threads| {
            let other = threads.spawn(move || {
                let kernel = kernel;
                for index in 0..ENTRIES {
                    while index - get(kernel.consumer) == LAYOUT.size {
                        std::thread::yield_now();
                    }
                    // SAFETY: consumed, and not yet published.
                    unsafe { kernel.entry(index).write_volatile(index.into()) };
                    set(kernel.producer, index + 1);
                }
            });
            let mut next = 0;
            while next < ENTRIES {
                if ring.available().unwrap() == 0 {
                    assert!(!other.is_finished() || get(kernel.producer) == ENTRIES);
                    std::thread::yield_now();
                }
                while let Some(entry) = ring.pop() {
                    assert_eq!(entry, u64::from(next));
                    next += 1;
                }
                ring.release();
            }
        });
    }

    #[test]
    fn impossible_indices_are_errors() {
        let (memory_, [producer, _, _]) = memory(0, 0);
        let mut ring = Consumer::<u64>::new(memory_, &LAYOUT).unwrap();
        set(producer, 9);
        assert!(ring.available().is_err());
        set(producer, u32::MAX);
        assert!(ring.available().is_err());

        let (memory_, [_, consumer, _]) = memory(4, 4);
        let mut ring = Producer::<u64>::new(memory_, &LAYOUT).unwrap();
        // It consumed what never was there.
        set(consumer, 5);
        assert!(ring.pending().is_err());
    }

    #[test]
    fn a_ring_outside_its_memory_is_an_error() {
        for layout in [
            Layout {
                entries: 1 << 20,
                ..LAYOUT
            },
            Layout {
                producer: u64::MAX,
                ..LAYOUT
            },
            Layout {
                consumer: 66,
                ..LAYOUT
            },
            Layout { size: 7, ..LAYOUT },
            Layout {
                size: 512,
                ..LAYOUT
            },
        ] {
            let (memory, _) = memory(0, 0);
            assert!(Producer::<Descriptor>::new(memory, &layout).is_err());
        }
    }
}
