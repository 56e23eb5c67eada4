//! What the event loops over one store are woken for: each has a wake descriptor, the queues that it
//! watches and the acknowledgements that it parks. Knows no log: positions are passed in.
//!
//! The list of loops is a chain that only grows, so that dispatch walks it for every record without a
//! lock. A loop that is dropped leaves its slot, descriptor included, to the next one.
//!
//! Locks: the parked acknowledgements of a loop, and its watches (`arrivals`). Each is held for one look
//! or change alone; no other lock is taken and no descriptor is written under it.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::arrivals::Arrivals;
use crate::error::Result;
use crate::flush::{AckQueue, Deadlines, Needs, Reached, Ticket};
use crate::lock::{Mutex, MutexGuard};
use crate::progress::WakeDescriptor;
use crate::status::PutStatus;

/// What one event loop is woken for. When it is dropped, what it watched and parked is forgotten.
#[derive(Debug)]
pub struct LoopEvents(Arc<Slot>);

/// A slot in the chain.
#[derive(Debug)]
struct Slot {
    is_taken: AtomicBool,
    wake: WakeDescriptor,
    arrivals: Arrivals,
    acks: Acks,
    next: OnceLock<Arc<Slot>>,
}

/// Parked acknowledgements, in cache lines of their own: they change with each send that waits, while
/// dispatch reads what is beside them for each record.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Acks(Mutex<AckQueue>);

impl Acks {
    fn lock(&self) -> MutexGuard<'_, AckQueue> {
        self.0.lock()
    }
}

/// The event loops over one store.
#[derive(Debug)]
pub(super) struct EventLoops {
    first: Arc<LoopEvents>,
}

impl LoopEvents {
    /// The descriptor that becomes readable when there is something for this loop: news of a queue that
    /// it watches, parked acknowledgements that may be answered, or what its owner raises it for.
    #[must_use]
    pub fn wake_descriptor(&self) -> &WakeDescriptor {
        &self.0.wake
    }

    /// The queues that this loop watches, and what came into them.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.0.arrivals
    }

    /// Acknowledgements that this loop has parked now.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.0.acks.lock().len()
    }

    pub(super) fn park(&self, end: u64, needs: Needs, until: Deadlines) -> Result<Ticket> {
        self.0.acks.lock().park(end, needs, until)
    }

    /// Takes the acknowledgements that can be answered; when the next call is due anyway, ms.
    pub(super) fn drain(
        &self,
        reached: Reached,
        answers_max: usize,
        out: &mut Vec<(Ticket, PutStatus)>,
    ) -> Option<u64> {
        let mut acks = self.0.acks.lock();
        acks.drain_some(reached, answers_max, out);
        acks.next_deadline_ms()
    }
}

impl Drop for LoopEvents {
    fn drop(&mut self) {
        self.0.arrivals.unwatch_all();
        let forgotten = std::mem::take(&mut *self.0.acks.lock());
        drop(forgotten);
        self.0.is_taken.store(false, Ordering::Release);
    }
}

impl Slot {
    fn new() -> Result<Self> {
        Ok(Self {
            is_taken: AtomicBool::new(true),
            wake: WakeDescriptor::new()?,
            arrivals: Arrivals::default(),
            acks: Acks::default(),
            next: OnceLock::new(),
        })
    }

