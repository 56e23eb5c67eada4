//! How far groups are behind, in messages and in time (`ConsumerLagCalculator`): asked rarely, by a thread
//! of its own. Knows no request.

use std::time::Duration;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::Store;

use crate::consumer_offsets::offsets::{Queues, SEPARATOR};
use crate::gets::Got;

/// For how long store times are looked up: records may have to be read from the disk, and who asks waits.
pub const LOOK_FOR: Duration = Duration::from_millis(100);

/// A group on a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lag {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// Messages behind its offsets.
    pub messages: u64,
    /// Messages that were pulled and are not committed.
    pub in_flight: u64,
    /// Messages that were not pulled.
    pub ready: u64,
    /// For how long the first message behind its offsets has been there, ms; 0 without one; `None`: there
    /// was no time to look it up.
    pub behind_ms: Option<u64>,
    /// The same of the first message that was not pulled.
    pub queueing_ms: Option<u64>,
}

/// What a table of offsets, the pulls and the readable queues make together.
pub struct Groups {
    /// Offsets by `topic@group`.
    pub offsets: Vec<(String, Queues)>,
    /// What was pulled, by group and topic.
    pub gets: HashMap<(String, String), Got>,
    /// How many queues of a topic are read.
    pub read_queues: HashMap<String, i32>,
}

impl Groups {
    /// How far each group is behind.
    ///
    /// # Blocking
    /// Reads the disk, for some [`LOOK_FOR`].
    pub fn lags<D: Disk, C: Clock>(
        &self,
        store: &Store<D, C>,
        clock: &C,
        known: &mut KnownTimes,
    ) -> Vec<Lag> {
        let now = clock.elapsed();
        let until = now.saturating_add(LOOK_FOR);
        let mut times = Times {
            store,
            now_ms: store.wall_ms(),
            now,
            is_over: Box::new(move || clock.elapsed() >= until),
            before: std::mem::take(&mut known.by_topic),
            known,
        };
        let keys = self.offsets.iter();
        let keys = keys.filter_map(|(key, queues)| Some((key.rsplit_once(SEPARATOR)?, queues)));
        keys.map(|((topic, group), queues)| self.lag_of(store, (topic, group), queues, &mut times))
            .collect()
    }

    fn lag_of<D: Disk, C: Clock>(
        &self,
        store: &Store<D, C>,
        (topic, group): (&str, &str),
        queues: &Queues,
        times: &mut Times<'_, D, C>,
    ) -> Lag {
        let got = self.gets.get(&(group.to_owned(), topic.to_owned()));
        let mut lag = Lag {
            group: group.to_owned(),
            topic: topic.to_owned(),
            messages: 0,
            in_flight: 0,
            ready: 0,
            behind_ms: Some(0),
            queueing_ms: Some(0),
        };
        for queue_id in 0..self.read_queues.get(topic).copied().unwrap_or(0) {
            let Ok(Some(bounds)) = store.topics().bounds(topic.as_bytes(), queue_id) else {
                continue;
            };
            let committed = queues.get(&queue_id).copied().unwrap_or(0);
            // What was removed is not behind any more.
            let committed = u64::try_from(committed).unwrap_or(0).max(bounds.min);
            let given = usize::try_from(queue_id)
                .ok()
                .and_then(|at| got?.given.get(at));
            let given = given.map_or(0, |given| given.next_offset);
            let given = given.clamp(committed, bounds.max.max(committed));
            let (behind, ready) = (
                bounds.max.saturating_sub(committed),
                bounds.max.saturating_sub(given),
            );
            lag.messages += behind;
            lag.in_flight += given - committed;
            lag.ready += ready;
            let queue = (topic, queue_id);
            let mut first_ms = None;
            if behind > 0 {
                first_ms = times.age_ms(queue, committed);
                lag.behind_ms = later(lag.behind_ms, first_ms);
            }
            if ready > 0 {
                // What is committed and what was given are mostly the same.
                let is_same = behind > 0 && given == committed;
                let queueing_ms = if is_same {
                    first_ms
                } else {
                    times.age_ms(queue, given)
                };
                lag.queueing_ms = later(lag.queueing_ms, queueing_ms);
            }
        }
        lag
    }
}

