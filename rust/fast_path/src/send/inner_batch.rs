//! Sends to topics whose queues are batch queues (`queue.type=BatchCQ` of 5.x): a batch is kept as
//! the one record that it came as, which takes a queue offset for each of its messages
//! (`SendMessageProcessor.sendBatchMessage`, `HookUtils.checkInnerBatch`). Whoever pulls it takes it
//! apart.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_record::batch::{Item, encode, items};
use mqcore_record::inner_offsets::count;
use mqcore_record::sys_flag::{INNER_BATCH, TRANSACTION_MASK};

use crate::codes;
use crate::context::Context;
use crate::names::RETRY_PREFIX;
use crate::properties::{self, Seen};
use crate::refusals::{self, Refused};
use crate::requests::Send;

/// The messages of a batch, without the handles that earlier pops gave them.
pub(crate) fn without_pop_handles(body: &[u8]) -> Result<Vec<u8>, Refused> {
    let (mut kept, mut buffer) = (Vec::with_capacity(body.len()), Vec::new());
    for item in items(body) {
        let item = item.map_err(refusals::bad_batch)?;
        let properties = properties::without_pop_handle(item.properties, &mut buffer);
        encode(&Item { properties, ..item }, &mut kept).map_err(refusals::bad_batch)?;
    }
    Ok(kept)
}

/// Refuses a batch to a retry topic (`SendMessageProcessor.sendBatchMessage`).
pub(crate) fn check_batch_topic(topic: &str) -> Result<(), Refused> {
    if !topic.starts_with(RETRY_PREFIX) {
        return Ok(());
    }
    let remark = format!("batch request does not support retry group {topic}");
    Err(Refused {
        code: codes::MESSAGE_ILLEGAL,
        remark: remark.into(),
    })
}

/// Refuses what claims to hold messages and cannot: without the flag, in a topic of plain
/// queues, or where it would wait in one for its time or its transaction.
pub(crate) fn check_inner_batch<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    send: &Send<'_>,
    seen: &Seen<'_>,
) -> Result<(), Refused> {
    let is_inner = send.sys_flag & INNER_BATCH != 0;
    if !is_inner && seen.inner_num.is_none() {
        return Ok(());
    }
    let waits = seen.is_half
        || seen.timed.is_asked()
        || seen.delay.and_then(properties::level).unwrap_or(0) > 0
        || send.sys_flag & TRANSACTION_MASK != 0;
    let is_counted = seen.inner_num.is_none_or(|text| count(text).is_some());
    let has_batch_queues = cx.store.topics().has_batch_queues(send.topic.as_bytes());
    if !is_inner || waits || !is_counted || !has_batch_queues {
        return Err(cx.illegal());
    }
    Ok(())
}
