//! Check points read back from their topic: acknowledgements are put to them, and what nobody
//! acknowledged in time is stored in the retry topic of its group (`PopReviveService`).
//!
//! Knows no timetable and no fast path: whoever has one calls, keeps the offset, and may do so from any
//! thread. Other than the official broker a round goes on where it was, so that nothing is read twice,
//! and a message that cannot be stored keeps its check point.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Unit;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{Ask, GetStatus, Store};
use mqcore_record::properties::lookup;
use mqcore_record::{CrcCheck, Host};

use super::points::{ACK_TAG, Acknowledgement, BATCH_ACK_TAG, CheckPoint, POINT_TAG};
use super::retry::Retry;
pub use super::revived::{Landed, Revived};
use crate::moved::record_of;
use crate::names::RETRY_PREFIX;
use crate::pop_run::names::{normal_topic, retry_topic};
use crate::properties::TIMER_DELIVER_MS;

/// Records read per call at the most: some ten milliseconds of work.
const READ_PER_CALL: usize = 8_192;
/// Records read at a time.
const READ_AT_ONCE: usize = 1_024;
/// Messages stored per call at the most.
pub const LIMIT_MAX: usize = 4_096;
/// Check points that wait at the most: beyond it the queue is read on when some are done. They come
/// into their topic a second before they are due.
const WAITING_MAX: usize = 65_536;
/// How far the timers have to be beyond the time of a check point, ms: by then they have brought every
/// acknowledgement that was in time (`ackTimeInterval` + 1 s).
const BEHIND_MS: i64 = 2_000;

/// What a round goes by.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The topic of check points.
    pub topic: &'a str,
    /// Up to which time the timers have brought everything, Unix ms.
    pub timers_ms: i64,
    /// The broker's name: check points of another one are not ours to read.
    pub broker: &'a str,
    /// Where the retries come from.
    pub store_host: Host,
    /// Whether they go to retry topics of the second kind.
    pub has_retry_v2: bool,
    /// Messages stored at the most.
    pub limit: usize,
}

/// What the fast path knows of names, for a round.
pub trait Known {
    /// Whether there is such a topic.
    fn has_topic(&self, name: &str) -> bool;
    /// Whether there is such a group.
    fn has_group(&self, name: &str) -> bool;
}

/// Names a check point (`PopReviveService`'s merge key).
type Key = (String, String, i32, i64, i64, String);

/// The rounds over one queue of check points. Between calls it keeps what waits.
#[derive(Debug)]
pub struct Reviver {
    queue_id: i32,
    next: u64,
    /// Up to which time of delivery everything was read, Unix ms.
    read_ms: i64,
    waiting: BTreeMap<u64, CheckPoint>,
    by_key: HashMap<Key, u64>,
}

/// Why a check point stays.
enum Stay {
    Needs(String, String),
    More,
}

impl Reviver {
    /// The rounds over a queue that goes on behind an offset.
    #[must_use]
    pub fn behind(queue_id: i32, done_offset: i64) -> Self {
        Self {
            queue_id,
            next: u64::try_from(done_offset.saturating_add(1)).unwrap_or(0),
            read_ms: i64::MIN,
            waiting: BTreeMap::new(),
            by_key: HashMap::new(),
        }
    }

    /// The last offset that is done: of check points, and of everything before the first that waits.
    #[must_use]
    pub fn done_offset(&self) -> i64 {
        let first = self.waiting.keys().next().copied();
        first.unwrap_or(self.next).cast_signed() - 1
    }

