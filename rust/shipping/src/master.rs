//! The thread of a master: it ships the log to all slaves, a bounded number of bytes to one at a time. It
//! sleeps until the log grows, a slave reports or takes more, or something is due.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_engine::progress::WakeDescriptor;
use mqcore_engine::store::Store;
use mqcore_engine::watermark::Watermark;
use mqcore_replica::master::QUICK_MS;
use mqcore_replica::{Alteration, Members};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::copies::{Copies, CopyStanding};
use crate::ended::EndedLinks;
use crate::slaves::{Membership, Shipping, SlaveStanding, Slaves};
use crate::stream::Stream;
use crate::tls::Protection;

/// The first turn of a thread that was woken takes no longer, on a machine that does anything at all.
const TURN_WAIT_MAX: Duration = Duration::from_secs(1);

/// Somebody who has connected.
struct Added {
    address: String,
    stream: Stream,
    counts: bool,
}

struct Shared {
    copies: Mutex<Vec<CopyStanding>>,
    wake: WakeDescriptor,
    added: Mutex<Vec<Added>>,
    /// Connections that were added and have not ended.
    open: AtomicUsize,
    /// Who counts from now on, and who does not.
    counted: Mutex<Vec<(String, bool)>>,
    standings: Mutex<Vec<SlaveStanding>>,
    ended: EndedLinks,
    is_stopping: AtomicBool,
    /// Whether there is somebody to ship to: a log that nobody copies wakes no thread.
    has_peers: AtomicBool,
    /// Turns that have ended.
    turns: Watermark,
    /// The sync-state set, of a master under a controller.
    members: Option<Arc<Mutex<Members>>>,
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
        let copies = Copies::new(&store, None, how.copied_bytes_per_second_max);
        let slaves = Slaves::new(Arc::clone(&store), how);
        Self::start_with(store, slaves, None, copies)
    }

    /// Starts the thread of a member under a controller: nothing is stored before it leads.
    ///
    /// # Errors
    /// As [`Master::start`].
    pub fn start_member<D: Disk, C: Clock>(
        store: Arc<Store<D, C>>,
        how: Shipping,
        membership: Membership<D>,
    ) -> Result<Self> {
        let members = Arc::clone(&membership.members);
        let copies = Copies::new(
            &store,
            Some(&membership.epochs),
            how.copied_bytes_per_second_max,
        );
        let slaves = Slaves::of_member(Arc::clone(&store), how, membership);
        Self::start_with(store, slaves, Some(members), copies)
    }

    fn start_with<D: Disk, C: Clock>(
        store: Arc<Store<D, C>>,
        slaves: Slaves<D, C, Stream>,
        members: Option<Arc<Mutex<Members>>>,
        copies: Copies<D, C>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            copies: Mutex::default(),
            wake: WakeDescriptor::new()?,
            added: Mutex::default(),
            open: AtomicUsize::new(0),
            counted: Mutex::default(),
            standings: Mutex::default(),
            ended: EndedLinks::new()?,
            is_stopping: AtomicBool::new(false),
            has_peers: AtomicBool::new(false),
            turns: Watermark::default(),
            members,
        });
        let woken = Arc::clone(&shared);
        store.replica().wake_with(Box::new(move || woken.grown()));
        let mut running = Running {
            store,
            shared: Arc::clone(&shared),
            slaves,
            copies,
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

    /// Ships to a slave that has connected, and whose reports count.
    ///
    /// # Errors
    /// [`Error::Limit`] when the socket cannot be used.
    pub fn add(&self, address: &str, socket: OwnedFd) -> Result<()> {
        self.add_who(address, socket, true, &Protection::plain())
    }

    /// Ships to somebody who has connected. Where it does not `count` it acknowledges nothing, until
    /// [`Master::set_counts`]. The connection is protected by `how`.
    ///
    /// # Errors
    /// As [`Master::add`].
    pub fn add_who(
        &self,
        address: &str,
        socket: OwnedFd,
        counts: bool,
        how: &Protection,
    ) -> Result<()> {
        let socket = TcpStream::from(socket);
        let prepared = socket
            .set_nonblocking(true)
            .and_then(|()| socket.set_nodelay(true))
            .map_err(|error| error.to_string());
        let stream = prepared.and_then(|()| Stream::new(socket, address, how));
        let stream = stream.map_err(|why| Error::Limit {
            what: format!("the connection of {address}: {why}"),
            limit: 0,
        })?;
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        self.shared.added.lock().push(Added {
            address: address.to_owned(),
            stream,
            counts,
        });
        self.shared.wake.raise();
        Ok(())
    }

    /// Whether what the slave at `address` reports counts from now on: see [`Slaves::set_counts`].
    pub fn set_counts(&self, address: &str, counts: bool) {
        let noted = (address.to_owned(), counts);
        self.shared.counted.lock().push(noted);
        self.shared.wake.raise();
    }

    /// Leads from `epoch_start` on, with the set that the controller has given out; on return sends may be
    /// acknowledged by it. `confirmed` is what the log has confirmed. Does nothing where the master has no
    /// set.
    ///
    /// # Blocking
    /// For a turn of the thread.
    pub fn lead(&self, members: &[i64], set_epoch: i32, epoch_start: u64, confirmed: u64) {
        self.with_members(|set| set.lead(members, set_epoch, epoch_start, confirmed));
        // The turn that is under way may have looked before.
        let turns = self.shared.turns.position() + 2;
        self.shared.wake.raise();
        let gives_up = || {
            self.shared.wake.raise();
            self.shared.is_stopping.load(Ordering::Acquire)
        };
        let _is_soon = self.shared.turns.wait(turns, TURN_WAIT_MAX, gives_up);
    }

    /// The controller has this set now; whether that is news.
    pub fn adopt(&self, members: &[i64], set_epoch: i32) -> bool {
        self.with_members(|set| set.adopt(members, set_epoch))
            .unwrap_or(false)
    }

    /// The set that is to be asked for; it counts as asked for from now on.
    #[must_use]
    pub fn wanted(&self) -> Option<Alteration> {
        self.with_members(Members::wanted).flatten()
    }

    /// The controller has refused what was asked for.
    pub fn refuse(&self) {
        self.with_members(Members::refuse);
    }

    /// Looks at the set, or changes it, and lets the thread act by it.
    pub fn with_members<T>(&self, change: impl FnOnce(&mut Members) -> T) -> Option<T> {
        let members = self.shared.members.as_ref()?;
        let changed = change(&mut members.lock());
        self.shared.wake.raise();
        Some(changed)
    }

    /// Connections that are open, those among them that were just added.
    #[must_use]
    pub fn open_links(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// The slaves as they were when something was last sent or reported.
    #[must_use]
    pub fn slaves(&self) -> Vec<SlaveStanding> {
        self.shared.standings.lock().clone()
    }

    /// Who copies whole files of the log.
    #[must_use]
    pub fn copies(&self) -> Vec<CopyStanding> {
        self.shared.copies.lock().clone()
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
    slaves: Slaves<D, C, Stream>,
    copies: Copies<D, C>,
}

impl<D: Disk, C: Clock> Running<D, C> {
    fn run(&mut self) {
        let mut wait_ms = 0;
        let (mut was_wanting, mut turns) = (false, 0);
        loop {
            self.sleep(wait_ms);
            self.shared.wake.clear();
            if self.shared.is_stopping.load(Ordering::Acquire) {
                return;
            }
            let now_ms = self.store.replica().elapsed_ms();
            // In this order: who is noted was added before.
            let counted = std::mem::take(&mut *self.shared.counted.lock());
            for added in std::mem::take(&mut *self.shared.added.lock()) {
                self.slaves.add(added.address.clone(), added.stream, now_ms);
                self.slaves.set_counts(&added.address, added.counts);
            }
            for (address, counts) in counted {
                self.slaves.set_counts(&address, counts);
            }
            self.shared.note_peers(!self.slaves.is_empty());
            let shared = &self.shared;
            wait_ms = self.slaves.turn(now_ms, |address, why| {
                shared.open.fetch_sub(1, Ordering::Relaxed);
                shared.ended.push(address, why);
            });
            for (address, stream) in self.slaves.take_copying() {
                // The threads that copy have a limit of their own.
                shared.open.fetch_sub(1, Ordering::Relaxed);
                if let Err(why) = self.copies.begin(&address, stream) {
                    shared.ended.push(&address, why);
                }
            }
            if wait_ms > 0 && self.slaves.gathers(now_ms) {
                // The reports wake, and what the log grows by until then goes together.
                self.shared.note_peers(false);
                wait_ms = wait_ms.min(QUICK_MS);
            }
            if self.slaves.is_wanting() && !was_wanting {
                self.shared.ended.raise();
            }
            was_wanting = self.slaves.is_wanting();
            let mut standings = self.shared.standings.lock();
            self.slaves.note_standings(&mut standings, now_ms);
            drop(standings);
            self.copies.note_standings(&mut self.shared.copies.lock());
            turns += 1;
            self.shared.turns.raise(turns);
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
