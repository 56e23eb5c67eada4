//! A pop on its way: its header, the queues it goes through, what becomes of it when it found
//! nothing (`PopMessageProcessor`, `PopLongPollingService`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;

use super::check::Stop;
use super::handle::Infos;
use super::headers::PopHeader;
use super::names::{ORDER_QUEUE, Source, retry_topic};
use super::polls::{Bounds, QueueKey, Waits};
use crate::asker::{Asker, ConnectionId};
use crate::codes;
use crate::desk::PINNED_BYTES_MAX;
use crate::lane::{How, Lane, Outcome};
use crate::policy::Filter;
use crate::requests::{BadField, Request};
use crate::turn::{POPS_WORK, Slice};

/// A pop whose time is over by this much less is not held any more (`PopRequest.isTimeout`), ms.
const NEARLY_OVER_MS: i64 = 50;
/// Longest hold that a client may ask for, ms: beyond its own time-outs it means nothing.
const HOLD_MS_MAX: i64 = 3_600_000;
/// Bytes that may wait for all connections together before pops are refused, as for pulls.
const QUEUED_BYTES_MAX: usize = 2 * PINNED_BYTES_MAX;

/// Work for each queue that a pop goes through: its bounds, its place in the buffer, its offset.
const QUEUE_WORK: usize = 5;

/// A pop, owned, so that it can run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pop {
    /// Who asked.
    pub asker: Asker,
    /// The consumer group.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The queue; −1: any.
    pub queue_id: i32,
    /// Messages at the most.
    pub count_max: usize,
    /// How long nobody else gets them, ms.
    pub invisible_ms: i64,
    /// How long it may be held, ms; 0: not at all.
    pub poll_ms: i64,
    /// When it was made, Unix ms.
    pub born_ms: i64,
    /// Whether a new group begins at the end of the queues.
    pub from_max: bool,
    /// Which messages.
    pub filter: Filter,
    /// Whether the messages of a queue are given in order.
    pub is_ordered: bool,
    /// Names the attempt.
    pub attempt: Option<Box<str>>,
    /// Whether it was looked after once since it is held: what came between its run and that is told
    /// by nobody.
    pub(super) is_looked_after: bool,
}

impl Waits for Pop {
    fn connection(&self) -> ConnectionId {
        self.asker.connection
    }

    fn line(&self) -> (&str, &str, i32) {
        (&self.topic, &self.group, self.queue_id)
    }

    fn may_want(&self, tags_codes: &[i64]) -> bool {
        self.filter.may_want(tags_codes)
    }
}

/// A queue that a pop goes through.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) source: Source,
    pub(super) queue_id: i32,
    /// Whether it is passed by when nothing more is wanted.
    pub(super) is_last: bool,
}

/// A message of an answer.
#[derive(Debug)]
pub(super) enum Part<D: Disk> {
    /// As it lies in the log.
    Record(RecordBytes<D>),
    /// Written anew: a retry under the topic that was asked for.
    Own(Vec<u8>),
}

/// A run of a pop through its queues.
#[derive(Debug)]
pub struct Run<D: Disk> {
    pub(super) pop: Pop,
    /// When, on the timers' clock, Unix ms.
    pub(super) time_ms: i64,
    pub(super) revive_queue: i32,
    pub(super) steps: Vec<Step>,
    pub(super) at: usize,
    pub(super) retry: Option<Arc<str>>,
    pub(super) parts: Vec<Part<D>>,
    /// Messages that are there and were not given.
    pub(super) rest: i64,
    pub(super) infos: Infos,
    /// Whether a queue has more that was not tested.
    pub(super) has_untested: bool,
    /// Until when the nearest of its ordered queues is blocked, Unix ms.
    pub(super) blocked_until_ms: Option<i64>,
}

