//! Closing: threads first, then everything that is still in memory, then the marks of a clean end.

use std::sync::atomic::Ordering;

use super::Store;
use super::look::stamp_of;
use super::names::ABORT_NAME;
use crate::checkpoint::{AbortMarker, Field};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::Result;
use crate::key_index::IndexState;

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
        self.stop_threads();
        let Some(lock) = self.lock.lock().take() else {
            return Ok(false);
        };
        let outcome = if was_closing {
            Ok(false)
        } else {
            self.finish()
        };
        self.files.positions.wake_all();
        self.wake.raise();
        drop(lock);
        outcome
    }

    /// Ends the threads and leaves the directory as a kill would.
    pub fn abandon(&self) {
        self.files.is_closing.store(true, Ordering::Release);
        self.stop_threads();
        drop(self.lock.lock().take());
    }

    fn stop_threads(&self) {
        let bells = &self.files.bells;
        let mine = std::thread::current().id();
        for thread in self.threads.lock().drain(..) {
            if thread.thread().id() == mine {
                // A worker that holds the last reference closes its own store.
                continue;
            }
            let name = thread.thread().name().unwrap_or("a worker").to_owned();
            while !thread.is_finished() {
                for bell in [
                    &bells.dispatch,
                    &bells.prepare,
                    &bells.commit,
                    &bells.flush,
                    &self.pace_queues,
                    &self.pace_clean,
                    &self.pace_scrub,
                ] {
                    bell.ring();
                }
                std::thread::yield_now();
            }
            if thread.join().is_err() {
                self.files.fail(format!("thread {name} panicked"));
            }
        }
    }

    fn finish(&self) -> Result<bool> {
        let files = &self.files;
        files.poison.check()?;
        // An append that was under way has either published its record or will be refused.
        self.log.while_still(|_position| ());
        self.flush()?;
        while self.dispatcher.step()? {}
        self.sync_queues(0)?;
        if let Some(index) = &self.index
            && let Some(index_ms) = index.sync_all()?
        {
            self.checkpoint.raise(Field::IndexTimestamp, index_ms);
        }
        files.preparer.remove_unused()?;
        files.preparer.clear_staging()?;
        while files.reclaimer.step()? {}
        let is_index_whole = match &self.index {
            Some(index) => index.check_names()?,
            None => true,
        };
        if !is_index_whole {
            // No file of it is trusted by a recovery, and the marker of an unclean end stays.
            self.checkpoint.set(Field::IndexTimestamp, 0);
        }
        self.write_checkpoint()?;
        let is_behind = self.dispatcher.lags().iter().any(|(_, _, lag)| *lag > 0)
            || self
                .index
                .as_ref()
                .is_some_and(|index| index.state() != IndexState::Running);
        if is_behind || !is_index_whole || !self.refusals.reasons().is_empty() {
            return Ok(false);
        }
        if let Some(session) = &self.session {
            let log = files.chain.start()..files.positions.flushed.position();
            session.note(log, true)?;
        }
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
