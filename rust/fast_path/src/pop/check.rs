//! Who may pop what: the official checks in the official order (`PopMessageProcessor`,
//! `NotificationProcessor`, `PollingInfoProcessor`, `PeekMessageProcessor`), and the filter.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use super::headers::PopHeader;
use super::other_loops::Line;
use crate::codes;
use crate::connections::ResponseHead;
use crate::context::Context;
use crate::policy::Filter;
use crate::refusals::{self, POP_COUNT_MAX, Refused};
use crate::request_context::RequestContext;
use crate::stop::{Escalation, How, Processed, Stop};

/// A pop that is this much older than it may be held is not looked at (`isTimeoutTooMuch`), ms.
const TOO_LATE_MS: i64 = 500;
/// What official remarks call a pop.
const POPPING: &str = "pop";
/// What they call it where a topic or group is checked, for pops too.
const PEEKING: &str = "peeking";

/// Whether a pop may be run, and what it is to give.
pub(super) fn check_pop<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    header: &PopHeader<'_>,
    how: How,
) -> Processed<Filter> {
    let broker = &cx.policy.broker;
    let address = &broker.address;
    let wall_ms = cx.store.wall_ms();
    let born_ms = if header.born_ms == 0 {
        wall_ms
    } else {
        header.born_ms
    };
    let late_ms = wall_ms.saturating_sub(born_ms.saturating_add(header.poll_ms));
    if late_ms > TOO_LATE_MS {
        return Err(refusals::pop_too_late(address).into());
    }
    if !broker.perm.is_readable() {
        return Err(refusals::broker_not_readable(address, POPPING).into());
    }
    if header.count_max > POP_COUNT_MAX {
        return Err(refusals::pop_too_many(address).into());
    }
    if !broker.timing.is_enabled {
        return Err(refusals::pop_without_timers(address).into());
    }
    let max_ms = broker.timing.max_delay_ms;
    if header.invisible_ms > max_ms && !header.is_ordered {
        return Err(refusals::invisible_too_long(address, max_ms).into());
    }
    check_reader(
        cx,
        request_context,
        (header.topic, header.group, header.queue_id),
        how,
    )?;
    let filter = cx
        .filters
        .filter_of_pop(header.expression, header.expression_kind)?;
    Ok(filter)
}

/// Whether a group may read a topic at all.
pub(super) fn check_reader<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    request_context: &RequestContext,
    (topic, group, queue_id): Line<'_>,
    how: How,
) -> Processed {
    let broker = &cx.policy.broker;
    if let Some(refusal) = &broker.refuse_pulls {
        return Err(refusals::decided(refusal).into());
    }
    if !broker.perm.is_readable() {
        return Err(refusals::broker_not_readable(&broker.address, PEEKING).into());
    }
    let Some(known) = cx.policy.topics.get(topic).copied() else {
        return Err(Stop::topic(topic, how, refusals::no_topic));
    };
    if !known.perm.is_readable() {
        return Err(refusals::topic_not_readable(topic, PEEKING).into());
    }
    if queue_id >= known.read_queues {
        let (code, peer) = (codes::INVALID_PARAMETER, cx.peer(request_context));
        return Err(refusals::no_queue_to_read(code, (topic, known), queue_id, peer).into());
    }
    let Some(known_group) = cx.policy.groups.get(group) else {
        return Err(Stop::group(group, how, refusals::no_group));
    };
    if !known_group.is_consume_enabled {
        return Err(refusals::group_not_enabled(group).into());
    }
    if (known.needs_check || known_group.needs_check) && how == How::ByPolicy {
        return Err(Stop::Escalate(Escalation::Check));
    }
    Ok(())
}

/// Refuses a pop; the official responses have the header of one all the same.
pub(super) fn refuse_pop<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    refused: &Refused,
) {
    cx.connections
        .reply(request_context, ResponseHead::of(refused), |fields| {
            fields.number("popTime", 0)?;
            fields.number("invisibleTime", 0)?;
            fields.number("reviveQid", 0)?;
            fields.number("restNum", 0)
        });
}
