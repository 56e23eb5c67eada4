//! The bits of groups whose expressions a message passes: made when it comes into its queue, looked
//! at by the pulls of these groups before its record is read (`CommitLogDispatcherCalcBitMap`,
//! `ExpressionMessageFilter.isMatchedByConsumeQueue`). Knows no group by its name and no file: the
//! positions of bits are given by the caller.
//!
//! Bits are a Bloom filter: one that is not set means that the expression refused the message,
//! set ones decide nothing. That holds only for messages that were stored after the
//! expression was with those who make bits; bits of older ones are not used.

use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_engine::consume_queue::Extended;
use mqcore_engine::store::BitMaker;

use crate::sql::{Meter, Sql};

/// Bytes of bits at the most: more do not fit into a unit of an extension (32,767 bytes with its
/// head).
const BITS_LEN_MAX: usize = 32_000;
/// Single tests that one message may cost on its way into its queue, for all groups together: some
/// tens of microseconds. Messages of a topic whose expressions cost more get no bits, and their
/// records are looked at instead.
const COST_MAX: usize = 4_096;
/// What they may cost of one message with the bytes that they look at: some hundred microseconds. A
/// message that costs more gets no bits.
const WORK_MAX: usize = 32_768;

/// The bits of one group for one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBits {
    positions: Box<[usize]>,
    len: usize,
    since_ms: i64,
}

impl GroupBits {
    /// Bits at these positions, of so many bits in all, that messages carry when they were stored
    /// later than `since_ms`, Unix ms. `None` where such bits cannot be.
    #[must_use]
    pub fn new(positions: &[usize], count: usize, since_ms: i64) -> Option<Self> {
        let len = count / 8;
        let is_fit = count.is_multiple_of(8) && (1..=BITS_LEN_MAX).contains(&len);
        let are_in_bounds = positions.iter().all(|position| *position < count);
        (is_fit && are_in_bounds && !positions.is_empty()).then(|| Self {
            positions: positions.into(),
            len,
            since_ms,
        })
    }

    /// Whether the extension of a message shows that the expression refused it.
    #[inline]
    #[must_use]
    pub fn rule_out(&self, extended: &Extended<'_>) -> bool {
        let bits = extended.bits;
        extended.store_timestamp_ms > self.since_ms
            && bits.len() == self.len
            && !self.positions.iter().all(|position| {
                let byte = bits.get(position / 8).copied().unwrap_or_default();
                byte & (1 << (position % 8)) != 0
            })
    }

    fn set_in(&self, bits: &mut [u8]) {
        for position in &self.positions {
            if let Some(byte) = bits.get_mut(position / 8) {
                *byte |= 1 << (position % 8);
            }
        }
    }
}

/// A registered expression, as whoever makes bits needs it.
#[derive(Debug, Clone)]
pub struct BitRow {
    /// The topic.
    pub topic: Box<str>,
    /// The expression.
    pub expression: Box<str>,
    /// Its bits.
    pub bits: GroupBits,
}

#[derive(Debug, Default)]
struct OfTopic {
    groups: Vec<(Arc<Sql>, GroupBits)>,
    len: usize,
    cost: usize,
}

/// Makes the bits of messages: the expressions of all groups by topic.
#[derive(Debug, Default)]
pub struct FilterBits {
    topics: HashMap<Box<[u8]>, OfTopic>,
}

impl FilterBits {
    /// All expressions that are registered now, those that are compiled already taken from before.
    /// One that does not compile is left out: no pull goes by it either.
    #[must_use]
    pub fn of(rows: Vec<BitRow>, before: &Self) -> Self {
        let known = before.topics.values().flat_map(|topic| &topic.groups);
        let known: HashMap<&str, &Arc<Sql>> = known.map(|(sql, _)| (sql.text(), sql)).collect();
        let mut topics: HashMap<Box<[u8]>, OfTopic> = HashMap::new();
        for row in rows {
            let sql = match known.get(&*row.expression) {
                Some(sql) => Some(Arc::clone(sql)),
                None => Sql::compile(&row.expression).ok().map(Arc::new),
            };
            let Some(sql) = sql else { continue };
            let topic = topics.entry(row.topic.as_bytes().into()).or_default();
            topic.cost = topic.cost.saturating_add(sql.cost().max(1));
            topic.len = row.bits.len;
            topic.groups.push((sql, row.bits));
        }
        Self { topics }
    }
}

