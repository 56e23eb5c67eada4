//! The thread of a slave: it reads what its master sends, looks whether it is log, appends it, and reports
//! what it holds as durably as its settings promise. One connection at a time; where the log is between two
//! records is kept from one to the next.

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
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::Store;
use mqcore_replica::{Received, RecordWalk, SlaveLink, Timing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::ended::EndedLinks;

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
        let replica = store.replica();
        replica.follow();
        let extent = replica.extent();
        // A store that was opened ends behind a whole record.
        let walk = RecordWalk::new(replica.appended(), extent.file_len_bytes);
        Ok(Self {
            timing,
            walk: Arc::new(Mutex::new(walk)),
            progress: Arc::default(),
            ended: Arc::new(EndedLinks::new()?),
            running: Mutex::default(),
            store,
        })
    }

    /// Follows a master over a connection, until that ends. An earlier connection is closed.
    ///
    /// # Errors
    /// [`Error::Limit`] when the socket cannot be used, or the system gives no thread.
    ///
    /// # Blocking
    /// Until the thread of an earlier connection has ended.
    pub fn follow(&self, address: &str, socket: OwnedFd) -> Result<()> {
        self.stop();
        let failed = |error: std::io::Error| Error::Limit {
            what: format!("the connection to {address}: {error}"),
            limit: 0,
        };
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream
            .set_write_timeout(Some(WRITE_TIMEOUT))
            .map_err(failed)?;
        let other = stream.try_clone().map_err(failed)?;
        let replica = self.store.replica();
        let end = replica.appended();
        let link = SlaveLink::new(end, end == 0, self.timing, replica.elapsed_ms());
        let mut run = Run {
            store: Arc::clone(&self.store),
            stream,
            link,
            walk: Arc::clone(&self.walk),
            progress: Arc::clone(&self.progress),
            held: 0,
        };
        {
            let mut progress = self.progress.lock();
            progress.following.address = address.to_owned();
            progress.following.reported = None;
            progress.following.announced = end;
            progress.read_ms = None;
        }
        let (ended, progress) = (Arc::clone(&self.ended), Arc::clone(&self.progress));
        let address = address.to_owned();
        let spawned = std::thread::Builder::new()
            .name("mq-follow".to_owned())
            .spawn(move || {
                let why = run.run();
                progress.lock().following.address.clear();
                drop(run);
                ended.push(&address, why);
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
    store: Arc<Store<D, C>>,
    stream: TcpStream,
    link: SlaveLink,
    walk: Arc<Mutex<RecordWalk>>,
    progress: Arc<Mutex<Progress>>,
    /// End of what is held as durably as the settings promise.
    held: u64,
}

impl<D: Disk, C: Clock> Run<D, C> {
    /// Follows until the link ends; why it did.
    fn run(&mut self) -> String {
        let mut buffer = vec![0; READ_LEN_BYTES];
        // The first report names the end of the log, and a master takes it for an acknowledgement.
        match self.make_durable() {
            Ok(true) => {}
            Ok(false) => return "the sync of the log here takes too long".to_owned(),
            Err(why) => return why,
        }
        loop {
            if let Err(why) = self.round(&mut buffer) {
                return why;
            }
        }
    }

    fn now_ms(&self) -> u64 {
        self.store.replica().elapsed_ms()
    }

    fn round(&mut self, buffer: &mut [u8]) -> std::result::Result<(), String> {
        let now_ms = self.now_ms();
        self.link.check(now_ms).map_err(|fault| fault.to_string())?;
        self.report(now_ms)?;
        if !self.wait(self.link.wait_ms(now_ms)) {
            return Ok(());
        }
        let len = match self.stream.read(buffer) {
            Ok(0) => return Err("the master has closed the connection".to_owned()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        self.link.read(self.now_ms());
        self.take(buffer.get(..len).unwrap_or_default())?;
        self.settle(len as u64)
    }

    /// Waits for bytes; whether there are some.
    fn wait(&self, wait_ms: u64) -> bool {
        let timeout = Timespec::try_from(Duration::from_millis(wait_ms)).ok();
        let mut one = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
        poll(&mut one, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Appends what has come: the bodies of many frames at once, as far as they are of one file.
    fn take(&mut self, mut bytes: &[u8]) -> std::result::Result<(), String> {
        let walk = Arc::clone(&self.walk);
        let mut walk = walk.lock();
        let file_len_bytes = self.store.replica().extent().file_len_bytes;
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut after = walk.clone();
        loop {
            let received = self.link.feed(&mut bytes);
            match received {
                Ok(Some(Received::Bytes { offset, bytes })) => {
                    if offset.is_multiple_of(file_len_bytes) {
                        self.append(&mut pieces, &mut walk, &after)?;
                    }
                    if let Err(fault) = after.take(bytes) {
                        self.append(&mut pieces, &mut walk, &after)?;
                        return Err(fault.to_string());
                    }
                    pieces.push(bytes);
                }
                Ok(Some(Received::Begin(offset))) => {
                    let begun = self.store.replica().begin_at(offset);
                    begun.map_err(|error| error.to_string())?;
                    after = RecordWalk::new(offset, file_len_bytes);
                    *walk = after.clone();
                }
                Ok(None) => return self.append(&mut pieces, &mut walk, &after),
                Err(fault) => {
                    self.append(&mut pieces, &mut walk, &after)?;
                    return Err(fault.to_string());
                }
            }
        }
    }

    /// Appends what was looked at; `after` is the walk behind it.
    fn append(
        &self,
        pieces: &mut Vec<&[u8]>,
        walk: &mut RecordWalk,
        after: &RecordWalk,
    ) -> std::result::Result<(), String> {
        if pieces.is_empty() {
            return Ok(());
        }
        let replica = self.store.replica();
        let appended = replica.append(walk.at(), pieces, after.whole_ms());
        appended.map_err(|error| error.to_string())?;
        pieces.clear();
        *walk = after.clone();
        Ok(())
    }

    /// Waits until what was appended is as durable as the settings promise; whether it is in time.
    fn make_durable(&mut self) -> std::result::Result<bool, String> {
        let end = self.store.replica().appended();
        if end > self.held {
            let settled = self.store.durability().settle(end);
            if settled.map_err(|error| error.to_string())? != PutStatus::PutOk {
                return Ok(false);
            }
            self.held = end;
        }
        Ok(true)
    }

    /// Takes note of what has come when it is as durable as the settings promise.
    fn settle(&mut self, len: u64) -> std::result::Result<(), String> {
        // What is late is not reported: the next round waits for it again.
        let _is_in_time = self.make_durable()?;
        let now_ms = self.now_ms();
        let mut progress = self.progress.lock();
        progress.read_ms = Some(now_ms);
        progress.following.received_bytes += len;
        progress.following.announced = self.link.announced();
        Ok(())
    }

    fn report(&mut self, now_ms: u64) -> std::result::Result<(), String> {
        let Some(report) = self.link.report(self.held, now_ms) else {
            return Ok(());
        };
        let written = self.stream.write_all(&report);
        written.map_err(|error| error.to_string())?;
        self.progress.lock().following.reported = self.link.reported();
        Ok(())
    }
}
