//! The class over a slave that copies whole files. Each method unpacks, calls with the GIL kept or released,
//! maps the error.

use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_shipping::Filling;
use pyo3::prelude::*;

use crate::buffer::owned;
use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::membership::ReplicationEpochs;
use crate::replication::{EndedLink, ended_links, no_socket};
use crate::store::NativeStore;
use crate::tls::{ReplicationTls, protection_of};

frozen! {
    /// How far the copy of whole files is. Positions are physical offsets (bytes of the log).
    RefillProgress {
        /// Where the log ended when it began.
        began: u64,
        /// Where the log ends.
        log_end: u64,
        /// End of the last whole file of the master.
        to: u64,
        /// Bytes that have come.
        received_bytes: u64,
        /// Bytes of files that were whole already.
        kept_bytes: u64,
        /// Whether the log has everything that the master has in whole files.
        is_over: bool,
    }
}

/// Copies whole files of a master's log to the end of a slave's, on a thread per connection.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReplicationRefill {
    inside: Filling<RealDisk, SystemClock>,
}

#[pymethods]
impl ReplicationRefill {
    #[new]
    #[pyo3(signature = (store, *, epochs=None))]
    fn new(
        py: Python<'_>,
        store: &NativeStore,
        epochs: Option<Bound<'_, ReplicationEpochs>>,
    ) -> PyResult<Self> {
        let engine = store.parts().0;
        if let Some(epochs) = &epochs {
            epochs.get().check(&engine)?;
        }
        let epochs = epochs.map(|epochs| Arc::clone(&epochs.get().epochs));
        let made = gil_call(py, Gil::Kept, || Filling::new(engine, epochs));
        let inside = made.map_err(|error| raised(py, &error))?;
        Ok(Self { inside })
    }

    /// Whether whole files may be copied: the log holds nothing, or ends with a file.
    fn may_begin(&self, py: Python<'_>) -> bool {
        gil_call(py, Gil::Kept, || self.inside.may_begin())
    }

    /// Copies over one connection more. The descriptor is owned here from now on.
    #[pyo3(signature = (descriptor, address, *, tls=None))]
    fn add(
        &self,
        py: Python<'_>,
        descriptor: i32,
        address: &str,
        tls: Option<Bound<'_, ReplicationTls>>,
    ) -> PyResult<()> {
        let socket = owned(descriptor).ok_or_else(no_socket)?;
        let how = protection_of(tls.as_ref());
        let added = gil_call(py, Gil::Kept, || {
            self.inside.add_protected(address, socket, &how)
        });
        added.map_err(|error| raised(py, &error))
    }

    /// How far it is.
    fn progress(&self, py: Python<'_>) -> RefillProgress {
        let progress = gil_call(py, Gil::Released, || self.inside.progress());
        RefillProgress {
            began: progress.from,
            log_end: progress.log_end,
            to: progress.to,
            received_bytes: progress.received_bytes,
            kept_bytes: progress.kept_bytes,
            is_over: progress.is_over,
        }
    }

    /// Takes the connections that have ended, without a reason where everything is there.
    fn take_ended(&self) -> Vec<EndedLink> {
        ended_links(self.inside.ended().take())
    }

    /// A descriptor that is readable while connections have ended that were not taken.
    fn fileno(&self) -> i32 {
        self.inside.ended().raw()
    }

    /// Closes all connections and ends their threads. Does nothing the second time.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let stopped = gil_call(py, Gil::Released, || self.inside.stop());
        stopped.map_err(|error| raised(py, &error))
    }
}
