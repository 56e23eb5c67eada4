//! What is asked around pops without popping: whether something is there, how many wait, what would
//! come (`NotificationProcessor`, `PollingInfoProcessor`, `PeekMessageProcessor`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Ask;

use super::check::check_reader;
use super::headers::LookHeader;
use super::lines::{has_more_for, queues_of_line, watch_all};
use super::merge::{PopBufferMerge, pop_ms};
use super::polling::PopLongPolling;
use super::polls::{Bounds, Polls, QueueKey, Waits};
use super::shards::PopShards;
use crate::codes;
use crate::connections::{Connections, ResponseHead};
use crate::context::Context;
use crate::request_context::{ConnectionId, RequestContext};
use crate::requests::Request;
use crate::stop::{How, Processed};
use crate::turn::{POPS_WORK, Slice};

/// A question that is over by this much less is not held any more (`PopRequest.isTimeout`), ms.
const NEARLY_OVER_MS: i64 = 50;
/// Longest hold that a client may ask for, ms.
const HOLD_MS_MAX: i64 = 3_600_000;
/// Messages of one peek at the most, as of a pop.
const PEEKED_MAX: usize = 32;

/// A question whether there is something to pop, owned, so that it can be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    request_context: RequestContext,
    group: Arc<str>,
    topic: Arc<str>,
    queue_id: i32,
    poll_ms: i64,
    born_ms: i64,
    is_ordered: bool,
    attempt: Option<Box<str>>,
}

impl Waits for Notice {
    fn connection(&self) -> ConnectionId {
        self.request_context.connection
    }

    fn line(&self) -> (&str, &str, i32) {
        (&self.topic, &self.group, self.queue_id)
    }

    fn may_want(&self, _tags_codes: &[i64]) -> bool {
        true
    }
}

/// The header of a question, whose group may read its topic.
fn checked_header<'a, D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    request: &Request<'a>,
    how: How,
) -> Processed<LookHeader<'a>> {
    let header = LookHeader::read(request)?;
    check_reader(cx, &request.request_context, header.line(), how)?;
    Ok(header)
}

/// The processor of questions whether there is something to pop. Owns those that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct NotificationProcessor {
    /// Held questions.
    pub(crate) notices: Polls<Notice>,
}

impl NotificationProcessor {
    pub(super) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let header = checked_header(cx, request, how)?;
        let born_ms = if header.born_ms == 0 {
            cx.store.wall_ms()
        } else {
            header.born_ms
        };
        let notice = Notice {
            request_context: request.request_context,
            group: header.group.into(),
            topic: header.topic.into(),
            queue_id: header.queue_id.max(-1),
            poll_ms: header.poll_ms.min(HOLD_MS_MAX),
            born_ms,
            is_ordered: header.is_ordered,
            attempt: header.attempt.map(Into::into),
        };
        self.answer(cx, merge, notice);
        Ok(())
    }

    /// Answers that there is something to pop, or holds the question until there is.
    fn answer<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        notice: Notice,
    ) {
        if !cx.is_open(notice.request_context.connection) {
            return;
        }
        let Notice {
            topic,
            group,
            queue_id,
            is_ordered,
            ..
        } = &notice;
        let queues = queues_of_line(cx.policy, (topic, group, *queue_id), *is_ordered);
        let has_more = has_more_to_report(cx, merge, &notice, &queues);
        let mut is_full = false;
        if !has_more {
            let left_ms = notice.born_ms.saturating_add(notice.poll_ms) - cx.store.wall_ms();
            let left_ms = left_ms.min(notice.poll_ms);
            let rules = &cx.policy.broker.pops;
            let bounds = Bounds {
                per_line: rules.held_per_line,
                all: rules.held_max,
                per_connection: cx.policy.broker.held.per_connection,
            };
            let may_wait = notice.poll_ms > 0 && left_ms >= NEARLY_OVER_MS;
            is_full = may_wait && !self.notices.has_space(&notice, bounds);
            if may_wait && !is_full && !notice.request_context.is_oneway {
                watch_all(cx.events, &queues);
                // What came between the look and the watch is not announced.
                if !has_more_to_report(cx, merge, &notice, &queues) {
                    let hold_ms = (left_ms - NEARLY_OVER_MS + 1).unsigned_abs();
                    let deadline_ms = cx.now_ms.saturating_add(hold_ms);
                    let notices = &mut self.notices;
                    notices.hold(notice, queues, cx.now_ms, deadline_ms);
                    return;
                }
                self.notices.let_go(queues);
                return reply_notice(cx.connections, &notice.request_context, true, false);
            }
        }
        reply_notice(cx.connections, &notice.request_context, has_more, is_full);
    }

    /// Asks again what is due, as far as one turn goes.
    pub(super) fn run_due<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        shards: &PopShards,
    ) {
        let mut slice = Slice::new(POPS_WORK);
        while !slice.is_spent()
            && let Some(notice) = self.next(cx.now_ms, &mut slice)
        {
            let shard = shards.of_group(&notice.group);
            shard.with(|merge| self.answer(cx, merge, notice));
            slice.spend_run(0);
        }
    }

    /// The next question to be asked again.
    fn next(&mut self, now_ms: u64, slice: &mut Slice) -> Option<Notice> {
        let notices = &mut self.notices;
        if let Some(mut notice) = notices.next_released(slice) {
            // It does not wait again.
            notice.poll_ms = 0;
            return Some(notice);
        }
        notices
            .next_woken(slice)
            .or_else(|| notices.next_due(now_ms, slice))
            .or_else(|| notices.next_checked(now_ms, slice))
    }
}