    /// Goes on with a round.
    ///
    /// # Durability
    /// That of an append. What is repeated because an offset was lost comes twice.
    ///
    /// # Errors
    /// Something could not be read or stored, and nothing was done before.
    ///
    /// # Blocking
    /// For the disk, where the messages are cold.
    pub fn go_on<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        rules: Rules<'_>,
        known: &impl Known,
    ) -> Result<Revived> {
        let mut done = Revived::default();
        let is_at_end = self.read(store, rules, &mut done)?;
        done.has_more = !is_at_end;
        let until_ms = if is_at_end {
            rules.timers_ms
        } else {
            // What was not read may acknowledge what came shortly before.
            rules.timers_ms.min(self.read_ms)
        };
        let result = self.end_due(store, rules, until_ms, known, &mut done);
        done.done_offset = self.done_offset();
        done.waiting = self.waiting.len() as u64;
        match result {
            Err(error) if done.end == 0 => Err(error),
            // What was done counts; the next call meets the error again.
            Err(_later) => {
                done.has_more = true;
                Ok(done)
            }
            Ok(()) => Ok(done),
        }
    }

    /// Reads on; true when nothing is left to read.
    fn read<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        rules: Rules<'_>,
        done: &mut Revived,
    ) -> Result<bool> {
        let topic = rules.topic.as_bytes();
        let Some(bounds) = store.topics().bounds(topic, self.queue_id)? else {
            return Ok(true);
        };
        // What lies outside was deleted, or never was.
        if self.next < bounds.min {
            self.next = bounds.min;
        } else if self.next > bounds.max && self.waiting.is_empty() {
            self.next = bounds.max;
        }
        let last = bounds.max.min(self.next + READ_PER_CALL as u64);
        let mut units: Vec<Unit> = Vec::with_capacity(READ_AT_ONCE);
        while self.next < last {
            if self.waiting.len() >= WAITING_MAX && self.has_due(self.read_ms) {
                break;
            }
            units.clear();
            let queues = store.queues();
            queues.read(topic, self.queue_id, self.next, READ_AT_ONCE, &mut units)?;
            if units.is_empty() {
                break;
            }
            for unit in &units {
                self.take(store, unit, done)?;
                self.next += 1;
            }
        }
        Ok(self.next >= bounds.max)
    }

    fn take<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        unit: &Unit,
        done: &mut Revived,
    ) -> Result<()> {
        done.read += 1;
        let Some(record) = record_of(store, unit)? else {
            done.skipped += 1;
            return Ok(());
        };
        let Ok(view) = record.view(CrcCheck::Skip) else {
            done.skipped += 1;
            return Ok(());
        };
        let delivered = lookup(view.properties, TIMER_DELIVER_MS);
        let delivered = delivered.and_then(|text| std::str::from_utf8(text).ok());
        let delivered_ms = delivered.and_then(|text| text.parse().ok());
        self.read_ms = self.read_ms.max(delivered_ms.unwrap_or(i64::MIN));
        let tags = view.tags().unwrap_or_default();
        if tags == POINT_TAG.as_bytes() {
            match CheckPoint::parse(view.body) {
                Some(point) => self.wait(point),
                None => done.skipped += 1,
            }
        } else if tags == ACK_TAG.as_bytes() || tags == BATCH_ACK_TAG.as_bytes() {
            let is_batch = tags == BATCH_ACK_TAG.as_bytes();
            match Acknowledgement::parse(view.body, is_batch) {
                Some(ack) => self.acknowledge(ack),
                None => done.skipped += 1,
            }
        }
        Ok(())
    }

    fn wait(&mut self, point: CheckPoint) {
        let at = self.next;
        self.by_key.insert(key_of_point(&point), at);
        self.waiting.insert(at, point);
    }

    /// An acknowledgement whose check point is done, or never was, changes nothing more.
    fn acknowledge(&mut self, ack: Acknowledgement) {
        let offsets = ack.offsets;
        let key = (
            ack.topic,
            ack.group,
            ack.queue_id,
            ack.start_offset,
            ack.pop_time_ms,
            ack.broker,
        );
        let at = self.by_key.get(&key);
        if let Some(point) = at.and_then(|at| self.waiting.get_mut(at)) {
            for offset in offsets {
                point.acknowledge(offset);
            }
        }
    }

    /// Whether the first check point is due, when everything up to a time was brought.
    fn has_due(&self, until_ms: i64) -> bool {
        let first = self.waiting.first_key_value();
        first.is_some_and(|(_at, point)| is_due(point, until_ms))
    }

    /// Ends the check points that are due, in the order they came.
    fn end_due<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        rules: Rules<'_>,
        until_ms: i64,
        known: &impl Known,
        done: &mut Revived,
    ) -> Result<()> {
        while let Some(mut first) = self.waiting.first_entry() {
            let point = first.get_mut();
            if !is_due(point, until_ms) {
                break;
            }
            let ended = revive(store, rules, known, point, done)?;
            match ended {
                None => {
                    let (at, point) = first.remove_entry();
                    let key = key_of_point(&point);
                    // The key may name a later check point by now, which waits.
                    if self.by_key.get(&key) == Some(&at) {
                        self.by_key.remove(&key);
                    }
                }
                Some(Stay::More) => {
                    done.has_more = true;
                    break;
                }
                Some(Stay::Needs(topic, group)) => {
                    done.needs = Some((topic, group));
                    done.has_more = true;
                    break;
                }
            }
        }
        Ok(())
    }
}