    /// Takes it when it is free.
    fn take(&self) -> bool {
        self.is_taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

impl EventLoops {
    /// The list with its first loop, which is there as long as the list.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when descriptors are exhausted.
    pub(super) fn new() -> Result<Self> {
        let slot = Arc::new(Slot::new()?);
        Ok(Self {
            first: Arc::new(LoopEvents(slot)),
        })
    }

    /// The loop that was made with the list.
    pub(super) fn first(&self) -> &Arc<LoopEvents> {
        &self.first
    }

    /// Another loop, in a slot that one has left or in a new one.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when descriptors are exhausted.
    pub(super) fn add(&self) -> Result<Arc<LoopEvents>> {
        if let Some(slot) = self.slots().find(|slot| slot.take()) {
            slot.wake.clear();
            return Ok(Arc::new(LoopEvents(Arc::clone(slot))));
        }
        let added = Arc::new(Slot::new()?);
        let mut last = &self.first.0;
        // Behind the last one, whoever else adds one meanwhile.
        while last.next.set(Arc::clone(&added)).is_err() {
            last = last.next.get().unwrap_or(last);
        }
        Ok(Arc::new(LoopEvents(added)))
    }

    /// Notes a record that readers of its queue can see from now on, for each loop that watches the
    /// queue.
    #[inline]
    pub(super) fn note(&self, topic: &[u8], queue_id: i32, next_offset: u64, tags_code: i64) {
        for slot in self.slots() {
            let arrivals = &slot.arrivals;
            arrivals.note(topic, queue_id, next_offset, tags_code);
        }
    }

    /// Wakes the loops that have news.
    pub(super) fn wake_for_news(&self) {
        for slot in self.slots().filter(|slot| slot.arrivals.has_news()) {
            slot.wake.raise();
        }
    }

    /// Wakes the loops that have parked acknowledgements.
    pub(super) fn wake_parked(&self) {
        for slot in self.slots() {
            let is_empty = slot.acks.lock().is_empty();
            if !is_empty {
                slot.wake.raise();
            }
        }
    }

    /// Wakes the loops that have parked an acknowledgement of something below `position`.
    pub(super) fn wake_reached(&self, position: u64) {
        for slot in self.slots() {
            let nearest = slot.acks.lock().nearest();
            if nearest.is_some_and(|end| end <= position) {
                slot.wake.raise();
            }
        }
    }

    /// Wakes every loop.
    pub(super) fn wake_all(&self) {
        for slot in self.slots() {
            slot.wake.raise();
        }
    }

    /// Acknowledgements that are parked now.
    pub(super) fn parked(&self) -> usize {
        self.slots().map(|slot| slot.acks.lock().len()).sum()
    }

    /// How many acknowledgements wait for something beyond `position`.
    pub(super) fn parked_beyond(&self, position: u64) -> usize {
        let beyond = |slot: &Arc<Slot>| slot.acks.lock().beyond(position);
        self.slots().map(beyond).sum()
    }

    /// The end that the farthest parked acknowledgement waits for.
    pub(super) fn farthest(&self) -> Option<u64> {
        let farthest = |slot: &Arc<Slot>| slot.acks.lock().farthest();
        self.slots().filter_map(farthest).max()
    }

    /// The end that the nearest parked acknowledgement waits for.
    pub(super) fn nearest(&self) -> Option<u64> {
        let nearest = |slot: &Arc<Slot>| slot.acks.lock().nearest();
        self.slots().filter_map(nearest).min()
    }

    #[inline]
    fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        iter::successors(Some(&self.first.0), |slot| slot.next.get())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use mqcore_record::{Host, Message};

    use super::*;
    use crate::clock::ManualClock;
    use crate::config::{FlushDiskType, StoreConfig};
    use crate::disk::twin::{CallKind, Fault, Times, TwinDisk};
    use crate::store::flush_rounds::FlushRounds;
    use crate::store::{OpenHow, Store};

    type TwinStore = Store<TwinDisk, ManualClock>;

    const OK: PutStatus = PutStatus::PutOk;

    fn opened(flush_disk_type: FlushDiskType) -> (TwinDisk, TwinStore) {
        let clock = ManualClock::at(1_795_249_596_000);
        let twin = TwinDisk::with_clock(clock.clone());
        let config = StoreConfig {
            root: Some(PathBuf::from("/store")),
            segment_len_bytes: 256 * 1024,
            max_message_bytes: 10_000,
            queue_file_len_bytes: 20_000,
            index_enabled: false,
            flush_disk_type,
            ..StoreConfig::default()
        };
        let store = Store::open(twin.clone(), clock, config, OpenHow::RefuseDamage).unwrap();
        (twin, store)
    }

    /// Appends a message; where it ends.
    fn append(store: &TwinStore, queue_id: i32) -> u64 {
        let host = Host::V4 {
            address: [127, 0, 0, 1],
            port: 10911,
        };
        let appended = store.writer().append(&Message {
            born_timestamp_ms: 1,
            ..Message::of("t", queue_id, b"body", host)
        });
        appended.unwrap().end()
    }

    fn dispatch(store: &TwinStore) {
        while store.dispatching().step().unwrap() {}
    }

    /// Whether the wake descriptor is readable; it is not any more then.
    fn is_woken(events: &LoopEvents) -> bool {
        let is_readable = events.wake_descriptor().wait(Duration::ZERO);
        events.wake_descriptor().clear();
        is_readable
    }

    fn answered(store: &TwinStore, events: &LoopEvents) -> Vec<(Ticket, PutStatus)> {
        let mut answers = Vec::new();
        let durability = store.durability();
        durability.drain_for(events, usize::MAX, &mut answers);
        answers
    }

    fn news(events: &LoopEvents) -> Vec<(i32, u64)> {
        let mut arrivals = Vec::new();
        events.arrivals().drain(usize::MAX, &mut arrivals);
        let each = arrivals.iter();
        each.map(|arrival| (arrival.queue.queue_id, arrival.next_offset))
            .collect()
    }

    #[test]
    fn one_sync_answers_what_two_loops_parked_and_each_gets_its_own() {
        let (_twin, store) = opened(FlushDiskType::Sync);
        let (first, other) = (store.first_loop(), store.add_loop().unwrap());
        let durability = store.durability();
        let mut tickets = Vec::new();
        for _each in 0..3 {
            let mine = durability.park(append(&store, 0), false).unwrap();
            let end = append(&store, 0);
            let others = durability.park_for(&other, end, false).unwrap();
            tickets.push(((mine, OK), (others, OK)));
        }
        let (mine, others): (Vec<_>, Vec<_>) = tickets.into_iter().unzip();
        assert_eq!((durability.parked(), other.parked()), (6, 3));
        assert_eq!(durability.parked_beyond(0), 6);
        assert!(durability.is_sync_awaited());
        assert!(answered(&store, &other).is_empty());
        assert!(!is_woken(first) && !is_woken(&other));
        let syncs = store.syncer.syncs();
        durability.flush().unwrap();
        assert_eq!(store.syncer.syncs(), syncs + 1);
        assert!(is_woken(first) && is_woken(&other));
        assert_eq!(answered(&store, &other), others);
        assert_eq!(answered(&store, &other), []);
        assert_eq!((durability.parked(), first.parked()), (3, 3));
        assert!(!durability.is_sync_awaited());
        let end = append(&store, 0);
        let ticket = durability.park_for(&other, end, false).unwrap();
        assert!(durability.is_sync_awaited(), "the farthest of all loops");
        assert_eq!(durability.parked_beyond(end - 1), 1);
        durability.flush().unwrap();
        assert_eq!(answered(&store, &other), [(ticket, OK)]);
        assert_eq!(answered(&store, first), mine);
    }

    #[test]
    fn what_another_loop_alone_waits_for_is_synced_and_wakes_nobody_else() {
        let (_twin, store) = opened(FlushDiskType::Sync);
        let (first, other) = (store.first_loop(), store.add_loop().unwrap());
        let end = append(&store, 0);
        let ticket = store.durability().park_for(&other, end, false).unwrap();
        assert!(store.durability().is_sync_awaited());
        assert_eq!(store.durability().parked_beyond(end - 1), 1);
        store.durability().flush().unwrap();
        assert!(!is_woken(first));
        assert!(is_woken(&other));
        assert_eq!(answered(&store, first), []);
        assert_eq!(answered(&store, &other), [(ticket, OK)]);
    }

    #[test]
    fn an_arrival_wakes_the_loops_that_watch_its_queue() {
        let (_twin, store) = opened(FlushDiskType::Async);
        let (first, other) = (store.first_loop(), store.add_loop().unwrap());
        for queue_id in [0, 2] {
            first.arrivals().watch(b"t", queue_id);
        }
        for queue_id in [1, 2] {
            other.arrivals().watch(b"t", queue_id);
        }
        append(&store, 0);
        dispatch(&store);
        assert!(is_woken(first) && !is_woken(&other));
        assert_eq!((news(first), news(&other)), (vec![(0, 1)], vec![]));
        append(&store, 1);
        dispatch(&store);
        assert!(!is_woken(first) && is_woken(&other));
        assert_eq!((news(first), news(&other)), (vec![], vec![(1, 1)]));
        append(&store, 2);
        append(&store, 2);
        append(&store, 3);
        dispatch(&store);
        assert!(is_woken(first) && is_woken(&other));
        assert_eq!((news(first), news(&other)), (vec![(2, 2)], vec![(2, 2)]));
    }

    #[test]
    fn a_dropped_loop_is_forgotten_and_its_slot_is_taken_by_the_next() {
        let (_twin, store) = opened(FlushDiskType::Sync);
        let gone = store.add_loop().unwrap();
        let kept = store.add_loop().unwrap();
        let slot = gone.wake_descriptor().raw();
        gone.arrivals().watch(b"t", 0);
        let end = append(&store, 0);
        store.durability().park_for(&gone, end, false).unwrap();
        let another = Arc::clone(&gone);
        drop(gone);
        assert!(store.durability().is_sync_awaited(), "not the last one");
        drop(another);
        assert_eq!(store.durability().parked(), 0);
        assert!(!store.durability().is_sync_awaited());
        store.durability().flush().unwrap();
        dispatch(&store);
        let next = store.add_loop().unwrap();
        assert_eq!(next.wake_descriptor().raw(), slot);
        assert_eq!((next.arrivals().watched(), next.parked()), (0, 0));
        assert!(!is_woken(&next) && news(&next).is_empty());
        let beyond = store.add_loop().unwrap();
        let raw = |events: &LoopEvents| events.wake_descriptor().raw();
        assert!(raw(&beyond) != raw(&next) && raw(&beyond) != raw(&kept));
        store.durability().park_for(&next, end, false).unwrap();
        assert_eq!(answered(&store, &next).len(), 1);
    }

    #[test]
    fn loops_that_are_added_at_the_same_time_are_all_woken() {
        let (_twin, store) = opened(FlushDiskType::Async);
        let added: Vec<Arc<LoopEvents>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_loop| scope.spawn(|| store.add_loop().unwrap()))
                .collect();
            threads
                .into_iter()
                .map(|each| each.join().unwrap())
                .collect()
        });
        for events in &added {
            events.arrivals().watch(b"t", 0);
        }
        append(&store, 0);
        dispatch(&store);
        for events in &added {
            assert!(is_woken(events));
            assert_eq!(news(events), [(0, 1)]);
        }
        assert!(!is_woken(store.first_loop()));
    }

    fn assert_failure_answers_all(fail: impl Fn(&TwinStore)) {
        let (twin, store) = opened(FlushDiskType::Sync);
        let (first, other) = (store.first_loop(), store.add_loop().unwrap());
        let end = append(&store, 0);
        let mine = store.durability().park(end, false).unwrap();
        let others = store.durability().park_for(&other, end, false).unwrap();
        twin.fail(Fault {
            call: CallKind::Sync,
            path_contains: Some("/commitlog/".to_owned()),
            nth: 1,
            errno: 5,
            times: Times::Once,
        });
        fail(&store);
        assert!(is_woken(first) && is_woken(&other));
        let failed = PutStatus::ServiceNotAvailable;
        assert_eq!(answered(&store, first), [(mine, failed)]);
        assert_eq!(answered(&store, &other), [(others, failed)]);
    }

    #[test]
    fn a_failed_sync_wakes_and_answers_every_loop() {
        assert_failure_answers_all(|store| assert!(store.durability().flush().is_err()));
    }

    #[test]
    fn a_failed_round_of_the_flush_wakes_and_answers_every_loop() {
        assert_failure_answers_all(|store| {
            let durability = store.durability();
            let mut rounds =
                FlushRounds::new(durability, &store.files, &store.clock, &store.config);
            assert!(rounds.step().is_err());
        });
    }

    #[test]
    fn every_loop_is_woken_when_the_store_ends() {
        let (_twin, store) = opened(FlushDiskType::Async);
        let other = store.add_loop().unwrap();
        store.close().unwrap();
        assert!(is_woken(store.first_loop()) && is_woken(&other));
        let (_twin, store) = opened(FlushDiskType::Async);
        let other = store.add_loop().unwrap();
        store.abandon();
        assert!(is_woken(store.first_loop()) && is_woken(&other));
        drop(store);
        assert!(!other.arrivals().has_news(), "it outlasts the store");
    }
}
