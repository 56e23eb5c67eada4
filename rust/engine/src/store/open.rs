//! Opening a store: looks first, decides where the log ends, and only then changes anything
//! (`DefaultMessageStore.load`, `CommitLog.recoverNormally`, `recoverAbnormally`).

use std::path::Path;
use std::sync::Arc;

use super::Store;
use super::assemble::assemble;
use super::bits::LiveBits;
use super::cut_rests::CutRests;
use super::damage::{Plan, warn_of_start};
use super::delay_levels::LiveLevels;
use super::ending::{Ending, find_end, first_store_ms};
use super::event_loops::EventLoops;
use super::gap::{Gap, find_gap};
use super::keep::named_records;
use super::look::{
    Looked, find, has_record, index_opening, look_first, stamp_of, warn_of_directory,
};
use super::lost_end;
use super::making::Making;
use super::mend::{QueueLog, Source, feed_unnamed, mend, mend_suspects};
use super::names::{ABORT_NAME, INDEX_DIR, TRUNCATED_DIR};
use super::rebuild::make_missing_batches;
use super::report::{OpenHow, OpenReport, Replaced, report_cut};
use super::session::{Mark, Session, read_lock, read_mark};
use crate::batch_queue::{self, BatchTable};
use crate::checkpoint::{AbortContent, AbortMarker, Field};
use crate::clock::Clock;
use crate::commit_log::{
    Behind, CutFacts, CutReport, LogEnd, cut_at, is_cut_begun, keep_behind, sync_from,
};
use crate::config::{FlushDiskType, StoreConfig};
use crate::consume_queue::{QueueTable, Trust};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;
use crate::notice::Notices;
use crate::queue_dirs::configured_topics;
use crate::segment::Chain;

/// Why appends to a mounted store are refused, for good.
const READ_ONLY_CAUSE: &str = "mounted";

impl<D: Disk, C: Clock> Store<D, C> {
    /// Opens the store in `config.root` for writing; makes it when there is none.
    ///
    /// # Durability
    /// Every message that was acknowledged is there, as its acknowledgement promised.
    ///
    /// # Errors
    /// Any of [`crate::error::Error`]. A failing open has changed nothing, unless it fails while writing.
    ///
    /// # Blocking
    /// For recovery: as long as it takes to read what was not synced at the last checkpoint.
    pub fn open(disk: D, clock: C, config: StoreConfig, how: OpenHow) -> Result<Self> {
        let config = config.check()?;
        let levels = LiveLevels::parse(&config.delay_levels)?;
        let root = config.root()?;
        let gap = find_gap(&disk, &config)?;
        match &gap {
            Some(_) if how == OpenHow::CutDamage && !config.is_read_only => {}
            Some(gap) => return Err(gap.refused(&disk, &config)?),
            None => look_first(&disk, &config)?,
        }
        disk.create_dir_all(&root)?;
        let lock_path = root.join("lock");
        let had_lock_file = disk.stat(&lock_path)?.is_some();
        let lock_content = read_lock(&disk, &lock_path)?;
        let lock = disk.lock(&lock_path)?;
        let notices = Arc::new(Notices::default());
        let making = Making {
            disk: &disk,
            clock,
            config: &config,
            levels,
            bits: LiveBits::default(),
            loops: Arc::new(EventLoops::new()?),
            notices,
            root,
        };
        match making.open_locked(how, gap, &lock_content) {
            Ok(store) => {
                *store.lock.lock() = Some(lock);
                Ok(store)
            }
            Err(error) => {
                if !had_lock_file {
                    disk.unlink(&lock_path)?;
                }
                Err(error)
            }
        }
    }

    /// Brings the queues up to the log's end, makes again what that shows to be missing, and marks the
    /// store as open.
    fn go_on(&self) -> Result<()> {
        if self.config.is_read_only {
            let reason = "the store is mounted for reading only".to_owned();
            self.refusals.set(READ_ONLY_CAUSE, Some(reason));
        }
        self.dispatching.catch_up_queues()?;
        if !self.config.is_read_only {
            let OpenReport {
                was_clean,
                dispatched_from,
                scanned_from,
                ..
            } = self.report;
            // After a clean stop what was walked before is fed to the queues of known topics alone.
            let from = if was_clean {
                dispatched_from
            } else {
                dispatched_from.min(scanned_from)
            };
            mend_suspects(&self.files, &self.queues, &self.levels, from)?;
            self.queues.mender().set_log(Box::new(QueueLog {
                files: Arc::clone(&self.files),
                levels: self.levels.clone(),
            }));
        }
        // Also after a clean end: the name of a removed queue file may have come back.
        self.queues.correct_min(self.files.chain.start())?;
        let abort = AbortMarker::new(&self.files.disk, &self.config.root()?.join(ABORT_NAME));
        abort.create(AbortContent::ProcessId(std::process::id()))?;
        Ok(())
    }
}

