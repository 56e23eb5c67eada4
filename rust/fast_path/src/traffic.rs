//! What was stored by topic and kind of message, and what groups gave back, since the broker's start. Knows
//! no time: whoever looks twice knows the rate.

use hashbrown::{Equivalent, HashMap};

use crate::times::histogram::Below;

/// Topics counted by name, and pairs of group and topic: the limit of series of the official exporter
/// (`metricsOtelCardinalityLimit`). What is beyond is counted under [`OTHER`].
pub const NAMES_MAX: usize = 50_000;
/// The name of all that has none of its own.
pub const OTHER: &str = "_other";
/// Bounds of the size of a message, bytes (`BrokerMetricsManager`): 1 KiB, 4 KiB, 512 KiB, 1, 2, 4 MiB.
pub const SIZE_BOUNDS: [u64; 6] = [1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// Bounds of the time for which timed messages are to wait, s (`DefaultStoreMetricsManager`): a minute, ten,
/// an hour, twelve, a day, three.
pub const DELAY_BOUNDS_S: [u64; 6] = [60, 600, 3_600, 43_200, 86_400, 259_200];
/// Bounds of the time from a half message to its commit, s (`BrokerMetricsManager`): 5 s, one and ten
/// minutes, one and twelve hours, a day.
pub const FINISH_BOUNDS_S: [u64; 6] = [5, 60, 600, 3_600, 43_200, 86_400];

/// What a message is, by its properties (`TopicMessageType.parseFromMessageProperty`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// Nothing special.
    Normal,
    /// It belongs to a shard.
    Fifo,
    /// It is delivered later.
    Delay,
    /// A half message.
    Transaction,
    /// It has a priority (5.5).
    Priority,
}

/// All kinds.
pub const MESSAGE_KINDS: [(MessageKind, &str); 5] = [
    (MessageKind::Normal, "normal"),
    (MessageKind::Fifo, "fifo"),
    (MessageKind::Delay, "delay"),
    (MessageKind::Transaction, "transaction"),
    (MessageKind::Priority, "priority"),
];

/// What was stored of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Messages by the size of their records.
    pub sizes: Below<{ SIZE_BOUNDS.len() + 1 }>,
}

/// What a group gave back of a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// To its retry topic.
    pub retried: u64,
    /// To its dead letters.
    pub dead: u64,
    /// Acknowledged after a pop, or given another time; what comes again is counted again.
    pub acked: u64,
    /// Check points that were kept for pops.
    pub points: u64,
}

/// Queues of a topic whose messages are counted.
const QUEUES_MAX: usize = 1_024;

/// What was stored of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InQueue {
    /// Messages.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Sends that were answered; one may have brought many messages.
    pub answers: u64,
    /// How long they took together, from their bytes to their answer, us.
    pub answers_us: u64,
}

impl InQueue {
    fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.answers += other.answers;
        self.answers_us += other.answers_us;
    }
}

/// A topic that was counted, for what comes later of its message: of the counters that gave it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// What was stored of a topic.
#[derive(Debug, Clone, Default)]
struct OfTopic {
    kinds: [Stored; MESSAGE_KINDS.len()],
    queues: Vec<InQueue>,
}

impl OfTopic {
    fn queue(&mut self, queue_id: i32) -> Option<&mut InQueue> {
        let at = usize::try_from(queue_id).ok()?;
        if self.queues.len() <= at && at < QUEUES_MAX {
            self.queues.resize(at + 1, InQueue::default());
        }
        self.queues.get_mut(at)
    }

    fn add_all(&mut self, other: &Self) {
        for (sum, more) in self.kinds.iter_mut().zip(&other.kinds) {
            sum.messages += more.messages;
            sum.bytes += more.bytes;
            sum.sizes.add_all(&more.sizes);
        }
        if self.queues.len() < other.queues.len() {
            self.queues.resize(other.queues.len(), InQueue::default());
        }
        for (sum, more) in self.queues.iter_mut().zip(&other.queues) {
            sum.add(more);
        }
    }
}

/// Times in six bounds, s.
pub type Seconds = Below<7>;

/// Times of the messages of a topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TopicSeconds {
    /// For how long timed messages are to wait.
    pub delays: Seconds,
    /// From half messages to their commit.
    pub finishes: Seconds,
}

