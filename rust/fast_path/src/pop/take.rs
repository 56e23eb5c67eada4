//! The steps of a pop: its header, the queues it goes through, what becomes of it when it found
//! nothing (`PopMessageProcessor`, `PopLongPollingService`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::Got;

use super::answer::give;
use super::buffer::GroupQueueId;
use super::check::{check_pop, refuse_pop};
use super::headers::PopHeader;
use super::lines::{has_more_for, queues_of_line, watch_all};
use super::log::WRITES_MAX_BYTES;
use super::merge::{PopBufferMerge, pop_ms};
use super::polling::PopLongPolling;
use super::polls::Bounds;
use super::queue::QueuePop;
use super::shards::PopShards;
use crate::codes;
use crate::connections::PINNED_BYTES_MAX;
use crate::context::Context;
use crate::gets::Gets;
use crate::policy::Policy;
use crate::pop_run::handle::Infos;
use crate::pop_run::names::{ORDER_QUEUE, Source, retry_topic};
use crate::pop_run::{ColdPop, ReadPop};
use crate::pop_run::{Pop, Run, Step};
use crate::readers::Job;
use crate::refusals;
use crate::requests::Request;
use crate::stop::{How, Processed, Stop};
use crate::turn::{POPS_WORK, Slice};

/// A pop whose time is over by this much less is not held any more (`PopRequest.isTimeout`), ms.
const NEARLY_OVER_MS: i64 = 50;
/// Longest hold that a client may ask for, ms: beyond its own time-outs it means nothing.
const HOLD_MS_MAX: i64 = 3_600_000;
/// Bytes that may wait for all connections together before pops are refused, as for pulls.
const QUEUED_BYTES_MAX: usize = 2 * PINNED_BYTES_MAX;

/// Work for each queue that a pop goes through: its bounds, its place in the buffer, its offset.
const QUEUE_WORK: usize = 5;

/// The processor of pops. Owns those that wait.
#[derive(Debug, Default)]
pub(crate) struct PopProcessor {
    pub(crate) polling: PopLongPolling,
    /// How many messages groups got.
    pub(crate) gets: Gets,
    /// Rises with each pop: spreads queues and chances.
    turn: u32,
}

