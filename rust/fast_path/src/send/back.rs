//! Messages that their consumer sends back: to the retry topic of the group, delayed, or to its dead
//! letters (`SendMessageProcessor.asyncConsumerSendMsgBack`).

use mqcore_access::{Actions, Resource};
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::status::PutStatus;
use mqcore_record::properties::lookup;
use mqcore_record::sys_flag::INNER_BATCH;
use mqcore_record::{CrcCheck, Message, RecordView};

use super::VERSION_WITH_MAX_RECONSUME;
use crate::batches::RECORD_REST_BYTES;
use crate::context::Context;
use crate::delivery::route::clipped_level;
use crate::delivery::{Delivery, Target};
use crate::moved::moved;
use crate::names::{DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC};
use crate::parked::{Kind, Stored};
use crate::policy::Group;
use crate::properties::{self, DELAY, ORIGIN_MESSAGE_ID, REAL_QID, REAL_TOPIC, RETRY_TOPIC, WAIT};
use crate::readers::{Job, Returned};
use crate::refusals::{self, Refused};
use crate::requests::{Back, Request};
use crate::stop::{How, Processed, Stop};

/// The level of a message that was never sent back before, where the broker decides.
const FIRST_LEVEL: i32 = 3;

/// Executes a message that is sent back.
pub(crate) fn process<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
    how: How,
) -> Processed {
    let sent = send_back(cx, delivery, request, how);
    cx.refuse(&request.request_context, sent)
}

/// Goes on with a message that was read from the disk. The request is gone by now: where it would have
/// to wait or to be decided on it is refused, and its client sends the message by itself.
pub(crate) fn was_read<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    (returned, how): (&Returned, How),
    record: Result<RecordBytes<D>>,
) {
    let put = match record {
        Ok(record) => put_back(cx, delivery, (returned, how), &record),
        Err(_error) => Err(not_found(returned).into()),
    };
    let refused = match put {
        Ok(()) => return,
        Err(Stop::Escalate(_escalation)) => refusals::retry_topic_not_yet(),
        Err(stop) => stop.into_refused(),
    };
    cx.connections.refuse(&returned.request_context, &refused);
}

fn send_back<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
    how: How,
) -> Processed {
    let back = Back::read(request)?;
    let request_context = request.request_context;
    let Some(group) = check_back(cx, &back, how)? else {
        // A group without retry queues: the message is dropped, as officially.
        cx.connections.succeed(&request_context, None);
        return Ok(());
    };
    let own = back.max_reconsume_times;
    let own = own.filter(|_| request_context.version >= VERSION_WITH_MAX_RECONSUME);
    let no_message = || refusals::no_message_to_send_back(back.physical_offset);
    let physical_offset = u64::try_from(back.physical_offset).map_err(|_bad| no_message())?;
    let returned = Returned {
        request_context,
        physical_offset,
        group: back.group.into(),
        delay_level: back.delay_level,
        max_reconsume_times: own.unwrap_or(group.max_retries),
        further: cx.further(request),
    };
    match cx.record_if_hot(physical_offset) {
        Ok(Some(record)) => put_back(cx, delivery, (&returned, how), &record),
        Ok(None) => {
            cx.read_elsewhere(&request_context, Job::Back(returned, how));
            Ok(())
        }
        Err(_no_record) => Err(no_message().into()),
    }
}

/// The group, unless it keeps no retries.
fn check_back<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    back: &Back<'_>,
    how: How,
) -> Processed<Option<Group>> {
    let broker = &cx.policy.broker;
    let Some(group) = cx.policy.groups.get(back.group).copied() else {
        return Err(Stop::group(back.group, how, refusals::no_group_to_send));
    };
    if !broker.perm.is_writable() {
        return Err(refusals::broker_not_writable(&broker.address).into());
    }
    if group.retry_queues <= 0 {
        return Ok(None);
    }
    let retry = format!("{RETRY_PREFIX}{}", back.group);
    match cx.policy.topics.get(retry.as_str()) {
        Some(topic) if !topic.perm.is_writable() => {
            Err(refusals::topic_not_writable(&retry).into())
        }
        Some(_topic) => Ok(Some(group)),
        None => Err(Stop::topic(&retry, how, refusals::no_retry_topic)),
    }
}

