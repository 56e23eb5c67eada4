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
use mqcore_engine::store::{Standby, Store};
use mqcore_replica::master::QUICK_MS;
use mqcore_replica::{FlowLimit, LogSpan, MasterLink, QuorumRule, Standing, Timing, quorum};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ended::EndedLinks;
use crate::peer::{Left, Peer, span_of};

/// How a master ships.
#[derive(Debug, Clone, Copy)]
pub struct Shipping {
    /// Heartbeats and silence.
    pub timing: Timing,
    /// `haTransferBatchSize`: bytes of a body at the most.
    pub batch_len_bytes: usize,
    /// `maxHaTransferByteInSecond`, where `haFlowControlEnable` is on.
    pub bytes_per_second_max: Option<u64>,
    /// Which sends may be acknowledged, where they wait for slaves.
    pub quorum: Option<QuorumRule>,
}

/// A slave and how far it is.
#[derive(Debug, Clone)]
pub struct SlaveStanding {
    /// Its address.
    pub address: String,
    /// How far it is.
    pub standing: Standing,
}

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
        if how.quorum.is_some() {
            store.replica().require();
        }
        let woken = Arc::clone(&shared);
        store.replica().wake_with(Box::new(move || woken.grown()));
        let mut running = Running {
            store,
            how,
            shared: Arc::clone(&shared),
            peers: Vec::new(),
            reported: Vec::new(),
            replicated: 0,
        };
        // Sends may come before the thread has its first turn.
        let log = span_of(running.store.replica());
        running.acknowledge(log.end);
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
    how: Shipping,
    shared: Arc<Shared>,
    peers: Vec<(Peer<D>, PollFlags)>,
    /// What slaves have reported, for one turn.
    reported: Vec<u64>,
    /// What was announced as replicated.
    replicated: u64,
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
            self.take_added(now_ms);
            self.shared.note_peers(!self.peers.is_empty());
            wait_ms = self.turn(now_ms);
            if wait_ms > 0 && self.gathers(now_ms) {
                // The reports wake, and what the log grows by until then goes together.
                self.shared.note_peers(false);
                wait_ms = wait_ms.min(QUICK_MS);
            }
            self.note_standings(now_ms);
        }
    }

    /// Whether growth can wait for a report: sends wait for reports, and each slave's is due at once. One
    /// message after the other would have a wake of every thread on its way for itself.
    fn gathers(&self, now_ms: u64) -> bool {
        let mut peers = self.peers.iter();
        let is_awaited = self.how.quorum.is_some() && !self.peers.is_empty();
        is_awaited && peers.all(|(peer, _)| peer.reports_soon(now_ms))
    }

    /// Sleeps until something is to be done; what of the peers is ready is noted with them.
    fn sleep(&mut self, wait_ms: u64) {
        let (wake, peers) = (&self.shared.wake, &mut self.peers);
        let wake = wake.as_fd();
        let mut all: Vec<PollFd<'_>> = vec![PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        let sockets: Vec<(BorrowedFd<'_>, PollFlags)> = peers
            .iter()
            .map(|(peer, wanted)| (peer.stream.as_fd(), *wanted))
            .collect();
        all.extend(
            sockets
                .iter()
                .map(|(socket, wanted)| PollFd::from_borrowed_fd(*socket, *wanted)),
        );
        let timeout = Timespec::try_from(Duration::from_millis(wait_ms)).ok();
        // A signal ends the wait early: nothing is ready then.
        let is_ready = poll(&mut all, timeout.as_ref()).is_ok();
        let ready: Vec<PollFlags> = all
            .iter()
            .skip(1)
            .map(|one| {
                if is_ready {
                    one.revents()
                } else {
                    PollFlags::empty()
                }
            })
            .collect();
        for ((_, flags), ready) in peers.iter_mut().zip(ready) {
            *flags = ready;
        }
    }

    fn take_added(&mut self, now_ms: u64) {
        for (address, stream) in std::mem::take(&mut *self.shared.added.lock()) {
            let flow = FlowLimit::new(self.how.bytes_per_second_max, now_ms);
            let link = MasterLink::new(self.how.timing, self.how.batch_len_bytes, flow, now_ms);
            for (other, _flags) in &mut self.peers {
                other.note_other(&address);
            }
            let peer = Peer::new(address, stream, link);
            self.peers.push((peer, PollFlags::IN));
        }
    }

    /// Reads what peers have reported.
    fn read(&mut self, log: LogSpan, now_ms: u64) {
        let shared = &self.shared;
        self.peers.retain_mut(|(peer, flags)| {
            if flags.is_empty() {
                return true;
            }
            let read = peer.read(log, now_ms);
            read.map_err(|why| shared.ended.push(&peer.address, why))
                .is_ok()
        });
    }

    /// Acknowledges sends that enough peers have, for a log that ends at `end`.
    fn acknowledge(&mut self, end: u64) {
        let Some(rule) = &self.how.quorum else {
            return;
        };
        self.reported.clear();
        let known = self
            .peers
            .iter()
            .filter_map(|(peer, _)| peer.acknowledged());
        self.reported.extend(known);
        let decision = rule.decide(&mut self.reported, end);
        self.store.replica().note_standby(match decision.standby {
            quorum::Standby::Unneeded => Standby::Unneeded,
            quorum::Standby::Reachable => Standby::Reachable,
            quorum::Standby::Unavailable => Standby::Unavailable,
            quorum::Standby::NotEnough => Standby::NotEnough,
        });
        if decision.replicated > self.replicated {
            self.replicated = decision.replicated;
            self.store.durability().note_replicated(self.replicated);
        }
    }

    /// A turn of each peer; after how long the next one is due, ms.
    fn turn(&mut self, now_ms: u64) -> u64 {
        // Sends wait for what is reported, so that it comes first.
        let log = span_of(self.store.replica());
        self.read(log, now_ms);
        self.acknowledge(log.end);
        let replica = self.store.replica();
        let mut wait_ms = u64::from(u32::MAX);
        let shared = &self.shared;
        self.peers.retain_mut(|(peer, flags)| {
            let left = peer.turn(replica, log.end, now_ms);
            *flags = PollFlags::IN;
            match left {
                Ok(Left::Socket) => {
                    *flags |= PollFlags::OUT;
                    wait_ms = wait_ms.min(u64::from(SOCKET_WAIT_MAX_MS));
                }
                Ok(Left::More) => wait_ms = 0,
                Ok(Left::Wait(ms)) => wait_ms = wait_ms.min(ms),
                Err(why) => {
                    shared.ended.push(&peer.address, why);
                    return false;
                }
            }
            true
        });
        wait_ms
    }

    fn note_standings(&mut self, now_ms: u64) {
        let end = self.store.replica().extent().end;
        let mut standings = self.shared.standings.lock();
        let is_same = standings.len() == self.peers.len();
        for (at, (peer, _)) in self.peers.iter_mut().enumerate() {
            let standing = peer.standing(end, now_ms);
            match standings.get_mut(at) {
                Some(known) if is_same && known.address == peer.address => {
                    known.standing = standing
                }
                _ => {
                    standings.truncate(at);
                    let address = peer.address.clone();
                    standings.push(SlaveStanding { address, standing });
                }
            }
        }
        standings.truncate(self.peers.len());
    }
}

/// While a socket takes nothing the silence of its slave is looked at this often.
const SOCKET_WAIT_MAX_MS: u32 = 1_000;
