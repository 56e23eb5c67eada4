//! The fast path of one event loop behind its lock: what the classes over it have in common.
//!
//! No Python object is made or dropped under the lock: that could run any Python code, and that code
//! could call here.

use std::sync::Arc;

use mqcore_engine::clock::{Clock, SystemClock};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::lock::{Mutex, MutexGuard};
use mqcore_engine::store::LoopEvents;
use mqcore_fast_path::FastPath;
use mqcore_fast_path::shared_state::SharedState;

use crate::fork::Origin;
use crate::store::Engine;

/// What the lock protects.
pub(crate) struct Inside {
    pub(crate) path: FastPath<RealDisk, SystemClock>,
    /// When the loop will drain by itself, ms.
    pub(crate) drains_at_ms: u64,
    /// Set: the time is what `drain` was given last.
    pub(crate) manual_ms: Option<u64>,
}

/// The fast path behind its lock.
pub(crate) struct LockedFastPath {
    inside: Mutex<Inside>,
    /// What loops share, each part behind its own lock: asked without this one.
    pub(crate) shared: SharedState,
    /// What the loop is woken for.
    events: Arc<LoopEvents>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: SystemClock,
    pub(crate) origin: Origin,
}

impl LockedFastPath {
    pub(crate) fn new(path: FastPath<RealDisk, SystemClock>, engine: Arc<Engine>) -> Self {
        Self {
            shared: path.shared.clone(),
            events: Arc::clone(path.events()),
            inside: Mutex::new(Inside {
                path,
                drains_at_ms: u64::MAX,
                manual_ms: None,
            }),
            engine,
            clock: SystemClock::new(),
            origin: Origin::here(),
        }
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock()
    }

    /// The fast path with the time.
    pub(crate) fn locked_now(&self) -> (MutexGuard<'_, Inside>, u64) {
        let inside = self.inside.lock();
        let now_ms = inside.manual_ms.unwrap_or_else(|| self.clock.elapsed_ms());
        (inside, now_ms)
    }

    /// Wakes the loop when something is due before it will drain by itself.
    pub(crate) fn wake_before_deadline(&self, inside: &mut Inside) {
        let next_ms = inside.path.next_deadline_ms().unwrap_or(u64::MAX);
        if next_ms < inside.drains_at_ms {
            inside.drains_at_ms = next_ms;
            self.events.wake_descriptor().raise();
        }
    }
}

impl Drop for LockedFastPath {
    fn drop(&mut self) {
        if self.origin.is_elsewhere()
            && let Some(mut inside) = self.inside.try_lock()
        {
            inside.path.abandon();
        }
    }
}
