//! Requests about offsets: where a group goes on, where a queue begins and ends, which offset goes
//! with a time (`ConsumerManageProcessor`, `AdminBrokerProcessor`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::Boundary;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;

use crate::codes;
use crate::connections::ResponseHead;
use crate::consumer_offsets::ConsumerOffsets;
use crate::context::Context;
use crate::readers::Job;
use crate::refusals;
use crate::request_context::RequestContext;
use crate::requests::{GroupOffset, QueueQuestion, Request};
use crate::stop::{Escalation, How, Processed, Stop};

/// The official remark for an offset that is not taken because of a reset.
const OFFSET_WAS_RESET: &str = "Offset has been previously reset";

/// The processor of requests about offsets. Owns nothing but its share of the offsets.
#[derive(Debug)]
pub(crate) struct OffsetProcessor {
    offsets: Arc<ConsumerOffsets>,
}

impl OffsetProcessor {
    pub(crate) fn new(offsets: Arc<ConsumerOffsets>) -> Self {
        Self { offsets }
    }

    /// Executes a request; `release_pops` of a group, a topic and a queue where their offset changes.
    pub(crate) fn process<D: Disk, C: Clock>(
        &self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
        release_pops: impl FnOnce(&Context<'_, D, C>, &str, &str, i32),
    ) -> Processed {
        let ran = match request.code {
            codes::QUERY_CONSUMER_OFFSET => self.query(cx, request, how),
            codes::UPDATE_CONSUMER_OFFSET => self.update(cx, request, how, release_pops),
            codes::GET_MAX_OFFSET | codes::GET_MIN_OFFSET => bound(cx, request, how),
            codes::SEARCH_OFFSET_BY_TIMESTAMP => search(cx, request, how),
            _ => Err(Stop::Escalate(Escalation::Code)),
        };
        cx.refuse(&request.request_context, ran)
    }

    fn query<D: Disk, C: Clock>(
        &self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let ask = GroupOffset::read(request)?;
        check_topic(cx, ask.topic, how)?;
        let (topic, queue_id) = (ask.topic.as_bytes(), ask.queue_id);
        let known = self.offsets.find(ask.group, ask.topic, queue_id);
        let offset = match known.filter(|offset| *offset >= 0) {
            Some(offset) => Ok(Some(offset)),
            None if !ask.zero_if_unknown => Ok(None),
            // A new group on a young queue begins at its start, whatever the client would do.
            None => cx
                .store
                .topics()
                .bounds(topic, queue_id)
                .and_then(|bounds| {
                    let is_young = bounds.is_none_or(|bounds| bounds.min == 0)
                        && !cx.store.reader().is_far(topic, queue_id, 0)?;
                    Ok(is_young.then_some(0))
                }),
        };
        let offset = offset.map_err(|error| refusals::failed(&error))?;
        reply_offset(
            cx,
            &request.request_context,
            offset.ok_or_else(refusals::no_offset)?,
        );
        Ok(())
    }

    fn update<D: Disk, C: Clock>(
        &self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
        release_pops: impl FnOnce(&Context<'_, D, C>, &str, &str, i32),
    ) -> Processed {
        let ask = GroupOffset::read(request)?;
        check_topic(cx, ask.topic, how)?;
        let offset = ask.commit_offset;
        let offset = offset.ok_or_else(|| refusals::no_field("commitOffset"))?;
        if ask.group.trim().is_empty() || ask.topic.trim().is_empty() {
            return Err(refusals::offset_nameless().into());
        }
        let (group, topic, queue_id) = (ask.group, ask.topic, ask.queue_id);
        let mut head = ResponseHead {
            code: codes::SUCCESS,
            remark: None,
        };
        if self.offsets.has_reset(group, topic, queue_id) {
            // The client has not heard of it yet: its offset is older.
            head.remark = Some(OFFSET_WAS_RESET);
        } else {
            // Pops of the group would go on behind the offset that is left.
            release_pops(cx, group, topic, queue_id);
            if !self.offsets.commit(group, topic, queue_id, offset) {
                return Err(refusals::offset_not_kept().into());
            }
        }
        cx.connections
            .reply(&request.request_context, head, |_fields| Ok(()));
        Ok(())
    }
}

/// Hands over what is asked about a topic that Python looks at first.
fn check_topic<D: Disk, C: Clock>(cx: &Context<'_, D, C>, topic: &str, how: How) -> Processed {
    let is_checked = || cx.policy.topics.get(topic).is_some_and(|t| t.needs_check);
    if how == How::ByPolicy && is_checked() {
        return Err(Stop::Escalate(Escalation::Check));
    }
    Ok(())
}

/// Where a queue begins or ends.
fn bound<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request: &Request<'_>,
    how: How,
) -> Processed {
    let ask = QueueQuestion::read(request)?;
    check_topic(cx, ask.topic, how)?;
    let is_max = request.code == codes::GET_MAX_OFFSET;
    let bounds = cx.store.topics().bounds(ask.topic.as_bytes(), ask.queue_id);
    // A queue without a message begins at 0: the official broker makes it when it is asked for.
    let offset = bounds.map(|bounds| match bounds {
        None => 0,
        Some(bounds) if is_max => bounds.max.cast_signed(),
        Some(bounds) => bounds.min.cast_signed(),
    });
    reply_found(cx, &request.request_context, offset);
    Ok(())
}

fn search<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request: &Request<'_>,
    how: How,
) -> Processed {
    let ask = QueueQuestion::read(request)?;
    check_topic(cx, ask.topic, how)?;
    let timestamp_ms = ask.timestamp_ms;
    let timestamp_ms = timestamp_ms.ok_or_else(|| refusals::no_field("timestamp"))?;
    // Only a queue that is there is worth a job, and its name has a bound.
    match cx.store.topics().bounds(ask.topic.as_bytes(), ask.queue_id) {
        Ok(Some(_bounds)) => {}
        other => {
            reply_found(cx, &request.request_context, other.map(|_no_queue| 0));
            return Ok(());
        }
    }
    // A search reads records all over the queue: never where the loop waits.
    let job = Job::Search {
        request_context: request.request_context,
        topic: ask.topic.into(),
        queue_id: ask.queue_id,
        timestamp_ms,
        boundary: if ask.is_upper {
            Boundary::Upper
        } else {
            Boundary::Lower
        },
    };
    cx.read_elsewhere(&request.request_context, job);
    Ok(())
}

/// Answers a search that a thread has made.
pub(crate) fn answer_search<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    found: Result<Option<u64>>,
) {
    let offset = found.map(|offset| offset.unwrap_or(0).cast_signed());
    reply_found(cx, request_context, offset);
}

fn reply_found<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    offset: Result<i64>,
) {
    match offset {
        Ok(offset) => reply_offset(cx, request_context, offset),
        Err(error) => cx
            .connections
            .refuse(request_context, &refusals::failed(&error)),
    }
}

fn reply_offset<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    offset: i64,
) {
    let head = ResponseHead {
        code: codes::SUCCESS,
        remark: None,
    };
    cx.connections.reply(request_context, head, |fields| {
        fields.number("offset", offset)
    });
}
