//! The one door between Python and the engine: decides whether a call keeps the GIL.
//!
//! A call that cannot wait and is short keeps it: giving it back for every short call was measured
//! 200 times slower beside a computing Python thread. Whatever may wait for a disk, a lock of a
//! sync or another thread, or works on more than [`KEEP_BYTES_MAX`], gives it back.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

/// Bytes that a call may work on with the GIL kept: some 20 microseconds of copying and CRC.
pub(crate) const KEEP_BYTES_MAX: usize = 64 * 1024;
/// Records that a call may look up with the GIL kept: some 20 microseconds as well.
pub(crate) const KEEP_RECORDS_MAX: usize = 64;

static KEPT: AtomicU64 = AtomicU64::new(0);
static DETACHED: AtomicU64 = AtomicU64::new(0);

/// How a call passes the door.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Short, and cannot wait.
    Keeping,
    /// May wait, or takes long.
    Detached,
}

impl Pass {
    /// Keeps the GIL where `is_short` says so.
    pub(crate) fn keeping_if(is_short: bool) -> Self {
        if is_short {
            Self::Keeping
        } else {
            Self::Detached
        }
    }
}

/// Makes a call into the engine.
#[inline]
pub(crate) fn through<T: Send>(py: Python<'_>, pass: Pass, call: impl FnOnce() -> T + Send) -> T {
    match pass {
        Pass::Keeping => {
            KEPT.fetch_add(1, Ordering::Relaxed);
            call()
        }
        Pass::Detached => {
            DETACHED.fetch_add(1, Ordering::Relaxed);
            py.detach(call)
        }
    }
}

/// How many calls kept the GIL and how many gave it back, since the module was loaded.
#[pyfunction]
pub(crate) fn door_counts() -> (u64, u64) {
    (
        KEPT.load(Ordering::Relaxed),
        DETACHED.load(Ordering::Relaxed),
    )
}
