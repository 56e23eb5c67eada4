//! What a slave does about its master in either dialect: where the next bytes of the log go, what is to be
//! reported and when, how long a silent master is waited for. Knows no frame.

use crate::fault::LinkFault;
use crate::stream::Timing;

/// What came from a master.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A log that holds nothing begins here.
    Begin(u64),
    /// Bytes of the log: what goes to `offset`, the end of ours.
    Bytes {
        /// Where they go.
        offset: u64,
        /// The bytes: a part of one body.
        bytes: &'a [u8],
    },
}

/// How a log grows by that of its master.
#[derive(Debug)]
pub(crate) struct Intake {
    timing: Timing,
    body_left: u32,
    /// End of our log, with what was handed out.
    end: u64,
    is_fresh: bool,
    /// End of what the master has announced.
    announced: u64,
    /// Frames without a body that have come.
    heartbeats: u64,
    reported: Option<u64>,
    read_ms: u64,
    written_ms: u64,
}

impl Intake {
    /// For a log that ends at `end`; `is_fresh` where it holds nothing and may begin anywhere.
    pub(crate) fn new(end: u64, is_fresh: bool, timing: Timing, now_ms: u64) -> Self {
        Self {
            timing,
            body_left: 0,
            end,
            is_fresh,
            announced: end,
            heartbeats: 0,
            reported: None,
            read_ms: now_ms,
            written_ms: now_ms,
        }
    }

    /// End of our log, with what was handed out.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the rest of a body comes next.
    pub(crate) fn is_in_body(&self) -> bool {
        self.body_left > 0
    }

    /// Something has come.
    pub(crate) fn read(&mut self, now_ms: u64) {
        self.read_ms = now_ms;
    }

    /// Takes the next piece of a body off the front of `bytes`; `None` without one.
    pub(crate) fn piece<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Received<'a>> {
        let len = bytes.len().min(self.body_left as usize);
        if len == 0 {
            return None;
        }
        let (piece, rest) = bytes.split_at(len);
        *bytes = rest;
        self.body_left -= u32::try_from(len).unwrap_or(u32::MAX);
        let offset = self.end;
        self.end += len as u64;
        Some(Received::Bytes {
            offset,
            bytes: piece,
        })
    }

    /// A body of `len_bytes` comes next, whose place is `offset`; where an empty log begins, if it does.
    ///
    /// # Errors
    /// [`LinkFault::OtherOffset`].
    pub(crate) fn announce(
        &mut self,
        offset: u64,
        len_bytes: u32,
    ) -> Result<Option<Received<'static>>, LinkFault> {
        let begins = self.is_fresh && offset != self.end;
        if !begins && offset != self.end {
            let end = self.end;
            return Err(LinkFault::OtherOffset { offset, end });
        }
        self.is_fresh &= !begins && len_bytes == 0;
        self.end = offset;
        self.announced = offset + u64::from(len_bytes);
        self.body_left = len_bytes;
        self.heartbeats += u64::from(len_bytes == 0);
        Ok(begins.then_some(Received::Begin(offset)))
    }

    /// What is to be reported, where something is; `held` is the end of what we hold as durably as our
    /// settings promise. The first report is the request, and names the end of the log whatever is durable.
    pub(crate) fn report(&mut self, held: u64, now_ms: u64) -> Option<u64> {
        let held = held.min(self.end);
        let end = match self.reported {
            None => self.end,
            Some(reported) if held > reported => held,
            Some(reported) if self.is_heartbeat_due(now_ms) => reported,
            Some(_) => return None,
        };
        self.reported = Some(end);
        self.written_ms = now_ms;
        Some(end)
    }

    fn is_heartbeat_due(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.written_ms) >= self.timing.heartbeat_ms
    }

    /// How long one may wait for the next byte.
    pub(crate) fn wait_ms(&self, now_ms: u64) -> u64 {
        let heartbeat = self.written_ms + self.timing.heartbeat_ms;
        heartbeat
            .saturating_sub(now_ms)
            .min(self.silent_in_ms(now_ms))
    }

    /// How long until a master that sends nothing has been silent for too long.
    pub(crate) fn silent_in_ms(&self, now_ms: u64) -> u64 {
        let silence = self.read_ms + self.timing.silence_max_ms + 1;
        silence.saturating_sub(now_ms)
    }

    /// Whether something still comes from the master.
    ///
    /// # Errors
    /// [`LinkFault::Silent`].
    pub(crate) fn check(&self, now_ms: u64) -> Result<(), LinkFault> {
        let silent_ms = now_ms.saturating_sub(self.read_ms);
        if silent_ms > self.timing.silence_max_ms {
            return Err(LinkFault::Silent { silent_ms });
        }
        Ok(())
    }

    /// End of what the master has announced.
    pub(crate) fn announced(&self) -> u64 {
        self.announced
    }

    /// How many frames without a body have come: a master sends one where it has nothing else to send.
    pub(crate) fn heartbeats(&self) -> u64 {
        self.heartbeats
    }

    /// What was reported last.
    pub(crate) fn reported(&self) -> Option<u64> {
        self.reported
    }
}

/// Moves what is missing of a frame of `into`'s length, of which there are `have` bytes, off the front of
/// `bytes`; true once it is whole.
pub(crate) fn fill(into: &mut [u8], have: &mut usize, bytes: &mut &[u8]) -> bool {
    let len = into.len().saturating_sub(*have).min(bytes.len());
    let (piece, rest) = bytes.split_at(len);
    *bytes = rest;
    if let Some(into) = into.get_mut(*have..*have + len) {
        into.copy_from_slice(piece);
    }
    *have += len;
    *have == into.len()
}
