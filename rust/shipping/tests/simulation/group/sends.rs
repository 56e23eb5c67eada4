//! The load: messages sent to whoever takes itself for the master, as the fast path does it.

use mqcore_engine::error::Error;
use mqcore_engine::store::Standby;
use mqcore_record::{Found, Message, head};

use super::clients::popping::RETRY_TOPIC;
use super::clients::producing::COMMITTED_TOPIC;
use super::ledger::Acked;
use super::node::{Parked, Role};
use super::options::LEVELS;
use super::world::{Event, World};
use crate::ledger::{Checked, QueueKey};
use crate::node::SimStore;
use crate::world::HOST;

/// The topic of delayed messages.
pub(crate) const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Where delayed messages go.
pub(crate) const LATER_TOPIC: &str = "Later";
/// Where messages with a time of their own wait.
pub(crate) const TIMER_QUEUE: QueueKey = ("rmq_sys_wheel_timer", 0);
/// Where they go.
pub(crate) const TIMED_TOPIC: &str = "Timed";
/// Half messages, and the ends of them.
pub(crate) const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
pub(crate) const OP_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Check points of pops.
pub(crate) const REVIVE_TOPIC: &str = "rmq_sys_REVIVE_LOG_DefaultCluster";
/// All queues.
pub(crate) const QUEUES: [QueueKey; 13] = [
    ("T", 0),
    ("T", 1),
    ("Other", 0),
    (SCHEDULE_TOPIC, 0),
    (SCHEDULE_TOPIC, 1),
    (LATER_TOPIC, 0),
    TIMER_QUEUE,
    (TIMED_TOPIC, 0),
    (HALF_TOPIC, 0),
    (OP_TOPIC, 0),
    (COMMITTED_TOPIC, 0),
    (REVIVE_TOPIC, 0),
    (RETRY_TOPIC, 0),
];
/// Those of them that are sent to.
const SENT_TO: usize = 3;

/// Timed messages are due within so long, ms.
const TIMED_MAX_MS: u64 = 5_000;

/// The properties that name where a message goes later.
fn real(topic: &str) -> String {
    format!("REAL_TOPIC\u{1}{topic}\u{2}REAL_QID\u{1}0\u{2}")
}

