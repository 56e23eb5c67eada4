//! Held pulls: consumers that found nothing and wait at the end of a queue (long polling). Pure:
//! times and arrivals are passed in, pulls to run again come out. Knows no store and no socket.
//!
//! | event | what becomes of a held pull |
//! |---|---|
//! | a record comes that its filter may want | it runs again |
//! | its time is over | it runs again |
//! | the check finds its queue longer than its offset | it runs again |
//! | its connection closes | it is forgotten |
//!
//! An event only records what happened; the pulls that it concerns are looked at one by one, as far
//! as the slice of a turn goes. Queues with news take turns.

use std::sync::Arc;

pub use crate::held::{CHECK_INTERVAL_MS, HoldLimits, News, QueueKey};
use crate::held::{Held, LOOKS_PER_VISIT, Membership, Queues};
use crate::policy::Filter;
use crate::request_context::{ConnectionId, RequestContext};
use crate::shape::Shape;
use crate::turn::{LOOKED_AT, Slice};

/// A pull, owned, so that it can run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// Who asked.
    pub request_context: RequestContext,
    /// The consumer group.
    pub group: Box<str>,
    /// The topic.
    pub topic: Box<str>,
    /// The queue.
    pub queue_id: i32,
    /// First queue offset wanted.
    pub queue_offset: i64,
    /// Records at the most.
    pub count_max: usize,
    /// Bytes at the most.
    pub bytes_max: u64,
    /// How much of its messages the answer brings.
    pub shape: Shape,
    /// Which records.
    pub filter: Filter,
    /// The version of its group's subscription that the filter is of at the least; `None` where the
    /// request brought its filter.
    pub version: Option<i64>,
    /// Begin of the step that executes it, us.
    pub begun_us: u64,
}

impl Pull {
    /// Whether the places of messages are all that is wanted; filters are for records.
    pub(crate) fn wants_offsets(&self) -> bool {
        self.shape == Shape::Offsets && self.filter.gives_all()
    }
}

/// News that are worked off: the pulls from here on are not looked at yet.
#[derive(Debug)]
struct Walk {
    news: News,
    next_id: u64,
    /// Pulls from this number on were held later, and have seen what came.
    end_id: u64,
}

/// Pulls wait at their queue: its place is theirs.
#[derive(Debug, Default)]
struct AtQueue;

impl Membership for AtQueue {
    type Member = u64;
    type Walk = Walk;

    fn leave(&mut self, queues: &mut Queues<u64, Walk>, slot: usize, id: u64) {
        queues.leave(slot, &id);
    }
}

/// The held pulls.
#[derive(Debug, Default)]
pub struct Holds {
    limits: HoldLimits,
    held: Held<Pull, AtQueue>,
}

/// Whether a pull could be held.
#[derive(Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is held, the first of its queue.
    First,
    /// It is held.
    Further,
    /// Too many are: how many, and of what.
    Full(usize, &'static str),
}

impl Holds {
    /// Sets how many may be held. Those that are held already stay.
    pub fn set_limits(&mut self, limits: HoldLimits) {
        self.limits = limits;
    }

    /// Holds a pull until `deadline_ms`.
    pub fn hold(&mut self, pull: Pull, now_ms: u64, deadline_ms: u64) -> Hold {
        let connection = pull.request_context.connection;
        let known = self.held.queues.find(&pull.topic, pull.queue_id);
        if let Some(full) = self.fullness(connection, known) {
            return full;
        }
        let slot = known.unwrap_or_else(|| {
            let key = (pull.topic.clone(), pull.queue_id);
            self.held.queues.insert(key)
        });
        let times = (now_ms, deadline_ms);
        let id = self.held.hold(pull, connection, slot, times);
        if let Some(queue) = self.held.queues.at_mut(slot) {
            queue.members.insert(id);
        }
        match known {
            None => Hold::First,
            Some(_) => Hold::Further,
        }
    }

    fn fullness(&self, connection: ConnectionId, slot: Option<usize>) -> Option<Hold> {
        let limits = &self.limits;
        let waiting = &self.held.waiting;
        let at = |slot| waiting.len_at(connection, slot);
        if waiting.len() >= limits.all {
            Some(Hold::Full(limits.all, "of all connections"))
        } else if waiting.len_of(connection) >= limits.per_connection {
            Some(Hold::Full(limits.per_connection, "of this connection"))
        } else if slot.is_some_and(|slot| at(slot) >= limits.per_queue) {
            let whose = "of this connection at this queue";
            Some(Hold::Full(limits.per_queue, whose))
        } else {
            None
        }
    }

