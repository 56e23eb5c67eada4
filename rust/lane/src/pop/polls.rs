//! Held requests that wait for something to pop (`PopLongPollingService`). Pure: times and arrivals
//! are passed in, requests to run again come out. Knows no store and no socket.
//!
//! Other than pulls they do not all want the same messages: of those that wait in one line (topic,
//! group, queue asked for), one is woken at a time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::asker::ConnectionId;
use crate::holds::{CHECK_INTERVAL_MS, HELD_PER_CONNECTION_MAX};

/// A queue of a topic.
pub type QueueKey = (Box<str>, i32);

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
}

#[derive(Debug)]
struct Held<T> {
    waiter: T,
    line: Arc<str>,
    deadline_ms: u64,
}

#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<u64>,
    queues: Vec<QueueKey>,
}

/// The held requests.
#[derive(Debug)]
pub struct Polls<T> {
    by_id: HashMap<u64, Held<T>>,
    lines: HashMap<Arc<str>, Line>,
    by_queue: HashMap<QueueKey, Vec<Arc<str>>>,
    by_connection: HashMap<ConnectionId, BTreeSet<u64>>,
    deadlines: BTreeSet<(u64, u64)>,
    emptied: Vec<QueueKey>,
    next_id: u64,
    next_check_ms: Option<u64>,
}

