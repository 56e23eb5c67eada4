//! Pulls: the official checks in the official order, the read, the answer or its holding
//! (`PullMessageProcessor`, `PullRequestHoldService`).

mod check;
mod empty;
mod slave;
mod slow;
mod turns;

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{GetStatus, Got};
use mqcore_wire::command::FrameWriter;

use self::check::{check_again, check_pull};
use self::empty::{got_below_zero, got_reset};
use self::slave::{Asked, Reply};
use self::slow::suggested_broker;
use self::turns::Turns;
use crate::codes;
use crate::connections::{PINNED_BYTES_MAX, ResponseHead};
use crate::consumer_offsets::ConsumerOffsets;
use crate::context::Context;
use crate::filtering::{Sieve, wants_arrived};
use crate::gets::{Gets, Given};
use crate::holds::{Hold, Holds, News, Pull};
use crate::policy::Broker;
use crate::readers::{Job, read, read_by};
use crate::refusals;
use crate::request_context::ConnectionId;
use crate::requests::{PullHeader, Request};
use crate::shape::bodiless;
use crate::stop::{How, Processed};
use crate::times::{Moments, Subject};
use crate::turn::{CHECK_WORK, DUE_WORK, Slice, WOKEN_WORK};

/// Bytes that may wait for all connections together before pulls are refused: twice what may be
/// pinned, since what is beyond that is copied.
const QUEUED_BYTES_MAX: usize = 2 * PINNED_BYTES_MAX;
/// Records of one bulk answer: more than a reader makes of one batch buys nothing.
const BULK_COUNT_MAX: usize = 8_192;
/// Bytes of one bulk answer: half of what stops a connection whose client does not read.
const BULK_BYTES_MAX: u64 = 4 << 20;
/// Longest hold that a client may ask for, ms: beyond its own time-outs it means nothing.
const HOLD_MS_MAX: u64 = 3_600_000;

/// Pulls by expressions that are with the threads at once: another thread is left for what has to be
/// read from the disk.
const IN_THREADS_MAX: usize = 1;

/// The processor of pulls. Owns those that are held, and those by expressions that wait for a thread.
pub(crate) struct PullProcessor {
    /// Held pulls.
    pub(crate) holds: Holds,
    /// Pulls by expressions that wait for a thread.
    filtered: Turns<(Pull, Option<u64>)>,
    offsets: Arc<ConsumerOffsets>,
    /// How many messages groups got.
    pub(crate) gets: Gets,
}

impl PullProcessor {
    pub(crate) fn new(offsets: Arc<ConsumerOffsets>) -> Self {
        Self {
            holds: Holds::default(),
            filtered: Turns::default(),
            offsets,
            gets: Gets::default(),
        }
    }

