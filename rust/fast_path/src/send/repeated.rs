//! What the fast path does about a send that may be a repeat: compares it with the first, answers it
//! with the first's offsets, or lets it go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::Appended;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::{Mutex, MutexGuard};
use mqcore_engine::store::Store;
use mqcore_record::batch::items;

use crate::batches::is_inner_batch;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::delivery::answers::refuse_send;
use crate::delivery::recall_handle::handle_of;
use crate::mark::Mark;
use crate::parked::{Kind, Stored};
use crate::properties::{self, Seen};
use crate::readers::Job;
use crate::refusals;
use crate::repeats::identity::Identity;
use crate::repeats::{
    DuplicateCandidate, First, Looked, Patience, Repeats, claims, look, read_again,
};
use crate::request_context::RequestContext;
use crate::requests::{Request, Send};
use crate::stop::{Processed, Stop};

/// Bytes of sends whose firsts are read from the disk at the most: as many as may wait for the next
/// log file.
const LOOKING_BYTES_MAX: usize = 64 << 20;

/// The sends of the last minutes, where they are remembered: one for all loops over a store, behind a
/// lock of its own. The lock is held from the look for a first message until the new one is stored and
/// remembered, so that of two copies on two connections one is stored. What is taken under it: the
/// log's append lock, the parked responses of the caller's own loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepeatedSends {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether sends are remembered: where they are not, no lock is taken.
    is_on: AtomicBool,
    repeats: Mutex<Option<Repeats>>,
}

/// What is remembered, while one send is executed.
pub(crate) struct Remembered<'a>(Option<MutexGuard<'a, Option<Repeats>>>);

impl RepeatedSends {
    /// Remembers sends from now on; `None` does not, and forgets.
    pub(crate) fn remember(&self, repeats: Option<Repeats>) {
        let mut inside = self.shared.repeats.lock();
        self.shared
            .is_on
            .store(repeats.is_some(), Ordering::Release);
        *inside = repeats;
    }

    /// What is remembered, for the length of one send.
    pub(crate) fn lock(&self) -> Remembered<'_> {
        let is_on = self.shared.is_on.load(Ordering::Acquire);
        Remembered(is_on.then(|| self.shared.repeats.lock()))
    }

    /// Names and numbers, for reports; none when nothing is remembered.
    pub(crate) fn numbers(&self, now_ms: i64) -> Vec<(&'static str, u64)> {
        let remembered = self.lock();
        remembered
            .known()
            .map_or_else(Vec::new, |repeats| repeats.numbers(now_ms).to_vec())
    }

    /// Has the first of a send read from the disk.
    pub(crate) fn have_read<D: Disk, C: Clock>(
        &self,
        cx: &mut Context<'_, D, C>,
        candidate: DuplicateCandidate,
        bytes: usize,
    ) {
        let request_context =
            Request::of_command(candidate.connection, &candidate.command).request_context;
        let is_taken = match self.lock().known_mut() {
            Some(repeats) if repeats.looking_bytes + bytes <= LOOKING_BYTES_MAX => {
                repeats.looking_bytes += bytes;
                let is_taken = cx.readers.submit(Job::First(Box::new(candidate), bytes));
                if !is_taken {
                    repeats.looking_bytes -= bytes;
                }
                is_taken
            }
            _ => false,
        };
        if !is_taken {
            refuse_send(
                cx.connections,
                &cx.policy.broker,
                &request_context,
                &refusals::overload(),
            );
        }
    }

    /// Goes on with a send whose first was read: answers it, or gives back what is to be executed.
    pub(crate) fn first_read<D: Disk, C: Clock>(
        &self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        (candidate, bytes): (DuplicateCandidate, usize),
        looked: Looked,
    ) -> Option<DuplicateCandidate> {
        let mut remembered = self.lock();
        if let Some(repeats) = remembered.known_mut() {
            repeats.looking_bytes = repeats.looking_bytes.saturating_sub(bytes);
        }
        if !cx.is_open(candidate.connection) {
            // Nobody waits any more; its client sends again where it wants to.
            return None;
        }
        let request = Request::of_command(candidate.connection, &candidate.command);
        if let Looked::Same(first) = looked
            && let Some(send) = read_again(&request)
        {
            let seen = properties::see(send.properties.as_bytes());
            let first = (request.request_context, first);
            remembered.answer_first(cx, delivery, first, &send, &seen);
            return None;
        }
        if let Some(repeats) = remembered.known_mut() {
            repeats.distinguished += 1;
            if repeats.window.find(candidate.mark, i64::MIN) == Some(candidate.physical_offset) {
                repeats.window.forget(candidate.mark);
            }
        }
        Some(candidate)
    }
}