fn later(known: Option<u64>, found: Option<u64>) -> Option<u64> {
    Some(known?.max(found?))
}

/// For how long a store time is known before it is looked up again: a log that is cut, as a slave's may
/// be, can have another message at the same place.
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// A store time that was looked up.
#[derive(Debug, Clone, Copy)]
struct Known {
    stored_ms: i64,
    /// When, by the clock that does not step.
    at: Duration,
}

type OfTopic = HashMap<(i32, u64), Known>;

/// Store times that were asked for the last time: a group that stays where it is costs no look at its
/// queue's file, of which more may be there than are kept open. As many as queues that are behind.
#[derive(Debug, Default)]
pub struct KnownTimes {
    by_topic: HashMap<String, OfTopic>,
}

/// Store times between two reports. Its lock is not held while they are looked up.
#[derive(Debug, Default)]
pub struct KeptTimes {
    /// How often topics were forgotten, and what is known.
    kept: Mutex<(u64, KnownTimes)>,
}

impl KeptTimes {
    /// Makes a report with what is known; what a topic had that was removed meanwhile is not kept.
    pub fn with<T>(&self, report: impl FnOnce(&mut KnownTimes) -> T) -> T {
        let (removals, mut known) = {
            let mut kept = self.kept.lock();
            (kept.0, std::mem::take(&mut kept.1))
        };
        let reported = report(&mut known);
        let mut kept = self.kept.lock();
        if kept.0 == removals {
            kept.1 = known;
        }
        reported
    }

    /// Forgets all: a topic was removed, and another one may get its name.
    pub fn forget(&self) {
        let mut kept = self.kept.lock();
        kept.0 += 1;
        kept.1 = KnownTimes::default();
    }
}

/// Store times, as long as there is time to look them up.
struct Times<'a, D: Disk, C: Clock> {
    store: &'a Store<D, C>,
    now_ms: i64,
    now: Duration,
    is_over: Box<dyn Fn() -> bool + 'a>,
    before: HashMap<String, OfTopic>,
    known: &'a mut KnownTimes,
}

impl<D: Disk, C: Clock> Times<'_, D, C> {
    fn age_ms(&mut self, (topic, queue_id): (&str, i32), queue_offset: u64) -> Option<u64> {
        let key = (queue_id, queue_offset);
        let known = self.before.get(topic).and_then(|all| all.get(&key));
        let known = known.copied().filter(|known| {
            let age = self.now.saturating_sub(known.at);
            age < KNOWN_FOR
        });
        let known = match known {
            Some(known) => known,
            None if (self.is_over)() => return None,
            None => {
                let reader = self.store.reader();
                let stored_ms = reader.stored_ms(topic.as_bytes(), queue_id, queue_offset);
                Known {
                    stored_ms: stored_ms.ok().flatten()?,
                    at: self.now,
                }
            }
        };
        let of_topic = self.known.by_topic.entry_ref(topic).or_default();
        of_topic.insert(key, known);
        let age_ms = self.now_ms.saturating_sub(known.stored_ms);
        Some(age_ms.max(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_goes_with_a_topic_that_is_removed() {
        let kept = KeptTimes::default();
        let add = |known: &mut KnownTimes, topic: &str| {
            let of_topic = known.by_topic.entry_ref(topic).or_default();
            let time = Known {
                stored_ms: 1,
                at: Duration::ZERO,
            };
            of_topic.insert((0, 0), time);
        };
        let count = |kept: &KeptTimes| kept.kept.lock().1.by_topic.len();
        kept.with(|known| add(known, "t"));
        assert_eq!(count(&kept), 1);
        kept.forget();
        assert_eq!(count(&kept), 0);
        kept.with(|known| {
            add(known, "t");
            kept.forget();
        });
        assert_eq!(count(&kept), 0);
    }
}
