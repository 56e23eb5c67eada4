//! What a half message becomes: stored anew, committed, given up, or a question to its producers.
//! Pure functions of its record.

use mqcore_record::encode::{Limits, Prepared};
use mqcore_record::layout::PROPERTIES_LEN_MAX;
use mqcore_record::properties::{
    DELAY, REAL_QID, REAL_TOPIC, TRAN_MSG, TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_CHECK_TIMES,
    lookup,
};
use mqcore_record::sys_flag::{COMMIT, TRANSACTION_MASK};
use mqcore_record::{Message, RecordView};

use crate::names::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC};
use crate::properties;

/// Bytes that the properties grow by when a half message is stored anew: a name, a number, and what
/// stands between them.
const RENEWED_BYTES_MAX: usize = 64;
/// Queue of what was given up (`TCMT_QUEUE_NUMS` is 1).
const GIVEN_UP_QUEUE: i32 = 0;

/// Where a half message is meant to go; `None` when it does not say.
pub(super) fn meant_for<'a>(view: &RecordView<'a>) -> Option<(&'a str, i32)> {
    let topic = std::str::from_utf8(lookup(view.properties, REAL_TOPIC)?).ok()?;
    let queue_id = number(lookup(view.properties, REAL_QID)?)?;
    // Neither a half message nor one given up is ever meant for their own topics.
    (topic != HALF_TOPIC && queue_id >= 0).then_some((topic, queue_id))
}

/// A number as Java's `parseLong` and `parseInt` read it.
pub(super) fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The same message in another place.
fn moved<'a>(view: &RecordView<'a>, topic: &'a str, queue_id: i32, text: &'a [u8]) -> Message<'a> {
    Message {
        topic,
        queue_id,
        flag: view.flag,
        sys_flag: view.sys_flag,
        born_timestamp_ms: view.born_timestamp_ms,
        born_host: view.born_host,
        store_host: view.store_host,
        reconsume_times: view.reconsume_times,
        prepared_transaction_offset: 0,
        body: view.body,
        properties: text,
        version: None,
    }
}

/// The committed message. Delayed, it waits in the topic of its level; `text` is room for its
/// properties then. Otherwise it keeps the properties of the half message, as officially.
pub(super) fn committed<'a>(
    view: &RecordView<'a>,
    (topic, queue_id): (&'a str, i32),
    level: i32,
    text: &'a mut Vec<u8>,
) -> Message<'a> {
    let (topic, queue_id, text) = if level > 0 {
        let (queue_text, level_text) = (queue_id.to_string(), level.to_string());
        let adds = [
            (REAL_TOPIC, topic.as_bytes()),
            (REAL_QID, queue_text.as_bytes()),
            (DELAY, level_text.as_bytes()),
        ];
        properties::rewrite(view.properties, &[TRAN_MSG], &adds, text);
        (SCHEDULE_TOPIC, level - 1, text.as_slice())
    } else {
        (topic, queue_id, view.properties)
    };
    Message {
        sys_flag: view.sys_flag & !TRANSACTION_MASK | COMMIT,
        prepared_transaction_offset: view.physical_offset,
        ..moved(view, topic, queue_id, text)
    }
}

/// How often its producers were asked.
pub(super) fn check_times(view: &RecordView<'_>) -> i32 {
    let text = lookup(view.properties, TRANSACTION_CHECK_TIMES);
    text.and_then(number).unwrap_or(0)
}

/// Whether a half message can be stored anew: that makes its properties longer.
pub(super) fn has_room_to_renew(view: &RecordView<'_>) -> bool {
    view.properties.len() + RENEWED_BYTES_MAX <= PROPERTIES_LEN_MAX
}

/// The properties of a half message that is stored anew: asked about once more, or with the place
/// that it had first while it is too young for that.
pub(super) fn renewed_properties(view: &RecordView<'_>, is_asked: bool, text: &mut Vec<u8>) {
    if is_asked {
        let times = check_times(view).saturating_add(1).to_string();
        let adds = [(TRANSACTION_CHECK_TIMES, times.as_bytes())];
        return properties::rewrite(view.properties, &[], &adds, text);
    }
    let own = view.queue_offset.to_string();
    let first = lookup(view.properties, TRAN_PREPARED_QUEUE_OFFSET);
    let adds = [(TRAN_PREPARED_QUEUE_OFFSET, first.unwrap_or(own.as_bytes()))];
    properties::rewrite(view.properties, &[], &adds, text);
}

/// The half message as it is stored anew (`renewHalfMessageInner`, which loses flag and times).
pub(super) fn renewed<'a>(view: &RecordView<'a>, text: &'a [u8]) -> Message<'a> {
    moved(view, HALF_TOPIC, view.queue_id, text)
}

/// The half message in the topic of those that nobody ends.
pub(super) fn given_up<'a>(view: &RecordView<'a>) -> Message<'a> {
    moved(view, CHECK_MAX_TIME_TOPIC, GIVEN_UP_QUEUE, view.properties)
}

/// The record that goes with a question: the message under the topic it is meant for, at the place
/// of its newest copy (`AbstractTransactionalMessageCheckListener.sendCheckMessage`).
pub(super) fn question(
    view: &RecordView<'_>,
    (topic, queue_id): (&str, i32),
    text: &[u8],
    (queue_offset, physical_offset): (u64, u64),
) -> Vec<u8> {
    let limits = Limits {
        body_len_max: view.body.len(),
    };
    let message = moved(view, topic, queue_id, text);
    let Ok(mut prepared) = Prepared::new(&message, &limits) else {
        // Stored with these very parts but for a topic that is no topic: nobody can be asked.
        return Vec::new();
    };
    prepared.stamp(
        queue_offset.cast_signed(),
        physical_offset.cast_signed(),
        view.store_timestamp_ms,
    );
    let mut record = vec![0; prepared.total_len()];
    prepared.write_to(&mut record);
    record
}
