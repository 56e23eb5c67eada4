//! What was popped and is not settled yet, queue by queue in the order of its offsets
//! (`PopBufferMergeService`). Pure: times are passed in, offsets to commit and check points to store
//! come out. Knows no store and no request.
//!
//! | event | what becomes of a pop |
//! |---|---|
//! | all of its messages are acknowledged | it is settled: nothing of it is ever stored |
//! | it stayed too long, or its messages come back soon | its check point is to be stored, then it is settled |
//! | all pops before it in its queue are settled, and it is | the offset behind it is committed |
//!
//! A committed offset is never beyond a pop that is neither acknowledged nor stored, so that a crash
//! loses none: what was open is popped again.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::points::CheckPoint;
pub use crate::pop_run::GroupQueueId;

/// A queue of which nothing is open is forgotten after this time without a pop, ms: the official
/// five minutes.
const UNUSED_MS: u64 = 300_000;

/// A pop in its queue.
#[derive(Debug)]
struct Popped {
    /// Where the queue goes on behind it.
    next_offset: u64,
    /// `None` once it is settled.
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    start_offset: u64,
    pop_time_ms: i64,
    invisible_ms: i64,
    revive_queue: i32,
    distances: Box<[i32]>,
    bits: u32,
    due_ms: u64,
}

impl Open {
    fn is_done(&self) -> bool {
        self.bits.count_ones() as usize >= self.distances.len()
    }
}

/// A queue of a group.
#[derive(Debug)]
struct GroupQueue {
    topic: Box<str>,
    group: Box<str>,
    queue_id: i32,
    pops: VecDeque<Popped>,
    /// When the first of its open pops is due, or earlier; `u64::MAX` for none.
    due_ms: u64,
    used_ms: u64,
    is_locked: bool,
}

/// What was popped at once, to be kept.
#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// Queue offset that the pop began at.
    pub start_offset: u64,
    /// Where the queue goes on behind it.
    pub next_offset: u64,
    /// When, Unix ms.
    pub pop_time_ms: i64,
    /// For how long, ms.
    pub invisible_ms: i64,
    /// The queue that its check point would go to.
    pub revive_queue: i32,
    /// The queue offsets of the messages.
    pub offsets: &'a [u64],
    /// When it is to be stored at the latest, on the fast path's clock, ms.
    pub due_ms: u64,
}

/// What became of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// It is kept here.
    Kept,
    /// The pop is here, and the message none of it.
    NoMessage,
    /// No such pop is here: it was stored, or never was.
    Elsewhere,
}

/// The buffer.
#[derive(Debug, Default)]
pub struct Buffer {
    by_key: HashMap<Box<str>, GroupQueueId>,
    queues: Vec<Option<GroupQueue>>,
    free: Vec<usize>,
    due: BTreeSet<(u64, GroupQueueId)>,
    open: usize,
    key: String,
}

