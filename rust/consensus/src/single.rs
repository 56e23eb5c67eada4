//! One controller: an entry that is durable in its log is agreed on. A raft of one without its messages.
//!
//! Records of the log: a kind (1 byte), the number of the last entry behind it (8 bytes, big-endian), and
//! an entry (kind 1) or a whole state (kind 2, always the first record where it is there).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mqcore_engine::disk::Disk;
use mqcore_engine::error::Error;

use crate::journal::{FILE_NAME, Journal, RECORD_BYTES_MAX};
use crate::node::{Consensus, ConsensusError, Machine, Standing};

const ENTRY: u8 = 1;
const SNAPSHOT: u8 = 2;
/// Kind and number.
const HEAD_BYTES: usize = 1 + 8;
/// The log is replaced by a snapshot when this much was appended to it: some ten thousand entries.
const APPENDED_BYTES_MAX: u64 = 4 << 20;

/// A log, and the state that it leads to.
pub struct Single<D: Disk, M: Machine> {
    // The order of locks: the log, then the state.
    log: Mutex<Log<D>>,
    state: Mutex<State<M>>,
}

struct Log<D: Disk> {
    journal: Journal<D>,
    snapshot_len_bytes: u64,
    appended_bytes_max: u64,
}

struct State<M> {
    machine: M,
    applied: u64,
    failure: Option<String>,
}

impl<D: Disk, M: Machine> Single<D, M> {
    /// Opens the log of a directory, and applies it to a state that is empty.
    ///
    /// # Errors
    /// As [`Journal::open`]; [`Error::ForeignFile`] where an entry cannot be understood.
    ///
    /// # Blocking
    /// Reads and writes the disk.
    pub fn open(disk: D, dir: &Path, machine: M) -> Result<Self, ConsensusError> {
        Self::with_bound(disk, dir, machine, APPENDED_BYTES_MAX)
    }

