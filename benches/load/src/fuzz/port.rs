//! One connection to a port under fuzzing: it blocks, and every wait has an end. Knows no request.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use mqcore_wire::{CommandRef, Frame, FrameReader, WireError};

use crate::tls::Tls;

const READ_BYTES: usize = 64 * 1024;

/// Why a round came to no good end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// Nobody listens.
    #[error("nobody takes connections: {0}")]
    Gone(std::io::Error),
    /// Something that has to come has not.
    #[error("{0} did not come within {1:?}")]
    Late(&'static str, Duration),
    /// What came is no answer.
    #[error("what came is no frame: {0}")]
    Bytes(String),
}

/// What was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It came.
    Answer,
    /// The connection ended before.
    End,
    /// The time was over.
    Nothing,
}

/// A connection.
pub(super) struct Port {
    socket: TcpStream,
    tls: Option<Tls>,
    reader: FrameReader,
    buffer: Vec<u8>,
}

impl Port {
    pub(super) fn to(
        address: SocketAddr,
        is_tls: bool,
        patience: Duration,
    ) -> Result<Self, Trouble> {
        let open = || -> std::io::Result<(TcpStream, Option<Tls>)> {
            let mut socket = TcpStream::connect_timeout(&address, patience)?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(patience))?;
            socket.set_write_timeout(Some(patience))?;
            let tls = is_tls.then(|| Tls::over(&mut socket)).transpose()?;
            Ok((socket, tls))
        };
        let (socket, tls) = open().map_err(Trouble::Gone)?;
        Ok(Self {
            socket,
            tls,
            reader: FrameReader::default(),
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Sends; false where the other side has ended the connection.
    pub(super) fn send(&mut self, bytes: &[u8], patience: Duration) -> Result<bool, Trouble> {
        let sent = match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => tls.queue(bytes).and_then(|()| tls.send(&mut self.socket)),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(error) if is_late(&error) => Err(Trouble::Late("room for a request", patience)),
            Err(_ended) => Ok(false),
        }
    }

    /// Nothing more is sent.
    pub(super) fn end(&mut self) {
        // The other side may have ended it already.
        let _ended = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads until the answer to `opaque` has come, the connection ends, or time is over. Every answer is
    /// given to `take`.
    pub(super) fn until_answered(
        &mut self,
        opaque: Option<i32>,
        patience: Duration,
        mut take: impl FnMut(i32),
    ) -> Result<Seen, Trouble> {
        let has_come = Cell::new(false);
        let mut each = |frame: &Frame<'_>| -> Result<(), WireError> {
            let command = CommandRef::decode(frame)?;
            if command.is_response() {
                has_come.set(has_come.get() || Some(command.opaque) == opaque);
                take(command.code);
            }
            Ok(())
        };
        let began = Instant::now();
        while began.elapsed() < patience {
            let read = match self.socket.read(&mut self.buffer) {
                Ok(0) => return Ok(Seen::End),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_late(&error) => return Ok(Seen::Nothing),
                Err(_reset) => return Ok(Seen::End),
            };
            let bytes = self.buffer.get(..read).unwrap_or_default();
            let fed = match &mut self.tls {
                None => self
                    .reader
                    .feed::<WireError>(bytes, &mut each)
                    .map(|()| true),
                Some(tls) => {
                    let reader = &mut self.reader;
                    let feed = |plain: &[u8]| {
                        reader
                            .feed::<WireError>(plain, &mut each)
                            .map_err(std::io::Error::other)
                    };
                    match tls.received(bytes, feed) {
                        Ok(lives) => Ok(lives),
                        Err(_ended) => return Ok(Seen::End),
                    }
                }
            };
            match fed {
                Err(error) => return Err(Trouble::Bytes(error.to_string())),
                Ok(false) => return Ok(Seen::End),
                Ok(true) if has_come.get() => return Ok(Seen::Answer),
                Ok(true) => {}
            }
        }
        Ok(Seen::Nothing)
    }

    /// Whether anything comes back, as bytes, within the time.
    pub(super) fn hears(&mut self, patience: Duration) -> bool {
        // A time of nothing is refused; then the one before holds.
        let _set = self.socket.set_read_timeout(Some(patience));
        matches!(self.socket.read(&mut self.buffer), Ok(1..))
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
