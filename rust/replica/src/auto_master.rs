//! The link of a master to one slave in controller mode (`AutoSwitchHAConnection`): the slave introduces
//! itself, gets our epochs, cuts its log where it must, and asks to go on from its end. A body never
//! crosses an epoch, and carries its own: an official master names the next one in the last body of an epoch,
//! so that its slaves write down an epoch before they have the log up to its begin.

use crate::auto_switch::{
    AUTO_BODY_LEN_MAX_BYTES, AUTO_REPORT_LEN_BYTES, INTRODUCTION_LEN_BYTES, Introduction,
    STATE_HANDSHAKE, STATE_TRANSFER, Transfer, bad, greeting, int, long,
};
use crate::course::{Course, LogSpan, Standing, Step};
use crate::epochs::{EpochEntry, EpochTable};
use crate::fault::LinkFault;
use crate::flow::FlowLimit;
use crate::stream::Timing;

/// A slave that has everything learns of a higher confirm offset so soon, and not with the next heartbeat
/// only: until then nobody reads the end of its log.
pub const CONFIRM_HEARTBEAT_MS: u64 = 20;

/// What a master sends its log by: it changes while links are open.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What the log holds.
    pub log: LogSpan,
    /// Its epochs; without one nothing is sent yet.
    pub epochs: &'a EpochTable,
    /// The confirm offset.
    pub confirm: u64,
}

/// A master's side of a connection in controller mode.
#[derive(Debug)]
pub struct AutoSwitchMasterLink {
    course: Course,
    own_id: i64,
    partial: [u8; INTRODUCTION_LEN_BYTES],
    partial_len: usize,
    slave: Option<Introduction>,
    is_greeted: bool,
    /// The confirm offset that the slave knows.
    announced_confirm: u64,
}

impl AutoSwitchMasterLink {
    /// A link that was just accepted, of a master with the id `own_id`. A body has `batch_len_bytes` at the
    /// most.
    #[must_use]
    pub fn new(
        own_id: i64,
        timing: Timing,
        batch_len_bytes: usize,
        flow: FlowLimit,
        now_ms: u64,
    ) -> Self {
        let batch_len_bytes = batch_len_bytes.clamp(1, AUTO_BODY_LEN_MAX_BYTES);
        Self {
            course: Course::new(timing, batch_len_bytes, flow, now_ms),
            own_id,
            partial: [0; INTRODUCTION_LEN_BYTES],
            partial_len: 0,
            slave: None,
            is_greeted: false,
            announced_confirm: 0,
        }
    }

    /// Takes what came.
    ///
    /// # Errors
    /// The link is to be closed.
    pub fn feed(&mut self, mut bytes: &[u8], log: LogSpan, now_ms: u64) -> Result<(), LinkFault> {
        self.course.read(now_ms);
        while let Some((&first, rest)) = bytes.split_first() {
            if let Some(into) = self.partial.get_mut(self.partial_len) {
                *into = first;
            }
            self.partial_len += 1;
            bytes = rest;
            if self.partial_len == self.frame_len()? {
                self.partial_len = 0;
                self.take(log, now_ms)?;
            }
        }
        Ok(())
    }

    /// How long the frame is that is coming.
    fn frame_len(&self) -> Result<usize, LinkFault> {
        if self.partial_len < 4 {
            return Ok(AUTO_REPORT_LEN_BYTES);
        }
        match int(&self.partial, 0) {
            STATE_HANDSHAKE => Ok(INTRODUCTION_LEN_BYTES),
            STATE_TRANSFER => Ok(AUTO_REPORT_LEN_BYTES),
            state => Err(bad(format!(
                "a frame of a slave begins with {state}, not with 1 or 2"
            ))),
        }
    }

    /// Takes a whole frame.
    fn take(&mut self, log: LogSpan, now_ms: u64) -> Result<(), LinkFault> {
        if int(&self.partial, 0) == STATE_HANDSHAKE {
            return self.introduce(Introduction::of(&self.partial));
        }
        let Some(slave) = self.slave.filter(|_| self.is_greeted) else {
            return Err(bad("the slave reports before it was greeted"));
        };
        let reported = long(&self.partial, 4);
        let reported =
            u64::try_from(reported).map_err(|_| LinkFault::NegativeReport { reported })?;
        if self.course.requested().is_none() {
            let fresh = if slave.from_last_file {
                log.last_file()
            } else {
                log.start
            };
            self.course.begin(reported, fresh, log)?;
        }
        self.course.acknowledge(reported, log, now_ms)
    }

