//! A replica's clock, which runs faster or slower than the true time. Knows no replica.

use std::time::Duration;

use mqcore_engine::clock::ManualClock;

/// The wall time at which each history begins.
const START_MS: i64 = 1_795_249_596_000;

/// A clock with a rate of its own.
#[derive(Debug)]
pub(crate) struct DriftingClock {
    /// What the replica reads.
    pub(crate) clock: ManualClock,
    drift_ppm: i64,
    passed_to_ms: u64,
    lag_millionths: u64,
}

impl DriftingClock {
    /// At the begin of a history; it is ahead of, or behind, the others by then.
    pub(crate) fn new(drift_ppm: i64) -> Self {
        Self {
            clock: ManualClock::at(START_MS + drift_ppm * 10),
            drift_ppm,
            passed_to_ms: 0,
            lag_millionths: 0,
        }
    }

    /// Brings the clock up to the true time.
    pub(crate) fn pass_to(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.passed_to_ms);
        self.passed_to_ms = now_ms;
        let rate = 1_000_000u64.saturating_add_signed(self.drift_ppm);
        let millionths = self.lag_millionths + passed_ms * rate;
        self.lag_millionths = millionths % 1_000_000;
        self.clock
            .advance(Duration::from_millis(millionths / 1_000_000));
    }
}
