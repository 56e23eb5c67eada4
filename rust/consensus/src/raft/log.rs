//! Entries and vote of one controller, durable before openraft counts on them. All of it is in memory too:
//! a snapshot takes the place of old entries.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
};

use super::types::{KeptSnapshot, NodeId, Record, Types, Whole};
use crate::journal::{FILE_NAME, Journal};

/// A failure as openraft takes it: nothing goes on after it.
pub(super) type Failure = StorageError<NodeId>;

struct Kept<D: Disk> {
    journal: Journal<D>,
    vote: Option<Vote<NodeId>>,
    purged: Option<LogId<NodeId>>,
    entries: BTreeMap<u64, Entry<Types>>,
    snapshot: Option<KeptSnapshot>,
}

/// The log of one controller; clones are the same log.
pub(super) struct Log<D: Disk> {
    kept: Arc<Mutex<Kept<D>>>,
}

impl<D: Disk> Clone for Log<D> {
    fn clone(&self) -> Self {
        Self {
            kept: Arc::clone(&self.kept),
        }
    }
}

impl<D: Disk> Log<D> {
    /// Opens the log of a directory, for the controller `id`.
    pub(super) fn open(disk: D, dir: &Path, id: NodeId) -> Result<Self> {
        let (journal, records) = Journal::open(disk, dir)?;
        let mut kept = Kept {
            journal,
            vote: None,
            purged: None,
            entries: BTreeMap::new(),
            snapshot: None,
        };
        for (at, record) in records.iter().enumerate() {
            let record = serde_json::from_slice(record).map_err(|error| Error::ForeignFile {
                path: dir.join(FILE_NAME),
                why: format!("its record {} cannot be understood: {error}", at + 1),
            })?;
            kept.replay(record);
        }
        kept.resign(id);
        kept.rewrite()?;
        Ok(Self {
            kept: Arc::new(Mutex::new(kept)),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept<D>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last snapshot.
    pub(super) fn snapshot(&self) -> Option<KeptSnapshot> {
        self.kept().snapshot.clone()
    }

    /// Keeps another snapshot.
    pub(super) fn keep_snapshot(&self, snapshot: KeptSnapshot) -> Result<()> {
        let mut kept = self.kept();
        kept.append(&Record::Snapshot(snapshot.clone()))?;
        kept.snapshot = Some(snapshot);
        Ok(())
    }

    /// Why nothing is written any more.
    pub(super) fn failure(&self) -> Option<String> {
        self.kept().journal.failure().map(str::to_owned)
    }
}

impl<D: Disk> Kept<D> {
    fn append(&mut self, record: &Record) -> Result<()> {
        self.journal.append(&encoded(record))
    }

    /// Who led when it ended leads no longer: it would go on in the same term with an older idea of what is
    /// agreed on, and openraft would confirm reads by it. The vote for itself stays, so that it votes for
    /// nobody else in that term.
    fn resign(&mut self, id: NodeId) {
        if let Some(vote) = &mut self.vote {
            vote.committed &= vote.leader_id.node_id != id;
        }
    }

    /// Puts one record in the place of all.
    fn rewrite(&mut self) -> Result<()> {
        let whole = Record::Whole(Whole {
            vote: self.vote,
            purged: self.purged,
            snapshot: self.snapshot.clone(),
            entries: self.entries.values().cloned().collect(),
        });
        self.journal.replace(&encoded(&whole))
    }

    fn replay(&mut self, record: Record) {
        match record {
            Record::Whole(whole) => {
                self.vote = whole.vote;
                self.purged = whole.purged;
                self.snapshot = whole.snapshot;
                self.entries.clear();
                self.take(whole.entries);
            }
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Entries(entries) => self.take(entries),
            Record::Truncate(index) => drop(self.entries.split_off(&index)),
            Record::Snapshot(snapshot) => self.snapshot = Some(snapshot),
        }
    }

    fn take(&mut self, entries: Vec<Entry<Types>>) {
        let by_index = entries.into_iter().map(|entry| (entry.log_id.index, entry));
        self.entries.extend(by_index);
    }
}

fn encoded(record: &Record) -> Vec<u8> {
    // Maps have texts as keys and numbers are finite: nothing in a record cannot be written.
    serde_json::to_vec(record).unwrap_or_default()
}

fn written(error: &Error) -> Failure {
    StorageIOError::write_logs(openraft::AnyError::new(error)).into()
}

impl<D: Disk> RaftLogReader<Types> for Log<D> {
    async fn try_get_log_entries<R>(
        &mut self,
        range: R,
    ) -> std::result::Result<Vec<Entry<Types>>, Failure>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let found = self.kept();
        Ok(found
            .entries
            .range(range)
            .map(|(_, entry)| entry.clone())
            .collect())
    }
}

impl<D: Disk> RaftLogStorage<Types> for Log<D> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> std::result::Result<LogState<Types>, Failure> {
        let kept = self.kept();
        let last = kept.entries.last_key_value().map(|(_, entry)| entry.log_id);
        Ok(LogState {
            last_purged_log_id: kept.purged,
            last_log_id: last.or(kept.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<NodeId>) -> std::result::Result<(), Failure> {
        let mut kept = self.kept();
        kept.append(&Record::Vote(*vote)).map_err(|error| {
            Failure::from(StorageIOError::write_vote(openraft::AnyError::new(&error)))
        })?;
        kept.vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> std::result::Result<Option<Vote<NodeId>>, Failure> {
        Ok(self.kept().vote)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<Types>,
    ) -> std::result::Result<(), Failure>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let mut kept = self.kept();
        kept.append(&Record::Entries(entries.clone()))
            .map_err(|error| written(&error))?;
        kept.take(entries);
        drop(kept);
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<NodeId>) -> std::result::Result<(), Failure> {
        let mut kept = self.kept();
        kept.append(&Record::Truncate(log_id.index))
            .map_err(|error| written(&error))?;
        kept.entries.split_off(&log_id.index);
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId<NodeId>) -> std::result::Result<(), Failure> {
        let mut kept = self.kept();
        kept.entries = kept.entries.split_off(&(log_id.index + 1));
        kept.purged = Some(log_id);
        kept.rewrite().map_err(|error| written(&error))
    }
}
