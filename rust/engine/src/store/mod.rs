//! The store as its owner sees it: opens, wires its parts, closes in reverse order, and gives its parts
//! out. Holds no algorithm.
//!
//! Locks: each part holds its own for its own state alone, but for these chains, outermost first: turn of
//! the dispatcher, queues or who puts into the index, files of the index, notices; turn of the dispatcher,
//! watches of a loop; position of the scrub, queues, damaged records, notices; append lock, commit of pool
//! buffers, prepared files, list of log files. Parked acknowledgements, refusals and the list of threads
//! are in none of them.

mod answers;
mod ask;
mod assemble;
mod bad_records;
mod bits;
mod checkpoints;
mod close;
mod collect;
mod cut_rests;
mod damage;
mod damaged_records;
mod delay_levels;
mod dispatching;
mod durability;
mod ending;
mod event_loops;
mod flush_rounds;
mod followers;
mod gap;
mod index_tags;
mod keep;
mod key_reader;
mod look;
mod lookup;
mod loops;
mod lost_end;
mod making;
mod mend;
mod names;
mod offsets;
mod open;
mod preparation;
mod reader;
mod rebuild;
mod refusals;
mod replica;
mod report;
mod retention;
mod scrub;
mod session;
mod stats;
mod threads;
mod topics;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mqcore_record::Message;

use crate::arrivals::Arrivals;
use crate::batch_queue::BatchTable;
use crate::clock::Clock;
use crate::commit_log::{Appended, CommitLog, LogRecords};
use crate::config::StoreConfig;
use crate::consume_queue::QueueTable;
use crate::disk::Disk;
use crate::dispatch::Dispatcher;
use crate::error::Result;
use crate::flush::Syncer;
use crate::key_index::KeyIndex;
use crate::lock::Mutex;
use crate::progress::WakeDescriptor;
use crate::segment::LogFiles;
use crate::status::PutStatus;

pub use answers::{GetStatus, Got, Queried, RecordOffsets};
pub use ask::{Ask, FilterDecision, MessageFilter, SeenExtension, SeenUnit};
pub use bad_records::{
    BadRecord, TheirRecord, bad_record_at, next_bad_record, replace_bad_record, replace_record,
};
pub use bits::BitMaker;
pub use checkpoints::Checkpoints;
pub use damaged_records::{DamagedRecord, DamagedRecords};
pub use delay_levels::LiveLevels;
pub use dispatching::Dispatching;
pub use durability::Durability;
pub use event_loops::LoopEvents;
pub use key_reader::KeyReader;
pub use preparation::Preparation;
pub use reader::Reader;
pub use rebuild::{Rebuilt, rebuild};
pub use refusals::Refusals;
pub use replica::{Extent, QueueEnds, Replica, Standby, WholeRecords};
pub use report::{OpenHow, OpenReport, Replaced};
pub use retention::{Cleaned, Retention};
pub use scrub::Scrub;
pub use stats::{QueueStat, SegmentStat, Stats};
pub use topics::Topics;
pub use writer::Writer;

/// A store that is open for writing.
///
/// Without [`Store::start`] it has no thread: each step is a call of a part, and tests make them one by
/// one.
pub struct Store<D: Disk, C: Clock> {
    config: Arc<StoreConfig>,
    clock: C,
    report: OpenReport,
    files: Arc<LogFiles<D>>,
    log: Arc<CommitLog<D, C>>,
    records: Arc<LogRecords<D>>,
    queues: Arc<QueueTable<D>>,
    batches: Arc<BatchTable<D>>,
    index: Option<Arc<KeyIndex<D, C>>>,
    dispatcher: Arc<Dispatcher<D>>,
    syncer: Arc<Syncer<D>>,
    loops: Arc<event_loops::EventLoops>,
    levels: LiveLevels,
    bits: bits::LiveBits,
    refusals: Arc<Refusals>,
    damaged: Arc<DamagedRecords>,
    topics: Arc<Topics<D, C>>,
    writer: Writer<D, C>,
    durability: Durability<D, C>,
    reader: Reader<D, C>,
    key_reader: KeyReader<D, C>,
    dispatching: Dispatching<D, C>,
    preparation: Preparation<D>,
    checkpoints: Arc<Checkpoints<D, C>>,
    replica: Replica<D, C>,
    retention: Retention<D, C>,
    scrub: Scrub<D, C>,
    threads: threads::Threads,
    lock: Mutex<Option<D::Lock>>,
}

impl<D: Disk, C: Clock> Store<D, C> {
    /// What the store was opened with.
    #[must_use]
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Takes changed settings while the store is open: those about retention, about how much one read
    /// gives, and about when it counts as busy. All others are left as they were.
    ///
    /// # Errors
    /// [`crate::error::Error::Config`]: a value does not go with others; nothing has changed.
    pub fn change(&self, config: StoreConfig) -> Result<()> {
        let config = Arc::new(config.check()?);
        self.retention.change(&config);
        self.reader.change(&config);
        self.log.change(&config);
        Ok(())
    }

