//! What the fast path does about a send that may be a repeat: compares it with the first, answers it
//! with the first's offsets, or lets it go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::Appended;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::MutexGuard;
use mqcore_engine::store::Store;
use mqcore_record::batch::items;

use crate::batches::is_inner_batch;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::delivery::answers::refuse_send;
use crate::delivery::recall_handle::handle_of;
use crate::mark::Mark;
use crate::parked::{Awaits, Kind, Stored};
use crate::properties::{self, Seen};
use crate::readers::Job;
use crate::refusals;
use crate::repeats::identity::{Identity, Marks};
use crate::repeats::{
    DuplicateCandidate, First, Looked, Patience, RepeatNumbers, Repeats, RepeatsShard, claims,
    look, read_again, shard_of,
};
use crate::request_context::RequestContext;
use crate::requests::{Request, Send};
use crate::shards::Shards;
use crate::stop::{Processed, Stop};
use crate::times::Moments;

/// Bytes of sends whose firsts are read from the disk at the most: as many as may wait for the next
/// log file.
const LOOKING_BYTES_MAX: usize = 64 << 20;

/// The sends of the last minutes, where they are remembered: one for all loops over a store, in shards by
/// mark, each behind a lock of its own. The lock of a send's shard is held from the look for a first
/// message until the new one is stored and remembered, so that of two copies on two connections one is
/// stored. Never are two shards held: a batch has the shard of its first message, by which it is found
/// when it comes again, and remembers its others afterwards, shard by shard. What is taken under a lock:
/// the log's append lock, the parked responses of the caller's own loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepeatedSends {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether sends are remembered: where they are not, no lock is taken.
    is_on: AtomicBool,
    /// Bytes of requests whose firsts are being read from the disk: one sum for all shards, so that its
    /// bound is that of all.
    looking_bytes: AtomicUsize,
    shards: Shards<Option<RepeatsShard>>,
}

type Guard<'a> = MutexGuard<'a, Option<RepeatsShard>>;

impl Shared {
    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    fn lock(&self, mark: Mark) -> Guard<'_> {
        self.shards.lock(shard_of(mark))
    }

    /// Counts bytes of a request whose first is to be read; false when those are too many.
    fn look_for(&self, bytes: usize) -> bool {
        let with = |looking: usize| {
            let sum = looking.saturating_add(bytes);
            (sum <= LOOKING_BYTES_MAX).then_some(sum)
        };
        let counted = self
            .looking_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        counted.is_ok()
    }

    /// Takes off what [`Shared::look_for`] has counted.
    fn has_looked(&self, bytes: usize) {
        self.looking_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What is remembered, while one send is executed.
pub(crate) struct Remembered<'a> {
    /// `None` where nothing is remembered.
    shared: Option<&'a Shared>,
    /// That of the message, or of the first of a batch; `None` when it does not count.
    mark: Option<Mark>,
    /// The shard of the mark.
    inside: Option<Guard<'a>>,
}

impl RepeatedSends {
    /// Remembers sends from now on; `None` does not, and forgets. Shard by shard: what is sent meanwhile
    /// may be remembered or not.
    pub(crate) fn remember(&self, repeats: Option<Repeats>) {
        let is_on = repeats.is_some();
        if !is_on {
            self.shared.is_on.store(false, Ordering::Release);
        }
        let mut shards = repeats.into_iter().flat_map(|repeats| repeats.shards);
        for shard in self.shared.shards.all() {
            *shard.lock() = shards.next();
        }
        self.shared.is_on.store(is_on, Ordering::Release);
    }

