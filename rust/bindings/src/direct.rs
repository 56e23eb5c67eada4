//! Output of a connection written to its socket by Python's thread, past the transport.

use std::io::IoSlice;

use mqcore_fast_path::ConnectionId;

use crate::buffer::{Sent, send};
use crate::locked::Home;

/// Slices of one gathered write: an answer of 32 messages with its head, twice.
const SLICES_MAX: usize = 66;
/// What sending directly came to.
pub(crate) enum Direct {
    Done,
    Full,
    Broken,
}

/// Writes to the socket, without the lock.
pub(crate) fn send_directly(fast_path: &Home, id: ConnectionId, descriptor: i32) -> Direct {
    let mut inside = fast_path.locked();
    loop {
        let Some(lent) = inside.path.connections.lend_output(id) else {
            return Direct::Done;
        };
        drop(inside);
        let sent = {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES_MAX);
            lent.slices(SLICES_MAX, &mut slices);
            send(descriptor, &slices)
        };
        let (sent_bytes, stop) = match sent {
            Sent::Bytes(len) => (len, None),
            Sent::Full => (0, Some(Direct::Full)),
            Sent::Broken => (0, Some(Direct::Broken)),
        };
        inside = fast_path.locked();
        let connections = &mut inside.path.connections;
        connections.give_back_output(id, lent, sent_bytes);
        if let Some(stop) = stop {
            return stop;
        }
    }
}
