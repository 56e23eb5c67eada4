//! How far groups are behind, in messages and in time (`ConsumerLagCalculator`): asked rarely, by a thread
//! of its own. Knows no request.

use std::time::Duration;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
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
    pub fn lags<D: Disk, C: Clock>(&self, store: &Store<D, C>, clock: &C) -> Vec<Lag> {
        let until = clock.elapsed().saturating_add(LOOK_FOR);
        let mut times = Times {
            store,
            now_ms: store.wall_ms(),
            is_over: Box::new(move || clock.elapsed() >= until),
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
            if behind > 0 {
                lag.behind_ms = later(lag.behind_ms, times.age_ms(queue, committed));
            }
            if ready > 0 {
                lag.queueing_ms = later(lag.queueing_ms, times.age_ms(queue, given));
            }
        }
        lag
    }
}

fn later(known: Option<u64>, found: Option<u64>) -> Option<u64> {
    Some(known?.max(found?))
}

/// Store times, as long as there is time to look them up.
struct Times<'a, D: Disk, C: Clock> {
    store: &'a Store<D, C>,
    now_ms: i64,
    is_over: Box<dyn Fn() -> bool + 'a>,
}

impl<D: Disk, C: Clock> Times<'_, D, C> {
    fn age_ms(&self, (topic, queue_id): (&str, i32), queue_offset: u64) -> Option<u64> {
        if (self.is_over)() {
            return None;
        }
        let reader = self.store.reader();
        let stored_ms = reader.stored_ms(topic.as_bytes(), queue_id, queue_offset);
        let stored_ms = stored_ms.ok().flatten()?;
        Some(self.now_ms.saturating_sub(stored_ms).max(0).unsigned_abs())
    }
}