fn not_found(returned: &Returned) -> Refused {
    refusals::no_message_to_send_back(returned.physical_offset.cast_signed())
}

fn put_back<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    (returned, how): (&Returned, How),
    record: &RecordBytes<D>,
) -> Processed {
    let view = record.view(CrcCheck::Verify);
    let view = view.map_err(|_bad| not_found(returned))?;
    if view.physical_offset.cast_unsigned() != returned.physical_offset {
        return Err(not_found(returned).into());
    }
    if let Some(further) = &returned.further {
        // Else any message could be had by sending it back to a group of one's own.
        let topic = std::str::from_utf8(view.topic).map_err(|_bad| not_found(returned))?;
        let pair = Resource::topic(topic, Actions::SUB);
        cx.permit(&returned.request_context, further, [pair])?;
    }
    let is_dead = view.reconsume_times >= returned.max_reconsume_times || returned.delay_level < 0;
    let prefix = if is_dead {
        DEAD_LETTER_PREFIX
    } else {
        RETRY_PREFIX
    };
    let name = format!("{prefix}{}", returned.group);
    if !cx.policy.topics.contains_key(name.as_str()) {
        return Err(Stop::topic(&name, how, refusals::no_retry_topic));
    }
    if cx.waits_for_log((view.total_len_bytes + RECORD_REST_BYTES) as u64) {
        return Err(Stop::Defer);
    }
    delivery.check_load(cx, &returned.request_context)?;
    let checked = Delivery::check_replicas(cx, true);
    checked.map_err(|_words| refusals::by_status(PutStatus::InSyncReplicasNotEnough))?;
    store_returned(cx, delivery, returned, &view, (&name, is_dead))
}

fn store_returned<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    returned: &Returned,
    view: &RecordView<'_>,
    (name, is_dead): (&str, bool),
) -> Processed {
    if view.sys_flag & INNER_BATCH != 0 {
        // One message of a batch was meant: its consumer sends that one as a message of its own.
        return Err(cx.illegal().into());
    }
    let group = cx.policy.groups.get(&*returned.group);
    let chosen = delivery.next_queue(group.map_or(1, |group| group.retry_queues));
    let queue_id = if is_dead { 0 } else { chosen };
    let level = if returned.delay_level == 0 {
        FIRST_LEVEL.saturating_add(view.reconsume_times)
    } else {
        returned.delay_level
    };
    let level = clipped_level(cx.store, level);
    let (level_text, queue_text) = (level.to_string(), queue_id.to_string());
    let own_id = view.offset_id();
    let kept = |name: &str| lookup(view.properties, name);
    let origin = kept(ORIGIN_MESSAGE_ID).filter(|id| !id.trim_ascii().is_empty());
    let mut adds = vec![
        (RETRY_TOPIC, kept(RETRY_TOPIC).unwrap_or(view.topic)),
        (ORIGIN_MESSAGE_ID, origin.unwrap_or(own_id.as_bytes())),
    ];
    let target = if is_dead {
        Target {
            topic: name,
            queue_id,
        }
    } else {
        adds.push((DELAY, level_text.as_bytes()));
        adds.push((REAL_TOPIC, name.as_bytes()));
        adds.push((REAL_QID, queue_text.as_bytes()));
        Target {
            topic: SCHEDULE_TOPIC,
            queue_id: level - 1,
        }
    };
    let drops = [WAIT, DELAY, REAL_TOPIC, REAL_QID];
    let mut text = Vec::new();
    properties::rewrite(view.properties, &drops, &adds, &mut text);
    let appended = cx.store.writer().append(&Message {
        reconsume_times: view.reconsume_times.saturating_add(1),
        ..moved(view, target.topic, target.queue_id, &text)
    });
    let appended = appended.map_err(|error| cx.not_stored(&error))?;
    let topic = kept(RETRY_TOPIC).and_then(|text| std::str::from_utf8(text).ok());
    let own = std::str::from_utf8(view.topic).unwrap_or_default();
    let traffic = &mut cx.connections.traffic;
    traffic.given_back(&returned.group, topic.unwrap_or(own), is_dead);
    let stored = Stored::at(returned.request_context, Kind::Back, queue_id, &appended);
    delivery.settle(cx, stored, appended.end(), true);
    Ok(())
}
