//! A reactor for those who give it connections: its thread started and ended, changes asked of it. Knows
//! nothing of what a turn does.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_fast_path::ConnectionId;
use mqcore_fast_path::locked::LockedFastPath;

use crate::changes::{Change, Changes, Reports};
use crate::running::{Running, poll_of};

/// A reactor, for those who give it connections.
pub struct Reactor<D: Disk, C: Clock> {
    home: Arc<LockedFastPath<D, C>>,
    changes: Arc<Changes>,
    connections: AtomicUsize,
    /// Whether it has been asked to give up connections, and has not looked for some yet.
    is_sparing: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<D: Disk, C: Clock> Reactor<D, C> {
    /// Starts the thread of a reactor. Before it sleeps it looks for events for up to `busy_poll`, while
    /// such looks find some; zero: it sleeps at once.
    ///
    /// # Errors
    /// [`Error::Io`] when descriptors are exhausted, [`Error::Limit`] when the system gives no thread.
    pub fn start(
        name: &str,
        home: Arc<LockedFastPath<D, C>>,
        reports: Arc<dyn Reports>,
        busy_poll: Duration,
    ) -> Result<Self> {
        let failed = |error: std::io::Error| Error::Limit {
            what: format!("{name}: {error}"),
            limit: 0,
        };
        let changes = Arc::new(Changes::new(Arc::clone(home.events())));
        let is_sparing = Arc::new(AtomicBool::new(false));
        let poll = poll_of(&home).map_err(failed)?;
        let asked = (Arc::clone(&changes), Arc::clone(&is_sparing));
        let mut running = Running::new(poll, Arc::clone(&home), asked, reports, busy_poll);
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let guard = AbortOnPanic;
                running.run();
                drop(guard);
            });
        Ok(Self {
            home,
            changes,
            connections: AtomicUsize::new(0),
            is_sparing,
            thread: Mutex::new(Some(spawned.map_err(failed)?)),
        })
    }

    /// How many connections it has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Its fast path.
    #[must_use]
    pub fn home(&self) -> &Arc<LockedFastPath<D, C>> {
        &self.home
    }

    /// Serves a connection that is open in its fast path.
    pub fn add(&self, id: ConnectionId, socket: OwnedFd) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.changes.push(Change::Add(id, socket));
    }

    /// Goes on with a connection that it has spared.
    pub fn take_back(&self, id: ConnectionId, socket: OwnedFd) {
        self.changes.push(Change::Add(id, socket));
    }

    /// Takes over a connection that another reactor has spared; its number here. `None` where something
    /// has come for it meanwhile: the other one goes on with it.
    ///
    /// # Blocking
    /// For the fast path of the other reactor, then for its own.
    pub fn take_over(
        &self,
        from: &Self,
        id: ConnectionId,
        socket: OwnedFd,
    ) -> Option<ConnectionId> {
        let taken = from.home.locked().path.connections.take_out(id);
        let Some(connection) = taken else {
            from.take_back(id, socket);
            return None;
        };
        from.connections.fetch_sub(1, Ordering::Relaxed);
        let number = self.home.locked().path.connections.take_in(&connection);
        self.add(number, socket);
        Some(number)
    }

    /// Lets it give up so many connections that are idle, for reactors that have fewer; does nothing
    /// while it has not looked for those that were asked for before.
    pub fn spare(&self, most: usize) {
        if !self.is_sparing.swap(true, Ordering::AcqRel) {
            self.changes.push(Change::Spare(most));
        }
    }

    /// Reads no more of a connection; what was read already is executed.
    pub fn hold(&self, id: ConnectionId) {
        self.changes.push(Change::Hold(id));
    }

    /// Reads a connection again.
    pub fn release(&self, id: ConnectionId) {
        self.changes.push(Change::Release(id));
    }

    /// What was reported of the unfinished frame of a connection is counted; a hold that came of it
    /// was asked for before.
    pub fn counted(&self, id: ConnectionId) {
        self.changes.push(Change::Counted(id));
    }

    /// Writes what the connection takes at once, and forgets it, in the fast path too.
    pub fn remove(&self, id: ConnectionId) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
        self.changes.push(Change::Remove(id));
    }

    /// Ends the thread; its connections are forgotten. Does nothing the second time.
    ///
    /// # Blocking
    /// Until the turn that it is at has ended.
    pub fn stop(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            self.changes.push(Change::Stop);
            // A panic of it would have ended the process.
            let _ended = thread.join();
        }
    }
}

/// Ends the process when it is dropped by a panic.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The reason was printed by the panic itself.
            std::process::abort();
        }
    }
}
