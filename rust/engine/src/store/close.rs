//! Closing: threads first, then everything that is still in memory, then the marks of a clean end.

use std::sync::atomic::Ordering;

use super::Store;
use super::look::stamp_of;
use super::names::ABORT_NAME;
use super::replica::FOLLOWS_CAUSE;
use crate::checkpoint::AbortMarker;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk, C: Clock> Store<D, C> {
    /// Closes the store; true when the next open need not recover anything. Closing again does
    /// nothing.
    ///
    /// # Durability
    /// Everything that was appended survives power loss when this returns `Ok(true)`.
    ///
    /// # Errors
    /// What could not be written: the store is closed all the same, and the next open recovers.
    ///
    /// # Blocking
    /// Until the disk has everything.
    pub fn close(&self) -> Result<bool> {
        let was_closing = self.files.is_closing.swap(true, Ordering::AcqRel);
        self.threads.stop(&self.files);
        let Some(lock) = self.lock.lock().take() else {
            return Ok(false);
        };
        let outcome = if was_closing {
            Ok(false)
        } else {
            self.finish()
        };
        self.files.positions.wake_all();
        self.loops.wake_all();
        drop(lock);
        outcome
    }

    /// Ends the threads and leaves the directory as a kill would.
    pub fn abandon(&self) {
        self.files.is_closing.store(true, Ordering::Release);
        self.threads.stop(&self.files);
        self.loops.wake_all();
        drop(self.lock.lock().take());
    }

    fn finish(&self) -> Result<bool> {
        let files = &self.files;
        files.poison.check()?;
        // An append that was under way has either published its record or will be refused.
        self.log.while_still(|_position| ());
        self.durability.flush()?;
        self.dispatching.finish()?;
        self.checkpoints.sync_all()?;
        files.preparer.remove_unused()?;
        files.preparer.clear_staging()?;
        while files.reclaimer.step()? {}
        let is_index_whole = self.checkpoints.write_last()?;
        // What a member has not confirmed the queues have not: the next open goes on by the checkpoint.
        let positions = &files.positions;
        let is_dispatched = !self.config.is_member
            || positions.dispatched.position() >= positions.appended.position();
        let is_whole = is_index_whole && is_dispatched && !self.dispatching.is_behind();
        let reasons = self.refusals.reasons();
        if !is_whole || reasons.iter().any(|(cause, _)| *cause != FOLLOWS_CAUSE) {
            return Ok(false);
        }
        self.checkpoints.note_stop()?;
        let root = self.config.root()?;
        AbortMarker::new(&files.disk, &root.join(ABORT_NAME)).remove()?;
        let stamp = stamp_of(&files.disk, &root, &files.chain)?;
        self.queues.save_manifest(&stamp)?;
        Ok(true)
    }
}

impl<D: Disk, C: Clock> Drop for Store<D, C> {
    fn drop(&mut self) {
        // Not closed: threads end, the directory stays as a kill leaves it.
        self.abandon();
    }
}