impl Buffer {
    /// The number of a queue of a group, made where there is none.
    pub fn find_or_insert(
        &mut self,
        topic: &str,
        group: &str,
        queue_id: i32,
        now_ms: u64,
    ) -> GroupQueueId {
        spell(&mut self.key, topic, group, queue_id);
        if let Some(id) = self.by_key.get(self.key.as_str()) {
            if let Some(Some(queue)) = self.queues.get_mut(id.0) {
                queue.used_ms = now_ms;
            }
            return *id;
        }
        let queue = GroupQueue {
            topic: topic.into(),
            group: group.into(),
            queue_id,
            pops: VecDeque::new(),
            due_ms: u64::MAX,
            used_ms: now_ms,
            is_locked: false,
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.queues.push(None);
            self.queues.len() - 1
        });
        if let Some(slot) = self.queues.get_mut(at) {
            *slot = Some(queue);
        }
        let id = GroupQueueId(at);
        self.by_key.insert(self.key.as_str().into(), id);
        id
    }

    /// The number of a queue of a group, where there is one.
    pub fn find(&mut self, topic: &str, group: &str, queue_id: i32) -> Option<GroupQueueId> {
        spell(&mut self.key, topic, group, queue_id);
        self.by_key.get(self.key.as_str()).copied()
    }

    fn at(&self, id: GroupQueueId) -> Option<&GroupQueue> {
        self.queues.get(id.0)?.as_ref()
    }

    fn at_mut(&mut self, id: GroupQueueId) -> Option<&mut GroupQueue> {
        self.queues.get_mut(id.0)?.as_mut()
    }

    /// Whether somebody reads the queue just now.
    #[must_use]
    pub fn is_locked(&self, id: GroupQueueId) -> bool {
        self.at(id).is_some_and(|queue| queue.is_locked)
    }

    /// Keeps others from a queue, or lets them again.
    pub fn lock(&mut self, id: GroupQueueId, is_locked: bool) {
        if let Some(queue) = self.at_mut(id) {
            queue.is_locked = is_locked;
        }
    }

    /// Where the last pop of a queue ended that is not committed.
    #[must_use]
    pub fn latest(&self, id: GroupQueueId) -> Option<u64> {
        Some(self.at(id)?.pops.back()?.next_offset)
    }

    /// Pops that are neither acknowledged nor stored.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Pops of a queue that wait for one before them, or are open themselves.
    #[must_use]
    pub fn waiting(&self, id: GroupQueueId) -> usize {
        self.at(id).map_or(0, |queue| queue.pops.len())
    }

    /// Whether no queue was popped from lately.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Keeps a pop until it is settled.
    pub fn push(&mut self, id: GroupQueueId, new: New<'_>) {
        let Some(queue) = self.queues.get_mut(id.0).and_then(Option::as_mut) else {
            return;
        };
        let distance = |offset: &u64| offset.wrapping_sub(new.start_offset) as i32;
        queue.pops.push_back(Popped {
            next_offset: new.next_offset,
            open: Some(Box::new(Open {
                start_offset: new.start_offset,
                pop_time_ms: new.pop_time_ms,
                invisible_ms: new.invisible_ms,
                revive_queue: new.revive_queue,
                distances: new.offsets.iter().map(distance).collect(),
                bits: 0,
                due_ms: new.due_ms,
            })),
        });
        self.open += 1;
        if new.due_ms < queue.due_ms {
            self.due.remove(&(queue.due_ms, id));
            queue.due_ms = new.due_ms;
            self.due.insert((new.due_ms, id));
        }
    }

    /// Records that a queue goes on at an offset, with nothing open before it since the last pop.
    pub fn push_settled(&mut self, id: GroupQueueId, next_offset: u64) {
        let Some(queue) = self.at_mut(id) else {
            return;
        };
        match queue.pops.back_mut() {
            Some(last) if last.open.is_none() => last.next_offset = next_offset,
            _ => queue.pops.push_back(Popped {
                next_offset,
                open: None,
            }),
        }
    }

    /// Takes an acknowledgement of a message, where its pop is here.
    pub fn acknowledge(
        &mut self,
        id: GroupQueueId,
        start_offset: i64,
        pop_time_ms: i64,
        offset: i64,
    ) -> Acked {
        let Ok(start) = u64::try_from(start_offset) else {
            return Acked::Elsewhere;
        };
        let Some(queue) = self.queues.get_mut(id.0).and_then(Option::as_mut) else {
            return Acked::Elsewhere;
        };
        // Each pop begins where the one before ended.
        let at = queue.pops.partition_point(|each| each.next_offset <= start);
        let Some(popped) = queue.pops.get_mut(at) else {
            return Acked::Elsewhere;
        };
        let is_it =
            |open: &&mut Box<Open>| open.start_offset == start && open.pop_time_ms == pop_time_ms;
        let Some(open) = popped.open.as_mut().filter(is_it) else {
            return Acked::Elsewhere;
        };
        let distance = offset.checked_sub(start_offset);
        let distance = distance.and_then(|distance| i32::try_from(distance).ok());
        let found = open.distances.iter().position(|d| Some(*d) == distance);
        let Some(found) = found else {
            return Acked::NoMessage;
        };
        open.bits |= 1 << found;
        if open.is_done() {
            popped.open = None;
            self.open -= 1;
        }
        Acked::Kept
    }

    /// The offset to commit for a queue, when pops in front of it are settled.
    pub fn take_settled(&mut self, id: GroupQueueId) -> Option<u64> {
        let queue = self.at_mut(id)?;
        let mut next_offset = None;
        while let Some(front) = queue.pops.front()
            && front.open.is_none()
        {
            next_offset = Some(front.next_offset);
            queue.pops.pop_front();
        }
        next_offset
    }

    /// Queues of which check points are to be stored by now.
    pub fn take_due(&mut self, now_ms: u64, queues_max: usize) -> Vec<GroupQueueId> {
        let mut queues = Vec::new();
        while let Some((due_ms, id)) = self.due.first().copied()
            && due_ms <= now_ms
            && queues.len() < queues_max
        {
            self.due.pop_first();
            if let Some(queue) = self.at_mut(id) {
                queue.due_ms = u64::MAX;
                queues.push(id);
            }
        }
        queues
    }

    /// Queues that have anything.
    #[must_use]
    pub fn all(&self) -> Vec<GroupQueueId> {
        let all = self.queues.iter().enumerate();
        let held = all.filter(|(_at, queue)| queue.as_ref().is_some_and(|p| !p.pops.is_empty()));
        held.map(|(at, _group_queue)| GroupQueueId(at)).collect()
    }

    /// Lets `store` store the open pops of a queue that are due by `until_ms`, until it cannot; where
    /// it could not, the queue is due again at `again_ms`. Returns whether all are stored.
    pub fn settle(
        &mut self,
        id: GroupQueueId,
        (until_ms, again_ms): (u64, u64),
        broker: &str,
        mut store: impl FnMut(&CheckPoint, i32) -> bool,
    ) -> bool {
        let Some(queue) = self.queues.get_mut(id.0).and_then(Option::as_mut) else {
            return true;
        };
        let mut next_ms = u64::MAX;
        let mut is_all = true;
        for popped in &mut queue.pops {
            let Some(open) = &popped.open else {
                continue;
            };
            if open.due_ms > until_ms {
                next_ms = next_ms.min(open.due_ms);
                continue;
            }
            if is_all {
                let point = point_of((&queue.topic, &queue.group, queue.queue_id), open, broker);
                is_all = store(&point, open.revive_queue);
            }
            if is_all {
                popped.open = None;
                self.open -= 1;
            } else {
                next_ms = next_ms.min(again_ms);
            }
        }
        self.due.remove(&(queue.due_ms, id));
        queue.due_ms = next_ms;
        if next_ms < u64::MAX {
            self.due.insert((next_ms, id));
        }
        is_all
    }

    /// Topic, group and queue of a place.
    #[must_use]
    pub fn names(&self, id: GroupQueueId) -> Option<(&str, &str, i32)> {
        let queue = self.at(id)?;
        Some((&queue.topic, &queue.group, queue.queue_id))
    }

    /// Forgets queues that were not popped from for long, or are of topics or groups that are gone.
    pub fn forget(&mut self, now_ms: u64, is_known: impl Fn(&str, &str) -> bool) {
        for (at, slot) in self.queues.iter_mut().enumerate() {
            let Some(queue) = slot else { continue };
            let is_unused = queue.pops.is_empty() && now_ms >= queue.used_ms + UNUSED_MS;
            let is_gone = !is_known(&queue.topic, &queue.group);
            if queue.is_locked || !(is_unused || is_gone) {
                continue;
            }
            self.open -= queue.pops.iter().filter(|each| each.open.is_some()).count();
            self.due.remove(&(queue.due_ms, GroupQueueId(at)));
            spell(&mut self.key, &queue.topic, &queue.group, queue.queue_id);
            self.by_key.remove(self.key.as_str());
            *slot = None;
            self.free.push(at);
        }
    }

    /// When [`Buffer::take_due`] has something to give.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _id)| *due_ms)
    }
}

