//! A request that the fast path does not execute, as Python gets it.

use mqcore_fast_path::{Escalated, Escalation};
use pyo3::prelude::*;

use crate::frozen::frozen;
use crate::wire::Command;

frozen! {
    /// A request for Python.
    Handed {
        /// The request.
        command: Py<Command>,
        /// Why: `code`, the fast path does not execute it; `topic` and `group`, `name` is not known;
        /// `check`, the policy asks for a look; `pass on`, it is for the master, which another broker
        /// is. After `topic`, `group` and `check` call `FastPathProtocol.execute`: what still does
        /// not hold then gets the official refusal.
        need: &'static str,
        /// The topic or group.
        name: String,
    }
}

impl Handed {
    pub(crate) fn of(py: Python<'_>, handed: Escalated) -> PyResult<Self> {
        let (need, name) = match handed.escalation {
            Escalation::Code => ("code", String::new()),
            Escalation::Topic(name) => ("topic", name),
            Escalation::Group(name) => ("group", name),
            Escalation::Check => ("check", String::new()),
            Escalation::PassOn => ("pass on", String::new()),
        };
        let command = Command::owned(py, &handed.command)?.of_user(&handed.user);
        let command = Py::new(py, command)?;
        Ok(Self {
            command,
            need,
            name,
        })
    }
}
