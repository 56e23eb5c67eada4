//! The locks of the project: the standard library's, without poisoning.
//!
//! Knows no file. Not a lock with a table of waiters for the whole process: after a fork such a
//! table still names threads that the child does not have, and the child's first contended lock
//! walks into them. The standard locks are one word each that only their own waiters look at.

use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

#[cfg(any(test, feature = "lock-times"))]
pub mod times;

#[cfg(not(feature = "lock-times"))]
pub use std::sync::MutexGuard;
pub use std::sync::{RwLockReadGuard, RwLockWriteGuard};

#[cfg(feature = "lock-times")]
pub use times::MutexGuard;

/// Mutual exclusion. A thread that panics while it holds the lock lets it go.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Protects `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value, since nobody else can hold it any more.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock.
    ///
    /// # Blocking
    /// Until its holder lets it go: spins shortly, then parks.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        taken(|| self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the lock when nobody holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(taken(|| guard))
    }
}

/// A guard as this build has them.
#[cfg(not(feature = "lock-times"))]
#[inline]
fn taken<'a, T: ?Sized>(take: impl FnOnce() -> MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    take()
}

/// A guard that counts how long it is held.
#[cfg(feature = "lock-times")]
fn taken<'a, T: ?Sized>(take: impl FnOnce() -> sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    MutexGuard::taken(take)
}

/// What the standard library waits with.
#[cfg(not(feature = "lock-times"))]
#[inline]
fn given_up<T: ?Sized>(guard: MutexGuard<'_, T>) -> MutexGuard<'_, T> {
    guard
}

/// What the standard library waits with; what it was held so far is counted.
#[cfg(feature = "lock-times")]
fn given_up<T: ?Sized>(guard: MutexGuard<'_, T>) -> sync::MutexGuard<'_, T> {
    guard.given_up()
}

/// Many readers or one writer. A thread that panics while it holds the lock lets it go.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Protects `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock for reading.
    ///
    /// # Blocking
    /// Until its writer lets it go.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock for writing.
    ///
    /// # Blocking
    /// Until everyone lets it go.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What threads wait at while they give up a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Lets the lock go, waits for a notice, takes the lock again. May wake without one.
    ///
    /// # Blocking
    /// Until notified.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let guard = given_up(guard);
        taken(|| self.0.wait(guard).unwrap_or_else(PoisonError::into_inner))
    }

    /// Like [`wait`](Self::wait), at most until `deadline`; true beside the guard when it has
    /// passed.
    ///
    /// # Blocking
    /// Until notified or `deadline`.
    pub fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        let left: Duration = deadline.saturating_duration_since(Instant::now());
        let (guard, outcome) = self
            .0
            .wait_timeout(given_up(guard), left)
            .unwrap_or_else(PoisonError::into_inner);
        (taken(|| guard), outcome.timed_out())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
