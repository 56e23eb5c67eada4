//! What a turn of a connection has left: read under the lock of its fast path, acted on without it.

use mqcore_fast_path::ConnectionId;

use crate::locked::Inside;

/// Bytes of an unfinished frame from which on Python counts them, of a connection that has asked
/// something already: below, they are less than a socket's own buffer.
const REPORTED_BYTES_MIN: usize = 64 * 1024;

/// What a turn left of a connection's bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Left {
    pub(crate) half_bytes: usize,
    pub(crate) half_since_ms: u64,
    pub(crate) has_asked: bool,
    pub(crate) is_stalled: bool,
    /// Requests are left that wait for the next turn.
    pub(crate) has_more: bool,
}

impl Left {
    /// For how long a frame has been incomplete, ms; 0 where none is, or where it is ours to go on.
    pub(crate) fn half_ms(&self, now_ms: u64) -> u64 {
        if self.is_stalled || self.half_since_ms == 0 {
            0
        } else {
            now_ms.saturating_sub(self.half_since_ms)
        }
    }

    /// Whether Python counts the bytes of the unfinished frame.
    pub(crate) fn is_counted(&self) -> bool {
        !self.has_asked || self.half_bytes >= REPORTED_BYTES_MIN
    }

    /// Of a connection; nothing of one that is unknown.
    pub(crate) fn of(inside: &Inside, id: ConnectionId) -> Self {
        let connections = &inside.path.connections;
        let left = connections.connection(id).map(|connection| Self {
            half_bytes: connection.half_frame.len(),
            half_since_ms: connection.half_since_ms.unwrap_or(0),
            has_asked: connection.has_asked,
            is_stalled: connections.is_stalled(id),
            has_more: connections.execution_time.is_over(),
        });
        left.unwrap_or_default()
    }
}
