//! The store as its owner sees it: opens, wires the threads, closes in reverse order, and passes
//! each call to the room that does it. Holds no algorithm.

mod answers;
mod append;
mod ask;
mod batches;
mod bits;
mod close;
mod damage;
mod ending;
mod followers;
mod gap;
mod keep;
mod look;
mod making;
mod meet;
mod mend;
mod names;
mod open;
mod places;
mod read;
mod ready;
mod rebuild;
mod refusals;
mod report;
mod scrub;
mod session;
mod stats;
mod threads;
mod units;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use crate::lock::Mutex;

use crate::arrivals::Arrivals;
use crate::batch_queue::BatchTable;
use crate::checkpoint::Checkpoint;
use crate::clock::Clock;
use crate::commit_log::CommitLog;
use crate::config::StoreConfig;
use crate::consume_queue::QueueTable;
use crate::disk::Disk;
use crate::dispatch::Dispatcher;
use crate::flush::{AckQueue, Syncer};
use crate::key_index::KeyIndex;
use crate::progress::WakeDescriptor;
use crate::segment::LogFiles;
use crate::watermark::Doorbell;

pub use answers::{GetStatus, Got, Place, Queried};
pub use ask::{Ask, Judge, SeenExtension, SeenUnit, Verdict};
pub use bits::BitMaker;
pub use rebuild::{Rebuilt, rebuild};
pub use refusals::Refusals;
pub use report::{OpenHow, OpenReport, Replaced};
pub use scrub::Rotten;
pub use stats::{QueueStat, SegmentStat, Stats};
pub use upkeep::Cleaned;

/// A store that is open for writing.
///
/// Without [`Store::start`] it has no thread: each step is a call, and tests make them one by one.
pub struct Store<D: Disk, C: Clock> {
    config: StoreConfig,
    clock: C,
    files: Arc<LogFiles<D>>,
    log: CommitLog<D, C>,
    syncer: Syncer<D>,
    queues: Arc<QueueTable<D>>,
    index: Option<Arc<KeyIndex<D, C>>>,
    dispatcher: Dispatcher<D>,
    checkpoint: Checkpoint<D>,
    acks: Mutex<AckQueue>,
    wake: WakeDescriptor,
    arrivals: Arc<Arrivals>,
    levels: followers::LiveLevels,
    bits: bits::LiveBits,
    refusals: Refusals,
    batches: Arc<BatchTable<D>>,
    report: OpenReport,
    scrub: scrub::Scrub,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_started: AtomicBool,
    memory_bytes: u64,
    pace_queues: Doorbell,
    pace_clean: Doorbell,
    pace_scrub: Doorbell,
    lock: Mutex<Option<D::Lock>>,
    /// `None` where another store's log is mounted: it is not ours to mark.
    session: Option<session::Session<D>>,
}

impl<D: Disk, C: Clock> Store<D, C> {
    /// What the store was opened with.
    #[must_use]
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// What opening found and did.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// The log's files and positions.
    #[must_use]
    pub fn files(&self) -> &Arc<LogFiles<D>> {
        &self.files
    }

    /// The queues.
    #[must_use]
    pub fn queues(&self) -> &Arc<QueueTable<D>> {
        &self.queues
    }

    /// The key index, unless it is switched off.
    #[must_use]
    pub fn index(&self) -> Option<&Arc<KeyIndex<D, C>>> {
        self.index.as_ref()
    }

    /// Takes what the store has to tell, oldest first.
    #[must_use]
    pub fn notices(&self) -> Vec<crate::notice::Notice> {
        self.files.notices.drain()
    }

    /// Who watches queues for what comes into them; news raise the wake descriptor.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The descriptor that becomes readable when parked acknowledgements can be answered.
    #[must_use]
    pub fn wake_descriptor(&self) -> &WakeDescriptor {
        &self.wake
    }
}
