//! Bytes of a connection into frames, split in place: only an incomplete frame gets a buffer of its
//! own. Knows no request.

use std::fmt;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_wire::{CommandRef, FRAME_BYTES_MAX, Split, WireError, split};

use crate::connections::{Connections, OUTPUT_CLOSE_BYTES};
use crate::fast_path::{FastPath, end_step};
use crate::request_context::{ConnectionId, is_answered};

/// Why a connection has to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// What came is no frame.
    Wire(WireError),
    /// It does not read what it asked for.
    TooSlow {
        /// Bytes that wait.
        queued_bytes: usize,
    },
    /// All connections together have too much of half frames.
    TooManyHalfFrames {
        /// The bound.
        bytes_max: usize,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(error) => write!(out, "{error}"),
            Self::TooSlow { queued_bytes } => {
                write!(out, "it does not read: {queued_bytes} bytes wait for it")
            }
            Self::TooManyHalfFrames { bytes_max } => write!(
                out,
                "half frames of all connections take more than {bytes_max} bytes"
            ),
        }
    }
}

impl<D: Disk, C: Clock> FastPath<D, C> {
    /// Takes bytes of a connection and executes what is whole among them, within one turn
    /// (`connections.execution_time`): when that is over, [`FastPath::resume`] goes on.
    ///
    /// # Errors
    /// The connection has to be closed; what came before the fault was executed.
    pub fn feed(&mut self, id: ConnectionId, bytes: &[u8], now_ms: u64) -> Result<(), Fault> {
        self.now_ms = now_ms;
        self.connections.stats.received_bytes += bytes.len() as u64;
        let fed = self.feed_frames(id, bytes);
        end_step(self);
        match &fed {
            Err(Fault::Wire(_) | Fault::TooManyHalfFrames { .. }) => {
                self.connections.stats.closed_bad_bytes += 1;
            }
            Err(Fault::TooSlow { .. }) => self.connections.stats.closed_slow += 1,
            Ok(()) => {}
        }
        fed
    }

    fn feed_frames(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<(), Fault> {
        let Some(connection) = self.connections.connection_mut(id) else {
            return Ok(());
        };
        connection.moved_bytes += bytes.len() as u64;
        let mut half = std::mem::take(&mut connection.half_frame);
        let has_waited = std::mem::take(&mut connection.is_waiting);
        self.connections.execution_time.waiting -= usize::from(has_waited);
        self.connections.execution_time.begin();
        let mut has_asked = false;
        self.connections.count_half_frames(half.len(), 0);
        let mut rest = bytes;
        let mut is_same_half = !half.is_empty();
        loop {
            if half.is_empty() {
                let done = self.execute_frames(id, rest)?;
                has_asked |= done > 0;
                rest = rest.get(done..).unwrap_or_default();
                break;
            }
            rest = complete(&mut half, rest)?;
            let done = self.execute_frames(id, &half)?;
            half.drain(..done);
            if done == 0 {
                break;
            }
            has_asked = true;
            is_same_half = false;
        }
        keep(&mut self.connections, id, half, rest)?;
        let now_ms = self.now_ms;
        let is_over = self.connections.execution_time.is_over();
        let is_guarded = self.gate.is_on();
        if let Some(connection) = self.connections.connection_mut(id) {
            // Whoever has not shown who it is may hold no more than a stranger.
            connection.has_asked |= has_asked && (!is_guarded || connection.identity.has_passed);
            connection.is_waiting = is_over;
            if connection.half_frame.is_empty() {
                connection.half_since_ms = None;
            } else if !is_same_half || connection.half_since_ms.is_none() {
                connection.half_since_ms = Some(now_ms);
            }
            self.connections.execution_time.waiting += usize::from(is_over);
        }
        Ok(())
    }

    /// Goes on with what came while the connection had too much output queued, or after its turn.
    ///
    /// # Errors
    /// As [`FastPath::feed`].
    pub fn resume(&mut self, id: ConnectionId, now_ms: u64) -> Result<(), Fault> {
        self.feed(id, &[], now_ms)
    }

    /// Executes the whole frames at the front of `bytes`; how many bytes they were.
    fn execute_frames(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, Fault> {
        let mut done = 0;
        let mut asked = 0;
        while !self.connections.execution_time.is_over() && !self.connections.is_stalled(id) {
            let rest = bytes.get(done..).unwrap_or_default();
            match split(rest, FRAME_BYTES_MAX).map_err(Fault::Wire)? {
                Split::NeedsMore { .. } => break,
                Split::Frame(frame) => {
                    let command = CommandRef::decode(&frame).map_err(Fault::Wire)?;
                    asked += i64::from(is_answered(command.flag));
                    self.execute_frame(id, &command);
                    done += frame.len_bytes;
                    let is_last = bytes.len() == done;
                    if !is_last && self.connections.execution_time.ends_before_next() {
                        break;
                    }
                }
            }
        }
        // Answers were subtracted meanwhile.
        self.connections.count_unanswered(id, asked);
        check_output(&self.connections, id).map(|()| done)
    }
}

/// Whether a connection still reads what it asked for.
///
/// # Errors
/// [`Fault::TooSlow`] when it has to be closed.
pub fn check_output<D: Disk>(connections: &Connections<D>, id: ConnectionId) -> Result<(), Fault> {
    match connections.connection(id).map(|c| c.output.queued_bytes()) {
        Some(queued_bytes) if queued_bytes > OUTPUT_CLOSE_BYTES => {
            Err(Fault::TooSlow { queued_bytes })
        }
        _ => Ok(()),
    }
}

/// Keeps what could not be executed yet.
fn keep<D: Disk>(
    connections: &mut Connections<D>,
    id: ConnectionId,
    mut half: Vec<u8>,
    rest: &[u8],
) -> Result<(), Fault> {
    half.extend_from_slice(rest);
    let bytes_max = connections.bounds.half_frames_bytes;
    if connections.all_half_frames_bytes() + half.len() > bytes_max {
        return Err(Fault::TooManyHalfFrames { bytes_max });
    }
    let kept = half.len();
    if let Some(connection) = connections.connection_mut(id) {
        // A frame of many megabytes should not keep its buffer for the small ones after it.
        connection.half_frame = if half.is_empty() { Vec::new() } else { half };
        connections.count_half_frames(0, kept);
    }
    Ok(())
}

/// Moves bytes from `rest` to a half frame until it is whole; gives what is left of them.
fn complete<'a>(half: &mut Vec<u8>, mut rest: &'a [u8]) -> Result<&'a [u8], Fault> {
    loop {
        let wanted = match split(half, FRAME_BYTES_MAX).map_err(Fault::Wire)? {
            Split::Frame(_) => return Ok(rest),
            // Without its length word nobody knows how long it is: byte by byte up to that.
            Split::NeedsMore { len_bytes: None } => 1,
            Split::NeedsMore {
                len_bytes: Some(len),
            } => len - half.len(),
        };
        if rest.is_empty() {
            return Ok(rest);
        }
        let (taken, left) = rest.split_at(wanted.min(rest.len()));
        half.extend_from_slice(taken);
        rest = left;
    }
}