fn spell(key: &mut String, topic: &str, group: &str, queue_id: i32) {
    use std::fmt::Write as _;
    key.clear();
    let _infallible = write!(key, "{topic}@{group}@{queue_id}");
}

fn point_of((topic, group, queue_id): (&str, &str, i32), open: &Open, broker: &str) -> CheckPoint {
    CheckPoint {
        topic: topic.to_owned(),
        group: group.to_owned(),
        queue_id,
        start_offset: open.start_offset.cast_signed(),
        pop_time_ms: open.pop_time_ms,
        invisible_ms: open.invisible_ms,
        distances: open.distances.to_vec(),
        count: open.distances.len(),
        // What is acknowledged by now is stored with it: it has no record of its own.
        bits: open.bits,
        broker: broker.to_owned(),
        put_off: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(start: u64, offsets: &[u64], due_ms: u64) -> New<'_> {
        New {
            start_offset: start,
            next_offset: offsets.last().map_or(start, |last| last + 1),
            pop_time_ms: 1_000 + start.cast_signed(),
            invisible_ms: 60_000,
            revive_queue: 2,
            offsets,
            due_ms,
        }
    }

    #[test]
    fn an_offset_is_committed_when_all_before_it_is_settled() {
        let mut buffer = Buffer::default();
        let id = buffer.find_or_insert("t", "g", 0, 0);
        buffer.push(id, new(0, &[0, 1], 10));
        buffer.push(id, new(2, &[3], 10));
        buffer.push_settled(id, 9);
        assert_eq!((buffer.latest(id), buffer.open()), (Some(9), 2));
        assert_eq!(buffer.acknowledge(id, 2, 1_002, 3), Acked::Kept);
        assert_eq!(buffer.take_settled(id), None);
        assert_eq!(buffer.acknowledge(id, 0, 1_000, 1), Acked::Kept);
        assert_eq!(buffer.acknowledge(id, 0, 1_000, 1), Acked::Kept, "twice");
        assert_eq!(buffer.take_settled(id), None);
        assert_eq!(buffer.acknowledge(id, 0, 1_000, 0), Acked::Kept);
        assert_eq!(buffer.take_settled(id), Some(9));
        assert_eq!((buffer.latest(id), buffer.open()), (None, 0));
        assert_eq!(buffer.acknowledge(id, 0, 1_000, 0), Acked::Elsewhere);
    }

    #[test]
    fn what_names_no_pop_is_elsewhere() {
        let mut buffer = Buffer::default();
        let id = buffer.find_or_insert("t", "g", 0, 0);
        buffer.push(id, new(5, &[5, 7], 10));
        assert_eq!(buffer.acknowledge(id, 5, 1_005, 6), Acked::NoMessage);
        assert_eq!(buffer.acknowledge(id, 5, 1_005, i64::MIN), Acked::NoMessage);
        for (start, time, offset) in [(5, 1, 5), (6, 1_005, 7), (-1, 1_005, 5), (8, 1_005, 8)] {
            assert_eq!(
                buffer.acknowledge(id, start, time, offset),
                Acked::Elsewhere
            );
        }
        assert_eq!(buffer.find("t", "g", 1), None);
    }

    #[test]
    fn what_is_due_is_stored_with_what_is_acknowledged_of_it() {
        let mut buffer = Buffer::default();
        let id = buffer.find_or_insert("t", "g", 0, 0);
        buffer.push(id, new(0, &[0, 1], 10));
        buffer.push(id, new(2, &[2], 30));
        buffer.acknowledge(id, 0, 1_000, 1);
        assert_eq!(buffer.next_due_ms(), Some(10));
        assert!(buffer.take_due(9, 9).is_empty());
        assert_eq!(buffer.take_due(10, 9), [id]);
        let mut stored = Vec::new();
        assert!(!buffer.settle(id, (10, 12), "b", |_point, _queue| false));
        assert_eq!(buffer.next_due_ms(), Some(12));
        let is_all = buffer.settle(id, (12, 14), "b", |point, queue| {
            stored.push((point.clone(), queue));
            true
        });
        assert!(is_all);
        assert_eq!(buffer.next_due_ms(), Some(30));
        let (point, queue) = stored.first().unwrap();
        assert_eq!((point.bits, point.count, *queue), (2, 2, 2));
        assert_eq!(buffer.take_settled(id), Some(2));
        assert_eq!(buffer.open(), 1);
    }

    #[test]
    fn unused_slots_are_forgotten_and_used_again() {
        let mut buffer = Buffer::default();
        let id = buffer.find_or_insert("t", "g", 0, 0);
        let gone = buffer.find_or_insert("gone", "g", 0, 0);
        buffer.push(gone, new(0, &[0], 7));
        buffer.forget(UNUSED_MS, |topic, _group| topic != "gone");
        assert_eq!((buffer.find("t", "g", 0), buffer.open()), (None, 0));
        assert_eq!(buffer.next_due_ms(), None);
        let again = buffer.find_or_insert("u", "g", 0, 0);
        assert!(again == id || again == gone);
        assert_eq!(buffer.latest(again), None);
    }
}
