//! Held requests that wait for something to pop (`PopLongPollingService`). Pure: times and arrivals
//! are passed in, requests to run again come out. Knows no store and no socket.
//!
//! Other than pulls they do not all want the same messages: of those that wait in one line (topic,
//! group, queue asked for), one is woken at a time.
//!
//! An event only notes what happened; lines are looked at one by one, as far as the slice of a turn
//! goes. Queues with news take turns.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::asker::ConnectionId;
pub use crate::holds::QueueKey;
use crate::holds::{CHECK_INTERVAL_MS, News, QueueRef};
use crate::slots::Slots;
use crate::turn::{LOOKED_AT, Slice};
use crate::waiting::Waiting;

/// Looks at one queue with news before the next one has its turn.
const LOOKS_PER_VISIT: usize = 64;
/// Requests of closed connections that are passed over where the next of a line is asked for; beyond
/// it the line is looked at in slices.
const LEFT_LOOKS_MAX: usize = 64;

/// What can be held.
pub trait Waits {
    /// Who asked.
    fn connection(&self) -> ConnectionId;
    /// Topic, group and queue asked for; below zero: any.
    fn line(&self) -> (&str, &str, i32);
    /// Whether it may want one of some messages, as far as their tags codes tell; none: nobody kept
    /// them.
    fn may_want(&self, tags_codes: &[i64]) -> bool;
}

/// How many may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Per line (`popPollingSize`).
    pub per_line: usize,
    /// At all (`maxPopPollingSize`).
    pub all: usize,
    /// Per connection, as of pulls.
    pub per_connection: usize,
}

#[derive(Debug)]
struct Line {
    key: Arc<str>,
    waiting: BTreeSet<u64>,
    /// The queues that it waits for, by their places.
    queues: BTreeSet<usize>,
}

/// News that are worked off: lines before this one have been looked at, and in this one the requests
/// before that number.
#[derive(Debug)]
struct Walk {
    tags_codes: Vec<i64>,
    line: usize,
    next_id: u64,
    /// Requests from this number on were held later, and have seen what came.
    end_id: u64,
}

#[derive(Debug)]
struct Queue {
    key: Arc<QueueKey>,
    lines: BTreeSet<usize>,
    walk: Option<Walk>,
    /// What came since the walk began.
    news: Option<News>,
    is_listed: bool,
}

/// The held requests.
#[derive(Debug)]
pub struct Polls<T> {
    waiting: Waiting<T>,
    lines: Slots<Line>,
    by_line: HashMap<Arc<str>, usize>,
    queues: Slots<Queue>,
    by_queue: HashMap<Arc<QueueKey>, usize>,
    /// Queues with news, in the order of their turns.
    with_news: VecDeque<usize>,
    looks: usize,
    /// The line that the check has come to, while it is under way.
    checked: Option<usize>,
    emptied: Vec<QueueKey>,
    next_check_ms: Option<u64>,
}

impl<T> Default for Polls<T> {
    fn default() -> Self {
        Self {
            waiting: Waiting::default(),
            lines: Slots::default(),
            by_line: HashMap::new(),
            queues: Slots::default(),
            by_queue: HashMap::new(),
            with_news: VecDeque::new(),
            looks: 0,
            checked: None,
            emptied: Vec::new(),
            next_check_ms: None,
        }
    }
}

fn key_of((topic, group, queue_id): (&str, &str, i32)) -> String {
    format!("{topic}@{group}@{}", queue_id.max(-1))
}

impl<T: Waits> Polls<T> {
    /// Whether another one of a line may be held.
    #[must_use]
    pub fn has_room(&self, waiter: &T, bounds: Bounds) -> bool {
        self.waiting.len() < bounds.all
            && self.len_of(waiter.line()) <= bounds.per_line
            && self.waiting.len_of(waiter.connection()) < bounds.per_connection
    }

