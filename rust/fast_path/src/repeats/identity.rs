//! What names a message, so that it can be known again: its topic and the unique key that its
//! producer gave it. Pure functions of a record's fields.
//!
//! | record | counts |
//! |---|---|
//! | sent to a topic, alone or in a batch | by its topic |
//! | half message | by the topic it is meant for, apart from plain messages |
//! | sent with a delay or a time, in the queue where it waits | by the topic it is meant for |
//! | of a retry topic or a dead letter topic: the same message comes there again and again | no |
//! | half message stored anew, committed, delivered or rolled message: the broker's doing | no |

use hashbrown::DefaultHashBuilder;
use mqcore_record::RecordView;
use mqcore_record::properties::{
    REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_ROLL_TIMES, TRAN_PREPARED_QUEUE_OFFSET, UNIQ_KEY, lookup,
};
use mqcore_record::sys_flag::TRANSACTION_MASK;
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use crate::mark::Mark;
use crate::names::{DEAD_LETTER_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC};
use crate::properties::Seen;

/// What names a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The topic it was sent to.
    pub topic: &'a [u8],
    /// Its unique key.
    pub key: &'a [u8],
    /// Whether it is a half message.
    pub is_half: bool,
}

impl<'a> Identity<'a> {
    /// The identity of a message that a producer sends to a topic; `None` when it does not count.
    pub(crate) fn of_send(topic: &'a str, seen: &Seen<'a>, text: &[u8]) -> Option<Self> {
        if seen.timed.is_delete {
            return None;
        }
        // What was delivered once and is sent on has the key of another message.
        let waits = seen.is_half || seen.delay.is_some() || seen.timed.is_asked();
        if !waits && lookup(text, REAL_TOPIC).is_some() {
            return None;
        }
        Self::checked(topic.as_bytes(), seen.uniq_key?, seen.is_half)
    }

    /// The identity of a part of a batch; `None` when it does not count.
    pub(crate) fn of_part(topic: &'a str, text: &'a [u8]) -> Option<Self> {
        if lookup(text, REAL_TOPIC).is_some() {
            return None;
        }
        Self::checked(topic.as_bytes(), lookup(text, UNIQ_KEY)?, false)
    }

    /// The identity of a stored message; `None` when it does not count.
    #[must_use]
    pub fn of_stored(topic: &'a [u8], sys_flag: i32, properties: &'a [u8]) -> Option<Self> {
        if sys_flag & TRANSACTION_MASK != 0 {
            return None;
        }
        let key = lookup(properties, UNIQ_KEY)?;
        let meant_for = lookup(properties, REAL_TOPIC);
        let has = |name: &str| lookup(properties, name).is_some();
        let is_half = topic == HALF_TOPIC.as_bytes();
        if is_half {
            if has(TRAN_PREPARED_QUEUE_OFFSET) {
                return None;
            }
            return Self::checked(meant_for?, key, true);
        }
        if topic == SCHEDULE_TOPIC.as_bytes() || topic == TIMER_TOPIC.as_bytes() {
            if has(TIMER_ROLL_TIMES) || has(TIMER_DEL_UNIQKEY) {
                return None;
            }
            return Self::checked(meant_for?, key, false);
        }
        if meant_for.is_some() {
            return None;
        }
        Self::checked(topic, key, false)
    }

    /// The identity of a record; `None` when it does not count.
    #[must_use]
    pub fn of_record(view: &RecordView<'a>) -> Option<Self> {
        Self::of_stored(view.topic, view.sys_flag, view.properties)
    }

    fn checked(topic: &'a [u8], key: &'a [u8], is_half: bool) -> Option<Self> {
        let comes_again = [RETRY_PREFIX, DEAD_LETTER_PREFIX]
            .iter()
            .any(|prefix| topic.starts_with(prefix.as_bytes()));
        (!comes_again && !key.is_empty()).then_some(Self {
            topic,
            key,
            is_half,
        })
    }
}

