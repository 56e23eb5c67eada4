//! Recall of a message with a time of its own: a message that deletes it, for the same slot
//! (`RecallMessageProcessor`).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use crate::context::Context;
use crate::delivery::answers::refuse_recall;
use crate::delivery::recall_handle::Handle;
use crate::delivery::{Delivery, Draft, Target};
use crate::names::{TIMER_QUEUE, TIMER_TOPIC};
use crate::parked::{Kind, Stored};
use crate::properties::{
    self, REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQ_KEY,
};
use crate::refusals::{self, Refused};
use crate::requests::{Recall, Request};
use crate::stop::Processed;

/// A deletion has a body, as every message.
const BODY: &[u8] = b"0";
const TAG: &[u8] = b"_RECALL_TAG_";

/// Executes a recall.
pub(crate) fn process<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
) -> Processed {
    let done = recall(cx, delivery, request);
    cx.refuse_by(done, |cx, refused| {
        refuse_recall(
            cx.connections,
            &cx.policy.broker,
            &request.request_context,
            refused,
        );
    })
}

/// The checks in the official order; the message that deletes.
fn recall<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
) -> Processed {
    let recall = Recall::read(request)?;
    let broker = &cx.policy.broker;
    let timing = broker.timing;
    let now_ms = cx.store.wall_ms();
    if !timing.is_recall_enabled {
        return Err(refusals::recall_forbidden().into());
    }
    let is_closed = !broker.perm.is_writable() && !timing.is_recall_enabled_read_only;
    if broker.refuse_sends.is_some() || now_ms < broker.accepts_sends_from_ms || is_closed {
        return Err(refusals::recall_unavailable().into());
    }
    if !cx.policy.topics.contains_key(recall.topic) {
        return Err(refusals::recall_no_topic(recall.topic).into());
    }
    let handle = Handle::parse(recall.handle);
    let handle = handle.ok_or_else(|| refusals::recall_illegal("recall handle is invalid"))?;
    let now_ms = now_ms.saturating_add(timing.ahead_ms);
    let left_ms = handle.deliver_ms.saturating_sub(now_ms);
    let why = if handle.topic != recall.topic {
        Some("recall failed, topic not match")
    } else if handle.broker != broker.name {
        Some("recall failed, broker service not available")
    } else if left_ms <= 0 || left_ms >= timing.max_delay_ms {
        Some("recall failed, timestamp invalid")
    } else {
        None
    };
    if let Some(why) = why {
        return Err(refusals::recall_illegal(why).into());
    }
    append_recall(cx, delivery, request, (&recall, &handle))
        .map_err(|_refused| refusals::recall_failed().into())
}

fn append_recall<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
    (recall, handle): (&Recall<'_>, &Handle),
) -> Result<(), Refused> {
    let broker = &cx.policy.broker;
    let now_ms = cx.store.wall_ms();
    let deliver = handle.deliver_ms.to_string();
    let timed = properties::Timed {
        deliver_ms: Some(deliver.as_bytes()),
        is_delete: true,
        ..properties::Timed::default()
    };
    let slot_ms = broker.timing.slot_of(&timed, now_ms)?;
    let out = slot_ms.unwrap_or(handle.deliver_ms).to_string();
    let delete = if broker.timing.is_recalled_by_topic {
        format!("{}+{}", handle.topic, handle.uniq_key)
    } else {
        handle.uniq_key.to_string()
    };
    let born = now_ms.to_string();
    let adds = [
        ("TAGS", TAG),
        (TIMER_DEL_UNIQKEY, delete.as_bytes()),
        (UNIQ_KEY, handle.uniq_key.as_bytes()),
        (TIMER_DELIVER_MS, deliver.as_bytes()),
        ("BORN_TIMESTAMP", born.as_bytes()),
        ("PGROUP", recall.group.as_bytes()),
        (TIMER_OUT_MS, out.as_bytes()),
        (REAL_TOPIC, handle.topic.as_bytes()),
        (REAL_QID, b"0"),
    ];
    let mut text = Vec::new();
    properties::rewrite(b"", &[], &adds, &mut text);
    let draft = Draft {
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: now_ms,
        born_host: cx.born_host(request),
        store_host: broker.store_host,
        reconsume_times: 0,
        body: BODY,
        properties: &text,
    };
    let target = Target {
        topic: TIMER_TOPIC,
        queue_id: TIMER_QUEUE,
    };
    Delivery::check_replicas(cx, true).map_err(|_words| refusals::recall_failed())?;
    let appended = cx.store.writer().append(&draft.message(&target));
    let appended = appended.map_err(|error| cx.not_stored(&error))?;
    let mut stored = Stored::at(request.request_context, Kind::Recall, 0, &appended);
    stored.recall = Some(handle.uniq_key.as_str().into());
    delivery.settle(cx, stored, appended.end(), true);
    Ok(())
}
