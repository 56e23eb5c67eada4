//! What is compared of a send with the message that may be the same.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::batch::items;

use super::identity::Identity;
use super::{Claim, DuplicateCandidate, Looked, Patience, look};
use crate::batches::is_inner_batch;
use crate::codes;
use crate::properties::{self, Seen};
use crate::request_context::ConnectionId;
use crate::requests::{Request, Send};

/// Compares a send with what the disk has; for the threads that may wait for it.
pub(crate) fn look_patiently<D: Disk, C: Clock>(
    store: &Store<D, C>,
    candidate: &DuplicateCandidate,
) -> Looked {
    let request = Request::of_command(ConnectionId(0), &candidate.command);
    let Some(send) = read_again(&request) else {
        return Looked::Other;
    };
    let seen = properties::see(send.properties.as_bytes());
    let claims = claims(store, &request, &send, &seen);
    look(store, candidate.physical_offset, &claims, Patience::Disk)
}

/// The fields of a send that were read once without a fault.
pub(crate) fn read_again<'a>(request: &Request<'a>) -> Option<Send<'a>> {
    Send::read(request, request.code != codes::SEND_MESSAGE).ok()
}

/// What is compared of a send; nothing where a part of a batch has no name.
pub(crate) fn claims<'a, D: Disk, C: Clock>(
    store: &Store<D, C>,
    request: &Request<'a>,
    send: &Send<'a>,
    seen: &Seen<'a>,
) -> Vec<Claim<'a>> {
    if !send.is_batch || is_inner_batch(store, send, seen) {
        let identity = Identity::of_send(send.topic, seen, send.properties.as_bytes());
        let body = request.body;
        return identity
            .map(|identity| Claim { identity, body })
            .into_iter()
            .collect();
    }
    let parts = items(request.body).map(|item| {
        let item = item.ok()?;
        let identity = Identity::of_part(send.topic, item.properties)?;
        let body = item.body;
        Some(Claim { identity, body })
    });
    parts.collect::<Option<Vec<_>>>().unwrap_or_default()
}
