//! The first of two messages that may be one: read at the window's physical offset, and compared
//! byte by byte with the one that came now. Changes nothing.

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::{ReadBy, Unit};
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::properties::{REAL_QID, TIMER_OUT_MS, lookup};
use mqcore_record::{CrcCheck, RecordView, peek_total_len};

use super::identity::Identity;
use crate::names::TIMER_TOPIC;

/// A message of a request, as far as it is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) identity: Identity<'a>,
    pub(crate) body: &'a [u8],
}

/// Where a message is that comes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct First {
    pub(crate) queue_id: i32,
    pub(crate) queue_offset: u64,
    pub(crate) physical_offset: u64,
    /// Physical offsets of the others of a batch.
    pub(crate) others: Vec<u64>,
    /// End of the last of them in the log.
    pub(crate) end: u64,
    /// The slot of one that waits for its time, ms.
    pub(crate) slot_ms: Option<i64>,
}

/// What is at the window's physical offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Looked {
    /// The same.
    Same(First),
    /// Something else, or nothing any more.
    Other,
    /// The disk would have to be waited for.
    Cold,
}

/// Whether a look may wait for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    Disk,
}

/// Why a look ends early: what is not the same, or not in memory.
type Looking<T> = std::result::Result<T, Looked>;

/// Compares what is at a physical offset with the messages of a request.
pub(crate) fn look<D: Disk, C: Clock>(
    store: &Store<D, C>,
    physical_offset: u64,
    claims: &[Claim<'_>],
    patience: Patience,
) -> Looked {
    compared(store, physical_offset, claims, patience).unwrap_or_else(|early| early)
}

fn compared<D: Disk, C: Clock>(
    store: &Store<D, C>,
    physical_offset: u64,
    claims: &[Claim<'_>],
    patience: Patience,
) -> Looking<Looked> {
    // Before the queue is asked: what was dispatched by now is in it.
    let dispatched = store.files().positions.dispatched.position();
    let mut found: Option<(First, i32)> = None;
    let mut at = physical_offset;
    for claim in claims {
        let record = record(store, at, patience)?;
        let view = record.view(CrcCheck::Skip).map_err(|_none| Looked::Other)?;
        let is_same = view.physical_offset.cast_unsigned() == at
            && Identity::of_record(&view) == Some(claim.identity)
            && view.body == claim.body;
        if !is_same {
            return Err(Looked::Other);
        }
        let end = at + view.total_len_bytes as u64;
        match &mut found {
            Some((first, queue_id)) => {
                // Those of a batch lie side by side in the log and in one queue.
                let next = first.queue_offset + first.others.len() as u64 + 1;
                if view.queue_id != *queue_id || view.queue_offset.cast_unsigned() != next {
                    return Err(Looked::Other);
                }
                first.others.push(at);
                first.end = end;
            }
            None => {
                if at < dispatched {
                    check_queue(store, &view, at, patience)?;
                }
                found = Some((first_of(&view, at, end), view.queue_id));
            }
        }
        at = end;
    }
    found
        .map(|(first, _queue_id)| Looked::Same(first))
        .ok_or(Looked::Other)
}

fn first_of(view: &RecordView<'_>, at: u64, end: u64) -> First {
    fn number<T: std::str::FromStr>(view: &RecordView<'_>, name: &str) -> Option<T> {
        let text = lookup(view.properties, name)?;
        std::str::from_utf8(text).ok()?.parse().ok()
    }
    let is_timed = view.topic == TIMER_TOPIC.as_bytes();
    First {
        // The queue that was asked for, also where the message waits in another one.
        queue_id: number(view, REAL_QID).unwrap_or(view.queue_id),
        queue_offset: view.queue_offset.cast_unsigned(),
        physical_offset: at,
        others: Vec::new(),
        end,
        slot_ms: if is_timed {
            number(view, TIMER_OUT_MS)
        } else {
            None
        },
    }
}

/// The record at a place.
fn record<D: Disk, C: Clock>(
    store: &Store<D, C>,
    at: u64,
    patience: Patience,
) -> Looking<RecordBytes<D>> {
    if patience == Patience::Disk {
        // With the transient pool it may not be in the file yet; where that fails it is not found.
        let files = store.files();
        let _end = files.commit_to(files.positions.appended.position());
        return store.reader().record_at(at).map_err(|_none| Looked::Other);
    }
    let files = store.files();
    if files.pool.is_some() && at >= files.readable() {
        return Err(Looked::Cold);
    }
    let now = |len: usize| match store.reader().record_now(at, len) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(Looked::Cold),
        Err(_none) => Err(Looked::Other),
    };
    // Eight bytes: every record has them.
    let head = now(8)?;
    let len = peek_total_len(head.as_bytes()).ok_or(Looked::Other)?;
    now(len)
}

/// Whether the queue of a message still has it: a topic that was deleted since has not, though its
/// records lie in the log until their file goes.
fn check_queue<D: Disk, C: Clock>(
    store: &Store<D, C>,
    view: &RecordView<'_>,
    at: u64,
    patience: Patience,
) -> Looking<()> {
    let queue_offset = u64::try_from(view.queue_offset).map_err(|_none| Looked::Other)?;
    if store.topics().has_batch_queues(view.topic) {
        return check_batch_queue(store, view, (at, queue_offset), patience);
    }
    let mut units: Vec<Unit> = Vec::with_capacity(1);
    let (queues, queue_id) = (store.queues(), view.queue_id);
    let by = match patience {
        Patience::None => ReadBy::Cache,
        Patience::Disk => ReadBy::Disk,
    };
    match queues.read_by(view.topic, queue_id, queue_offset, (1, &mut units), by) {
        Ok(read) if read.is_cold => Err(Looked::Cold),
        Ok(_read) => {
            let unit = units.first();
            let is_there = unit.is_some_and(|unit| unit.physical_offset.cast_unsigned() == at);
            is_there.then_some(()).ok_or(Looked::Other)
        }
        // A queue that cannot be read does not show that the message is gone: it is asked for again
        // with patience, and stored anew if that fails, too.
        Err(_error) if patience == Patience::None => Err(Looked::Cold),
        Err(_error) => Err(Looked::Other),
    }
}

/// [`check_queue`] where a unit represents all messages of a record.
fn check_batch_queue<D: Disk, C: Clock>(
    store: &Store<D, C>,
    view: &RecordView<'_>,
    (at, queue_offset): (u64, u64),
    patience: Patience,
) -> Looking<()> {
    let (topic, queue_id) = (view.topic, view.queue_id);
    let physical_offset = match patience {
        Patience::None => {
            match store
                .topics()
                .batch_physical_offset_now(topic, queue_id, queue_offset)
            {
                Ok(Some(physical_offset)) => physical_offset,
                Ok(None) | Err(_) => return Err(Looked::Cold),
            }
        }
        // As of a plain queue: what cannot be read is stored anew.
        Patience::Disk => store
            .topics()
            .batch_physical_offset(topic, queue_id, queue_offset)
            .ok()
            .flatten(),
    };
    (physical_offset == Some(at))
        .then_some(())
        .ok_or(Looked::Other)
}
