//! One slave of a master: its connection, its link, and the frames that were not taken whole. Header
//! and body are one unit: what has begun goes out before anything else.

use std::borrow::Cow;
use std::io::{ErrorKind, IoSlice, Read, Write};

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::segment::LogSlice;
use mqcore_engine::store::Replica;
use mqcore_replica::refill::{FROM_START, GREETING};
use mqcore_replica::{Connected, LinkFault, LogSpan, Source, Standing, Step};

use crate::link::Link;

/// Bytes of reports that are read at once: more than a slave sends between two turns.
const READ_LEN_BYTES: usize = 1024;
/// Bytes that one slave gets in a turn: the others wait about a millisecond for it.
const TURN_BYTES_MAX: u64 = 1024 * 1024;

/// Frames on their way out: headers, and the part of the log whose pieces are their bodies.
struct Frames<D: Disk> {
    /// The headers, one behind the other.
    heads: Vec<u8>,
    head_len: usize,
    bodies: Option<LogSlice<D>>,
    body_len_max: usize,
    written: usize,
}

impl<D: Disk> Frames<D> {
    /// One frame without a body.
    fn bare(head: Vec<u8>) -> Self {
        Self {
            head_len: head.len(),
            heads: head,
            bodies: None,
            body_len_max: 1,
            written: 0,
        }
    }

    /// The frames of a part of the log that begins at `offset`.
    fn of(
        link: &mut Link,
        source: Source<'_>,
        offset: u64,
        bodies: LogSlice<D>,
        body_len_max: usize,
    ) -> Self {
        let (len, head_len) = (bodies.as_bytes().len(), link.head_len());
        let mut heads = Vec::with_capacity(head_len * len.div_ceil(body_len_max));
        for at in (0..len).step_by(body_len_max) {
            // A body has less than 4 MiB.
            let len_bytes = u32::try_from((len - at).min(body_len_max)).unwrap_or(0);
            link.put_head(source, (offset + at as u64, len_bytes), &mut heads);
        }
        Self {
            heads,
            head_len,
            bodies: Some(bodies),
            body_len_max,
            written: 0,
        }
    }

    /// What is not written yet, header and body in turn.
    fn parts(&self) -> Vec<IoSlice<'_>> {
        let bodies = self.bodies.as_ref().map_or(&[][..], |all| all.as_bytes());
        // A heartbeat has no body.
        let bodies = bodies.chunks(self.body_len_max).chain([&[][..]]);
        let mut skipped = self.written;
        let heads = self.heads.chunks(self.head_len);
        let mut parts = Vec::with_capacity(2 * heads.len());
        for (head, body) in heads.zip(bodies) {
            for part in [head, body] {
                let from = skipped.min(part.len());
                skipped -= from;
                if from < part.len() {
                    parts.push(IoSlice::new(part.get(from..).unwrap_or_default()));
                }
            }
        }
        parts
    }
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
pub(crate) struct Peer<D: Disk, S> {
    pub(crate) address: String,
    pub(crate) stream: S,
    /// Whether there may be something to read.
    pub(crate) may_read: bool,
    /// Whether it is to be written to as soon as it takes more.
    pub(crate) waits_to_write: bool,
    link: Link,
    frames: Option<Frames<D>>,
    /// What has come, as long as it may be the greeting of somebody who copies whole files.
    greeting: Option<Vec<u8>>,
    /// Whether it has reported behind its request that it holds nothing: a learner, in classic replication.
    holds_nothing: bool,
    /// Whether it has reported anything else behind its request.
    has_acknowledged: bool,
    /// What it asked for.
    requested: Option<u64>,
    /// Where its copy begins, when it has none and that is not the begin of the log.
    pub(crate) begun_at: Option<u64>,
    /// What had been sent to it when somebody else connected from its host: a report of less may have been on
    /// its way then, from a slave that has come back since.
    sent_before_other: Option<u64>,
    /// Behind the last byte that was sent to it.
    pub(crate) sent_end: u64,
    /// Whether it has reported since somebody else connected from its host: until then both may be one
    /// slave, which has come back, and one slave does not count twice.
    is_known: bool,
    /// Whether what it reports counts: of somebody who is no member it does not.
    pub(crate) counts: bool,
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
pub(crate) fn host_of(address: &str) -> &str {
    address
        .rsplit_once(':')
        .map_or(address, |(host, _port)| host)
}

impl<D: Disk, S: Read + Write> Peer<D, S> {
    pub(crate) fn new(address: String, stream: S, link: Link) -> Self {
        Self {
            address,
            stream,
            may_read: true,
            waits_to_write: false,
            link,
            frames: None,
            greeting: Some(Vec::new()),
            holds_nothing: false,
            has_acknowledged: false,
            requested: None,
            begun_at: None,
            sent_before_other: None,
            sent_end: 0,
            is_known: true,
            counts: true,
        }
    }

