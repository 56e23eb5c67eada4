//! The fast path of one loop behind its lock, with the time: what the loop and those who call from other
//! threads have in common. Knows no socket.

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::{Mutex, MutexGuard};
use mqcore_engine::store::LoopEvents;

use crate::fast_path::FastPath;

/// What the lock protects.
pub struct Inside<D: Disk, C: Clock> {
    /// The fast path.
    pub path: FastPath<D, C>,
    /// When the loop will drain by itself, ms.
    pub drains_at_ms: u64,
    /// Set: the time is what the last drain was given.
    pub manual_ms: Option<u64>,
}

/// The fast path of a loop behind its lock.
pub struct LockedFastPath<D: Disk, C: Clock> {
    inside: Mutex<Inside<D, C>>,
    events: Arc<LoopEvents>,
    clock: C,
}

impl<D: Disk, C: Clock> LockedFastPath<D, C> {
    /// Puts a fast path behind a lock. The fast paths over one store share a clock.
    #[must_use]
    pub fn new(mut path: FastPath<D, C>, clock: C) -> Self {
        let elapsed = clock.clone();
        path.connections.times.time_by(move || elapsed.elapsed());
        Self {
            events: Arc::clone(path.events()),
            inside: Mutex::new(Inside {
                path,
                drains_at_ms: u64::MAX,
                manual_ms: None,
            }),
            clock,
        }
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// What the loop is woken for.
    #[must_use]
    pub fn events(&self) -> &Arc<LoopEvents> {
        &self.events
    }

    /// The fast path.
    ///
    /// # Blocking
    /// Until its holder lets it go: one turn of a connection, or a drain.
    pub fn locked(&self) -> MutexGuard<'_, Inside<D, C>> {
        self.inside.lock()
    }

    /// The fast path, unless somebody has it.
    pub fn try_locked(&self) -> Option<MutexGuard<'_, Inside<D, C>>> {
        self.inside.try_lock()
    }

    /// The fast path with the time.
    ///
    /// # Blocking
    /// As [`LockedFastPath::locked`].
    pub fn locked_now(&self) -> (MutexGuard<'_, Inside<D, C>>, u64) {
        let mut inside = self.inside.lock();
        let now = self.clock.elapsed();
        inside.path.connections.times.begin(now);
        let now_ms = inside.manual_ms.unwrap_or_else(|| {
            // As `Clock::elapsed_ms`, of the same reading.
            u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
        });
        (inside, now_ms)
    }

    /// Wakes the loop when something is due before it will drain by itself.
    pub fn wake_before_deadline(&self, inside: &mut Inside<D, C>) {
        let next_ms = inside.path.next_deadline_ms().unwrap_or(u64::MAX);
        if next_ms < inside.drains_at_ms {
            inside.drains_at_ms = next_ms;
            self.events.wake_descriptor().raise();
        }
    }

    /// Wakes the loop: something was changed from elsewhere.
    pub fn wake(&self) {
        self.events.wake_descriptor().raise();
    }
}
