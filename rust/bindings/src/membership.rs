//! The classes of a replica under a controller: epochs of a log, how far it is, the sync-state set.

use std::path::PathBuf;
use std::sync::Arc;

use mqcore_engine::disk::RealDisk;
use mqcore_engine::lock::Mutex;
use mqcore_replica::{Introduction, LogEnd, Members, MembersRule};
use mqcore_shipping::{Epochs, Joining, Membership, Reign};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::store::{Engine, NativeStore};

frozen! {
    /// What one master wrote of a log. Positions are physical offsets.
    EpochEntry {
        /// The epoch of the master.
        epoch: i32,
        /// Where its log began.
        start: u64,
        /// Where the next epoch begins; of the last one, where the log ends now.
        end: u64,
    }

    /// How far a member's log is. Positions are physical offsets (bytes of the log).
    LogPositions {
        /// First byte that is kept.
        start: u64,
        /// End of the log.
        end: u64,
        /// The confirm offset: no reader sees what is behind it.
        confirmed: u64,
        /// End of what queues have.
        dispatched: u64,
    }

    /// A sync-state set that a master asks its controller for.
    Alteration {
        /// Controller ids, the master's own among them, in ascending order.
        members: Vec<i64>,
        /// The epoch of the set that it is to replace.
        set_epoch: i32,
    }

    /// The sync-state set of a master. Ids are those of the controller, in ascending order.
    SyncState {
        /// The set as the controller has it.
        members: Vec<i64>,
        /// Its epoch.
        set_epoch: i32,
        /// Ids of alterations that were given out and are not answered.
        asked: Vec<i64>,
        /// Ids for which sends wait, and which are asked for soon.
        joining: Vec<i64>,
    }
}

/// `ReplicationMembership`.
#[derive(FromPyObject)]
pub(crate) struct MembershipRow {
    controller_id: i64,
    acks_whole_set: bool,
    in_sync_replicas: usize,
    in_sync_replicas_min: usize,
    behind_max_ms: u64,
    absent_max_ms: u64,
}

impl MembershipRow {
    /// The id of the master.
    pub(crate) fn own_id(&self) -> i64 {
        self.controller_id
    }

    /// What a master ships by, with nobody in its set yet.
    pub(crate) fn membership(&self, epochs: &ReplicationEpochs) -> Membership<RealDisk> {
        let rule = MembersRule {
            own_id: self.controller_id,
            acks_whole_set: self.acks_whole_set,
            in_sync_replicas: self.in_sync_replicas,
            in_sync_replicas_min: self.in_sync_replicas_min,
            behind_max_ms: self.behind_max_ms,
            absent_max_ms: self.absent_max_ms,
        };
        Membership {
            own_id: self.controller_id,
            members: Arc::new(Mutex::new(Members::new(rule))),
            epochs: Arc::clone(&epochs.epochs),
        }
    }
}

/// The epochs of the log of an open store, and the file that keeps them.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReplicationEpochs {
    pub(crate) epochs: Arc<Epochs<RealDisk>>,
    store: Arc<Engine>,
}

impl ReplicationEpochs {
    /// What a slave follows by.
    pub(crate) fn joining(
        &self,
        id: i64,
        from_last_file: bool,
        is_learner: bool,
    ) -> Joining<RealDisk> {
        Joining {
            epochs: Arc::clone(&self.epochs),
            who: Introduction {
                id,
                from_last_file,
                is_learner,
            },
        }
    }

    /// Whether these are the epochs of `store`.
    pub(crate) fn check(&self, store: &Arc<Engine>) -> PyResult<()> {
        if Arc::ptr_eq(&self.store, store) {
            return Ok(());
        }
        Err(PyValueError::new_err(
            "the epochs are those of another store",
        ))
    }
}

#[pymethods]
impl ReplicationEpochs {
    #[new]
    fn new(py: Python<'_>, store: &NativeStore, path: PathBuf) -> PyResult<Self> {
        let engine = store.parts().0;
        let opened = gil_call(py, Gil::Released, || Epochs::open(&engine, &path));
        let epochs = Arc::new(opened.map_err(|error| raised(py, &error))?);
        Ok(Self {
            epochs,
            store: engine,
        })
    }

    /// Notes that a set is going to be asked for in place of that of an epoch, by the master of an epoch.
    fn note_asked(&self, py: Python<'_>, epoch: i32, set_epoch: i32) -> PyResult<()> {
        let reign = Reign { epoch, set_epoch };
        let noted = gil_call(py, Gil::Released, || self.epochs.note_asked(reign));
        noted.map_err(|error| raised(py, &error))
    }

    /// Forgets that the log may have lost its end.
    fn settle_end(&self, py: Python<'_>) -> PyResult<()> {
        let settled = gil_call(py, Gil::Released, || self.store.settle_end());
        settled.map_err(|error| raised(py, &error))
    }

    /// All entries, oldest first.
    fn entries(&self, py: Python<'_>) -> Vec<EpochEntry> {
        let (table, log_end) = gil_call(py, Gil::Kept, || {
            (self.epochs.table(), self.store.replica().appended())
        });
        let entries = table.entries();
        let ends = entries.iter().skip(1).map(|next| next.start);
        let entry = |(entry, end): (&mqcore_replica::EpochEntry, u64)| EpochEntry {
            epoch: entry.epoch,
            start: entry.start,
            end,
        };
        entries
            .iter()
            .zip(ends.chain([log_end]))
            .map(entry)
            .collect()
    }

    /// The epoch of the byte before `offset`; -1 where it has none.
    fn epoch_before(&self, offset: u64) -> i32 {
        self.epochs.table().end_at(offset).epoch
    }

    /// Whether the log has what a log had that ended at `offset` with a byte of `epoch`.
    fn has(&self, py: Python<'_>, epoch: i32, offset: u64) -> bool {
        gil_call(py, Gil::Kept, || {
            let log_end = self.store.replica().appended();
            self.epochs.table().has(LogEnd { epoch, offset }, log_end)
        })
    }

    /// The epoch of the last entry; -1 without one.
    #[getter]
    fn last_epoch(&self) -> i32 {
        self.epochs.table().last_epoch()
    }

    /// How far the log is.
    fn positions(&self, py: Python<'_>) -> LogPositions {
        gil_call(py, Gil::Kept, || {
            let replica = self.store.replica();
            LogPositions {
                start: replica.extent().start,
                end: replica.appended(),
                confirmed: replica.confirmed(),
                dispatched: replica.dispatched(),
            }
        })
    }
}