impl PopProcessor {
    /// Executes a pop.
    pub(super) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let done = self.pop(cx, merge, request, how);
        cx.refuse_by(done, |cx, refused| {
            refuse_pop(cx, &request.request_context, refused);
        })
    }

    fn pop<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let header = PopHeader::read(request)?;
        let filter = check_pop(cx, &request.request_context, &header, how)?;
        if cx.waits_for_log(WRITES_MAX_BYTES) {
            return Err(Stop::Defer);
        }
        if cx.connections.queued_bytes() > QUEUED_BYTES_MAX {
            return Err(refusals::overload().into());
        }
        let born_ms = if header.born_ms == 0 {
            cx.store.wall_ms()
        } else {
            header.born_ms
        };
        let pop = Pop {
            request_context: request.request_context,
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
        };
        self.run_pop(cx, merge, pop);
        self.run_woken(cx, merge, &mut Slice::new(POPS_WORK));
        Ok(())
    }

    /// Runs those that others have woken, all of the shard at hand; what is left waits for the next drain.
    pub(super) fn run_woken<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        slice: &mut Slice,
    ) {
        while let Some(pop) = self.next_woken_in(cx, slice) {
            self.run_pop_in(cx, merge, pop, slice);
        }
    }

    /// Runs those that others have woken, of any shard; what is left waits for the next drain.
    pub(super) fn run_woken_of_all<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        shards: &PopShards,
        slice: &mut Slice,
    ) {
        while let Some(pop) = self.next_woken_in(cx, slice) {
            let shard = shards.of_group(&pop.group);
            shard.with(|merge| self.run_pop_in(cx, merge, pop, slice));
        }
    }

    /// The next one that was woken; where no more can run, all wait for the next drain.
    fn next_woken_in<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        slice: &Slice,
    ) -> Option<Pop> {
        let polling = &mut self.polling;
        while let Some(pop) = polling.woken.pop() {
            if !slice.is_spent() && !cx.waits_for_log(WRITES_MAX_BYTES) {
                return Some(pop);
            }
            polling.is_cut |= slice.is_spent();
            polling.later.push_front(pop);
        }
        None
    }

    /// Runs those that wait for this drain.
    pub(super) fn run_later<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        shards: &PopShards,
    ) {
        let mut slice = Slice::new(POPS_WORK);
        self.polling.is_cut = false;
        // Those that come back while others run wait for the next one.
        for _ in 0..self.polling.later.len() {
            if slice.is_spent() || cx.waits_for_log(WRITES_MAX_BYTES) {
                self.polling.is_cut |= slice.is_spent();
                return;
            }
            let Some(pop) = self.polling.later.pop_front() else {
                return;
            };
            let shard = shards.of_group(&pop.group);
            shard.with(|merge| {
                self.run_pop_in(cx, merge, pop, &mut slice);
                self.run_woken(cx, merge, &mut slice);
            });
        }
    }

    fn run_pop_in<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        pop: Pop,
        slice: &mut Slice,
    ) {
        let before = cx.connections.stats.pulled_bytes;
        let queues = if pop.queue_id < 0 {
            let known = cx.policy.topics.get(&*pop.topic);
            known.map_or(0, |topic| topic.read_queues.unsigned_abs())
        } else {
            1
        };
        self.run_pop(cx, merge, pop);
        let answer_bytes = cx.connections.stats.pulled_bytes - before;
        slice.spend(QUEUE_WORK * queues as usize);
        slice.spend_run(usize::try_from(answer_bytes).unwrap_or(usize::MAX));
    }

    fn run_pop<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        pop: Pop,
    ) {
        if !cx.is_open(pop.request_context.connection) {
            // It was woken for nothing: another one of its line may want what came.
            let line = (&*pop.topic, &*pop.group, pop.queue_id);
            self.polling.wake(merge, line);
            return;
        }
        let (steps, retry) = if cx.policy.broker.passes_on {
            // Another broker is master, or soon is: who asks again is given something there.
            (Vec::new(), None)
        } else {
            steps_of(cx.policy, &pop, self.lot(100))
        };
        let queues = cx.policy.broker.pops.revive_queues;
        let revive_queue = if pop.is_ordered {
            ORDER_QUEUE
        } else {
            (self.turn % queues.max(1).unsigned_abs()).cast_signed()
        };
        let run = Run {
            time_ms: pop_ms(cx.store, cx.policy),
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
        self.go_on(cx, merge, Box::new(run));
    }

    /// A number below `bound` that is another one with each call.
    fn lot(&mut self, bound: u32) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        // Fibonacci hashing: neighbouring turns fall far apart.
        (self.turn.wrapping_mul(0x9E37_79B9) >> 8) % bound.max(1)
    }

    /// Goes through the queues that are left; one that lies on the disk is read elsewhere, and the run
    /// goes on then.
    fn go_on<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        mut run: Box<Run<D>>,
    ) {
        while let Some(step) = run.steps.get(run.at).copied() {
            run.at += 1;
            match self.queue_pop(merge).pop_queue(cx, &mut run, step) {
                None => {}
                Some(cold) => return self.read_cold(cx, merge, run, cold),
            }
        }
        self.finish(cx, merge, *run);
    }

    fn queue_pop<'p>(&'p mut self, merge: &'p mut PopBufferMerge) -> QueuePop<'p> {
        QueuePop {
            merge,
            gets: &mut self.gets,
        }
    }

    /// Has a queue read by the threads for that; nobody else pops from it meanwhile.
    fn read_cold<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        run: Box<Run<D>>,
        cold: (GroupQueueId, ReadPop),
    ) {
        let (buffer_slot, read) = cold;
        cx.connections.stats.cold_pulls += 1;
        let cold = ColdPop {
            run,
            buffer_slot,
            read,
        };
        match cx.readers.give_back(Job::Pop(cold)) {
            None => merge.buffer.lock(buffer_slot, true),
            // Too much waits: the other queues may have something.
            Some(Job::Pop(cold)) => self.go_on(cx, merge, cold.run),
            Some(_other) => {}
        }
    }

    /// Goes on with a pop whose queue was read.
    pub(super) fn was_read<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        cold: ColdPop<D>,
        got: Result<Got<D>>,
    ) {
        let ColdPop {
            mut run,
            buffer_slot,
            read,
        } = cold;
        merge.buffer.lock(buffer_slot, false);
        if !cx.is_open(run.pop.request_context.connection) {
            // Nobody is there to be given anything: another one may have it.
            let line = (&*run.pop.topic, &*run.pop.group, run.pop.queue_id);
            self.polling.wake_later(merge, line);
            return;
        }
        match self
            .queue_pop(merge)
            .take_got(cx, &mut run, (buffer_slot, read), got)
        {
            None => self.go_on(cx, merge, run),
            Some(cold) => self.read_cold(cx, merge, run, cold),
        }
        self.run_woken(cx, merge, &mut Slice::new(POPS_WORK));
    }

    /// Answers a pop that went through its queues, or holds it.
    fn finish<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        mut run: Run<D>,
    ) {
        if run.parts.is_empty() {
            if let Some(code) = self.hold(cx, merge, &run) {
                give(cx.connections, run, code);
            }
            return;
        }
        // What is left is for somebody who waits for the same.
        if run.rest > 0 {
            let line = (&*run.pop.topic, &*run.pop.group, run.pop.queue_id);
            self.polling.wake(merge, line);
        }
        run.rest = run.rest.max(0);
        cx.connections.stats.pulls += 1;
        give(cx.connections, run, codes::SUCCESS);
    }

    /// What becomes of a pop that found nothing: held, or answered so.
    fn hold<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        merge: &mut PopBufferMerge,
        run: &Run<D>,
    ) -> Option<i32> {
        let pop = &run.pop;
        let rules = &cx.policy.broker.pops;
        let bounds = Bounds {
            per_line: rules.held_per_line,
            all: rules.held_max,
            per_connection: cx.policy.broker.held.per_connection,
        };
        let passes_on = cx.policy.broker.passes_on;
        if passes_on || pop.poll_ms <= 0 || pop.request_context.is_oneway {
            return Some(codes::POLLING_TIMEOUT);
        }
        let left_ms = pop.born_ms.saturating_add(pop.poll_ms) - cx.store.wall_ms();
        let left_ms = left_ms.min(pop.poll_ms);
        if left_ms < NEARLY_OVER_MS {
            return Some(codes::POLLING_TIMEOUT);
        }
        if !self.polling.polls.has_space(pop, bounds) {
            return Some(codes::POLLING_FULL);
        }
        let mut pop = pop.clone();
        if run.has_untested {
            self.polling.later.push_back(pop);
            return None;
        }
        let mut hold_ms = left_ms - NEARLY_OVER_MS + 1;
        if let Some(until_ms) = run.blocked_until_ms {
            hold_ms = hold_ms.min((until_ms - pop_ms(cx.store, cx.policy)).max(1));
        }
        let queues = queues_of_line(
            cx.policy,
            (&pop.topic, &pop.group, pop.queue_id),
            pop.is_ordered,
        );
        watch_all(cx.events, &queues);
        if !pop.is_looked_after {
            pop.is_looked_after = true;
            if !pop.is_ordered && has_more_for(cx.store, merge, &pop.group, &queues) {
                self.polling.polls.let_go(queues);
                self.polling.later.push_back(pop);
                return None;
            }
        }
        let deadline_ms = cx.now_ms.saturating_add(hold_ms.unsigned_abs());
        let polls = &mut self.polling.polls;
        polls.hold(pop, queues, cx.now_ms, deadline_ms);
        merge.loops.set_held(self.polling.number, polls.len());
        self.polling.held_in |= 1 << merge.shard;
        None
    }
}

