//! What a master does about one slave in either dialect: which bytes of the log go next and when, what the
//! slave has acknowledged, how far it is behind. Knows no frame.

use crate::fault::LinkFault;
use crate::flow::FlowLimit;
use crate::stream::Timing;

/// Bodies that are sent together: with headers what one gathered write of the system takes, and a
/// mebibyte at the usual `haTransferBatchSize`.
pub const BODIES_MAX: usize = 32;

/// A slave that reports within so long is waited for before more is sent: on one network, in one
/// memory. A longer way is filled with all that there is.
pub const QUICK_MS: u64 = 1;

/// With more than this under way what comes behind it is sent at once: the slave has work, and a wake is a
/// small part of what so many messages cost.
pub const GATHER_BEHIND_MAX_BYTES: u64 = 128 * 1024;

/// What a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSpan {
    /// First byte that is kept.
    pub start: u64,
    /// Behind the last byte that may be sent.
    pub end: u64,
    /// Length of each file.
    pub file_len_bytes: u64,
}

impl LogSpan {
    /// Where the last file begins, as far as it is kept: there a fresh slave goes on.
    #[must_use]
    pub fn last_file(&self) -> u64 {
        (self.end - self.end % self.file_len_bytes).max(self.start)
    }
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the bytes from `offset` on, inside one file, `len_max` at the most, as bodies of
    /// `body_len_max`, each behind its header.
    Send {
        /// First byte.
        offset: u64,
        /// Bytes of all bodies at the most.
        len_max: usize,
        /// Bytes of one body at the most.
        body_len_max: usize,
    },
    /// Send a header without a body.
    Heartbeat {
        /// Where the master will go on.
        offset: u64,
    },
    /// Nothing for so long, unless the log grows or something comes.
    Wait {
        /// How long.
        wait_ms: u64,
    },
}

/// How far a slave is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Where it asked to begin; `None` before its first report.
    pub requested: Option<u64>,
    /// End of what was sent to it.
    pub sent: u64,
    /// What it reported last.
    pub acknowledged: u64,
    /// How far it is behind the log, bytes.
    pub lag_bytes: u64,
    /// For how long it has not held everything that the log held at one time, ms.
    pub lag_ms: u64,
    /// Bytes sent in the last second.
    pub bytes_per_second: u64,
}

/// How a log goes to one slave.
#[derive(Debug)]
pub(crate) struct Course {
    timing: Timing,
    batch_len_bytes: usize,
    flow: FlowLimit,
    requested: Option<u64>,
    next: u64,
    acknowledged: u64,
    read_ms: u64,
    written_ms: u64,
    /// The slave has everything that the log held at this time; and the end that it must reach for a
    /// later one.
    caught_up_ms: u64,
    looked_ms: u64,
    looked_end: u64,
    /// The end of what was sent when nothing else was under way, and the time: it is reported next.
    under_way: Option<(u64, u64)>,
    /// Whether the last such report came within [`QUICK_MS`].
    is_quick: bool,
}

impl Course {
    /// To a slave that has just connected. A body has `batch_len_bytes` at the most.
    pub(crate) fn new(
        timing: Timing,
        batch_len_bytes: usize,
        flow: FlowLimit,
        now_ms: u64,
    ) -> Self {
        Self {
            timing,
            batch_len_bytes,
            flow,
            requested: None,
            next: 0,
            acknowledged: 0,
            read_ms: now_ms,
            written_ms: now_ms,
            caught_up_ms: now_ms,
            looked_ms: now_ms,
            looked_end: 0,
            under_way: None,
            is_quick: false,
        }
    }

    /// Something has come from the slave.
    pub(crate) fn read(&mut self, now_ms: u64) {
        self.read_ms = now_ms;
    }

    /// Where the slave asked to begin.
    pub(crate) fn requested(&self) -> Option<u64> {
        self.requested
    }

    /// End of what was sent.
    pub(crate) fn sent_end(&self) -> u64 {
        self.next
    }

    /// Begins where the slave asks to: `fresh` where it has nothing.
    ///
    /// # Errors
    /// The log has not what it asks for.
    pub(crate) fn begin(
        &mut self,
        reported: u64,
        fresh: u64,
        LogSpan { start, end, .. }: LogSpan,
    ) -> Result<(), LinkFault> {
        self.next = match reported {
            0 => fresh,
            _ if reported > end => return Err(LinkFault::SlaveAhead { reported, end }),
            _ if reported < start => return Err(LinkFault::SlaveTooFarBehind { reported, start }),
            _ => reported,
        };
        self.requested = Some(reported);
        Ok(())
    }

