//! The classes over replication: the thread of a master, the threads of a slave. Each method unpacks, calls
//! with the GIL kept or released, maps the error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::{Error, Result};
use mqcore_replica::{QuorumRule, Timing};
use mqcore_shipping::{CopyStanding, Ended, Epochs, Master, Reign, Shipping, Slave, SlaveStanding};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::owned;
use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::membership::{Alteration, MembershipRow, ReplicationEpochs, SyncState};
use crate::store::{Engine, NativeStore};
use crate::tls::{ReplicationTls, protection_of};

frozen! {
    /// A link of replication that has ended.
    EndedLink {
        /// The address of the other end.
        address: String,
        /// Why it ended.
        why: String,
        /// Of a slave: where its log must end before the master can be followed; None where no cut helps.
        cut_at: Option<u64>,
    }

    /// How far a slave of a master is. Positions are physical offsets (bytes of the log).
    SlaveState {
        /// Its address.
        address: String,
        /// Where it asked to begin; None before its first report.
        requested: Option<u64>,
        /// End of what was sent to it.
        sent: u64,
        /// What it reported last.
        acknowledged: u64,
        /// How far it is behind the log, bytes.
        lag_bytes: u64,
        /// For how long it has not held everything that the log held at one time, ms.
        lag_ms: u64,
        /// Bytes sent in the last second.
        bytes_per_second: u64,
        /// The id that its controller gave it; None in classic replication, and before it has introduced
        /// itself.
        controller_id: Option<i64>,
        /// Whether it is never to be in the sync-state set.
        is_learner: bool,
        /// Whether what it reports counts: not of somebody who is no member.
        counts: bool,
    }

    /// Somebody who copies whole files of a master's log.
    FileCopy {
        /// The address.
        address: String,
        /// Bytes that were sent.
        sent_bytes: u64,
    }

    /// How a slave follows its master. Positions are physical offsets (bytes of the log).
    SlaveProgress {
        /// Address of the master; empty while there is no connection.
        address: String,
        /// End of the log here.
        appended: u64,
        /// End of what the master has announced.
        announced: u64,
        /// What was reported last; None before the first report of a connection.
        reported: Option<u64>,
        /// Bytes that have come since the start.
        received_bytes: u64,
        /// For how long nothing has come, ms; None before the first byte of a connection.
        silent_ms: Option<u64>,
        /// Store time of the newest record, Unix ms; 0 for none.
        last_store_ms: i64,
    }
}

/// `ReplicationPace`.
#[derive(FromPyObject)]
pub(crate) struct PaceRow {
    batch_bytes: usize,
    bytes_per_second_max: Option<u64>,
    copied_bytes_per_second_max: Option<u64>,
}

/// `ReplicationQuorum`.
#[derive(FromPyObject)]
pub(crate) struct QuorumRow {
    in_sync_replicas: usize,
    in_sync_replicas_min: usize,
    follows_in_sync: bool,
    gap_max_bytes: u64,
    behind_max_bytes: u64,
}

impl From<QuorumRow> for QuorumRule {
    fn from(row: QuorumRow) -> Self {
        Self {
            in_sync_replicas: row.in_sync_replicas,
            in_sync_replicas_min: row.in_sync_replicas_min,
            follows_in_sync: row.follows_in_sync,
            gap_max_bytes: row.gap_max_bytes,
            behind_max_bytes: row.behind_max_bytes,
        }
    }
}

pub(crate) fn ended_links(all: Vec<Ended>) -> Vec<EndedLink> {
    all.into_iter()
        .map(
            |Ended {
                 address,
                 why,
                 cut_at,
             }| EndedLink {
                address,
                why,
                cut_at,
            },
        )
        .collect()
}

pub(crate) fn no_socket() -> PyErr {
    PyValueError::new_err("a descriptor is no negative number")
}

