//! The frames of controller mode (`AutoSwitchHAConnection`, `AutoSwitchHAClient`). All numbers are big endian
//! and signed.
//!
//! | frame | bytes |
//! |---|---|
//! | slave, introduction | i32 1, i16 whether it begins with the last file, i16 whether it is a learner, i64 its id |
//! | slave, report | i32 2, i64 end of its log |
//! | master, greeting | i32 1, i32 bytes of what follows, i64 end of its log, i32 last epoch (-1: none), then i32 epoch, i64 start of each |
//! | master, transfer | i32 2, i32 bytes of the body, i64 offset, i32 epoch, i64 start of the epoch, i64 confirm offset, the body |
//!
//! An official master looks at twelve bytes and reads the id behind them, too: an introduction is to be
//! written at once.

use crate::epochs::{EpochEntry, EpochTable};
use crate::fault::LinkFault;

/// The first number of a frame before logs are compared.
pub const STATE_HANDSHAKE: i32 = 1;
/// The first number of a frame once the log flows.
pub const STATE_TRANSFER: i32 = 2;
/// Bytes of a slave's introduction.
pub const INTRODUCTION_LEN_BYTES: usize = 4 + 2 + 2 + 8;
/// Bytes of a slave's report.
pub const AUTO_REPORT_LEN_BYTES: usize = 4 + 8;
/// Bytes of a master's greeting, without its epochs.
pub const GREETING_LEN_BYTES: usize = 4 + 4 + 8 + 4;
/// Bytes of a master's header of a transfer.
pub const TRANSFER_LEN_BYTES: usize = 4 + 4 + 8 + 4 + 8 + 8;
/// Bytes of an epoch in a greeting.
pub const ENTRY_LEN_BYTES: usize = 4 + 8;
/// Epochs that an official master has space for in a greeting; ours sends the last ones.
pub const ENTRIES_SENT_MAX: usize = 1000;
/// What an official slave has space for: no frame is longer.
pub const FRAME_LEN_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The longest body that may be sent.
pub const AUTO_BODY_LEN_MAX_BYTES: usize = FRAME_LEN_MAX_BYTES - TRANSFER_LEN_BYTES - 1;

/// How a slave introduces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Introduction {
    /// The id that its controller gave it.
    pub id: i64,
    /// Where its log holds nothing: whether it begins with the last file (`syncFromLastFile`).
    pub from_last_file: bool,
    /// Whether it is never to be in the sync-state set (`asyncLearner`).
    pub is_learner: bool,
}

impl Introduction {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; INTRODUCTION_LEN_BYTES] {
        let mut bytes = [0; INTRODUCTION_LEN_BYTES];
        let mut out = Put(&mut bytes);
        out.int(STATE_HANDSHAKE);
        out.put(&i16::from(self.from_last_file).to_be_bytes());
        out.put(&i16::from(self.is_learner).to_be_bytes());
        out.long(self.id);
        bytes
    }

    /// The introduction that `bytes` are, whose first number was looked at.
    #[must_use]
    pub fn of(bytes: &[u8; INTRODUCTION_LEN_BYTES]) -> Self {
        Self {
            from_last_file: bytes.get(4..6) == Some(&[0, 1]),
            is_learner: bytes.get(6..8) == Some(&[0, 1]),
            id: long(bytes, 8),
        }
    }
}

/// The bytes of a report.
#[must_use]
pub fn auto_report(end: u64) -> [u8; AUTO_REPORT_LEN_BYTES] {
    let mut bytes = [0; AUTO_REPORT_LEN_BYTES];
    let mut out = Put(&mut bytes);
    out.int(STATE_TRANSFER);
    out.put(&end.to_be_bytes());
    bytes
}

/// The bytes of a greeting: where the master's log ends, and its epochs.
#[must_use]
pub fn greeting(epochs: &EpochTable, end: u64) -> Vec<u8> {
    let all = epochs.entries();
    let sent = all
        .get(all.len().saturating_sub(ENTRIES_SENT_MAX)..)
        .unwrap_or_default();
    let mut bytes = Vec::with_capacity(GREETING_LEN_BYTES + ENTRY_LEN_BYTES * sent.len());
    bytes.extend(STATE_HANDSHAKE.to_be_bytes());
    let len_bytes = u32::try_from(ENTRY_LEN_BYTES * sent.len()).unwrap_or(0);
    bytes.extend(len_bytes.to_be_bytes());
    bytes.extend(end.to_be_bytes());
    bytes.extend(epochs.last_epoch().to_be_bytes());
    for EpochEntry { epoch, start } in sent {
        bytes.extend(epoch.to_be_bytes());
        bytes.extend(start.to_be_bytes());
    }
    bytes
}