    /// Records what came into a queue; [`Holds::next_woken`] works it off.
    pub fn arrived(&mut self, topic: &str, queue_id: i32, news: News) {
        if let Some(slot) = self.held.queues.find(topic, queue_id) {
            self.held.queues.note(slot, news);
        }
    }

    /// Takes the next pull that wants what came. Whose filter looks at records is asked for by
    /// `wants`, which takes its work off the slice.
    pub fn next_woken(
        &mut self,
        slice: &mut Slice,
        mut wants: impl FnMut(&Pull, &News, &mut Slice) -> bool,
    ) -> Option<Pull> {
        while !slice.is_spent() {
            let slot = self.held.queues.front()?;
            let Some(id) = self.look_at(slot, slice, &mut wants) else {
                continue;
            };
            if let Some(pull) = self.held.take(id) {
                return Some(pull);
            }
        }
        None
    }

    /// Looks at pulls of the queue whose turn it is, until one is woken or the turn ends.
    fn look_at(
        &mut self,
        slot: usize,
        slice: &mut Slice,
        wants: &mut impl FnMut(&Pull, &News, &mut Slice) -> bool,
    ) -> Option<u64> {
        let end_id = self.held.waiting.next_id();
        let walk_of = |news| Walk {
            news,
            next_id: 0,
            end_id,
        };
        let (ids, walk, looks) = self.held.queues.visit(slot, walk_of)?;
        for id in ids.range(walk.next_id..walk.end_id) {
            if *looks == LOOKS_PER_VISIT {
                self.held.queues.end_visit(Some(slot));
                return None;
            }
            if slice.is_spent() {
                return None;
            }
            slice.spend(LOOKED_AT);
            *looks += 1;
            walk.next_id = id + 1;
            let Some(pull) = self.held.waiting.get(*id) else {
                continue;
            };
            let news = &walk.news;
            let from = u64::try_from(pull.queue_offset);
            let is_new = from.map_or(true, |from| from < news.next_offset);
            if is_new
                && pull.filter.may_want(&news.tags_codes)
                && (!pull.filter.looks_at_records() || wants(pull, news, slice))
            {
                return Some(*id);
            }
        }
        self.held.queues.end_walk(slot);
        None
    }

    /// Lets go what a connection waits for now.
    pub fn release(&mut self, connection: ConnectionId) {
        self.held.release(connection);
    }

    /// Takes the next one that is let go.
    pub fn next_released(&mut self, slice: &mut Slice) -> Option<Pull> {
        self.held.next_released(slice)
    }

    /// Takes the next pull whose time is over.
    pub fn next_due(&mut self, now_ms: u64, slice: &mut Slice) -> Option<Pull> {
        self.held.next_due(now_ms, slice)
    }

    /// The next queue to be looked at, when the check is due.
    pub fn next_checked(&mut self, now_ms: u64, slice: &mut Slice) -> Option<Arc<QueueKey>> {
        let mut at = self.held.check_from(now_ms)?;
        let end = self.held.queues.end();
        while at < end && !slice.is_spent() {
            slice.spend(LOOKED_AT);
            let queue = self.held.queues.get(at);
            let key = queue.map(|queue| Arc::clone(&queue.key));
            at += 1;
            if key.is_some() {
                self.held.checked_to(Some(at));
                return key;
            }
        }
        self.held.checked_to((at < end).then_some(at));
        None
    }

    /// Forgets the pulls of a connection: they are not woken any more, and [`Holds::forget_left`]
    /// takes them out.
    pub fn close(&mut self, connection: ConnectionId) {
        self.held.close(connection);
    }

    /// Takes out what closed connections have left.
    pub fn forget_left(&mut self, slice: &mut Slice) {
        self.held.forget_left(slice);
    }

    /// A queue is watched for a pull that is not held after all.
    pub(crate) fn let_go(&mut self, key: QueueKey) {
        self.held.let_go(key);
    }

    /// Whether [`Holds::take_emptied`] may have something.
    pub(crate) fn has_emptied(&self) -> bool {
        self.held.has_emptied()
    }

    /// Queues that nobody waits at any more, since the last call.
    pub fn take_emptied(&mut self) -> Vec<QueueKey> {
        self.held.take_emptied()
    }

    /// When something is to be done; 0 while something is under way.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.held.next_deadline_ms()
    }

    /// Whether a pull waits at a queue.
    #[must_use]
    pub fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.held.is_waited_at(topic, queue_id)
    }

    /// Pulls held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.waiting.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
