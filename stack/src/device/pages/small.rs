//! Small blocks, of chunks that are a large page each.
//!
//! Blocks of a size are of one class. A thread has two lists of free ones of each: one that it takes from
//! and gives to, and one that is full or absent. Full lists move between threads, so that what one thread
//! frees another one gets, and with none left new blocks are cut out of a chunk. A chunk is never given
//! back: there are as many as the blocks of each class at the time when there were most of it.

use std::cell::Cell;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{LARGE, advise, map};

/// By which classes differ, and to which blocks are aligned.
pub(super) const STEP: usize = 16;
/// The largest block.
pub(super) const MOST: usize = 1 << 10;
const CLASSES: usize = MOST / STEP + 1;
/// What the blocks of a full list take.
const FULL: usize = 4 << 10;
/// A full list's blocks begin on a line of the cache, as all do whose size is of whole lines.
const LINE: usize = 64;

/// Of which class a block of so many bytes is.
#[inline]
pub(super) const fn class(size: usize) -> usize {
    size.div_ceil(STEP)
}

/// Blocks of a full list.
const fn full(class: usize) -> usize {
    FULL / (class * STEP)
}

/// What is in a block that is free.
struct Free {
    next: *mut Free,
    /// If it is the first of a full list that no thread has: the next one.
    below: *mut Free,
}

/// What no thread has.
pub(super) struct Shared {
    piles: [Pile; CLASSES],
    /// The chunk that is cut next: where, and how much is left.
    rest: *mut u8,
    left: usize,
    chunks: usize,
    /// Whose destructor has an ending thread give back what it has; with none yet.
    key: Option<libc::pthread_key_t>,
}

// SAFETY: nobody else uses the blocks that it points to.
unsafe impl Send for Shared {}

#[derive(Clone, Copy)]
struct Pile {
    /// Full lists.
    lists: *mut Free,
    /// One that is not full, and how many are in it.
    loose: *mut Free,
    count: usize,
}

impl Shared {
    pub(super) const fn new() -> Mutex<Self> {
        let pile = Pile {
            lists: ptr::null_mut(),
            loose: ptr::null_mut(),
            count: 0,
        };
        Mutex::new(Self {
            piles: [pile; CLASSES],
            rest: ptr::null_mut(),
            left: 0,
            chunks: 0,
            key: None,
        })
    }

    /// A list of free blocks and how many they are, no more than a full one has; null if there is no memory.
    fn take(&mut self, class: usize) -> (*mut Free, usize) {
        let pile = &mut self.piles[class];
        if !pile.lists.is_null() {
            let list = pile.lists;
            // SAFETY: it is the first of a list that nobody else has.
            pile.lists = unsafe { (*list).below };
            return (list, full(class));
        }
        if !pile.loose.is_null() {
            let count = std::mem::take(&mut pile.count);
            return (std::mem::replace(&mut pile.loose, ptr::null_mut()), count);
        }
        self.cut(class)
    }

    /// A full list of blocks that nobody has had.
    fn cut(&mut self, class: usize) -> (*mut Free, usize) {
        let (size, count) = (class * STEP, full(class));
        let all = (size * count).next_multiple_of(LINE);
        if self.left < all {
            let chunk = map(LARGE);
            if chunk.is_null() {
                return (ptr::null_mut(), 0);
            }
            // The first stays as it is: a program that needs little memory takes little.
            if self.chunks > 0 {
                advise(chunk, 0, LARGE);
            }
            self.chunks += 1;
            (self.rest, self.left) = (chunk, LARGE);
        }
        let mut list = ptr::null_mut();
        for i in (0..count).rev() {
            // SAFETY: `all` bytes are left from `rest` on, aligned to more than a `Free` asks for.
            unsafe {
                let block = self.rest.add(i * size).cast::<Free>();
                (*block).next = list;
                list = block;
            }
        }
        // SAFETY: as above: it is the chunk's end at most.
        self.rest = unsafe { self.rest.add(all) };
        self.left -= all;
        (list, count)
    }

    /// Has a full list.
    ///
    /// # Safety
    /// Its blocks are of that class, of `cut`, and nobody uses them.
    unsafe fn give(&mut self, class: usize, list: *mut Free) {
        let pile = &mut self.piles[class];
        // SAFETY: the caller's promise.
        unsafe { (*list).below = pile.lists };
        pile.lists = list;
    }

