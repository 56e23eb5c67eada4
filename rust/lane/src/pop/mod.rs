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
    later: Vec<Pop>,
    /// Questions to ask again at the next drain.
    asked: Vec<Notice>,
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
        let is_idle = self.later.is_empty() && self.asked.is_empty();
        let later = (!is_idle).then_some(now_ms + 1);
        let deadlines = [
            later,
            self.buffer.next_due_ms(),
            self.polls.next_deadline_ms(),
            self.notices.next_deadline_ms(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Lets those run that may want what came into a queue: one of each line.
    pub(crate) fn arrived(&mut self, topic: &str, queue_id: i32, tags_codes: &[i64]) {
        self.polls
            .arrived(topic, queue_id, tags_codes, &mut self.later);
        self.notices
            .arrived(topic, queue_id, tags_codes, &mut self.asked);
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
