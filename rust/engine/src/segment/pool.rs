//! The transient store pool: buffers outside of the page cache, taken and locked at start, that
//! appends go to before a commit writes them to the file (`TransientStorePool`). Memory only.

use std::sync::Arc;

use crate::lock::Mutex;

use crate::error::{Error, Result};
use crate::mmap::Map;
use crate::notice::Notices;

/// One buffer, as long as a log file.
pub type PoolBuffer = Map;

/// The buffers that no file uses now.
pub struct Pool {
    free: Mutex<Vec<Arc<PoolBuffer>>>,
    buffers: usize,
}

impl Pool {
    /// Takes and locks all buffers.
    ///
    /// # Errors
    /// [`Error::Io`] when memory is refused. A refused lock is a notice that names the limit.
    pub fn new(buffers: usize, len_bytes: u64, notices: &Notices) -> Result<Self> {
        let mut free = Vec::with_capacity(buffers);
        let mut is_refused = false;
        for _ in 0..buffers {
            let path = std::path::Path::new("transient store pool");
            let buffer =
                Map::anonymous(len_bytes).map_err(|error| Error::io("allocate", path, &error))?;
            if let Err(error) = buffer
                .lock()
                .map_err(|error| Error::io("lock", path, &error))
            {
                if !is_refused {
                    let sum = len_bytes * buffers as u64;
                    notices.warn(format!(
                        "{error}: the pool works unlocked; raise the limit of locked memory \
                         (ulimit -l, LimitMEMLOCK) to {sum} bytes"
                    ));
                }
                is_refused = true;
            }
            free.push(Arc::new(buffer));
        }
        Ok(Self {
            free: Mutex::new(free),
            buffers,
        })
    }

    /// A free buffer, empty; `None` when all are in use.
    #[must_use]
    pub fn take(&self) -> Option<PoolBuffer> {
        let mut free = self.free.lock();
        // A buffer comes back when its bytes are in the file; the append that filled it may hold it
        // for a moment longer.
        let at = free
            .iter()
            .rposition(|buffer| Arc::strong_count(buffer) == 1)?;
        let mut buffer = Arc::try_unwrap(free.remove(at)).ok()?;
        buffer.reset();
        Some(buffer)
    }

    /// Gives a buffer back whose bytes are all in the file.
    pub fn give_back(&self, buffer: Arc<PoolBuffer>) {
        self.free.lock().push(buffer);
    }

    /// Free and all buffers.
    #[must_use]
    pub fn free_of(&self) -> (usize, usize) {
        (self.free.lock().len(), self.buffers)
    }
}
