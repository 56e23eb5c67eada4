//! The frames between a slave and a master of ours while whole files of the log are copied, and which file is
//! next. A master of RocketMQ is never spoken to in this way: whether a master knows it is asked before.
//!
//! | frame | bytes |
//! |---|---|
//! | slave and master, greeting | [`GREETING`]: no offset of classic replication, and no frame of controller mode |
//! | slave, request | i32 what is wanted, i64 where the file begins, i64 from where on files are still needed |
//! | master, answer | i32 0 or 1 (the file is gone), i32 epochs, i64 begin, i64 end, i64 length of a file, then i32 epoch, i64 start of each |
//!
//! Begin and end are those of the file; of a list those of all whole files that may be copied. Behind the
//! answer to a copy come the bytes of the file and their hash; behind that to a hash the hash.

use std::collections::BTreeSet;

use crate::auto_switch::ENTRY_LEN_BYTES;
use crate::epochs::EpochEntry;
use crate::fault::LinkFault;

/// What both sides begin with. As a report of a slave it would be negative.
pub const GREETING: [u8; 8] = *b"\xffmqfill1";
/// What a slave in classic replication that holds nothing sends before its first report: it begins with the first
/// byte of the log, and not with the last file. A master that gives files understands it.
pub const FROM_START: [u8; 8] = *b"\xffmqfrom1";
/// Bytes of a request.
pub const REQUEST_LEN_BYTES: usize = 4 + 8 + 8;
/// Bytes of an answer before its epochs.
pub const ANSWER_LEN_BYTES: usize = 4 + 4 + 8 + 8 + 8;
/// Bytes of a hash.
pub const HASH_LEN_BYTES: usize = 16;
/// Epochs that an answer has at the most: as many as a table of an official broker is sent with.
pub const EPOCHS_MAX: usize = 1000;

const OK: i32 = 0;
const GONE: i32 = 1;

/// What a slave wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Which files there are.
    List,
    /// A file.
    Copy,
    /// The hash of a file.
    Hash,
}

/// What a slave asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub wanted: Wanted,
    /// Where the file begins; 0 for a list.
    pub base: u64,
    /// From where on files are still needed.
    pub needed_from: u64,
}

impl Request {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let wanted: i32 = match self.wanted {
            Wanted::List => 1,
            Wanted::Copy => 2,
            Wanted::Hash => 3,
        };
        let mut bytes = wanted.to_be_bytes().to_vec();
        bytes.extend(self.base.to_be_bytes());
        bytes.extend(self.needed_from.to_be_bytes());
        bytes
    }

    /// The request that `bytes` are.
    ///
    /// # Errors
    /// [`LinkFault::BadFrame`].
    pub fn of(bytes: &[u8; REQUEST_LEN_BYTES]) -> Result<Self, LinkFault> {
        let wanted = match int(bytes, 0) {
            1 => Wanted::List,
            2 => Wanted::Copy,
            3 => Wanted::Hash,
            other => return Err(bad(format!("a request for {other}"))),
        };
        Ok(Self {
            wanted,
            base: offset(bytes, 4)?,
            needed_from: offset(bytes, 12)?,
        })
    }
}

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether the file is there.
    pub is_there: bool,
    /// Epochs that follow.
    pub epochs: usize,
    /// Where the file begins, or the first one.
    pub start: u64,
    /// Where it ends, or the last one.
    pub end: u64,
    /// The length of a file.
    pub file_len_bytes: u64,
}

