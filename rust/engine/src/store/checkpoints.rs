//! What the store writes down of how durable it is: queues and index are synced, and what that allows
//! goes into the checkpoint, the mark of the session and the manifest of the queues.
//!
//! Locks: none of its own; those of queues, index, checkpoint and session are taken one after the
//! other, never two at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::session::Session;
use crate::batch_queue::BatchTable;
use crate::checkpoint::{Checkpoint, Field};
use crate::clock::Clock;
use crate::consume_queue::QueueTable;
use crate::disk::Disk;
use crate::dispatch::Dispatcher;
use crate::error::Result;
use crate::flush::Syncer;
use crate::key_index::KeyIndex;
use crate::segment::LogFiles;

/// Syncs queues and index, and writes down what is durable.
pub struct Checkpoints<D: Disk, C: Clock> {
    pub(super) files: Arc<LogFiles<D>>,
    pub(super) queues: Arc<QueueTable<D>>,
    pub(super) batches: Arc<BatchTable<D>>,
    pub(super) index: Option<Arc<KeyIndex<D, C>>>,
    pub(super) dispatcher: Arc<Dispatcher<D>>,
    pub(super) syncer: Arc<Syncer<D>>,
    /// Whether the confirm offset is written down, as a member's.
    pub(super) is_member: bool,
    pub(super) checkpoint: Checkpoint<D>,
    /// `None` where another store's log is mounted: it is not ours to mark.
    pub(super) session: Option<Session<D>>,
}

impl<D: Disk, C: Clock> Checkpoints<D, C> {
    /// Writes and syncs queues that are at least `least_pages` behind, then what that allows the
    /// checkpoint to hold.
    ///
    /// # Durability
    /// The checkpoint covers only what was written and synced.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: the queues stay dirty and come again.
    pub fn sync_queues(&self, least_pages: u64) -> Result<()> {
        // Read first: only whole rounds count for the checkpoint.
        let done_ms = self.dispatcher.done_store_ms();
        let batches_ms = self.batches.newest_ms();
        self.batches.write_pending()?;
        self.batches.sync()?;
        self.queues.write_pending()?;
        let synced = self.queues.sync(least_pages)?;
        // Batch queues leave nothing behind that was there before; what came since is not older.
        let behind_ms = synced.waiting_ms.saturating_sub(1);
        let batches_ms = batches_ms.map(|newest_ms| newest_ms.min(behind_ms));
        let bound_ms = done_ms - i64::from(self.batches.has_unsynced());
        if let Some(covered_ms) = synced.covered_ms.max(batches_ms) {
            self.checkpoint
                .raise(Field::LogicsTimestamp, covered_ms.min(bound_ms));
        }
        if let Some(index) = &self.index
            && let Some(index_ms) = index.syncing().sync()?
        {
            self.checkpoint.raise(Field::IndexTimestamp, index_ms);
        }
        Ok(())
    }

    /// Writes down where the log begins and how far it is durable, where that has changed.
    ///
    /// # Durability
    /// The mark claims nothing that a completed sync has not made durable.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: the mark before it holds, and the next call writes it.
    ///
    /// # Blocking
    /// Until the device has answered.
    pub fn note_durable(&self) -> Result<()> {
        self.note(false)
    }

    fn note(&self, is_stopped: bool) -> Result<()> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        // Not what is flushed: a slave's log may end in the middle of a record, which a start cuts off.
        let durable = self.files.records_flushed.load(Ordering::Acquire);
        session.note(self.files.chain.start()..durable, is_stopped)
    }

    /// Writes down how far the queues are, then the checkpoint.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn write(&self) -> Result<()> {
        self.queues.witness().refresh()?;
        self.checkpoint
            .raise(Field::PhysicTimestamp, self.syncer.flushed_store_ms());
        if self.is_member {
            let confirmed = self.files.confirmed_end();
            self.checkpoint
                .set(Field::ConfirmOffset, confirmed.cast_signed());
        }
        self.checkpoint.flush()
    }

    /// Syncs all of queues and index, those that are still written to among them.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub(super) fn sync_all(&self) -> Result<()> {
        self.sync_queues(0)?;
        if let Some(index) = &self.index
            && let Some(index_ms) = index.syncing().sync_all()?
        {
            self.checkpoint.raise(Field::IndexTimestamp, index_ms);
        }
        Ok(())
    }

    /// The checkpoint of a store that stops; false when the files of the index are not those that it
    /// knows: no file of it is trusted by a recovery then.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub(super) fn write_last(&self) -> Result<bool> {
        let is_index_whole = match &self.index {
            Some(index) => index.syncing().check_names()?,
            None => true,
        };
        if !is_index_whole {
            // The marker of an unclean end stays, too.
            self.checkpoint.set(Field::IndexTimestamp, 0);
        }
        let dispatched = self.files.positions.dispatched.position();
        self.checkpoint
            .set(Field::LogicsPhysicalOffset, dispatched.cast_signed());
        self.write()?;
        Ok(is_index_whole)
    }

    /// Writes down that the log ends where it is flushed.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub(super) fn note_stop(&self) -> Result<()> {
        self.note(true)
    }
}