impl<D: Disk, C: Clock> Making<'_, D, C> {
    fn open_locked(
        self,
        how: OpenHow,
        gap: Option<Gap>,
        lock_content: &[u8],
    ) -> Result<Store<D, C>> {
        let Self { disk, config, .. } = self;
        let (root, notices) = (&self.root, &self.notices);
        warn_of_directory(disk, root, notices)?;
        let aside = root.join(TRUNCATED_DIR);
        let moved = match &gap {
            Some(gap) => gap.cut(disk, config, &aside, self.clock.now_ms())?,
            None => CutReport::default(),
        };
        report_cut(notices, &moved);
        let mark = if config.is_read_only {
            None
        } else {
            read_mark(disk, root, lock_content, notices)?
        };
        let mut found = find(disk, config, notices)?;
        let was_lost = config.is_member && lost_end::is_noted(disk, root)?;
        let is_log_whole = !was_lost && (found.was_clean || self.keeps_pages(mark));
        let is_synced = config.flush_disk_type == FlushDiskType::Sync;
        // What is cut leaves queues and index behind that no stop has written down.
        found.was_clean &= !matches!(how, OpenHow::CutAt(_));
        warn_of_start(mark, found.chain.start(), notices);
        let mut report = OpenReport {
            was_clean: found.was_clean,
            is_tail_certain: is_log_whole || is_synced,
            is_log_whole,
            ..OpenReport::default()
        };
        let stamp = stamp_of(disk, root, &found.chain)?;
        let known = found.was_clean.then_some(stamp.as_slice());
        let queues = QueueTable::open(disk.clone(), root, config, Arc::clone(notices), known)?;
        queues.lost().watch_suspects();
        report.used_manifest = queues.is_from_manifest();
        let batches = BatchTable::open(disk.clone(), root, config, Arc::clone(notices))?;
        if config.index_enabled {
            KeyIndex::<D, C>::check(disk, &index_opening(&root.join(INDEX_DIR), config, &found))?;
        }
        let Ending { end, plan, rests } =
            self.find_or_keep(&found, &queues, mark, how, &mut report)?;
        // From here on the directory is changed.
        if config.is_member && !is_log_whole && !was_lost {
            lost_end::note(disk, root)?;
        }
        if mark.is_none() && !queues.has_witness() && !config.is_read_only {
            // Another broker may have deleted topics.
            queues.witness().void()?;
        }
        for path in &found.unfinished {
            disk.unlink(path)?;
        }
        if matches!(how, OpenHow::CutAt(_)) && !config.is_read_only {
            self.prepare_cut(&found, &queues, &batches, &end)?;
            report.queues_end = report.queues_end.min(end.end);
        }
        self.take_away(rests.as_ref(), &queues, end.end, &mut report)?;
        self.settle_end(&found, &end, (plan, moved), &aside, &mut report)?;
        self.mend_absent(&queues, &found.chain, end.end)?;
        let trust = self.sync_found(&found, &queues, (&report, end.end))?;
        let session = self.begin_session(found.chain.start(), end.end)?;
        queues.truncate_from(end.end)?;
        if !found.was_clean && !config.is_read_only {
            queues.recovery().settle_extensions()?;
        }
        let batches = self.with_missing(batches, &found.chain, end.end)?;
        batches.recover(trust, end.end, |queue, unit| {
            has_record(&found.chain, queue, unit)
        })?;
        if found.was_clean && (report.was_cut || !queues.has_witness()) {
            self.feed_unnamed((&queues, &batches), &found.chain, &report)?;
        }
        let store = assemble(self, found, (queues, batches), session, &end, report)?;
        store.go_on()?;
        Ok(store)
    }

    /// Where the log ends; behind damage that is to be kept around it ends where that has been done.
    fn find_or_keep(
        &self,
        found: &Looked<D>,
        queues: &QueueTable<D>,
        mark: Option<Mark>,
        how: OpenHow,
        report: &mut OpenReport,
    ) -> Result<Ending> {
        let known = (mark, self.clock.now_ms());
        let ending = match find_end(found, queues, self.config, known, how, report) {
            // A cut that was interrupted there is gone on with.
            Err(Error::Damaged {
                physical_offset, ..
            }) if how == OpenHow::RefuseDamage
                && is_cut_begun(self.disk, &self.root.join(TRUNCATED_DIR), physical_offset)? =>
            {
                find_end(
                    found,
                    queues,
                    self.config,
                    known,
                    OpenHow::CutDamage,
                    report,
                )?
            }
            found => found?,
        };
        let Plan::Keep(behind, facts) = &ending.plan else {
            return Ok(ending);
        };
        report.replaced = self.keep(found, (report.scanned_from, behind), facts)?;
        let how = OpenHow::CutDamage;
        find_end(found, queues, self.config, known, how, report)
    }

    /// Whether the last session left everything that it had appended, however it ended.
    fn keeps_pages(&self, mark: Option<Mark>) -> bool {
        let has_pages = mark.is_some_and(|mark| mark.is_same_boot);
        has_pages && !self.config.transient_pool_enabled
    }

    /// Syncs what was found of the log, and takes back units of queues that may be torn; which ones of batch
    /// queues are whole.
    fn sync_found(
        &self,
        found: &Looked<D>,
        queues: &QueueTable<D>,
        (report, end): (&OpenReport, u64),
    ) -> Result<batch_queue::Trust> {
        let from = report.scanned_from;
        if found.was_clean {
            if !report.used_manifest && !self.config.is_read_only {
                // A copy of a directory may be in the page cache alone.
                sync_from(self.disk, &found.chain, from)?;
            }
            return Ok(if report.was_cut {
                // Batch queues were left in the same way.
                batch_queue::Trust::Below(end)
            } else {
                batch_queue::Trust::All
            });
        }
        sync_from(self.disk, &found.chain, from)?;
        // The checkpoint covers units that are taken back here, too, and made again. Until they are synced it
        // must not: the next start would trust what power loss has left of them.
        if let Some(file) = found.chain.find(from)
            && let Some(first_ms) = first_store_ms(&file)?
        {
            found.checkpoint.lower(Field::LogicsTimestamp, first_ms - 1);
        }
        // Units of what was synced before are whole.
        queues.recovery().recover(Trust::Below(signed(from)))?;
        queues.truncate_from(from)?;
        Ok(batch_queue::Trust::Below(from))
    }

    /// Lets nothing claim any more what is to be cut: a start after a crash in the midst of it would take
    /// what is gone for damage.
    fn prepare_cut(
        &self,
        found: &Looked<D>,
        queues: &QueueTable<D>,
        batches: &BatchTable<D>,
        end: &LogEnd,
    ) -> Result<()> {
        let session = Session::begin(self.disk, &self.root)?;
        session.note(found.chain.start()..end.end, false)?;
        session.claim()?;
        AbortMarker::new(self.disk, &self.root.join(ABORT_NAME))
            .create(AbortContent::ProcessId(std::process::id()))?;
        // What comes in the place of what is cut may be older than that was.
        found.checkpoint.lower_times(end.last_store_ms.unwrap_or(0));
        found.checkpoint.flush()?;
        queues.recovery().recover(Trust::Below(signed(end.end)))?;
        queues.truncate_from(end.end)?;
        batches.recover(
            batch_queue::Trust::Below(end.end),
            end.end,
            |queue, unit| has_record(&found.chain, queue, unit),
        )
    }

    /// Takes out of queues what another broker left there when it cut the log. A start after a crash in the midst
    /// of it trusts neither queues nor index.
    fn take_away(
        &self,
        rests: Option<&CutRests>,
        queues: &QueueTable<D>,
        end: u64,
        report: &mut OpenReport,
    ) -> Result<()> {
        let Some(rests) = rests else {
            return Ok(());
        };
        self.notices.warn(rests.text(end));
        AbortMarker::new(self.disk, &self.root.join(ABORT_NAME))
            .create(AbortContent::ProcessId(std::process::id()))?;
        queues.recovery().take_away(&rests.rests)?;
        queues.sync(0)?;
        let farthest = queues.recovery().recover(Trust::All)?.max_physical_end;
        report.queues_end = u64::try_from(farthest).unwrap_or(0);
        report.dispatched_from = report.queues_end;
        report.fed_from = report.fed_from.min(rests.feed_from);
        report.was_cut = true;
        Ok(())
    }

    /// Takes out of the log what is behind its end, or keeps it, and reports what was lost.
    fn settle_end(
        &self,
        found: &Looked<D>,
        end: &LogEnd,
        (plan, moved): (Plan, CutReport),
        aside: &Path,
        report: &mut OpenReport,
    ) -> Result<()> {
        let (Plan::Cut(mut facts) | Plan::Keep(_, mut facts)) = plan;
        if moved.is_loss() {
            // What was durable behind the gap is reported.
            facts.durable_end = 0;
        }
        if report.used_manifest && facts.durable_end <= end.end {
            return Ok(());
        }
        report.cut = cut_at(self.disk, &found.chain, end.end, aside, &facts)?;
        report_cut(&self.notices, &report.cut);
        report.cut.add(moved);
        Ok(())
    }

    /// Puts other records in place of the bad bytes before whole records, and reports it.
    fn keep(
        &self,
        found: &Looked<D>,
        (walked_from, behind): (u64, &Behind),
        facts: &CutFacts,
    ) -> Result<Replaced> {
        let named = named_records(self.disk, &self.root, self.config, behind)?;
        let aside = self.root.join(TRUNCATED_DIR);
        let done = keep_behind(
            self.disk,
            &found.chain,
            (walked_from, behind),
            &named,
            (&aside, facts),
            self.config.verify_property_crc,
        )?;
        let why = &facts.why;
        for ((at, copy), record) in done.at.iter().zip(&done.kept_in).zip(&done.recorded_in) {
            self.notices.error(format!(
                "bad bytes of the log at {at} were replaced: {why}. {} whole records behind the \
                 first of them stay; the copy is in {}, noted in {}",
                behind.whole_records,
                copy.display(),
                record.display()
            ));
        }
        Ok(Replaced {
            bytes: done.bytes,
            at: done.at,
            whole_records: behind.whole_records,
            kept_in: done.kept_in,
            recorded_in: done.recorded_in,
        })
    }

    /// The mark of this session. It means that the log is durable up to `end`: what was found there was
    /// synced, at the last stop or by this open.
    fn begin_session(&self, start: u64, end: u64) -> Result<Option<Session<D>>> {
        if self.config.is_read_only {
            return Ok(None);
        }
        let session = Session::begin(self.disk, &self.root)?;
        session.note(start..end, false)?;
        session.claim()?;
        Ok(Some(session))
    }

    /// The batch queues, made again where somebody removed them.
    fn with_missing(
        &self,
        batches: BatchTable<D>,
        chain: &Chain<D>,
        end: u64,
    ) -> Result<BatchTable<D>> {
        if !batches.is_missing() {
            return Ok(batches);
        }
        make_missing_batches(self.disk, self.config, chain, end, &self.notices)?;
        let notices = Arc::clone(&self.notices);
        BatchTable::open(self.disk.clone(), &self.root, self.config, notices)
    }

    /// Makes again what the manifest names and the directories of queues have not.
    fn mend_absent(&self, queues: &QueueTable<D>, chain: &Chain<D>, limit: u64) -> Result<()> {
        let holes = queues.mender().make_absent_files()?;
        if holes.is_empty() {
            return Ok(());
        }
        let source = Source {
            chain,
            limit,
            levels: &self.levels,
            notices: &self.notices,
        };
        mend(queues.mender(), &source, holes)?;
        queues.sync(0).map(|_synced| ())
    }

    /// Feeds queues with records that were walked and dispatch would pass over: without a manifest
    /// nothing else shows that they have lost the end, or their files.
    fn feed_unnamed(
        &self,
        (queues, batches): (&QueueTable<D>, &BatchTable<D>),
        chain: &Chain<D>,
        report: &OpenReport,
    ) -> Result<()> {
        let source = Source {
            chain,
            limit: report.dispatched_from,
            levels: &self.levels,
            notices: &self.notices,
        };
        // A topic that was deleted leaves its records in the log.
        let topics = configured_topics(self.disk, &self.root)?.unwrap_or_default();
        feed_unnamed(queues, &source, report.fed_from, |topic| {
            topics.contains(topic) && !batches.has_topic(topic)
        })
    }
}

fn signed(physical_offset: u64) -> i64 {
    i64::try_from(physical_offset).unwrap_or(i64::MAX)
}