impl Remembered<'_> {
    fn known(&self) -> Option<&Repeats> {
        self.0.as_ref()?.as_ref()
    }

    fn known_mut(&mut self) -> Option<&mut Repeats> {
        self.0.as_mut()?.as_mut()
    }

    /// The mark of a single message; `None` when it does not count, or nothing is remembered.
    pub(crate) fn mark_of(&self, send: &Send<'_>, seen: &Seen<'_>) -> Option<Mark> {
        let repeats = self.known()?;
        let identity = Identity::of_send(send.topic, seen, send.properties.as_bytes())?;
        Some(repeats.mark(&identity))
    }

    /// The mark of the first message of a batch.
    pub(crate) fn mark_of_batch(&self, request: &Request<'_>, send: &Send<'_>) -> Option<Mark> {
        let repeats = self.known()?;
        let first = items(request.body).next()?.ok()?;
        let identity = Identity::of_part(send.topic, first.properties)?;
        Some(repeats.mark(&identity))
    }

    /// Answers a send with the place of the same one that came before; false when there is none, so
    /// that it is to be stored.
    pub(crate) fn answer_repeat<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        mark: Option<Mark>,
        (request, send): (&Request<'_>, &Send<'_>),
        seen: &Seen<'_>,
    ) -> Processed<bool> {
        let (Some(mark), Some(repeats)) = (mark, self.known_mut()) else {
            return Ok(false);
        };
        let Some(physical_offset) = repeats.window.find(mark, cx.store.wall_ms()) else {
            return Ok(false);
        };
        let claims = claims(cx.store, request, send, seen);
        match look(cx.store, physical_offset, &claims, Patience::None) {
            Looked::Same(first) => {
                self.answer_first(cx, delivery, (request.request_context, first), send, seen);
                Ok(true)
            }
            Looked::Other => {
                repeats.distinguished += 1;
                Ok(false)
            }
            Looked::Cold => Err(Stop::DuplicateCandidate(mark, physical_offset)),
        }
    }

    fn answer_first<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        (request_context, first): (RequestContext, First),
        send: &Send<'_>,
        seen: &Seen<'_>,
    ) {
        if let Some(repeats) = self.known_mut() {
            repeats.answered += 1;
        }
        let key = seen.uniq_key.and_then(|key| std::str::from_utf8(key).ok());
        let name = &cx.policy.broker.name;
        let recall = first.slot_ms.zip(key);
        let recall = recall.map(|(slot_ms, key)| handle_of(send.topic, name, slot_ms, key));
        let batch_key = key.filter(|_| is_inner_batch(cx.store, send, seen));
        let stored = Stored {
            request_context,
            kind: Kind::Send,
            queue_id: first.queue_id,
            queue_offset: first.queue_offset,
            physical_offset: first.physical_offset,
            others: first.others,
            recall: recall.map(String::into_boxed_str),
            batch_key: batch_key.map(Box::from),
        };
        // As durable as the first was promised to be: both wait for the same watermark.
        delivery.settle(cx, stored, first.end, seen.waits);
    }

    /// Remembers that a message was stored.
    pub(crate) fn note_stored<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        mark: Option<Mark>,
        physical_offset: &Appended,
    ) {
        if let (Some(repeats), Some(mark)) = (self.known_mut(), mark) {
            let now_ms = store.wall_ms();
            repeats
                .window
                .insert(mark, physical_offset.physical_offset, now_ms);
        }
    }

    /// Remembers that the messages of a batch were stored.
    pub(crate) fn note_batch<D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        request: &Request<'_>,
        topic: &str,
        appended: &[Appended],
    ) {
        let Some(repeats) = self.known_mut() else {
            return;
        };
        let now_ms = store.wall_ms();
        for (item, physical_offset) in items(request.body).zip(appended) {
            let identity = item.ok().map(|item| item.properties);
            if let Some(identity) = identity.and_then(|text| Identity::of_part(topic, text)) {
                let mark = repeats.mark(&identity);
                repeats
                    .window
                    .insert(mark, physical_offset.physical_offset, now_ms);
            }
        }
    }
}
