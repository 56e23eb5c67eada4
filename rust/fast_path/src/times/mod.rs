//! How long requests take, stage by stage, and which were the slowest. Knows no connection and no store.
//!
//! Times are those of steps, not of single requests: a step is what one connection has sent at once, or
//! one drain. A request is taken to last from the begin of its step to its end, so a reading of the clock
//! is paid once per step however many requests are in it. Each answer makes a note; the notes are worked
//! off after the answers have been written.
//!
//! | stage | of | from | to |
//! |---|---|---|---|
//! | `waited` | sends | received | the step in which there was space in a log file |
//! | `appended` | sends | begin of that step | its end |
//! | `flushed` | sends that wait for a sync | appended | the drain that found them synced |
//! | `replicated` | sends that wait for replicas | appended, flushed | the drain that found them there |
//! | `held` | pulls | received | begin of the step that found messages, or the end of the hold |
//! | `read` | pulls | begin of that step | end of the step that answered, with reads of the disk |
//! | `executed` | all others, refused sends | begin of the step | its end |
//! | `answered` | all | answer | bytes given to the socket |

pub mod histogram;
pub mod slowest;

use std::fmt;
use std::time::Duration;

use hashbrown::HashMap;

use self::histogram::{Below, Durations};
use self::slowest::{Slow, Slowest};
use crate::codes;
use crate::request_context::{ConnectionId, RequestContext};

/// Notes kept between two writes: more than the answers of any turn. Beyond it requests are counted as
/// not timed.
pub const NOTES_MAX: usize = 8_192;
/// Bounds of the times of requests by code, us (`RemotingMetricsManager`): 1, 3, 5, 7, 10, 100 ms, 1, 2,
/// 3 s.
pub const REQUEST_BOUNDS_US: [u64; 9] = [
    1_000, 3_000, 5_000, 7_000, 10_000, 100_000, 1_000_000, 2_000_000, 3_000_000,
];
/// Pairs of request and response code that are distinguished; there are some forty.
const PAIRS_MAX: usize = 1_024;

/// A part of the time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// For space in a log file.
    Waited,
    /// Checked and stored.
    Appended,
    /// Until it was synced.
    Flushed,
    /// Until replicas had it.
    Replicated,
    /// For messages that had not come yet.
    Held,
    /// Looked up.
    Read,
    /// Done, whatever it was.
    Executed,
    /// From the answer to the socket.
    Answered,
}

/// All stages, in the order in which they pass.
pub const STAGES: [(Stage, &str); 8] = [
    (Stage::Waited, "waited"),
    (Stage::Appended, "appended"),
    (Stage::Flushed, "flushed"),
    (Stage::Replicated, "replicated"),
    (Stage::Held, "held"),
    (Stage::Read, "read"),
    (Stage::Executed, "executed"),
    (Stage::Answered, "answered"),
];

/// What a request is, as far as stages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A send that was stored.
    Send,
    /// A pull.
    Pull,
    /// Anything else.
    Other,
}

/// All kinds.
pub const KINDS: [(Kind, &str); 3] = [
    (Kind::Send, "send"),
    (Kind::Pull, "pull"),
    (Kind::Other, "other"),
];

/// How long each stage of a request took, us; `None`: it had no such stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    by_stage: [Option<u64>; STAGES.len()],
}

impl Stages {
    #[inline]
    fn set(&mut self, stage: Stage, us: u64) {
        if let Some(slot) = self.by_stage.get_mut(stage as usize) {
            *slot = Some(us);
        }
    }

    /// Names and times of the stages that it had, us.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let each = STAGES.iter().zip(self.by_stage);
        each.filter_map(|((_, name), us)| us.map(|us| (*name, us)))
    }
}

/// What a request was about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Subject {
    /// Nobody noted it.
    #[default]
    None,
    /// A message that was stored.
    Stored {
        /// Its queue.
        queue_id: i32,
        /// Its slot there.
        queue_offset: u64,
        /// Its slot in the log.
        physical_offset: u64,
        /// Bytes of the record.
        bytes: u64,
    },
    /// A queue that was read.
    Read {
        /// For whom.
        group: Box<str>,
        /// The topic.
        topic: Box<str>,
        /// The queue.
        queue_id: i32,
        /// From where on.
        queue_offset: i64,
        /// What was given: messages.
        messages: u64,
        /// What was given: bytes of records.
        bytes: u64,
    },
}

/// What a processor knows of the times of a request, us; 0: no such moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moments {
    /// Begin of the step that executed it, where that is not the one that received it.
    pub begun_us: u64,
    /// End of the step that stored it, where it was answered in a later one.
    pub appended_us: u64,
    /// When it was known to be synced.
    pub flushed_us: u64,
    /// When it was known to be replicated.
    pub replicated_us: u64,
}