    /// Holds a request until `deadline_ms`, or until something comes into one of some queues.
    pub fn hold(&mut self, waiter: T, queues: Vec<QueueKey>, now_ms: u64, deadline_ms: u64) {
        let key = key_of(waiter.line());
        let known = self.by_line.get(key.as_str()).copied();
        let line = known.unwrap_or_else(|| self.add_line(&key));
        for queue in queues {
            let place = self.place_of(queue);
            if let Some(of_line) = self.lines.at_mut(line)
                && of_line.queues.insert(place)
                && let Some(of_queue) = self.queues.at_mut(place)
            {
                of_queue.lines.insert(line);
            }
        }
        let connection = waiter.connection();
        let id = self.waiting.insert(waiter, connection, line, deadline_ms);
        if let Some(line) = self.lines.at_mut(line) {
            line.waiting.insert(id);
        }
        self.next_check_ms
            .get_or_insert(now_ms.saturating_add(CHECK_INTERVAL_MS));
    }

    fn add_line(&mut self, key: &str) -> usize {
        let key: Arc<str> = Arc::from(key);
        let line = self.lines.insert(Line {
            key: Arc::clone(&key),
            waiting: BTreeSet::new(),
            queues: BTreeSet::new(),
        });
        self.by_line.insert(key, line);
        line
    }

    fn place_of(&mut self, queue: QueueKey) -> usize {
        let known = self.by_queue.get(&QueueRef(&queue.0, queue.1)).copied();
        known.unwrap_or_else(|| {
            let key = Arc::new(queue);
            let place = self.queues.insert(Queue {
                key: Arc::clone(&key),
                lines: BTreeSet::new(),
                walk: None,
                news: None,
                is_listed: false,
            });
            self.by_queue.insert(key, place);
            place
        })
    }

    /// Notes what came into a queue; [`Polls::next_woken`] works it off.
    pub fn arrived(&mut self, topic: &str, queue_id: i32, tags_codes: &[i64]) {
        if let Some(place) = self.by_queue.get(&QueueRef(topic, queue_id)).copied() {
            self.note(place, tags_codes);
        }
    }

    fn note(&mut self, place: usize, tags_codes: &[i64]) {
        let Some(queue) = self.queues.at_mut(place) else {
            return;
        };
        let mut news = News::of_end(0);
        news.tags_codes.extend(tags_codes);
        news.add_to(&mut queue.news);
        if !queue.is_listed {
            queue.is_listed = true;
            self.with_news.push_back(place);
        }
    }

    /// Takes the next one that may want what came: of each line that waits for the queue, the first.
    pub fn next_woken(&mut self, slice: &mut Slice) -> Option<T> {
        while !slice.is_spent() {
            let place = *self.with_news.front()?;
            let Some((line, id)) = self.look_at(place, slice) else {
                continue;
            };
            if let Some(waiter) = self.take(id) {
                // One of a line is enough.
                let queue = self.queues.at_mut(place);
                if let Some(walk) = queue.and_then(|queue| queue.walk.as_mut()) {
                    (walk.line, walk.next_id) = (line + 1, 0);
                }
                return Some(waiter);
            }
        }
        None
    }