/// A group and a topic, to look counts up by.
#[derive(Hash)]
struct PairRef<'a>(&'a str, &'a str);

impl Equivalent<(Box<str>, Box<str>)> for PairRef<'_> {
    fn equivalent(&self, key: &(Box<str>, Box<str>)) -> bool {
        self.0 == &*key.0 && self.1 == &*key.1
    }
}

/// The counters of one loop.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    /// Where each topic is in `counted`.
    topics: HashMap<Box<str>, Slot>,
    counted: Vec<OfTopic>,
    given_back: HashMap<(Box<str>, Box<str>), GivenBack>,
    seconds: HashMap<Box<str>, TopicSeconds>,
}

impl Traffic {
    /// Counts messages that were stored at once for a queue of a topic; where its answer is counted.
    pub(crate) fn stored(
        &mut self,
        (topic, queue_id): (&str, i32),
        kind: MessageKind,
        (messages, bytes): (u64, u64),
    ) -> Slot {
        let slot = match self.topics.get(topic) {
            Some(known) => *known,
            None => self.new_slot(topic),
        };
        let Some(of_topic) = self.counted.get_mut(slot.0 as usize) else {
            return slot;
        };
        if let Some(queue) = of_topic.queue(queue_id) {
            queue.messages += messages;
            queue.bytes += bytes;
        }
        if let Some(stored) = of_topic.kinds.get_mut(kind as usize) {
            stored.messages += messages;
            stored.bytes += bytes;
            let each = bytes / messages.max(1);
            stored.sizes.add(each, messages, &SIZE_BOUNDS);
        }
        slot
    }

    /// The slot of a topic that is not counted yet.
    fn new_slot(&mut self, topic: &str) -> Slot {
        let is_full = self.topics.len() >= NAMES_MAX;
        let name = if is_full { OTHER } else { topic };
        let next = Slot(u32::try_from(self.counted.len()).unwrap_or(u32::MAX));
        let slot = *self.topics.entry(name.into()).or_insert(next);
        if slot == next {
            self.counted.push(OfTopic::default());
        }
        slot
    }

    /// Counts the answer to a send whose message was stored in a queue.
    pub(crate) fn answered(&mut self, slot: Slot, queue_id: i32, us: u64) {
        let of_topic = self.counted.get_mut(slot.0 as usize);
        if let Some(queue) = of_topic.and_then(|of_topic| of_topic.queue(queue_id)) {
            queue.answers += 1;
            queue.answers_us += us;
        }
    }

    /// Counts for how long a timed message is to wait, s.
    pub(crate) fn delayed(&mut self, topic: &str, seconds: u64) {
        let delays = &mut self.seconds_of(topic).delays;
        delays.add(seconds, 1, &DELAY_BOUNDS_S);
    }

    /// Counts how long it took to commit a half message, s.
    pub(crate) fn finished(&mut self, topic: &str, seconds: u64) {
        let finishes = &mut self.seconds_of(topic).finishes;
        finishes.add(seconds, 1, &FINISH_BOUNDS_S);
    }

    fn seconds_of(&mut self, topic: &str) -> &mut TopicSeconds {
        let is_full = self.seconds.len() >= NAMES_MAX && !self.seconds.contains_key(topic);
        let name = if is_full { OTHER } else { topic };
        self.seconds.entry(name.into()).or_default()
    }

    /// Counts a message that a group gave back.
    pub(crate) fn given_back(&mut self, group: &str, topic: &str, is_dead: bool) {
        self.count(group, topic, |count| {
            count.dead += u64::from(is_dead);
            count.retried += u64::from(!is_dead);
        });
    }

    /// Counts messages that a group acknowledged after a pop.
    pub(crate) fn acked(&mut self, group: &str, topic: &str, messages: u64) {
        self.count(group, topic, |count| count.acked += messages);
    }

    /// Counts a check point that was kept for a pop.
    pub(crate) fn point_kept(&mut self, group: &str, topic: &str) {
        self.count(group, topic, |count| count.points += 1);
    }

    /// Counts a message whose invisible time was changed: another check point, and the first acknowledged.
    pub(crate) fn changed(&mut self, group: &str, topic: &str) {
        self.count(group, topic, |count| {
            count.points += 1;
            count.acked += 1;
        });
    }

