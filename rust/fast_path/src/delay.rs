//! Delivery of delayed messages: what is due of one level of the schedule topic becomes a message of
//! its real topic (`ScheduleMessageService`). Knows no timetable: whoever has one calls, keeps the
//! level's offset, and may do so from any thread.

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::Appended;
use mqcore_engine::consume_queue::Unit;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::Store;
use mqcore_record::properties::lookup;
use mqcore_record::{CrcCheck, Message, RecordView};

use crate::moved::moved;
use crate::names::{HALF_TOPIC, SCHEDULE_TOPIC};
use crate::properties::{REAL_QID, REAL_TOPIC};

/// Messages looked at per call at the most: a call works some milliseconds on so many.
pub const LIMIT_MAX: usize = 4_096;

/// What a call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Messages delivered.
    pub count: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Messages passed over: gone by retention, or without a topic to go to.
    pub skipped: u64,
    /// Where the level goes on.
    pub next_offset: u64,
    /// When the next message is due, Unix ms; `None` when none is known, or more is due already.
    pub next_due_ms: Option<i64>,
    /// Whether more may be due now.
    pub has_more: bool,
    /// End of the last delivered message in the log: `next_offset` may be written down once the log
    /// is flushed up to it.
    pub end: u64,
}

/// Delivers what is due of a level from an offset of its queue on.
///
/// # Durability
/// That of an append. A delivery that is repeated because `next_offset` was lost gives the message
/// twice, never not at all.
///
/// # Errors
/// The first message could not be read or stored; nothing has happened.
///
/// # Blocking
/// For the disk, where the messages are cold.
pub fn deliver_due<D: Disk, C: Clock>(
    store: &Store<D, C>,
    level: i32,
    offset: u64,
    now_ms: i64,
    limit: usize,
) -> Result<Delivered> {
    let mut done = Delivered {
        next_offset: offset,
        ..Delivered::default()
    };
    let topic = SCHEDULE_TOPIC.as_bytes();
    let queue_id = level - 1;
    let Some(bounds) = store.topics().bounds(topic, queue_id)? else {
        return Ok(done);
    };
    done.next_offset = offset.clamp(bounds.min, bounds.max);
    let limit = limit.clamp(1, LIMIT_MAX);
    let appended = usize::try_from(level).unwrap_or(0);
    let delay_ms = store.delay_levels().delay_ms(appended);
    let mut units: Vec<Unit> = Vec::with_capacity(limit);
    store
        .queues()
        .read(topic, queue_id, done.next_offset, limit, &mut units)?;
    fill_times(store, queue_id, delay_ms, &mut units)?;
    let latest_ms = now_ms.saturating_add(delay_ms.unwrap_or(0));
    // A level that the table has no more: its messages wait as long as they were to.
    let is_retired = appended > store.delay_levels().count();
    for unit in &units {
        // A time further away than the level's delay comes from another table of levels, or from a
        // clock that stepped: it is due.
        let is_due = unit.is_blank()
            || unit.tags_code <= now_ms
            || if is_retired {
                is_from_ahead(store, unit, now_ms)
            } else {
                unit.tags_code > latest_ms
            };
        if !is_due {
            done.next_due_ms = Some(unit.tags_code);
            return Ok(done);
        }
        match deliver(store, unit) {
            Ok(Some(appended)) => {
                done.count += 1;
                done.bytes += appended.len_bytes;
                done.end = appended.end();
            }
            Ok(None) => done.skipped += 1,
            Err(error) if done.count == 0 => return Err(error),
            // What was delivered counts; the next call meets the error again.
            Err(_later) => break,
        }
        done.next_offset += 1;
    }
    done.has_more = done.next_offset < bounds.max && !units.is_empty();
    Ok(done)
}

/// Puts the times of delivery into units that have them in the extension of their queue. Where it has
/// lost them they are made again of store time and level, as the official broker does.
fn fill_times<D: Disk, C: Clock>(
    store: &Store<D, C>,
    queue_id: i32,
    delay_ms: Option<i64>,
    units: &mut [Unit],
) -> Result<()> {
    store
        .reader()
        .fill_codes(SCHEDULE_TOPIC.as_bytes(), queue_id, units)?;
    for unit in units.iter_mut().filter(|unit| unit.is_extended()) {
        let stored_ms = stored_ms(store, unit).unwrap_or(0);
        unit.tags_code = stored_ms.saturating_add(delay_ms.unwrap_or(0));
    }
    Ok(())
}

/// When the message of a unit was stored, Unix ms. What cannot be read is met again by the delivery,
/// which knows what to do.
fn stored_ms<D: Disk, C: Clock>(store: &Store<D, C>, unit: &Unit) -> Option<i64> {
    let record = store
        .reader()
        .record_at(unit.physical_offset.cast_unsigned())
        .ok()?;
    Some(record.view(CrcCheck::Skip).ok()?.store_timestamp_ms)
}

/// Whether a message was stored at a time that is still to come: the clock was set back.
fn is_from_ahead<D: Disk, C: Clock>(store: &Store<D, C>, unit: &Unit, now_ms: i64) -> bool {
    stored_ms(store, unit).is_some_and(|stored_ms| stored_ms > now_ms)
}

/// Stores a message in its real topic: its place in the log, or `None` when it cannot go anywhere.
fn deliver<D: Disk, C: Clock>(store: &Store<D, C>, unit: &Unit) -> Result<Option<Appended>> {
    if unit.is_blank() {
        return Ok(None);
    }
    let record = match store
        .reader()
        .record_at(unit.physical_offset.cast_unsigned())
    {
        Ok(record) => record,
        Err(Error::NoRecord { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let view = record.view(CrcCheck::Verify)?;
    let Some(message) = real_message(&view) else {
        return Ok(None);
    };
    match store.writer().append(&message) {
        Ok(appended) => Ok(Some(appended)),
        // Its real topic has a name that no topic may have: it would block the queue for ever.
        Err(Error::Message(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn real_message<'a>(view: &RecordView<'a>) -> Option<Message<'a>> {
    let topic = lookup(view.properties, REAL_TOPIC)?;
    let topic = std::str::from_utf8(topic).ok()?;
    let queue_id = lookup(view.properties, REAL_QID)?;
    let queue_id: i32 = std::str::from_utf8(queue_id).ok()?.parse().ok()?;
    // A half message never was one of the delayed.
    if topic == HALF_TOPIC || queue_id < 0 {
        return None;
    }
    Some(moved(view, topic, queue_id, view.properties))
}
