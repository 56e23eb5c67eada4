//! The thread of a slave: it waits for what its master sends and gives it to a follower, which appends and
//! reports. One connection at a time; where the log is between two records is kept from one to the next.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::Store;
use mqcore_replica::{RecordWalk, Timing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ended::EndedLinks;
use crate::follower::{Follower, Joining, walk_of};
use crate::stream::Stream;
use crate::tls::Protection;

/// Bytes that are read at once, and synced together under synchronous flush.
const READ_LEN_BYTES: usize = 1024 * 1024;
/// A master that takes eight bytes no sooner is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a slave follows its master.
#[derive(Debug, Clone, Default)]
pub struct Following {
    /// The master's address; empty while there is no connection.
    pub address: String,
    /// End of what the master has announced.
    pub announced: u64,
    /// What was reported last.
    pub reported: Option<u64>,
    /// Bytes that have come since the store was opened.
    pub received_bytes: u64,
    /// For how long nothing has come, ms; `None` before the first byte of a connection.
    pub silent_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Progress {
    following: Following,
    read_ms: Option<u64>,
}

/// Grows the log of a store by that of its master.
pub struct Slave<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    timing: Timing,
    walk: Arc<Mutex<RecordWalk>>,
    joining: Option<Joining<D>>,
    is_learner: bool,
    progress: Arc<Mutex<Progress>>,
    ended: Arc<EndedLinks>,
    running: Mutex<Option<(TcpStream, JoinHandle<()>)>>,
}

impl<D: Disk, C: Clock> Slave<D, C> {
    /// Makes a slave of the store: it takes no appends of its own from now on.
    ///
    /// # Errors
    /// [`Error::Io`] when descriptors are exhausted.
    pub fn new(store: Arc<Store<D, C>>, timing: Timing) -> Result<Self> {
        Self::joining(store, timing, None)
    }

    /// Makes a slave of the store, under a controller where `joining` is given.
    ///
    /// # Errors
    /// As [`Slave::new`].
    pub fn joining(
        store: Arc<Store<D, C>>,
        timing: Timing,
        joining: Option<Joining<D>>,
    ) -> Result<Self> {
        store.replica().follow();
        Ok(Self {
            timing,
            walk: Arc::new(Mutex::new(walk_of(&store))),
            joining,
            is_learner: false,
            progress: Arc::default(),
            ended: Arc::new(EndedLinks::new()?),
            running: Mutex::default(),
            store,
        })
    }

    /// Makes a learner of it in classic replication: no master ever counts it.
    #[must_use]
    pub fn learning(mut self) -> Self {
        self.is_learner = true;
        self
    }

    /// Follows a master over a connection, until that ends. An earlier connection is closed.
    ///
    /// # Errors
    /// [`Error::Limit`] when the socket cannot be used, or the system gives no thread.
    ///
    /// # Blocking
    /// Until the thread of an earlier connection has ended.
    pub fn follow(&self, address: &str, socket: OwnedFd) -> Result<()> {
        self.follow_protected(address, socket, false, &Protection::plain())
    }

    /// As [`Slave::follow`], of a master that gives whole files: where our log holds nothing it begins with the
    /// first byte of the master's.
    ///
    /// # Errors
    /// As [`Slave::follow`].
    ///
    /// # Blocking
    /// As [`Slave::follow`].
    pub fn follow_from_start(&self, address: &str, socket: OwnedFd) -> Result<()> {
        self.follow_protected(address, socket, true, &Protection::plain())
    }

    /// As [`Slave::follow`], or [`Slave::follow_from_start`], over a connection that is protected by `how`.
    ///
    /// # Errors
    /// As [`Slave::follow`].
    ///
    /// # Blocking
    /// As [`Slave::follow`].
    pub fn follow_protected(
        &self,
        address: &str,
        socket: OwnedFd,
        from_start: bool,
        how: &Protection,
    ) -> Result<()> {
        self.stop();
        let refused = |why: String| Error::Limit {
            what: format!("the connection to {address}: {why}"),
            limit: 0,
        };
        let failed = |error: std::io::Error| refused(error.to_string());
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket
            .set_write_timeout(Some(WRITE_TIMEOUT))
            .map_err(failed)?;
        let other = socket.try_clone().map_err(failed)?;
        let stream = Stream::new(socket, address, how).map_err(refused)?;
        let (store, walk) = (Arc::clone(&self.store), Arc::clone(&self.walk));
        if walk.lock().at() != store.replica().appended() {
            // Whole files were taken meanwhile.
            *walk.lock() = walk_of(&store);
        }
        let follower = match &self.joining {
            None if self.is_learner => Follower::new(store, walk, self.timing).learning(),
            None => Follower::new(store, walk, self.timing),
            Some(joining) => Follower::of_member(store, joining.clone(), self.timing),
        };
        let follower = if from_start {
            follower.from_start()
        } else {
            follower
        };
        let mut run = Run {
            stream,
            follower,
            progress: Arc::clone(&self.progress),
        };
        {
            let mut progress = self.progress.lock();
            progress.following.address = address.to_owned();
            progress.following.reported = None;
            progress.following.announced = self.store.replica().appended();
            progress.read_ms = None;
        }
        let (ended, progress) = (Arc::clone(&self.ended), Arc::clone(&self.progress));
        let address = address.to_owned();
        let spawned = std::thread::Builder::new()
            .name("mq-follow".to_owned())
            .spawn(move || {
                let why = run.run();
                let cut_at = run.follower.cut_at();
                progress.lock().following.address.clear();
                drop(run);
                ended.push_cut(&address, why, cut_at);
            });
        *self.running.lock() = Some((other, spawned.map_err(failed)?));
        Ok(())
    }

    /// How it follows now.
    #[must_use]
    pub fn following(&self) -> Following {
        let progress = self.progress.lock();
        let now_ms = self.store.replica().elapsed_ms();
        Following {
            silent_ms: progress.read_ms.map(|at| now_ms.saturating_sub(at)),
            ..progress.following.clone()
        }
    }

    /// Links that have ended.
    #[must_use]
    pub fn ended(&self) -> &EndedLinks {
        &self.ended
    }

    /// Closes the connection and ends its thread. Does nothing without one.
    ///
    /// # Blocking
    /// Until what has come is appended.
    pub fn stop(&self) {
        let running = self.running.lock().take();
        if let Some((stream, thread)) = running {
            // It may be closed already.
            let _closed = stream.shutdown(Shutdown::Both);
            if thread.join().is_err() {
                self.ended
                    .push("", "the following thread has failed".to_owned());
            }
        }
    }
}

impl<D: Disk, C: Clock> Drop for Slave<D, C> {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Run<D: Disk, C: Clock> {
    stream: Stream,
    follower: Follower<D, C>,
    progress: Arc<Mutex<Progress>>,
}

impl<D: Disk, C: Clock> Run<D, C> {
    /// Follows until the link ends; why it did.
    fn run(&mut self) -> String {
        let mut buffer = vec![0; READ_LEN_BYTES];
        if let Err(why) = self.stream.shake_hands() {
            return why;
        }
        // A record of TLS may come in parts, and reports are due meanwhile.
        if let Err(error) = self.stream.socket().set_nonblocking(true) {
            return error.to_string();
        }
        if let Err(why) = self.follower.begin() {
            return why;
        }
        loop {
            if let Err(why) = self.round(&mut buffer) {
                return why;
            }
        }
    }

    fn round(&mut self, buffer: &mut [u8]) -> std::result::Result<(), String> {
        let wait_ms = self.follower.due(&mut Waiting(&mut self.stream))?;
        self.progress.lock().following.reported = self.follower.reported();
        if !self.wait(wait_ms) {
            return Ok(());
        }
        let len = match self.stream.read(buffer) {
            Ok(0) => return Err("the master has closed the connection".to_owned()),
            Ok(len) => len,
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.to_string()),
        };
        self.follower.came(buffer.get(..len).unwrap_or_default())?;
        let mut progress = self.progress.lock();
        progress.read_ms = Some(self.follower.now_ms());
        progress.following.received_bytes += len as u64;
        progress.following.announced = self.follower.announced();
        Ok(())
    }

    /// Waits for bytes; whether there are some.
    fn wait(&self, wait_ms: u64) -> bool {
        let timeout = Duration::from_millis(wait_ms);
        self.stream.has_buffered() || is_ready(&self.stream, PollFlags::IN, timeout)
    }
}

/// A connection that does not wait, and is waited for where it takes nothing.
struct Waiting<'a>(&'a mut Stream);

impl Waiting<'_> {
    fn until_taken<T>(
        &mut self,
        mut send: impl FnMut(&mut Stream) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        loop {
            match send(self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !is_ready(self.0, PollFlags::OUT, WRITE_TIMEOUT) {
                        let why = "the master takes no report";
                        return Err(std::io::Error::new(ErrorKind::TimedOut, why));
                    }
                }
                sent => return sent,
            }
        }
    }
}

impl Write for Waiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = self.until_taken(|stream| stream.write(bytes))?;
        self.until_taken(Stream::flush)?;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.until_taken(Stream::flush)
    }
}

fn is_ready(stream: &Stream, wanted: PollFlags, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).ok();
    let mut one = [PollFd::from_borrowed_fd(stream.as_fd(), wanted)];
    poll(&mut one, timeout.as_ref()).is_ok_and(|ready| ready > 0)
}
