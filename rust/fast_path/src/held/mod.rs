//! Requests that are held until something comes into one of the queues that they wait for: what held
//! pulls and held pops have in common. Pure: times and arrivals are passed in. Knows no request.
//!
//! An event only records what happened; requests are looked at one by one, as far as the slice of a
//! turn goes. Queues with news take turns. A check of everything finds what the news missed.

pub(crate) mod slots;
mod waiting;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};

use self::slots::Slots;
use self::waiting::Waiting;
use crate::request_context::ConnectionId;
use crate::turn::{LOOKED_AT, Slice};

/// How often everything that waits is looked at, ms: the net under the news of arrivals, at the
/// official interval.
pub const CHECK_INTERVAL_MS: u64 = 5_000;
/// Looks at one queue with news before the next one has its turn.
pub(crate) const LOOKS_PER_VISIT: usize = 64;
/// Tags codes of news that are kept while earlier news of their queue are worked off; beyond it every
/// request may want what came.
const CODES_MAX: usize = 64;

/// How many pulls may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldLimits {
    /// At all: some 500 bytes each, so 130 MB.
    pub all: usize,
    /// Per connection: a consumer holds one per queue it reads, and a queue more than this on one
    /// connection is none that a client of ours could work off.
    pub per_connection: usize,
    /// Per connection and queue: a client holds one per group, and a proxy that brings the pulls of
    /// many clients over one connection some hundreds.
    pub per_queue: usize,
}

impl Default for HoldLimits {
    fn default() -> Self {
        Self {
            all: 262_144,
            per_connection: 65_536,
            per_queue: 1_024,
        }
    }
}

/// A topic and a queue of it.
pub type QueueKey = (Box<str>, i32);

/// The same, borrowed. Has the same hash.
#[derive(Hash)]
pub(crate) struct QueueRef<'a>(pub(crate) &'a str, pub(crate) i32);

impl Equivalent<QueueKey> for QueueRef<'_> {
    fn equivalent(&self, key: &QueueKey) -> bool {
        self.1 == key.1 && *self.0 == *key.0
    }
}

impl Equivalent<Arc<QueueKey>> for QueueRef<'_> {
    fn equivalent(&self, key: &Arc<QueueKey>) -> bool {
        self.equivalent(&**key)
    }
}

/// What came into a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Queue offset of the first record that came; of no meaning without tags codes.
    pub from: u64,
    /// Queue offset behind the last one.
    pub next_offset: u64,
    /// Their tags codes; none: nobody kept them.
    pub tags_codes: Vec<i64>,
}

impl News {
    /// A queue is so long.
    #[must_use]
    pub fn of_end(next_offset: u64) -> Self {
        Self {
            from: 0,
            next_offset,
            tags_codes: Vec::new(),
        }
    }

    pub(crate) fn and(mut self, later: Self) -> Self {
        let codes = self.tags_codes.len() + later.tags_codes.len();
        let are_known = !self.tags_codes.is_empty() && !later.tags_codes.is_empty();
        if are_known && codes <= CODES_MAX {
            self.tags_codes.extend(later.tags_codes);
        } else {
            self.tags_codes.clear();
        }
        Self {
            from: self.from.min(later.from),
            next_offset: self.next_offset.max(later.next_offset),
            tags_codes: self.tags_codes,
        }
    }
}

/// A queue that is waited for, by members: requests, or lines of requests.
#[derive(Debug)]
pub(crate) struct Queue<M, W> {
    pub(crate) key: Arc<QueueKey>,
    pub(crate) members: BTreeSet<M>,
    /// How far news are worked off.
    pub(crate) walk: Option<W>,
    /// What came since the walk began.
    news: Option<News>,
    is_listed: bool,
}

/// The queues that are waited for, and those with news in the order of their turns.
#[derive(Debug)]
pub(crate) struct Queues<M, W> {
    slots: Slots<Queue<M, W>>,
    by_key: HashMap<Arc<QueueKey>, usize>,
    with_news: VecDeque<usize>,
    /// Looks that the first of them has had.
    pub(crate) looks: usize,
    emptied: Vec<QueueKey>,
}