    /// Has a single block.
    ///
    /// # Safety
    /// As of `give`.
    unsafe fn give_one(&mut self, class: usize, block: *mut Free) {
        let pile = &mut self.piles[class];
        // SAFETY: the caller's promise.
        unsafe { (*block).next = pile.loose };
        pile.loose = block;
        pile.count += 1;
        if pile.count == full(class) {
            pile.count = 0;
            let list = std::mem::replace(&mut pile.loose, ptr::null_mut());
            // SAFETY: as many as are full, each given by a caller.
            unsafe { self.give(class, list) };
        }
    }

    /// A single block; null if there is no memory.
    fn take_one(&mut self, class: usize) -> *mut Free {
        let (block, count) = self.take(class);
        let mut list = block;
        for i in 0..count {
            let one = list;
            // SAFETY: `take` says how many are in the list, and nobody else has them.
            unsafe {
                list = (*one).next;
                if i > 0 {
                    self.give_one(class, one);
                }
            }
        }
        block
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing in here panics.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's free blocks of a class.
struct List {
    first: Cell<*mut Free>,
    /// How many more the list takes; none before the thread has begun, and when it has ended.
    room: Cell<usize>,
    /// Another list, a full one, or null.
    full: Cell<*mut Free>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nobody knows yet that this thread has blocks.
    New,
    /// It gives them back when it ends.
    Begun,
    /// It has done so, or cannot: each block it frees is given back at once.
    Ended,
}

/// What a thread has.
pub(super) struct Lists {
    lists: [List; CLASSES],
    stage: Cell<Stage>,
}

impl Lists {
    pub(super) const fn new() -> Self {
        Self {
            lists: [const {
                List {
                    first: Cell::new(ptr::null_mut()),
                    room: Cell::new(0),
                    full: Cell::new(ptr::null_mut()),
                }
            }; CLASSES],
            stage: Cell::new(Stage::New),
        }
    }

    /// A block of `class`, which is none above that of `MOST`, and not zero; null if there is no memory.
    #[inline]
    pub(super) fn alloc(&self, class: usize, shared: &Mutex<Shared>) -> *mut u8 {
        let list = &self.lists[class];
        let first = list.first.get();
        if first.is_null() {
            return self.alloc_of_more(class, shared);
        }
        // SAFETY: a free block of this thread's list.
        list.first.set(unsafe { (*first).next });
        list.room.set(list.room.get() + 1);
        first.cast()
    }

    #[cold]
    #[inline(never)]
    fn alloc_of_more(&self, class: usize, shared: &Mutex<Shared>) -> *mut u8 {
        if !self.has_begun(shared) {
            return lock(shared).take_one(class).cast();
        }
        let list = &self.lists[class];
        let whole = list.full.replace(ptr::null_mut());
        let (first, count) = if whole.is_null() {
            lock(shared).take(class)
        } else {
            (whole, full(class))
        };
        if !first.is_null() {
            // SAFETY: a free block of a list of `count`, which is this thread's by now.
            list.first.set(unsafe { (*first).next });
            list.room.set(full(class) + 1 - count);
        }
        first.cast()
    }

    /// Has a block that nobody uses any more.
    ///
    /// # Safety
    /// It is of `alloc`, of the same class and the same `shared`, whichever thread's, and not used any more.
    #[inline]
    pub(super) unsafe fn dealloc(&self, block: *mut u8, class: usize, shared: &Mutex<Shared>) {
        let list = &self.lists[class];
        let block = block.cast::<Free>();
        let room = list.room.get();
        if room == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.dealloc_of_many(block, class, shared) };
        }
        list.room.set(room - 1);
        // SAFETY: the block is free, large enough, and aligned to more than a `Free` asks for.
        unsafe { (*block).next = list.first.get() };
        list.first.set(block);
    }

    /// # Safety
    /// As of `dealloc`.
    #[cold]
    #[inline(never)]
    unsafe fn dealloc_of_many(&self, block: *mut Free, class: usize, shared: &Mutex<Shared>) {
        if !self.has_begun(shared) {
            // SAFETY: the caller's promise.
            return unsafe { lock(shared).give_one(class, block) };
        }
        let list = &self.lists[class];
        if list.room.get() == 0 {
            let before = list.full.replace(list.first.replace(ptr::null_mut()));
            list.room.set(full(class));
            if !before.is_null() {
                // SAFETY: a full list of this thread's.
                unsafe { lock(shared).give(class, before) };
            }
        }
        list.room.set(list.room.get() - 1);
        // SAFETY: as in `dealloc`.
        unsafe { (*block).next = list.first.get() };
        list.first.set(block);
    }

    /// Whether this thread may have blocks of its own, which a new one may from now on.
    fn has_begun(&self, shared: &Mutex<Shared>) -> bool {
        if self.stage.get() == Stage::New {
            // If to be told of the thread's end takes memory, that is without a list.
            self.stage.set(Stage::Ended);
            if will_end(shared) {
                self.begin();
            }
        }
        self.stage.get() == Stage::Begun
    }

