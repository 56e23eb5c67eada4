//! What reactors report, delivered to the connections that it concerns.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use mqcore_fast_path::Escalated;
use mqcore_reactor::Report;
use pyo3::prelude::*;

use crate::connection::{Connections, FastPathConnection};
use crate::reactors::Mover;

/// Takes a connection that its reactor has spared to the one with the fewest, or gives it back to its
/// own, where that has the fewest or something has come for it meanwhile.
fn move_on(
    connections: &Connections,
    connection: &Bound<'_, FastPathConnection>,
    socket: OwnedFd,
) -> PyResult<()> {
    let this = connection.get();
    let Some(Mover {
        number: left,
        reactor: Some(from),
        ..
    }) = this.mover()
    else {
        return Ok(());
    };
    let may_move = connection.call_method0("is_idle")?.extract::<bool>()?;
    let target = connections.reactors.least_loaded().filter(|_| may_move);
    let Some((number, to)) = target.filter(|(number, _)| *number != left) else {
        from.take_back(this.id(), socket);
        return Ok(());
    };
    let Some(id) = to.take_over(&from, this.id(), socket) else {
        return Ok(());
    };
    let mover = Mover {
        number,
        home: Arc::clone(to.home()),
        reactor: Some(to),
    };
    FastPathConnection::move_to(connection, mover, id)
}

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
    let Some(connection) = connections.connection_of(py, (number, id)) else {
        return Ok(None);
    };
    let bound = connection.bind(py);
    match report {
        Report::Escalated(escalated) => return Ok(Some((connection, escalated))),
        Report::Full(_) => bound.call_method0("pause_writing")?,
        Report::Drained(_) => bound.call_method0("resume_writing")?,
        Report::Spared(_, socket) => {
            move_on(connections, bound, socket)?;
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