impl Answer {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let status = if self.is_there { OK } else { GONE };
        let epochs = i32::try_from(self.epochs).unwrap_or(0);
        let mut bytes = [status.to_be_bytes(), epochs.to_be_bytes()].concat();
        for number in [self.start, self.end, self.file_len_bytes] {
            bytes.extend(number.to_be_bytes());
        }
        bytes
    }

    /// The answer that `bytes` are.
    ///
    /// # Errors
    /// [`LinkFault::BadFrame`].
    pub fn of(bytes: &[u8; ANSWER_LEN_BYTES]) -> Result<Self, LinkFault> {
        let status = int(bytes, 0);
        let epochs = usize::try_from(int(bytes, 4)).unwrap_or(usize::MAX);
        let (start, end) = (offset(bytes, 8)?, offset(bytes, 16)?);
        let file_len_bytes = offset(bytes, 24)?;
        if !matches!(status, OK | GONE) || epochs > EPOCHS_MAX || end < start {
            let why = format!("an answer {status} with {epochs} epochs, from {start} to {end}");
            return Err(bad(why));
        }
        Ok(Self {
            is_there: status == OK,
            epochs,
            start,
            end,
            file_len_bytes,
        })
    }
}

/// The bytes of epochs, behind an answer.
#[must_use]
pub fn epochs_to_bytes(entries: &[EpochEntry]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY_LEN_BYTES);
    for entry in entries {
        bytes.extend(entry.epoch.to_be_bytes());
        bytes.extend(entry.start.to_be_bytes());
    }
    bytes
}

fn bad(why: String) -> LinkFault {
    LinkFault::BadFrame { why }
}

fn int(bytes: &[u8], at: usize) -> i32 {
    let found = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    i32::from_be_bytes(found.unwrap_or_default())
}

fn offset(bytes: &[u8], at: usize) -> Result<u64, LinkFault> {
    let found = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    let number = i64::from_be_bytes(found.unwrap_or_default());
    u64::try_from(number).map_err(|_| bad(format!("{number} as a place in the log")))
}

/// Which files are copied, by whom several ask at once: each once, in order, and no more ahead of the log
/// than a bound.
#[derive(Debug, Clone)]
pub struct RefillPlan {
    file_len_bytes: u64,
    ahead_max: u64,
    /// Where the log ends: the next file to be taken into it.
    log_end: u64,
    /// The next file to be given out.
    next: u64,
    /// Behind the last file.
    end: u64,
    /// Given back: to be given out before all others.
    again: BTreeSet<u64>,
    /// Copied, and not yet in the log.
    copied: BTreeSet<u64>,
}

impl RefillPlan {
    /// For a log that ends at `log_end`, or holds nothing (0), of the files that `list` names; with
    /// `ahead_max` files under way or waiting at the most.
    ///
    /// # Errors
    /// Why the two logs do not fit, in words.
    pub fn new(
        log_end: u64,
        file_len_bytes: u64,
        list: Answer,
        ahead_max: u64,
    ) -> Result<Self, String> {
        if list.file_len_bytes != file_len_bytes {
            return Err(format!(
                "files of the master have {} bytes, and ours {file_len_bytes}: set \
                 mappedFileSizeCommitLog as the master has it",
                list.file_len_bytes
            ));
        }
        let from = if log_end == 0 { list.start } else { log_end };
        if from < list.start {
            return Err(format!(
                "our log ends at {from}, and the master's begins at {}: what is between was removed",
                list.start
            ));
        }
        Ok(Self {
            file_len_bytes,
            ahead_max,
            log_end: from,
            next: from,
            end: list.end.max(from),
            again: BTreeSet::new(),
            copied: BTreeSet::new(),
        })
    }

    /// The master has whole files up to `end` by now.
    pub fn grow_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// The file that is to be copied next; `None` where there is none, or others are to come first.
    pub fn take(&mut self) -> Option<u64> {
        if let Some(base) = self.again.pop_first() {
            return Some(base);
        }
        let ahead = (self.next - self.log_end) / self.file_len_bytes;
        if self.next >= self.end || ahead >= self.ahead_max {
            return None;
        }
        let base = self.next;
        self.next += self.file_len_bytes;
        Some(base)
    }

    /// A file that was given out was not copied.
    pub fn give_back(&mut self, base: u64) {
        self.again.insert(base);
    }

    /// A file was copied.
    pub fn note_copied(&mut self, base: u64) {
        self.copied.insert(base);
    }

