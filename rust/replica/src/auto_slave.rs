//! The link of a slave to its master in controller mode (`AutoSwitchHAClient`): it introduces itself,
//! compares the epochs of the two logs, and goes on from its end, which it reports at once: official slaves
//! leave their master waiting for five seconds. Where our log goes on behind the last common place the link
//! ends and reports where the log must be cut: nothing is cut here.
//!
//! An epoch is written down once the log has come up to its begin, and before any byte of it, so that the
//! table is never about what the log has not.

use std::ops::Range;

use crate::auto_switch::{
    AUTO_REPORT_LEN_BYTES, GREETING_LEN_BYTES, GreetingHead, INTRODUCTION_LEN_BYTES, Introduction,
    TRANSFER_LEN_BYTES, Transfer, auto_report, bad, epochs_of,
};
use crate::epochs::{EpochEntry, EpochTable, NO_EPOCH};
use crate::fault::LinkFault;
use crate::intake::{Intake, Received, fill};
use crate::stream::Timing;

/// What came from a master.
#[derive(Debug, PartialEq, Eq)]
pub enum Followed<'a> {
    /// The two logs are copies of each other up to our end. Epochs of ours behind this one are to be
    /// forgotten; `None` where we have none.
    Agreed(Option<i32>),
    /// To be added to our epochs, durably, before what comes next.
    Epoch(EpochEntry),
    /// A part of the log.
    Log(Received<'a>),
}

#[derive(Debug)]
enum State {
    /// The greeting is awaited: its first bytes.
    Introducing([u8; GREETING_LEN_BYTES], usize),
    /// Its epochs are: how it began, and what has come.
    Greeted(GreetingHead, Vec<u8>, usize),
    /// The log flows: the header that is awaited.
    Flowing([u8; TRANSFER_LEN_BYTES], usize),
}

/// A slave's side of a connection in controller mode.
#[derive(Debug)]
pub struct AutoSwitchSlaveLink {
    intake: Intake,
    state: State,
    /// Our last epoch.
    last_epoch: Option<EpochEntry>,
    /// The epoch that begins where our log will soon end.
    coming: Option<EpochEntry>,
    /// The confirm offset that the master has sent last.
    confirm: u64,
}

impl AutoSwitchSlaveLink {
    /// A link that has just been connected, for a log that ends at `end`, as [`crate::SlaveLink::new`].
    /// [`Introduction::to_bytes`] is to be sent first, in one piece.
    #[must_use]
    pub fn new(end: u64, is_fresh: bool, timing: Timing, now_ms: u64) -> Self {
        Self {
            intake: Intake::new(end, is_fresh, timing, now_ms),
            state: State::Introducing([0; GREETING_LEN_BYTES], 0),
            last_epoch: None,
            coming: None,
            confirm: 0,
        }
    }

    /// How a slave introduces itself.
    #[must_use]
    pub fn introduction(who: Introduction) -> [u8; INTRODUCTION_LEN_BYTES] {
        who.to_bytes()
    }

    /// Notes that something came. To be called once for what was read, before
    /// [`AutoSwitchSlaveLink::feed`].
    pub fn read(&mut self, now_ms: u64) {
        self.intake.read(now_ms);
    }

