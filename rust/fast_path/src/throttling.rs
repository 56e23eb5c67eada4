//! Quotas before a request is executed: what it asks for, whether it goes at once, and what is held back of it.
//! Owns nothing; knows no processor.
//!
//! | request | held back | then |
//! |---|---|---|
//! | a send | until its time, within [`SEND_HELD_MS_MAX`] | it is stored |
//! | a send beyond that | for so long | `SYSTEM_BUSY`: clients try again, at another broker first |
//! | a pull or pop of a group that owes | until nothing is owed, as long as it may be held | `FLOW_CONTROL`: Java's clients wait 20 ms |
//!
//! The sends of a connection keep their order: behind one that is held back none goes at once.

use std::borrow::Cow;
use std::sync::Arc;

use mqcore_engine::disk::Disk;
use mqcore_record::batch::items;
use mqcore_record::inner_offsets;
use mqcore_wire::Command;

use crate::codes;
use crate::connections::Connections;
use crate::deferred::weight;
use crate::quotas::{Amount, Asked, Decision, Held, Quotas, SEND_HELD_MS_MAX};
use crate::refusals::Refused;
use crate::request_context::{ConnectionId, RequestContext};
use crate::requests::{Request, Send};
use crate::throttled::{Kept, Throttled, Waiting};

/// How long a read may be held back, ms, whatever it allows: as long as Java's consumers let theirs be
/// held.
const READ_HELD_MS_MAX: u64 = 15_000;
/// The same of a pull that may not be held for messages: its client waits for an answer.
const READ_HELD_MS_MIN: u64 = 500;
/// The flag of a pull that may be held (`PullSysFlag`).
const SUSPEND: i32 = 2;

/// What a request asks for that has quotas.
enum Wants<'a> {
    /// To store so much.
    Send(Asked<'a>, Amount),
    /// To read, and to be held for so long, ms.
    Read(Asked<'a>, u64),
}

/// Whether a request goes on.
pub(crate) enum Admitted {
    /// It is executed now.
    Goes,
    /// It is held back.
    Waits,
    /// It is refused.
    Refused(Refused),
}

/// The user of a connection, as the access control of its last request has it.
fn user_of<D: Disk>(connections: &Connections<D>, id: ConnectionId) -> &str {
    let connection = connections.connection(id);
    connection.map_or("", |connection| connection.identity.user())
}

/// What a request wants; none where no quota is for it, or it cannot be read.
fn wants_of<'a>(request: &Request<'a>, user: &'a str) -> Option<Wants<'a>> {
    let field = |name| request.field(name).unwrap_or_default();
    let hold_ms = |name| field(name).parse().unwrap_or(0).min(READ_HELD_MS_MAX);
    Some(match request.code {
        codes::SEND_MESSAGE | codes::SEND_MESSAGE_V2 | codes::SEND_BATCH_MESSAGE => {
            let has_short_names = request.code != codes::SEND_MESSAGE;
            let send = Send::read(request, has_short_names).ok()?;
            let group = field(if has_short_names {
                "a"
            } else {
                "producerGroup"
            });
            let topic = send.topic;
            Wants::Send(Asked { user, group, topic }, amount_of(&send, request.body))
        }
        codes::PULL_MESSAGE | codes::LITE_PULL_MESSAGE => {
            let flags: i32 = field("sysFlag").parse().unwrap_or(0);
            let allowed_ms = if flags & SUSPEND == 0 {
                0
            } else {
                hold_ms("suspendTimeoutMillis")
            };
            Wants::Read(read_by(user, field), allowed_ms.max(READ_HELD_MS_MIN))
        }
        codes::POP_MESSAGE => Wants::Read(
            read_by(user, field),
            hold_ms("pollTime").max(READ_HELD_MS_MIN),
        ),
        _ => return None,
    })
}

fn read_by<'a>(user: &'a str, field: impl Fn(&'static str) -> &'a str) -> Asked<'a> {
    Asked {
        user,
        group: field("consumerGroup"),
        topic: field("topic"),
    }
}

/// How much a send brings: each message of a batch counts.
fn amount_of(send: &Send<'_>, body: &[u8]) -> Amount {
    let properties = send.properties.as_bytes();
    let messages = if send.is_batch {
        // What cannot be read is refused later, as one.
        (items(body).filter(Result::is_ok).count() as u64).max(1)
    } else {
        inner_offsets::span(send.sys_flag, properties)
    };
    Amount {
        messages,
        bytes: (body.len() + properties.len()) as u64,
    }
}

/// A request that does not go at once.
struct Plan {
    due_ms: u64,
    /// What holds it back; none where it goes behind another send.
    held: Option<Held>,
    then: Then,
}

/// What becomes of it at its time.
enum Then {
    Send,
    /// It asks again, and is refused from then on.
    Read(u64),
    Refused(Refused),
}