    /// Counts for a pair; makes no texts for one that is known, as this is once per acknowledgement.
    fn count(&mut self, group: &str, topic: &str, add: impl FnOnce(&mut GivenBack)) {
        if let Some(known) = self.given_back.get_mut(&PairRef(group, topic)) {
            return add(known);
        }
        let is_full = self.given_back.len() >= NAMES_MAX;
        let (group, topic) = if is_full {
            (OTHER, OTHER)
        } else {
            (group, topic)
        };
        let key = (group.into(), topic.into());
        add(self.given_back.entry(key).or_default());
    }

    /// A copy without what was stored and times: there may be many topics.
    #[must_use]
    pub fn only_given_back(&self) -> Self {
        Self {
            given_back: self.given_back.clone(),
            ..Self::default()
        }
    }

    /// A copy of the times of messages alone.
    #[must_use]
    pub fn only_seconds(&self) -> Self {
        Self {
            seconds: self.seconds.clone(),
            ..Self::default()
        }
    }

    /// Counts what another loop has counted, too; of two the one with fewer topics is added.
    pub fn add(&mut self, mut other: Self) {
        if other.topics.len() > self.topics.len() {
            std::mem::swap(self, &mut other);
        }
        self.add_all(&other);
    }

    /// Counts what another loop has counted, too.
    pub fn add_all(&mut self, other: &Self) {
        for (topic, slot) in &other.topics {
            let known = self.topics.get(topic).copied();
            let sum = known.unwrap_or_else(|| self.new_slot(topic));
            let sum = self.counted.get_mut(sum.0 as usize);
            if let (Some(sum), Some(more)) = (sum, other.counted.get(slot.0 as usize)) {
                sum.add_all(more);
            }
        }
        for (topic, seconds) in &other.seconds {
            let sum = self.seconds.entry(topic.clone()).or_default();
            sum.delays.add_all(&seconds.delays);
            sum.finishes.add_all(&seconds.finishes);
        }
        for (key, count) in &other.given_back {
            let sum = self.given_back.entry(key.clone()).or_default();
            sum.retried += count.retried;
            sum.dead += count.dead;
            sum.acked += count.acked;
            sum.points += count.points;
        }
    }

    fn by_topic(&self) -> impl Iterator<Item = (&str, &OfTopic)> {
        self.topics.iter().filter_map(|(topic, slot)| {
            let found = self.counted.get(slot.0 as usize)?;
            Some((topic.as_ref(), found))
        })
    }

    /// Topic, kind and what was stored, of every kind that came.
    pub fn topics(&self) -> impl Iterator<Item = (&str, &'static str, &Stored)> {
        let each = self.by_topic().flat_map(|(topic, found)| {
            let kinds = MESSAGE_KINDS.iter().zip(found.kinds.iter());
            kinds.map(move |((_, name), stored)| (topic, *name, stored))
        });
        each.filter(|(_, _, stored)| stored.messages > 0)
    }

    /// Topic, queue and what was stored, of every queue that had a message.
    pub fn queues(&self) -> impl Iterator<Item = (&str, i32, InQueue)> {
        let each = self.by_topic().flat_map(|(topic, found)| {
            let queues = (0..).zip(&found.queues);
            queues.map(move |(queue_id, stored)| (topic, queue_id, *stored))
        });
        each.filter(|(_, _, stored)| stored.messages > 0)
    }

    /// Topic and times of its messages.
    pub fn seconds(&self) -> impl Iterator<Item = (&str, &TopicSeconds)> {
        let each = self.seconds.iter();
        each.map(|(topic, seconds)| (topic.as_ref(), seconds))
    }