/// Ships the log of a store to slaves, on a thread of its own.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReplicationMaster {
    inside: Master,
    store: Arc<Engine>,
    /// Of a member, whether it has led since the store was opened: an epoch goes on then.
    epochs: Option<(Arc<Epochs<RealDisk>>, AtomicBool)>,
    own_id: i64,
}

impl ReplicationMaster {
    /// Makes the store that of the master of an epoch.
    fn lead_inside(
        &self,
        epoch: i32,
        members: &[i64],
        set_epoch: i32,
        timeout_ms: u64,
    ) -> Result<bool> {
        let Some((epochs, has_led)) = self
            .epochs
            .as_ref()
            .filter(|_| members.contains(&self.own_id))
        else {
            let reason = format!("{} is not in the set {members:?}", self.own_id);
            return Err(Error::NotWritable { reason });
        };
        let replica = self.store.replica();
        let goes_on = has_led.load(Ordering::Acquire) || self.store.report().is_log_whole;
        replica.lead(|end| {
            let reign = Reign { epoch, set_epoch };
            let start = epochs.lead(reign, replica.extent().start, end, goes_on)?;
            has_led.store(true, Ordering::Release);
            self.inside
                .lead(members, set_epoch, start, replica.confirmed());
            Ok(())
        })?;
        let files = self.store.files();
        let gives_up = || files.is_closing() || files.poison.reason().is_some();
        let timeout = Duration::from_millis(timeout_ms);
        let end = replica.confirmed();
        Ok(files.positions.dispatched.wait(end, timeout, gives_up))
    }
}

