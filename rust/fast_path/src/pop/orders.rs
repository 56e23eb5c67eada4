//! Ordered pops: which messages of a queue a group has, so that it gets no others before they are
//! worked off or visible again (`ConsumerOrderInfoManager`). Pure: times are passed in.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::pop_run::handle::Infos;

/// A queue that nobody popped from for so long is forgotten, ms (`CLEAN_SPAN_FROM_LAST`: a day).
const KEPT_MS: i64 = 24 * 3_600 * 1_000;
/// Messages of one pop that are looked at: their bits are a `long`.
const MESSAGES_MAX: usize = 64;

/// What was popped from a queue last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// When, Unix ms.
    pub pop_time_ms: i64,
    /// For how long, ms; 0: as the next pop asks.
    pub invisible_ms: i64,
    /// The queue offsets, ascending.
    pub offsets: Vec<i64>,
    /// When a message is visible again, where that was changed, Unix ms.
    pub visible_ms: BTreeMap<i64, i64>,
    /// How often a message was given before.
    pub counts: BTreeMap<i64, i32>,
    /// When that was, Unix ms.
    pub last_ms: i64,
    /// Which of them are acknowledged.
    pub bits: u64,
    /// The attempt that may repeat it.
    pub attempt: Option<String>,
}

/// What became of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordered {
    /// The group goes on at this offset.
    Next(i64),
    /// It is of an earlier pop: nothing is changed.
    Old,
    /// There is no such message.
    Illegal,
}

impl Order {
    fn is_acknowledged(&self, at: usize) -> bool {
        at < MESSAGES_MAX && self.bits & (1 << at) != 0
    }

    /// When a message of it is visible again that is not acknowledged.
    fn visible_at(&self, at: usize) -> Option<i64> {
        let offset = self.offsets.get(at)?;
        if self.is_acknowledged(at) {
            return None;
        }
        let usual = self.pop_time_ms.saturating_add(self.invisible_ms);
        Some(self.visible_ms.get(offset).copied().unwrap_or(usual))
    }

    /// Until when others wait (`needBlock`); `None` when they need not.
    fn blocked_until(&self, attempt: Option<&str>, now_ms: i64) -> Option<i64> {
        if self.attempt.is_some() && self.attempt.as_deref() == attempt {
            return None;
        }
        let visible = (0..self.offsets.len()).filter_map(|at| self.visible_at(at));
        visible.filter(|visible_ms| now_ms < *visible_ms).max()
    }

    fn next(&self) -> Option<i64> {
        let open = (0..self.offsets.len()).find(|at| !self.is_acknowledged(*at));
        match open {
            Some(at) => self.offsets.get(at).copied(),
            None => Some(self.offsets.last()?.saturating_add(1)),
        }
    }
}

/// A pop in order, to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// The attempt.
    pub attempt: Option<&'a str>,
    /// When, Unix ms.
    pub pop_time_ms: i64,
    /// For how long, ms.
    pub invisible_ms: i64,
    /// The queue offsets.
    pub offsets: &'a [u64],
}

/// The orders of all groups, by `topic@group` and queue.
#[derive(Debug, Default)]
pub struct Orders {
    by_pair: HashMap<Box<str>, BTreeMap<i32, Order>>,
    changes: u64,
}

fn key_of(topic: &str, group: &str) -> String {
    format!("{topic}@{group}")
}

impl Orders {
    fn find_mut(&mut self, topic: &str, group: &str, queue_id: i32) -> Option<&mut Order> {
        let queues = self.by_pair.get_mut(key_of(topic, group).as_str())?;
        queues.get_mut(&queue_id)
    }

    /// Until when a queue is blocked; `None` when it is not.
    pub fn blocked_until(
        &mut self,
        (topic, group, queue_id): (&str, &str, i32),
        attempt: Option<&str>,
        invisible_ms: i64,
        now_ms: i64,
    ) -> Option<i64> {
        let order = self.find_mut(topic, group, queue_id)?;
        if order.invisible_ms <= 0 {
            order.invisible_ms = invisible_ms;
        }
        order.blocked_until(attempt, now_ms)
    }

