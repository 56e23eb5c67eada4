//! Knows whether this process is a forked child of the one that opened something: maps and threads
//! of the store do not come along, so that a child must not touch them.

use std::sync::atomic::{AtomicU32, Ordering};

use mqcore_engine::error::Error;
use pyo3::prelude::*;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Remembers in which process it was made.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    forks: u32,
    process: u32,
}

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        Self {
            forks: FORKS.load(Ordering::Relaxed),
            process: std::process::id(),
        }
    }

    /// Whether this is another process now. One read of memory: a fork raises the count.
    #[inline]
    pub(crate) fn is_elsewhere(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.forks
    }

    /// Goes on only in the process of origin.
    #[inline]
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_elsewhere() {
            return Err(crate::errors::raised(
                py,
                &Error::Forked {
                    opener: self.process,
                },
            ));
        }
        Ok(())
    }
}

/// Called in every forked child (`os.register_at_fork`), before anything else runs there.
#[pyfunction]
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
