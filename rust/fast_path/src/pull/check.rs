//! Who may pull what: the official checks in the official order (`PullMessageProcessor`), and the
//! filter.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use crate::codes;
use crate::context::Context;
use crate::filtering::filter_of_group;
use crate::holds::Pull;
use crate::policy::Filter;
use crate::refusals::{self, Refused};
use crate::request_context::RequestContext;
use crate::requests::{PullHeader, Request};
use crate::stop::{Escalation, How, Processed, Stop};

/// What official remarks call a pull.
const PULLING: &str = "pulling";

/// Whether a pull may be read, and what it is to give.
pub(crate) fn check_pull<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request: &Request<'_>,
    header: &PullHeader<'_>,
    how: How,
) -> Processed<Filter> {
    let PullHeader { group, topic, .. } = *header;
    check_queue(
        cx,
        (group, topic, header.queue_id),
        &request.request_context,
        how,
    )?;
    let needs_check = cx.policy.groups.get(group).is_some_and(|g| g.needs_check);
    if needs_check && how == How::ByPolicy {
        return Err(Stop::Escalate(Escalation::Check));
    }
    Ok(cx.filters.filter_of(cx.policy, header)?)
}

/// Checks a held pull again, and gives it the filter that its group has now.
pub(crate) fn check_again<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    pull: &mut Pull,
) -> Result<(), Refused> {
    let queue = (&*pull.group, &*pull.topic, pull.queue_id);
    check_queue(cx, queue, &pull.request_context, How::Decided).map_err(Stop::into_refused)?;
    if let Some(version) = pull.version {
        pull.filter = filter_of_group(cx.policy, &pull.group, &pull.topic, version)?;
    }
    Ok(())
}

/// Whether a group may read a queue at all.
fn check_queue<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    (group, topic, queue_id): (&str, &str, i32),
    request_context: &RequestContext,
    how: How,
) -> Processed {
    let broker = &cx.policy.broker;
    if let Some(refusal) = &broker.refuse_pulls {
        return Err(refusals::decided(refusal).into());
    }
    if !broker.perm.is_readable() {
        return Err(refusals::broker_not_readable(&broker.address, PULLING).into());
    }
    let Some(known_group) = cx.policy.groups.get(group) else {
        return Err(Stop::group(group, how, refusals::no_group));
    };
    if !known_group.is_consume_enabled {
        return Err(refusals::group_not_enabled(group).into());
    }
    let Some(known) = cx.policy.topics.get(topic).copied() else {
        return Err(Stop::topic(topic, how, refusals::no_topic));
    };
    if !known.perm.is_readable() {
        return Err(refusals::topic_not_readable(topic, PULLING).into());
    }
    // Before the queue is looked at: that of a static topic may be another one.
    if known.needs_check && how == How::ByPolicy {
        return Err(Stop::Escalate(Escalation::Check));
    }
    if !(0..known.read_queues).contains(&queue_id) {
        let (code, peer) = (codes::SYSTEM_ERROR, cx.peer(request_context));
        return Err(refusals::no_queue_to_read(code, (topic, known), queue_id, peer).into());
    }
    Ok(())
}