    /// Executes a pull.
    pub(crate) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let pulled = self.pull(cx, request, how);
        cx.refuse(&request.request_context, pulled)
    }

    fn pull<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let header = PullHeader::read(request)?;
        let filter = check_pull(cx, request, &header, how)?;
        if header.commits() {
            let (group, topic, queue_id) = (header.group, header.topic, header.queue_id);
            let offset = header.commit_offset;
            let offsets = &self.offsets;
            offsets.commit_unless_reset(group, topic, queue_id, offset);
        }
        let hold_ms = hold_ms(&cx.policy.broker, &header);
        let (most, most_bytes) = if header.shape.is_bulk() {
            (BULK_COUNT_MAX, BULK_BYTES_MAX)
        } else {
            (cx.store.reader().count_max(), u64::MAX)
        };
        let wanted = usize::try_from(header.count_max).unwrap_or(0);
        let pull = Pull {
            request_context: request.request_context,
            group: header.group.into(),
            topic: header.topic.into(),
            queue_id: header.queue_id,
            queue_offset: header.queue_offset,
            // The first record is given whatever was asked for.
            count_max: wanted.clamp(1, most.max(1)),
            bytes_max: header
                .bytes_max
                .and_then(|max| u64::try_from(max).ok())
                .filter(|max| *max > 0)
                .map_or(most_bytes, |max| max.min(most_bytes)),
            shape: header.shape,
            filter,
            version: (!header.subscribes()).then_some(header.version),
            begun_us: cx.connections.times.now_us(),
        };
        self.read_pull(cx, pull, hold_ms);
        Ok(())
    }

    /// Runs a held pull again; whatever comes of it is the answer.
    fn pull_again<D: Disk, C: Clock>(&mut self, cx: &mut Context<'_, D, C>, mut pull: Pull) {
        if !cx.is_open(pull.request_context.connection) {
            return;
        }
        pull.begun_us = cx.connections.times.now_us();
        // What was allowed and wanted when it came may be another by now.
        if let Err(refused) = check_again(cx, &mut pull) {
            return cx.connections.refuse(&pull.request_context, &refused);
        }
        self.read_pull(cx, pull, None);
    }

    fn read_pull<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        pull: Pull,
        hold_ms: Option<u64>,
    ) {
        if cx.connections.queued_bytes() > QUEUED_BYTES_MAX {
            return cx
                .connections
                .refuse(&pull.request_context, &refusals::overload());
        }
        let (group, topic, queue_id) = (&pull.group, &pull.topic, pull.queue_id);
        if let Some(offset) = self.offsets.take_reset(group, topic, queue_id) {
            let got = got_reset(cx.store, topic, queue_id, offset);
            return self.answer(cx, pull, None, got);
        }
        let topic = pull.topic.as_bytes();
        let Ok(from) = u64::try_from(pull.queue_offset) else {
            let got = got_below_zero(cx.store, &pull);
            return self.answer(cx, pull, hold_ms, got);
        };
        // With a test the store may look at many more units than it gives records.
        let units = if pull.filter.gives_all() {
            pull.count_max
        } else {
            let scanned = cx.store.config().filter_scan_max_bytes;
            let units = scanned / mqcore_engine::config::QUEUE_UNIT_BYTES;
            pull.count_max.max(usize::try_from(units).unwrap_or(0))
        };
        let is_hot = cx.store.reader().is_hot(topic, pull.queue_id, from, units);
        let is_hot = is_hot.unwrap_or(false);
        if !is_hot {
            cx.connections.stats.cold_pulls += 1;
        }
        if pull.filter.looks_at_records() {
            return self.read_filtered_pull(cx, pull, hold_ms, is_hot);
        }
        if is_hot {
            let got = read(cx.store, &pull);
            return self.answer(cx, pull, hold_ms, got);
        }
        let request_context = pull.request_context;
        cx.read_elsewhere(&request_context, Job::Pull(pull, hold_ms));
    }

    /// Reads a pull by an expression, in the loop as far as that may go, else by a thread.
    fn read_filtered_pull<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        pull: Pull,
        hold_ms: Option<u64>,
        is_hot: bool,
    ) {
        let work = if is_hot {
            cx.filters.work.share(cx.now_ms)
        } else {
            0
        };
        if work > 0 {
            let mut sieve = Sieve::in_loop(&pull.filter, work);
            let got = read_by(cx.store, &pull, &mut sieve);
            cx.filters.work.spend(sieve.spent());
            let has_some = got.as_ref().is_ok_and(|got| !got.is_empty());
            if has_some || !sieve.is_cut() {
                return self.answer(cx, pull, hold_ms, got);
            }
        }
        let request_context = pull.request_context;
        if !self
            .filtered
            .push(request_context.connection, (pull, hold_ms))
        {
            return cx
                .connections
                .refuse(&request_context, &refusals::overload());
        }
        self.read_filtered(cx);
    }

    /// Gives the threads the next pulls by expressions, of each connection in turn.
    pub(crate) fn read_filtered<D: Disk, C: Clock>(&mut self, cx: &mut Context<'_, D, C>) {
        while let Some((pull, hold_ms)) = self.filtered.next(IN_THREADS_MAX) {
            let request_context = pull.request_context;
            if !cx.readers.submit(Job::Pull(pull, hold_ms)) {
                self.filtered.end_one();
                cx.connections
                    .refuse(&request_context, &refusals::overload());
            }
        }
    }

    /// Goes on with a pull that a thread has read.
    pub(crate) fn was_read<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        (pull, hold_ms): (Pull, Option<u64>),
        got: Result<Got<D>>,
    ) {
        if pull.filter.looks_at_records() {
            self.filtered.end_one();
        }
        self.answer(cx, pull, hold_ms, got);
    }

    fn answer<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        pull: Pull,
        hold_ms: Option<u64>,
        got: Result<Got<D>>,
    ) {
        let got = match got {
            Ok(got) => got,
            Err(error) => {
                let refused = refusals::not_read(&error);
                return cx.connections.refuse(&pull.request_context, &refused);
            }
        };
        if got.status == GetStatus::Found {
            cx.connections.stats.found += 1;
        } else {
            cx.connections.stats.missed += 1;
        }
        let code = match got.status {
            GetStatus::Found => codes::SUCCESS,
            GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => {
                codes::PULL_RETRY_IMMEDIATELY
            }
            GetStatus::OffsetFoundNull | GetStatus::OffsetOverflowOne => codes::PULL_NOT_FOUND,
            GetStatus::NoMatchedLogicQueue | GetStatus::NoMessageInQueue => {
                if pull.queue_offset == 0 {
                    codes::PULL_NOT_FOUND
                } else {
                    codes::PULL_OFFSET_MOVED
                }
            }
            GetStatus::OffsetOverflowBadly | GetStatus::OffsetTooSmall | GetStatus::OffsetReset => {
                codes::PULL_OFFSET_MOVED
            }
        };
        let reply = reply_by_role(cx, &pull, code, &got);
        match hold_ms {
            Some(hold_ms) if reply.code == codes::PULL_NOT_FOUND => {
                self.hold(cx, pull, hold_ms, got.status);
            }
            _ => self.give(cx, pull, reply, got),
        }
    }

    fn give<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        pull: Pull,
        reply: Reply,
        got: Got<D>,
    ) {
        let stats = &mut cx.connections.stats;
        stats.pulls += 1;
        stats.pulled += got.len() as u64;
        stats.pulled_bytes += got.bytes;
        let (messages, bytes) = (got.len() as u64, got.bytes);
        let given = Given {
            next_offset: reply.next_offset,
            at_ms: cx.now_ms,
        };
        let queue = (&*pull.group, &*pull.topic, pull.queue_id);
        let us = cx.connections.times.now_us().saturating_sub(pull.begun_us);
        self.gets.pulled(queue, (messages, bytes), (given, us));
        cx.note_read(&pull.request_context, (queue.0, queue.1), (messages, bytes));
        let head = ResponseHead {
            code: reply.code,
            remark: Some(got.status.name()),
        };
        let (next, min, max) = (reply.next_offset, got.min_offset, got.max_offset);
        let write = |fields: &mut FrameWriter<'_, '_>| {
            fields.number("suggestWhichBrokerId", reply.suggested)?;
            fields.number("nextBeginOffset", next.cast_signed())?;
            fields.number("minOffset", min.cast_signed())?;
            fields.number("maxOffset", max.cast_signed())
        };
        if pull.shape.is_bodiless() {
            match bodiless(&pull.topic, pull.queue_id, &got) {
                Ok(body) => cx
                    .connections
                    .reply_body(&pull.request_context, head, write, &body),
                Err(error) => cx
                    .connections
                    .refuse(&pull.request_context, &refusals::failed(&error)),
            }
        } else {
            let records = got.records;
            cx.connections
                .reply_records(&pull.request_context, head, write, records);
        }
        let marks = Moments {
            begun_us: pull.begun_us,
            ..Moments::default()
        };
        cx.connections.times.describe(marks, || Subject::Read {
            group: pull.group,
            topic: pull.topic,
            queue_id: pull.queue_id,
            queue_offset: pull.queue_offset,
            messages,
            bytes,
        });
    }

    fn hold<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        pull: Pull,
        hold_ms: u64,
        status: GetStatus,
    ) {
        // Its connection may have closed while a thread read for it.
        if pull.request_context.is_oneway || !cx.is_open(pull.request_context.connection) {
            return;
        }
        let (topic, queue_id) = (pull.topic.clone(), pull.queue_id);
        cx.events.arrivals().watch(topic.as_bytes(), queue_id);
        // What came between the read and the watch is not announced. A queue whose file is gone
        // at this offset, or that begins behind it, is longer anyway: it waits for the check.
        let is_longer = matches!(
            status,
            GetStatus::OffsetFoundNull | GetStatus::OffsetTooSmall
        );
        if !is_longer
            && let Ok(Some(bounds)) = cx.store.topics().bounds(topic.as_bytes(), queue_id)
            && bounds.max > u64::try_from(pull.queue_offset).unwrap_or(0)
        {
            self.holds.let_go((topic, queue_id));
            return self.pull_again(cx, pull);
        }
        let request_context = pull.request_context;
        let deadline_ms = cx.now_ms.saturating_add(hold_ms);
        if let Hold::Full(max, whose) = self.holds.hold(pull, cx.now_ms, deadline_ms) {
            self.holds.let_go((topic, queue_id));
            cx.connections
                .refuse(&request_context, &refusals::too_many_held(max, whose));
        }
    }

    /// Runs pulls that something came for, as far as one turn goes.
    pub(crate) fn run_woken<D: Disk, C: Clock>(&mut self, cx: &mut Context<'_, D, C>) {
        let mut slice = Slice::new(WOKEN_WORK);
        loop {
            let store = cx.store;
            let wants = |pull: &Pull, news: &News, slice: &mut Slice| {
                news.tags_codes.is_empty() || wants_arrived(store, pull, news.from, slice)
            };
            let Some(pull) = self.holds.next_woken(&mut slice, wants) else {
                return;
            };
            self.run_held(cx, pull, &mut slice);
        }
    }

    /// Runs pulls whose time is over at `due_ms`, as far as one turn goes; whether none is left.
    pub(crate) fn run_due<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        due_ms: u64,
    ) -> bool {
        let mut slice = Slice::new(DUE_WORK);
        while let Some(pull) = self.holds.next_released(&mut slice) {
            self.run_held(cx, pull, &mut slice);
        }
        while let Some(pull) = self.holds.next_due(due_ms, &mut slice) {
            self.run_held(cx, pull, &mut slice);
        }
        !slice.is_spent()
    }

    fn run_held<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        pull: Pull,
        slice: &mut Slice,
    ) {
        let before = cx.connections.stats.pulled_bytes;
        self.pull_again(cx, pull);
        let answer_bytes = cx.connections.stats.pulled_bytes - before;
        slice.spend_run(usize::try_from(answer_bytes).unwrap_or(usize::MAX));
    }

    /// Looks after queues with held pulls, when that is due.
    pub(crate) fn check_queues<D: Disk, C: Clock>(&mut self, cx: &mut Context<'_, D, C>) {
        let mut slice = Slice::new(CHECK_WORK);
        while let Some(queue) = self.holds.next_checked(cx.now_ms, &mut slice) {
            if let Ok(Some(bounds)) = cx.store.topics().bounds(queue.0.as_bytes(), queue.1) {
                self.holds
                    .arrived(&queue.0, queue.1, News::of_end(bounds.max));
            }
        }
    }

    /// Forgets what a connection waits for; held pulls are taken out in turns.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.holds.close(connection);
        self.filtered.close(connection);
    }

    /// Pulls by expressions that wait for a thread.
    pub(crate) fn filtered(&self) -> usize {
        self.filtered.len()
    }
}

/// The parts of an answer that depend on the role of the broker.
fn reply_by_role<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    pull: &Pull,
    code: i32,
    got: &Got<D>,
) -> Reply {
    let broker = &cx.policy.broker;
    let group = cx.policy.groups.get(&*pull.group);
    let is_far = got.suggests_replica;
    let reply = Reply {
        code,
        next_offset: got.next_offset,
        suggested: suggested_broker(broker.is_replica_readable, is_far, group),
    };
    let asked = Asked {
        offset: pull.queue_offset,
        status: got.status,
        is_far,
        group,
    };
    match broker.slave {
        Some(slave) => slave.reply(asked, reply),
        None => reply,
    }
}

/// How long a pull may be held, ms.
fn hold_ms(broker: &Broker, header: &PullHeader<'_>) -> Option<u64> {
    header.suspends().then(|| {
        if broker.is_long_polling {
            u64::try_from(header.suspend_ms)
                .unwrap_or(0)
                .min(HOLD_MS_MAX)
        } else {
            broker.short_polling_ms
        }
    })
}
