//! What the properties of a timed message hold, and what they become when it is delivered
//! (`TimerMessageStore.convert`). Pure.

use mqcore_record::RecordView;
use mqcore_record::properties::pairs;

use crate::properties::{self, TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, TIMER_ROLL_TIMES};

/// Bytes of what is added to the properties, about.
const PROPERTIES_ADDED_BYTES: usize = 96;
/// Digits of a time in milliseconds, until the year 2286.
pub(super) const TIME_DIGITS: usize = 13;

/// What of a message matters here.
#[derive(Default)]
pub(super) struct TimedFields<'a> {
    pub(super) real_topic: Option<&'a [u8]>,
    pub(super) real_queue: Option<i32>,
    pub(super) uniq_key: Option<&'a [u8]>,
    pub(super) deletes: Option<&'a [u8]>,
    pub(super) out_ms: Option<i64>,
    pub(super) rolls: i64,
}

impl<'a> TimedFields<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        let mut fields = Self::default();
        for (name, value) in pairs(text) {
            match name {
                b"REAL_TOPIC" => fields.real_topic = Some(value),
                b"REAL_QID" => fields.real_queue = number(value),
                b"UNIQ_KEY" => fields.uniq_key = Some(value),
                b"TIMER_DEL_UNIQKEY" => fields.deletes = Some(value),
                b"TIMER_OUT_MS" => fields.out_ms = number(value),
                b"TIMER_ROLL_TIMES" => fields.rolls = number(value).unwrap_or(0),
                _ => {}
            }
        }
        fields
    }

    /// Under which a message is found that another one deletes (`TimerMessageStore.buildDeleteKey` of
    /// 5.3).
    pub(super) fn delete_key(&self) -> Option<Vec<u8>> {
        Some([self.real_topic?, b"+", self.uniq_key?].concat())
    }

    /// The key of the message that this one deletes, if it does. 5.3 writes it whole, 5.5 by default the
    /// unique key alone; the topic is that of the message that deletes, then.
    pub(super) fn deleted_key(&self) -> Option<Vec<u8>> {
        let (written, topic) = (self.deletes?, self.real_topic?);
        let rest = written.strip_prefix(topic);
        if rest.is_some_and(|rest| rest.starts_with(b"+")) {
            return Some(written.to_vec());
        }
        Some([topic, b"+", written].concat())
    }
}

/// The properties of a message that is delivered; the time of delivery is at the end, and is none
/// yet.
pub(super) fn properties_of(view: &RecordView<'_>, entered_ms: i64, rolls: Option<i64>) -> Vec<u8> {
    let (entered, none) = (entered_ms.to_string(), [b'0'; TIME_DIGITS]);
    let rolls = rolls.map(|rolls| rolls.to_string());
    let mut adds = vec![(TIMER_ENQUEUE_MS, entered.as_bytes())];
    if let Some(rolls) = &rolls {
        adds.push((TIMER_ROLL_TIMES, rolls.as_bytes()));
    }
    adds.push((TIMER_DEQUEUE_MS, &none));
    let mut text = Vec::with_capacity(view.properties.len() + PROPERTIES_ADDED_BYTES);
    properties::rewrite(view.properties, &[], &adds, &mut text);
    text
}