#[pymethods]
impl ReplicationMaster {
    #[new]
    #[pyo3(signature = (store, *, heartbeat_ms, silence_max_ms, pace, quorum=None, membership=None,
        epochs=None))]
    #[expect(clippy::too_many_arguments, reason = "what a master is made with")]
    fn new(
        py: Python<'_>,
        store: &NativeStore,
        heartbeat_ms: u64,
        silence_max_ms: u64,
        pace: PaceRow,
        quorum: Option<QuorumRow>,
        membership: Option<MembershipRow>,
        epochs: Option<Bound<'_, ReplicationEpochs>>,
    ) -> PyResult<Self> {
        let timing = Timing {
            heartbeat_ms,
            silence_max_ms,
        };
        let how = Shipping {
            timing,
            batch_len_bytes: pace.batch_bytes,
            bytes_per_second_max: pace.bytes_per_second_max,
            copied_bytes_per_second_max: pace.copied_bytes_per_second_max,
            quorum: quorum.map(QuorumRule::from),
        };
        let engine = store.parts().0;
        let own_id = membership.as_ref().map_or(0, MembershipRow::own_id);
        let member = match (membership, &epochs) {
            (Some(row), Some(epochs)) => {
                epochs.get().check(&engine)?;
                Some(row.membership(epochs.get()))
            }
            (None, None) => None,
            _ => {
                let why = "a member has membership and epochs, another master neither";
                return Err(PyValueError::new_err(why));
            }
        };
        let started = gil_call(py, Gil::Released, || match member {
            None => Master::start(Arc::clone(&engine), how),
            Some(member) => Master::start_member(Arc::clone(&engine), how, member),
        });
        let inside = started.map_err(|error| raised(py, &error))?;
        let epochs = epochs.map(|epochs| Arc::clone(&epochs.get().epochs));
        Ok(Self {
            inside,
            store: engine,
            epochs: epochs.map(|epochs| (epochs, AtomicBool::new(false))),
            own_id,
        })
    }

    /// Lets what is stored wait for slaves from now on: nothing counts as copied until a master ships, and
    /// its slaves report.
    #[staticmethod]
    fn require(py: Python<'_>, store: &NativeStore) {
        let engine = store.parts().0;
        gil_call(py, Gil::Kept, || engine.replica().require());
    }

    /// Makes the store that of the master of an epoch; whether queues have all of the log.
    #[pyo3(signature = (epoch, members, set_epoch, *, timeout_ms=3000))]
    fn lead(
        &self,
        py: Python<'_>,
        epoch: i32,
        members: Vec<i64>,
        set_epoch: i32,
        timeout_ms: u64,
    ) -> PyResult<bool> {
        let led = gil_call(py, Gil::Released, || {
            self.lead_inside(epoch, &members, set_epoch, timeout_ms)
        });
        led.map_err(|error| raised(py, &error))
    }

    /// Takes the sync-state set that the controller has now; whether that is news.
    fn adopt(&self, py: Python<'_>, members: Vec<i64>, set_epoch: i32) -> bool {
        gil_call(py, Gil::Kept, || self.inside.adopt(&members, set_epoch))
    }

    /// The set that is to be asked for; it counts as asked for from now on.
    fn wanted(&self, py: Python<'_>) -> Option<Alteration> {
        let wanted = gil_call(py, Gil::Kept, || self.inside.wanted())?;
        Some(Alteration {
            members: wanted.members,
            set_epoch: wanted.set_epoch,
        })
    }

    /// Lets the log take no append until `go_on`, or until its store follows another master.
    fn rest(&self, py: Python<'_>) {
        gil_call(py, Gil::Kept, || self.store.replica().rest());
    }

    /// Takes appends again.
    fn go_on(&self, py: Python<'_>) {
        gil_call(py, Gil::Kept, || self.store.replica().go_on());
    }

    /// Takes back what was asked for: the controller has refused it.
    fn refuse(&self, py: Python<'_>) {
        gil_call(py, Gil::Kept, || self.inside.refuse());
    }

    /// The sync-state set, with what is asked for; one of nobody in classic replication.
    fn sync_state(&self, py: Python<'_>) -> SyncState {
        let state = gil_call(py, Gil::Kept, || {
            self.inside
                .with_members(|set| (set.known(), set.asked(), set.joining()))
        });
        let ((members, set_epoch), asked, joining) =
            state.unwrap_or_else(|| ((Vec::new(), -1), Vec::new(), Vec::new()));
        SyncState {
            members,
            set_epoch,
            asked,
            joining,
        }
    }

    /// Ships to somebody who has connected. The descriptor is owned here from now on.
    #[pyo3(signature = (descriptor, address, *, counts=true, tls=None))]
    fn add(
        &self,
        py: Python<'_>,
        descriptor: i32,
        address: &str,
        counts: bool,
        tls: Option<Bound<'_, ReplicationTls>>,
    ) -> PyResult<()> {
        let socket = owned(descriptor).ok_or_else(no_socket)?;
        let how = protection_of(tls.as_ref());
        let added = gil_call(py, Gil::Kept, || {
            self.inside.add_who(address, socket, counts, &how)
        });
        added.map_err(|error| raised(py, &error))
    }

    /// Whether what the slave at an address reports counts from now on.
    fn set_counts(&self, py: Python<'_>, address: &str, counts: bool) {
        gil_call(py, Gil::Kept, || self.inside.set_counts(address, counts));
    }

    /// Connections that are open, those among them that were just added.
    fn open_links(&self) -> usize {
        self.inside.open_links()
    }

    /// The slaves that are connected.
    fn slaves(&self, py: Python<'_>) -> Vec<SlaveState> {
        let all = gil_call(py, Gil::Kept, || self.inside.slaves());
        let state = |SlaveStanding {
                         address,
                         standing,
                         id,
                         is_learner,
                         counts,
                     }| SlaveState {
            address,
            requested: standing.requested,
            sent: standing.sent,
            acknowledged: standing.acknowledged,
            lag_bytes: standing.lag_bytes,
            lag_ms: standing.lag_ms,
            bytes_per_second: standing.bytes_per_second,
            controller_id: id,
            is_learner,
            counts,
        };
        all.into_iter().map(state).collect()
    }

    /// Who copies whole files, and how many bytes were sent to each.
    fn copies(&self, py: Python<'_>) -> Vec<FileCopy> {
        let all = gil_call(py, Gil::Kept, || self.inside.copies());
        let copy = |standing: CopyStanding| FileCopy {
            address: standing.address,
            sent_bytes: standing.sent_bytes,
        };
        all.into_iter().map(copy).collect()
    }

    /// Takes the links that have ended.
    fn take_ended(&self) -> Vec<EndedLink> {
        ended_links(self.inside.ended().take())
    }

    /// A descriptor that is readable while links have ended that were not taken.
    fn fileno(&self) -> i32 {
        self.inside.ended().raw()
    }

    /// Closes all connections and ends the thread. Does nothing the second time.
    fn stop(&self, py: Python<'_>) {
        gil_call(py, Gil::Released, || self.inside.stop());
    }
}

