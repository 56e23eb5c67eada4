//! A pop, its run through its queues, and the read of one of them; with the names and handles of pops.
//! Data and pure functions, for the processors of pops and the threads that read.

pub mod handle;
pub mod names;
mod read;

use std::sync::Arc;

use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;

use self::handle::Infos;
use self::names::Source;
pub(crate) use self::read::ReadPop;
pub use self::read::{ColdPop, GroupQueueId};
use crate::policy::Filter;
use crate::request_context::RequestContext;

/// A pop, owned, so that it can run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pop {
    /// Who asked.
    pub request_context: RequestContext,
    /// The consumer group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The queue; −1: any.
    pub queue_id: i32,
    /// Messages at the most.
    pub count_max: usize,
    /// How long nobody else gets them, ms.
    pub invisible_ms: i64,
    /// How long it may be held, ms; 0: not at all.
    pub poll_ms: i64,
    /// When it was made, Unix ms.
    pub born_ms: i64,
    /// Whether a new group begins at the end of the queues.
    pub from_max: bool,
    /// Which messages.
    pub filter: Filter,
    /// Whether the messages of a queue are given in order.
    pub is_ordered: bool,
    /// Names the attempt.
    pub attempt: Option<Box<str>>,
    /// Whether it was looked after once since it is held: what came between its run and that is not
    /// announced.
    pub(crate) is_looked_after: bool,
}

/// A queue that a pop goes through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) source: Source,
    pub(crate) queue_id: i32,
    /// Whether it is passed by when nothing more is wanted.
    pub(crate) is_last: bool,
}

/// A message of an answer.
#[derive(Debug)]
pub(crate) enum Part<D: Disk> {
    /// As it lies in the log.
    Record(RecordBytes<D>),
    /// Written anew: a retry under the topic that was asked for.
    Own(Vec<u8>),
}

/// A run of a pop through its queues.
#[derive(Debug)]
pub struct Run<D: Disk> {
    pub(crate) pop: Pop,
    /// When, on the timers' clock, Unix ms.
    pub(crate) time_ms: i64,
    pub(crate) revive_queue: i32,
    pub(crate) steps: Vec<Step>,
    pub(crate) at: usize,
    pub(crate) retry: Option<Arc<str>>,
    pub(crate) parts: Vec<Part<D>>,
    /// Messages that are there and were not given.
    pub(crate) rest: i64,
    pub(crate) infos: Infos,
    /// Whether a queue has more that was not tested.
    pub(crate) has_untested: bool,
    /// Until when the nearest of its ordered queues is blocked, Unix ms.
    pub(crate) blocked_until_ms: Option<i64>,
}

impl<D: Disk> Run<D> {
    /// The name of the topic that a step reads.
    pub(crate) fn topic_of(&self, step: Step) -> Arc<str> {
        match (&self.retry, step.source) {
            (Some(retry), Source::RetryV1 | Source::RetryV2) => Arc::clone(retry),
            _ => Arc::clone(&self.pop.topic),
        }
    }
}