/// An answer.
#[derive(Debug)]
struct Note {
    request_context: RequestContext,
    response: i32,
    marks: Moments,
    /// End of the step that answered it.
    ended_us: u64,
    subject: Subject,
}

impl Note {
    fn kind(&self) -> Kind {
        match (&self.subject, self.request_context.code) {
            (
                Subject::Stored { .. },
                codes::SEND_MESSAGE | codes::SEND_MESSAGE_V2 | codes::SEND_BATCH_MESSAGE,
            ) => Kind::Send,
            (_, codes::PULL_MESSAGE | codes::LITE_PULL_MESSAGE) => Kind::Pull,
            _ => Kind::Other,
        }
    }

    fn begun_us(&self) -> u64 {
        self.marks.begun_us.max(self.request_context.received_us)
    }

    /// Whether both passed the same stages at the same times.
    fn is_as(&self, other: &Self) -> bool {
        let (one, two) = (&self.request_context, &other.request_context);
        one.received_us == two.received_us
            && one.code == two.code
            && one.is_oneway == two.is_oneway
            && self.response == other.response
            && self.marks == other.marks
            && self.ended_us == other.ended_us
            && std::mem::discriminant(&self.subject) == std::mem::discriminant(&other.subject)
    }

    fn stages(&self, written_us: u64) -> (Kind, Stages) {
        let mut stages = Stages::default();
        let (received_us, begun_us) = (self.request_context.received_us, self.begun_us());
        let waited_us = begun_us.saturating_sub(received_us);
        let kind = self.kind();
        let mut ended_us = self.ended_us;
        match kind {
            Kind::Send => {
                if waited_us > 0 {
                    stages.set(Stage::Waited, waited_us);
                }
                let Moments {
                    appended_us,
                    flushed_us,
                    replicated_us,
                    ..
                } = self.marks;
                let mut stored_us = if appended_us > 0 {
                    appended_us
                } else {
                    ended_us
                };
                stages.set(Stage::Appended, stored_us.saturating_sub(begun_us));
                for (stage, at_us) in [
                    (Stage::Flushed, flushed_us),
                    (Stage::Replicated, replicated_us),
                ] {
                    if at_us > 0 {
                        stages.set(stage, at_us.saturating_sub(stored_us));
                        stored_us = stored_us.max(at_us);
                    }
                }
                ended_us = stored_us;
            }
            Kind::Pull => {
                if waited_us > 0 {
                    stages.set(Stage::Held, waited_us);
                }
                stages.set(Stage::Read, ended_us.saturating_sub(begun_us));
            }
            Kind::Other => {
                stages.set(Stage::Executed, ended_us.saturating_sub(received_us));
            }
        }
        stages.set(Stage::Answered, written_us.saturating_sub(ended_us));
        (kind, stages)
    }

    /// From its bytes to its answer, without the time for which it was held, us; `None` for what is held
    /// without a word of it.
    fn total_us(&self, written_us: u64) -> Option<u64> {
        let from_us = match self.request_context.code {
            codes::POP_MESSAGE | codes::NOTIFICATION => return None,
            codes::PULL_MESSAGE | codes::LITE_PULL_MESSAGE => self.begun_us(),
            _ => self.request_context.received_us,
        };
        Some(written_us.saturating_sub(from_us))
    }
}

/// What requests are distinguished by in their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The request code.
    pub code: i32,
    /// The response code.
    pub response: i32,
    /// Whether it was held.
    pub is_held: bool,
    /// Whether nobody waits for an answer.
    pub is_oneway: bool,
}

/// The times of requests by pair.
pub type RequestDurations = Below<{ REQUEST_BOUNDS_US.len() + 1 }>;

type Elapsed = Box<dyn Fn() -> Duration + Send>;

/// The times of the requests of one loop.
#[derive(Default)]
pub struct RequestTimes {
    /// Whether requests are timed.
    pub is_on: bool,
    clock: Option<Elapsed>,
    now_us: u64,
    notes: Vec<Note>,
    /// Whether the last note is that of the last answer.
    has_last: bool,
    /// The first note of the step that is under way.
    first_of_step: usize,
    /// By kind and stage.
    by_stage: [[Durations; STAGES.len()]; KINDS.len()],
    by_pair: HashMap<Pair, RequestDurations>,
    /// The slowest requests.
    pub slowest: Slowest,
    /// Answers that were not timed because there were too many at once.
    pub untimed: u64,
}

impl fmt::Debug for RequestTimes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RequestTimes")
            .field("notes", &self.notes.len())
            .finish_non_exhaustive()
    }
}

impl RequestTimes {
    /// Times requests by a clock from now on.
    pub fn time_by(&mut self, elapsed: impl Fn() -> Duration + Send + 'static) {
        self.clock = Some(Box::new(elapsed));
    }

    /// A step begins, us.
    #[inline]
    pub fn begin(&mut self, now: Duration) {
        self.now_us = micros(now);
    }

