//! The link of a master to one slave (`DefaultHAConnection`): the first report is the request, those behind
//! it acknowledge; what goes next and when. Where a slave asks for what is not in the log the link ends,
//! with the reason: an official master would send heartbeats for ever.

use crate::course::Course;
use crate::fault::LinkFault;
use crate::flow::FlowLimit;
use crate::stream::{BODY_LEN_MAX_BYTES, REPORT_LEN_BYTES, Timing, report_of};

pub use crate::course::{BODIES_MAX, GATHER_BEHIND_MAX_BYTES, LogSpan, QUICK_MS, Standing, Step};

/// A master's side of a connection.
#[derive(Debug)]
pub struct MasterLink {
    course: Course,
    partial: [u8; REPORT_LEN_BYTES],
    partial_len: usize,
    /// Whether a slave that holds nothing gets the log from its first byte on.
    begins_early: bool,
}

impl MasterLink {
    /// A link that was just accepted. A body has `batch_len_bytes` at the most (`haTransferBatchSize`).
    #[must_use]
    pub fn new(timing: Timing, batch_len_bytes: usize, flow: FlowLimit, now_ms: u64) -> Self {
        let batch_len_bytes = batch_len_bytes.clamp(1, BODY_LEN_MAX_BYTES);
        Self {
            course: Course::new(timing, batch_len_bytes, flow, now_ms),
            partial: [0; REPORT_LEN_BYTES],
            partial_len: 0,
            begins_early: false,
        }
    }

    /// A slave that holds nothing gets the log from its first byte on, as it has asked to.
    pub fn begin_early(&mut self) {
        self.begins_early = true;
    }

    /// Takes what came: the last whole report counts.
    ///
    /// # Errors
    /// The link is to be closed.
    pub fn feed(&mut self, bytes: &[u8], log: LogSpan, now_ms: u64) -> Result<(), LinkFault> {
        self.course.read(now_ms);
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
                if self.course.requested().is_none() {
                    let fresh = if self.begins_early {
                        log.start
                    } else {
                        log.last_file()
                    };
                    let begun = self.course.begin(reported, fresh, log);
                    begun.map_err(|fault| match fault {
                        LinkFault::SlaveAhead { .. } if introduces(self.partial) => {
                            LinkFault::OtherDialect
                        }
                        other => other,
                    })?;
                }
            }
        }
        match last {
            Some(reported) => self.course.acknowledge(reported, log, now_ms),
            None => Ok(()),
        }
    }

    /// What the slave reported last; `None` before its first report.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u64> {
        self.course.acknowledged()
    }

    /// What is to be done now, for a log that ends at `end`.
    pub fn step(&mut self, end: u64, now_ms: u64) -> Step {
        self.course.step(end, now_ms)
    }

    /// Bodies with so many bytes of the log together, or a heartbeat, go out.
    pub fn sent(&mut self, len_bytes: u64, now_ms: u64) {
        self.course.sent(len_bytes, now_ms);
    }

    /// Whether a report is due that comes at once, as the last one did: what the log grows by meanwhile can
    /// go with one send behind it.
    #[must_use]
    pub fn reports_soon(&self, now_ms: u64) -> bool {
        self.course.reports_soon(now_ms)
    }

    /// Whether something still comes from the slave.
    ///
    /// # Errors
    /// [`LinkFault::Silent`].
    pub fn check(&self, now_ms: u64) -> Result<(), LinkFault> {
        self.course.check(now_ms)
    }

    /// How far the slave is, for a log that ends at `end`.
    #[must_use]
    pub fn standing(&mut self, end: u64, now_ms: u64) -> Standing {
        self.course.standing(end, now_ms)
    }
}

/// Whether a report is the first half of how a slave introduces itself in controller mode: 1, and two flags.
fn introduces(report: [u8; REPORT_LEN_BYTES]) -> bool {
    matches!(report, [0, 0, 0, 1, 0, 0 | 1, 0, 0 | 1])
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
    fn a_fresh_slave_that_asks_to_begins_with_the_first_byte() {
        let mut link = link();
        link.begin_early();
        link.feed(&reports(&[0]), LOG, 1).unwrap();
        assert_eq!(link.standing(LOG.end, 1).sent, LOG.start);
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
    fn a_slave_in_controller_mode_is_refused_by_that_name() {
        for flags in [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]] {
            let mut link = link();
            let first = [&[0, 0, 0, 1][..], &flags, &7_i64.to_be_bytes()].concat();
            let fault = link.feed(&first, LOG, 1).unwrap_err();
            assert_eq!(fault, LinkFault::OtherDialect);
            assert!(fault.to_string().contains("enableControllerMode"));
        }
        // A log that is long enough has such an offset.
        let long = LogSpan {
            start: 0,
            end: 5 << 30,
            file_len_bytes: 1 << 30,
        };
        assert_eq!(link().feed(&[0, 0, 0, 1, 0, 0, 0, 0], long, 1), Ok(()));
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