    fn introduce(&mut self, slave: Introduction) -> Result<(), LinkFault> {
        if slave.id <= 0 || slave.id == self.own_id {
            return Err(LinkFault::BadId { id: slave.id });
        }
        match self.slave {
            None => self.slave = Some(slave),
            // An official slave introduces itself again while the greeting has not come whole.
            Some(known) if known == slave && self.course.requested().is_none() => {}
            Some(_) => return Err(bad("the slave introduces itself once more")),
        }
        Ok(())
    }

    /// How the slave has introduced itself.
    #[must_use]
    pub fn slave(&self) -> Option<Introduction> {
        self.slave
    }

    /// The greeting, where it is due: it is to be sent before anything else.
    pub fn greeting(&mut self, source: Source<'_>, now_ms: u64) -> Option<Vec<u8>> {
        let is_due = self.slave.is_some() && !self.is_greeted && source.epochs.last().is_some();
        is_due.then(|| {
            self.is_greeted = true;
            self.course.sent(0, now_ms);
            greeting(source.epochs, source.log.end)
        })
    }

    /// What the slave reported last; `None` before its first report.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u64> {
        self.course.acknowledged()
    }

    /// What is to be done now. What is to be sent is of one epoch: [`AutoSwitchMasterLink::head`] is that of
    /// its bodies.
    pub fn step(&mut self, source: Source<'_>, now_ms: u64) -> Step {
        let step = self.course.step(source.log.end, now_ms);
        match step {
            Step::Send {
                offset,
                len_max,
                body_len_max,
            } => {
                let (_, end) = entry_at(source.epochs, offset);
                let left = end.map_or(u64::MAX, |end| end.saturating_sub(offset));
                Step::Send {
                    offset,
                    len_max: len_max.min(usize::try_from(left).unwrap_or(usize::MAX)),
                    body_len_max,
                }
            }
            Step::Wait { wait_ms } if self.must_announce_confirm(source.confirm) => {
                let due_ms = self.course.heartbeat_in_ms(CONFIRM_HEARTBEAT_MS, now_ms);
                if due_ms == 0 {
                    let offset = self.course.sent_end();
                    return Step::Heartbeat { offset };
                }
                Step::Wait {
                    wait_ms: wait_ms.min(due_ms),
                }
            }
            step => step,
        }
    }

    /// Whether the slave has something that it does not know to be confirmed.
    fn must_announce_confirm(&self, confirm: u64) -> bool {
        let acknowledged = self.course.acknowledged();
        acknowledged.is_some_and(|end| confirm.min(end) > self.announced_confirm)
    }

    /// The header of what [`AutoSwitchMasterLink::step`] wants to be sent from `offset` on, for a body of
    /// `len_bytes`.
    pub fn head(&mut self, source: Source<'_>, offset: u64, len_bytes: u32) -> Transfer {
        self.announced_confirm = source.confirm;
        let (entry, _) = entry_at(source.epochs, offset);
        Transfer {
            len_bytes,
            offset: Some(offset),
            entry,
            confirm: source.confirm,
        }
    }

    /// Bodies with so many bytes of the log together, or a heartbeat, go out.
    pub fn sent(&mut self, len_bytes: u64, now_ms: u64) {
        self.course.sent(len_bytes, now_ms);
    }

    /// As [`crate::MasterLink::reports_soon`].
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

/// Who wrote the byte at `offset`, and where that ends. What is before the first entry is of the first, too:
/// its entry went with older files.
fn entry_at(epochs: &EpochTable, offset: u64) -> (EpochEntry, Option<u64>) {
    epochs.at(offset).unwrap_or_else(|| {
        let first = epochs.entries().first().copied();
        let entry = first.unwrap_or(EpochEntry { epoch: 0, start: 0 });
        (entry, first.map(|first| first.start))
    })
}
