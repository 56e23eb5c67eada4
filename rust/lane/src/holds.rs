//! Held pulls: consumers that found nothing and wait at the end of a queue (long polling). Pure:
//! times and arrivals are passed in, pulls to run again come out. Knows no store and no socket.
//!
//! | event | what becomes of a held pull |
//! |---|---|
//! | a record comes that its filter may want | it runs again |
//! | its time is over | it runs again |
//! | the check finds its queue longer than its offset | it runs again |
//! | its connection closes | it is forgotten |

use std::collections::{BTreeSet, HashMap};

use crate::asker::{Asker, ConnectionId};
use crate::policy::Filter;
use crate::shape::Shape;

/// Pulls held per connection: a consumer holds one per queue it reads, and a queue more than this
/// on one connection is none that a client of ours could work off.
pub const HELD_PER_CONNECTION_MAX: usize = 65_536;
/// Pulls held at all: some 400 bytes each, so 100 MB.
pub const HELD_MAX: usize = 262_144;
/// How often every queue with held pulls is looked at, ms: the net under the news of arrivals, at
/// the official interval.
pub const CHECK_INTERVAL_MS: u64 = 5_000;

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

#[derive(Debug)]
struct Held {
    pull: Pull,
    deadline_ms: u64,
}

type QueueKey = (Box<str>, i32);

/// The held pulls.
#[derive(Debug, Default)]
pub struct Holds {
    by_id: HashMap<u64, Held>,
    by_queue: HashMap<QueueKey, Vec<u64>>,
    by_connection: HashMap<ConnectionId, BTreeSet<u64>>,
    deadlines: BTreeSet<(u64, u64)>,
    emptied: Vec<QueueKey>,
    next_id: u64,
    next_check_ms: Option<u64>,
}

/// Whether a pull could be held.
#[derive(Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is held, the first of its queue.
    First,
    /// It is held.
    Further,
    /// Too many are: of this connection, or at all.
    Full,
}

impl Holds {
    /// Holds a pull until `deadline_ms`.
    pub fn hold(&mut self, pull: Pull, now_ms: u64, deadline_ms: u64) -> Hold {
        let of_connection = self.by_connection.entry(pull.asker.connection).or_default();
        if self.by_id.len() >= HELD_MAX || of_connection.len() >= HELD_PER_CONNECTION_MAX {
            return Hold::Full;
        }
        let id = self.next_id;
        self.next_id += 1;
        of_connection.insert(id);
        let key = (pull.topic.clone(), pull.queue_id);
        let of_queue = self.by_queue.entry(key).or_default();
        of_queue.push(id);
        let is_first = of_queue.len() == 1;
        self.deadlines.insert((deadline_ms, id));
        self.by_id.insert(id, Held { pull, deadline_ms });
        self.next_check_ms
            .get_or_insert(now_ms.saturating_add(CHECK_INTERVAL_MS));
        if is_first { Hold::First } else { Hold::Further }
    }

    /// Takes the pulls of a queue that want what came: records up to `next_offset` with these tags
    /// codes (none: nobody kept them). Whose filter looks at records is asked for by `wants`.
    pub fn arrived(
        &mut self,
        topic: &str,
        queue_id: i32,
        news: (u64, &[i64]),
        wants: impl Fn(&Pull) -> bool,
        out: &mut Vec<Pull>,
    ) {
        let (next_offset, tags_codes) = news;
        // Most wakes find their queue; the key is made for those that do not, too, which is rare.
        let key = (Box::from(topic), queue_id);
        let Some(ids) = self.by_queue.get(&key) else {
            return;
        };
        let woken = |id: &u64| {
            let pull = &self.by_id.get(id)?.pull;
            let is_new = u64::try_from(pull.queue_offset).map_or(true, |from| from < next_offset);
            let may_want = is_new && pull.filter.may_want(tags_codes);
            (may_want && (!pull.filter.looks_at_records() || wants(pull))).then_some(*id)
        };
        let woken: Vec<u64> = ids.iter().filter_map(woken).collect();
        self.take(&woken, out);
    }

    /// Takes the pulls whose time is over.
    pub fn due(&mut self, now_ms: u64, out: &mut Vec<Pull>) {
        let over = self.deadlines.range(..=(now_ms, u64::MAX));
        let woken: Vec<u64> = over.map(|(_at, id)| *id).collect();
        self.take(&woken, out);
    }

    /// The queues to be looked at, when the check is due.
    pub fn check(&mut self, now_ms: u64) -> Vec<(Box<str>, i32)> {
        if self.next_check_ms.is_none_or(|at| at > now_ms) {
            return Vec::new();
        }
        self.next_check_ms = (!self.by_id.is_empty()).then(|| now_ms + CHECK_INTERVAL_MS);
        self.by_queue.keys().cloned().collect()
    }

    /// Forgets the pulls of a connection.
    pub fn close(&mut self, connection: ConnectionId) {
        let ids = self.by_connection.remove(&connection);
        let ids: Vec<u64> = ids.into_iter().flatten().collect();
        self.take(&ids, &mut Vec::new());
    }

    /// Queues that nobody waits at any more, since the last call.
    pub fn take_emptied(&mut self) -> Vec<(Box<str>, i32)> {
        let mut emptied = std::mem::take(&mut self.emptied);
        emptied.retain(|key| !self.by_queue.contains_key(key));
        emptied
    }

