//! What a fast path gives when it is drained and asked, as frozen classes.

use mqcore_fast_path::Escalated;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::connection::FastPathConnection;
use crate::frozen::frozen;
use crate::handed::Handed;

frozen! {
    /// What was delivered of a level of delayed messages.
    Delivered {
        /// Messages delivered.
        count: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Where the level goes on.
        next_offset: u64,
        /// When the next one is due, Unix ms, where it is known.
        next_due_ms: Option<i64>,
        /// End of the last one in the log: write `next_offset` down only when the log is flushed up
        /// to it. 0 without one.
        end: u64,
        /// Whether more may be due now.
        has_more: bool,
        /// Messages passed over: gone by retention, or with nowhere to go.
        skipped: u64,
    }

    /// The sends that a fast path has read to remember them.
    RememberedSends {
        /// Where in the log it began, bytes.
        start: u64,
        /// Where it ended.
        end: u64,
        /// Records of the time that is remembered.
        records: u64,
        /// Those among them with a unique key, which count.
        keys: u64,
    }

    /// How much a group got of a topic.
    GroupGets {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
        /// Messages since the start.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Pulls that were answered with messages, by queue id.
        pulls: Vec<u64>,
        /// How long they took together, without the time for which they were held, by queue id, us.
        pulls_us: Vec<u64>,
    }

    /// A request for Python that came up while the fast path drained.
    DrainedRequest {
        /// Whose it is.
        connection: Py<FastPathConnection>,
        /// The request.
        request: Py<Handed>,
    }

    /// What a fast path could answer.
    FastPathDrained {
        /// Milliseconds until the next call is due although nothing is announced.
        next_ms: Option<u64>,
        /// Official statuses by ticket, of tickets that are not the fast path's, in the order of the log.
        statuses: Py<PyDict>,
        /// Requests for Python.
        handed: Vec<Py<DrainedRequest>>,
    }
}

impl DrainedRequest {
    pub(crate) fn of(
        py: Python<'_>,
        connection: Py<FastPathConnection>,
        escalated: Escalated,
    ) -> PyResult<Py<Self>> {
        let request = Py::new(py, Handed::of(py, escalated)?)?;
        Py::new(
            py,
            Self {
                connection,
                request,
            },
        )
    }
}