/// The queues of a pop: those of its topic, beginning with any, and those of its retry topic,
/// now and then first. Where priorities count, those of the topic by their numbers. `lot` is a number
/// below 100.
fn steps_of(policy: &Policy, pop: &Pop, lot: u32) -> (Vec<Step>, Option<Arc<str>>) {
    let (rules, topics) = (&policy.broker.pops, &policy.topics);
    let source = if rules.has_retry_v2 && !(rules.reads_retry_v1 && lot.is_multiple_of(2)) {
        Source::RetryV2
    } else {
        Source::RetryV1
    };
    let queues_of = |name: &str| topics.get(name).map_or(0, |topic| topic.read_queues);
    let by_priority = counts_priorities(policy, pop, lot);
    let each = |source: Source, queues: i32, is_last: bool| {
        let first = lot.cast_signed();
        (0..queues).map(move |at| Step {
            source,
            queue_id: match by_priority {
                true if rules.is_priority_ascending => queues - 1 - at,
                true => at,
                false => (first + at) % queues,
            },
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
    let is_retry_first = lot
        < if by_priority {
            rules.priority_retry_first_percent
        } else {
            rules.retry_first_percent
        };
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

/// Whether a pop takes the queues of its topic by their numbers (`PopMessageProcessor`).
fn counts_priorities(policy: &Policy, pop: &Pop, lot: u32) -> bool {
    let known = policy.topics.get(&*pop.topic);
    let percent = policy
        .groups
        .get(&*pop.group)
        .map_or(100, |group| group.priority_percent);
    !pop.is_ordered && lot < percent && known.is_some_and(|topic| topic.has_priorities)
}
