//! How many messages of each queue a group has popped and not acknowledged, for the bound on them
//! (`PopInflightMessageCounter`). Pure. Knows no message by itself: what is acknowledged twice counts
//! twice, as officially, and a count never falls below nothing.

use hashbrown::HashMap;

/// A queue of a group: topic, group, queue id.
type Queue<'a> = (&'a str, &'a str, i32);

#[derive(Debug)]
struct Count {
    topic: Box<str>,
    group: Box<str>,
    messages: u64,
}

/// The counts of all queues that have one.
#[derive(Debug, Default)]
pub struct InFlight {
    by_key: HashMap<Box<str>, Count>,
    key: String,
    /// Since when is counted, Unix ms; `None` while it is not.
    since_ms: Option<i64>,
}

impl InFlight {
    /// Counts from now on, or not any more.
    pub fn count_if(&mut self, is_wanted: bool, now_ms: i64) {
        if !is_wanted {
            self.by_key.clear();
            self.since_ms = None;
        } else if self.since_ms.is_none() {
            self.since_ms = Some(now_ms);
        }
    }

    /// Counts messages that were popped.
    pub fn add(&mut self, queue: Queue<'_>, messages: usize) {
        if self.since_ms.is_none() || messages == 0 {
            return;
        }
        spell(&mut self.key, queue);
        let messages = messages as u64;
        if let Some(count) = self.by_key.get_mut(self.key.as_str()) {
            count.messages += messages;
            return;
        }
        let count = Count {
            topic: queue.0.into(),
            group: queue.1.into(),
            messages,
        };
        self.by_key.insert(self.key.as_str().into(), count);
    }

    /// Records that messages of a pop are settled; how many were in flight before and are now. Pops
    /// of before the count began are none of it.
    pub fn take(
        &mut self,
        queue: Queue<'_>,
        pop_time_ms: i64,
        messages: usize,
    ) -> Option<(u64, u64)> {
        self.since_ms.filter(|since_ms| pop_time_ms >= *since_ms)?;
        spell(&mut self.key, queue);
        let count = self.by_key.get_mut(self.key.as_str())?;
        let before = count.messages;
        count.messages = before.saturating_sub(messages as u64);
        let after = count.messages;
        if after == 0 {
            self.by_key.remove(self.key.as_str());
        }
        Some((before, after))
    }

    /// Messages of a queue that a group has.
    pub fn of(&mut self, queue: Queue<'_>) -> u64 {
        if self.by_key.is_empty() {
            return 0;
        }
        spell(&mut self.key, queue);
        let count = self.by_key.get(self.key.as_str());
        count.map_or(0, |count| count.messages)
    }

    /// Forgets a queue of a group.
    pub fn clear(&mut self, queue: Queue<'_>) {
        if !self.by_key.is_empty() {
            spell(&mut self.key, queue);
            self.by_key.remove(self.key.as_str());
        }
    }

    /// Keeps the counts of these topics and groups alone.
    pub fn retain(&mut self, is_kept: impl Fn(&str, &str) -> bool) {
        self.by_key
            .retain(|_key, count| is_kept(&count.topic, &count.group));
    }
}

fn spell(key: &mut String, (topic, group, queue_id): Queue<'_>) {
    use std::fmt::Write as _;
    key.clear();
    // Writing to a String cannot fail.
    let _ = write!(key, "{topic}@{group}@{queue_id}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: Queue<'static> = ("t", "g", 0);

    #[test]
    fn what_is_settled_was_in_flight_since_the_count_began() {
        let mut flight = InFlight::default();
        flight.add(QUEUE, 5);
        assert_eq!(flight.of(QUEUE), 0, "nobody wants it");
        flight.count_if(true, 100);
        flight.count_if(true, 200);
        flight.add(QUEUE, 3);
        flight.add(("t", "g", 1), 1);
        assert_eq!(flight.take(QUEUE, 99, 1), None, "popped before");
        assert_eq!(flight.take(QUEUE, 100, 2), Some((3, 1)));
        assert_eq!(flight.take(QUEUE, 100, 2), Some((1, 0)));
        assert_eq!(flight.take(QUEUE, 100, 2), None);
        assert_eq!((flight.of(QUEUE), flight.of(("t", "g", 1))), (0, 1));
    }

    #[test]
    fn what_is_gone_is_not_in_flight() {
        let mut flight = InFlight::default();
        flight.count_if(true, 0);
        for queue in [("t", "g", 0), ("t", "g", 1), ("t", "h", 0), ("u", "g", 0)] {
            flight.add(queue, 1);
        }
        flight.clear(QUEUE);
        assert_eq!((flight.of(QUEUE), flight.of(("t", "g", 1))), (0, 1));
        flight.retain(|topic, group| topic != "t" || group != "g");
        assert_eq!(flight.of(("t", "g", 1)), 0);
        assert_eq!((flight.of(("t", "h", 0)), flight.of(("u", "g", 0))), (1, 1));
        flight.count_if(false, 1);
        assert_eq!(flight.of(("u", "g", 0)), 0);
    }
}
