//! What a turn of a connection has left: read under the lock of its fast path, acted on without it.

use mqcore_fast_path::ConnectionId;

use crate::locked::Inside;

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
