//! The link of a slave to its master (`DefaultHAClient`): headers are taken apart, bodies go on in the
//! pieces that they come in, reports are due. The first report goes at once; official slaves leave their
//! master waiting for it up to five seconds.

use crate::fault::LinkFault;
use crate::intake::{Intake, fill};
use crate::stream::{HEADER_LEN_BYTES, Header, REPORT_LEN_BYTES, Timing, report};

pub use crate::intake::Received;

/// A slave's side of a connection.
#[derive(Debug)]
pub struct SlaveLink {
    intake: Intake,
    head: [u8; HEADER_LEN_BYTES],
    head_len: usize,
    /// Whether its reports never acknowledge, and whether the first one is out.
    is_learner: bool,
    has_requested: bool,
}

impl SlaveLink {
    /// A link that has just been connected, for a log that ends at `end`; `is_fresh` where it holds
    /// nothing and may begin anywhere.
    #[must_use]
    pub fn new(end: u64, is_fresh: bool, timing: Timing, now_ms: u64) -> Self {
        Self {
            intake: Intake::new(end, is_fresh, timing, now_ms),
            head: [0; HEADER_LEN_BYTES],
            head_len: 0,
            is_learner: false,
            has_requested: false,
        }
    }

    /// Makes a learner of it: no send ever counts it, whoever the master is. Classic replication has no word
    /// for that: behind its request it reports 0, that it holds nothing.
    pub fn learn(&mut self) {
        self.is_learner = true;
    }

    /// Notes that something came. To be called once for what was read, before [`SlaveLink::feed`].
    pub fn read(&mut self, now_ms: u64) {
        self.intake.read(now_ms);
    }