/// Grows the log of a store by that of its master, on a thread per connection. The store takes no appends of
/// its own any more.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReplicationSlave {
    inside: Slave<RealDisk, SystemClock>,
    store: Arc<Engine>,
}

#[pymethods]
impl ReplicationSlave {
    #[new]
    #[pyo3(signature = (store, *, heartbeat_ms, silence_max_ms, epochs=None, controller_id=0,
        from_last_file=false, is_learner=false))]
    #[expect(clippy::too_many_arguments, reason = "what a slave is made with")]
    fn new(
        py: Python<'_>,
        store: &NativeStore,
        heartbeat_ms: u64,
        silence_max_ms: u64,
        epochs: Option<Bound<'_, ReplicationEpochs>>,
        controller_id: i64,
        from_last_file: bool,
        is_learner: bool,
    ) -> PyResult<Self> {
        let timing = Timing {
            heartbeat_ms,
            silence_max_ms,
        };
        let engine = store.parts().0;
        let joining = match &epochs {
            None => None,
            Some(epochs) => {
                epochs.get().check(&engine)?;
                let epochs = epochs.get();
                Some(epochs.joining(controller_id, from_last_file, is_learner))
            }
        };
        let made = gil_call(py, Gil::Kept, || {
            let slave = Slave::joining(engine.clone(), timing, joining)?;
            Ok(if is_learner { slave.learning() } else { slave })
        });
        let inside = made.map_err(|error: Error| raised(py, &error))?;
        Ok(Self {
            inside,
            store: engine,
        })
    }

    /// Follows a master over a connection, until that ends; an earlier one is closed. The descriptor is owned
    /// here from now on.
    #[pyo3(signature = (descriptor, address, *, from_start=false, tls=None))]
    fn follow(
        &self,
        py: Python<'_>,
        descriptor: i32,
        address: &str,
        from_start: bool,
        tls: Option<Bound<'_, ReplicationTls>>,
    ) -> PyResult<()> {
        let socket = owned(descriptor).ok_or_else(no_socket)?;
        let how = protection_of(tls.as_ref());
        let followed = gil_call(py, Gil::Released, || {
            let slave = &self.inside;
            slave.follow_protected(address, socket, from_start, &how)
        });
        followed.map_err(|error| raised(py, &error))
    }

    /// How it follows now.
    fn progress(&self, py: Python<'_>) -> SlaveProgress {
        let (following, extent) = gil_call(py, Gil::Kept, || {
            (self.inside.following(), self.store.replica().extent())
        });
        SlaveProgress {
            address: following.address,
            appended: extent.end,
            announced: following.announced,
            reported: following.reported,
            received_bytes: following.received_bytes,
            silent_ms: following.silent_ms,
            last_store_ms: extent.last_store_ms,
        }
    }

    /// Takes the links that have ended.
    fn take_ended(&self) -> Vec<EndedLink> {
        ended_links(self.inside.ended().take())
    }

    /// A descriptor that is readable while links have ended that were not taken.
    fn fileno(&self) -> i32 {
        self.inside.ended().raw()
    }

    /// Closes the connection and ends its thread. Does nothing without one.
    fn stop(&self, py: Python<'_>) {
        gil_call(py, Gil::Released, || self.inside.stop());
    }
}
