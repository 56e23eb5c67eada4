//! A master's link in either dialect, as a peer drives it: what to do next, and the bytes before each body.

use mqcore_replica::auto_switch::TRANSFER_LEN_BYTES;
use mqcore_replica::stream::HEADER_LEN_BYTES;
use mqcore_replica::{
    AutoSwitchMasterLink, Connected, Header, LinkFault, LogSpan, MasterLink, Source, Standing, Step,
};

/// A link of a master to one slave.
pub(crate) enum Link {
    /// As `DefaultHAService` speaks.
    Classic(MasterLink),
    /// As `AutoSwitchHAService` speaks.
    AutoSwitch(Box<AutoSwitchMasterLink>),
}

impl Link {
    pub(crate) fn feed(&mut self, came: &[u8], log: LogSpan, now_ms: u64) -> Result<(), LinkFault> {
        match self {
            Self::Classic(link) => link.feed(came, log, now_ms),
            Self::AutoSwitch(link) => link.feed(came, log, now_ms),
        }
    }

    /// A slave that holds nothing has asked for the log from its first byte on: under a controller it is asked
    /// for in the introduction.
    pub(crate) fn begin_early(&mut self) {
        if let Self::Classic(link) = self {
            link.begin_early();
        }
    }

    /// What goes out before anything else, where it is due.
    pub(crate) fn greeting(&mut self, source: Source<'_>, now_ms: u64) -> Option<Vec<u8>> {
        match self {
            Self::Classic(_) => None,
            Self::AutoSwitch(link) => link.greeting(source, now_ms),
        }
    }

    pub(crate) fn step(&mut self, source: Source<'_>, now_ms: u64) -> Step {
        match self {
            Self::Classic(link) => link.step(source.log.end, now_ms),
            Self::AutoSwitch(link) => link.step(source, now_ms),
        }
    }

    /// The length of a header.
    pub(crate) fn head_len(&self) -> usize {
        match self {
            Self::Classic(_) => HEADER_LEN_BYTES,
            Self::AutoSwitch(_) => TRANSFER_LEN_BYTES,
        }
    }

    /// Puts the header of a body of `len_bytes` from `offset` on behind `heads`.
    pub(crate) fn put_head(
        &mut self,
        source: Source<'_>,
        (offset, len_bytes): (u64, u32),
        heads: &mut Vec<u8>,
    ) {
        match self {
            Self::Classic(_) => heads.extend(Header { offset, len_bytes }.to_bytes()),
            Self::AutoSwitch(link) => {
                heads.extend(link.head(source, offset, len_bytes).to_bytes());
            }
        }
    }

    pub(crate) fn sent(&mut self, len_bytes: u64, now_ms: u64) {
        match self {
            Self::Classic(link) => link.sent(len_bytes, now_ms),
            Self::AutoSwitch(link) => link.sent(len_bytes, now_ms),
        }
    }

    pub(crate) fn acknowledged(&self) -> Option<u64> {
        match self {
            Self::Classic(link) => link.acknowledged(),
            Self::AutoSwitch(link) => link.acknowledged(),
        }
    }

    pub(crate) fn reports_soon(&self, now_ms: u64) -> bool {
        match self {
            Self::Classic(link) => link.reports_soon(now_ms),
            Self::AutoSwitch(link) => link.reports_soon(now_ms),
        }
    }

    pub(crate) fn check(&self, now_ms: u64) -> Result<(), LinkFault> {
        match self {
            Self::Classic(link) => link.check(now_ms),
            Self::AutoSwitch(link) => link.check(now_ms),
        }
    }

    pub(crate) fn standing(&mut self, end: u64, now_ms: u64) -> Standing {
        match self {
            Self::Classic(link) => link.standing(end, now_ms),
            Self::AutoSwitch(link) => link.standing(end, now_ms),
        }
    }

    /// The id of the slave, once it has introduced itself, and whether it is a learner.
    pub(crate) fn identity(&self) -> Option<(i64, bool)> {
        match self {
            Self::Classic(_) => None,
            Self::AutoSwitch(link) => link.slave().map(|slave| (slave.id, slave.is_learner)),
        }
    }

    /// The slave as one who may be in the sync-state set.
    pub(crate) fn connected(&mut self, end: u64, now_ms: u64) -> Option<Connected> {
        let (id, is_learner) = self.identity()?;
        Some(Connected {
            id,
            is_learner,
            reported: self.acknowledged(),
            lag_ms: self.standing(end, now_ms).lag_ms,
        })
    }
}
