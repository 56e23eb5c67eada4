//! Requests of a client that wait for their answer: frames out, answers to the futures in.
//!
//! No lock is held while Python runs: a future that is resolved, or an object that is freed, may
//! call back into the table.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mqcore_wire::{Calls, CommandRef};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::form::FrameForm;
use crate::frozen::frozen;
use crate::wire::Command;

/// The fields of the answer to a send: what it gives, and what is nearly always the same.
const SENT_FIELDS: [&str; 5] = ["queueId", "queueOffset", "msgId", "MSG_REGION", "TRACE_ON"];
/// The region that brokers report where none is set.
const REGION_USUAL: &str = "DefaultRegion";
/// What brokers report where they want traces.
const TRACED: &str = "true";

frozen! {
    /// The usual answer to a send: stored, with nothing else in it.
    SendAnswer {
        /// The queue that it is in.
        queue_id: i32,
        /// Its offset there.
        queue_offset: i64,
        /// The broker's id of it.
        offset_message_id: String,
    }
}

impl SendAnswer {
    /// The answer to a send; none where it is not the usual one.
    fn of(answer: &CommandRef<'_>) -> Option<Self> {
        let [queue_id, queue_offset, id, region, trace] = answer.fields.only(SENT_FIELDS)?;
        let is_usual = answer.code == 0
            && region.is_none_or(|name| name == REGION_USUAL)
            && trace.is_none_or(|wanted| wanted == TRACED);
        if !is_usual {
            return None;
        }
        Some(Self {
            queue_id: queue_id?.parse().ok()?,
            queue_offset: queue_offset?.parse().ok()?,
            offset_message_id: id?.to_owned(),
        })
    }
}

/// Who waits for an answer.
struct Waiter {
    future: Py<PyAny>,
    /// Whether the usual answer to a send is given as a [`SendAnswer`].
    is_send: bool,
}

/// The requests of one connection that wait, by their number.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct CallTable {
    calls: Mutex<Calls<Waiter>>,
}

impl CallTable {
    fn calls(&self) -> MutexGuard<'_, Calls<Waiter>> {
        // Nothing that panics runs under the lock.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an answer to who waits for it; returns whether somebody did.
    pub(crate) fn answer(&self, py: Python<'_>, answer: &CommandRef<'_>) -> PyResult<bool> {
        let waiter = self.calls().end(answer.opaque);
        let Some(waiter) = waiter else {
            return Ok(false);
        };
        let future = waiter.future.bind(py);
        if is_done(future)? {
            return Ok(false);
        }
        let sent = if waiter.is_send {
            SendAnswer::of(answer)
        } else {
            None
        };
        let answer = match sent {
            Some(sent) => Py::new(py, sent)?.into_any(),
            None => Py::new(py, Command::of(py, answer)?)?.into_any(),
        };
        settle(future, answer)?;
        Ok(true)
    }
}

fn is_done(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    future
        .call_method0(intern!(future.py(), "done"))?
        .is_truthy()
}

fn settle(future: &Bound<'_, PyAny>, answer: Py<PyAny>) -> PyResult<()> {
    let name = intern!(future.py(), "set_result");
    future.call_method1(name, (answer,)).map(drop)
}

fn futures(waiters: Vec<Waiter>) -> Vec<Py<PyAny>> {
    waiters.into_iter().map(|waiter| waiter.future).collect()
}

#[pymethods]
impl CallTable {
    #[new]
    fn new() -> Self {
        Self {
            calls: Mutex::default(),
        }
    }

    fn __len__(&self) -> usize {
        self.calls().len()
    }

    /// Whether a request with a deadline waits.
    #[getter]
    fn has_deadlines(&self) -> bool {
        self.calls().has_deadlines()
    }

    /// Lets a future wait for an answer; its frame is sent by somebody else.
    #[pyo3(signature = (opaque, future, deadline_s=f64::INFINITY))]
    fn begin(&self, opaque: i32, future: Py<PyAny>, deadline_s: f64) {
        let waiter = Waiter {
            future,
            is_send: false,
        };
        let displaced = self.calls().begin(opaque, deadline_s, waiter);
        drop(displaced);
    }

    /// Writes a send and lets a future wait for its answer; the usual one is a `SendAnswer`.
    #[expect(clippy::too_many_arguments, reason = "a request, and who waits for it")]
    fn ask_send(
        &self,
        py: Python<'_>,
        form: &FrameForm,
        opaque: i32,
        values: &Bound<'_, PyTuple>,
        body: &Bound<'_, PyBytes>,
        future: Py<PyAny>,
        deadline_s: f64,
    ) -> PyResult<()> {
        let mut unsent = self.calls().lend_unsent();
        let written = form.write(&mut unsent, opaque, values, body.as_bytes());
        self.calls().put_unsent(unsent);
        written.map_err(|error| error.raised(py))?;
        let waiter = Waiter {
            future,
            is_send: true,
        };
        let displaced = self.calls().begin(opaque, deadline_s, waiter);
        drop(displaced);
        Ok(())
    }

    /// The frames that were written since the last call.
    fn take_unsent<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let unsent = self.calls().lend_unsent();
        let bytes = PyBytes::new(py, &unsent);
        self.calls().reuse(unsent);
        bytes
    }

    /// Forgets a request: answered, late or cancelled.
    fn end(&self, opaque: i32) {
        let ended = self.calls().end(opaque);
        drop(ended);
    }

    /// Gives a command to who waits for it; returns whether somebody did.
    fn resolve(&self, py: Python<'_>, response: &Bound<'_, Command>) -> PyResult<bool> {
        let opaque = response.borrow().opaque();
        let waiter = self.calls().end(opaque);
        let Some(waiter) = waiter else {
            return Ok(false);
        };
        let future = waiter.future.bind(py);
        if is_done(future)? {
            return Ok(false);
        }
        settle(future, response.clone().unbind().into_any())?;
        Ok(true)
    }

    /// Takes out the futures whose deadline is over, in the order in which they began.
    fn take_late(&self, now_s: f64) -> Vec<Py<PyAny>> {
        let late = self.calls().take_late(now_s);
        futures(late)
    }

    /// Takes out all futures: no answer will come.
    fn take_all(&self) -> Vec<Py<PyAny>> {
        let all = self.calls().take_all();
        futures(all)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(calls) = self.calls.try_lock() {
            for waiter in calls.waiters() {
                visit.call(&waiter.future)?;
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        let all = self.calls().take_all();
        drop(all);
    }
}
