//! What each group got of each topic, since the broker's start (`GROUP_GET_NUMS`, `GROUP_GET_SIZE`). Knows
//! no time: whoever looks twice knows the rate.

use hashbrown::HashMap;

use crate::consumer_offsets::offsets::PAIRS_MAX;

/// Queues of a pair whose last pull is known.
const QUEUES_MAX: usize = 1_024;

/// How far a queue was given, and when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// The queue offset behind the last message that was given.
    pub next_offset: u64,
    /// When, ms of the clock of the fast path.
    pub at_ms: u64,
}

/// Pulls of a queue that were answered with messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answered {
    /// Pulls.
    pub pulls: u64,
    /// How long they took together, without the time for which they were held, us.
    pub us: u64,
}

/// What a group got of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Got {
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// How far its queues were given, by queue id.
    pub given: Vec<Given>,
    /// Its pulls, by queue id.
    pub answered: Vec<Answered>,
}

impl Got {
    /// What was counted elsewhere, too.
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        if self.given.len() < other.given.len() {
            self.given.resize(other.given.len(), Given::default());
        }
        for (known, given) in self.given.iter_mut().zip(&other.given) {
            if given.at_ms > known.at_ms {
                *known = *given;
            }
        }
        if self.answered.len() < other.answered.len() {
            self.answered
                .resize(other.answered.len(), Answered::default());
        }
        for (sum, more) in self.answered.iter_mut().zip(&other.answered) {
            sum.pulls += more.pulls;
            sum.us += more.us;
        }
    }

    fn note(&mut self, queue_id: i32, given: Given, us: u64) {
        let Ok(at) = usize::try_from(queue_id) else {
            return;
        };
        if self.given.len() <= at && at < QUEUES_MAX {
            self.given.resize(at + 1, Given::default());
            self.answered.resize(at + 1, Answered::default());
        }
        if let Some(known) = self.given.get_mut(at) {
            *known = given;
        }
        if let Some(sum) = self.answered.get_mut(at) {
            sum.pulls += 1;
            sum.us += us;
        }
    }
}

/// The counters, by group and then by topic.
#[derive(Debug, Clone, Default)]
pub struct Gets {
    by_group: HashMap<String, HashMap<String, Got>>,
    pairs: usize,
}

impl Gets {
    /// Counts messages that a group got; a new pair beyond the bound of the offsets is left out.
    pub(crate) fn add(&mut self, group: &str, topic: &str, messages: u64, bytes: u64) {
        if messages > 0 {
            self.change(group, topic, |got| {
                got.messages += messages;
                got.bytes += bytes;
            });
        }
    }

    /// The same of a pull, which has how far the queue was given, and took so long, us.
    pub(crate) fn pulled(
        &mut self,
        (group, topic, queue_id): (&str, &str, i32),
        (messages, bytes): (u64, u64),
        (given, us): (Given, u64),
    ) {
        if messages > 0 {
            self.change(group, topic, |got| {
                got.messages += messages;
                got.bytes += bytes;
                got.note(queue_id, given, us);
            });
        }
    }

    fn change(&mut self, group: &str, topic: &str, change: impl FnOnce(&mut Got)) {
        let known = self.by_group.get_mut(group);
        if let Some(got) = known.and_then(|topics| topics.get_mut(topic)) {
            change(got);
        } else if self.pairs < PAIRS_MAX {
            let topics = self.by_group.entry_ref(group).or_default();
            change(topics.entry(topic.to_owned()).or_default());
            self.pairs += 1;
        }
    }

    /// Counts what somebody else has counted, too.
    pub(crate) fn add_all(&mut self, other: &Self) {
        for (group, topics) in &other.by_group {
            for (topic, got) in topics {
                self.change(group, topic, |sum| sum.add(got));
            }
        }
    }

    /// Forgets those of a group, of a topic, or of a group in a topic.
    pub(crate) fn remove(&mut self, group: Option<&str>, topic: Option<&str>) {
        let mut pairs = 0;
        self.by_group.retain(|its_group, topics| {
            if group.is_none_or(|group| group == its_group) {
                topics.retain(|its_topic, _count| topic.is_some_and(|topic| topic != its_topic));
            }
            pairs += topics.len();
            !topics.is_empty()
        });
        self.pairs = pairs;
    }

    /// Group, topic and what was got of every pair.
    #[must_use]
    pub fn rows(&self) -> Vec<(String, String, Got)> {
        let rows = self.by_group.iter().flat_map(|(group, topics)| {
            let each = topics.iter();
            each.map(move |(topic, got)| (group.clone(), topic.clone(), got.clone()))
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_counted_and_forgotten() {
        let mut gets = Gets::default();
        for (group, topic, messages) in [("g", "t", 2), ("g", "t", 3), ("h", "t", 1), ("h", "u", 0)]
        {
            gets.add(group, topic, messages, 10 * messages);
        }
        let row = |group: &str, topic: &str, messages| {
            let got = Got {
                messages,
                bytes: 10 * messages,
                given: Vec::new(),
                answered: Vec::new(),
            };
            (group.to_owned(), topic.to_owned(), got)
        };
        let mut all = gets.rows();
        all.sort_unstable_by(|one, two| (&one.0, &one.1).cmp(&(&two.0, &two.1)));
        assert_eq!(all, [row("g", "t", 5), row("h", "t", 1)]);
        gets.remove(Some("h"), None);
        assert_eq!(gets.rows().len(), 1);
        gets.remove(None, Some("u"));
        assert_eq!(gets.rows().len(), 1);
        gets.remove(None, Some("t"));
        assert_eq!((gets.rows().len(), gets.pairs), (0, 0));
    }

    #[test]
    fn the_newest_pull_of_any_loop_has_how_far_a_queue_was_given() {
        let given = |next_offset, at_ms| Given { next_offset, at_ms };
        let (mut one, mut other) = (Gets::default(), Gets::default());
        one.pulled(("g", "t", 2), (1, 10), (given(9, 100), 5));
        other.pulled(("g", "t", 2), (1, 10), (given(4, 200), 5));
        other.pulled(("g", "t", -1), (1, 10), (given(4, 200), 5));
        other.pulled(("g", "t", i32::MAX), (1, 10), (given(4, 200), 5));
        one.add_all(&other);
        let rows = one.rows();
        let unknown = Given::default();
        assert_eq!(rows[0].2.given, [unknown, unknown, given(4, 200)]);
        assert_eq!((rows[0].2.messages, rows[0].2.bytes), (4, 40));
        assert_eq!(rows[0].2.answered[2], Answered { pulls: 2, us: 10 });
    }
}