    fn with_bound(
        disk: D,
        dir: &Path,
        machine: M,
        appended_bytes_max: u64,
    ) -> Result<Self, ConsensusError> {
        let (journal, records) = Journal::open(disk, dir)?;
        let mut state = State {
            machine,
            applied: 0,
            failure: None,
        };
        for (at, record) in records.iter().enumerate() {
            state.replay(at, record).map_err(|why| Error::ForeignFile {
                path: dir.join(FILE_NAME),
                why: format!("its record {} cannot be understood: {why}", at + 1),
            })?;
        }
        let mut log = Log {
            journal,
            snapshot_len_bytes: 0,
            appended_bytes_max,
        };
        log.replace(&state.snapshot())?;
        Ok(Self {
            log: Mutex::new(log),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk, M: Machine> Consensus<M> for Single<D, M> {
    fn propose(&self, entry: &[u8]) -> Result<M::Answer, ConsensusError> {
        let max_bytes = RECORD_BYTES_MAX - HEAD_BYTES;
        if entry.len() > max_bytes {
            return Err(ConsensusError::TooLong {
                len_bytes: entry.len(),
                max_bytes,
            });
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.state().applied + 1;
        let appended = log.journal.append(&record(ENTRY, number, entry));
        if let Err(error) = appended {
            self.state().failure = log.journal.failure().map(str::to_owned);
            return Err(error.into());
        }
        let mut state = self.state();
        let answer = match state.machine.apply(entry) {
            Ok(answer) => answer,
            Err(why) => {
                let reason = format!("entry {number} cannot be understood: {why}");
                log.journal.fail(&reason);
                state.failure = Some(reason.clone());
                return Err(Error::Poisoned { reason }.into());
            }
        };
        state.applied = number;
        let snapshot = log.is_long().then(|| state.snapshot());
        drop(state);
        // The entry is durable: what fails here stops the next one.
        if snapshot.is_some_and(|snapshot| log.replace(&snapshot).is_err()) {
            self.state().failure = log.journal.failure().map(str::to_owned);
        }
        Ok(answer)
    }

    fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.state().machine)
    }

    fn standing(&self) -> Standing {
        let state = self.state();
        Standing {
            is_leader: state.failure.is_none(),
            applied: state.applied,
            failure: state.failure.clone(),
        }
    }
}

impl<D: Disk> Log<D> {
    fn is_long(&self) -> bool {
        let appended = self.journal.len_bytes() - self.snapshot_len_bytes;
        appended > self.appended_bytes_max
    }

    fn replace(&mut self, snapshot: &[u8]) -> Result<(), Error> {
        self.journal.replace(snapshot)?;
        self.snapshot_len_bytes = self.journal.len_bytes();
        Ok(())
    }
}

impl<M: Machine> State<M> {
    /// The record that is the whole state.
    fn snapshot(&self) -> Vec<u8> {
        record(SNAPSHOT, self.applied, &self.machine.snapshot())
    }

    /// Takes the record at a place of the log.
    fn replay(&mut self, at: usize, record: &[u8]) -> Result<(), String> {
        let (kind, rest) = record.split_first().ok_or("it is empty")?;
        let (number, content) = rest.split_first_chunk::<8>().ok_or("it has no number")?;
        let number = u64::from_be_bytes(*number);
        match *kind {
            SNAPSHOT if at == 0 => self.machine.restore(content)?,
            ENTRY if number == self.applied + 1 => {
                self.machine.apply(content)?;
            }
            other => {
                return Err(format!(
                    "kind {other} with number {number} has no place there"
                ));
            }
        }
        self.applied = number;
        Ok(())
    }
}

fn record(kind: u8, number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + content.len());
    bytes.push(kind);
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

#[cfg(test)]
mod tests {
    use mqcore_engine::disk::twin::{Bound, CallKind, Fault, Times, TwinDisk};

    use super::*;

    const DIR: &str = "/controller";

    /// Remembers its entries; one that begins with `!` cannot be understood.
    #[derive(Default)]
    struct Entries(Vec<Vec<u8>>);

    impl Machine for Entries {
        type Answer = usize;

        fn apply(&mut self, entry: &[u8]) -> Result<usize, String> {
            if entry.starts_with(b"!") {
                return Err("it begins with !".to_owned());
            }
            self.0.push(entry.to_vec());
            Ok(self.0.len())
        }

        fn snapshot(&self) -> Vec<u8> {
            self.0.join(&b'\n')
        }

        fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
            let all = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
            self.0 = all.filter(|entry| !entry.is_empty()).collect();
            Ok(())
        }
    }

    fn opened(twin: &TwinDisk) -> Single<TwinDisk, Entries> {
        // Small: a snapshot after some entries.
        Single::with_bound(twin.clone(), Path::new(DIR), Entries::default(), 200).unwrap()
    }

    fn entry(number: usize) -> Vec<u8> {
        format!("entry {number} {}", "x".repeat(number * 9)).into_bytes()
    }

    fn entries(single: &Single<TwinDisk, Entries>) -> Vec<Vec<u8>> {
        single.look(|machine| machine.0.clone())
    }

    #[test]
    fn what_was_answered_is_there_in_every_crash_image_in_order() {
        let twin = TwinDisk::new();
        let single = opened(&twin);
        twin.forget();
        let mut answered = vec![(twin.history().stop_points(), 0)];
        for number in 1..=12 {
            assert_eq!(single.propose(&entry(number)).unwrap(), number);
            answered.push((twin.history().stop_points(), number));
        }
        let all = entries(&single);
        let history = twin.history();
        for stop in 0..history.stop_points() {
            let least = answered.iter().filter(|(at, _)| *at <= stop + 1);
            let least = least.map(|(_, number)| *number).max().unwrap_or(0);
            let bound = Bound {
                images_max: 40,
                ..Bound::default()
            };
            for image in history.images(stop, &bound) {
                let single = opened(&image.disk());
                let found = entries(&single);
                assert!(found.len() >= least, "{}", image.id());
                assert_eq!(found, all[..found.len()], "{}", image.id());
                assert_eq!(single.standing().applied, found.len() as u64);
                assert_eq!(single.propose(b"more").unwrap(), found.len() + 1);
            }
        }
    }

    #[test]
    fn the_log_does_not_grow_with_the_number_of_entries() {
        let twin = TwinDisk::new();
        let single = opened(&twin);
        for _ in 0..100 {
            single.propose(b"e").unwrap();
        }
        let len = twin.read(&Path::new(DIR).join(FILE_NAME)).unwrap().len();
        // A hundred records have some three kilobytes.
        assert!(len < 700, "{len}");
        drop(single);
        assert_eq!(opened(&twin).standing().applied, 100);
    }

    #[test]
    fn after_a_failed_sync_nothing_is_agreed_on() {
        let twin = TwinDisk::new();
        let single = opened(&twin);
        single.propose(b"one").unwrap();
        twin.fail(Fault {
            call: CallKind::Sync,
            path_contains: None,
            nth: 1,
            errno: 5,
            times: Times::Once,
        });
        assert!(single.propose(b"two").is_err());
        assert_eq!(entries(&single), [b"one".to_vec()]);
        let standing = single.standing();
        assert!(!standing.is_leader && standing.failure.unwrap().contains("errno 5"));
        assert!(matches!(
            single.propose(b"three"),
            Err(ConsensusError::Log(Error::Poisoned { .. }))
        ));
    }

    #[test]
    fn an_entry_that_cannot_be_understood_stops_everything_behind_it() {
        let twin = TwinDisk::new();
        let single = opened(&twin);
        assert!(single.propose(b"!").is_err());
        assert!(single.propose(b"fine").is_err());
        assert!(!single.standing().is_leader);
        drop(single);
        let again = Single::open(twin, Path::new(DIR), Entries::default()).map(|_| ());
        let Err(ConsensusError::Log(Error::ForeignFile { why, .. })) = again else {
            panic!("{again:?}");
        };
        assert!(why.contains("it begins with !"), "{why}");
    }
}
