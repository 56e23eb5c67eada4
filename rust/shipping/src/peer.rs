//! One slave of a master: its socket, its link, and the frame that the socket has not taken whole. Header
//! and body are one unit: what has begun goes out before anything else.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::segment::LogSlice;
use mqcore_engine::store::Replica;
use mqcore_replica::stream::HEADER_LEN_BYTES;
use mqcore_replica::{Header, LogSpan, MasterLink, Standing, Step};

/// Bytes of reports that are read at once: more than a slave sends between two turns.
const READ_LEN_BYTES: usize = 1024;
/// Bytes that one slave gets in a turn: the others wait about a millisecond for it.
const TURN_BYTES_MAX: u64 = 1024 * 1024;

/// A frame on its way out.
struct Frame<D: Disk> {
    header: [u8; HEADER_LEN_BYTES],
    body: Option<LogSlice<D>>,
    written: usize,
}

/// What a turn of a peer has left.
pub(crate) enum Left {
    /// The socket takes no more now.
    Socket,
    /// There is more to send, and the others have their turn.
    More,
    /// Nothing for so long, ms.
    Wait(u64),
}

/// One slave.
pub(crate) struct Peer<D: Disk> {
    pub(crate) address: String,
    pub(crate) stream: TcpStream,
    link: MasterLink,
    frame: Option<Frame<D>>,
    /// Whether it has reported since somebody else connected from its host: until then both may be one
    /// slave, which has come back, and one slave does not count twice.
    is_known: bool,
}

/// What the log holds, for a link.
pub(crate) fn span_of<D: Disk, C: Clock>(replica: &Replica<D, C>) -> LogSpan {
    let extent = replica.extent();
    LogSpan {
        start: extent.start,
        end: extent.end,
        file_len_bytes: extent.file_len_bytes,
    }
}

/// An address without its port.
fn host_of(address: &str) -> &str {
    address
        .rsplit_once(':')
        .map_or(address, |(host, _port)| host)
}

impl<D: Disk> Peer<D> {
    pub(crate) fn new(address: String, stream: TcpStream, link: MasterLink) -> Self {
        Self {
            address,
            stream,
            link,
            frame: None,
            is_known: true,
        }
    }

    /// How far the slave is.
    pub(crate) fn standing(&mut self, end: u64, now_ms: u64) -> Standing {
        self.link.standing(end, now_ms)
    }

    /// Somebody connects from `address`.
    pub(crate) fn note_other(&mut self, address: &str) {
        self.is_known &= host_of(address) != host_of(&self.address);
    }

    /// What it has acknowledged, where that counts.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        self.link.acknowledged().filter(|_end| self.is_known)
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// Why the link is to be closed.
    pub(crate) fn read(&mut self, log: LogSpan, now_ms: u64) -> Result<(), String> {
        let mut bytes = [0; READ_LEN_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("the slave has closed the connection".to_owned()),
                Ok(len) => {
                    let came = bytes.get(..len).unwrap_or_default();
                    let fed = self.link.feed(came, log, now_ms);
                    fed.map_err(|fault| fault.to_string())?;
                    self.is_known = true;
                    if len < bytes.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Sends what is due.
    ///
    /// # Errors
    /// Why the link is to be closed.
    ///
    /// # Blocking
    /// Reads the disk for what is no longer hot.
    pub(crate) fn turn<C: Clock>(
        &mut self,
        replica: &Replica<D, C>,
        end: u64,
        now_ms: u64,
    ) -> Result<Left, String> {
        self.link.check(now_ms).map_err(|fault| fault.to_string())?;
        let mut sent = 0;
        loop {
            if !self.write()? {
                return Ok(Left::Socket);
            }
            if sent >= TURN_BYTES_MAX {
                return Ok(Left::More);
            }
            match self.link.step(end, now_ms) {
                Step::Send { offset, len_max } => {
                    sent += self.begin(replica, offset, len_max, now_ms)?;
                }
                Step::Heartbeat { offset } => self.put(offset, None, now_ms),
                Step::Wait { wait_ms } => return Ok(Left::Wait(wait_ms)),
            }
        }
    }

    /// Makes the next bytes of the log the frame that goes out; how many they are.
    fn begin<C: Clock>(
        &mut self,
        replica: &Replica<D, C>,
        offset: u64,
        len_max: usize,
        now_ms: u64,
    ) -> Result<u64, String> {
        let read = replica.range(offset, len_max);
        let Some(chunk) = read.map_err(|error| error.to_string())? else {
            return Err(format!("our log has nothing at {offset} any more"));
        };
        let len = chunk.bytes.as_bytes().len() as u64;
        self.put(offset, Some(chunk.bytes), now_ms);
        Ok(len)
    }

    fn put(&mut self, offset: u64, body: Option<LogSlice<D>>, now_ms: u64) {
        let len = body.as_ref().map_or(0, |body| body.as_bytes().len());
        let header = Header {
            offset,
            // A body has less than 4 MiB.
            len_bytes: u32::try_from(len).unwrap_or(0),
        };
        self.link.sent(len as u64, now_ms);
        self.frame = Some(Frame {
            header: header.to_bytes(),
            body,
            written: 0,
        });
    }

    /// Writes what waits; true when nothing does any more.
    fn write(&mut self) -> Result<bool, String> {
        while let Some(frame) = &mut self.frame {
            let body = frame.body.as_ref().map_or(&[][..], |body| body.as_bytes());
            let len = HEADER_LEN_BYTES + body.len();
            let header = frame.header.get(frame.written..).unwrap_or_default();
            let from = frame.written.saturating_sub(HEADER_LEN_BYTES);
            let parts = [
                IoSlice::new(header),
                IoSlice::new(body.get(from..).unwrap_or_default()),
            ];
            match self.stream.write_vectored(&parts) {
                Ok(0) => return Err("the connection takes nothing".to_owned()),
                Ok(written) => frame.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
            if frame.written >= len {
                self.frame = None;
            }
        }
        Ok(true)
    }
}
