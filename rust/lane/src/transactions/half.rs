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

use super::ends::Half;
use crate::names::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC};
use crate::properties;

/// Bytes that the properties grow by when a half message is stored anew: two names, two numbers, and
/// what stands between them.
const RENEWED_BYTES_MAX: usize = 128;
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

/// The properties of a half message that is stored anew: with the place that it had first, and asked
/// about once more unless it is too young for that. The official broker keeps the first place of
/// young ones only.
pub(super) fn renewed_properties(view: &RecordView<'_>, is_asked: bool, text: &mut Vec<u8>) {
    let first = known(view).first.to_string();
    let times = check_times(view).saturating_add(1).to_string();
    let adds = [
        (TRAN_PREPARED_QUEUE_OFFSET, first.as_bytes()),
        (TRANSACTION_CHECK_TIMES, times.as_bytes()),
    ];
    let adds = if is_asked { &adds[..] } else { &adds[..1] };
    properties::rewrite(view.properties, &[], adds, text);
}

/// What names a half message and its copies.
pub(super) fn known(view: &RecordView<'_>) -> Half {
    let offset = view.queue_offset.cast_unsigned();
    let first = lookup(view.properties, TRAN_PREPARED_QUEUE_OFFSET);
    Half {
        queue_id: view.queue_id,
        offset,
        first: first.and_then(number).unwrap_or(offset),
        born_ms: view.born_timestamp_ms,
    }
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
