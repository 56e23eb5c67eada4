//! The only reader of time. Everything that needs a time is given a [`Clock`], so that tests turn
//! the hands themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of wall time and of time that never steps back.
pub trait Clock: Clone + Send + Sync + 'static {
    /// Unix time in milliseconds; may step in either direction.
    fn now_ms(&self) -> i64;

    /// Time since an arbitrary start; never steps back.
    fn elapsed(&self) -> Duration;

    /// [`Clock::elapsed`] in whole milliseconds.
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The machine's clocks.
#[derive(Clone, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose [`Clock::elapsed`] starts now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            // A machine set before 1970: RocketMQ's times are signed, so it is negative.
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when it is set; clones share the time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    now_ms: Arc<AtomicI64>,
    elapsed_ms: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    #[must_use]
    pub fn at(now_ms: i64) -> Self {
        let clock = Self::default();
        clock.now_ms.store(now_ms, Ordering::SeqCst);
        clock
    }

    /// Lets `by` pass: wall time and elapsed time.
    pub fn advance(&self, by: Duration) {
        let by_ms = by.as_millis();
        self.now_ms
            .fetch_add(i64::try_from(by_ms).unwrap_or(i64::MAX), Ordering::SeqCst);
        self.elapsed_ms
            .fetch_add(u64::try_from(by_ms).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Sets the wall clock alone, as an administrator or a time server does.
    pub fn set_wall_ms(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst))
    }
}

/// The local hour of the day (0 to 23) at a Unix time in milliseconds; UTC where the machine has no
/// time zone.
#[must_use]
pub fn local_hour(now_ms: i64) -> u32 {
    let at = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    at.to_zoned(jiff::tz::TimeZone::system())
        .hour()
        .unsigned_abs()
        .into()
}
