//! A pop, and its run through its queues. Data alone.

use std::sync::Arc;

use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;

use super::handle::Infos;
use super::names::Source;
use super::polls::Waits;
use crate::policy::Filter;
use crate::request_context::{ConnectionId, RequestContext};

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
    pub(super) is_looked_after: bool,
}

impl Waits for Pop {
    fn connection(&self) -> ConnectionId {
        self.request_context.connection
    }

    fn line(&self) -> (&str, &str, i32) {
        (&self.topic, &self.group, self.queue_id)
    }

    fn may_want(&self, tags_codes: &[i64]) -> bool {
        self.filter.may_want(tags_codes)
    }
}

/// A queue that a pop goes through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) source: Source,
    pub(super) queue_id: i32,
    /// Whether it is passed by when nothing more is wanted.
    pub(super) is_last: bool,
}

/// A message of an answer.
#[derive(Debug)]
pub(super) enum Part<D: Disk> {
    /// As it lies in the log.
    Record(RecordBytes<D>),
    /// Written anew: a retry under the topic that was asked for.
    Own(Vec<u8>),
}

/// A run of a pop through its queues.
#[derive(Debug)]
pub struct Run<D: Disk> {
    pub(super) pop: Pop,
    /// When, on the timers' clock, Unix ms.
    pub(super) time_ms: i64,
    pub(super) revive_queue: i32,
    pub(super) steps: Vec<Step>,
    pub(super) at: usize,
    pub(super) retry: Option<Arc<str>>,
    pub(super) parts: Vec<Part<D>>,
    /// Messages that are there and were not given.
    pub(super) rest: i64,
    pub(super) infos: Infos,
    /// Whether a queue has more that was not tested.
    pub(super) has_untested: bool,
    /// Until when the nearest of its ordered queues is blocked, Unix ms.
    pub(super) blocked_until_ms: Option<i64>,
}

impl<D: Disk> Run<D> {
    /// The name of the topic that a step reads.
    pub(super) fn topic_of(&self, step: Step) -> Arc<str> {
        match (&self.retry, step.source) {
            (Some(retry), Source::RetryV1 | Source::RetryV2) => Arc::clone(retry),
            _ => Arc::clone(&self.pop.topic),
        }
    }
}
