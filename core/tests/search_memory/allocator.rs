//! An allocator that counts what its thread has taken, and the most that it had at one time. Used by the tests of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's, counted.
pub(crate) struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes that this thread has taken and not given back; below 0 where it gives back what another one took.
    static TAKEN: Cell<isize> = const { Cell::new(0) };
    /// The most of them since [`peak_of`] began.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// What the call returns, and how many bytes it had at the most beside those that were taken before.
pub(crate) fn peak_of<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = TAKEN.get();
    PEAK.set(before);
    let returned = call();
    (returned, usize::try_from(PEAK.get() - before).unwrap_or_default())
}

fn add(bytes: isize) {
    TAKEN.set(TAKEN.get() + bytes);
    PEAK.set(PEAK.get().max(TAKEN.get()));
}

// SAFETY: the system's allocator does all of it; cells of a thread that need no destructor take no memory of their own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks are there while one is copied to the other.
        add(size.cast_signed());
        // SAFETY: the caller's promises are passed on.
        let moved = unsafe { System.realloc(block, layout, size) };
        add(-layout.size().cast_signed());
        moved
    }
}
