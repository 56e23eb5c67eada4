//! One connection of replication, plain or over TLS, at either end. It reads and writes as its socket does:
//! where that does not wait, this gives `WouldBlock` in place of waiting.
//!
//! Two rules follow from TLS for who sleeps in `poll`:
//!
//! - A read that gives less than was asked for has given all that came; after one that filled its buffer
//!   [`Stream::has_buffered`] gives whether more is here already, which `poll` cannot see.
//! - What a write has taken may not have left: `flush` gives `WouldBlock` then, and the socket is to be waited
//!   for until it takes more.

use std::io::{Error, ErrorKind, IoSlice, Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::{Connection, ServerConfig};

use crate::tls::{Begin, Protection, served, words_of};

/// A record of handshake begins with it; no report does, for as a physical offset it would be 10^18.
const HANDSHAKE: u8 = 0x16;
/// Ciphertext that is read at once: sixteen records. rustls by itself would read a quarter of one.
const READ_LEN_BYTES: usize = 256 * 1024;
/// A handshake takes a few round trips: an end that sends nothing for so long is gone.
const HANDSHAKE_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Reads of one handshake at the most: whoever sends it byte by byte is gone too.
const HANDSHAKE_READS_MAX: usize = 64;

/// A connection.
pub struct Stream {
    socket: TcpStream,
    state: State,
}

enum State {
    Plain,
    /// Of a master, before its first byte.
    FirstByte {
        config: Arc<ServerConfig>,
        takes_plain: bool,
    },
    Tls(Box<Tls>),
}

struct Tls {
    connection: Connection,
    /// Where ciphertext comes; what has come ends at `came_to`, and is taken up to `taken`.
    buffer: Vec<u8>,
    came_to: usize,
    taken: usize,
    /// Plaintext that may be read at once, bytes.
    plain_bytes: usize,
    has_ended: bool,
}

impl From<TcpStream> for Stream {
    fn from(socket: TcpStream) -> Self {
        Self {
            socket,
            state: State::Plain,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream {
    /// A connection with `address`, protected by `how`.
    ///
    /// # Errors
    /// The address cannot be that of a protected one.
    pub fn new(
        socket: TcpStream,
        address: &str,
        how: &Protection,
    ) -> std::result::Result<Self, String> {
        let state = match how.begin(address)? {
            Begin::Plain => State::Plain,
            Begin::FirstByte {
                config,
                takes_plain,
            } => State::FirstByte {
                config,
                takes_plain,
            },
            Begin::Tls(connection) => State::Tls(Box::new(Tls::new(*connection))),
        };
        Ok(Self { socket, state })
    }

    /// The socket, for its settings and its end.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether what was read last is not all that is here: `poll` does not see the rest.
    #[must_use]
    pub fn has_buffered(&self) -> bool {
        match &self.state {
            State::Tls(tls) => tls.plain_bytes > 0 || !tls.left().is_empty(),
            State::Plain | State::FirstByte { .. } => false,
        }
    }

    /// Makes the connection safe, where it is to be; of a slave, before anything is sent.
    ///
    /// # Errors
    /// Why it is not, for an operator.
    ///
    /// # Blocking
    /// For the other end, on a socket that waits.
    pub fn shake_hands(&mut self) -> std::result::Result<(), String> {
        let State::Tls(tls) = &mut self.state else {
            return Ok(());
        };
        let before = self.socket.read_timeout().ok().flatten();
        let timed = self.socket.set_read_timeout(Some(HANDSHAKE_SILENCE_MAX));
        let shaken = timed.and_then(|()| tls.shake_hands(&mut self.socket));
        let timed = self.socket.set_read_timeout(before);
        shaken.and(timed).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                "the other end does not answer in TLS".to_owned()
            }
            _ => error.to_string(),
        })
    }

    /// Looks at the first byte, where that decides.
    fn decide(&mut self) -> Result<()> {
        let State::FirstByte {
            config,
            takes_plain,
        } = &self.state
        else {
            return Ok(());
        };
        let mut first = [0];
        if self.socket.peek(&mut first)? == 0 {
            self.state = State::Plain;
            return Ok(());
        }
        if first == [HANDSHAKE] {
            let made = served(config).map_err(other)?;
            self.state = State::Tls(Box::new(Tls::new(*made)));
            return Ok(());
        }
        if !*takes_plain {
            let why = "it speaks no TLS, and mqcoreHaTls is enforcing";
            return Err(Error::new(ErrorKind::InvalidData, why));
        }
        self.state = State::Plain;
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.decide()?;
        match &mut self.state {
            State::Tls(tls) => tls.read(&mut self.socket, into),
            State::Plain | State::FirstByte { .. } => self.socket.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> Result<usize> {
        match &mut self.state {
            State::Plain => self.socket.write_vectored(parts),
            // Nobody has asked for anything yet.
            State::FirstByte { .. } => Err(ErrorKind::WouldBlock.into()),
            State::Tls(tls) => tls.write(&mut self.socket, parts),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.state {
            State::Plain | State::FirstByte { .. } => Ok(()),
            State::Tls(tls) => tls.flush(&mut self.socket),
        }
    }
}

impl Tls {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            buffer: Vec::new(),
            came_to: 0,
            taken: 0,
            plain_bytes: 0,
            has_ended: false,
        }
    }

    /// Ciphertext that has come and was not taken.
    fn left(&self) -> &[u8] {
        self.buffer
            .get(self.taken..self.came_to)
            .unwrap_or_default()
    }

    fn shake_hands(&mut self, socket: &mut TcpStream) -> Result<()> {
        for _ in 0..HANDSHAKE_READS_MAX {
            self.flush(socket)?;
            if !self.connection.is_handshaking() {
                return Ok(());
            }
            self.receive(socket)?;
            while !self.left().is_empty() && !self.has_ended {
                self.take_some(socket)?;
            }
            if self.has_ended {
                let why = "the other end has closed the connection instead of answering in TLS";
                return Err(Error::new(ErrorKind::UnexpectedEof, why));
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn read(&mut self, socket: &mut TcpStream, into: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        loop {
            filled += self.read_plain(into.get_mut(filled..).unwrap_or_default())?;
            if filled == into.len() {
                return Ok(filled);
            }
            if !self.left().is_empty() && !self.has_ended {
                self.take_some(socket)?;
                continue;
            }
            if filled > 0 || self.has_ended {
                return Ok(filled);
            }
            self.receive(socket)?;
        }
    }

    /// Reads plaintext that is here.
    fn read_plain(&mut self, into: &mut [u8]) -> Result<usize> {
        if self.plain_bytes == 0 || into.is_empty() {
            return Ok(0);
        }
        let read = self.connection.reader().read(into)?;
        self.plain_bytes = self.plain_bytes.saturating_sub(read);
        Ok(read)
    }

    /// Reads ciphertext from the socket, of which none is left here.
    fn receive(&mut self, socket: &mut TcpStream) -> Result<()> {
        // Once: what is read is small as a rule, and to fill all of it with zeros each time is not.
        self.buffer.resize(READ_LEN_BYTES, 0);
        (self.taken, self.came_to) = (0, 0);
        self.came_to = socket.read(&mut self.buffer)?;
        self.has_ended |= self.came_to == 0;
        Ok(())
    }

    /// Takes some of the ciphertext; there is no plaintext that was not read.
    fn take_some(&mut self, socket: &mut TcpStream) -> Result<()> {
        let left = self.buffer.get(self.taken..self.came_to);
        let mut left = left.unwrap_or_default();
        let taken = self.connection.read_tls(&mut left)?;
        self.taken += taken;
        let state = self.connection.process_new_packets();
        // What the handshake answers, or why it is refused.
        let flushed = self.flush(socket);
        let state = state.map_err(other)?;
        self.plain_bytes = state.plaintext_bytes_to_read();
        self.has_ended |= state.peer_has_closed() || taken == 0;
        match flushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&mut self, socket: &mut TcpStream, parts: &[IoSlice<'_>]) -> Result<usize> {
        // What waits goes first, so that it is bounded.
        self.flush(socket)?;
        if self.connection.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = self.connection.writer().write_vectored(parts)?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what waits.
    fn flush(&mut self, socket: &mut TcpStream) -> Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn other(error: rustls::Error) -> Error {
    Error::new(ErrorKind::InvalidData, words_of(&error))
}
