//! Pops: messages taken without owning a queue, given back when nobody acknowledged them in time
//! (`PopMessageProcessor`, `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`,
//! `PopReviveService`).
//!
//! | module | what |
//! |---|---|
//! | [`rules`] | what is decided about pops |
//! | [`names`], [`handle`], [`points`] | names, handles, records of check points: pure |
//! | [`headers`] | the headers of the requests, typed |
//! | [`buffer`] | what is popped and not settled: pure |
//! | [`flight`] | how many messages are popped and not acknowledged: pure |
//! | [`polls`] | held pops: pure |
//! | [`orders`] | ordered pops: pure |
//! | `check`, `take`, `queue`, `answer` | a pop: who may, its way, one queue of it, the answer |
//! | `ack` | acknowledgements, and changes of the invisible time |
//! | `log` | check points and acknowledgements into the log |
//! | `look` | what is asked without popping |
//! | [`revive`], `retry` | check points read back: what nobody acknowledged comes again |

pub mod buffer;
pub mod flight;
pub mod handle;
pub mod headers;
pub mod names;
pub mod orders;
pub mod points;
pub mod polls;
pub mod revive;
pub mod rules;

mod ack;
mod answer;
mod check;
mod log;
mod look;
mod queue;
mod retry;
mod take;

use std::collections::VecDeque;

use crate::turn::{POPS_WORK, Slice};
use buffer::Buffer;
use flight::InFlight;
use look::Notice;
use orders::Orders;
use polls::Polls;
pub use queue::ColdPop;
pub use take::{Pop, Run};

/// Bytes of the log that one request writes at the most before it is looked at again whether there
/// is room: a check point for each of its messages, of the longest names.
const WRITES_MAX_BYTES: u64 = 64 * 1024;

/// What the lane knows of pops.
#[derive(Debug, Default)]
pub struct Pops {
    /// What is popped and not settled.
    pub buffer: Buffer,
    /// How many messages are popped and not acknowledged, while that has a bound.
    pub in_flight: InFlight,
    /// Ordered pops.
    pub orders: Orders,
    /// Held pops.
    pub polls: Polls<Pop>,
    /// Held questions whether there is something to pop.
    pub notices: Polls<Notice>,
    /// Pops to run again at the next drain.
    later: VecDeque<Pop>,
    /// Whether the last turn ended before all of them had run that could.
    is_cut: bool,
    /// Pops to run before the lane does anything else.
    woken: Vec<Pop>,
    /// Rises with each pop: spreads queues and chances.
    turn: u32,
    /// When unused parts of the buffer are looked for next, ms.
    next_forget_ms: u64,
    /// Check points and acknowledgements stored.
    stored: u64,
}

impl Pops {
    /// When a drain has something to do, ms.
    pub(crate) fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let at = if self.is_cut { 0 } else { now_ms + 1 };
        let later = (!self.later.is_empty()).then_some(at);
        let deadlines = [
            later,
            self.buffer.next_due_ms(),
            self.polls.next_deadline_ms(),
            self.notices.next_deadline_ms(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Notes what came into a queue, so that those are woken that may want it: one of each line.
    pub(crate) fn arrived(&mut self, topic: &str, queue_id: i32, tags_codes: &[i64]) {
        self.polls.arrived(topic, queue_id, tags_codes);
        self.notices.arrived(topic, queue_id, tags_codes);
    }

    /// The next question to be asked again.
    fn next_notice(&mut self, now_ms: u64, slice: &mut Slice) -> Option<Notice> {
        let notices = &mut self.notices;
        notices
            .next_woken(slice)
            .or_else(|| notices.next_due(now_ms, slice))
            .or_else(|| notices.next_checked(now_ms, slice))
    }

    /// Wakes pops that something came for, whose time is over, and that the check looks after.
    fn wake(&mut self, now_ms: u64) {
        // Each kind has its own part, so that one does not wait for another to end.
        let mut slice = Slice::new(POPS_WORK);
        while let Some(pop) = self.polls.next_woken(&mut slice) {
            self.later.push_back(pop);
        }
        let mut slice = Slice::new(POPS_WORK);
        while let Some(pop) = self.polls.next_due(now_ms, &mut slice) {
            self.later.push_back(pop);
        }
        while let Some(pop) = self.polls.next_checked(now_ms, &mut slice) {
            self.later.push_back(pop);
        }
    }

    /// Names and numbers, for reports.
    pub(crate) fn numbers(&self) -> [(&'static str, u64); 3] {
        [
            ("pops_open", self.buffer.open() as u64),
            ("pops_held", (self.polls.len() + self.notices.len()) as u64),
            ("pop_records", self.stored),
        ]
    }

    /// Check points and acknowledgements stored since the lane was made: offsets of groups may rest
    /// on them.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.stored
    }

    /// A number below `bound` that is another one with each call.
    fn lot(&mut self, bound: u32) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        // Fibonacci hashing: neighbouring turns fall far apart.
        (self.turn.wrapping_mul(0x9E37_79B9) >> 8) % bound.max(1)
    }
}