    /// How far the slave is.
    pub(crate) fn standing(&mut self, end: u64, now_ms: u64) -> Standing {
        let standing = self.link.standing(end, now_ms);
        if !self.holds_nothing {
            return standing;
        }
        // Its reports show nothing of what it has: what was sent is the best that is known.
        let lag_bytes = end.saturating_sub(standing.sent);
        Standing {
            lag_bytes,
            lag_ms: if lag_bytes == 0 { 0 } else { standing.lag_ms },
            ..standing
        }
    }

    /// Somebody connects from `address`.
    pub(crate) fn note_other(&mut self, address: &str) {
        if host_of(address) == host_of(&self.address) {
            self.is_known = false;
            self.sent_before_other = Some(self.sent_end);
        }
    }

    /// How far it is, where that counts.
    pub(crate) fn reported(&self) -> Option<u64> {
        let counts = self.counts && self.is_known && !self.holds_nothing;
        self.link.acknowledged().filter(|_end| counts)
    }

    /// What it acknowledges: what it has got over this connection, and what that goes on from. Its request
    /// alone shows only how long its log is, not whose.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        let requested = self.requested?;
        self.reported().filter(|end| *end > requested)
    }

    /// Whether it may be the slave that has connected from the same host since: it has not reported anything
    /// that it was sent after that.
    pub(crate) fn may_be_back(&self) -> bool {
        let sent = self.sent_before_other;
        sent.is_some_and(|sent| self.reported().is_none_or(|end| end <= sent))
    }

    /// Whether its next report is due at once.
    pub(crate) fn reports_soon(&self, now_ms: u64) -> bool {
        self.link.reports_soon(now_ms)
    }

