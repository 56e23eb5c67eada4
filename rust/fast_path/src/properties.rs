//! Properties of a message before it is stored: what the broker reads of them, and the text
//! with some dropped and some added. Knows no message and no policy.

use mqcore_record::properties::{INNER_NUM, lookup, pairs};

use crate::traffic::MessageKind;

const NAME_VALUE_SEPARATOR: u8 = 1;
const PROPERTY_SEPARATOR: u8 = 2;

pub(crate) const WAIT: &str = "WAIT";
pub(crate) const DELAY: &str = "DELAY";
pub(crate) const CLUSTER: &str = "CLUSTER";
pub(crate) const MSG_REGION: &str = "MSG_REGION";
pub(crate) const TRACE_ON: &str = "TRACE_ON";
pub(crate) const REAL_TOPIC: &str = "REAL_TOPIC";
pub(crate) const REAL_QID: &str = "REAL_QID";
pub(crate) const RETRY_TOPIC: &str = "RETRY_TOPIC";
pub(crate) const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
pub(crate) const UNIQ_KEY: &str = "UNIQ_KEY";
pub(crate) const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
pub(crate) const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
pub(crate) const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
pub(crate) const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
pub(crate) const TIMER_ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
pub(crate) const TIMER_DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
pub(crate) const TIMER_ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
pub(crate) const TIMER_DEL_UNIQKEY: &str = "TIMER_DEL_UNIQKEY";
/// What the properties that ask for a time begin with: all others are passed by on this alone.
const TIMER_PREFIX: &[u8] = b"TIMER_";
const TRAN_MSG: &str = "TRAN_MSG";
/// The priority of a message, a whole number from 0 on (5.5).
const PRIORITY: &[u8] = b"_SYS_MSG_PRIORITY_";
/// What keeps messages in one queue; such a message has no priority.
const SHARDING_KEY: &[u8] = b"__SHARDINGKEY";
/// The handle that a pop gave a message: a consumer that sends the message on has it still. Stored,
/// the next pop would give the old handle, and its acknowledgement would reach the wrong message.
pub(crate) const POP_CK: &str = "POP_CK";

/// What the broker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen<'a> {
    /// Whether the sender waits for the flush.
    pub(crate) waits: bool,
    /// The delay level as text.
    pub(crate) delay: Option<&'a [u8]>,
    /// Whether it is a half message of a transaction.
    pub(crate) is_half: bool,
    /// Which time of its own it asks for.
    pub(crate) timed: Timed<'a>,
    /// The unique key that its sender gave it.
    pub(crate) uniq_key: Option<&'a [u8]>,
    /// How many messages it claims to hold, as text.
    pub(crate) inner_num: Option<&'a [u8]>,
    /// Its priority, as text.
    pub(crate) priority: Option<&'a [u8]>,
    /// Whether it belongs to a shard, and is in the queue of that.
    pub(crate) is_sharded: bool,
}

impl Seen<'_> {
    /// What kind of message it is (`TopicMessageType.parseFromMessageProperty`).
    pub(crate) fn kind(&self) -> MessageKind {
        if self.is_half {
            MessageKind::Transaction
        } else if self.delay.is_some() || self.timed.is_asked() {
            MessageKind::Delay
        } else if self.is_sharded {
            MessageKind::Fifo
        } else if self.priority.is_some() {
            MessageKind::Priority
        } else {
            MessageKind::Normal
        }
    }

    /// The queue that its priority gives it; `None` for a message without one, or with a delay, a
    /// transaction or a shard, which decide before (`TopicMessageType.parseFromMessageProperty`).
    pub(crate) fn queue_by_priority(&self, write_queues: i32) -> Option<i32> {
        let is_plain =
            !self.is_half && self.delay.is_none() && !self.timed.is_asked() && !self.is_sharded;
        let priority = self.priority.filter(|_| is_plain).and_then(level)?;
        (priority >= 0).then(|| priority.min(write_queues.max(1) - 1))
    }
}

/// The properties that ask for a time of delivery, as texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timed<'a> {
    pub(crate) delay_s: Option<&'a [u8]>,
    pub(crate) delay_ms: Option<&'a [u8]>,
    pub(crate) deliver_ms: Option<&'a [u8]>,
    /// It was timed before.
    pub(crate) is_out: bool,
    /// It deletes another message.
    pub(crate) is_delete: bool,
}

impl<'a> Timed<'a> {
    fn see(&mut self, name: &[u8], value: &'a [u8]) {
        match name {
            b"TIMER_DELAY_SEC" => self.delay_s = Some(value),
            b"TIMER_DELAY_MS" => self.delay_ms = Some(value),
            b"TIMER_DELIVER_MS" => self.deliver_ms = Some(value),
            b"TIMER_OUT_MS" => self.is_out = true,
            b"TIMER_DEL_UNIQKEY" => self.is_delete = true,
            _ => {}
        }
    }

