//! Making the parts of a store, out of what recovery has found, and wiring them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::checkpoints::Checkpoints;
use super::damaged_records::DamagedRecords;
use super::dispatching::Dispatching;
use super::durability::Durability;
use super::followers::{IndexFollower, QueueFollower};
use super::index_tags::indexes_tags;
use super::key_reader::KeyReader;
use super::look::{Looked, index_opening};
use super::making::{Making, log_files, memory_bytes};
use super::names::INDEX_DIR;
use super::preparation::Preparation;
use super::reader::Reader;
use super::replica::Replica;
use super::report::OpenReport;
use super::retention::Retention;
use super::scrub::Scrub;
use super::session::Session;
use super::threads::Threads;
use super::topics::Topics;
use super::writer::Writer;
use super::{Refusals, Store};
use crate::batch_queue::BatchTable;
use crate::checkpoint::{Checkpoint, Field};
use crate::clock::Clock;
use crate::commit_log::{CommitLog, LogEnd, LogRecords};
use crate::consume_queue::QueueTable;
use crate::disk::Disk;
use crate::dispatch::{Dispatch, Dispatcher};
use crate::error::Result;
use crate::flush::Syncer;
use crate::key_index::KeyIndex;
use crate::lock::Mutex;
use crate::segment::LogFiles;

/// A store whose log ends at `end`, and that has not dispatched what is behind its queues.
///
/// # Errors
/// Of the index.
pub(super) fn assemble<D: Disk, C: Clock>(
    making: Making<'_, D, C>,
    found: Looked<D>,
    (queues, batches): (QueueTable<D>, BatchTable<D>),
    session: Option<Session<D>>,
    end: &LogEnd,
    mut report: OpenReport,
) -> Result<Store<D, C>> {
    let config = Arc::new(making.config.clone());
    let (queues, batches) = (Arc::new(queues), Arc::new(batches));
    let tables = (&queues, &batches);
    // Looked for before the files that are not trusted are removed.
    let (index_dir, notices) = (making.root.join(INDEX_DIR), &making.notices);
    let indexes_tags = config.index_enabled
        && indexes_tags(making.disk, &index_dir, &config, &found.chain, notices);
    let index = open_index(&making, &found)?;
    let Looked {
        chain, checkpoint, ..
    } = found;
    let files = Arc::new(log_files(making.disk, &config, chain, &making.notices)?);
    put_end(&files, &checkpoint, end);
    if config.is_member {
        put_confirmed(&files, &checkpoint, report.queues_end, config.is_read_only)?;
    }
    files.preparer.clear_staging()?;
    let indexing = index.as_ref().map(|index| (index, indexes_tags));
    let followers = followers(&making, &files, tables, indexing, &mut report)?;
    let dispatcher = Arc::new(Dispatcher::new(Arc::clone(&files), followers));
    let log = CommitLog::new(Arc::clone(&files), making.clock.clone(), &config);
    let (log, syncer) = (Arc::new(log), Arc::new(Syncer::new(Arc::clone(&files))));
    let records = Arc::new(LogRecords::new(&files));
    let refusals = Arc::new(Refusals::default());
    let damaged = Arc::new(DamagedRecords::new(&making.notices));
    let topics = Arc::new(Topics::new(&log, &queues, &batches));
    let checkpoints = Arc::new(Checkpoints {
        files: Arc::clone(&files),
        queues: Arc::clone(&queues),
        batches: Arc::clone(&batches),
        index: index.clone(),
        dispatcher: Arc::clone(&dispatcher),
        syncer: Arc::clone(&syncer),
        is_member: config.is_member,
        checkpoint,
        session,
    });
    let waking = (&making.loops, &making.notices);
    let reading = (&*config, memory_bytes());
    Ok(Store {
        writer: Writer::new(&log, &topics, &refusals, &config),
        durability: Durability::new(&syncer, &files, &making.clock, &making.loops, &config),
        reader: Reader::new((&files, &records), &topics, &queues, &damaged, reading),
        key_reader: KeyReader::new(&records, index.as_ref()),
        dispatching: Dispatching::new(&dispatcher, index.as_ref(), &refusals, waking),
        preparation: Preparation::new(&files, &config),
        replica: Replica::new(&log, &refusals, &making.clock, config.is_member),
        retention: Retention::new(&checkpoints, &refusals, &config, &making.clock),
        scrub: Scrub::new(&files, tables, &damaged, &making.clock, &config),
        threads: Threads::default(),
        lock: Mutex::new(None),
        clock: making.clock,
        loops: making.loops,
        levels: making.levels,
        bits: making.bits,
        config,
        report,
        files,
        log,
        records,
        queues,
        batches,
        index,
        dispatcher,
        syncer,
        refusals,
        damaged,
        topics,
        checkpoints,
    })
}