    /// Records what was popped, and how often each message of it was given before.
    pub fn update(
        &mut self,
        (topic, group, queue_id): (&str, &str, i32),
        new: New<'_>,
        now_ms: i64,
        infos: &mut Infos,
    ) {
        let key = key_of(topic, group);
        let queues = self.by_pair.entry(key.into_boxed_str()).or_default();
        let before = queues.remove(&queue_id);
        let offsets = new.offsets.iter().map(|offset| offset.cast_signed());
        let mut order = Order {
            pop_time_ms: new.pop_time_ms,
            invisible_ms: new.invisible_ms,
            offsets: offsets.collect(),
            last_ms: now_ms,
            attempt: new.attempt.map(str::to_owned),
            ..Order::default()
        };
        if let Some(before) = before {
            order.counts = counts_behind(&before, &order);
        }
        for (offset, count) in &order.counts {
            infos.count_of(queue_id, offset.cast_unsigned(), *count);
        }
        // Where some are new the queue as a whole was never given before.
        let is_all = order.counts.len() == order.offsets.len();
        let least = order.counts.values().copied().min().filter(|_| is_all);
        infos.count_all(queue_id, least.unwrap_or(0));
        queues.insert(queue_id, order);
        self.changes += 1;
    }

    /// Takes an acknowledgement (`commitAndNext`).
    pub fn acknowledge(
        &mut self,
        (topic, group, queue_id): (&str, &str, i32),
        offset: i64,
        pop_time_ms: i64,
    ) -> Ordered {
        self.changes += 1;
        let Some(order) = self.find_mut(topic, group, queue_id) else {
            return Ordered::Next(offset.saturating_add(1));
        };
        if order.offsets.is_empty() {
            return Ordered::Illegal;
        }
        if order.pop_time_ms != pop_time_ms {
            return Ordered::Old;
        }
        let found = order.offsets.iter().position(|each| *each == offset);
        let Some(at) = found.filter(|at| *at < MESSAGES_MAX) else {
            return Ordered::Illegal;
        };
        order.bits |= 1 << at;
        order.next().map_or(Ordered::Illegal, Ordered::Next)
    }

    /// Changes when a message is visible again.
    pub fn change(
        &mut self,
        (topic, group, queue_id): (&str, &str, i32),
        offset: i64,
        pop_time_ms: i64,
        visible_ms: i64,
    ) {
        self.changes += 1;
        if let Some(order) = self.find_mut(topic, group, queue_id)
            && order.pop_time_ms == pop_time_ms
            && order.offsets.contains(&offset)
        {
            order.visible_ms.insert(offset, visible_ms);
        }
    }

    /// Lets a queue go: its group goes on somewhere else.
    pub fn clear(&mut self, topic: &str, group: &str, queue_id: i32) {
        if let Some(queues) = self.by_pair.get_mut(key_of(topic, group).as_str())
            && queues.remove(&queue_id).is_some()
        {
            self.changes += 1;
        }
    }

    /// Replaces everything.
    pub fn load(&mut self, table: impl IntoIterator<Item = (String, i32, Order)>) {
        self.by_pair.clear();
        for (key, queue_id, order) in table {
            let queues = self.by_pair.entry(key.into_boxed_str()).or_default();
            queues.insert(queue_id, order);
        }
        self.changes += 1;
    }

    /// Forgets what is old, or of topics and groups that are gone.
    pub fn forget(&mut self, now_ms: i64, is_known: impl Fn(&str, &str) -> bool) {
        self.by_pair.retain(|key, queues| {
            queues.retain(|_queue, order| now_ms.saturating_sub(order.last_ms) <= KEPT_MS);
            let (topic, group) = key.split_once('@').unwrap_or((key, ""));
            !queues.is_empty() && is_known(topic, group)
        });
    }

