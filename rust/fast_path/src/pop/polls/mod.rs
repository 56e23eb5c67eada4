//! Held requests that wait for something to pop (`PopLongPollingService`). Pure: times and arrivals
//! are passed in, requests to run again come out. Knows no store and no socket.
//!
//! Other than pulls they do not all want the same messages: of those that wait in one line (topic,
//! group, queue asked for), one is woken at a time.
//!
//! An event only records what happened; lines are looked at one by one, as far as the slice of a
//! turn goes. Queues with news take turns.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

pub use crate::held::QueueKey;
use crate::held::slots::Slots;
use crate::held::{Held, LOOKS_PER_VISIT, Membership, News, Queues};
use crate::request_context::ConnectionId;
use crate::turn::{LOOKED_AT, Slice};

/// Requests of closed connections that are passed over where the next of a line is asked for; beyond
/// it the line is looked at in slices.
const LEFT_LOOKS_MAX: usize = 64;

/// What can be held.
pub trait Waits {
    /// Who asked.
    fn connection(&self) -> ConnectionId;
    /// Topic, group and queue asked for; below zero: any.
    fn line(&self) -> (&str, &str, i32);
    /// Whether it may want one of some messages, as far as their tags codes show; none: nobody kept
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

/// Requests wait in lines.
#[derive(Debug, Default)]
struct Lines {
    slots: Slots<Line>,
    by_key: HashMap<Arc<str>, usize>,
}

impl Lines {
    fn find(&self, line: (&str, &str, i32)) -> Option<usize> {
        self.by_key.get(key_of(line).as_str()).copied()
    }

    fn insert(&mut self, line: (&str, &str, i32)) -> usize {
        let key = key_of(line);
        if let Some(known) = self.by_key.get(key.as_str()) {
            return *known;
        }
        let key: Arc<str> = Arc::from(key);
        let slot = self.slots.insert(Line {
            key: Arc::clone(&key),
            waiting: BTreeSet::new(),
            queues: BTreeSet::new(),
        });
        self.by_key.insert(key, slot);
        slot
    }
}

impl Membership for Lines {
    type Member = usize;
    type Walk = Walk;

    fn leave(&mut self, queues: &mut Queues<usize, Walk>, slot: usize, id: u64) {
        let Some(line) = self.slots.at_mut(slot) else {
            return;
        };
        line.waiting.remove(&id);
        if line.waiting.is_empty()
            && let Some(line) = self.slots.remove(slot)
        {
            self.by_key.remove(&line.key);
            for queue in line.queues {
                queues.leave(queue, &slot);
            }
        }
    }
}

/// The held requests.
#[derive(Debug)]
pub struct Polls<T> {
    held: Held<T, Lines>,
}

impl<T> Default for Polls<T> {
    fn default() -> Self {
        Self {
            held: Held::default(),
        }
    }
}

fn key_of((topic, group, queue_id): (&str, &str, i32)) -> String {
    format!("{topic}@{group}@{}", queue_id.max(-1))
}

impl<T: Waits> Polls<T> {
    /// Whether another one of a line may be held.
    #[must_use]
    pub fn has_space(&self, waiter: &T, bounds: Bounds) -> bool {
        let waiting = &self.held.waiting;
        waiting.len() < bounds.all
            && self.len_of(waiter.line()) <= bounds.per_line
            && waiting.len_of(waiter.connection()) < bounds.per_connection
    }

    /// Holds a request until `deadline_ms`, or until something comes into one of some queues.
    pub fn hold(&mut self, waiter: T, queues: Vec<QueueKey>, now_ms: u64, deadline_ms: u64) {
        let held = &mut self.held;
        let line = held.members.insert(waiter.line());
        for queue in queues {
            let slot = held.queues.insert(queue);
            if let Some(of_line) = held.members.slots.at_mut(line)
                && of_line.queues.insert(slot)
                && let Some(of_queue) = held.queues.at_mut(slot)
            {
                of_queue.members.insert(line);
            }
        }
        let connection = waiter.connection();
        let id = held.hold(waiter, connection, line, (now_ms, deadline_ms));
        if let Some(line) = held.members.slots.at_mut(line) {
            line.waiting.insert(id);
        }
    }

    /// Records what came into a queue; [`Polls::next_woken`] works it off.
    pub fn arrived(&mut self, topic: &str, queue_id: i32, tags_codes: &[i64]) {
        if let Some(slot) = self.held.queues.find(topic, queue_id) {
            self.note(slot, tags_codes);
        }
    }

    fn note(&mut self, slot: usize, tags_codes: &[i64]) {
        let mut news = News::of_end(0);
        news.tags_codes.extend(tags_codes);
        self.held.queues.note(slot, news);
    }