fn is_due(point: &CheckPoint, until_ms: i64) -> bool {
    until_ms.saturating_sub(point.due_ms()) > BEHIND_MS
}

fn key_of_point(point: &CheckPoint) -> Key {
    (
        point.topic.clone(),
        point.group.clone(),
        point.queue_id,
        point.start_offset,
        point.pop_time_ms,
        point.broker.clone(),
    )
}

/// Stores the messages of a check point that are not acknowledged; each that is done is marked, so
/// that a later call does not store it again.
fn revive<D: Disk, C: Clock>(
    store: &Store<D, C>,
    rules: Rules<'_>,
    known: &impl Known,
    point: &mut CheckPoint,
    done: &mut Revived,
) -> Result<Option<Stay>> {
    let is_done = (0..point.count).all(|at| point.is_acknowledged(at));
    if is_done {
        done.acknowledged += 1;
        return Ok(None);
    }
    let normal = normal_topic(&point.topic, &point.group);
    let is_ours = point.broker.is_empty() || point.broker == rules.broker;
    if !is_ours || !known.has_topic(normal) || !known.has_group(&point.group) {
        done.skipped += 1;
        return Ok(None);
    }
    let retry = if point.topic.starts_with(RETRY_PREFIX) {
        point.topic.clone()
    } else {
        retry_topic(&point.topic, &point.group, rules.has_retry_v2)
    };
    if !known.has_topic(&retry) {
        return Ok(Some(Stay::Needs(retry, point.group.clone())));
    }
    for at in 0..point.count {
        if point.is_acknowledged(at) {
            continue;
        }
        if done.revived >= rules.limit.clamp(1, LIMIT_MAX) as u64 {
            return Ok(Some(Stay::More));
        }
        let offset = point.offset_at(at).unwrap_or(-1);
        match message_of(store, point, offset)? {
            None => done.skipped += 1,
            Some(record) => {
                let view = record.view(CrcCheck::Skip)?;
                let retry = Retry {
                    topic: &retry,
                    store_host: rules.store_host,
                    pop_time_ms: point.pop_time_ms,
                };
                retry.put(store, &view, done)?;
            }
        }
        point.acknowledge(offset);
        done.landed.push(Landed {
            topic: point.topic.clone(),
            group: point.group.clone(),
            queue_id: point.queue_id,
            pop_time_ms: point.pop_time_ms,
        });
    }
    Ok(None)
}

/// The message at a queue offset; `None` when it is gone.
fn message_of<D: Disk, C: Clock>(
    store: &Store<D, C>,
    point: &CheckPoint,
    offset: i64,
) -> Result<Option<RecordBytes<D>>> {
    let Ok(from) = u64::try_from(offset) else {
        return Ok(None);
    };
    let ask = Ask {
        from,
        count_max: 1,
        bytes_max: u64::MAX,
        tags_codes: &[],
        is_bulk: false,
    };
    let got = store
        .reader()
        .get(point.topic.as_bytes(), point.queue_id, ask)?;
    if got.status != GetStatus::Found {
        return Ok(None);
    }
    let record = got.records.into_iter().next();
    let is_it = |record: &RecordBytes<D>| {
        let view = record.view(CrcCheck::Skip);
        view.is_ok_and(|view| view.queue_offset == offset)
    };
    Ok(record.filter(is_it))
}