    /// The slave holds everything below `reported`.
    ///
    /// # Errors
    /// [`LinkFault::ReportBeyondSent`].
    pub(crate) fn acknowledge(
        &mut self,
        reported: u64,
        log: LogSpan,
        now_ms: u64,
    ) -> Result<(), LinkFault> {
        let sent = self.next;
        if reported > sent {
            return Err(LinkFault::ReportBeyondSent { reported, sent });
        }
        self.acknowledged = reported;
        if let Some((end, sent_ms)) = self.under_way
            && reported >= end
        {
            self.is_quick = now_ms.saturating_sub(sent_ms) <= QUICK_MS;
            self.under_way = None;
        }
        if reported >= self.looked_end {
            self.caught_up_ms = self.looked_ms;
            self.looked_end = log.end;
            self.looked_ms = now_ms;
        }
        Ok(())
    }

    /// What the slave reported last; `None` before its first report.
    pub(crate) fn acknowledged(&self) -> Option<u64> {
        self.requested.map(|_begin| self.acknowledged)
    }

    /// What is to be done now, for a log that ends at `end`.
    pub(crate) fn step(&mut self, end: u64, now_ms: u64) -> Step {
        let silence = (self.read_ms + self.timing.silence_max_ms + 1).saturating_sub(now_ms);
        let Some(_) = self.requested else {
            return Step::Wait { wait_ms: silence };
        };
        let mut until = silence;
        if end > self.next {
            let left = usize::try_from(self.flow.left(now_ms)).unwrap_or(usize::MAX);
            if left > 0 {
                return Step::Send {
                    offset: self.next,
                    len_max: left.min(self.batch_len_bytes.saturating_mul(BODIES_MAX)),
                    body_len_max: self.batch_len_bytes,
                };
            }
            until = until.min(self.flow.opens_ms().saturating_sub(now_ms));
        }
        let heartbeat = self.heartbeat_in_ms(self.timing.heartbeat_ms, now_ms);
        if heartbeat == 0 {
            return Step::Heartbeat { offset: self.next };
        }
        Step::Wait {
            wait_ms: until.min(heartbeat),
        }
    }

    /// How long until nothing has been written for `interval_ms`.
    pub(crate) fn heartbeat_in_ms(&self, interval_ms: u64, now_ms: u64) -> u64 {
        (self.written_ms + interval_ms).saturating_sub(now_ms)
    }

    /// Bodies with so many bytes of the log together, or something without a body, go out.
    pub(crate) fn sent(&mut self, len_bytes: u64, now_ms: u64) {
        self.next += len_bytes;
        if len_bytes > 0 && self.under_way.is_none() {
            self.under_way = Some((self.next, now_ms));
        }
        self.written_ms = now_ms;
        self.flow.sent(len_bytes, now_ms);
    }

    /// Whether a report is due that comes at once, as the last one did: what the log grows by meanwhile can
    /// go with one send behind it.
    pub(crate) fn reports_soon(&self, now_ms: u64) -> bool {
        let sent_ms = self.under_way.map(|(_end, sent_ms)| sent_ms);
        let is_small = self.next.saturating_sub(self.acknowledged) <= GATHER_BEHIND_MAX_BYTES;
        self.is_quick && is_small && sent_ms.is_some_and(|at| now_ms.saturating_sub(at) <= QUICK_MS)
    }

    /// Whether something still comes from the slave.
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

    /// How far the slave is, for a log that ends at `end`.
    pub(crate) fn standing(&mut self, end: u64, now_ms: u64) -> Standing {
        let lag_bytes = end.saturating_sub(self.acknowledged);
        let is_behind = lag_bytes > 0 || self.requested.is_none();
        Standing {
            requested: self.requested,
            sent: self.next,
            acknowledged: self.acknowledged,
            lag_bytes,
            lag_ms: if is_behind {
                now_ms.saturating_sub(self.caught_up_ms)
            } else {
                0
            },
            bytes_per_second: self.flow.bytes_per_second(now_ms),
        }
    }
}