/// When a request goes that does not go at once.
fn plan(
    quotas: &Quotas,
    wants: Option<Wants<'_>>,
    behind_ms: Option<u64>,
    now_ms: u64,
) -> Option<Plan> {
    let (asked, amount) = match wants? {
        Wants::Send(asked, amount) => (asked, amount),
        Wants::Read(asked, hold_ms) => {
            let (at_ms, held) = quotas.ask_to_read(asked, now_ms).later()?;
            let ends_ms = now_ms.saturating_add(hold_ms);
            return Some(Plan {
                due_ms: at_ms.min(ends_ms),
                held: Some(held),
                then: Then::Read(ends_ms),
            });
        }
    };
    let (due_ms, held, then) = match quotas.ask_to_send(asked, amount, now_ms) {
        Decision::Now => (behind_ms?, None, Then::Send),
        Decision::At(at_ms, held) => (at_ms, Some(held), Then::Send),
        Decision::TooMuch(wait_ms, held) => {
            let refused = Then::Refused(too_much(&held, wait_ms));
            (now_ms.saturating_add(SEND_HELD_MS_MAX), Some(held), refused)
        }
    };
    Some(Plan {
        due_ms: due_ms.max(behind_ms.unwrap_or(now_ms)),
        held,
        then,
    })
}

/// Looks whether a request goes on now, by the quotas of its user, topic and group.
pub(crate) fn admit<D: Disk>(
    throttled: &mut Throttled,
    connections: &mut Connections<D>,
    request: &Request<'_>,
    command: impl FnOnce() -> Command,
    now_ms: u64,
) -> Admitted {
    let quotas = Arc::clone(&connections.quotas);
    let context = request.request_context;
    let id = context.connection;
    let wants = wants_of(request, user_of(connections, id));
    let Some(Plan { due_ms, held, then }) =
        plan(&quotas, wants, throttled.last_send_ms(id), now_ms)
    else {
        return Admitted::Goes;
    };
    let is_refused = matches!(then, Then::Refused(_));
    let (kept, bytes) = match then {
        Then::Refused(refused) => (Kept::Refusal(context, refused), 0),
        Then::Send => with_weight(command(), Kept::Send),
        Then::Read(ends_ms) => with_weight(command(), |command| Kept::Read(command, ends_ms)),
    };
    let rule = held.map(|held| held.rule).unwrap_or_default();
    let waiting = Waiting {
        connection: id,
        kept,
        rule: Arc::clone(&rule),
        since_ms: now_ms,
        received_us: context.received_us,
        bytes,
    };
    let is_full = !throttled.push(due_ms, waiting);
    quotas.count(&rule, |counts| {
        counts.held += u64::from(!is_refused && !is_full);
        counts.refused += u64::from(is_refused || is_full);
        counts.waiting += u64::from(!is_full);
    });
    if is_full {
        return Admitted::Refused(too_many(&rule));
    }
    if context.is_oneway {
        connections.keep_here(id);
    }
    Admitted::Waits
}

fn with_weight(command: Command, kept: impl FnOnce(Command) -> Kept) -> (Kept, usize) {
    let bytes = weight(&command);
    (kept(command), bytes)
}

/// When a read goes that was held back, and by what; none for now.
pub(crate) fn again<D: Disk>(
    connections: &Connections<D>,
    request: &Request<'_>,
    now_ms: u64,
) -> Option<(u64, Held)> {
    let user = user_of(connections, request.request_context.connection);
    match wants_of(request, user)? {
        Wants::Read(asked, _) => connections.quotas.ask_to_read(asked, now_ms).later(),
        Wants::Send(..) => None,
    }
}

/// Counts what a connection was given to read.
pub(crate) fn have_read<D: Disk>(
    connections: &Connections<D>,
    id: ConnectionId,
    (group, topic): (&str, &str),
    (messages, bytes): (u64, u64),
    now_ms: u64,
) {
    let user = user_of(connections, id);
    let asked = Asked { user, group, topic };
    let amount = Amount { messages, bytes };
    connections.quotas.have_read(asked, amount, now_ms);
}

fn quota_refused(code: i32, remark: String) -> Refused {
    Refused {
        code,
        remark: Cow::Owned(remark),
    }
}

fn too_much(held: &Held, wait_ms: u64) -> Refused {
    quota_refused(codes::SYSTEM_BUSY, held.too_much(wait_ms))
}

/// A read is refused whose time to be held is over.
pub(crate) fn owes(held: &Held, wait_ms: u64) -> Refused {
    quota_refused(codes::FLOW_CONTROL, held.owes(wait_ms))
}

fn too_many(rule: &str) -> Refused {
    let whose = if rule.is_empty() { "the quotas" } else { rule };
    quota_refused(
        codes::SYSTEM_BUSY,
        format!("[QUOTA]too many requests are held back by {whose} already"),
    )
}

/// The refusal of what was held back for a user whose rights have changed; none where it is refused already.
pub(crate) fn other_rights(waiting: &Waiting) -> Option<(RequestContext, Refused)> {
    let (command, code) = match &waiting.kept {
        Kept::Send(command) => (command, codes::SYSTEM_BUSY),
        Kept::Read(command, _) => (command, codes::FLOW_CONTROL),
        Kept::Refusal(..) => return None,
    };
    let request = Request::of_command(waiting.connection, command);
    let context = request.received_at(waiting.received_us).request_context;
    let remark = "[QUOTA]the rights of the user have changed meanwhile: ask again";
    Some((context, quota_refused(code, remark.to_owned())))
}

/// Whether the answer to a request has the fields of one to a send.
pub(crate) const fn is_send(code: i32) -> bool {
    matches!(
        code,
        codes::SEND_MESSAGE | codes::SEND_MESSAGE_V2 | codes::SEND_BATCH_MESSAGE
    )
}