    /// A step begins now, which nobody has read the clock for.
    pub(crate) fn begin_now(&mut self) {
        self.now_us = self.read().unwrap_or(self.now_us);
    }

    /// When the step that is under way began, us.
    #[inline]
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    fn read(&self) -> Option<u64> {
        let clock = self.clock.as_ref().filter(|_| self.is_on)?;
        Some(micros(clock()))
    }

    /// Notes an answer.
    #[inline]
    pub(crate) fn note(&mut self, request_context: &RequestContext, response: i32) {
        if !self.is_on || self.clock.is_none() {
            return;
        }
        self.has_last = self.notes.len() < NOTES_MAX;
        if !self.has_last {
            self.untimed += 1;
            return;
        }
        self.notes.push(Note {
            request_context: *request_context,
            response,
            marks: Moments::default(),
            ended_us: 0,
            subject: Subject::None,
        });
    }

    /// Adds more of the answer that was noted last.
    #[inline]
    pub(crate) fn describe(&mut self, marks: Moments, subject: impl FnOnce() -> Subject) {
        if self.has_last
            && let Some(note) = self.notes.last_mut()
        {
            note.marks = marks;
            note.subject = subject();
        }
    }

    /// A step ends; when, where it has answered something, or `is_asked`.
    #[inline]
    pub(crate) fn end_step(&mut self, is_asked: bool) -> Option<u64> {
        self.has_last = false;
        if self.first_of_step == self.notes.len() && !is_asked {
            return None;
        }
        let now_us = self.read()?;
        for note in self.notes.iter_mut().skip(self.first_of_step) {
            note.ended_us = now_us;
        }
        self.first_of_step = self.notes.len();
        Some(now_us)
    }

    /// Works the notes off: their answers were written. `peer_of` knows where a client is.
    pub(crate) fn written(&mut self, mut peer_of: impl FnMut(ConnectionId) -> Box<str>) {
        if self.notes.is_empty() {
            return;
        }
        let mut notes = std::mem::take(&mut self.notes);
        let written_us = self.read().unwrap_or(self.now_us);
        let mut first: Option<&Note> = None;
        let mut times = 0;
        for note in &notes {
            match first {
                Some(other) if note.is_as(other) => times += 1,
                _ => {
                    if let Some(other) = first {
                        self.count(other, times, written_us);
                    }
                    (first, times) = (Some(note), 1);
                }
            }
        }
        if let Some(other) = first {
            self.count(other, times, written_us);
        }
        for note in &mut notes {
            let Some(total_us) = note.total_us(written_us) else {
                continue;
            };
            if self.slowest.wants(total_us, written_us) {
                let (_kind, stages) = note.stages(written_us);
                self.slowest.keep(Slow {
                    answered_us: written_us,
                    total_us,
                    code: note.request_context.code,
                    response: note.response,
                    peer: peer_of(note.request_context.connection),
                    subject: std::mem::take(&mut note.subject),
                    stages,
                });
            }
        }
        notes.clear();
        self.notes = notes;
        self.first_of_step = 0;
        self.has_last = false;
    }

    /// Counts so many requests that were as this one.
    fn count(&mut self, note: &Note, times: u64, written_us: u64) {
        let (kind, stages) = note.stages(written_us);
        if let Some(of_kind) = self.by_stage.get_mut(kind as usize) {
            for (durations, us) in of_kind.iter_mut().zip(stages.by_stage) {
                if let Some(us) = us {
                    durations.add(us, times);
                }
            }
        }
        let pair = Pair {
            code: note.request_context.code,
            response: note.response,
            is_held: kind == Kind::Pull && note.begun_us() > note.request_context.received_us,
            is_oneway: note.request_context.is_oneway,
        };
        let us = written_us.saturating_sub(note.request_context.received_us);
        if let Some(durations) = self.by_pair.get_mut(&pair) {
            durations.add(us, times, &REQUEST_BOUNDS_US);
        } else if self.by_pair.len() < PAIRS_MAX {
            let durations = self.by_pair.entry(pair).or_default();
            durations.add(us, times, &REQUEST_BOUNDS_US);
        }
    }

    /// Times by kind and stage, of those that passed.
    pub fn by_stage(&self) -> impl Iterator<Item = (Kind, Stage, &Durations)> {
        let kinds = KINDS.iter().zip(&self.by_stage);
        let all = kinds.flat_map(|((kind, _), of_kind)| {
            let stages = STAGES.iter().zip(of_kind);
            stages.map(move |((stage, _), durations)| (*kind, *stage, durations))
        });
        all.filter(|(_, _, durations)| durations.count() > 0)
    }

    /// Times by request and response code, us.
    pub fn by_pair(&self) -> impl Iterator<Item = (&Pair, &RequestDurations)> {
        self.by_pair.iter()
    }
}

fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