    /// The file that is to be taken into the log next, where it was copied.
    #[must_use]
    pub fn ready(&self) -> Option<u64> {
        self.copied
            .first()
            .copied()
            .filter(|base| *base == self.log_end)
    }

    /// It was taken.
    pub fn note_taken(&mut self, base: u64) {
        self.copied.remove(&base);
        self.log_end = base + self.file_len_bytes;
    }

    /// Where the log ends.
    #[must_use]
    pub fn log_end(&self) -> u64 {
        self.log_end
    }

    /// Behind the last file that is known.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether the log has all of them.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.log_end >= self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: Answer = Answer {
        is_there: true,
        epochs: 2,
        start: 2_000,
        end: 6_000,
        file_len_bytes: 1_000,
    };

    #[test]
    fn frames_come_back_as_they_were_and_others_are_refused() {
        for wanted in [Wanted::List, Wanted::Copy, Wanted::Hash] {
            let request = Request {
                wanted,
                base: 4_000,
                needed_from: 3_000,
            };
            let bytes: [u8; REQUEST_LEN_BYTES] = request.to_bytes().try_into().unwrap();
            assert_eq!(Request::of(&bytes), Ok(request));
        }
        assert!(Request::of(&[0xff; REQUEST_LEN_BYTES]).is_err());
        for is_there in [true, false] {
            let answer = Answer { is_there, ..LIST };
            let bytes: [u8; ANSWER_LEN_BYTES] = answer.to_bytes().try_into().unwrap();
            assert_eq!(Answer::of(&bytes), Ok(answer));
        }
        let wrong = [
            Answer { end: 1_999, ..LIST },
            Answer {
                epochs: EPOCHS_MAX + 1,
                ..LIST
            },
        ];
        for answer in wrong {
            let bytes: [u8; ANSWER_LEN_BYTES] = answer.to_bytes().try_into().unwrap();
            assert!(Answer::of(&bytes).is_err());
        }
        for greeting in [GREETING, FROM_START] {
            assert!(i64::from_be_bytes(greeting) < 0, "no report of a slave");
        }
    }

    #[test]
    fn files_are_given_out_once_in_order_and_not_too_far_ahead() {
        let mut plan = RefillPlan::new(0, 1_000, LIST, 2).unwrap();
        assert_eq!(
            (plan.take(), plan.take(), plan.take()),
            (Some(2_000), Some(3_000), None)
        );
        plan.note_copied(3_000);
        assert_eq!(plan.ready(), None, "the one before it is not there");
        plan.give_back(2_000);
        assert_eq!(plan.take(), Some(2_000));
        plan.note_copied(2_000);
        for base in [2_000, 3_000] {
            assert_eq!(plan.ready(), Some(base));
            plan.note_taken(base);
        }
        assert_eq!((plan.ready(), plan.log_end()), (None, 4_000));
        for base in [4_000, 5_000] {
            assert_eq!(plan.take(), Some(base));
            plan.note_copied(base);
            plan.note_taken(base);
        }
        assert!(plan.is_over() && plan.take().is_none());
        plan.grow_to(7_000);
        assert!(!plan.is_over());
        assert_eq!(plan.take(), Some(6_000));
    }

    #[test]
    fn a_log_goes_on_where_it_ends_or_is_refused_in_words() {
        assert_eq!(
            RefillPlan::new(3_000, 1_000, LIST, 9).unwrap().take(),
            Some(3_000)
        );
        assert!(RefillPlan::new(6_000, 1_000, LIST, 9).unwrap().is_over());
        assert!(RefillPlan::new(8_000, 1_000, LIST, 9).unwrap().is_over());
        let old = RefillPlan::new(1_000, 1_000, LIST, 9).unwrap_err();
        assert!(
            old.contains("ends at 1000, and the master's begins at 2000"),
            "{old}"
        );
        let other = RefillPlan::new(0, 500, LIST, 9).unwrap_err();
        assert!(other.contains("mappedFileSizeCommitLog"));
    }
}
