//! The threads of a store: started once, each with a guard that a panic poisons the store, and ended
//! by ringing until they have seen that the store closes. Knows no work.
//!
//! Locks: the list of threads is held while they are joined; no thread takes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::lock::Mutex;
use crate::poison::PanicGuard;
use crate::segment::LogFiles;
use crate::watermark::Signal;

/// The threads that run, and what ends their pauses.
#[derive(Default)]
pub(super) struct Threads {
    running: Mutex<Vec<JoinHandle<()>>>,
    is_started: AtomicBool,
    /// Of those that work at intervals.
    pub(super) paces: Paces,
}

/// What ends the pauses of the threads that work at intervals.
#[derive(Default)]
pub(super) struct Paces {
    pub(super) queues: Signal,
    pub(super) clean: Signal,
    pub(super) scrub: Signal,
}

impl Threads {
    /// True once: for the one who is to start the threads.
    pub(super) fn begin(&self) -> bool {
        !self.is_started.swap(true, Ordering::AcqRel)
    }

    /// Starts a thread, which keeps `owner` until it ends.
    ///
    /// # Errors
    /// [`Error::Limit`] when the system gives no thread.
    pub(super) fn spawn<D: Disk, T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        files: &Arc<LogFiles<D>>,
        owner: &Arc<T>,
        work: fn(&T),
    ) -> Result<()> {
        let (files, owner) = (Arc::clone(files), Arc::clone(owner));
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let guard = PanicGuard::new(&files.poison, name);
                work(&owner);
                drop(guard);
            });
        match spawned {
            Ok(thread) => {
                self.running.lock().push(thread);
                Ok(())
            }
            Err(error) => Err(Error::Limit {
                what: format!("thread {name}: {error}"),
                limit: 0,
            }),
        }
    }

    /// Ends the threads of a store that closes.
    ///
    /// # Blocking
    /// Until each has made its step.
    pub(super) fn stop<D: Disk>(&self, files: &LogFiles<D>) {
        let signals = &files.signals;
        let mine = std::thread::current().id();
        for thread in self.running.lock().drain(..) {
            if thread.thread().id() == mine {
                // A worker that holds the last reference closes its own store.
                continue;
            }
            let name = thread.thread().name().unwrap_or("a worker").to_owned();
            while !thread.is_finished() {
                for signal in [
                    &signals.dispatch,
                    &signals.prepare,
                    &signals.commit,
                    &signals.flush,
                    &self.paces.queues,
                    &self.paces.clean,
                    &self.paces.scrub,
                ] {
                    signal.notify();
                }
                std::thread::yield_now();
            }
            if thread.join().is_err() {
                files.fail(format!("thread {name} panicked"));
            }
        }
    }
}
