//! How long locks are held, and waited for, by the type that they protect: counted per thread, in builds
//! with the feature `lock-times` alone, which only a bench asks for. Knows no lock by name.

use std::any::type_name;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync;
use std::time::{Duration, Instant};

/// What one thread did with the locks of a type.
#[derive(Debug, Clone, Copy, Default)]
pub struct Held {
    /// How often it took one.
    pub count: u64,
    /// How long it held them.
    pub held: Duration,
    /// How long it waited for them.
    pub waited: Duration,
}

thread_local! {
    static HELD: RefCell<Vec<(&'static str, Held)>> = const { RefCell::new(Vec::new()) };
}

/// Takes what this thread did since the last call, by the type that the locks protect.
pub fn take() -> Vec<(&'static str, Held)> {
    HELD.take()
}

fn add(name: &'static str, held: Duration, waited: Duration) {
    // A thread that is about to end has no counts any more.
    let _counted = HELD.try_with(|all| {
        let mut all = all.borrow_mut();
        let found = all
            .iter_mut()
            .find(|(known, _)| std::ptr::eq(*known, name) || *known == name);
        let sum = match found {
            Some((_, sum)) => sum,
            None => {
                all.push((name, Held::default()));
                let Some((_, sum)) = all.last_mut() else {
                    return;
                };
                sum
            }
        };
        sum.count += 1;
        sum.held += held;
        sum.waited += waited;
    });
}

/// A lock that is held, and since when.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    /// There until the lock is let go.
    inside: Option<sync::MutexGuard<'a, T>>,
    waited: Duration,
    taken: Instant,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn taken(take: impl FnOnce() -> sync::MutexGuard<'a, T>) -> Self {
        let asked = Instant::now();
        let inside = take();
        let taken = Instant::now();
        Self {
            inside: Some(inside),
            waited: taken.duration_since(asked),
            taken,
        }
    }

    /// The guard of the standard library; what it was held so far is counted.
    pub(super) fn given_up(mut self) -> sync::MutexGuard<'a, T> {
        let held = self.taken.elapsed();
        let Some(inside) = self.inside.take() else {
            unreachable!("a guard is given up once: it is moved here")
        };
        add(type_name::<T>(), held, self.waited);
        inside
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.inside {
            Some(inside) => inside,
            None => unreachable!("only a guard that was given up has no lock"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.inside {
            Some(inside) => inside,
            None => unreachable!("only a guard that was given up has no lock"),
        }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        let Some(inside) = self.inside.take() else {
            return;
        };
        let held = self.taken.elapsed();
        // Others need not wait until it is counted.
        drop(inside);
        add(type_name::<T>(), held, self.waited);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::{MutexGuard, take};

    struct Here;

    #[test]
    fn a_hold_is_counted_for_the_type_that_is_protected() {
        let lock = Mutex::new(Here);
        let guard = || MutexGuard::taken(|| lock.lock().unwrap_or_else(PoisonError::into_inner));
        drop(take());
        drop(guard());
        let still_held = guard().given_up();
        // Counted when it is given up, not when the standard library lets it go.
        let all = take();
        drop(still_held);
        let found: Vec<_> = all
            .iter()
            .filter(|(name, _)| name.ends_with("Here"))
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1.count, 2);
        assert!(take().is_empty());
    }
}