    /// What opening found and did.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Forgets that the log of a member may have lost its end: whoever counted on it has acted. Until then
    /// every open reports it ([`OpenReport::is_log_whole`]).
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn settle_end(&self) -> Result<()> {
        lost_end::forget(&self.files.disk, &self.config.root()?)
    }

    /// The log's files and positions.
    #[must_use]
    pub fn files(&self) -> &Arc<LogFiles<D>> {
        &self.files
    }

    /// The plain queues.
    #[must_use]
    pub fn queues(&self) -> &Arc<QueueTable<D>> {
        &self.queues
    }

    /// The queues of all topics, plain ones and batch queues.
    #[must_use]
    pub fn topics(&self) -> &Topics<D, C> {
        &self.topics
    }

    /// The key index, unless it is switched off.
    #[must_use]
    pub fn index(&self) -> Option<&Arc<KeyIndex<D, C>>> {
        self.index.as_ref()
    }

    /// What appends.
    #[must_use]
    pub fn writer(&self) -> &Writer<D, C> {
        &self.writer
    }

    /// Syncs of the log, and who waits for them.
    #[must_use]
    pub fn durability(&self) -> &Durability<D, C> {
        &self.durability
    }

    /// What reads by queue and by physical offset.
    #[must_use]
    pub fn reader(&self) -> &Reader<D, C> {
        &self.reader
    }

    /// What reads by key.
    #[must_use]
    pub fn key_reader(&self) -> &KeyReader<D, C> {
        &self.key_reader
    }

    /// The rounds of dispatch.
    #[must_use]
    pub fn dispatching(&self) -> &Dispatching<D, C> {
        &self.dispatching
    }

    /// The files and the memory ahead of the append.
    #[must_use]
    pub fn preparation(&self) -> &Preparation<D> {
        &self.preparation
    }

    /// Syncs of queues and index, and what is written down of them.
    #[must_use]
    pub fn checkpoints(&self) -> &Checkpoints<D, C> {
        &self.checkpoints
    }

    /// What ships the log, or grows it by what was shipped.
    #[must_use]
    pub fn replica(&self) -> &Replica<D, C> {
        &self.replica
    }

    /// What removes old files.
    #[must_use]
    pub fn retention(&self) -> &Retention<D, C> {
        &self.retention
    }

    /// The scrub.
    #[must_use]
    pub fn scrub(&self) -> &Scrub<D, C> {
        &self.scrub
    }

    /// The damaged records that were found.
    #[must_use]
    pub fn damaged(&self) -> &DamagedRecords {
        &self.damaged
    }

    /// How long the levels of delayed messages wait.
    #[must_use]
    pub fn delay_levels(&self) -> &LiveLevels {
        &self.levels
    }

    /// Takes what the store reports, oldest first.
    #[must_use]
    pub fn notices(&self) -> Vec<crate::notice::Notice> {
        self.files.notices.drain()
    }

    /// What the first event loop over the store is woken for.
    #[must_use]
    pub fn first_loop(&self) -> &Arc<LoopEvents> {
        self.loops.first()
    }

    /// What another event loop over the store is woken for: arrivals in the queues that it watches, the
    /// acknowledgements that it parks. It is forgotten when the last reference to it is dropped.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`] when descriptors are exhausted.
    pub fn add_loop(&self) -> Result<Arc<LoopEvents>> {
        self.loops.add()
    }

    /// The queues that the first loop watches; news raise its wake descriptor.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        self.loops.first().arrivals()
    }

    /// The wake descriptor of the first loop.
    #[must_use]
    pub fn wake_descriptor(&self) -> &WakeDescriptor {
        self.loops.first().wake_descriptor()
    }

    /// The time that a record appended now would get at the least, Unix ms.
    #[must_use]
    pub fn wall_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Appends and waits for what the settings promise.
    ///
    /// # Durability
    /// `PUT_OK` under synchronous flush: survives power loss. Otherwise: survives the process.
    ///
    /// # Errors
    /// As [`Writer::append`], and the failed sync.
    ///
    /// # Blocking
    /// At most `syncFlushTimeout` for the sync.
    pub fn put(&self, message: &Message<'_>) -> Result<(Appended, PutStatus)> {
        let appended = self.writer.append(message)?;
        Ok((appended, self.durability.settle(appended.end())?))
    }

    /// Lets bits be made from now on, or not any more; the time from which on that holds, Unix ms:
    /// messages with a later store time get theirs from this maker. Those that are in the log come
    /// from either.
    pub fn set_bit_maker(&self, maker: Option<Arc<dyn BitMaker>>) -> i64 {
        self.bits.replace(maker);
        // Read after the change. A message that is appended later has no earlier store time, and it
        // is dispatched after its append.
        let last_ms = self.files.last_store_ms.load(Ordering::Acquire);
        last_ms.max(self.clock.now_ms())
    }

    /// Starts the threads. Without them nothing is flushed, dispatched or prepared by itself.
    ///
    /// # Errors
    /// [`crate::error::Error::Limit`] when the system gives no thread.
    pub fn start(self: &Arc<Self>) -> Result<()> {
        loops::start(self)
    }

    /// The store in numbers, now.
    ///
    /// # Blocking
    /// Asks the kernel for the pages of every map.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(self)
    }
}