    /// When [`Holds::due`] or [`Holds::check`] has something to do.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let first = self.deadlines.first().map(|(at, _id)| *at);
        match (first, self.next_check_ms) {
            (Some(first), Some(check)) => Some(first.min(check)),
            (Some(first), None) => Some(first),
            // Nothing is held: the check would find nothing.
            (None, _) => None,
        }
    }

    /// Whether a pull waits at a queue.
    #[must_use]
    pub fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.by_queue.contains_key(&(Box::from(topic), queue_id))
    }

    /// Pulls held now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    fn take(&mut self, ids: &[u64], out: &mut Vec<Pull>) {
        for id in ids {
            let Some(held) = self.by_id.remove(id) else {
                continue;
            };
            self.deadlines.remove(&(held.deadline_ms, *id));
            let pull = held.pull;
            if let Some(of_connection) = self.by_connection.get_mut(&pull.asker.connection) {
                of_connection.remove(id);
            }
            let key = (pull.topic.clone(), pull.queue_id);
            if let Some(of_queue) = self.by_queue.get_mut(&key) {
                of_queue.retain(|other| other != id);
                if of_queue.is_empty() {
                    self.by_queue.remove(&key);
                    self.emptied.push(key);
                }
            }
            out.push(pull);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pull(connection: u64, opaque: i32, queue_id: i32, queue_offset: i64) -> Pull {
        Pull {
            asker: Asker {
                connection: ConnectionId(connection),
                opaque,
                ..Asker::default()
            },
            group: "g".into(),
            topic: "t".into(),
            queue_id,
            queue_offset,
            count_max: 32,
            bytes_max: 1,
            shape: Shape::Official,
            filter: if opaque % 3 == 0 {
                Filter::Tags([1_i64].into())
            } else {
                Filter::All
            },
            version: None,
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Hold(u64, i32, i64, u64),
        Arrive(i32, u64, Vec<i64>),
        Pass(u64),
        Close(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let codes = proptest::collection::vec(0..3_i64, 0..3);
        prop_oneof![
            4 => (0..3_u64, 0..3, 0..6_i64, 0..40_u64).prop_map(|(c, q, o, t)| Step::Hold(c, q, o, t)),
            2 => (0..3, 0..6_u64, codes).prop_map(|(q, o, codes)| Step::Arrive(q, o, codes)),
            2 => (0..20_u64).prop_map(Step::Pass),
            1 => (0..3_u64).prop_map(Step::Close),
        ]
    }

    fn opaques(pulls: &[Pull]) -> Vec<i32> {
        let mut all: Vec<i32> = pulls.iter().map(|pull| pull.asker.opaque).collect();
        all.sort_unstable();
        all
    }

    /// Splits a list by a test, as a naive model of all that is held.
    fn split(model: &mut Vec<(Pull, u64)>, is_woken: impl Fn(&(Pull, u64)) -> bool) -> Vec<Pull> {
        let woken = model
            .iter()
            .filter(|held| is_woken(held))
            .map(|held| held.0.clone());
        let woken = woken.collect();
        model.retain(|held| !is_woken(held));
        woken
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_list(steps in proptest::collection::vec(step(), 1..60)) {
            let (mut holds, mut model, mut now_ms) = (Holds::default(), Vec::new(), 0);
            for (at, step) in steps.into_iter().enumerate() {
                let mut out = Vec::new();
                let want = match step {
                    Step::Hold(connection, queue_id, offset, wait_ms) => {
                        let pull = pull(connection, at as i32, queue_id, offset);
                        let is_first = !model
                            .iter()
                            .any(|(held, _): &(Pull, u64)| held.queue_id == queue_id);
                        model.push((pull.clone(), now_ms + wait_ms));
                        let held = holds.hold(pull, now_ms, now_ms + wait_ms);
                        prop_assert_eq!(held == Hold::First, is_first);
                        vec![]
                    }
                    Step::Arrive(queue_id, next, codes) => {
                        holds.arrived("t", queue_id, (next, &codes), |_| true, &mut out);
                        split(&mut model, |(held, _at)| {
                            held.queue_id == queue_id
                                && held.queue_offset < next as i64
                                && held.filter.may_want(&codes)
                        })
                    }
                    Step::Pass(by_ms) => {
                        now_ms += by_ms;
                        holds.due(now_ms, &mut out);
                        split(&mut model, |(_pull, at)| *at <= now_ms)
                    }
                    Step::Close(connection) => {
                        holds.close(ConnectionId(connection));
                        split(&mut model, |(held, _)| held.asker.connection.0 == connection);
                        vec![]
                    }
                };
                prop_assert_eq!(opaques(&out), opaques(&want));
                prop_assert_eq!(holds.len(), model.len());
                let next = model.iter().map(|(_pull, at)| *at).min();
                let told = holds.next_deadline_ms();
                prop_assert!(told.is_some() == next.is_some() && told <= next);
                for (_topic, queue_id) in holds.take_emptied() {
                    prop_assert!(!model.iter().any(|(held, _at)| held.queue_id == queue_id));
                }
            }
        }
    }

    #[test]
    fn the_check_comes_at_its_interval_while_something_is_held() {
        let mut holds = Holds::default();
        assert!(holds.check(u64::MAX).is_empty());
        holds.hold(pull(1, 1, 4, 0), 100, 60_000);
        assert!(holds.check(100 + CHECK_INTERVAL_MS - 1).is_empty());
        assert_eq!(holds.check(100 + CHECK_INTERVAL_MS), [("t".into(), 4)]);
        assert!(holds.check(101 + CHECK_INTERVAL_MS).is_empty());
    }

    #[test]
    fn one_connection_cannot_hold_without_end() {
        let mut holds = Holds::default();
        for at in 0..HELD_PER_CONNECTION_MAX {
            assert_ne!(holds.hold(pull(1, 1, at as i32, 0), 0, 9), Hold::Full);
        }
        assert_eq!(holds.hold(pull(1, 1, -1, 0), 0, 9), Hold::Full);
        assert_eq!(
            holds.hold(pull(2, 1, -1, 0), 0, 9),
            Hold::First,
            "others go on"
        );
    }
}