    /// Whether a time is asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.delay_s.is_some() || self.delay_ms.is_some() || self.deliver_ms.is_some()
    }
}

pub(crate) fn see(text: &[u8]) -> Seen<'_> {
    let mut seen = Seen {
        waits: true,
        delay: None,
        is_half: false,
        timed: Timed::default(),
        uniq_key: None,
        inner_num: None,
        priority: None,
        is_sharded: false,
    };
    for (name, value) in pairs(text) {
        if name == WAIT.as_bytes() {
            seen.waits = value.eq_ignore_ascii_case(b"true");
        } else if name == DELAY.as_bytes() {
            seen.delay = Some(value);
        } else if name == TRAN_MSG.as_bytes() {
            seen.is_half = value.eq_ignore_ascii_case(b"true");
        } else if name == UNIQ_KEY.as_bytes() {
            seen.uniq_key = Some(value);
        } else if name == INNER_NUM.as_bytes() {
            seen.inner_num = Some(value);
        } else if name == PRIORITY {
            seen.priority = Some(value);
        } else if name == SHARDING_KEY {
            seen.is_sharded = true;
        } else if name.starts_with(TIMER_PREFIX) {
            seen.timed.see(name, value);
        }
    }
    seen
}

/// A delay level as `Integer.parseInt` reads it.
pub(crate) fn level(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Puts `text` into `out` (cleared before) without the pairs named in `drops` or in `adds`, and
/// with `adds` behind it.
pub(crate) fn rewrite(text: &[u8], drops: &[&str], adds: &[(&str, &[u8])], out: &mut Vec<u8>) {
    out.clear();
    keep(text, drops, adds, |_name| false, out);
    add(adds, out);
}

/// Puts the pairs of `text` behind `out` that are named neither in `drops` nor in `adds`, and that
/// are not to go by their name.
pub(crate) fn keep(
    text: &[u8],
    drops: &[&str],
    adds: &[(&str, &[u8])],
    goes: impl Fn(&[u8]) -> bool,
    out: &mut Vec<u8>,
) {
    for (name, value) in pairs(text) {
        let is_dropped = drops.iter().any(|drop| drop.as_bytes() == name)
            || adds.iter().any(|add| add.0.as_bytes() == name)
            || goes(name);
        if !is_dropped {
            put(name, value, out);
        }
    }
}

/// The properties of a message of a batch as they are stored: `text` itself, or in `buffer` a copy
/// without the handle of an earlier pop.
pub(crate) fn without_pop_handle<'a>(text: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    if lookup(text, POP_CK).is_none() {
        return text;
    }
    rewrite(text, &[POP_CK], &[], buffer);
    buffer
}

/// Puts pairs behind `out`.
pub(crate) fn add(adds: &[(&str, &[u8])], out: &mut Vec<u8>) {
    for (name, value) in adds {
        put(name.as_bytes(), value, out);
    }
}

pub(crate) fn put(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.push(NAME_VALUE_SEPARATOR);
    out.extend_from_slice(value);
    out.push(PROPERTY_SEPARATOR);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_goes_and_what_is_added_replaces() {
        let mut out = b"old".to_vec();
        let text = b"TAGS\x01a\x02WAIT\x01true\x02CLUSTER\x01x\x02bad\x02k\x01v";
        rewrite(text, &[WAIT], &[(CLUSTER, b"c1")], &mut out);
        assert_eq!(out, b"TAGS\x01a\x02k\x01v\x02CLUSTER\x01c1\x02");
    }

    #[test]
    fn the_handle_of_a_pop_goes_from_a_message_of_a_batch_and_nothing_else() {
        let mut buffer = b"old".to_vec();
        let text = b"TAGS\x01a\x02POP_CKX\x01k\x02";
        assert_eq!(without_pop_handle(text, &mut buffer), text);
        let text = b"TAGS\x01a\x02POP_CK\x010 1\x02POP_CK_OFFSET\x012\x02POP_CK\x013";
        let kept = without_pop_handle(text, &mut buffer);
        assert_eq!(kept, b"TAGS\x01a\x02POP_CK_OFFSET\x012\x02");
    }

    #[test]
    fn the_broker_sees_what_concerns_it() {
        let seen = see(b"WAIT\x01false\x02DELAY\x013\x02TRAN_MSG\x01TRUE\x02");
        assert_eq!((seen.waits, seen.is_half), (false, true));
        assert_eq!(seen.delay.and_then(level), Some(3));
        assert_eq!(level(b"x"), None);
        assert!(see(b"").waits);
    }
}
