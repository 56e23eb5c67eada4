//! One connection that never waits: bytes out, frames in. Knows no request.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use mqcore_wire::{CommandRef, Frame, FrameReader, WireError};

use crate::tls::Tls;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum Lost {
    Closed,
    Socket(std::io::Error),
    Bytes(WireError),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => out.write_str("it closed the connection"),
            Self::Socket(error) => error.fmt(out),
            Self::Bytes(error) => error.fmt(out),
        }
    }
}

impl From<WireError> for Lost {
    fn from(error: WireError) -> Self {
        Self::Bytes(error)
    }
}

impl From<std::io::Error> for Lost {
    fn from(error: std::io::Error) -> Self {
        Self::Socket(error)
    }
}

/// A connection.
pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Tls>,
    reader: FrameReader,
    /// Frames that are not out yet.
    pub(crate) out: Vec<u8>,
    sent: usize,
    is_blocked: bool,
}

impl Link {
    /// Connects, with TLS where `is_tls`, and has its readiness reported under `token`.
    pub(crate) fn to(
        address: SocketAddr,
        is_tls: bool,
        registry: &Registry,
        token: Token,
    ) -> Result<Self, Lost> {
        // Blocking: an address that does not answer is reported at once and not in the middle.
        let mut socket = std::net::TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let tls = is_tls.then(|| Tls::over(&mut socket)).transpose()?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            socket,
            tls,
            reader: FrameReader::default(),
            out: Vec::new(),
            sent: 0,
            is_blocked: false,
        })
    }

    /// Sends what it can.
    pub(crate) fn flush(&mut self) -> Result<(), Lost> {
        let Some(tls) = &mut self.tls else {
            return self.flush_plain();
        };
        if !self.out.is_empty() {
            tls.queue(&self.out)?;
            self.out.clear();
        }
        match tls.send(&mut self.socket) {
            // Reported when it takes bytes again.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            sent => Ok(sent?),
        }
    }

    fn flush_plain(&mut self) -> Result<(), Lost> {
        while self.sent < self.out.len() && !self.is_blocked {
            let rest = self.out.get(self.sent..).unwrap_or_default();
            match self.socket.write(rest) {
                Ok(0) => return Err(Lost::Closed),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Lost::Socket(error)),
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        Ok(())
    }

    /// The socket takes bytes again.
    pub(crate) fn unblocked(&mut self) -> Result<(), Lost> {
        self.is_blocked = false;
        self.flush()
    }

    /// Reads all there is and gives each frame to `take`.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        mut take: impl FnMut(&CommandRef<'_>),
    ) -> Result<(), Lost> {
        let mut take = |frame: &Frame<'_>| -> Result<(), Lost> {
            take(&CommandRef::decode(frame)?);
            Ok(())
        };
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(Lost::Closed),
                Ok(read) => {
                    let bytes = buffer.get(..read).unwrap_or_default();
                    let reader = &mut self.reader;
                    match &mut self.tls {
                        None => reader.feed(bytes, &mut take)?,
                        Some(tls) => {
                            let feed = |plain: &[u8]| reader.feed::<Lost>(plain, &mut take);
                            if !tls.received(bytes, feed)? {
                                return Err(Lost::Closed);
                            }
                        }
                    }
                    // A short read has emptied the socket; what comes later is reported anew.
                    if read < buffer.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Lost::Socket(error)),
            }
        }
    }
}
