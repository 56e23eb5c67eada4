//! The delivery route of a message to its topic: straight there, or through the topic where it
//! waits for its transaction, its delay level or its time (`HookUtils.handleScheduleMessage`,
//! `TransactionalMessageBridge.parseHalfMessageInner`). Knows no answer.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::properties::{TRANSACTION_ID, UNIQ_KEY, lookup};
use mqcore_record::sys_flag::TRANSACTION_MASK;

use super::recall_handle::handle_of;
use super::{Delivery, Target};
use crate::context::Context;
use crate::names::{HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_QUEUE, TIMER_TOPIC};
use crate::policy::Broker;
use crate::properties::{
    self, DELAY, REAL_QID, REAL_TOPIC, Seen, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS,
    TIMER_OUT_MS, WAIT,
};
use crate::refusals::{self, Refused};

/// First release that keeps the transaction's id as a property of its own: V5_1_0.
const KEEPS_TRANSACTION_ID_FROM: i32 = 433;

/// The queue of half messages: their topic has one.
const HALF_QUEUE: i32 = 0;

/// The delivery route of a message to its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryRoute {
    /// Right there.
    Straight,
    /// Right there, with a delay level that is none and not kept.
    Undelayed,
    /// It waits for the end of its transaction.
    Half,
    /// It waits for the time of a level.
    Level(i32),
    /// It waits in the slot of this time, ms.
    Timer(i64),
}

impl<D: Disk> Delivery<D> {
    /// Which route a message takes before it comes to its topic.
    pub(crate) fn route_of<C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        seen: &Seen<'_>,
        sys_flag: i32,
        topic: &str,
        is_dead: bool,
    ) -> Result<DeliveryRoute, Refused> {
        let level = level_of(seen)?;
        if seen.is_half {
            return Ok(DeliveryRoute::Half);
        }
        // A dead letter waits for nothing.
        if is_dead || (seen.delay.is_some() && level == 0 && !seen.timed.is_asked()) {
            return Ok(DeliveryRoute::Undelayed);
        }
        if !is_delayable(sys_flag) {
            return Ok(DeliveryRoute::Straight);
        }
        if level > 0 {
            return Ok(DeliveryRoute::Level(clipped_level(cx.store, level)));
        }
        let timed = &seen.timed;
        if !timed.is_asked() || timed.is_out || topic == TIMER_TOPIC {
            return Ok(DeliveryRoute::Straight);
        }
        let timing = cx.policy.broker.timing;
        let Some(slot_ms) = timing.slot_of(timed, cx.store.wall_ms())? else {
            return Ok(DeliveryRoute::Straight);
        };
        let slot = self.wheel.as_ref().and_then(|wheel| wheel.slot(slot_ms));
        timing.check_congestion(slot.map_or(0, |slot| slot.count), self.next_turn())?;
        Ok(DeliveryRoute::Timer(slot_ms))
    }

    /// Where a message really goes, with the flags and the properties that it has there: a half
    /// message waits in its own topic, a delayed one in that of its level or of the timers.
    pub(crate) fn redirect<'t>(
        &self,
        broker: &Broker,
        wanted: Target<'t>,
        text: &[u8],
        (route, sys_flag): (DeliveryRoute, i32),
        properties: &mut Vec<u8>,
    ) -> (Target<'t>, i32) {
        if route == DeliveryRoute::Half {
            let queue_id = self.keep_half(broker, &wanted, text, properties);
            let target = Target {
                topic: HALF_TOPIC,
                queue_id,
            };
            return (target, sys_flag & !TRANSACTION_MASK);
        }
        if matches!(route, DeliveryRoute::Straight | DeliveryRoute::Undelayed) {
            let drops: &[&str] = if route == DeliveryRoute::Undelayed {
                &[WAIT, DELAY]
            } else {
                &[WAIT]
            };
            self.stamp.rewrite(text, drops, &[], properties);
            return (wanted, sys_flag);
        }
        let queue = wanted.queue_id.to_string();
        let waits_for = match route {
            DeliveryRoute::Straight | DeliveryRoute::Undelayed | DeliveryRoute::Half => {
                String::new()
            }
            DeliveryRoute::Level(level) => level.to_string(),
            DeliveryRoute::Timer(slot_ms) => slot_ms.to_string(),
        };
        let mut adds = vec![
            (REAL_TOPIC, wanted.topic.as_bytes()),
            (REAL_QID, queue.as_bytes()),
        ];
        let drops: &[&str];
        let (topic, queue_id) = match route {
            DeliveryRoute::Straight | DeliveryRoute::Undelayed | DeliveryRoute::Half => {
                return (wanted, sys_flag);
            }
            DeliveryRoute::Level(level) => {
                adds.push((DELAY, waits_for.as_bytes()));
                drops = &[WAIT, TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC];
                (SCHEDULE_TOPIC, level - 1)
            }
            DeliveryRoute::Timer(_slot_ms) => {
                adds.push((TIMER_OUT_MS, waits_for.as_bytes()));
                drops = &[WAIT, DELAY];
                (TIMER_TOPIC, TIMER_QUEUE)
            }
        };
        self.stamp.rewrite(text, drops, &adds, properties);
        (Target { topic, queue_id }, sys_flag)
    }

    /// The properties of a half message, and its queue (`parseHalfMessageInner`). All of its properties
    /// stay, and a delay counts once it is committed.
    fn keep_half(
        &self,
        broker: &Broker,
        wanted: &Target<'_>,
        text: &[u8],
        properties: &mut Vec<u8>,
    ) -> i32 {
        let queue = wanted.queue_id.to_string();
        let mut adds = vec![
            (REAL_TOPIC, wanted.topic.as_bytes()),
            (REAL_QID, queue.as_bytes()),
        ];
        let has_id = broker.version >= KEEPS_TRANSACTION_ID_FROM;
        if let Some(id) = has_id.then(|| lookup(text, UNIQ_KEY)).flatten() {
            adds.push((TRANSACTION_ID, id));
        }
        self.stamp.rewrite(text, &[], &adds, properties);
        HALF_QUEUE
    }
}

/// What recalls a message that waits for its time; none without a key, and none for a retry
/// (`attachRecallHandle`).
pub(crate) fn recall_handle(
    broker: &Broker,
    route: DeliveryRoute,
    seen: &Seen<'_>,
    topic: &str,
) -> Option<Box<str>> {
    let DeliveryRoute::Timer(slot_ms) = route else {
        return None;
    };
    let key = std::str::from_utf8(seen.uniq_key?).ok()?;
    let is_retry = topic.starts_with(RETRY_PREFIX);
    (!is_retry).then(|| handle_of(topic, &broker.name, slot_ms, key).into_boxed_str())
}

/// The level of a delay, at most the highest there is.
pub(crate) fn clipped_level<D: Disk, C: Clock>(store: &Store<D, C>, level: i32) -> i32 {
    let max = i32::try_from(store.delay_levels().count()).unwrap_or(i32::MAX);
    level.min(max)
}

/// Only plain and committed messages are delayed.
fn is_delayable(sys_flag: i32) -> bool {
    let state = sys_flag & TRANSACTION_MASK;
    state == 0 || state == mqcore_record::sys_flag::COMMIT
}

/// The delay level of a message, 0 for none.
pub(crate) fn level_of(seen: &Seen<'_>) -> Result<i32, Refused> {
    let Some(text) = seen.delay else {
        return Ok(0);
    };
    properties::level(text).ok_or_else(|| refusals::bad_delay(text))
}
