//! The thread of a master: it ships the log to all slaves, a bounded number of bytes to one at a time. It
//! sleeps until the log grows, a slave reports or takes more, or something is due.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_engine::progress::WakeDescriptor;
use mqcore_engine::store::Store;
use mqcore_replica::master::QUICK_MS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ended::EndedLinks;
use crate::slaves::{Shipping, SlaveStanding, Slaves};

struct Shared {
    wake: WakeDescriptor,
    added: Mutex<Vec<(String, TcpStream)>>,
    standings: Mutex<Vec<SlaveStanding>>,
    ended: EndedLinks,
    is_stopping: AtomicBool,
    /// Whether there is somebody to ship to: a log that nobody copies wakes no thread.
    has_peers: AtomicBool,
}

impl Shared {
    /// The log has grown.
    fn grown(&self) {
        // Either the thread that has just got a peer sees what was appended, or it is seen here.
        fence(Ordering::SeqCst);
        if self.has_peers.load(Ordering::Relaxed) {
            self.wake.raise();
        }
    }

    /// Notes whether there are peers; to be called before the end of the log is looked at.
    fn note_peers(&self, there_are: bool) {
        self.has_peers.store(there_are, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// Ships the log of a store.
pub struct Master {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Master {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Io`] when descriptors are exhausted, [`Error::Limit`] when the system gives no thread.
    pub fn start<D: Disk, C: Clock>(store: Arc<Store<D, C>>, how: Shipping) -> Result<Self> {
        let shared = Arc::new(Shared {
            wake: WakeDescriptor::new()?,
            added: Mutex::default(),
            standings: Mutex::default(),
            ended: EndedLinks::new()?,
            is_stopping: AtomicBool::new(false),
            has_peers: AtomicBool::new(false),
        });
        let slaves = Slaves::new(Arc::clone(&store), how);
        let woken = Arc::clone(&shared);
        store.replica().wake_with(Box::new(move || woken.grown()));
        let mut running = Running {
            store,
            shared: Arc::clone(&shared),
            slaves,
        };
        let spawned = std::thread::Builder::new()
            .name("mq-ship".to_owned())
            .spawn(move || running.run());
        let thread = spawned.map_err(|error| Error::Limit {
            what: format!("mq-ship: {error}"),
            limit: 0,
        })?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Ships to a slave that has connected.
    ///
    /// # Errors
    /// [`Error::Limit`] when the socket cannot be used.
    pub fn add(&self, address: &str, socket: OwnedFd) -> Result<()> {
        let stream = TcpStream::from(socket);
        let prepared = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true));
        prepared.map_err(|error| Error::Limit {
            what: format!("the connection of {address}: {error}"),
            limit: 0,
        })?;
        self.shared.added.lock().push((address.to_owned(), stream));
        self.shared.wake.raise();
        Ok(())
    }

    /// The slaves as they were when something was last sent or reported.
    #[must_use]
    pub fn slaves(&self) -> Vec<SlaveStanding> {
        self.shared.standings.lock().clone()
    }

    /// Links that have ended.
    #[must_use]
    pub fn ended(&self) -> &EndedLinks {
        &self.shared.ended
    }

    /// Ends the thread and closes all connections. Does nothing the second time.
    ///
    /// # Blocking
    /// Until the turn that it is at has ended.
    pub fn stop(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            self.shared.is_stopping.store(true, Ordering::Release);
            self.shared.wake.raise();
            if thread.join().is_err() {
                self.shared
                    .ended
                    .push("", "the shipping thread has failed".to_owned());
            }
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Running<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    shared: Arc<Shared>,
    slaves: Slaves<D, C, TcpStream>,
}

impl<D: Disk, C: Clock> Running<D, C> {
    fn run(&mut self) {
        let mut wait_ms = 0;
        loop {
            self.sleep(wait_ms);
            self.shared.wake.clear();
            if self.shared.is_stopping.load(Ordering::Acquire) {
                return;
            }
            let now_ms = self.store.replica().elapsed_ms();
            for (address, stream) in std::mem::take(&mut *self.shared.added.lock()) {
                self.slaves.add(address, stream, now_ms);
            }
            self.shared.note_peers(!self.slaves.is_empty());
            let ended = &self.shared.ended;
            wait_ms = self
                .slaves
                .turn(now_ms, |address, why| ended.push(address, why));
            if wait_ms > 0 && self.slaves.gathers(now_ms) {
                // The reports wake, and what the log grows by until then goes together.
                self.shared.note_peers(false);
                wait_ms = wait_ms.min(QUICK_MS);
            }
            let mut standings = self.shared.standings.lock();
            self.slaves.note_standings(&mut standings, now_ms);
        }
    }

    /// Sleeps until something is to be done; which slaves may have reported is noted with them.
    fn sleep(&mut self, wait_ms: u64) {
        let sockets: Vec<(BorrowedFd<'_>, PollFlags)> = self
            .slaves
            .streams()
            .map(|(socket, waits_to_write)| {
                let mut wanted = PollFlags::IN;
                wanted.set(PollFlags::OUT, waits_to_write);
                (socket.as_fd(), wanted)
            })
            .collect();
        let wake = self.shared.wake.as_fd();
        let mut all: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        all.extend(
            sockets
                .iter()
                .map(|(socket, wanted)| PollFd::from_borrowed_fd(*socket, *wanted)),
        );
        let timeout = Timespec::try_from(Duration::from_millis(wait_ms)).ok();
        // A signal ends the wait early: nothing is ready then.
        let is_ready = poll(&mut all, timeout.as_ref()).is_ok();
        let ready: Vec<bool> = all
            .iter()
            .skip(1)
            .map(|one| is_ready && !one.revents().is_empty())
            .collect();
        self.slaves.note_readable(ready.into_iter());
    }
}
