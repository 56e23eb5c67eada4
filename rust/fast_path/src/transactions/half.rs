//! What a half message becomes: stored anew, committed, given up, or a question to its producers.
//! Pure functions of its record.

use mqcore_record::layout::PROPERTIES_LEN_MAX;
use mqcore_record::properties::{
    DELAY, REAL_QID, REAL_TOPIC, TRAN_MSG, TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_CHECK_TIMES,
    lookup,
};
use mqcore_record::sys_flag::{COMMIT, TRANSACTION_MASK};
use mqcore_record::{Message, RecordView};

use super::remembered::Half;
use crate::delivery::route::DeliveryRoute;
use crate::moved::{moved, record_at};
use crate::names::{CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_QUEUE, TIMER_TOPIC};
use crate::properties::{self, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS, TIMER_OUT_MS};

/// Milliseconds of a second.
pub(super) const MS_PER_S: i64 = 1_000;
/// Bytes that the properties grow by when a half message is stored anew: two names, two numbers, and
/// the separators between them.
const RENEWED_BYTES_MAX: usize = 128;
/// Queue of what was given up (`TCMT_QUEUE_NUMS` is 1).
const GIVEN_UP_QUEUE: i32 = 0;

/// Queue of what is asked about again, as officially.
const RESUMED_QUEUE: i32 = 0;

/// Where a half message is meant to go; `None` when it has no such properties.
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

/// The committed message. One that waits for a level or a time does so in the topic of that, and
/// `text` is the buffer for its properties then. Otherwise it keeps the properties of the half
/// message, as officially.
pub(super) fn committed<'a>(
    view: &RecordView<'a>,
    (topic, queue_id): (&'a str, i32),
    route: DeliveryRoute,
    text: &'a mut Vec<u8>,
) -> Message<'a> {
    let (waits_in, drops, (name, value)) = match route {
        DeliveryRoute::Straight | DeliveryRoute::Undelayed | DeliveryRoute::Half => {
            return ended(moved(view, topic, queue_id, view.properties), view);
        }
        DeliveryRoute::Level(level) => (
            (SCHEDULE_TOPIC, level - 1),
            &[TRAN_MSG, TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC][..],
            (DELAY, level.to_string()),
        ),
        DeliveryRoute::Timer(slot_ms) => (
            (TIMER_TOPIC, TIMER_QUEUE),
            &[TRAN_MSG, DELAY][..],
            (TIMER_OUT_MS, slot_ms.to_string()),
        ),
    };
    let queue_text = queue_id.to_string();
    let adds = [
        (REAL_TOPIC, topic.as_bytes()),
        (REAL_QID, queue_text.as_bytes()),
        (name, value.as_bytes()),
    ];
    properties::rewrite(view.properties, drops, &adds, text);
    ended(moved(view, waits_in.0, waits_in.1, text), view)
}

/// The flags of a message whose transaction was committed, and the place of its half message.
fn ended<'a>(message: Message<'a>, half: &RecordView<'_>) -> Message<'a> {
    Message {
        sys_flag: half.sys_flag & !TRANSACTION_MASK | COMMIT,
        prepared_transaction_offset: half.physical_offset,
        ..message
    }
}

/// How often its producers were asked.
pub(super) fn check_times(view: &RecordView<'_>) -> i32 {
    let text = lookup(view.properties, TRANSACTION_CHECK_TIMES);
    text.and_then(number).unwrap_or(0)
}

/// Whether a half message can be stored anew: that makes its properties longer.
pub(super) fn has_space_to_renew(view: &RecordView<'_>) -> bool {
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

/// The properties of a half message that was given up and is asked about again: as if nobody had been
/// asked, and at its first place.
pub(super) fn resumed_properties(view: &RecordView<'_>, text: &mut Vec<u8>) {
    let drops = &[TRAN_PREPARED_QUEUE_OFFSET];
    let adds = [(TRANSACTION_CHECK_TIMES, &b"0"[..])];
    properties::rewrite(view.properties, drops, &adds, text);
}

/// What was given up as a half message again (`toMessageExtBrokerInner`).
pub(super) fn resumed<'a>(view: &RecordView<'a>, text: &'a [u8]) -> Message<'a> {
    moved(view, HALF_TOPIC, RESUMED_QUEUE, text)
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
    let message = moved(view, topic, queue_id, text);
    let appended = (queue_offset.cast_signed(), physical_offset.cast_signed());
    // Stored with these very parts but for a topic that is no topic: then nobody can be asked.
    record_at(&message, appended, view.store_timestamp_ms).unwrap_or_default()
}