impl BitMaker for FilterBits {
    fn bits(&self, topic: &[u8], properties: &[u8], bits: &mut Vec<u8>) {
        let Some(topic) = self.topics.get(topic).filter(|t| t.cost <= COST_MAX) else {
            return;
        };
        bits.resize(topic.len, 0);
        let mut meter = Meter::of(WORK_MAX);
        for (sql, group) in &topic.groups {
            // Bits of another length are never compared with these.
            if group.len == topic.len && sql.matches_within(properties, &mut meter) {
                group.set_in(bits);
            }
            if meter.is_spent() {
                return bits.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(topic: &str, expression: &str, positions: &[usize]) -> BitRow {
        BitRow {
            topic: topic.into(),
            expression: expression.into(),
            bits: GroupBits::new(positions, 16, 100).unwrap(),
        }
    }

    fn made(maker: &FilterBits, topic: &[u8], properties: &[u8]) -> Vec<u8> {
        let mut bits = vec![];
        maker.bits(topic, properties, &mut bits);
        bits
    }

    fn extended(bits: &[u8], store_timestamp_ms: i64) -> Extended<'_> {
        Extended {
            tags_code: 0,
            store_timestamp_ms,
            bits,
        }
    }

    #[test]
    fn each_expression_that_is_passed_sets_its_bits() {
        let rows = vec![
            row("t", "n = 1", &[0, 9]),
            row("t", "n = 1 OR n = 2", &[15]),
            row("u", "n = 1", &[3]),
            row("t", "n = ", &[7]),
        ];
        let maker = FilterBits::of(rows, &FilterBits::default());
        assert_eq!(made(&maker, b"t", b"n\x011\x02"), [0b1, 0b1000_0010]);
        assert_eq!(made(&maker, b"t", b"n\x012\x02"), [0, 0b1000_0000]);
        assert_eq!(
            made(&maker, b"t", b""),
            [0, 0],
            "nobody wants it, and that is known"
        );
        assert_eq!(
            made(&maker, b"other", b"n\x011\x02"),
            [0; 0],
            "nothing is known"
        );
    }

    #[test]
    fn only_a_missing_bit_of_a_later_message_excludes() {
        let group = GroupBits::new(&[0, 9], 16, 100).unwrap();
        let (all, some, none) = ([0b11, 0b10], [0b1, 0], [0, 0]);
        assert!(!group.rule_out(&extended(&all, 101)));
        assert!(group.rule_out(&extended(&some, 101)));
        assert!(group.rule_out(&extended(&none, 101)));
        assert!(!group.rule_out(&extended(&none, 100)), "stored before");
        assert!(!group.rule_out(&extended(&[], 101)), "no bits were made");
        assert!(!group.rule_out(&extended(&[0], 101)), "of another filter");
        assert!(
            !group.rule_out(&extended(&[0, 0, 0], 101)),
            "of another filter"
        );
    }

    #[test]
    fn bits_that_cannot_be_are_none() {
        assert_eq!(GroupBits::new(&[16], 16, 0), None);
        assert_eq!(GroupBits::new(&[], 16, 0), None);
        assert_eq!(GroupBits::new(&[1], 12, 0), None);
        assert_eq!(GroupBits::new(&[0], 0, 0), None);
        assert_eq!(GroupBits::new(&[0], (BITS_LEN_MAX + 1) * 8, 0), None);
    }

    #[test]
    fn a_message_of_too_many_bytes_to_look_at_gets_no_bits() {
        let text = vec!["n CONTAINS 'x'"; 64].join(" OR ");
        let maker = FilterBits::of(vec![row("t", &text, &[1])], &FilterBits::default());
        let with = |len: usize| [b"n\x01", "a".repeat(len).as_bytes(), b"\x02"].concat();
        assert_eq!(made(&maker, b"t", &with(100)).len(), 2);
        assert_eq!(made(&maker, b"t", &with(14_000)), [0; 0]);
    }

    #[test]
    fn a_topic_of_too_many_tests_gets_no_bits() {
        let text = vec!["n = 1"; 512].join(" OR ");
        let fit = COST_MAX / Sql::compile(&text).unwrap().cost();
        let rows = vec![row("t", &text, &[1]); fit];
        let maker = FilterBits::of(rows, &FilterBits::default());
        assert_eq!(made(&maker, b"t", b"n\x011\x02").len(), 2);
        let rows = vec![row("t", &text, &[1]); fit + 1];
        let maker = FilterBits::of(rows, &maker);
        assert_eq!(made(&maker, b"t", b"n\x011\x02"), [0; 0]);
    }
}
