//! How a request processor stores a message: the delivery route it takes to its topic (`route`), and its
//! response, now or when the message is as durable as promised. The one interface between the
//! processors that store messages.

pub(crate) mod answers;
pub(crate) mod recall_handle;
pub(crate) mod route;
pub(crate) mod stamp;
mod timing;

use std::collections::VecDeque;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::Standby;
use mqcore_engine::timer::Wheel;
use mqcore_record::{Host, Message};

use self::answers::{answer_stored, refuse_send};
use self::stamp::Stamp;
use crate::context::Context;
use crate::parked::{Awaits, Parked, Stored};
use crate::policy::Broker;
use crate::refusals::{self, Refused};
use crate::request_context::RequestContext;
use crate::turn::ANSWERS_PER_TURN;

/// Moments kept at which the log was found synced further: of the time that replicas may take, by the pace
/// of syncs.
const SYNCED_MAX: usize = 1_024;

/// Where a message goes.
pub(crate) struct Target<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
}

/// What a message carries, whatever becomes of its topic.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) flag: i32,
    pub(crate) sys_flag: i32,
    pub(crate) born_timestamp_ms: i64,
    pub(crate) born_host: Host,
    pub(crate) store_host: Host,
    pub(crate) reconsume_times: i32,
    pub(crate) body: &'a [u8],
    pub(crate) properties: &'a [u8],
}

impl<'a> Draft<'a> {
    pub(crate) fn message(&self, target: &Target<'a>) -> Message<'a> {
        Message {
            topic: target.topic,
            queue_id: target.queue_id,
            flag: self.flag,
            sys_flag: self.sys_flag,
            born_timestamp_ms: self.born_timestamp_ms,
            born_host: self.born_host,
            store_host: self.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            body: self.body,
            properties: self.properties,
            version: None,
        }
    }
}

/// The path of messages into the log, and what waits for their watermark.
pub(crate) struct Delivery<D: Disk> {
    /// The timing wheel, to ask how full a step of time is.
    pub(crate) wheel: Option<Arc<Wheel<D>>>,
    /// What the broker writes into each message.
    pub(crate) stamp: Stamp,
    /// Rises with each message without a queue of its own, so that queues take turns.
    turn: u32,
    parked: Parked,
    acks_deadline_ms: Option<u64>,
    /// Parked by the step that is under way.
    parked_in_step: usize,
    /// How far the log was found synced, and when, us: of what waits for a sync and for replicas.
    synced: VecDeque<(u64, u64)>,
}

impl<D: Disk> Delivery<D> {
    pub(crate) fn new() -> Self {
        Self {
            wheel: None,
            stamp: Stamp::of(&Broker::default()),
            turn: 0,
            parked: Parked::default(),
            acks_deadline_ms: None,
            parked_in_step: 0,
            synced: VecDeque::new(),
        }
    }

    /// A number that is another one with each call.
    pub(crate) fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// The next of some queues.
    pub(crate) fn next_queue(&mut self, queues: i32) -> i32 {
        (self.next_turn() % queues.max(1).unsigned_abs()).cast_signed()
    }

    /// Refuses what would wait behind too many.
    pub(crate) fn check_load<C: Clock>(
        &self,
        cx: &Context<'_, D, C>,
        request_context: &RequestContext,
    ) -> Result<(), Refused> {
        let connection = cx.connections.connection(request_context.connection);
        let parked = connection.map_or(0, |connection| connection.parked);
        let limits = &cx.policy.broker.parked;
        if self.parked.len() >= limits.all || parked >= limits.per_connection {
            return Err(refusals::overload());
        }
        Ok(())
    }

    /// Refuses a message that `waits` for more replicas than are in sync, before it is stored.
    pub(crate) fn check_replicas<C: Clock>(
        cx: &Context<'_, D, C>,
        waits: bool,
    ) -> Result<(), Refused> {
        let needs = waits && cx.policy.broker.needs_replica;
        if needs && cx.store.replica().standby() == Standby::NotEnough {
            return Err(cx.too_few_replicas());
        }
        Ok(())
    }

