//! How much of what a device makes is alive, so that a leak or a cache without bounds can be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is alive on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Buffers; an arena has one for each of its blocks.
    pub buffers: usize,
    /// Images.
    pub images: usize,
    /// Pipelines, those that only tapes still use included.
    pub pipelines: usize,
    /// Recorded tapes, each with one descriptor pool.
    pub tapes: usize,
    /// Descriptor sets.
    pub descriptor_sets: usize,
    /// Bytes of device memory taken from the driver; storages need not fill them.
    pub allocated: u64,
}

/// Counts behind a [`Census`].
#[derive(Default)]
pub(super) struct Counts {
    pub buffers: Count,
    pub images: Count,
    pub pipelines: Count,
    pub tapes: Count,
    pub descriptor_sets: Count,
    /// Bytes of blocks that are not the allocator's.
    pub blocks: Count,
}

/// A number of things that are alive.
#[derive(Clone, Default)]
pub(super) struct Count(Arc<AtomicUsize>);

/// So many things of a count; they end with it.
pub(super) struct Counted {
    count: Count,
    n: usize,
}

impl Count {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts `n` more, until the result is dropped.
    pub fn add(&self, n: usize) -> Counted {
        self.0.fetch_add(n, Ordering::Relaxed);
        Counted { count: self.clone(), n }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.n, Ordering::Relaxed);
    }
}