impl<T> Default for Polls<T> {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            lines: HashMap::new(),
            by_queue: HashMap::new(),
            by_connection: HashMap::new(),
            deadlines: BTreeSet::new(),
            emptied: Vec::new(),
            next_id: 0,
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
        let of_line = self.lines.get(key_of(waiter.line()).as_str());
        let of_line = of_line.map_or(0, |line| line.waiting.len());
        let of_connection = self.by_connection.get(&waiter.connection());
        let of_connection = of_connection.map_or(0, BTreeSet::len);
        self.by_id.len() < bounds.all
            && of_line <= bounds.per_line
            && of_connection < HELD_PER_CONNECTION_MAX
    }

    /// Holds a request until `deadline_ms`, or until something comes into one of some queues.
    pub fn hold(&mut self, waiter: T, queues: Vec<QueueKey>, now_ms: u64, deadline_ms: u64) {
        let id = self.next_id;
        self.next_id += 1;
        let key = key_of(waiter.line());
        let known = self.lines.get_key_value(key.as_str());
        let key = known.map_or_else(|| Arc::from(key), |(known, _line)| Arc::clone(known));
        let line = self.lines.entry(Arc::clone(&key)).or_default();
        line.waiting.push_back(id);
        for queue in queues {
            if !line.queues.contains(&queue) {
                let of_queue = self.by_queue.entry(queue.clone()).or_default();
                of_queue.push(Arc::clone(&key));
                line.queues.push(queue);
            }
        }
        let of_connection = self.by_connection.entry(waiter.connection()).or_default();
        of_connection.insert(id);
        self.deadlines.insert((deadline_ms, id));
        self.next_check_ms
            .get_or_insert(now_ms.saturating_add(CHECK_INTERVAL_MS));
        let line = key;
        self.by_id.insert(
            id,
            Held {
                waiter,
                line,
                deadline_ms,
            },
        );
    }

    /// Takes one of each line that waits for a queue and may want what came into it.
    pub fn arrived(&mut self, topic: &str, queue_id: i32, tags_codes: &[i64], out: &mut Vec<T>) {
        let key = (Box::from(topic), queue_id);
        let Some(lines) = self.by_queue.get(&key) else {
            return;
        };
        let first = |key: &Arc<str>| {
            let mut waiting = self.lines.get(key)?.waiting.iter().copied();
            waiting.find(|id| {
                let held = self.by_id.get(id);
                held.is_some_and(|held| held.waiter.may_want(tags_codes))
            })
        };
        let woken: Vec<u64> = lines.iter().filter_map(first).collect();
        self.take(&woken, out);
    }

    /// Takes the one that waits longest in a line.
    pub fn next_of(&mut self, line: (&str, &str, i32)) -> Option<T> {
        let id = *self.lines.get(key_of(line).as_str())?.waiting.front()?;
        let mut out = Vec::with_capacity(1);
        self.take(&[id], &mut out);
        out.pop()
    }

    /// Takes those whose time is over.
    pub fn due(&mut self, now_ms: u64, out: &mut Vec<T>) {
        let over = self.deadlines.range(..=(now_ms, u64::MAX));
        let woken: Vec<u64> = over.map(|(_at, id)| *id).collect();
        self.take(&woken, out);
    }

    /// Takes one of each line, when the check is due: the net under the news of arrivals.
    pub fn check(&mut self, now_ms: u64, out: &mut Vec<T>) {
        if self.next_check_ms.is_none_or(|at| at > now_ms) {
            return;
        }
        let first = |line: &Line| line.waiting.front().copied();
        let woken: Vec<u64> = self.lines.values().filter_map(first).collect();
        self.next_check_ms = (!woken.is_empty()).then(|| now_ms + CHECK_INTERVAL_MS);
        self.take(&woken, out);
    }

    /// Forgets what a connection asked.
    pub fn close(&mut self, connection: ConnectionId) {
        let ids = self.by_connection.remove(&connection);
        let ids: Vec<u64> = ids.into_iter().flatten().collect();
        self.take(&ids, &mut Vec::new());
    }

    /// Queues that nobody waits for any more, since the last call.
    pub fn take_emptied(&mut self) -> Vec<QueueKey> {
        let mut emptied = std::mem::take(&mut self.emptied);
        emptied.retain(|key| !self.by_queue.contains_key(key));
        emptied
    }

    /// When [`Polls::due`] or [`Polls::check`] has something to do.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let first = self.deadlines.first().map(|(at, _id)| *at)?;
        Some(self.next_check_ms.map_or(first, |check| first.min(check)))
    }

    /// Whether somebody waits for a queue.
    #[must_use]
    pub fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.by_queue.contains_key(&(Box::from(topic), queue_id))
    }

    /// Requests held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Requests held in a line.
    #[must_use]
    pub fn len_of(&self, line: (&str, &str, i32)) -> usize {
        let found = self.lines.get(key_of(line).as_str());
        found.map_or(0, |line| line.waiting.len())
    }

    fn take(&mut self, ids: &[u64], out: &mut Vec<T>) {
        for id in ids {
            let Some(held) = self.by_id.remove(id) else {
                continue;
            };
            self.deadlines.remove(&(held.deadline_ms, *id));
            let connection = held.waiter.connection();
            if let Some(of_connection) = self.by_connection.get_mut(&connection) {
                of_connection.remove(id);
                if of_connection.is_empty() {
                    self.by_connection.remove(&connection);
                }
            }
            if let Some(line) = self.lines.get_mut(&held.line) {
                line.waiting.retain(|each| each != id);
                if line.waiting.is_empty()
                    && let Some(line) = self.lines.remove(&held.line)
                {
                    self.leave(&held.line, line.queues);
                }
            }
            out.push(held.waiter);
        }
    }

    fn leave(&mut self, line: &Arc<str>, queues: Vec<QueueKey>) {
        for queue in queues {
            if let Some(lines) = self.by_queue.get_mut(&queue) {
                lines.retain(|each| each != line);
                if lines.is_empty() {
                    self.by_queue.remove(&queue);
                    self.emptied.push(queue);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Waiter(u64, &'static str, i32, Option<i64>);

    impl Waits for Waiter {
        fn connection(&self) -> ConnectionId {
            ConnectionId(self.0)
        }
        fn line(&self) -> (&str, &str, i32) {
            ("t", self.1, self.2)
        }
        fn may_want(&self, tags_codes: &[i64]) -> bool {
            self.3
                .is_none_or(|code| tags_codes.is_empty() || tags_codes.contains(&code))
        }
    }

    fn queues() -> Vec<QueueKey> {
        vec![("t".into(), 0), ("t".into(), 1)]
    }

    #[test]
    fn what_comes_wakes_one_of_each_line() {
        let mut polls = Polls::default();
        for connection in [1, 2] {
            for group in ["g", "h"] {
                polls.hold(Waiter(connection, group, -1, None), queues(), 0, 100);
            }
        }
        polls.hold(Waiter(3, "g", 1, Some(5)), vec![("t".into(), 1)], 0, 100);
        let mut woken = Vec::new();
        polls.arrived("t", 1, &[4], &mut woken);
        woken.sort_by_key(|each| each.1);
        assert_eq!(woken, [Waiter(1, "g", -1, None), Waiter(1, "h", -1, None)]);
        woken.clear();
        polls.arrived("t", 1, &[5, 6], &mut woken);
        assert_eq!(woken.len(), 3);
        assert!(polls.is_empty());
        let mut emptied = polls.take_emptied();
        emptied.sort();
        assert_eq!(emptied, queues());
        assert_eq!(polls.next_deadline_ms(), None);
    }

    #[test]
    fn times_and_connections_end() {
        let mut polls = Polls::default();
        polls.hold(Waiter(1, "g", -1, None), queues(), 0, 10);
        polls.hold(Waiter(2, "g", -1, None), queues(), 0, 20);
        polls.hold(Waiter(3, "g", -1, None), queues(), 0, 20_000);
        assert_eq!(polls.len_of(("t", "g", -7)), 3);
        let mut woken = Vec::new();
        polls.due(10, &mut woken);
        assert_eq!(woken, [Waiter(1, "g", -1, None)]);
        polls.close(ConnectionId(2));
        assert_eq!(polls.next_deadline_ms(), Some(CHECK_INTERVAL_MS));
        polls.check(CHECK_INTERVAL_MS, &mut woken);
        assert_eq!(woken.len(), 2);
        assert_eq!(polls.next_of(("t", "g", -1)), None);
    }

    #[test]
    fn lines_and_all_have_bounds() {
        let mut polls = Polls::default();
        let bounds = Bounds {
            per_line: 1,
            all: 3,
        };
        let waiter = |group| Waiter(1, group, -1, None);
        for group in ["g", "g"] {
            assert!(polls.has_room(&waiter(group), bounds));
            polls.hold(waiter(group), queues(), 0, 10);
        }
        assert!(
            !polls.has_room(&waiter("g"), bounds),
            "one more than its size, as officially"
        );
        polls.hold(waiter("h"), queues(), 0, 10);
        assert!(!polls.has_room(&waiter("i"), bounds));
    }
}