    /// What is remembered of a message, for the length of its send.
    ///
    /// # Blocking
    /// While another loop executes a send of the same shard.
    pub(crate) fn of_send(&self, send: &Send<'_>, seen: &Seen<'_>) -> Remembered<'_> {
        self.of_identity(|| Identity::of_send(send.topic, seen, send.properties.as_bytes()))
    }

    /// What is remembered of the first message of a batch, for the length of its send.
    ///
    /// # Blocking
    /// As [`RepeatedSends::of_send`].
    pub(crate) fn of_batch(&self, request: &Request<'_>, send: &Send<'_>) -> Remembered<'_> {
        self.of_identity(|| {
            let first = items(request.body).next()?.ok()?;
            Identity::of_part(send.topic, first.properties)
        })
    }

    fn of_identity<'i>(&self, identity: impl FnOnce() -> Option<Identity<'i>>) -> Remembered<'_> {
        let shared = Some(&*self.shared).filter(|shared| shared.is_on());
        let identity = shared.and_then(|_shared| identity());
        // Made before the lock is taken.
        self.of_mark(identity.map(|identity| Marks::of_process().of(&identity)))
    }

    fn of_mark(&self, mark: Option<Mark>) -> Remembered<'_> {
        let shared = Some(&*self.shared).filter(|shared| shared.is_on());
        Remembered {
            shared,
            mark,
            inside: shared.zip(mark).map(|(shared, mark)| shared.lock(mark)),
        }
    }

    /// Names and numbers, for reports; none when nothing is remembered.
    pub(crate) fn numbers(&self, now_ms: i64) -> Vec<(&'static str, u64)> {
        let shards = self.shared.shards.all();
        let each = shards.filter_map(|shard| {
            let inside = shard.lock();
            inside.as_ref().map(|it| RepeatNumbers::of(it, now_ms))
        });
        let all = each.reduce(RepeatNumbers::and);
        all.map_or_else(Vec::new, |all| all.pairs().to_vec())
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
        let is_counted = self.shared.is_on() && self.shared.look_for(bytes);
        let is_taken = is_counted && cx.readers.submit(Job::First(Box::new(candidate), bytes));
        if is_counted && !is_taken {
            self.shared.has_looked(bytes);
        }
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
        self.shared.has_looked(bytes);
        if !cx.is_open(candidate.connection) {
            // Nobody waits any more; its client sends again where it wants to.
            return None;
        }
        let mut remembered = self.of_mark(Some(candidate.mark));
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
    fn known_mut(&mut self) -> Option<&mut RepeatsShard> {
        self.inside.as_mut()?.as_mut()
    }

    /// Answers a send with the place of the same one that came before; false when there is none, so
    /// that it is to be stored.
    pub(crate) fn answer_repeat<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        (request, send): (&Request<'_>, &Send<'_>),
        seen: &Seen<'_>,
    ) -> Processed<bool> {
        let (Some(mark), Some(repeats)) = (self.mark, self.known_mut()) else {
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
            lacks_replicas: false,
            marks: Moments::default(),
            awaits: Awaits::default(),
            bytes: 0,
            counted: None,
        };
        // As durable as the first was promised to be: both wait for the same watermark.
        delivery.settle(cx, stored, first.end, seen.waits);
    }

    /// Remembers that a message was stored.
    pub(crate) fn note_stored<D: Disk, C: Clock>(
        mut self,
        store: &Store<D, C>,
        appended: &Appended,
    ) {
        if let (Some(mark), Some(repeats)) = (self.mark, self.known_mut()) {
            let now_ms = store.wall_ms();
            repeats
                .window
                .insert(mark, appended.physical_offset, now_ms);
        }
    }

    /// Remembers that the messages of a batch were stored. A message of it that is sent alone meanwhile is
    /// one that came before the batch.
    pub(crate) fn note_batch<D: Disk, C: Clock>(
        mut self,
        store: &Store<D, C>,
        request: &Request<'_>,
        topic: &str,
        appended: &[Appended],
    ) {
        let Some(shared) = self.shared else {
            return;
        };
        let now_ms = store.wall_ms();
        let parts = items(request.body).zip(appended);
        let marks = parts.filter_map(|(item, appended)| {
            let identity = Identity::of_part(topic, item.ok()?.properties)?;
            let mark = Marks::of_process().of(&identity);
            Some((mark, appended.physical_offset))
        });
        let mut marks: Vec<(Mark, u64)> = marks.collect();
        // The shard that is held comes first, and is left before another one is taken.
        let own = self.mark.map(shard_of);
        marks.sort_by_key(|(mark, _offset)| {
            let shard = shard_of(*mark);
            (Some(shard) != own, shard)
        });
        for of_shard in marks.chunk_by(|one, other| shard_of(one.0) == shard_of(other.0)) {
            let Some((first, _offset)) = of_shard.first() else {
                continue;
            };
            if Some(shard_of(*first)) != own {
                drop(self.inside.take());
                self.inside = Some(shared.lock(*first));
            }
            if let Some(repeats) = self.known_mut() {
                for (mark, physical_offset) in of_shard {
                    repeats.window.insert(*mark, *physical_offset, now_ms);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_that_are_looked_for_have_one_bound_for_all_loops() {
        const EACH: usize = 1 << 20;
        let sends = RepeatedSends::default();
        let loops: Vec<RepeatedSends> = (0..4).map(|_loop| sends.clone()).collect();
        let taken = std::thread::scope(|scope| {
            let look =
                |one: &RepeatedSends| (0..40).filter(|_at| one.shared.look_for(EACH)).count();
            let started: Vec<_> = loops
                .iter()
                .map(|one| scope.spawn(move || look(one)))
                .collect();
            let each = started.into_iter().map(|each| each.join().unwrap());
            each.sum::<usize>()
        });
        assert_eq!(
            taken,
            LOOKING_BYTES_MAX / EACH,
            "of more than twice as many"
        );
        assert!(!sends.shared.look_for(1));
        sends.shared.has_looked(EACH);
        assert!(sends.shared.look_for(EACH) && !sends.shared.look_for(1));
        assert!(!sends.shared.look_for(usize::MAX));
    }
}
