//! The threads of a master over which whole files of its log are copied: one per connection, bounded in
//! number. Knows sockets and threads; the answers are the source's.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_replica::refill::GREETING;

use crate::background::give_way;
use crate::epochs::Epochs;
use crate::source::{RefillPace, Source};
use crate::stream::Stream;

/// Connections over which files are copied at once, of all slaves.
pub const COPIES_MAX: usize = 8;
/// A slave that asks for nothing, or takes nothing, for so long is gone: while a disk syncs a file it is silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Somebody who copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyStanding {
    /// The address.
    pub address: String,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}

struct Copy {
    address: String,
    sent: Arc<AtomicU64>,
    socket: TcpStream,
    thread: JoinHandle<()>,
}

/// Those who copy whole files of a store's log.
pub(crate) struct Copies<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    epochs: Option<Arc<Epochs<D>>>,
    pace: Arc<RefillPace>,
    is_stopping: Arc<AtomicBool>,
    running: Vec<Copy>,
}

/// A socket that counts what is sent.
struct Counted {
    socket: Stream,
    sent: Arc<AtomicU64>,
}

impl std::io::Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.socket.read(into)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.socket.write(bytes)?;
        self.sent.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

impl<D: Disk, C: Clock> Copies<D, C> {
    pub(crate) fn new(
        store: &Arc<Store<D, C>>,
        epochs: Option<&Arc<Epochs<D>>>,
        bytes_per_second_max: Option<u64>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            epochs: epochs.map(Arc::clone),
            pace: Arc::new(RefillPace::new(bytes_per_second_max)),
            is_stopping: Arc::default(),
            running: Vec::new(),
        }
    }

    /// Gives files to somebody who has sent the greeting.
    ///
    /// # Errors
    /// Why it is closed.
    pub(crate) fn begin(&mut self, address: &str, stream: Stream) -> Result<(), String> {
        self.running.retain(|copy| !copy.thread.is_finished());
        if self.running.len() >= COPIES_MAX {
            return Err(format!("{COPIES_MAX} connections copy files already"));
        }
        let failed = |error: std::io::Error| error.to_string();
        let socket = stream.socket();
        socket.set_nonblocking(false).map_err(failed)?;
        socket.set_read_timeout(Some(SILENCE_MAX)).map_err(failed)?;
        socket
            .set_write_timeout(Some(SILENCE_MAX))
            .map_err(failed)?;
        let other = socket.try_clone().map_err(failed)?;
        let sent = Arc::new(AtomicU64::new(0));
        let mut counted = Counted {
            socket: stream,
            sent: Arc::clone(&sent),
        };
        let (epochs, pace) = (self.epochs.clone(), Arc::clone(&self.pace));
        let mut source = Source::new(Arc::clone(&self.store), epochs, pace);
        let is_stopping = Arc::clone(&self.is_stopping);
        let spawned = std::thread::Builder::new()
            .name("mq-refill".to_owned())
            .spawn(move || {
                give_way();
                // Whoever it is sees why by the end of its connection.
                if counted.write_all(&GREETING).is_ok() {
                    let _why = source.serve(&mut counted, || is_stopping.load(Ordering::Acquire));
                }
                let _closed = counted.socket.socket().shutdown(Shutdown::Both);
            });
        self.running.push(Copy {
            address: address.to_owned(),
            sent,
            socket: other,
            thread: spawned.map_err(failed)?,
        });
        Ok(())
    }

    /// Brings `standings` up to now.
    pub(crate) fn note_standings(&mut self, standings: &mut Vec<CopyStanding>) {
        standings.clear();
        if self.running.is_empty() {
            return;
        }
        self.running.retain(|copy| !copy.thread.is_finished());
        let standing = |copy: &Copy| CopyStanding {
            address: copy.address.clone(),
            sent_bytes: copy.sent.load(Ordering::Relaxed),
        };
        standings.extend(self.running.iter().map(standing));
    }
}

impl<D: Disk, C: Clock> Drop for Copies<D, C> {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        for copy in self.running.drain(..) {
            let _closed = copy.socket.shutdown(Shutdown::Both);
            // It has ended, however it did.
            let _ended = copy.thread.join();
        }
    }
}