    /// Answers a stored message now, or parks the response until it is as durable as promised.
    pub(crate) fn settle<C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        mut stored: Stored,
        end: u64,
        waits: bool,
    ) {
        let needs_replica = waits && cx.policy.broker.needs_replica && {
            let standby = cx.store.replica().standby();
            // In sync a moment ago, when it was looked at before the message was stored.
            stored.lacks_replicas = matches!(standby, Standby::Unavailable | Standby::NotEnough);
            standby == Standby::Reachable
        };
        stored.marks.begun_us = cx.connections.times.now_us();
        let durability = cx.store.durability();
        let needs_sync = !durability.acknowledges_at_once();
        if !waits || !(needs_sync || needs_replica) {
            return answer_stored(cx, &stored, PutStatus::PutOk);
        }
        stored.awaits = Awaits {
            end,
            needs_sync,
            needs_replica,
        };
        match durability.park_for(cx.events, end, needs_replica) {
            Ok(ticket) => {
                if let Some(connection) = cx
                    .connections
                    .connection_mut(stored.request_context.connection)
                {
                    connection.parked += 1;
                }
                let config = cx.store.config();
                let mut wait_ms = config.sync_flush_timeout_ms;
                if needs_replica {
                    wait_ms = wait_ms.min(config.replicas_timeout_ms);
                }
                let deadline_ms = cx.now_ms + wait_ms;
                let before = self.acks_deadline_ms.unwrap_or(deadline_ms);
                self.acks_deadline_ms = Some(before.min(deadline_ms));
                self.parked.park(ticket, stored);
                self.parked_in_step += 1;
            }
            Err(error) => {
                let refused = cx.not_stored(&error);
                refuse_send(
                    cx.connections,
                    &cx.policy.broker,
                    &stored.request_context,
                    &refused,
                );
            }
        }
    }

    /// Answers what has reached its watermark; `others` are tickets of somebody else on the same loop.
    pub(crate) fn answer_durable<C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        others: &mut Vec<(Ticket, PutStatus)>,
    ) {
        let mut answers = Vec::new();
        let durability = cx.store.durability();
        let next_ms = durability.drain_for(cx.events, ANSWERS_PER_TURN, &mut answers);
        self.acks_deadline_ms = next_ms.map(|next_ms| match next_ms {
            0 => 0,
            next_ms => cx.now_ms + next_ms,
        });
        let now_us = cx.connections.times.now_us();
        self.note_synced(durability.synced(), now_us);
        for (ticket, status) in answers {
            let Some(mut stored) = self.parked.take(ticket) else {
                others.push((ticket, status));
                continue;
            };
            self.mark_durable(&mut stored, now_us);
            if let Some(connection) = cx
                .connections
                .connection_mut(stored.request_context.connection)
            {
                connection.parked -= 1;
            }
            answer_stored(cx, &stored, status);
        }
    }

    /// Notes how far the log is synced, where something waits for that and for replicas.
    fn note_synced(&mut self, synced: u64, now_us: u64) {
        if self.parked.is_empty() {
            return self.synced.clear();
        }
        if self.synced.back().is_none_or(|last| last.0 < synced) {
            if self.synced.len() == SYNCED_MAX {
                self.synced.pop_front();
            }
            self.synced.push_back((synced, now_us));
        }
    }

    /// What was waited for is there.
    fn mark_durable(&self, stored: &mut Stored, now_us: u64) {
        let Awaits {
            end,
            needs_sync,
            needs_replica,
        } = stored.awaits;
        if needs_sync && needs_replica {
            let at = self.synced.partition_point(|noted| noted.0 < end);
            stored.marks.flushed_us = self.synced.get(at).map_or(now_us, |noted| noted.1);
        } else if needs_sync {
            stored.marks.flushed_us = now_us;
        }
        if needs_replica {
            stored.marks.replicated_us = now_us;
        }
    }

    /// Whether the step that is under way has parked something.
    pub(crate) fn has_parked(&self) -> bool {
        self.parked_in_step > 0
    }

    /// The step that is under way has ended, us.
    pub(crate) fn mark_appended(&mut self, us: u64) {
        let count = std::mem::take(&mut self.parked_in_step);
        self.parked.mark_appended(count, us);
    }

    /// When the next response is due, ms.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.acks_deadline_ms
    }

    /// Responses that wait for their watermark.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }
}
