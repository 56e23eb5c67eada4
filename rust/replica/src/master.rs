//! The link of a master to one slave (`DefaultHAConnection`): the first report is the request, those behind
//! it acknowledge; what goes next and when. Where a slave asks for what is not in the log the link ends,
//! with the reason: an official master would send heartbeats for ever.

use crate::fault::LinkFault;
use crate::flow::FlowLimit;
use crate::stream::{BODY_LEN_MAX_BYTES, REPORT_LEN_BYTES, Timing, report_of};

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

/// A master's side of a connection.
#[derive(Debug)]
pub struct MasterLink {
    timing: Timing,
    batch_len_bytes: usize,
    flow: FlowLimit,
    partial: [u8; REPORT_LEN_BYTES],
    partial_len: usize,
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

impl MasterLink {
    /// A link that was just accepted. A body has `batch_len_bytes` at the most (`haTransferBatchSize`).
    #[must_use]
    pub fn new(timing: Timing, batch_len_bytes: usize, flow: FlowLimit, now_ms: u64) -> Self {
        Self {
            timing,
            batch_len_bytes: batch_len_bytes.clamp(1, BODY_LEN_MAX_BYTES),
            flow,
            partial: [0; REPORT_LEN_BYTES],
            partial_len: 0,
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

    /// Takes what came: the last whole report counts.
    ///
    /// # Errors
    /// The link is to be closed.
    pub fn feed(&mut self, bytes: &[u8], log: LogSpan, now_ms: u64) -> Result<(), LinkFault> {
        self.read_ms = now_ms;
        let mut last = None;
        for &byte in bytes {
            if let Some(into) = self.partial.get_mut(self.partial_len) {
                *into = byte;
            }
            self.partial_len += 1;
            if self.partial_len == REPORT_LEN_BYTES {
                self.partial_len = 0;
                let reported = report_of(self.partial)?;
                last = Some(reported);
                if self.requested.is_none() {
                    self.begin(reported, log)?;
                }
            }
        }
        match last {
            Some(reported) => self.acknowledge(reported, log, now_ms),
            None => Ok(()),
        }
    }

    fn begin(&mut self, reported: u64, log: LogSpan) -> Result<(), LinkFault> {
        let LogSpan { start, end, .. } = log;
        self.next = match reported {
            0 => (end - end % log.file_len_bytes).max(start),
            _ if reported > end => return Err(LinkFault::SlaveAhead { reported, end }),
            _ if reported < start => return Err(LinkFault::SlaveTooFarBehind { reported, start }),
            _ => reported,
        };
        self.requested = Some(reported);
        Ok(())
    }

    fn acknowledge(&mut self, reported: u64, log: LogSpan, now_ms: u64) -> Result<(), LinkFault> {
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
    #[must_use]
    pub fn acknowledged(&self) -> Option<u64> {
        self.requested.map(|_begin| self.acknowledged)
    }

    /// What is to be done now, for a log that ends at `end`.
    pub fn step(&mut self, end: u64, now_ms: u64) -> Step {
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
        let heartbeat = (self.written_ms + self.timing.heartbeat_ms).saturating_sub(now_ms);
        if heartbeat == 0 {
            return Step::Heartbeat { offset: self.next };
        }
        Step::Wait {
            wait_ms: until.min(heartbeat),
        }
    }

    /// Bodies with so many bytes of the log together, or a heartbeat, go out.
    pub fn sent(&mut self, len_bytes: u64, now_ms: u64) {
        self.next += len_bytes;
        if len_bytes > 0 && self.under_way.is_none() {
            self.under_way = Some((self.next, now_ms));
        }
        self.written_ms = now_ms;
        self.flow.sent(len_bytes, now_ms);
    }

    /// Whether a report is due that comes at once, as the last one did: what the log grows by meanwhile can
    /// go with one send behind it.
    #[must_use]
    pub fn reports_soon(&self, now_ms: u64) -> bool {
        let sent_ms = self.under_way.map(|(_end, sent_ms)| sent_ms);
        let is_small = self.next.saturating_sub(self.acknowledged) <= GATHER_BEHIND_MAX_BYTES;
        self.is_quick && is_small && sent_ms.is_some_and(|at| now_ms.saturating_sub(at) <= QUICK_MS)
    }

    /// Whether something still comes from the slave.
    ///
    /// # Errors
    /// [`LinkFault::Silent`].
    pub fn check(&self, now_ms: u64) -> Result<(), LinkFault> {
        let silent_ms = now_ms.saturating_sub(self.read_ms);
        if silent_ms > self.timing.silence_max_ms {
            return Err(LinkFault::Silent { silent_ms });
        }
        Ok(())
    }

    /// How far the slave is, for a log that ends at `end`.
    #[must_use]
    pub fn standing(&mut self, end: u64, now_ms: u64) -> Standing {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        heartbeat_ms: 5_000,
        silence_max_ms: 20_000,
    };
    const LOG: LogSpan = LogSpan {
        start: 2_000,
        end: 4_500,
        file_len_bytes: 1_000,
    };

    fn link() -> MasterLink {
        MasterLink::new(TIMING, 100, FlowLimit::new(None, 0), 0)
    }

    fn reports(ends: &[u64]) -> Vec<u8> {
        ends.iter().flat_map(|end| end.to_be_bytes()).collect()
    }

    #[test]
    fn a_fresh_slave_gets_the_last_file_and_another_one_what_it_asks_for() {
        for (asked, begins) in [(0, 4_000), (2_000, 2_000), (4_321, 4_321), (4_500, 4_500)] {
            let mut link = link();
            assert_eq!(link.step(LOG.end, 0), Step::Wait { wait_ms: 20_001 });
            link.feed(&reports(&[asked]), LOG, 1).unwrap();
            assert_eq!(link.standing(LOG.end, 1).sent, begins);
        }
        let empty = LogSpan {
            start: 0,
            end: 0,
            file_len_bytes: 1_000,
        };
        let mut link = link();
        link.feed(&reports(&[0]), empty, 1).unwrap();
        assert_eq!(link.step(0, 5_000), Step::Heartbeat { offset: 0 });
    }

    #[test]
    fn a_slave_outside_of_the_log_is_refused_in_words() {
        let ahead = link().feed(&reports(&[4_501]), LOG, 1).unwrap_err();
        let fault = LinkFault::SlaveAhead {
            reported: 4_501,
            end: 4_500,
        };
        assert_eq!(ahead, fault);
        let behind = link().feed(&reports(&[1_999]), LOG, 1).unwrap_err();
        assert!(behind.to_string().contains("our log begins at 2000"));
        let negative = link().feed(&[0xff; 8], LOG, 1).unwrap_err();
        assert_eq!(negative, LinkFault::NegativeReport { reported: -1 });
        let mut link = link();
        link.feed(&reports(&[4_400]), LOG, 1).unwrap();
        let sent = 4_400;
        let fault = LinkFault::ReportBeyondSent {
            reported: 4_401,
            sent,
        };
        assert_eq!(link.feed(&reports(&[4_401]), LOG, 2).unwrap_err(), fault);
    }

    #[test]
    fn reports_in_any_pieces_count_and_the_last_one_wins() {
        let bytes = reports(&[4_100, 4_100, 4_050]);
        for cut in 0..=bytes.len() {
            let mut link = link();
            link.feed(&bytes[..cut], LOG, 1).unwrap();
            link.feed(&bytes[cut..], LOG, 2).unwrap();
            let standing = link.standing(LOG.end, 2);
            assert_eq!(
                (standing.requested, standing.acknowledged),
                (Some(4_100), 4_050)
            );
        }
    }

    #[test]
    fn bodies_have_their_bound_and_a_second_its_bytes() {
        let mut link = MasterLink::new(TIMING, 100, FlowLimit::new(Some(150), 0), 0);
        link.feed(&reports(&[4_000]), LOG, 0).unwrap();
        let send = |offset, len_max| Step::Send {
            offset,
            len_max,
            body_len_max: 100,
        };
        assert_eq!(link.step(LOG.end, 10), send(4_000, 150));
        link.sent(100, 10);
        assert_eq!(link.step(LOG.end, 10), send(4_100, 50));
        link.sent(50, 10);
        assert_eq!(link.step(LOG.end, 10), Step::Wait { wait_ms: 990 });
        assert_eq!(link.step(LOG.end, 1_000), send(4_150, 150));
        let mut link = self::link();
        link.feed(&reports(&[4_000]), LOG, 0).unwrap();
        assert_eq!(link.step(LOG.end, 10), send(4_000, 100 * BODIES_MAX));
    }

    #[test]
    fn heartbeats_come_when_nothing_was_written_and_silence_ends_the_link() {
        let mut link = link();
        link.feed(&reports(&[4_500]), LOG, 10).unwrap();
        assert_eq!(link.step(LOG.end, 10), Step::Wait { wait_ms: 4_990 });
        assert_eq!(link.step(LOG.end, 5_000), Step::Heartbeat { offset: 4_500 });
        link.sent(0, 5_000);
        assert_eq!(link.step(LOG.end, 5_000), Step::Wait { wait_ms: 5_000 });
        assert_eq!(link.check(20_010), Ok(()));
        assert!(link.check(20_011).is_err());
    }

    #[test]
    fn the_lag_in_time_is_that_since_the_slave_had_everything() {
        let mut link = link();
        link.feed(&reports(&[4_500]), LOG, 1_000).unwrap();
        assert_eq!(link.standing(4_500, 9_000).lag_ms, 0);
        link.sent(100, 9_000);
        let grown = LogSpan { end: 4_600, ..LOG };
        assert_eq!(link.standing(4_600, 9_000).lag_bytes, 100);
        link.feed(&reports(&[4_600]), grown, 9_100).unwrap();
        assert_eq!(link.standing(4_600, 9_200).lag_ms, 0);
        let grown = LogSpan { end: 9_000, ..LOG };
        assert_eq!(link.standing(9_000, 12_100).lag_ms, 11_100);
        link.sent(10, 12_100);
        link.feed(&reports(&[4_610]), grown, 12_100).unwrap();
        assert_eq!(link.standing(9_000, 12_100).lag_ms, 3_000);
    }

    #[test]
    fn a_report_is_expected_soon_where_the_last_one_came_at_once_and_no_longer_than_that() {
        let mut link = link();
        link.feed(&reports(&[4_000]), LOG, 10).unwrap();
        assert!(!link.reports_soon(10), "nothing is under way");
        link.sent(100, 10);
        assert!(!link.reports_soon(10), "none has come yet");
        link.sent(100, 10);
        link.feed(&reports(&[4_100]), LOG, 11).unwrap();
        assert!(!link.reports_soon(11), "nothing has been sent since");
        link.sent(100, 20);
        assert!(link.reports_soon(21));
        assert!(!link.reports_soon(22), "this one is late");
        link.feed(&reports(&[4_299]), LOG, 22).unwrap();
        link.feed(&reports(&[4_300]), LOG, 22).unwrap();
        link.sent(100, 30);
        assert!(!link.reports_soon(30), "the last one was late");
        link.feed(&reports(&[4_400]), LOG, 30).unwrap();
        link.sent(GATHER_BEHIND_MAX_BYTES, 30);
        assert!(link.reports_soon(30));
        link.sent(1, 30);
        assert!(!link.reports_soon(30), "the slave has work");
    }
}