    /// Group, topic and what was given back.
    pub fn all_given_back(&self) -> impl Iterator<Item = (&str, &str, GivenBack)> {
        let each = self.given_back.iter();
        each.map(|((group, topic), count)| (group.as_ref(), topic.as_ref(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_counted_by_kind_and_what_is_beyond_the_bound_together() {
        let mut traffic = Traffic::default();
        traffic.stored(("t", 0), MessageKind::Normal, (1, 100));
        traffic.stored(("t", 0), MessageKind::Normal, (4, 8 << 10));
        traffic.stored(("t", 0), MessageKind::Delay, (1, 5 << 20));
        let mut both = traffic.clone();
        both.add_all(&traffic);
        let mut rows: Vec<_> = both.topics().collect();
        rows.sort_by_key(|row| row.1);
        assert_eq!((rows[0].1, rows[0].2.messages), ("delay", 2));
        assert_eq!(rows[0].2.sizes.counts, [0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(
            (rows[1].2.messages, rows[1].2.bytes),
            (10, 2 * (100 + (8 << 10)))
        );
        assert_eq!(rows[1].2.sizes.counts, [2, 8, 0, 0, 0, 0, 0]);
        for number in 0..NAMES_MAX + 10 {
            traffic.stored((&format!("u{number}"), 0), MessageKind::Fifo, (1, 1));
        }
        let others = traffic.topics().find(|row| row.0 == OTHER);
        assert_eq!(others.map(|row| row.2.messages), Some(11));
        assert_eq!(traffic.topics.len(), NAMES_MAX + 1);
    }

    #[test]
    fn a_sum_is_the_same_whoever_has_more_topics() {
        let (mut one, mut other) = (Traffic::default(), Traffic::default());
        one.stored(("t", 0), MessageKind::Normal, (1, 100));
        one.given_back("g", "t", false);
        for topic in ["t", "u", "v"] {
            other.stored((topic, 0), MessageKind::Normal, (2, 100));
        }
        other.delayed("t", 5);
        for (first, second) in [(&one, &other), (&other, &one)] {
            let mut sum = first.clone();
            sum.add(second.clone());
            let mut rows: Vec<_> = sum.topics().map(|row| (row.0, row.2.messages)).collect();
            rows.sort_unstable();
            assert_eq!(rows, [("t", 3), ("u", 2), ("v", 2)]);
            assert_eq!(sum.all_given_back().count(), 1);
            assert_eq!(sum.seconds().count(), 1);
            assert_eq!(sum.only_seconds().topics().count(), 0);
            assert_eq!(sum.only_seconds().seconds().count(), 1);
            assert_eq!(sum.only_given_back().seconds().count(), 0);
            assert_eq!(sum.only_given_back().all_given_back().count(), 1);
        }
    }

    #[test]
    fn queues_are_counted_within_a_bound() {
        let mut traffic = Traffic::default();
        for queue_id in [2, 0, 2, -1, i32::MAX] {
            traffic.stored(("t", queue_id), MessageKind::Normal, (1, 10));
        }
        let mut both = Traffic::default();
        both.stored(("t", 0), MessageKind::Fifo, (4, 40));
        both.add_all(&traffic);
        let rows: Vec<_> = both
            .queues()
            .map(|row| (row.1, row.2.messages, row.2.bytes))
            .collect();
        assert_eq!(rows, [(0, 5, 50), (2, 2, 20)]);
    }

    #[test]
    fn answers_are_counted_at_their_queue_in_every_sum() {
        let (mut one, mut other) = (Traffic::default(), Traffic::default());
        let slot = one.stored(("u", 1), MessageKind::Normal, (2, 10));
        one.answered(slot, 1, 700);
        let first = other.stored(("t", 1), MessageKind::Normal, (1, 10));
        let second = other.stored(("u", 1), MessageKind::Normal, (1, 10));
        other.answered(first, 1, 5);
        other.answered(second, 1, 300);
        one.add_all(&other);
        let mut rows: Vec<_> = one
            .queues()
            .map(|row| (row.0, row.2.answers, row.2.answers_us))
            .collect();
        rows.sort_unstable();
        assert_eq!(rows, [("t", 1, 5), ("u", 2, 1_000)]);
    }

    #[test]
    fn what_groups_give_back_is_counted() {
        let mut traffic = Traffic::default();
        traffic.given_back("g", "t", false);
        traffic.given_back("g", "t", true);
        let mut both = traffic.clone();
        both.add_all(&traffic);
        both.acked("g", "t", 3);
        both.point_kept("g", "t");
        let rows: Vec<_> = both.all_given_back().collect();
        let count = GivenBack {
            retried: 2,
            dead: 2,
            acked: 3,
            points: 1,
        };
        assert_eq!(rows, [("g", "t", count)]);
    }
}
