//! The fast paths of a broker: that of Python's event loop first, those of the reactors after it, each
//! behind its lock, and what they have in common.
//!
//! No Python object is made or dropped under such a lock: that could run any Python code, and that code
//! could call here.

use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::lock::MutexGuard;
use mqcore_fast_path::lags::KeptTimes;
use mqcore_fast_path::locked;
use mqcore_fast_path::shared_state::SharedState;
use mqcore_fast_path::{FastPath, locked::Inside as AnyInside};

use crate::fork::Origin;
use crate::store::Engine;

/// The fast path of one loop.
pub(crate) type Home = locked::LockedFastPath<RealDisk, SystemClock>;
/// What its lock protects.
pub(crate) type Inside = AnyInside<RealDisk, SystemClock>;

/// The fast paths.
pub(crate) struct LockedFastPath {
    first: Arc<Home>,
    /// Those of the reactors.
    others: Vec<Arc<Home>>,
    /// What loops share, each part behind its own lock: asked without the locks of fast paths.
    pub(crate) shared: SharedState,
    /// Store times that reports of lags have looked up.
    pub(crate) kept_times: KeptTimes,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: SystemClock,
    pub(crate) origin: Origin,
}

impl LockedFastPath {
    pub(crate) fn new(
        first: FastPath<RealDisk, SystemClock>,
        others: Vec<FastPath<RealDisk, SystemClock>>,
        engine: Arc<Engine>,
    ) -> Self {
        let clock = SystemClock::new();
        let shared = first.shared.clone();
        let home = |path| Arc::new(Home::new(path, clock.clone()));
        Self {
            shared,
            kept_times: KeptTimes::default(),
            first: home(first),
            others: others.into_iter().map(home).collect(),
            engine,
            clock: clock.clone(),
            origin: Origin::here(),
        }
    }

    /// That of Python's loop.
    pub(crate) fn of_python(&self) -> &Arc<Home> {
        &self.first
    }

    /// Those of the reactors.
    pub(crate) fn of_reactors(&self) -> &[Arc<Home>] {
        &self.others
    }

    /// All of them, that of Python's loop first.
    pub(crate) fn homes(&self) -> impl Iterator<Item = &Arc<Home>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// That of Python's loop, locked.
    pub(crate) fn locked(&self) -> MutexGuard<'_, Inside> {
        self.first.locked()
    }

    /// The same, with the time.
    pub(crate) fn locked_now(&self) -> (MutexGuard<'_, Inside>, u64) {
        self.first.locked_now()
    }
}

impl Drop for LockedFastPath {
    fn drop(&mut self) {
        if self.origin.is_elsewhere() {
            for home in self.homes() {
                if let Some(mut inside) = home.try_locked() {
                    inside.path.abandon();
                }
            }
        }
    }
}
