//! Calls into the engine that keep the GIL or release it: the only place that decides how.
//!
//! A call that cannot wait and is short keeps it: releasing it for every short call was measured
//! 200 times slower beside a computing Python thread. Whatever may wait for a disk, a lock of a
//! sync or another thread, or works on more than [`KEEP_BYTES_MAX`], releases it.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::frozen::frozen;

/// Bytes that a call may work on with the GIL kept: some 20 microseconds of copying and CRC.
pub(crate) const KEEP_BYTES_MAX: usize = 64 * 1024;
/// Records that a call may look up with the GIL kept: some 20 microseconds as well.
pub(crate) const KEEP_RECORDS_MAX: usize = 64;

static KEPT: AtomicU64 = AtomicU64::new(0);
static RELEASED: AtomicU64 = AtomicU64::new(0);

/// What becomes of the GIL during a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gil {
    /// The call is short, and cannot wait.
    Kept,
    /// The call may wait, or takes long.
    Released,
}

impl Gil {
    /// Kept for a short call, released for another one.
    pub(crate) fn kept_if(is_short: bool) -> Self {
        if is_short { Self::Kept } else { Self::Released }
    }
}

/// Makes a call into the engine.
#[inline]
pub(crate) fn gil_call<T: Send>(py: Python<'_>, gil: Gil, call: impl FnOnce() -> T + Send) -> T {
    match gil {
        Gil::Kept => {
            KEPT.fetch_add(1, Ordering::Relaxed);
            call()
        }
        Gil::Released => {
            RELEASED.fetch_add(1, Ordering::Relaxed);
            py.detach(call)
        }
    }
}

frozen! {
    /// Calls into the engine since the module was loaded.
    GilCounts {
        /// Calls that kept the GIL.
        kept: u64,
        /// Calls that released it.
        released: u64,
    }
}

/// How many calls kept the GIL and how many released it, since the module was loaded.
#[pyfunction]
pub(crate) fn gil_counts() -> GilCounts {
    GilCounts {
        kept: KEPT.load(Ordering::Relaxed),
        released: RELEASED.load(Ordering::Relaxed),
    }
}
