//! The state that entries lead to, with the answers of the last ones.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mqcore_engine::disk::Disk;
use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot,
    SnapshotMeta, StorageIOError, StoredMembership,
};

use super::log::{Failure, Log};
use super::types::{KeptSnapshot, NodeId, Types};
use crate::node::Machine;

/// Answers that are kept for who proposed their entries: some hundred proposals may wait at once.
const ANSWERS_MAX: usize = 4_096;

struct Applied<M: Machine> {
    machine: M,
    last: Option<LogId<NodeId>>,
    membership: StoredMembership<NodeId, BasicNode>,
    answers: BTreeMap<u64, M::Answer>,
}

/// The state of one controller; clones are the same state.
pub(super) struct State<D: Disk, M: Machine> {
    applied: Arc<Mutex<Applied<M>>>,
    log: Log<D>,
}

impl<D: Disk, M: Machine> Clone for State<D, M> {
    fn clone(&self) -> Self {
        Self {
            applied: Arc::clone(&self.applied),
            log: self.log.clone(),
        }
    }
}

impl<D: Disk, M: Machine> State<D, M> {
    /// Begins with the last snapshot of the log.
    pub(super) fn new(log: Log<D>, machine: M) -> Result<Self, String> {
        let mut applied = Applied {
            machine,
            last: None,
            membership: StoredMembership::default(),
            answers: BTreeMap::new(),
        };
        if let Some(snapshot) = log.snapshot() {
            applied.restore(&snapshot.meta, &snapshot.bytes)?;
        }
        Ok(Self {
            applied: Arc::new(Mutex::new(applied)),
            log,
        })
    }

    fn applied(&self) -> MutexGuard<'_, Applied<M>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state.
    pub(super) fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.applied().machine)
    }

    /// Takes what came of the entry with an index.
    pub(super) fn take_answer(&self, index: u64) -> Option<M::Answer> {
        self.applied().answers.remove(&index)
    }
}

impl<M: Machine> Applied<M> {
    fn restore(
        &mut self,
        meta: &SnapshotMeta<NodeId, BasicNode>,
        bytes: &[u8],
    ) -> Result<(), String> {
        self.machine.restore(bytes)?;
        self.last = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.answers.clear();
        Ok(())
    }
}

impl<D: Disk, M: Machine> RaftSnapshotBuilder<Types> for State<D, M> {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, Failure> {
        let applied = self.applied();
        let meta = SnapshotMeta {
            last_log_id: applied.last,
            last_membership: applied.membership.clone(),
            snapshot_id: applied.last.map_or("empty".to_owned(), |id| {
                format!("{}-{}", id.leader_id, id.index)
            }),
        };
        let bytes = applied.machine.snapshot();
        drop(applied);
        let kept = KeptSnapshot {
            meta: meta.clone(),
            bytes: bytes.clone(),
        };
        self.log.keep_snapshot(kept).map_err(|error| {
            Failure::from(StorageIOError::write_snapshot(None, AnyError::new(&error)))
        })?;
        Ok(Snapshot {
            meta,
            snapshot: Box::new(Cursor::new(bytes)),
        })
    }
}

impl<D: Disk, M: Machine> RaftStateMachine<Types> for State<D, M> {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<NodeId>>, StoredMembership<NodeId, BasicNode>), Failure> {
        let applied = self.applied();
        Ok((applied.last, applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, Failure>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut applied = self.applied();
        let mut done = Vec::new();
        for entry in entries {
            let id = entry.log_id;
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Membership(membership) => {
                    applied.membership = StoredMembership::new(Some(id), membership);
                }
                EntryPayload::Normal(proposal) => {
                    let answer = applied.machine.apply(&proposal.0).map_err(|why| {
                        Failure::from(StorageIOError::apply(id, AnyError::error(why)))
                    })?;
                    applied.answers.insert(id.index, answer);
                    if applied.answers.len() > ANSWERS_MAX {
                        applied.answers.pop_first();
                    }
                }
            }
            applied.last = Some(id);
            done.push(());
        }
        Ok(done)
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, Failure> {
        Ok(Box::new(Cursor::new(Vec::new())))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<NodeId, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), Failure> {
        let bytes = snapshot.into_inner();
        let failed = |why: AnyError| Failure::from(StorageIOError::write_snapshot(None, why));
        let mut applied = self.applied();
        applied
            .restore(meta, &bytes)
            .map_err(|why| failed(AnyError::error(why)))?;
        drop(applied);
        let kept = KeptSnapshot {
            meta: meta.clone(),
            bytes,
        };
        self.log
            .keep_snapshot(kept)
            .map_err(|error| failed(AnyError::new(&error)))
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, Failure> {
        Ok(self.log.snapshot().map(|kept| Snapshot {
            meta: kept.meta,
            snapshot: Box::new(Cursor::new(kept.bytes)),
        }))
    }
}