    /// Takes the next one that may want what came: of each line that waits for the queue, the first.
    pub fn next_woken(&mut self, slice: &mut Slice) -> Option<T> {
        while !slice.is_spent() {
            let slot = self.held.queues.front()?;
            let Some((line, id)) = self.look_at(slot, slice) else {
                continue;
            };
            if let Some(waiter) = self.held.take(id) {
                // One of a line is enough.
                let queue = self.held.queues.at_mut(slot);
                if let Some(walk) = queue.and_then(|queue| queue.walk.as_mut()) {
                    (walk.line, walk.next_id) = (line + 1, 0);
                }
                return Some(waiter);
            }
        }
        None
    }

    /// Looks at requests for the queue whose turn it is, until one is found or the turn ends.
    fn look_at(&mut self, slot: usize, slice: &mut Slice) -> Option<(usize, u64)> {
        let end_id = self.held.waiting.next_id();
        let walk_of = |news: News| Walk {
            tags_codes: news.tags_codes,
            line: 0,
            next_id: 0,
            end_id,
        };
        let (lines, walk, looks) = self.held.queues.visit(slot, walk_of)?;
        for line in lines.range(walk.line..) {
            if *line != walk.line {
                (walk.line, walk.next_id) = (*line, 0);
            }
            let of_line = self.held.members.slots.get(*line);
            let ids = of_line.map(|of_line| of_line.waiting.range(walk.next_id..walk.end_id));
            for id in ids.into_iter().flatten() {
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
                let waiter = self.held.waiting.get(*id);
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
        self.held.queues.end_walk(slot);
        None
    }

    /// Takes the one that waits longest in a line.
    pub fn next_of(&mut self, line: (&str, &str, i32)) -> Option<T> {
        let slot = self.held.members.find(line)?;
        for _ in 0..LEFT_LOOKS_MAX {
            let id = *self.held.members.slots.get(slot)?.waiting.first()?;
            if let Some(waiter) = self.held.take(id) {
                return Some(waiter);
            }
        }
        let line = self.held.members.slots.get(slot)?;
        if let Some(queue) = line.queues.first().copied() {
            self.note(queue, &[]);
        }
        None
    }

    /// Lets go what a connection waits for now.
    pub fn release(&mut self, connection: ConnectionId) {
        self.held.release(connection);
    }

    /// Takes the next one that is let go.
    pub fn next_released(&mut self, slice: &mut Slice) -> Option<T> {
        self.held.next_released(slice)
    }

    /// Takes the next one whose time is over.
    pub fn next_due(&mut self, now_ms: u64, slice: &mut Slice) -> Option<T> {
        self.held.next_due(now_ms, slice)
    }

    /// Takes the next one of those that the check looks after, when it is due: one of each line. It is
    /// the net under the news of arrivals.
    pub fn next_checked(&mut self, now_ms: u64, slice: &mut Slice) -> Option<T> {
        let mut at = self.held.check_from(now_ms)?;
        while at < self.held.members.slots.end() && !slice.is_spent() {
            slice.spend(LOOKED_AT);
            let line = self.held.members.slots.get(at);
            let Some(id) = line.and_then(|line| line.waiting.first()).copied() else {
                at += 1;
                continue;
            };
            if let Some(waiter) = self.held.take(id) {
                self.held.checked_to(Some(at + 1));
                return Some(waiter);
            }
        }
        let end = self.held.members.slots.end();
        self.held.checked_to((at < end).then_some(at));
        None
    }

    /// Forgets what a connection asked: it is not woken any more, and [`Polls::forget_left`] takes it
    /// out.
    pub fn close(&mut self, connection: ConnectionId) {
        self.held.close(connection);
    }

    /// Takes out what closed connections have left.
    pub fn forget_left(&mut self, slice: &mut Slice) {
        self.held.forget_left(slice);
    }

    /// Queues are watched for a request that is not held after all.
    pub(crate) fn let_go(&mut self, queues: Vec<QueueKey>) {
        for key in queues {
            self.held.let_go(key);
        }
    }

    /// Whether [`Polls::take_emptied`] may have something.
    pub(crate) fn has_emptied(&self) -> bool {
        self.held.has_emptied()
    }

    /// Queues that nobody waits for any more, since the last call.
    pub fn take_emptied(&mut self) -> Vec<QueueKey> {
        self.held.take_emptied()
    }

    /// When something is to be done; 0 while something is under way.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.held.next_deadline_ms()
    }

    /// Whether somebody waits for a queue.
    #[must_use]
    pub fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.held.is_waited_at(topic, queue_id)
    }

    /// Requests held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.waiting.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests held in a line.
    #[must_use]
    pub fn len_of(&self, line: (&str, &str, i32)) -> usize {
        let found = self.held.members.find(line);
        let line = found.and_then(|line| self.held.members.slots.get(line));
        line.map_or(0, |line| line.waiting.len())
    }
}

#[cfg(test)]
mod tests;