/// What a body is named: no other message has it.
pub(crate) fn name_of(body: &[u8]) -> String {
    let name = body.split(|byte| *byte == b'.').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The name of the body of a record.
pub(crate) fn name_of_record(bytes: &[u8]) -> String {
    match head(bytes) {
        Ok(Found::Record(record)) => name_of(record.body),
        _ => String::new(),
    }
}

/// From which to which message a level can be delivered.
pub(crate) fn delivered_of(store: &SimStore, level: usize) -> Checked<(u64, u64)> {
    let bounds = store
        .topics()
        .bounds(SCHEDULE_TOPIC.as_bytes(), level as i32);
    let bounds = bounds.map_err(|error| error.to_string())?;
    Ok(bounds.map_or((0, 0), |bounds| (bounds.min, bounds.max)))
}

/// Where a message is stored, and when it is to come to its topic.
struct Goes {
    queue: QueueKey,
    properties: String,
    is_delayed: bool,
    due_ms: Option<i64>,
}

impl World {
    /// Sends some messages to every broker that takes itself for the master.
    pub(crate) fn burst(&mut self) -> Checked {
        let every_ms = self.options.burst_every_ms;
        let in_ms = self.dice.between(1, 2 * every_ms);
        self.plan(in_ms, Event::Burst);
        if !self.is_loaded {
            return Ok(());
        }
        for broker in 0..self.nodes.len() {
            if !self.nodes[broker].is_master() || self.nodes[broker].paused_until_ms > self.now_ms {
                continue;
            }
            let now_ms = self.now_ms;
            self.nodes[broker].time.pass_to(now_ms);
            for _ in 0..self.dice.between(1, 4) {
                self.send(broker)?;
                if self.nodes[broker].opened().is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends a message: looks before the append, and parks what waits.
    fn send(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        self.count.sent += 1;
        if store.replica().standby() == Standby::NotEnough {
            self.count.refused += 1;
            return Ok(());
        }
        self.sent_number += 1;
        let name = format!("{:x}", self.sent_number);
        let len = self.dice.between(1, self.options.body_len_max) as usize;
        let mut body = format!("{name}.").into_bytes();
        body.resize(len.max(body.len()), b'a' + (self.sent_number % 26) as u8);
        let Goes {
            queue: (topic, queue_id),
            properties,
            is_delayed,
            due_ms,
        } = self.drawn_way(broker);
        let message = Message {
            // What power loss takes of a time cannot be distinguished from one of 1970 (`torn_head.rs`).
            born_timestamp_ms: 0,
            properties: properties.as_bytes(),
            ..Message::of(topic, queue_id, &body, HOST)
        };
        let appended = store.writer().append(&message);
        if self.has_met_stop(broker) {
            return self.die_inside(broker);
        }
        let at = match appended {
            Ok(at) => at,
            // Until it leads again.
            Err(Error::NotWritable { .. }) => return Ok(()),
            Err(error) => return Err(format!("a send to broker {broker} failed: {error}")),
        };
        self.watch_log(broker)?;
        let standby = store.replica().standby();
        let needs_replica = standby == Standby::Reachable;
        let acked = Acked {
            begin: at.physical_offset,
            end: at.end(),
            body: name,
            is_delayed,
            due_ms,
        };
        self.trace.note(at.end());
        let is_synced = self.options.is_synced[broker];
        if standby == Standby::NotEnough {
            // It was stored, and is answered with an error.
            self.count.refused += 1;
        } else if needs_replica || is_synced {
            let ticket = store.durability().park(at.end(), needs_replica);
            let ticket = ticket.map_err(|error| error.to_string())?;
            if let Some(opened) = self.nodes[broker].opened_mut() {
                opened.parked.push(Parked {
                    ticket,
                    acked,
                    needs_replica,
                });
            }
        } else {
            self.acknowledged(broker, acked)?;
        }
        self.plan_answers(broker, is_synced)
    }

    /// Where a message goes, now or later.
    fn drawn_way(&mut self, broker: usize) -> Goes {
        let level = self.dice.below(6 * LEVELS as u64) as usize;
        let is_delayed = level < LEVELS && !self.options.removes_files;
        let is_timed = !is_delayed && self.options.has_timers && self.dice.once_in(4);
        let due_ms = is_timed.then(|| {
            let in_ms = self.dice.between(0, TIMED_MAX_MS);
            self.nodes[broker].now_ms() + in_ms.cast_signed()
        });
        self.due_max_ms = self.due_max_ms.max(due_ms.unwrap_or(i64::MIN));
        let (properties, queue) = match due_ms {
            Some(due_ms) => (
                format!("TIMER_OUT_MS\u{1}{due_ms}\u{2}{}", real(TIMED_TOPIC)),
                TIMER_QUEUE,
            ),
            None if is_delayed => (
                format!("DELAY\u{1}{}\u{2}{}", level + 1, real(LATER_TOPIC)),
                (SCHEDULE_TOPIC, level as i32),
            ),
            None => {
                let at = self.dice.below(SENT_TO as u64) as usize;
                (String::new(), QUEUES[at])
            }
        };
        Goes {
            queue,
            properties,
            is_delayed,
            due_ms,
        }
    }

    fn plan_answers(&mut self, broker: usize, is_synced: bool) -> Checked {
        let opening = self.nodes[broker].opening;
        if is_synced {
            let in_ms = self.dice.below(4);
            self.plan(in_ms, Event::Flush(broker, opening));
        }
        let Some(opened) = self.nodes[broker].opened() else {
            return Ok(());
        };
        if !opened.parked.is_empty() {
            let config = opened.store.config();
            let in_ms = config.replicas_timeout_ms.min(config.sync_flush_timeout_ms);
            self.plan(in_ms, Event::Drain(broker, opening));
        }
        let wakes = self.nodes[broker]
            .opened()
            .is_some_and(|opened| opened.wakes_on_growth);
        if wakes {
            let in_ms = self.dice.below(2);
            self.plan_turn(broker, in_ms);
        }
        Ok(())
    }

    /// A send is acknowledged.
    pub(crate) fn acknowledged(&mut self, broker: usize, acked: Acked) -> Checked {
        self.count.acknowledged += 1;
        self.count.delayed += u64::from(acked.is_delayed);
        self.count.timed += u64::from(acked.due_ms.is_some());
        self.trace.note(acked.end);
        self.trace.line(|| {
            format!(
                "broker {broker} acknowledges {:?}, {} to {}",
                acked.body, acked.begin, acked.end
            )
        });
        let is_awaited = |node: usize| {
            let opened = self.nodes[node].opened();
            node != broker && opened.is_some_and(|opened| !opened.parked.is_empty())
        };
        let others_wait = (0..self.nodes.len()).any(is_awaited);
        let is_master = matches!(
            self.nodes[broker].opened().map(|opened| &opened.role),
            Some(Role::Master { .. })
        );
        self.count.acknowledged_under_switch += u64::from(others_wait && is_master);
        self.ledger.acknowledged(broker, acked)
    }
}