    /// Looks at requests for the queue whose turn it is, until one is found or the turn ends.
    fn look_at(&mut self, place: usize, slice: &mut Slice) -> Option<(usize, u64)> {
        let end_id = self.waiting.next_id();
        let Some(queue) = self.queues.at_mut(place) else {
            self.end_visit(None);
            return None;
        };
        if queue.walk.is_none() {
            queue.walk = queue.news.take().map(|news| Walk {
                tags_codes: news.tags_codes,
                line: 0,
                next_id: 0,
                end_id,
            });
        }
        let Some(walk) = &mut queue.walk else {
            queue.is_listed = false;
            self.end_visit(None);
            return None;
        };
        for line in queue.lines.range(walk.line..) {
            if *line != walk.line {
                (walk.line, walk.next_id) = (*line, 0);
            }
            let of_line = self.lines.get(*line);
            let ids = of_line.map(|of_line| of_line.waiting.range(walk.next_id..walk.end_id));
            for id in ids.into_iter().flatten() {
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
                let waiter = self.waiting.get(*id);
                if waiter.is_some_and(|waiter| waiter.may_want(&walk.tags_codes)) {
                    return Some((*line, *id));
                }
            }
            // A line without anybody who is asked costs a look, too.
            slice.spend(LOOKED_AT);
            (walk.line, walk.next_id) = (line + 1, 0);
            if slice.is_spent() {
                return None;
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

    /// Takes the one that waits longest in a line.
    pub fn next_of(&mut self, line: (&str, &str, i32)) -> Option<T> {
        let place = *self.by_line.get(key_of(line).as_str())?;
        for _ in 0..LEFT_LOOKS_MAX {
            let id = *self.lines.get(place)?.waiting.first()?;
            if let Some(waiter) = self.take(id) {
                return Some(waiter);
            }
        }
        let queue = self.lines.get(place)?.queues.first().copied();
        if let Some(queue) = queue {
            self.note(queue, &[]);
        }
        None
    }

    /// Takes the next one whose time is over.
    pub fn next_due(&mut self, now_ms: u64, slice: &mut Slice) -> Option<T> {
        while !slice.is_spent() {
            let id = self.waiting.first_due(now_ms)?;
            slice.spend(LOOKED_AT);
            if let Some(waiter) = self.take(id) {
                return Some(waiter);
            }
        }
        None
    }

    /// Takes the next one of those that the check looks after, when it is due: one of each line. It is
    /// the net under the news of arrivals.
    pub fn next_checked(&mut self, now_ms: u64, slice: &mut Slice) -> Option<T> {
        if self.checked.is_none() {
            if self.next_check_ms.is_none_or(|at| at > now_ms) {
                return None;
            }
            self.next_check_ms = (!self.is_empty()).then(|| now_ms + CHECK_INTERVAL_MS);
            self.checked = Some(0);
        }
        let mut at = self.checked?;
        while at < self.lines.end() && !slice.is_spent() {
            slice.spend(LOOKED_AT);
            let first = self.lines.get(at).and_then(|line| line.waiting.first());
            let Some(id) = first.copied() else {
                at += 1;
                continue;
            };
            if let Some(waiter) = self.take(id) {
                self.checked = Some(at + 1);
                return Some(waiter);
            }
        }
        self.checked = (at < self.lines.end()).then_some(at);
        None
    }

    /// Forgets what a connection asked: it is not woken any more, and [`Polls::forget_left`] takes it
    /// out.
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

    /// Queues that nobody waits for any more, since the last call.
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
        let first = self.waiting.next_deadline_ms()?;
        Some(self.next_check_ms.map_or(first, |check| first.min(check)))
    }

    /// Whether somebody waits for a queue.
    #[must_use]
    pub fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.by_queue.contains_key(&QueueRef(topic, queue_id))
    }

    /// Requests held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests held in a line.
    #[must_use]
    pub fn len_of(&self, line: (&str, &str, i32)) -> usize {
        let found = self.by_line.get(key_of(line).as_str());
        let line = found.and_then(|line| self.lines.get(*line));
        line.map_or(0, |line| line.waiting.len())
    }

    /// Takes a request out; gives it unless its connection is closed.
    fn take(&mut self, id: u64) -> Option<T> {
        let taken = self.waiting.take(id)?;
        if let Some(line) = self.lines.at_mut(taken.place) {
            line.waiting.remove(&id);
            if line.waiting.is_empty()
                && let Some(line) = self.lines.remove(taken.place)
            {
                self.by_line.remove(&line.key);
                self.leave(taken.place, line.queues);
            }
        }
        taken.is_open.then_some(taken.value)
    }

    fn leave(&mut self, line: usize, queues: BTreeSet<usize>) {
        for place in queues {
            if let Some(queue) = self.queues.at_mut(place) {
                queue.lines.remove(&line);
                if queue.lines.is_empty()
                    && let Some(queue) = self.queues.remove(place)
                {
                    self.by_queue.remove(&queue.key);
                    self.emptied.push((*queue.key).clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