    fn begin(&self) {
        self.stage.set(Stage::Begun);
        for (class, list) in self.lists.iter().enumerate().skip(1) {
            list.room.set(full(class));
        }
    }

    /// Gives all blocks back.
    fn end(&self, shared: &Mutex<Shared>) {
        self.stage.set(Stage::Ended);
        let mut shared = lock(shared);
        for (class, list) in self.lists.iter().enumerate() {
            list.room.set(0);
            let whole = list.full.replace(ptr::null_mut());
            if !whole.is_null() {
                // SAFETY: a full list of this thread's, whose it is no longer.
                unsafe { shared.give(class, whole) };
            }
            let mut rest = list.first.replace(ptr::null_mut());
            while !rest.is_null() {
                let one = rest;
                // SAFETY: a free block of this thread's, whose it is no longer.
                unsafe {
                    rest = (*one).next;
                    shared.give_one(class, one);
                }
            }
        }
    }
}

/// What the program's threads share.
pub(super) static SHARED: Mutex<Shared> = Shared::new();

thread_local! {
    /// What a thread has. There is no destructor, so that it can be used until the thread is no more.
    static LISTS: Lists = const { Lists::new() };
}

/// What this thread has.
#[inline]
pub(super) fn with_lists<T>(f: impl FnOnce(&Lists) -> T) -> T {
    LISTS.with(f)
}

/// Has this thread's blocks given back when it ends; whether they will be.
///
/// It is a destructor of the system's, which comes after those of the language: those free much.
fn will_end(shared: &Mutex<Shared>) -> bool {
    let mut shared = lock(shared);
    let key = match shared.key {
        Some(key) => key,
        None => {
            let mut key = 0;
            // SAFETY: it writes a key where it is told to.
            if unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) } != 0 {
                return false;
            }
            *shared.key.insert(key)
        }
    };
    drop(shared);
    // What is not null has the destructor called.
    let something = ptr::from_ref(&SHARED).cast();
    // SAFETY: a key that exists.
    unsafe { libc::pthread_setspecific(key, something) == 0 }
}