    /// Takes the next piece off the front of `bytes`; `None` when all are taken.
    ///
    /// # Errors
    /// The link is to be closed; nothing of a body that does not fit has been handed out.
    pub fn feed<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Received<'a>>, LinkFault> {
        loop {
            if self.intake.is_in_body() {
                return Ok(self.intake.piece(bytes));
            }
            if !fill(&mut self.head, &mut self.head_len, bytes) {
                return Ok(None);
            }
            self.head_len = 0;
            let header = Header::of(self.head)?;
            let begun = self.intake.announce(header.offset, header.len_bytes)?;
            if begun.is_some() {
                return Ok(begun);
            }
        }
    }

    /// The report that is due, where one is; `held` is the end of what we hold as durably as our settings
    /// promise. The first report is the request, and names the end of the log whatever is durable.
    pub fn report(&mut self, held: u64, now_ms: u64) -> Option<[u8; REPORT_LEN_BYTES]> {
        let end = self.intake.report(held, now_ms)?;
        let is_request = !std::mem::replace(&mut self.has_requested, true);
        Some(report(if self.is_learner && !is_request {
            0
        } else {
            end
        }))
    }

    /// How long one may wait for the next byte before [`SlaveLink::report`] and [`SlaveLink::check`]
    /// have something to do.
    #[must_use]
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        self.intake.wait_ms(now_ms)
    }

    /// Whether something still comes from the master.
    ///
    /// # Errors
    /// [`LinkFault::Silent`].
    pub fn check(&self, now_ms: u64) -> Result<(), LinkFault> {
        self.intake.check(now_ms)
    }

    /// End of what the master has announced: our log ends there when the body has come.
    #[must_use]
    pub fn announced(&self) -> u64 {
        self.intake.announced()
    }

    /// How many frames without a body have come: a master sends one where it has nothing else to send.
    #[must_use]
    pub fn heartbeats(&self) -> u64 {
        self.intake.heartbeats()
    }

    /// What was reported last.
    #[must_use]
    pub fn reported(&self) -> Option<u64> {
        self.intake.reported()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        heartbeat_ms: 5_000,
        silence_max_ms: 20_000,
    };

    fn frame(offset: u64, body: &[u8]) -> Vec<u8> {
        let len_bytes = u32::try_from(body.len()).unwrap();
        let mut bytes = Header { offset, len_bytes }.to_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    /// What comes out of pieces of the stream: where the log begins, and its bytes.
    fn taken(link: &mut SlaveLink, pieces: &[&[u8]]) -> Result<(Option<u64>, Vec<u8>), LinkFault> {
        let (mut begin, mut log) = (None, Vec::new());
        for piece in pieces {
            let mut rest = *piece;
            while let Some(received) = link.feed(&mut rest)? {
                match received {
                    Received::Begin(offset) => begin = Some(offset),
                    Received::Bytes { offset, bytes } => {
                        assert_eq!(offset, link.intake.end() - bytes.len() as u64);
                        log.extend_from_slice(bytes);
                    }
                }
            }
            assert!(rest.is_empty());
        }
        Ok((begin, log))
    }

    #[test]
    fn every_cut_of_the_stream_gives_the_same_log() {
        let mut stream = frame(100, b"");
        stream.extend(frame(100, b"abcdef"));
        stream.extend(frame(106, b"g"));
        stream.extend(frame(107, b""));
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                let mut link = SlaveLink::new(100, false, TIMING, 0);
                let (begin, log) = taken(&mut link, &pieces).unwrap();
                assert_eq!((begin, log.as_slice()), (None, b"abcdefg".as_slice()));
                assert_eq!((link.announced(), link.heartbeats()), (107, 2));
            }
        }
    }

    #[test]
    fn a_learner_asks_for_what_it_lacks_and_acknowledges_nothing() {
        let mut link = SlaveLink::new(100, false, TIMING, 0);
        link.learn();
        assert_eq!(link.report(100, 0), Some(report(100)));
        taken(&mut link, &[&frame(100, b"abc")]).unwrap();
        assert_eq!(link.report(103, 1), Some(report(0)));
        assert_eq!(link.report(103, 2), None, "nothing new");
        assert_eq!(
            link.report(103, 5_001),
            Some(report(0)),
            "it is still there"
        );
    }

    #[test]
    fn a_fresh_log_begins_where_the_master_begins_and_no_other_does() {
        let mut link = SlaveLink::new(0, true, TIMING, 0);
        let stream = [frame(4096, b""), frame(4096, b"xy")].concat();
        let expected = (Some(4096), b"xy".to_vec());
        assert_eq!(taken(&mut link, &[&stream]).unwrap(), expected);
        let again = frame(8192, b"z");
        let fault = LinkFault::OtherOffset {
            offset: 8192,
            end: 4098,
        };
        assert_eq!(taken(&mut link, &[&again]).unwrap_err(), fault);

        let mut link = SlaveLink::new(0, true, TIMING, 0);
        let (begin, log) = taken(&mut link, &[&frame(0, b""), &frame(4096, b"q")]).unwrap();
        assert_eq!((begin, log.as_slice()), (Some(4096), b"q".as_slice()));
        let mut link = SlaveLink::new(0, true, TIMING, 0);
        taken(&mut link, &[&frame(0, b"ab")]).unwrap();
        assert!(taken(&mut link, &[&frame(4096, b"")]).is_err());
    }

    #[test]
    fn another_offset_is_refused_before_its_body_and_negative_numbers_are() {
        let mut link = SlaveLink::new(7, false, TIMING, 0);
        let fault = taken(&mut link, &[&frame(6, b"never")[..HEADER_LEN_BYTES]]).unwrap_err();
        assert_eq!(fault, LinkFault::OtherOffset { offset: 6, end: 7 });
        let mut bad = [0u8; HEADER_LEN_BYTES];
        bad[8] = 0x80;
        let fault = taken(&mut SlaveLink::new(0, true, TIMING, 0), &[&bad]).unwrap_err();
        assert!(matches!(
            fault,
            LinkFault::BadHeader {
                len_bytes: i32::MIN,
                ..
            }
        ));
    }

    #[test]
    fn the_first_report_is_the_end_and_the_others_what_is_held() {
        let mut link = SlaveLink::new(50, false, TIMING, 0);
        assert_eq!(link.report(20, 0), Some(report(50)));
        assert_eq!(link.report(50, 4_999), None);
        assert_eq!(link.wait_ms(4_999), 1);
        assert_eq!(link.report(50, 5_000), Some(report(50)));
        taken(&mut link, &[&frame(50, b"12345")]).unwrap();
        assert_eq!(link.report(53, 5_001), Some(report(53)));
        assert_eq!(link.report(u64::MAX, 5_002), Some(report(55)));
        assert_eq!(link.report(u64::MAX, 10_002), Some(report(55)));
    }

    #[test]
    fn a_silent_master_is_given_up() {
        let mut link = SlaveLink::new(0, true, TIMING, 0);
        assert_eq!(link.check(20_000), Ok(()));
        let silent_ms = 20_001;
        assert_eq!(link.check(silent_ms), Err(LinkFault::Silent { silent_ms }));
        link.read(20_001);
        assert_eq!(link.check(40_001), Ok(()));
    }
}
