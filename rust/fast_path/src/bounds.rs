//! What all connections of a fast path together may occupy, and how long one of them may keep the others
//! waiting. Both are given by whoever makes the fast path; knows no connection.

use std::fmt;
use std::time::Duration;

/// Bytes of unfinished frames of all connections, unless set otherwise: sixteen of the largest
/// frames, or half a megabyte each for 512 slow senders.
const HALF_FRAMES_BYTES: usize = 256 << 20;
/// Bytes of answers that wait for all connections, unless set otherwise: what pulls may have
/// queued before they are refused.
const OUTPUT_BYTES: usize = 512 << 20;
/// Bytes of sends that wait for the next log file, unless set otherwise: a few times what a
/// fast network brings within the 200 ms that they may wait.
const DEFERRED_BYTES: usize = 64 << 20;
/// Frames between two readings of the clock: a reading costs about a hundredth of them.
const FRAMES_PER_READING: u32 = 8;
/// Shortest part of a turn that is worth its overhead.
const TURN_PART_MIN: Duration = Duration::from_micros(500);

/// What all connections together may occupy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of unfinished frames; the connection that passes it is closed. Whoever reads the sockets
    /// stops reading well below it.
    pub half_frames_bytes: usize,
    /// Bytes of answers that wait; above it a connection that has some is not executed.
    pub output_bytes: usize,
    /// Bytes of sends that wait for the next log file; beyond it they are refused.
    pub deferred_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            half_frames_bytes: HALF_FRAMES_BYTES,
            output_bytes: OUTPUT_BYTES,
            deferred_bytes: DEFERRED_BYTES,
        }
    }
}

type Elapsed = Box<dyn Fn() -> Duration + Send>;

/// How long one connection is executed before others have their turn. Without a clock there is no
/// bound.
#[derive(Default)]
pub struct ExecutionTime {
    clock: Option<(Duration, Elapsed)>,
    began: Option<Duration>,
    frames: u32,
    is_over: bool,
    /// Connections whose turn ended with requests left.
    pub waiting: usize,
}

impl fmt::Debug for ExecutionTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budget = self.clock.as_ref().map(|(budget, _elapsed)| budget);
        out.debug_struct("ExecutionTime")
            .field("budget", &budget)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl ExecutionTime {
    /// Bounds turns by `budget`, as `elapsed` measures it.
    pub fn bound(&mut self, budget: Duration, elapsed: impl Fn() -> Duration + Send + 'static) {
        self.clock = Some((budget, Box::new(elapsed)));
    }

    /// A connection's turn begins.
    pub(crate) fn begin(&mut self) {
        self.began = None;
        self.frames = 0;
        self.is_over = false;
    }

    /// Whether the turn that began last is over with requests left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Counts a frame; whether the turn is over. Those that wait share the budget, so that many
    /// connections with much to do keep nobody waiting longer than one of them.
    pub(crate) fn ends_before_next(&mut self) -> bool {
        let Some((budget, elapsed)) = &self.clock else {
            return false;
        };
        self.frames += 1;
        if !self.frames.is_multiple_of(FRAMES_PER_READING) {
            return self.is_over;
        }
        let now = elapsed();
        let began = *self.began.get_or_insert(now);
        let sharers = u32::try_from(self.waiting).map_or(u32::MAX, |waiting| waiting + 1);
        let part = (*budget / sharers).max(TURN_PART_MIN);
        self.is_over = now.saturating_sub(began) >= part;
        self.is_over
    }
}
