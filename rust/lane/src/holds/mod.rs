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
//! An event only notes what happened; the pulls that it concerns are looked at one by one, as far as
//! the slice of a turn goes. Queues with news take turns.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};

use crate::asker::{Asker, ConnectionId};
use crate::policy::Filter;
use crate::shape::Shape;
use crate::slots::Slots;
use crate::turn::{LOOKED_AT, Slice};
use crate::waiting::Waiting;

/// How often every queue with held pulls is looked at, ms: the net under the news of arrivals, at
/// the official interval.
pub const CHECK_INTERVAL_MS: u64 = 5_000;
/// Held pulls of one queue that are looked at before the next queue with news has its turn.
const LOOKS_PER_VISIT: usize = 64;
/// Tags codes of news that are kept while earlier news of their queue are worked off; beyond it every
/// pull may want what came.
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

/// A pull, owned, so that it can run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// Who asked.
    pub asker: Asker,
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
}

impl Pull {
    /// Whether the places of messages are all that is wanted; filters are for records.
    pub(crate) fn wants_places(&self) -> bool {
        self.shape == Shape::Places && self.filter.gives_all()
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

    /// As [`News::and`], where there may be earlier ones.
    pub(crate) fn add_to(self, earlier: &mut Option<Self>) {
        *earlier = Some(match earlier.take() {
            None => self,
            Some(earlier) => earlier.and(self),
        });
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

#[derive(Debug)]
struct Queue {
    key: Arc<QueueKey>,
    ids: BTreeSet<u64>,
    walk: Option<Walk>,
    /// What came since the walk began.
    news: Option<News>,
    is_listed: bool,
}

/// The held pulls.
#[derive(Debug, Default)]
pub struct Holds {
    limits: HoldLimits,
    waiting: Waiting<Pull>,
    queues: Slots<Queue>,
    by_key: HashMap<Arc<QueueKey>, usize>,
    /// Queues with news, in the order of their turns.
    with_news: VecDeque<usize>,
    /// Looks that the first of them has had.
    looks: usize,
    /// Where the check has come to, while it is under way.
    checked: Option<usize>,
    emptied: Vec<QueueKey>,
    next_check_ms: Option<u64>,
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
        let connection = pull.asker.connection;
        let queue = QueueRef(&pull.topic, pull.queue_id);
        let known = self.by_key.get(&queue).copied();
        if let Some(full) = self.fullness(connection, known) {
            return full;
        }
        let place = known.unwrap_or_else(|| {
            let key = Arc::new((pull.topic.clone(), pull.queue_id));
            let place = self.queues.insert(Queue {
                key: Arc::clone(&key),
                ids: BTreeSet::new(),
                walk: None,
                news: None,
                is_listed: false,
            });
            self.by_key.insert(key, place);
            place
        });
        let id = self.waiting.insert(pull, connection, place, deadline_ms);
        if let Some(queue) = self.queues.at_mut(place) {
            queue.ids.insert(id);
        }
        self.next_check_ms
            .get_or_insert(now_ms.saturating_add(CHECK_INTERVAL_MS));
        match known {
            None => Hold::First,
            Some(_) => Hold::Further,
        }
    }

    fn fullness(&self, connection: ConnectionId, place: Option<usize>) -> Option<Hold> {
        let limits = &self.limits;
        let at = |place| self.waiting.len_at(connection, place);
        if self.waiting.len() >= limits.all {
            Some(Hold::Full(limits.all, "of all connections"))
        } else if self.waiting.len_of(connection) >= limits.per_connection {
            Some(Hold::Full(limits.per_connection, "of this connection"))
        } else if place.is_some_and(|place| at(place) >= limits.per_queue) {
            let whose = "of this connection at this queue";
            Some(Hold::Full(limits.per_queue, whose))
        } else {
            None
        }
    }

    /// Notes what came into a queue; [`Holds::next_woken`] works it off.
    pub fn arrived(&mut self, topic: &str, queue_id: i32, news: News) {
        let Some(place) = self.by_key.get(&QueueRef(topic, queue_id)).copied() else {
            return;
        };
        let Some(queue) = self.queues.at_mut(place) else {
            return;
        };
        news.add_to(&mut queue.news);
        if !queue.is_listed {
            queue.is_listed = true;
            self.with_news.push_back(place);
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
            let place = *self.with_news.front()?;
            let Some(id) = self.look_at(place, slice, &mut wants) else {
                continue;
            };
            if let Some(pull) = self.take(id) {
                return Some(pull);
            }
        }
        None
    }

    /// Looks at pulls of the queue whose turn it is, until one is woken or the turn ends.
    fn look_at(
        &mut self,
        place: usize,
        slice: &mut Slice,
        wants: &mut impl FnMut(&Pull, &News, &mut Slice) -> bool,
    ) -> Option<u64> {
        let end_id = self.waiting.next_id();
        let Some(queue) = self.queues.at_mut(place) else {
            self.end_visit(None);
            return None;
        };
        if queue.walk.is_none() {
            queue.walk = queue.news.take().map(|news| Walk {
                news,
                next_id: 0,
                end_id,
            });
        }
        let Some(walk) = &mut queue.walk else {
            queue.is_listed = false;
            self.end_visit(None);
            return None;
        };
        for id in queue.ids.range(walk.next_id..walk.end_id) {
            if self.looks == LOOKS_PER_VISIT {
                self.end_visit(Some(place));
                return None;
            }
            if slice.is_spent() {
                return None;
            }
            slice.spend(LOOKED_AT);
            self.looks += 1;
            walk.next_id = id + 1;
            let Some(pull) = self.waiting.get(*id) else {
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
        queue.walk = None;
        None
    }

    /// The queue whose turn it was goes to the end of the row, or leaves it.
    fn end_visit(&mut self, again: Option<usize>) {
        self.with_news.pop_front();
        self.with_news.extend(again);
        self.looks = 0;
    }

    /// Takes the next pull whose time is over.
    pub fn next_due(&mut self, now_ms: u64, slice: &mut Slice) -> Option<Pull> {
        while !slice.is_spent() {
            let id = self.waiting.first_due(now_ms)?;
            slice.spend(LOOKED_AT);
            if let Some(pull) = self.take(id) {
                return Some(pull);
            }
        }
        None
    }

    /// The next queue to be looked at, when the check is due.
    pub fn next_checked(&mut self, now_ms: u64, slice: &mut Slice) -> Option<Arc<QueueKey>> {
        if self.checked.is_none() {
            if self.next_check_ms.is_none_or(|at| at > now_ms) {
                return None;
            }
            self.next_check_ms = (!self.is_empty()).then(|| now_ms + CHECK_INTERVAL_MS);
            self.checked = Some(0);
        }
        let mut at = self.checked?;
        while at < self.queues.end() && !slice.is_spent() {
            slice.spend(LOOKED_AT);
            let queue = self.queues.get(at);
            at += 1;
            if let Some(queue) = queue {
                self.checked = Some(at);
                return Some(Arc::clone(&queue.key));
            }
        }
        self.checked = (at < self.queues.end()).then_some(at);
        None
    }

    /// Forgets the pulls of a connection: they are not woken any more, and [`Holds::forget_left`]
    /// takes them out.
    pub fn close(&mut self, connection: ConnectionId) {
        self.waiting.close(connection);
    }

    /// Takes out what closed connections have left.
    pub fn forget_left(&mut self, slice: &mut Slice) {
        while !slice.is_spent()
            && let Some(id) = self.waiting.first_left()
        {
            slice.spend(LOOKED_AT);
            self.take(id);
        }
    }

    /// Queues that nobody waits at any more, since the last call.
    pub fn take_emptied(&mut self) -> Vec<QueueKey> {
        let mut emptied = std::mem::take(&mut self.emptied);
        emptied.retain(|key| !self.is_waited_at(&key.0, key.1));
        emptied
    }

    /// When something is to be done; 0 while something is under way.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let is_at_work =
            !self.with_news.is_empty() || self.checked.is_some() || self.waiting.has_left();
        if is_at_work {
            return Some(0);
        }
        // Nothing is held: the check would find nothing.
        let first = self.waiting.next_deadline_ms()?;
        Some(self.next_check_ms.map_or(first, |check| first.min(check)))
    }

    /// Whether a pull waits at a queue.
    #[must_use]
    pub fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.by_key.contains_key(&QueueRef(topic, queue_id))
    }

    /// Pulls held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a pull out; gives it unless its connection is closed.
    fn take(&mut self, id: u64) -> Option<Pull> {
        let taken = self.waiting.take(id)?;
        if let Some(queue) = self.queues.at_mut(taken.place) {
            queue.ids.remove(&id);
            if queue.ids.is_empty()
                && let Some(queue) = self.queues.remove(taken.place)
            {
                self.by_key.remove(&queue.key);
                self.emptied.push((*queue.key).clone());
            }
        }
        taken.is_open.then_some(taken.value)
    }
}

#[cfg(test)]
mod tests;
