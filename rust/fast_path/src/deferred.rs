//! Requests that wait for the next log file, in the order in which they came. Knows no log.

use std::collections::VecDeque;

use mqcore_wire::Command;

use crate::request_context::ConnectionId;
use crate::stop::How;

/// Requests that wait at the most: at some microseconds each they are worked off within the time that
/// a send may wait.
const COUNT_MAX: usize = 65_536;

/// A request that waits.
pub(crate) struct Deferred {
    pub(crate) connection: ConnectionId,
    pub(crate) command: Command,
    pub(crate) since_ms: u64,
    /// When it was received, us.
    pub(crate) received_us: u64,
    pub(crate) how: How,
    bytes: usize,
}

/// All that wait.
#[derive(Default)]
pub(crate) struct DeferredQueue {
    waiting: VecDeque<Deferred>,
    bytes: usize,
    /// Whether a turn ended before all that could be done was done.
    pub(crate) is_cut: bool,
}

impl DeferredQueue {
    /// Lets a request wait behind the others; gives it back at a bound: so many bytes of all.
    pub(crate) fn push(
        &mut self,
        (connection, command): (ConnectionId, Command),
        how: How,
        (now_ms, received_us): (u64, u64),
        bytes_max: usize,
    ) -> Result<(), Command> {
        let bytes = weight(&command);
        if self.bytes + bytes > bytes_max || self.waiting.len() >= COUNT_MAX {
            return Err(command);
        }
        self.bytes += bytes;
        self.waiting.push_back(Deferred {
            connection,
            command,
            since_ms: now_ms,
            received_us,
            how,
            bytes,
        });
        Ok(())
    }

    /// Takes the first one out.
    pub(crate) fn pop(&mut self) -> Option<Deferred> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes;
        Some(first)
    }

    /// Puts one back in front of all others.
    pub(crate) fn put_back(&mut self, deferred: Deferred) {
        self.bytes += deferred.bytes;
        self.waiting.push_front(deferred);
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Bytes that a command keeps in memory.
pub(crate) fn weight(command: &Command) -> usize {
    let fields = command.ext.iter();
    let fields: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
    command.body.len() + fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    fn command(body_bytes: usize) -> Command {
        Command {
            body: vec![0; body_bytes],
            ..Command::default()
        }
    }

    #[test]
    fn so_many_wait_and_so_many_bytes() {
        let mut queue = DeferredQueue::default();
        let push = |queue: &mut DeferredQueue, bytes| {
            let request = (ConnectionId(1), command(bytes));
            queue
                .push(request, How::ByPolicy, (0, 0), BYTES_MAX)
                .is_ok()
        };
        assert!(push(&mut queue, BYTES_MAX));
        assert!(!push(&mut queue, 1));
        let first = queue.pop().unwrap();
        queue.put_back(first);
        assert!(!push(&mut queue, 1));
        queue.pop();
        for _ in 0..COUNT_MAX {
            assert!(push(&mut queue, 0));
        }
        assert!(!push(&mut queue, 0));
        assert_eq!(queue.len(), COUNT_MAX);
    }
}