/// The marks that all loops use: so that one is made before any lock is taken.
static OF_PROCESS: LazyLock<Marks> = LazyLock::new(Marks::default);

/// Makes marks of identities: two hashes, with seeds of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    low: DefaultHashBuilder,
    high: DefaultHashBuilder,
}

impl Marks {
    /// Those of this process.
    pub(crate) fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    pub(crate) fn of(&self, identity: &Identity<'_>) -> Mark {
        let hash = |builder: &DefaultHashBuilder| {
            let mut hasher = builder.build_hasher();
            hasher.write(identity.topic);
            // No topic has this byte, so that where it ends is part of what is hashed.
            hasher.write_u8(if identity.is_half { 1 } else { 2 });
            hasher.write(identity.key);
            hasher.finish()
        };
        Mark {
            low: hash(&self.low),
            high: hash(&self.high),
        }
    }
}

#[cfg(test)]
mod tests {
    use mqcore_record::sys_flag::COMMIT;

    use super::*;

    fn stored<'a>(topic: &'a str, sys_flag: i32, text: &'a str) -> Option<(&'a [u8], bool)> {
        let identity = Identity::of_stored(topic.as_bytes(), sys_flag, text.as_bytes())?;
        assert_eq!(identity.key, b"K");
        Some((identity.topic, identity.is_half))
    }

    #[test]
    fn what_a_producer_sent_counts_and_what_the_broker_makes_of_it_does_not() {
        let key = "UNIQ_KEY\u{1}K\u{2}";
        let with = |more: &str| format!("{key}{more}");
        let meant = with("REAL_TOPIC\u{1}t\u{2}REAL_QID\u{1}0\u{2}");
        assert_eq!(stored("t", 0, key), Some((&b"t"[..], false)));
        assert_eq!(stored("t", 0, "a\u{1}b\u{2}"), None);
        assert_eq!(stored("t", 0, "UNIQ_KEY\u{1}\u{2}"), None);
        assert_eq!(stored("t", 0, &meant), None, "delivered");
        assert_eq!(stored("t", COMMIT, key), None, "committed");
        assert_eq!(stored(HALF_TOPIC, 0, &meant), Some((&b"t"[..], true)));
        let copy = format!("{meant}TRAN_PREPARED_QUEUE_OFFSET\u{1}4\u{2}");
        assert_eq!(stored(HALF_TOPIC, 0, &copy), None, "stored anew");
        assert_eq!(stored(HALF_TOPIC, 0, key), None, "meant for nobody");
        assert_eq!(stored(SCHEDULE_TOPIC, 0, &meant), Some((&b"t"[..], false)));
        assert_eq!(stored(SCHEDULE_TOPIC, COMMIT, &meant), None);
        assert_eq!(stored(TIMER_TOPIC, 0, &meant), Some((&b"t"[..], false)));
        let rolled = format!("{meant}TIMER_ROLL_TIMES\u{1}1\u{2}");
        assert_eq!(stored(TIMER_TOPIC, 0, &rolled), None);
        let back = with("REAL_TOPIC\u{1}%RETRY%g\u{2}REAL_QID\u{1}0\u{2}");
        assert_eq!(stored(SCHEDULE_TOPIC, 0, &back), None, "sent back");
        assert_eq!(stored("%RETRY%g", 0, key), None);
        assert_eq!(stored("%DLQ%g", 0, key), None);
    }

    #[test]
    fn topics_keys_and_halves_have_marks_of_their_own() {
        let marks = Marks::default();
        let of = |topic: &str, key: &str, is_half: bool| {
            marks.of(&Identity {
                topic: topic.as_bytes(),
                key: key.as_bytes(),
                is_half,
            })
        };
        let all = [
            of("t", "k", false),
            of("t", "k", true),
            of("tk", "", false),
            of("", "tk", false),
            of("u", "k", false),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| other != one));
        }
        assert_eq!(of("t", "k", true), of("t", "k", true));
    }
}