    /// Everything, by the official keys.
    pub fn all(&self) -> impl Iterator<Item = (&str, i32, &Order)> {
        let pairs = self.by_pair.iter();
        pairs.flat_map(|(key, queues)| {
            queues
                .iter()
                .map(move |(queue, order)| (&**key, *queue, order))
        })
    }

    /// Rises with every change.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// How often the messages of a pop were given before (`mergeOffsetConsumedCount`).
fn counts_behind(before: &Order, order: &Order) -> BTreeMap<i64, i32> {
    if before.attempt.is_some() && before.attempt == order.attempt {
        return before.counts.clone();
    }
    let again = order.offsets.iter().filter(|o| before.offsets.contains(o));
    let count = |offset: &i64| before.counts.get(offset).copied().unwrap_or(0) + 1;
    again.map(|offset| (*offset, count(offset))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: (&str, &str, i32) = ("t", "g", 0);

    fn popped(orders: &mut Orders, attempt: Option<&str>, offsets: &[u64], now_ms: i64) -> String {
        let new = New {
            attempt,
            pop_time_ms: now_ms,
            invisible_ms: 100,
            offsets,
        };
        let mut infos = Infos::default();
        orders.update(QUEUE, new, now_ms, &mut infos);
        infos.counts
    }

    #[test]
    fn a_queue_is_blocked_until_its_messages_are_worked_off_or_visible() {
        let mut orders = Orders::default();
        assert_eq!(popped(&mut orders, Some("a"), &[5, 6, 8], 1_000), "0 0 0");
        assert_eq!(orders.blocked_until(QUEUE, None, 100, 1_050), Some(1_100));
        assert_eq!(orders.blocked_until(QUEUE, Some("a"), 100, 1_050), None);
        assert_eq!(orders.blocked_until(QUEUE, None, 100, 1_100), None);
        assert_eq!(orders.acknowledge(QUEUE, 6, 1_000), Ordered::Next(5));
        assert_eq!(orders.acknowledge(QUEUE, 5, 1_000), Ordered::Next(8));
        assert_eq!(orders.acknowledge(QUEUE, 7, 1_000), Ordered::Illegal);
        assert_eq!(orders.acknowledge(QUEUE, 8, 999), Ordered::Old);
        orders.change(QUEUE, 8, 1_000, 1_500);
        assert_eq!(orders.blocked_until(QUEUE, None, 100, 1_400), Some(1_500));
        assert_eq!(orders.acknowledge(QUEUE, 8, 1_000), Ordered::Next(9));
        assert_eq!(orders.blocked_until(QUEUE, None, 100, 1_400), None);
    }

    #[test]
    fn what_is_given_again_is_counted() {
        let mut orders = Orders::default();
        popped(&mut orders, Some("a"), &[5, 6], 1_000);
        assert_eq!(
            popped(&mut orders, Some("b"), &[5, 6], 2_000),
            "0 qo0%5 1;0 qo0%6 1;0 0 1"
        );
        assert_eq!(
            popped(&mut orders, Some("b"), &[5, 6], 2_001),
            "0 qo0%5 1;0 qo0%6 1;0 0 1"
        );
        assert_eq!(popped(&mut orders, None, &[6, 7], 3_000), "0 qo0%6 2;0 0 0");
    }

    #[test]
    fn what_is_old_or_gone_is_forgotten() {
        let mut orders = Orders::default();
        popped(&mut orders, None, &[5], 1_000);
        orders.forget(1_000 + KEPT_MS, |_topic, _group| true);
        assert_eq!(orders.all().count(), 1);
        orders.forget(1_001 + KEPT_MS, |_topic, _group| true);
        assert_eq!(orders.all().count(), 0);
        assert_eq!(orders.acknowledge(QUEUE, 5, 1_000), Ordered::Next(6));
    }
}