    /// Reads what has come; `known_end` is the end of all that any slave may hold.
    ///
    /// # Errors
    /// Why the link is to be closed.
    pub(crate) fn read(&mut self, log: LogSpan, known_end: u64, now_ms: u64) -> Result<(), String> {
        let mut bytes = [0; READ_LEN_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("the slave has closed the connection".to_owned()),
                Ok(len) => {
                    let came = bytes.get(..len).unwrap_or_default();
                    let Some(came) = self.not_greeting(came) else {
                        continue;
                    };
                    let fed = self.link.feed(&came, log, now_ms);
                    fed.map_err(|fault| fault.to_string())?;
                    self.note_learner();
                    self.note_request(known_end, now_ms)?;
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

    /// A learner has reported that it holds nothing behind its request, and nothing else.
    fn note_learner(&mut self) {
        if self.requested.is_some() {
            let is_nothing = self.link.acknowledged() == Some(0);
            self.has_acknowledged |= !is_nothing;
            self.holds_nothing = is_nothing && !self.has_acknowledged;
        }
    }

    /// What has come, where it is not the greeting of somebody who copies whole files, or its begin.
    fn not_greeting<'a>(&mut self, came: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Some(mut first) = self.greeting.take() else {
            return Some(Cow::Borrowed(came));
        };
        first.extend(came);
        if let Some(reports) = first.strip_prefix(&FROM_START) {
            self.link.begin_early();
            return Some(Cow::Owned(reports.to_vec()));
        }
        if GREETING.starts_with(&first) || FROM_START.starts_with(&first) {
            self.greeting = Some(first);
            return None;
        }
        Some(Cow::Owned(first))
    }

    /// Whether it copies whole files: it has sent its greeting, and waits for ours.
    pub(crate) fn copies_files(&self) -> bool {
        let greeting = self.greeting.as_ref();
        greeting.is_some_and(|first| *first == GREETING)
    }

    /// Looks at what it asked for: no slave holds what no slave was sent. Where epochs were compared they
    /// show whose log it is.
    fn note_request(&mut self, known_end: u64, now_ms: u64) -> Result<(), String> {
        if self.requested.is_some() {
            return Ok(());
        }
        self.requested = self.link.acknowledged();
        let begin = self.link.standing(known_end, now_ms).sent;
        self.begun_at = Some(begin).filter(|begin| self.requested == Some(0) && *begin > 0);
        match self.requested {
            Some(reported) if reported > known_end && self.identity().is_none() => {
                let fault = LinkFault::NeverSent {
                    reported,
                    known_end,
                };
                Err(fault.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Whether it is never to be counted.
    pub(crate) fn is_learner(&self) -> bool {
        let introduced = self.identity().is_some_and(|(_, is_learner)| is_learner);
        introduced || self.holds_nothing
    }

    /// The slave's id, where it has given one, and whether it is a learner.
    pub(crate) fn identity(&self) -> Option<(i64, bool)> {
        self.link.identity()
    }

    /// The slave as one who may be in the sync-state set.
    pub(crate) fn connected(&mut self, end: u64, now_ms: u64) -> Option<Connected> {
        self.link.connected(end, now_ms).filter(|_who| self.counts)
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
        source: Source<'_>,
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
            if let Some(greeting) = self.link.greeting(source, now_ms) {
                self.frames = Some(Frames::bare(greeting));
                continue;
            }
            match self.link.step(source, now_ms) {
                Step::Send {
                    offset,
                    len_max,
                    body_len_max,
                } => {
                    let read = replica.range(offset, len_max);
                    let Some(chunk) = read.map_err(|error| error.to_string())? else {
                        return Err(format!("our log has nothing at {offset} any more"));
                    };
                    let len = chunk.bytes.as_bytes().len() as u64;
                    let (link, bytes) = (&mut self.link, chunk.bytes);
                    self.frames = Some(Frames::of(link, source, offset, bytes, body_len_max));
                    self.link.sent(len, now_ms);
                    self.sent_end = offset + len;
                    sent += len;
                }
                Step::Heartbeat { offset } => {
                    let mut head = Vec::new();
                    self.link.put_head(source, (offset, 0), &mut head);
                    self.frames = Some(Frames::bare(head));
                    self.link.sent(0, now_ms);
                }
                Step::Wait { wait_ms } => return Ok(Left::Wait(wait_ms)),
            }
        }
    }

    /// Writes what waits; true when nothing does any more.
    fn write(&mut self) -> Result<bool, String> {
        while let Some(frames) = &mut self.frames {
            let parts = frames.parts();
            if parts.is_empty() {
                self.frames = None;
                break;
            }
            match self.stream.write_vectored(&parts) {
                Ok(0) => return Err("the connection takes nothing".to_owned()),
                Ok(written) => frames.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        // What a connection over TLS has taken may not have left.
        match self.stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            flushed => flushed.map(|()| true).map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use mqcore_engine::disk::RealDisk;
    use mqcore_replica::{EpochTable, FlowLimit, Header, MasterLink, Timing};

    use super::*;

    const TIMING: Timing = Timing {
        heartbeat_ms: 5_000,
        silence_max_ms: 20_000,
    };

    fn left(frames: &mut Frames<RealDisk>, written: usize) -> Vec<u8> {
        frames.written = written;
        let parts = frames.parts();
        assert!(parts.iter().all(|part| !part.is_empty()));
        parts.iter().flat_map(|part| part.to_vec()).collect()
    }

    #[test]
    fn wherever_a_socket_stops_the_rest_goes_out() {
        let epochs = EpochTable::default();
        let source = Source {
            log: LogSpan {
                start: 0,
                end: 109,
                file_len_bytes: 1_000,
            },
            epochs: &epochs,
            confirm: 0,
        };
        let mut link = Link::Classic(MasterLink::new(TIMING, 4, FlowLimit::new(None, 0), 0));
        let bodies = LogSlice::Owned(b"abcdefghi".to_vec());
        let mut frames = Frames::of(&mut link, source, 100, bodies, 4);
        let mut expected = Vec::new();
        for (offset, body) in [(100, "abcd"), (104, "efgh"), (108, "i")] {
            let len_bytes = u32::try_from(body.len()).unwrap();
            expected.extend(Header { offset, len_bytes }.to_bytes());
            expected.extend(body.as_bytes());
        }
        for written in 0..=expected.len() {
            assert_eq!(left(&mut frames, written), expected[written..]);
        }
        let mut bare = Frames::bare(b"heartbeat".to_vec());
        for written in 0..=9 {
            assert_eq!(left(&mut bare, written), b"heartbeat"[written..]);
        }
    }
}