/// The key index, unless it is switched off.
fn open_index<D: Disk, C: Clock>(
    making: &Making<'_, D, C>,
    found: &Looked<D>,
) -> Result<Option<Arc<KeyIndex<D, C>>>> {
    if !making.config.index_enabled {
        return Ok(None);
    }
    let dir = making.root.join(INDEX_DIR);
    let opening = index_opening(&dir, making.config, found);
    let index = KeyIndex::open(making.disk, &making.clock, &making.notices, opening)?;
    Ok(Some(Arc::new(index)))
}

/// Puts the positions of a log where it ends.
fn put_end<D: Disk>(files: &LogFiles<D>, checkpoint: &Checkpoint<D>, end: &LogEnd) {
    files.positions.reset(end.end);
    files.records_flushed.store(end.end, Ordering::Release);
    files.window.rest_at(end.end);
    files.positions.replicated.reset(u64::MAX);
    // Store times go on above everything that a checkpoint has ever covered.
    let last_store_ms = [
        Field::PhysicTimestamp,
        Field::LogicsTimestamp,
        Field::IndexTimestamp,
    ]
    .into_iter()
    .map(|field| checkpoint.value(field))
    .fold(end.last_store_ms.unwrap_or(0), i64::max);
    files.last_store_ms.store(last_store_ms, Ordering::Release);
    // What a broker of 5.5 left there may lie behind the end; until the stop the times are exact.
    checkpoint.set(Field::LogicsPhysicalOffset, 0);
}

/// Lets readers of a member stop where it last knew that all have the log. What queues name was confirmed.
///
/// A log that has lost what was confirmed may grow again by something else: what is written down of it must be
/// gone by then.
fn put_confirmed<D: Disk>(
    files: &LogFiles<D>,
    checkpoint: &Checkpoint<D>,
    queues_end: u64,
    is_read_only: bool,
) -> Result<()> {
    let end = files.positions.appended.position();
    let written = u64::try_from(checkpoint.value(Field::ConfirmOffset)).unwrap_or(0);
    let confirmed = written.max(queues_end).min(end);
    let confirmed = confirmed.max(files.chain.start().min(end));
    files.confirmed.store(confirmed, Ordering::Release);
    if written > confirmed && !is_read_only {
        checkpoint.set(Field::ConfirmOffset, confirmed.cast_signed());
        checkpoint.flush()?;
    }
    Ok(())
}

/// What follows the log, each from where it has to go on.
fn followers<D: Disk, C: Clock>(
    making: &Making<'_, D, C>,
    files: &LogFiles<D>,
    (queues, batches): (&Arc<QueueTable<D>>, &Arc<BatchTable<D>>),
    indexing: Option<(&Arc<KeyIndex<D, C>>, bool)>,
    report: &mut OpenReport,
) -> Result<Vec<(Box<dyn Dispatch>, u64)>> {
    let end = files.positions.appended.position();
    let start = files.chain.start().min(end);
    let queue_from = report.dispatched_from.clamp(start, end);
    files.positions.dispatched.reset(queue_from);
    let follower = QueueFollower {
        queues: Arc::clone(queues),
        levels: making.levels.clone(),
        batches: Arc::clone(batches),
        clock: making.clock.clone(),
        write_at_ms: AtomicU64::new(0),
        bits: making.bits.clone(),
        loops: Arc::clone(&making.loops),
    };
    let mut followers: Vec<(Box<dyn Dispatch>, u64)> = vec![(Box::new(follower), queue_from)];
    if let Some((index, indexes_tags)) = indexing {
        if report.was_cut {
            index.writer().truncate_from_disorder()?;
        }
        let kept = index.writer().truncate_from(end)?.clamp(start, end);
        // A clean end implies that nothing was left to index.
        let is_whole = report.was_clean && !report.was_cut && index.dropped_files() == 0;
        let resume = if is_whole { queue_from } else { kept };
        report.index_from = (resume < end).then_some(resume);
        followers.push((
            Box::new(IndexFollower {
                index: Arc::clone(index),
                indexes_tags,
            }),
            resume,
        ));
    }
    Ok(followers)
}