fn reply_notice<D: Disk>(
    connections: &mut Connections<D>,
    request_context: &RequestContext,
    has_more: bool,
    is_full: bool,
) {
    let head = ResponseHead {
        code: codes::SUCCESS,
        remark: None,
    };
    let spelled = |truth: bool| if truth { "true" } else { "false" };
    connections.reply(request_context, head, |fields| {
        fields.text("hasMsg", spelled(has_more))?;
        fields.text("pollingFull", spelled(is_full))
    });
}

fn has_more_to_report<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    merge: &mut PopBufferMerge,
    notice: &Notice,
    queues: &[QueueKey],
) -> bool {
    if !notice.is_ordered {
        return has_more_for(cx.store, merge, &notice.group, queues);
    }
    let now_ms = pop_ms(cx.store, cx.policy);
    let attempt = notice.attempt.as_deref();
    queues.iter().any(|queue| {
        let group_queue = (&*queue.0, &*notice.group, queue.1);
        let orders = &mut merge.orders;
        let is_free = orders
            .blocked_until(group_queue, attempt, 0, now_ms)
            .is_none();
        is_free && has_more_for(cx.store, merge, &notice.group, std::slice::from_ref(queue))
    })
}

/// How many pops are held.
pub(super) fn polling_info<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    polling: &PopLongPolling,
    request: &Request<'_>,
    how: How,
) -> Processed {
    let header = checked_header(cx, request, how)?;
    let held = polling.polls.len_of(header.line()) as i64;
    let head = ResponseHead {
        code: codes::SUCCESS,
        remark: None,
    };
    cx.connections
        .reply(&request.request_context, head, |fields| {
            fields.number("pollingNum", held)
        });
    Ok(())
}

/// What could be popped now.
pub(super) fn peek<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    merge: &mut PopBufferMerge,
    request: &Request<'_>,
    how: How,
) -> Processed {
    let header = checked_header(cx, request, how)?;
    let wanted = usize::try_from(header.count_max)
        .unwrap_or(0)
        .min(PEEKED_MAX);
    let (topic, group) = (header.topic, header.group);
    let queues = queues_of_line(cx.policy, (topic, group, header.queue_id.max(-1)), false);
    let (mut records, mut rest) = (Vec::new(), 0);
    for (topic, queue_id) in &queues {
        let Ok(Some(bounds)) = cx.store.topics().bounds(topic.as_bytes(), *queue_id) else {
            continue;
        };
        let known = merge.position_of(topic, group, *queue_id);
        let from = known.unwrap_or(bounds.min).clamp(bounds.min, bounds.max);
        rest += (bounds.max - from).cast_signed();
        let count_max = wanted.saturating_sub(records.len());
        let is_hot = || {
            cx.store
                .reader()
                .is_hot(topic.as_bytes(), *queue_id, from, count_max)
        };
        // A look is not worth a wait for the disk.
        if count_max == 0 || from == bounds.max || !is_hot().unwrap_or(false) {
            continue;
        }
        let ask = Ask {
            from,
            count_max,
            bytes_max: u64::MAX,
            tags_codes: &[],
            is_bulk: false,
        };
        if let Ok(got) = cx.store.reader().get(topic.as_bytes(), *queue_id, ask) {
            records.extend(got.records);
        }
    }
    let head = if records.is_empty() {
        (codes::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    } else {
        (codes::SUCCESS, "FOUND")
    };
    let (code, remark) = (head.0, Some(head.1));
    cx.connections.reply_records(
        &request.request_context,
        ResponseHead { code, remark },
        |fields| {
            fields.number("popTime", 0)?;
            fields.number("invisibleTime", 0)?;
            fields.number("reviveQid", 0)?;
            fields.number("restNum", rest)
        },
        records,
    );
    Ok(())
}
