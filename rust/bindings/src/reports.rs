//! What reactors report, delivered to the connections that it concerns.

use mqcore_fast_path::Escalated;
use mqcore_reactor::Report;
use pyo3::prelude::*;

use crate::connection::{Connections, FastPathConnection};

/// Lets a connection know what its reactor reports; a request for Python is given back.
pub(crate) fn deliver(
    connections: &Connections,
    py: Python<'_>,
    number: usize,
    report: Report,
) -> PyResult<Option<(Py<FastPathConnection>, Escalated)>> {
    let id = match &report {
        Report::Escalated(escalated) => escalated.connection,
        Report::Full(id) | Report::Drained(id) | Report::Spared(id, _) => *id,
        Report::Unfinished { connection, .. } | Report::Ended { connection, .. } => *connection,
    };
    let Some(connection) = connections.connection(py, (number, id)) else {
        return Ok(None);
    };
    let bound = connection.bind(py);
    match report {
        Report::Escalated(escalated) => return Ok(Some((connection, escalated))),
        Report::Full(_) => bound.call_method0("pause_writing")?,
        Report::Drained(_) => bound.call_method0("resume_writing")?,
        Report::Spared(_, socket) => {
            FastPathConnection::move_on(bound, socket)?;
            return Ok(None);
        }
        Report::Unfinished {
            bytes,
            frame,
            has_asked,
            ..
        } => {
            let counted = bound.call_method1("unfinished", (bytes, frame, has_asked));
            if let Some(reactor) = bound.get().reactor().filter(|_| bytes > 0) {
                reactor.counted(id);
            }
            counted?
        }
        Report::Ended { fault: None, .. } => bound.call_method0("ended")?,
        Report::Ended {
            fault: Some(fault), ..
        } => bound.call_method1("give_up", (fault,))?,
    };
    Ok(None)
}
