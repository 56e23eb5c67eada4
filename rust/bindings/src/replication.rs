//! The classes over replication: the thread of a master, the threads of a slave. Each method unpacks, calls
//! with the GIL kept or released, maps the error.

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Error;
use mqcore_replica::{QuorumRule, Timing};
use mqcore_shipping::{Ended, Master, Shipping, Slave, SlaveStanding};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::owned;
use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::store::NativeStore;

frozen! {
    /// A link of replication that has ended.
    EndedLink {
        /// The address of the other end.
        address: String,
        /// Why it ended.
        why: String,
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

fn ended_links(all: Vec<Ended>) -> Vec<EndedLink> {
    all.into_iter()
        .map(|Ended { address, why }| EndedLink { address, why })
        .collect()
}

fn no_socket() -> PyErr {
    PyValueError::new_err("a descriptor is no negative number")
}

/// Ships the log of a store to slaves, on a thread of its own.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReplicationMaster {
    inside: Master,
}

#[pymethods]
impl ReplicationMaster {
    #[new]
    #[pyo3(signature = (store, *, heartbeat_ms, silence_max_ms, pace, quorum=None))]
    fn new(
        py: Python<'_>,
        store: &NativeStore,
        heartbeat_ms: u64,
        silence_max_ms: u64,
        pace: PaceRow,
        quorum: Option<QuorumRow>,
    ) -> PyResult<Self> {
        let timing = Timing {
            heartbeat_ms,
            silence_max_ms,
        };
        let how = Shipping {
            timing,
            batch_len_bytes: pace.batch_bytes,
            bytes_per_second_max: pace.bytes_per_second_max,
            quorum: quorum.map(QuorumRule::from),
        };
        let engine = store.parts().0;
        let started = gil_call(py, Gil::Released, || Master::start(engine, how));
        let inside = started.map_err(|error| raised(py, &error))?;
        Ok(Self { inside })
    }

    /// Lets what is stored wait for slaves from now on: nothing counts as copied until a master ships, and
    /// its slaves report.
    #[staticmethod]
    fn require(py: Python<'_>, store: &NativeStore) {
        let engine = store.parts().0;
        gil_call(py, Gil::Kept, || engine.replica().require());
    }

    /// Ships to a slave that has connected. The descriptor is owned here from now on.
    fn add(&self, py: Python<'_>, descriptor: i32, address: &str) -> PyResult<()> {
        let socket = owned(descriptor).ok_or_else(no_socket)?;
        let added = gil_call(py, Gil::Kept, || self.inside.add(address, socket));
        added.map_err(|error| raised(py, &error))
    }

    /// The slaves that are connected.
    fn slaves(&self, py: Python<'_>) -> Vec<SlaveState> {
        let all = gil_call(py, Gil::Kept, || self.inside.slaves());
        let state = |SlaveStanding { address, standing }| SlaveState {
            address,
            requested: standing.requested,
            sent: standing.sent,
            acknowledged: standing.acknowledged,
            lag_bytes: standing.lag_bytes,
            lag_ms: standing.lag_ms,
            bytes_per_second: standing.bytes_per_second,
        };
        all.into_iter().map(state).collect()
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
    store: std::sync::Arc<crate::store::Engine>,
}

#[pymethods]
impl ReplicationSlave {
    #[new]
    #[pyo3(signature = (store, *, heartbeat_ms, silence_max_ms))]
    fn new(
        py: Python<'_>,
        store: &NativeStore,
        heartbeat_ms: u64,
        silence_max_ms: u64,
    ) -> PyResult<Self> {
        let timing = Timing {
            heartbeat_ms,
            silence_max_ms,
        };
        let engine = store.parts().0;
        let made = gil_call(py, Gil::Kept, || Slave::new(engine.clone(), timing));
        let inside = made.map_err(|error: Error| raised(py, &error))?;
        Ok(Self {
            inside,
            store: engine,
        })
    }

    /// Follows a master over a connection, until that ends; an earlier one is closed. The descriptor is owned
    /// here from now on.
    fn follow(&self, py: Python<'_>, descriptor: i32, address: &str) -> PyResult<()> {
        let socket = owned(descriptor).ok_or_else(no_socket)?;
        let followed = gil_call(py, Gil::Released, || self.inside.follow(address, socket));
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
