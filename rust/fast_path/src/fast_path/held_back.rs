//! What is held back: a request by quotas, until its time comes or it is refused; the answer to a wrong
//! signature. Knows no quota.

use std::sync::Arc;

use mqcore_access::When;
use mqcore_access::failures::LATE_MS;
use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_wire::CommandRef;

use super::FastPath;
use crate::codes;
use crate::delivery::answers::refuse_send;
use crate::refusals::Refused;
use crate::request_context::RequestContext;
use crate::requests::Request;
use crate::stop::How;
use crate::throttled::{Kept, Waiting};
use crate::throttling::{Admitted, admit, again, is_send, owes};
use crate::turn::{DEFERRED_WORK, LOOKED_AT, Slice};

/// Whether a request does not go on now: quotas hold it back, or it is refused.
pub(super) fn is_held_back<D: Disk, C: Clock>(
    path: &mut FastPath<D, C>,
    request: &Request<'_>,
    command: &CommandRef<'_>,
) -> bool {
    let (throttled, connections) = (&mut path.throttled, &mut path.connections);
    let owned = || command.to_owned();
    match admit(throttled, connections, request, owned, path.now_ms) {
        Admitted::Goes => return false,
        Admitted::Waits => {}
        Admitted::Refused(refused) => refuse(path, &request.request_context, &refused),
    }
    true
}

/// Goes on with what quotas held back, as far as one turn goes.
pub(crate) fn run_throttled<D: Disk, C: Clock>(path: &mut FastPath<D, C>) {
    let mut slice = Slice::new(DEFERRED_WORK);
    path.throttled.is_cut = false;
    while let Some((number, mut waiting)) = path.throttled.take_due(path.now_ms) {
        slice.spend(LOOKED_AT);
        let id = waiting.connection;
        if path.connections.connection(id).is_some()
            && let Kept::Read(command, ends_ms) = &waiting.kept
        {
            let request = Request::of_command(id, command).received_at(waiting.received_us);
            if let Some((at_ms, held)) = again(&path.connections, &request, path.now_ms) {
                if path.now_ms < *ends_ms {
                    let due_ms = at_ms.min(*ends_ms);
                    path.throttled.put(due_ms, number, waiting);
                    continue;
                }
                let refused = owes(&held, at_ms.saturating_sub(path.now_ms));
                waiting.kept = Kept::Refusal(request.request_context, refused);
            }
        }
        let waited_ms = path.now_ms.saturating_sub(waiting.since_ms);
        path.connections.quotas.count(&waiting.rule, |counts| {
            counts.waiting = counts.waiting.saturating_sub(1);
            counts.held_ms += waited_ms;
        });
        if path.connections.connection(id).is_some() {
            slice.spend_run(waiting.bytes);
            let_on(path, waiting);
        }
        if slice.is_spent() {
            path.throttled.is_cut = true;
            break;
        }
    }
}

/// Refuses a request that quotas are for, or an answer to a wrong signature.
fn refuse<D: Disk, C: Clock>(
    path: &mut FastPath<D, C>,
    context: &RequestContext,
    refused: &Refused,
) {
    let connections = &mut path.connections;
    // Access control refuses before anybody knows what is asked for: without fields.
    if is_send(context.code) && refused.code != codes::NO_PERMISSION {
        refuse_send(connections, &path.policy.broker, context, refused);
    } else {
        connections.refuse(context, refused);
    }
}

/// Answers that a request is not permitted: late, where many wrong signatures come from its address.
pub(super) fn refuse_when<D: Disk, C: Clock>(
    path: &mut FastPath<D, C>,
    request: &Request<'_>,
    refused: Refused,
    when: When,
) {
    let context = request.request_context;
    let refused = match when {
        When::Now => return path.connections.refuse(&context, &refused),
        When::Never => return,
        When::Late => refused,
    };
    let waiting = Waiting {
        connection: context.connection,
        kept: Kept::Refusal(context, refused),
        rule: Arc::default(),
        since_ms: path.now_ms,
        received_us: context.received_us,
        bytes: 0,
    };
    // At the bound nobody hears it, as of those that come beyond what may be late.
    let _is_held = path.throttled.push(path.now_ms + LATE_MS, waiting);
}

/// Executes what was held back, or refuses it.
fn let_on<D: Disk, C: Clock>(path: &mut FastPath<D, C>, waiting: Waiting) {
    let id = waiting.connection;
    let command = match waiting.kept {
        Kept::Refusal(context, refused) => return refuse(path, &context, &refused),
        Kept::Send(command) | Kept::Read(command, _) => command,
    };
    let request = Request::of_command(id, &command).received_at(waiting.received_us);
    if let Err(stop) = path.run(&request, How::ByPolicy) {
        path.wait(id, command, How::ByPolicy, stop);
    }
}