    /// Takes the next piece off the front of `bytes`; `None` when all are taken. `epochs` are those of our
    /// log, with everything that came out of this before.
    ///
    /// # Errors
    /// The link is to be closed; [`LinkFault::CutNeeded`] where our log must be cut first.
    pub fn feed<'a>(
        &mut self,
        bytes: &mut &'a [u8],
        epochs: &EpochTable,
    ) -> Result<Option<Followed<'a>>, LinkFault> {
        loop {
            if let Some(entry) = self.coming.filter(|next| next.start <= self.intake.end()) {
                self.coming = None;
                self.last_epoch = Some(entry);
                return Ok(Some(Followed::Epoch(entry)));
            }
            if self.intake.is_in_body() {
                return Ok(self.intake.piece(bytes).map(Followed::Log));
            }
            match &mut self.state {
                State::Introducing(head, have) => {
                    if !fill(head, have, bytes) {
                        return Ok(None);
                    }
                    let head = GreetingHead::of(head)?;
                    self.state = State::Greeted(head, vec![0; head.len_bytes], 0);
                }
                State::Greeted(head, entries, have) => {
                    if !fill(entries, have, bytes) {
                        return Ok(None);
                    }
                    let (end, theirs) = (head.end, epochs_of(entries)?);
                    return self.agree(epochs, &theirs, end).map(Some);
                }
                State::Flowing(head, have) => {
                    if !fill(head, have, bytes) {
                        return Ok(None);
                    }
                    *have = 0;
                    let head = Transfer::of(head)?;
                    if let Some(begun) = self.begin_body(head)? {
                        return Ok(Some(begun));
                    }
                }
            }
        }
    }

    /// Compares the epochs of the two logs.
    fn agree(
        &mut self,
        ours: &EpochTable,
        theirs: &EpochTable,
        their_end: u64,
    ) -> Result<Followed<'static>, LinkFault> {
        self.state = State::Flowing([0; TRANSFER_LEN_BYTES], 0);
        let end = self.intake.end();
        // Who has reported to a master has its epoch, also where nothing of it was stored yet: a report lets
        // the sender be elected, and then its epochs show whom it has followed.
        let (at_end, _) = theirs.at(end).unzip();
        // Without epochs nothing is known of our log: it is empty, or was copied before there were some.
        if ours.last().is_none() {
            self.coming = at_end;
            return Ok(Followed::Agreed(None));
        }
        let (our_last, their_last) = (ours.last_epoch(), theirs.last_epoch());
        let common = match ours.consistent(end, theirs, their_end) {
            // Whoever is master has its own epoch, which is later than all before. A slave that was paused
            // may hear of one that was deposed meanwhile: what is cut for it, others have acknowledged.
            Some(_) if their_last < our_last => {
                return Err(LinkFault::OldMaster {
                    theirs: their_last,
                    ours: our_last,
                });
            }
            Some(common) => common,
            // Who led and stored nothing has nothing that anybody else lacks.
            None if end == 0 => {
                self.coming = at_end;
                return Ok(Followed::Agreed(Some(NO_EPOCH)));
            }
            None => {
                return Err(LinkFault::NoCommonEpoch {
                    theirs: their_last,
                    ours: our_last,
                });
            }
        };
        if common.offset < end {
            return Err(LinkFault::CutNeeded {
                offset: common.offset,
                epoch: common.epoch,
            });
        }
        let mut entries = ours.entries().iter();
        self.last_epoch = entries.rfind(|entry| entry.epoch <= common.epoch).copied();
        self.coming = at_end.filter(|entry| entry.epoch > common.epoch);
        Ok(Followed::Agreed(Some(common.epoch)))
    }

    /// Takes a header: what is to be done before its body, if anything.
    fn begin_body(&mut self, head: Transfer) -> Result<Option<Followed<'static>>, LinkFault> {
        let Some(offset) = head.offset else {
            // The master holds nothing, and is to be asked again.
            return Ok(None);
        };
        let begun = self.intake.announce(offset, head.len_bytes)?;
        self.confirm = self.confirm.max(head.confirm);
        let body_end = offset + u64::from(head.len_bytes);
        let last = self.last_epoch;
        // A heartbeat of an official master that does not know where it is names its first epoch.
        if last.is_none_or(|last| head.entry.epoch > last.epoch) {
            check_entry(head.entry, offset..body_end, last)?;
            self.coming = Some(head.entry);
        }
        Ok(begun.map(Followed::Log))
    }

    /// The report that is due, as [`crate::SlaveLink::report`]; none before the two logs agree.
    pub fn report(&mut self, held: u64, now_ms: u64) -> Option<[u8; AUTO_REPORT_LEN_BYTES]> {
        match self.state {
            State::Flowing(..) => self.intake.report(held, now_ms).map(auto_report),
            State::Introducing(..) | State::Greeted(..) => None,
        }
    }

    /// As [`crate::SlaveLink::wait_ms`]; before the logs agree nothing is reported, and no report is due.
    #[must_use]
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        match self.state {
            State::Flowing(..) => self.intake.wait_ms(now_ms),
            State::Introducing(..) | State::Greeted(..) => self.intake.silent_in_ms(now_ms),
        }
    }

    /// Whether something still comes from the master.
    ///
    /// # Errors
    /// [`LinkFault::Silent`].
    pub fn check(&self, now_ms: u64) -> Result<(), LinkFault> {
        self.intake.check(now_ms)
    }

    /// Up to where the log is confirmed, as the master has sent it; our log may end before.
    #[must_use]
    pub fn confirm(&self) -> u64 {
        self.confirm
    }

    /// End of what the master has announced.
    #[must_use]
    pub fn announced(&self) -> u64 {
        self.intake.announced()
    }

    /// What was reported last.
    #[must_use]
    pub fn reported(&self) -> Option<u64> {
        self.intake.reported()
    }
}

/// Looks whether a new epoch may be that of a body: it begins before the body, or, as an official master
/// names it, where the body ends.
fn check_entry(
    entry: EpochEntry,
    body: Range<u64>,
    last: Option<EpochEntry>,
) -> Result<(), LinkFault> {
    let EpochEntry { epoch, start } = entry;
    let is_behind = last.is_some() && start > body.end;
    let crosses = body.start < start && start < body.end;
    if epoch < 0 || is_behind || crosses || last.is_some_and(|last| start < last.start) {
        return Err(bad(format!(
            "the bytes from {} to {} are to be of epoch {epoch}, which begins at {start}",
            body.start, body.end
        )));
    }
    Ok(())
}
