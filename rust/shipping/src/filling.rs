//! The threads of a slave that copies whole files of its master's log: one per connection. Knows sockets and
//! threads; what is copied is the refill's.

use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::Store;

use crate::background::give_way;
use crate::ended::EndedLinks;
use crate::epochs::Epochs;
use crate::refill::{Refill, RefillProgress};
use crate::stream::Stream;
use crate::tls::Protection;

/// A master that sends nothing for so long is gone: it reads a whole file to give its hash.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Copies whole files to the end of a slave's log.
pub struct Filling<D: Disk, C: Clock> {
    refill: Arc<Refill<D, C>>,
    is_stopping: Arc<AtomicBool>,
    ended: Arc<EndedLinks>,
    running: Mutex<Vec<(TcpStream, JoinHandle<()>)>>,
}

impl<D: Disk, C: Clock> Filling<D, C> {
    /// Of a store that follows a master, over no connection yet.
    ///
    /// # Errors
    /// [`Error::Io`] when descriptors are exhausted.
    pub fn new(store: Arc<Store<D, C>>, epochs: Option<Arc<Epochs<D>>>) -> Result<Self> {
        Ok(Self {
            refill: Arc::new(Refill::new(store, epochs)),
            is_stopping: Arc::default(),
            ended: Arc::new(EndedLinks::new()?),
            running: Mutex::default(),
        })
    }

    /// Whether whole files may be copied to the end of this log.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.refill.may_begin()
    }

    /// Copies over one connection more, until everything is there or it ends.
    ///
    /// # Errors
    /// [`Error::Limit`] when the socket cannot be used, or the system gives no thread.
    pub fn add(&self, address: &str, socket: OwnedFd) -> Result<()> {
        self.add_protected(address, socket, &Protection::plain())
    }

    /// As [`Filling::add`], over a connection that is protected by `how`.
    ///
    /// # Errors
    /// As [`Filling::add`].
    pub fn add_protected(&self, address: &str, socket: OwnedFd, how: &Protection) -> Result<()> {
        let refused = |why: String| Error::Limit {
            what: format!("the connection to {address}: {why}"),
            limit: 0,
        };
        let failed = |error: std::io::Error| refused(error.to_string());
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(false).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(SILENCE_MAX)).map_err(failed)?;
        socket
            .set_write_timeout(Some(SILENCE_MAX))
            .map_err(failed)?;
        let other = socket.try_clone().map_err(failed)?;
        let mut stream = Stream::new(socket, address, how).map_err(refused)?;
        let (refill, ended) = (Arc::clone(&self.refill), Arc::clone(&self.ended));
        let (is_stopping, address) = (Arc::clone(&self.is_stopping), address.to_owned());
        let spawned = std::thread::Builder::new()
            .name("mq-fill".to_owned())
            .spawn(move || {
                give_way();
                let shaken = stream.shake_hands();
                let ran = shaken
                    .and_then(|()| refill.run(&mut stream, || is_stopping.load(Ordering::Acquire)));
                let _closed = stream.socket().shutdown(Shutdown::Both);
                ended.push(&address, ran.err().unwrap_or_default());
            });
        let thread = spawned.map_err(failed)?;
        self.running.lock().push((other, thread));
        Ok(())
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> RefillProgress {
        self.refill.progress()
    }

    /// Connections that have ended: without a reason where everything is there.
    #[must_use]
    pub fn ended(&self) -> &EndedLinks {
        &self.ended
    }

    /// Closes all connections and ends their threads; what is whole beside the log stays for the next time,
    /// unless the log has everything.
    ///
    /// # Errors
    /// [`Error::Limit`] where what is left beside the log cannot be removed.
    ///
    /// # Blocking
    /// Until the file that is being taken into the log is taken.
    pub fn stop(&self) -> Result<()> {
        self.is_stopping.store(true, Ordering::Release);
        for (stream, thread) in std::mem::take(&mut *self.running.lock()) {
            // It may be closed already.
            let _closed = stream.shutdown(Shutdown::Both);
            if thread.join().is_err() {
                self.ended
                    .push("", "the copying thread has failed".to_owned());
            }
        }
        if !self.progress().is_over {
            return Ok(());
        }
        self.refill
            .clear()
            .map_err(|what| Error::Limit { what, limit: 0 })
    }
}

impl<D: Disk, C: Clock> Drop for Filling<D, C> {
    fn drop(&mut self) {
        // What is left is removed the next time.
        let _is_removed = self.stop();
    }
}
