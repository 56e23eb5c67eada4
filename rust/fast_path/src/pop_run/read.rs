//! The read of one queue of a pop, in the loop or by a thread.

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{Ask, Got, Store};

use super::{Run, Step};
use crate::filtering::Sieve;
use crate::policy::Filter;

/// Names a queue of a group in the buffer of pops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupQueueId(pub(crate) usize);

/// A queue of a pop that has to be read from the disk.
#[derive(Debug)]
pub struct ColdPop<D: Disk> {
    pub(crate) run: Box<Run<D>>,
    pub(crate) buffer_slot: GroupQueueId,
    pub(crate) read: ReadPop,
}

/// What is to be read.
#[derive(Debug)]
pub(crate) struct ReadPop {
    pub(crate) topic: Arc<str>,
    pub(crate) step: Step,
    pub(crate) from: u64,
    pub(crate) count: usize,
    pub(crate) filter: Filter,
    /// Whether the offset was taken from the queue, since that of the group was none of it.
    pub(crate) is_corrected: bool,
}

impl ReadPop {
    /// Reads it; waits for the disk where it is cold.
    pub(crate) fn read<D: Disk, C: Clock>(&self, store: &Store<D, C>) -> Result<Got<D>> {
        self.read_by(store, &mut Sieve::in_thread(&self.filter))
    }

    /// Reads it by a sieve.
    pub(crate) fn read_by<D: Disk, C: Clock>(
        &self,
        store: &Store<D, C>,
        sieve: &mut Sieve<'_>,
    ) -> Result<Got<D>> {
        let ask = Ask {
            from: self.from,
            count_max: self.count,
            bytes_max: u64::MAX,
            tags_codes: self.filter.codes(),
            is_bulk: false,
        };
        let (topic, queue_id) = (self.topic.as_bytes(), self.step.queue_id);
        if self.filter.looks_at_records() {
            return store.reader().select(topic, queue_id, ask, sieve);
        }
        store.reader().get(topic, queue_id, ask)
    }
}
