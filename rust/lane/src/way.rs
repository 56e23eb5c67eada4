//! The way of a message to its topic: straight there, or through the topic where it waits for its
//! transaction, its delay level or its time (`HookUtils.handleScheduleMessage`,
//! `TransactionalMessageBridge.parseHalfMessageInner`). Knows no answer.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_record::properties::{TRANSACTION_ID, UNIQ_KEY, lookup};
use mqcore_record::sys_flag::TRANSACTION_MASK;

use crate::codes;
use crate::lane::Lane;
use crate::names::{HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_QUEUE, TIMER_TOPIC};
use crate::properties::{
    self, DELAY, REAL_QID, REAL_TOPIC, Seen, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS,
    TIMER_OUT_MS, WAIT,
};
use crate::recall::handle_of;
use crate::send::{Refused, Target};

/// First release that keeps the transaction's id as a property of its own: V5_1_0.
const KEEPS_TRANSACTION_ID_FROM: i32 = 433;

/// The way of a message to its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Right there.
    Straight,
    /// Right there, with a delay level that is none and not kept.
    Undelayed,
    /// It waits for the end of its transaction.
    Half,
    /// It waits as long as a level says.
    Level(i32),
    /// It waits in the slot of this time, ms.
    Timer(i64),
}

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Which way a message goes before it comes to its topic.
    pub(crate) fn way_of(
        &mut self,
        seen: &Seen<'_>,
        sys_flag: i32,
        topic: &str,
        is_dead: bool,
    ) -> Result<Way, Refused> {
        let level = level_of(seen)?;
        if seen.is_half {
            return Ok(Way::Half);
        }
        // A dead letter waits for nothing.
        if is_dead || (seen.delay.is_some() && level == 0 && !seen.timed.is_asked()) {
            return Ok(Way::Undelayed);
        }
        if !is_delayable(sys_flag) {
            return Ok(Way::Straight);
        }
        if level > 0 {
            return Ok(Way::Level(self.clipped_level(level)));
        }
        let timed = &seen.timed;
        if !timed.is_asked() || timed.is_out || topic == TIMER_TOPIC {
            return Ok(Way::Straight);
        }
        let timing = self.policy.broker.timing;
        let Some(slot_ms) = timing.slot_of(timed, self.store.wall_ms())? else {
            return Ok(Way::Straight);
        };
        let slot = self.wheel.as_ref().and_then(|wheel| wheel.slot(slot_ms));
        self.turn = self.turn.wrapping_add(1);
        timing.check_congestion(slot.map_or(0, |slot| slot.count), self.turn)?;
        Ok(Way::Timer(slot_ms))
    }

    /// What recalls a message that waits for its time; none without a key, and none for a retry
    /// (`attachRecallHandle`).
    pub(crate) fn recall_handle(&self, way: Way, seen: &Seen<'_>, topic: &str) -> Option<Box<str>> {
        let Way::Timer(slot_ms) = way else {
            return None;
        };
        let key = std::str::from_utf8(seen.uniq_key?).ok()?;
        let is_retry = topic.starts_with(RETRY_PREFIX);
        let name = &self.policy.broker.name;
        (!is_retry).then(|| handle_of(topic, name, slot_ms, key).into_boxed_str())
    }

    /// Where a message really goes, with the flags and the properties that it has there: a half
    /// message waits in its own topic, a delayed one in that of its level or of the timers.
    pub(crate) fn redirect<'t>(
        &self,
        wanted: Target<'t>,
        text: &[u8],
        way: Way,
        sys_flag: i32,
        properties: &mut Vec<u8>,
    ) -> (Target<'t>, i32) {
        if way == Way::Half {
            return self.keep_half(&wanted, text, sys_flag, properties);
        }
        if matches!(way, Way::Straight | Way::Undelayed) {
            let drops: &[&str] = if way == Way::Undelayed {
                &[WAIT, DELAY]
            } else {
                &[WAIT]
            };
            self.stamp.rewrite(text, drops, &[], properties);
            return (wanted, sys_flag);
        }
        let queue = wanted.queue_id.to_string();
        let waits_for = match way {
            Way::Straight | Way::Undelayed | Way::Half => String::new(),
            Way::Level(level) => level.to_string(),
            Way::Timer(slot_ms) => slot_ms.to_string(),
        };
        let mut adds = vec![
            (REAL_TOPIC, wanted.topic.as_bytes()),
            (REAL_QID, queue.as_bytes()),
        ];
        let drops: &[&str];
        let (topic, queue_id) = match way {
            Way::Straight | Way::Undelayed | Way::Half => return (wanted, sys_flag),
            Way::Level(level) => {
                adds.push((DELAY, waits_for.as_bytes()));
                drops = &[WAIT, TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC];
                (SCHEDULE_TOPIC, level - 1)
            }
            Way::Timer(_slot_ms) => {
                adds.push((TIMER_OUT_MS, waits_for.as_bytes()));
                drops = &[WAIT, DELAY];
                (TIMER_TOPIC, TIMER_QUEUE)
            }
        };
        self.stamp.rewrite(text, drops, &adds, properties);
        (Target { topic, queue_id }, sys_flag)
    }

    /// A half message in its own topic (`parseHalfMessageInner`). All of its properties stay, and a
    /// delay counts once it is committed.
    fn keep_half<'t>(
        &self,
        wanted: &Target<'_>,
        text: &[u8],
        sys_flag: i32,
        properties: &mut Vec<u8>,
    ) -> (Target<'t>, i32) {
        let queue = wanted.queue_id.to_string();
        let mut adds = vec![
            (REAL_TOPIC, wanted.topic.as_bytes()),
            (REAL_QID, queue.as_bytes()),
        ];
        let has_id = self.policy.broker.version >= KEEPS_TRANSACTION_ID_FROM;
        if let Some(id) = has_id.then(|| lookup(text, UNIQ_KEY)).flatten() {
            adds.push((TRANSACTION_ID, id));
        }
        self.stamp.rewrite(text, &[], &adds, properties);
        let target = Target {
            topic: HALF_TOPIC,
            queue_id: 0,
        };
        (target, sys_flag & !TRANSACTION_MASK)
    }
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
    properties::level(text).ok_or_else(|| {
        let text = String::from_utf8_lossy(text);
        let remark = format!("the property {DELAY} is no number: {text:?}");
        (codes::SYSTEM_ERROR, remark)
    })
}