impl<D: Disk> Run<D> {
    /// The name of the topic that a step reads.
    pub(super) fn topic_of(&self, step: Step) -> Arc<str> {
        match (&self.retry, step.source) {
            (Some(retry), Source::RetryV1 | Source::RetryV2) => Arc::clone(retry),
            _ => Arc::clone(&self.pop.topic),
        }
    }
}

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn pop(&mut self, request: &Request<'_>, how: How) -> Result<Outcome, BadField> {
        let header = PopHeader::read(request)?;
        let filter = match self.check_pop(&request.asker, &header, how) {
            Ok(filter) => filter,
            Err(Stop::Hand(need)) => return Ok(Outcome::Hand(need)),
            Err(Stop::Refuse((code, remark))) => {
                self.refuse_pop(&request.asker, code, &remark);
                return Ok(Outcome::Done);
            }
        };
        if self.waits_for_log() {
            return Ok(Outcome::Defer);
        }
        if self.desk.queued_bytes() > QUEUED_BYTES_MAX {
            self.refuse_pop(&request.asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
            return Ok(Outcome::Done);
        }
        let born_ms = if header.born_ms == 0 {
            self.store.wall_ms()
        } else {
            header.born_ms
        };
        self.run_pop(Pop {
            asker: request.asker,
            group: header.group.into(),
            topic: header.topic.into(),
            queue_id: header.queue_id.max(-1),
            count_max: usize::try_from(header.count_max).unwrap_or(0),
            invisible_ms: header.invisible_ms,
            poll_ms: header.poll_ms.min(HOLD_MS_MAX),
            born_ms,
            from_max: header.from_max,
            filter,
            is_ordered: header.is_ordered,
            attempt: header.attempt.map(Into::into),
            is_looked_after: false,
        });
        self.run_woken_pops(&mut Slice::new(POPS_WORK));
        Ok(Outcome::Done)
    }

    /// Runs those that others have woken; what is left waits for the next drain.
    pub(crate) fn run_woken_pops(&mut self, slice: &mut Slice) {
        while let Some(pop) = self.pops.woken.pop() {
            if slice.is_spent() || self.waits_for_log() {
                self.pops.is_cut |= slice.is_spent();
                self.pops.later.push_front(pop);
            } else {
                self.run_pop_in(pop, slice);
            }
        }
    }

    /// Runs those that wait for this drain.
    pub(crate) fn run_later_pops(&mut self) {
        let mut slice = Slice::new(POPS_WORK);
        self.pops.is_cut = false;
        // Those that come back while others run wait for the next one.
        for _ in 0..self.pops.later.len() {
            if slice.is_spent() || self.waits_for_log() {
                self.pops.is_cut |= slice.is_spent();
                return;
            }
            let Some(pop) = self.pops.later.pop_front() else {
                return;
            };
            self.run_pop_in(pop, &mut slice);
            self.run_woken_pops(&mut slice);
        }
    }

    /// Wakes those that something came for, whose time is over, and that the check looks after; asks
    /// again what was asked.
    pub(crate) fn wake_pops(&mut self) {
        let now_ms = self.now_ms;
        self.pops.wake(now_ms);
        let mut slice = Slice::new(POPS_WORK);
        while !slice.is_spent()
            && let Some(notice) = self.pops.next_notice(now_ms, &mut slice)
        {
            self.answer_notice(notice);
            slice.spend_run(0);
        }
    }

    fn run_pop_in(&mut self, pop: Pop, slice: &mut Slice) {
        let before = self.desk.stats.pulled_bytes;
        let queues = if pop.queue_id < 0 {
            let known = self.policy.topics.get(&*pop.topic);
            known.map_or(0, |topic| topic.read_queues.unsigned_abs())
        } else {
            1
        };
        self.run_pop(pop);
        let answer_bytes = self.desk.stats.pulled_bytes - before;
        slice.spend(QUEUE_WORK * queues as usize);
        slice.spend_run(usize::try_from(answer_bytes).unwrap_or(usize::MAX));
    }

    fn run_pop(&mut self, pop: Pop) {
        if self.desk.connection(pop.asker.connection).is_none() {
            // It was woken for nothing: another one of its line may want what came.
            let line = (&*pop.topic, &*pop.group, pop.queue_id);
            let next = self.pops.polls.next_of(line);
            self.pops.woken.extend(next);
            return;
        }
        let (steps, retry) = self.steps_of(&pop);
        let queues = self.policy.broker.pops.revive_queues;
        let revive_queue = if pop.is_ordered {
            ORDER_QUEUE
        } else {
            (self.pops.turn % queues.max(1).unsigned_abs()).cast_signed()
        };
        let run = Run {
            time_ms: self.pop_ms(),
            revive_queue,
            steps,
            at: 0,
            retry,
            parts: Vec::new(),
            rest: 0,
            infos: Infos::default(),
            has_untested: false,
            blocked_until_ms: None,
            pop,
        };
        self.go_on_popping(Box::new(run));
    }

    /// The queues of a pop: those of its topic, beginning with any, and those of its retry topic,
    /// now and then first.
    fn steps_of(&mut self, pop: &Pop) -> (Vec<Step>, Option<Arc<str>>) {
        let lot = self.pops.lot(100);
        let (rules, topics) = (&self.policy.broker.pops, &self.policy.topics);
        let source = if rules.has_retry_v2 && !(rules.reads_retry_v1 && lot.is_multiple_of(2)) {
            Source::RetryV2
        } else {
            Source::RetryV1
        };
        let queues_of = |name: &str| topics.get(name).map_or(0, |topic| topic.read_queues);
        let each = |source: Source, queues: i32, is_last: bool| {
            let first = lot.cast_signed();
            (0..queues).map(move |at| Step {
                source,
                queue_id: (first + at) % queues,
                is_last,
            })
        };
        let mut steps = Vec::new();
        let mut retry = None;
        let mut retry_queues = 0;
        if !pop.is_ordered {
            let name = retry_topic(&pop.topic, &pop.group, source == Source::RetryV2);
            retry_queues = queues_of(&name);
            if retry_queues > 0 {
                retry = Some(Arc::from(name));
            }
        }
        let is_retry_first = lot < rules.retry_first_percent;
        if is_retry_first {
            steps.extend(each(source, retry_queues, false));
        }
        if pop.queue_id < 0 {
            steps.extend(each(Source::Normal, queues_of(&pop.topic), false));
        } else {
            steps.push(Step {
                source: Source::Normal,
                queue_id: pop.queue_id,
                is_last: false,
            });
        }
        if !is_retry_first {
            steps.extend(each(source, retry_queues, true));
        }
        (steps, retry)
    }

    /// Goes through the queues that are left; one that lies on the disk is read elsewhere, and the run
    /// goes on then.
    pub(super) fn go_on_popping(&mut self, mut run: Box<Run<D>>) {
        while let Some(step) = run.steps.get(run.at).copied() {
            run.at += 1;
            match self.pop_queue(&mut run, step) {
                None => {}
                Some(cold) => return self.read_cold_pop(run, cold),
            }
        }
        self.finish_pop(*run);
    }

    /// What becomes of a pop that found nothing: held, or answered so.
    pub(super) fn hold_pop(&mut self, run: &Run<D>) -> Option<i32> {
        let pop = &run.pop;
        let rules = &self.policy.broker.pops;
        let bounds = Bounds {
            per_line: rules.held_per_line,
            all: rules.held_max,
            per_connection: self.policy.broker.held.per_connection,
        };
        if pop.poll_ms <= 0 || pop.asker.is_oneway {
            return Some(codes::POLLING_TIMEOUT);
        }
        let left_ms = pop.born_ms.saturating_add(pop.poll_ms) - self.store.wall_ms();
        let left_ms = left_ms.min(pop.poll_ms);
        if left_ms < NEARLY_OVER_MS {
            return Some(codes::POLLING_TIMEOUT);
        }
        if !self.pops.polls.has_room(pop, bounds) {
            return Some(codes::POLLING_FULL);
        }
        let mut pop = pop.clone();
        if run.has_untested {
            self.pops.later.push_back(pop);
            return None;
        }
        let mut hold_ms = left_ms - NEARLY_OVER_MS + 1;
        if let Some(until_ms) = run.blocked_until_ms {
            hold_ms = hold_ms.min((until_ms - self.pop_ms()).max(1));
        }
        let queues = self.queues_of_line(&pop.topic, &pop.group, pop.queue_id, pop.is_ordered);
        self.watch_all(&queues);
        if !pop.is_looked_after {
            pop.is_looked_after = true;
            if !pop.is_ordered && self.has_more_for(&pop.group, &queues) {
                self.unwatch_unwaited(&queues);
                self.pops.later.push_back(pop);
                return None;
            }
        }
        let deadline_ms = self.now_ms.saturating_add(hold_ms.unsigned_abs());
        self.pops.polls.hold(pop, queues, self.now_ms, deadline_ms);
        None
    }

    /// The queues that something to pop may come into.
    pub(super) fn queues_of_line(
        &self,
        topic: &str,
        group: &str,
        queue_id: i32,
        is_ordered: bool,
    ) -> Vec<QueueKey> {
        let known = self.policy.topics.get(topic);
        let queues = known.map_or(0, |known| known.read_queues);
        let mut keys: Vec<QueueKey> = if queue_id < 0 {
            (0..queues)
                .map(|queue_id| (topic.into(), queue_id))
                .collect()
        } else {
            vec![(topic.into(), queue_id)]
        };
        if !is_ordered {
            let rules = &self.policy.broker.pops;
            let kinds: &[bool] = match (rules.has_retry_v2, rules.reads_retry_v1) {
                (false, _) => &[false],
                (true, false) => &[true],
                (true, true) => &[true, false],
            };
            for is_v2 in kinds {
                let name = retry_topic(topic, group, *is_v2);
                let known = self.policy.topics.get(name.as_str());
                let queues = known.map_or(1, |known| known.read_queues);
                keys.extend((0..queues).map(|queue_id| (name.as_str().into(), queue_id)));
            }
        }
        keys
    }

    pub(super) fn unwatch_unwaited(&self, queues: &[QueueKey]) {
        for (topic, queue_id) in queues {
            self.unwatch_unheld(topic, *queue_id);
        }
    }

    pub(super) fn watch_all(&self, queues: &[QueueKey]) {
        let arrivals = self.store.arrivals();
        for (topic, queue_id) in queues {
            arrivals.watch(topic.as_bytes(), *queue_id);
        }
    }

    /// Whether one of some queues has messages that a group was not given.
    pub(super) fn has_more_for(&mut self, group: &str, queues: &[QueueKey]) -> bool {
        queues.iter().any(|(topic, queue_id)| {
            let bounds = self.store.bounds(topic.as_bytes(), *queue_id);
            let Ok(Some(bounds)) = bounds else {
                return false;
            };
            self.position_of(topic, group, *queue_id)
                .unwrap_or(bounds.min)
                < bounds.max
        })
    }

    /// Where a group goes on in a queue; `None` where it never was.
    pub(super) fn position_of(&mut self, topic: &str, group: &str, queue_id: i32) -> Option<u64> {
        let committed = self.offsets.find(group, topic, queue_id);
        let committed = committed.and_then(|offset| u64::try_from(offset).ok());
        let place = self.pops.buffer.find(topic, group, queue_id);
        let latest = place.and_then(|place| self.pops.buffer.latest(place));
        committed.max(latest)
    }
}
