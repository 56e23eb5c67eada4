//! The fail-stop latch: after a failed sync or write, or a panic in a worker, nothing is
//! acknowledged again until the store is reopened. Knows nothing of what failed but its text.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Latches the first failure for good.
#[derive(Debug, Default)]
pub struct Poison {
    is_set: AtomicBool,
    reason: OnceLock<String>,
}

impl Poison {
    /// Latches `reason`; the first one stays.
    pub fn set(&self, reason: impl Into<String>) {
        // A later reason is a consequence of the first: it is dropped on purpose.
        let _kept_first = self.reason.set(reason.into());
        self.is_set.store(true, Ordering::SeqCst);
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        if self.is_set.load(Ordering::Acquire) {
            self.reason.get().map(String::as_str)
        } else {
            None
        }
    }

    /// Goes on only while nothing failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first reason.
    pub fn check(&self) -> Result<()> {
        match self.reason() {
            None => Ok(()),
            Some(reason) => Err(Error::Poisoned {
                reason: reason.to_owned(),
            }),
        }
    }
}

/// Poisons when dropped by a panic: each worker thread holds one.
#[derive(Debug)]
pub struct PanicGuard<'a> {
    poison: &'a Poison,
    worker: &'static str,
}

impl<'a> PanicGuard<'a> {
    /// Watches the thread called `worker`.
    #[must_use]
    pub fn new(poison: &'a Poison, worker: &'static str) -> Self {
        Self { poison, worker }
    }
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.poison.set(format!("thread {} panicked", self.worker));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let poison = Poison::default();
        assert!(poison.check().is_ok());
        poison.set("sync of a: EIO");
        poison.set("sync of b: EIO");
        assert_eq!(poison.reason(), Some("sync of a: EIO"));
        assert!(matches!(poison.check(), Err(Error::Poisoned { .. })));
    }
}