impl<M, W> Default for Queues<M, W> {
    fn default() -> Self {
        Self {
            slots: Slots::default(),
            by_key: HashMap::new(),
            with_news: VecDeque::new(),
            looks: 0,
            emptied: Vec::new(),
        }
    }
}

impl<M: Ord, W> Queues<M, W> {
    /// The place of a queue that is waited for.
    pub(crate) fn find(&self, topic: &str, queue_id: i32) -> Option<usize> {
        self.by_key.get(&QueueRef(topic, queue_id)).copied()
    }

    /// Whether no queue is waited for.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The place of a queue from now on.
    pub(crate) fn insert(&mut self, key: QueueKey) -> usize {
        if let Some(known) = self.find(&key.0, key.1) {
            return known;
        }
        let key = Arc::new(key);
        let slot = self.slots.insert(Queue {
            key: Arc::clone(&key),
            members: BTreeSet::new(),
            walk: None,
            news: None,
            is_listed: false,
        });
        self.by_key.insert(key, slot);
        slot
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Queue<M, W>> {
        self.slots.get(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: usize) -> Option<&mut Queue<M, W>> {
        self.slots.at_mut(slot)
    }

    /// All places are below this.
    pub(crate) fn end(&self) -> usize {
        self.slots.end()
    }

    /// A member does not wait for a queue any more.
    pub(crate) fn leave(&mut self, slot: usize, member: &M) {
        let Some(queue) = self.slots.at_mut(slot) else {
            return;
        };
        queue.members.remove(member);
        if queue.members.is_empty()
            && let Some(queue) = self.slots.remove(slot)
        {
            self.by_key.remove(&queue.key);
            self.emptied.push((*queue.key).clone());
        }
    }

    /// Records what came into a queue.
    pub(crate) fn note(&mut self, slot: usize, news: News) {
        let Some(queue) = self.slots.at_mut(slot) else {
            return;
        };
        queue.news = Some(match queue.news.take() {
            None => news,
            Some(earlier) => earlier.and(news),
        });
        if !queue.is_listed {
            queue.is_listed = true;
            self.with_news.push_back(slot);
        }
    }

    /// The queue whose turn it is.
    pub(crate) fn front(&self) -> Option<usize> {
        self.with_news.front().copied()
    }

    /// The queue whose turn it is, with news that are worked off; `None` where all are, which ends its
    /// turn.
    pub(crate) fn visit(
        &mut self,
        slot: usize,
        walk_of: impl FnOnce(News) -> W,
    ) -> Option<(&BTreeSet<M>, &mut W, &mut usize)> {
        let has_walk = self.slots.at_mut(slot).is_some_and(|queue| {
            if queue.walk.is_none() {
                queue.walk = queue.news.take().map(walk_of);
            }
            queue.is_listed = queue.walk.is_some();
            queue.is_listed
        });
        if !has_walk {
            self.end_visit(None);
            return None;
        }
        let queue = self.slots.at_mut(slot)?;
        Some((&queue.members, queue.walk.as_mut()?, &mut self.looks))
    }

    /// The queue whose turn it was goes to the end of the row, or leaves it.
    pub(crate) fn end_visit(&mut self, again: Option<usize>) {
        self.with_news.pop_front();
        self.with_news.extend(again);
        self.looks = 0;
    }

    /// The news of a queue are worked off.
    pub(crate) fn end_walk(&mut self, slot: usize) {
        if let Some(queue) = self.slots.at_mut(slot) {
            queue.walk = None;
        }
    }
}

/// What requests wait at: each has a place there.
pub(crate) trait Membership: Default {
    /// What waits for a queue.
    type Member: Ord;
    /// How far the news of a queue are worked off.
    type Walk;

    /// A request is taken out of its place.
    fn leave(&mut self, queues: &mut Queues<Self::Member, Self::Walk>, slot: usize, id: u64);
}

/// The held requests.
#[derive(Debug)]
pub(crate) struct Held<T, P: Membership> {
    pub(crate) waiting: Waiting<T>,
    pub(crate) queues: Queues<P::Member, P::Walk>,
    pub(crate) members: P,
    /// Where the check has come to, while it is under way.
    checked: Option<usize>,
    next_check_ms: Option<u64>,
}

impl<T, P: Membership> Default for Held<T, P> {
    fn default() -> Self {
        Self {
            waiting: Waiting::default(),
            queues: Queues::default(),
            members: P::default(),
            checked: None,
            next_check_ms: None,
        }
    }
}

impl<T, P: Membership> Held<T, P> {
    /// Holds a request at a place until `deadline_ms`; its number.
    pub(crate) fn hold(
        &mut self,
        value: T,
        connection: ConnectionId,
        slot: usize,
        (now_ms, deadline_ms): (u64, u64),
    ) -> u64 {
        self.next_check_ms
            .get_or_insert(now_ms.saturating_add(CHECK_INTERVAL_MS));
        self.waiting.insert(value, connection, slot, deadline_ms)
    }

    /// Takes a request out; gives it unless its connection is closed.
    pub(crate) fn take(&mut self, id: u64) -> Option<T> {
        let taken = self.waiting.take(id)?;
        self.members.leave(&mut self.queues, taken.slot, id);
        taken.is_open.then_some(taken.value)
    }

    /// Takes the next one whose time is over.
    pub(crate) fn next_due(&mut self, now_ms: u64, slice: &mut Slice) -> Option<T> {
        while !slice.is_spent() {
            let id = self.waiting.first_due(now_ms)?;
            slice.spend(LOOKED_AT);
            if let Some(value) = self.take(id) {
                return Some(value);
            }
        }
        None
    }

    /// Lets go what a connection waits for now, as if its time were over.
    pub(crate) fn release(&mut self, connection: ConnectionId) {
        self.waiting.release(connection);
    }

    /// Takes the next one that is let go.
    pub(crate) fn next_released(&mut self, slice: &mut Slice) -> Option<T> {
        while !slice.is_spent() {
            let id = self.waiting.first_released()?;
            slice.spend(LOOKED_AT);
            if let Some(value) = self.take(id) {
                return Some(value);
            }
        }
        None
    }

    /// Where the check goes on, when it is due.
    pub(crate) fn check_from(&mut self, now_ms: u64) -> Option<usize> {
        if self.checked.is_none() {
            if self.next_check_ms.is_none_or(|at| at > now_ms) {
                return None;
            }
            self.next_check_ms = (self.waiting.len() > 0).then(|| now_ms + CHECK_INTERVAL_MS);
            self.checked = Some(0);
        }
        self.checked
    }

    /// Where the check has come to; `None`: to the end.
    pub(crate) fn checked_to(&mut self, at: Option<usize>) {
        self.checked = at;
    }

    /// Forgets what a connection asked: it is not woken any more, and [`Held::forget_left`] takes it
    /// out.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.waiting.close(connection);
    }

    /// Takes out what closed connections have left.
    pub(crate) fn forget_left(&mut self, slice: &mut Slice) {
        while !slice.is_spent()
            && let Some(id) = self.waiting.first_left()
        {
            slice.spend(LOOKED_AT);
            self.take(id);
        }
    }

    /// A queue is watched for nobody: it counts as one that nobody waits for any more.
    pub(crate) fn let_go(&mut self, key: QueueKey) {
        self.queues.emptied.push(key);
    }

    /// Whether there are queues that nobody waits for any more.
    pub(crate) fn has_emptied(&self) -> bool {
        !self.queues.emptied.is_empty()
    }

    /// Queues that nobody waits for any more, since the last call.
    pub(crate) fn take_emptied(&mut self) -> Vec<QueueKey> {
        let mut emptied = std::mem::take(&mut self.queues.emptied);
        emptied.retain(|key| !self.is_waited_at(&key.0, key.1));
        emptied
    }

    /// When something is to be done; 0 while something is under way.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let is_at_work = self.queues.front().is_some()
            || self.checked.is_some()
            || self.waiting.has_left()
            || self.waiting.has_released();
        if is_at_work {
            return Some(0);
        }
        // Nothing is held: the check would find nothing.
        let first = self.waiting.next_deadline_ms()?;
        Some(self.next_check_ms.map_or(first, |check| first.min(check)))
    }

    /// Whether somebody waits for a queue.
    pub(crate) fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.queues.find(topic, queue_id).is_some()
    }
}