/// The first bytes of a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreetingHead {
    /// Bytes of the epochs that follow.
    pub len_bytes: usize,
    /// End of the master's log.
    pub end: u64,
}

impl GreetingHead {
    /// The head that `bytes` are.
    ///
    /// # Errors
    /// [`LinkFault::BadFrame`].
    pub fn of(bytes: &[u8; GREETING_LEN_BYTES]) -> Result<Self, LinkFault> {
        let state = int(bytes, 0);
        if state != STATE_HANDSHAKE {
            return Err(bad(format!("a greeting begins with {state}")));
        }
        let (len, end) = (int(bytes, 4), long(bytes, 8));
        let len_bytes = usize::try_from(len).ok().filter(|len| {
            len.is_multiple_of(ENTRY_LEN_BYTES) && len + GREETING_LEN_BYTES <= FRAME_LEN_MAX_BYTES
        });
        match (len_bytes, u64::try_from(end)) {
            (Some(len_bytes), Ok(end)) => Ok(Self { len_bytes, end }),
            _ => Err(bad(format!(
                "a greeting of {len} bytes, of a log that ends at {end}"
            ))),
        }
    }
}

/// The epochs of a greeting.
///
/// # Errors
/// [`LinkFault::BadFrame`].
pub fn epochs_of(bytes: &[u8]) -> Result<EpochTable, LinkFault> {
    let mut entries = Vec::with_capacity(bytes.len() / ENTRY_LEN_BYTES);
    for entry in bytes.chunks_exact(ENTRY_LEN_BYTES) {
        let start = long(entry, 4);
        let start = u64::try_from(start).map_err(|_| bad(format!("an epoch from {start}")))?;
        entries.push(EpochEntry {
            epoch: int(entry, 0),
            start,
        });
    }
    EpochTable::of(entries).map_err(bad)
}

/// What a master sends before each body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes of the body; 0 for a heartbeat.
    pub len_bytes: u32,
    /// Physical offset of the first byte of the body; `None` in a heartbeat of a master that holds nothing
    /// (-1).
    pub offset: Option<u64>,
    /// Who wrote the body. An official master names the next epoch in the last body of one.
    pub entry: EpochEntry,
    /// The confirm offset of the master.
    pub confirm: u64,
}

impl Transfer {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; TRANSFER_LEN_BYTES] {
        let mut bytes = [0; TRANSFER_LEN_BYTES];
        let mut out = Put(&mut bytes);
        out.int(STATE_TRANSFER);
        out.put(&self.len_bytes.to_be_bytes());
        out.long(self.offset.map_or(-1, u64::cast_signed));
        out.int(self.entry.epoch);
        out.put(&self.entry.start.to_be_bytes());
        out.put(&self.confirm.to_be_bytes());
        bytes
    }

    /// The header that `bytes` are.
    ///
    /// # Errors
    /// [`LinkFault::BadFrame`].
    pub fn of(bytes: &[u8; TRANSFER_LEN_BYTES]) -> Result<Self, LinkFault> {
        let (state, len) = (int(bytes, 0), int(bytes, 4));
        let (offset, start, confirm) = (long(bytes, 8), long(bytes, 20), long(bytes, 28));
        let len_bytes = u32::try_from(len)
            .ok()
            .filter(|len| *len as usize + TRANSFER_LEN_BYTES <= FRAME_LEN_MAX_BYTES);
        let physical_offset = u64::try_from(offset).ok();
        let is_heartbeat = len == 0 && offset == -1;
        match (state, len_bytes, u64::try_from(start)) {
            (STATE_TRANSFER, Some(len_bytes), Ok(start))
                if physical_offset.is_some() || is_heartbeat =>
            {
                Ok(Self {
                    len_bytes,
                    offset: physical_offset,
                    entry: EpochEntry {
                        epoch: int(bytes, 16),
                        start,
                    },
                    // A broker that was started a moment ago has none yet: -1.
                    confirm: u64::try_from(confirm).unwrap_or(0),
                })
            }
            _ => Err(bad(format!(
                "state {state}, {len} bytes for offset {offset}, of an epoch from {start}"
            ))),
        }
    }
}

