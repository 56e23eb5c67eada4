//! Why appends are refused at the moment, one reason per cause: each cause heals by itself
//! (`RunningFlags`). Knows only texts.
//!
//! Locks: the reasons, for a look or a change, never together with another lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock::Mutex;

use crate::error::{Error, Result};
use crate::notice::Notices;

/// The causes that hold appends back now.
#[derive(Debug, Default)]
pub struct Refusals {
    is_any: AtomicBool,
    reasons: Mutex<BTreeMap<&'static str, String>>,
}

impl Refusals {
    /// Goes on only while no cause holds.
    ///
    /// # Errors
    /// [`Error::NotWritable`] with every reason.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if !self.is_any.load(Ordering::Acquire) {
            return Ok(());
        }
        let reasons = self.reasons.lock();
        let reason = reasons.values().cloned().collect::<Vec<_>>().join("; ");
        if reason.is_empty() {
            Ok(())
        } else {
            Err(Error::NotWritable { reason })
        }
    }

    /// Sets or lifts the reason of one cause; true when that changed whether it holds.
    pub fn set(&self, cause: &'static str, reason: Option<String>) -> bool {
        let mut reasons = self.reasons.lock();
        let held = reasons.contains_key(cause);
        let holds = reason.is_some();
        match reason {
            Some(reason) => reasons.insert(cause, reason),
            None => reasons.remove(cause),
        };
        self.is_any.store(!reasons.is_empty(), Ordering::Release);
        held != holds
    }

    /// Whether one cause holds.
    #[must_use]
    pub fn holds(&self, cause: &'static str) -> bool {
        self.reasons.lock().contains_key(cause)
    }

    /// As [`Refusals::set`], with a notice when that changed whether the cause holds.
    pub(super) fn report(
        &self,
        notices: &Notices,
        cause: &'static str,
        reason: Option<String>,
        healed: &str,
    ) {
        let text = reason.clone();
        if self.set(cause, reason) {
            match text {
                Some(text) => notices.error(text),
                None => notices.info(healed),
            }
        }
    }

    /// Every cause that holds with its reason.
    #[must_use]
    pub fn reasons(&self) -> Vec<(&'static str, String)> {
        self.reasons
            .lock()
            .iter()
            .map(|(cause, reason)| (*cause, reason.clone()))
            .collect()
    }
}