/// The end of a thread.
unsafe extern "C" fn at_end(_: *mut libc::c_void) {
    with_lists(|lists| lists.end(&SHARED));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::mpsc;

    use crate::device::pages::LargePages;

    /// What threads do, one after the other.
    #[derive(Clone, Debug)]
    enum Act {
        Alloc { thread: usize, size: usize },
        Free { thread: usize, which: usize },
        End { thread: usize },
    }

    fn act() -> impl Strategy<Value = Act> {
        let size = prop_oneof![Just(16_usize), Just(MOST), 1..=MOST];
        let alloc = (0..3_usize, size).prop_map(|(thread, size)| Act::Alloc { thread, size });
        let free =
            (0..3_usize, any::<usize>()).prop_map(|(thread, which)| Act::Free { thread, which });
        let end = (0..3_usize).prop_map(|thread| Act::End { thread });
        prop_oneof![600 => alloc, 590 => free, 1 => end]
    }

    struct Block {
        at: *mut u8,
        size: usize,
        mark: u8,
    }

    impl Block {
        fn check(&self) {
            // SAFETY: a block of `alloc`, written as a whole.
            let bytes = unsafe { std::slice::from_raw_parts(self.at, self.size) };
            assert!(bytes.iter().all(|b| *b == self.mark));
        }
    }

    /// How many blocks are in a list.
    fn length(mut list: *mut Free) -> usize {
        let mut n = 0;
        while !list.is_null() {
            n += 1;
            // SAFETY: a list of free blocks that nobody uses meanwhile.
            list = unsafe { (*list).next };
        }
        n
    }

    /// Free blocks of a class, wherever they are.
    fn free(class: usize, threads: &[Lists], shared: &Shared) -> usize {
        let pile = &shared.piles[class];
        assert_eq!(length(pile.loose), pile.count);
        assert!(pile.count < full(class));
        let mut all = pile.count;
        let mut lists = pile.lists;
        while !lists.is_null() {
            assert_eq!(length(lists), full(class));
            all += full(class);
            // SAFETY: the first of a full list.
            lists = unsafe { (*lists).below };
        }
        for thread in threads {
            let list = &thread.lists[class];
            let (first, whole) = (length(list.first.get()), length(list.full.get()));
            match thread.stage.get() {
                Stage::Begun => assert_eq!(first + list.room.get(), full(class)),
                _ => assert_eq!(first + list.room.get(), 0),
            }
            assert!(whole == 0 || whole == full(class));
            all += first + whole;
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// No block is given twice, none is lost, and none is cut while others are free, whichever thread
        /// frees what, and when threads end.
        #[test]
        fn blocks_are_nobody_elses(acts in proptest::collection::vec(act(), 0..3_000)) {
            let shared = Shared::new();
            let threads = [const { Lists::new() }; 3];
            threads.iter().for_each(Lists::begin);
            let (mut blocks, mut most) = (Vec::<Block>::new(), [0; CLASSES]);
            let mut used = [0; CLASSES];
            for (n, act) in acts.into_iter().enumerate() {
                match act {
                    Act::Alloc { thread, size } => {
                        let at = threads[thread].alloc(class(size), &shared);
                        assert!(!at.is_null() && at.addr().is_multiple_of(STEP));
                        assert!(!size.is_multiple_of(LINE) || at.addr().is_multiple_of(LINE));
                        let mark = n as u8;
                        // SAFETY: a new block of that size.
                        unsafe { at.write_bytes(mark, size) };
                        blocks.push(Block { at, size, mark });
                        used[class(size)] += 1;
                        most[class(size)] = most[class(size)].max(used[class(size)]);
                    }
                    Act::Free { thread, which } if !blocks.is_empty() => {
                        let block = blocks.swap_remove(which % blocks.len());
                        block.check();
                        used[class(block.size)] -= 1;
                        // SAFETY: a block of one of the threads, forgotten by now.
                        unsafe { threads[thread].dealloc(block.at, class(block.size), &shared) };
                    }
                    Act::End { thread } => threads[thread].end(&shared),
                    Act::Free { .. } => {}
                }
            }
            blocks.iter().for_each(Block::check);
            let shared_now = lock(&shared);
            for class in 1..CLASSES {
                let all = free(class, &threads, &shared_now) + used[class];
                assert!(all.is_multiple_of(full(class)));
                // What each of the others may have beyond what is used, and a list begun.
                assert!(all <= most[class] + 7 * full(class));
            }
            drop(shared_now);
            // All are there when all threads have ended.
            for block in blocks {
                // SAFETY: as above.
                unsafe { threads[0].dealloc(block.at, class(block.size), &shared) };
            }
            threads.iter().for_each(|lists| lists.end(&shared));
            let shared = lock(&shared);
            let cut: usize = (1..CLASSES).map(|class| {
                let all = free(class, &threads, &shared);
                all / full(class) * (full(class) * class * STEP).next_multiple_of(LINE)
            }).sum();
            assert!(cut + shared.left <= shared.chunks * LARGE);
            assert!(cut + shared.left + shared.chunks * FULL >= shared.chunks * LARGE);
        }
    }

    /// Blocks that one thread makes and others free come back, also of threads that have ended.
    #[test]
    fn memory_does_not_grow() {
        let layout = Layout::from_size_align(48, 16).expect("a size");
        let round = move || {
            let (to, from) = mpsc::channel::<usize>();
            let frees = std::thread::spawn(move || {
                for block in from {
                    // SAFETY: a block of that layout, which its maker has forgotten.
                    unsafe {
                        LargePages.dealloc(std::ptr::with_exposed_provenance_mut(block), layout)
                    };
                }
            });
            for n in 0..20_000_usize {
                // SAFETY: the size is not zero.
                let block = unsafe { LargePages.alloc(layout) };
                assert!(!block.is_null());
                // SAFETY: a new block.
                unsafe { block.cast::<usize>().write(n) };
                to.send(block.expose_provenance())
                    .expect("the thread lives");
            }
            drop(to);
            frees.join().expect("it does not panic");
        };
        for _ in 0..50 {
            std::thread::spawn(round).join().expect("it does not panic");
        }
        // All of a round at once would be 1 MB.
        assert!(lock(&SHARED).chunks <= 2);
    }

    /// A thread's free blocks are those of others when it has ended.
    #[test]
    fn what_an_ended_thread_had_is_not_lost() {
        let layout = Layout::from_size_align(1_000, 8).expect("a size");
        let one = move || {
            // SAFETY: the size is not zero, and the block is of that layout.
            unsafe {
                let block = LargePages.alloc_zeroed(layout);
                assert_eq!(block.add(999).read(), 0);
                block.write_bytes(1, 1_000);
                LargePages.dealloc(block, layout);
            }
        };
        for _ in 0..3_000 {
            std::thread::spawn(one).join().expect("it does not panic");
        }
        // A list of each thread's own would be 12 MB.
        assert!(lock(&SHARED).chunks <= 2);
    }
}