pub(crate) fn bad(why: impl Into<String>) -> LinkFault {
    LinkFault::BadFrame { why: why.into() }
}

/// The number of four bytes at `at`.
pub(crate) fn int(bytes: &[u8], at: usize) -> i32 {
    let bytes = bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    i32::from_be_bytes(bytes.unwrap_or_default())
}

/// The number of eight bytes at `at`.
pub(crate) fn long(bytes: &[u8], at: usize) -> i64 {
    let bytes = bytes
        .get(at..at + 8)
        .and_then(|bytes| bytes.try_into().ok());
    i64::from_be_bytes(bytes.unwrap_or_default())
}

/// Puts numbers behind one another into a frame that is as long as they are.
struct Put<'a>(&'a mut [u8]);

impl Put<'_> {
    fn int(&mut self, number: i32) {
        self.put(&number.to_be_bytes());
    }

    fn long(&mut self, number: i64) {
        self.put(&number.to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some((into, rest)) = std::mem::take(&mut self.0).split_at_mut_checked(bytes.len()) {
            into.copy_from_slice(bytes);
            self.0 = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_official_classes() {
        let introduction = Introduction {
            id: 7,
            from_last_file: true,
            is_learner: false,
        };
        let bytes = introduction.to_bytes();
        assert_eq!(bytes, [0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(Introduction::of(&bytes), introduction);
        assert_eq!(auto_report(513), [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 1]);
        let transfer = Transfer {
            len_bytes: 3,
            offset: Some(0x0102),
            entry: EpochEntry { epoch: 4, start: 5 },
            confirm: 6,
        };
        let bytes = transfer.to_bytes();
        let expected = [
            0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0,
            0, 0, 0, 0, 0, 0, 6,
        ];
        assert_eq!(bytes, expected);
        assert_eq!(Transfer::of(&bytes), Ok(transfer));
    }

    #[test]
    fn a_greeting_carries_the_last_thousand_epochs() {
        let entry = |epoch: i32| EpochEntry {
            epoch,
            start: 10 * epoch as u64,
        };
        let table = EpochTable::of((0..1_200).map(entry).collect()).unwrap();
        let bytes = greeting(&table, 99);
        let head = GreetingHead::of(bytes[..GREETING_LEN_BYTES].try_into().unwrap()).unwrap();
        assert_eq!((head.end, head.len_bytes), (99, 12_000));
        let epochs = epochs_of(&bytes[GREETING_LEN_BYTES..]).unwrap();
        assert_eq!(epochs.entries(), &table.entries()[200..]);
        assert_eq!(bytes.len(), GREETING_LEN_BYTES + head.len_bytes);
    }

    #[test]
    fn frames_with_impossible_numbers_are_refused() {
        let good = Transfer {
            len_bytes: 0,
            offset: None,
            entry: EpochEntry { epoch: 1, start: 0 },
            confirm: 0,
        };
        assert_eq!(Transfer::of(&good.to_bytes()), Ok(good));
        let mut body = good.to_bytes();
        body[7] = 1;
        assert!(Transfer::of(&body).is_err(), "a body without a place");
        let mut long = good.to_bytes();
        long[4..8].copy_from_slice(&(FRAME_LEN_MAX_BYTES as i32).to_be_bytes());
        assert!(Transfer::of(&long).is_err());
        let mut handshake = good.to_bytes();
        handshake[3] = 1;
        assert!(Transfer::of(&handshake).is_err());
        let mut greeting = greeting(&EpochTable::default(), 5);
        greeting[7] = 11;
        assert!(GreetingHead::of(greeting[..].try_into().unwrap()).is_err());
        assert!(
            epochs_of(&[[0, 0, 0, 2], [0; 4], [0; 4], [0, 0, 0, 1], [0; 4], [0; 4]].concat())
                .is_err()
        );
        assert!(epochs_of(&[[0, 0, 0, 2], [0xff; 4], [0xff; 4]].concat()).is_err());
    }
}
