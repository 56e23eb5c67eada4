//! The processors of pops together: which one executes a request, and what they do in a turn of the
//! loop.

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{Got, LoopEvents};

use super::ack::AckProcessor;
use super::look::{NotificationProcessor, peek, polling_info};
use super::shards::PopShards;
use super::take::PopProcessor;
use crate::codes;
use crate::context::Context;
use crate::held::QueueKey;
use crate::policy::Policy;
use crate::pop_run::ColdPop;
use crate::request_context::ConnectionId;
use crate::requests::Request;
use crate::stop::{Escalation, How, Processed, Stop};
use crate::turn::{POPS_WORK, Slice};

/// The processors of pops, and what they share.
#[derive(Debug)]
pub(crate) struct Pops {
    /// What is popped and not acknowledged: of all loops over a store, since a pop may be
    /// acknowledged on any connection.
    shards: Arc<PopShards>,
    pub(crate) pop: PopProcessor,
    notification: NotificationProcessor,
}

impl Pops {
    /// Those of a loop, which is woken with `events`.
    pub(crate) fn new(shards: Arc<PopShards>, events: &Arc<LoopEvents>) -> Self {
        let mut pop = PopProcessor::default();
        pop.polling.number = shards.join(events);
        Self {
            shards,
            pop,
            notification: NotificationProcessor::default(),
        }
    }

    /// What is popped and not acknowledged. The lock of a shard is held for one step.
    pub(crate) fn shards(&self) -> &PopShards {
        &self.shards
    }

    /// Executes a request by its code.
    pub(crate) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let (pop, notification) = (&mut self.pop, &mut self.notification);
        if request.code == codes::BATCH_ACK_MESSAGE {
            let to = (&*self.shards, &mut pop.polling);
            let done = AckProcessor::acknowledge_many(cx, to, request);
            let done = cx.refuse(&request.request_context, done);
            pop.run_woken_of_all(cx, &self.shards, &mut Slice::new(POPS_WORK));
            return done;
        }
        // Without a group it is refused under any.
        let group = request.field("consumerGroup").unwrap_or("");
        self.shards.of_group(group).with(|merge| {
            let asked = match request.code {
                codes::POP_MESSAGE => return pop.process(cx, merge, request, how),
                codes::ACK_MESSAGE | codes::CHANGE_MESSAGE_INVISIBLETIME => {
                    let polling = &mut pop.polling;
                    let done = AckProcessor { merge, polling }.process(cx, request);
                    let slice = &mut Slice::new(POPS_WORK);
                    pop.run_woken(cx, merge, slice);
                    return done;
                }
                codes::NOTIFICATION => notification.process(cx, merge, request, how),
                codes::POLLING_INFO => polling_info(cx, &pop.polling, request, how),
                codes::PEEK_MESSAGE => peek(cx, merge, request, how),
                _ => Err(Stop::Escalate(Escalation::Code)),
            };
            cx.refuse(&request.request_context, asked)
        })
    }

    /// Records that messages of a pop are settled; lets one go on that waits for the queue, where
    /// it has space again.
    pub(crate) fn land(
        &mut self,
        policy: &Policy,
        queue: (&str, &str, i32),
        pop_time_ms: i64,
        messages: usize,
    ) {
        let polling = &mut self.pop.polling;
        self.shards.of_group(queue.1).with(|merge| {
            AckProcessor { merge, polling }.land(policy, queue, pop_time_ms, messages);
        });
    }

    /// Records what came into a queue, so that those are woken that may want it: one of each line.
    pub(crate) fn arrived(&mut self, topic: &str, queue_id: i32, tags_codes: &[i64]) {
        let polls = &mut self.pop.polling.polls;
        polls.arrived(topic, queue_id, tags_codes);
        let notices = &mut self.notification.notices;
        notices.arrived(topic, queue_id, tags_codes);
    }

    /// Wakes those that something came for, whose time is over, and that the check looks after; asks
    /// again what was asked. Pops are over at `due_ms`; whether none of these is left.
    pub(crate) fn wake<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        due_ms: u64,
    ) -> bool {
        let are_all_woken = self.pop.polling.wake_all(due_ms, cx.now_ms);
        self.notification.run_due(cx, &self.shards);
        are_all_woken
    }

    /// Runs those that wait for this turn, those among them that other loops have woken.
    pub(crate) fn run_later<D: Disk, C: Clock>(&mut self, cx: &mut Context<'_, D, C>) {
        let pop = &mut self.pop;
        pop.polling.wake_from_elsewhere(&self.shards);
        pop.run_later(cx, &self.shards);
        let polling = &mut pop.polling;
        if polling.held_in != 0 && polling.polls.is_empty() {
            let held_in = std::mem::take(&mut polling.held_in);
            self.shards.has_none_held(polling.number, held_in);
        }
    }

    /// Goes on with a pop whose queue was read.
    pub(crate) fn was_read<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        cold: ColdPop<D>,
        got: Result<Got<D>>,
    ) {
        let pop = &mut self.pop;
        let shard = self.shards.of_group(&cold.run.pop.group);
        shard.with(|merge| pop.was_read(cx, merge, cold, got));
    }

    /// Forgets what a connection asked: it is taken out in turns.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.pop.polling.polls.close(connection);
        self.notification.notices.close(connection);
    }

    /// Lets go what a connection waits for now.
    pub(crate) fn release(&mut self, connection: ConnectionId) {
        self.pop.polling.polls.release(connection);
        self.notification.notices.release(connection);
    }

    /// Takes out what closed connections have left.
    pub(crate) fn forget_left(&mut self, slice: &mut Slice) {
        self.pop.polling.polls.forget_left(slice);
        self.notification.notices.forget_left(slice);
    }

    /// Whether somebody waits for a queue.
    pub(crate) fn is_waited_at(&self, topic: &str, queue_id: i32) -> bool {
        self.pop.polling.polls.is_waited_at(topic, queue_id)
            || self.notification.notices.is_waited_at(topic, queue_id)
    }

    /// Whether there are queues that nobody waits for any more.
    pub(crate) fn has_emptied(&self) -> bool {
        self.pop.polling.polls.has_emptied() || self.notification.notices.has_emptied()
    }

    /// Queues that nobody waits for any more, since the last call.
    pub(crate) fn take_emptied(&mut self) -> [Vec<QueueKey>; 2] {
        let polls = &mut self.pop.polling.polls;
        let notices = &mut self.notification.notices;
        [polls.take_emptied(), notices.take_emptied()]
    }

    /// When a drain has something to do, ms.
    pub(crate) fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let deadlines = [
            self.pop.polling.next_deadline_ms(now_ms),
            self.shards.first_due_ms(),
            self.notification.notices.next_deadline_ms(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Names and numbers, for reports.
    pub(crate) fn shared_numbers(&self) -> [(&'static str, u64); 2] {
        [
            ("pops_open", self.shards.sum_open() as u64),
            ("pop_records", self.shards.sum_stored()),
        ]
    }

    /// Pops and notifications that are held.
    pub(crate) fn held(&self) -> usize {
        self.pop.polling.polls.len() + self.notification.notices.len()
    }
}
