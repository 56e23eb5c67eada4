//! The next log file, made ahead of need (`AllocateMappedFileService`). Called by the preparation
//! thread, or by the append itself where there is no such thread. Knows no page.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::{Condvar, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::poison::Poison;
use crate::segment::Segment;
use crate::units::offset_file_name;

/// Makes log files.
pub struct Preparer<D: Disk> {
    disk: D,
    dir: PathBuf,
    staging: PathBuf,
    segment_len_bytes: u64,
    notices: Arc<Notices>,
    ready: Mutex<Ready<D>>,
    /// Held while a file is made, or while none may be.
    making: Mutex<()>,
    made: Condvar,
    has_thread: AtomicBool,
    uncertain_names: Poison,
}

struct Ready<D: Disk> {
    segment: Option<Arc<Segment<D>>>,
    wanted_base: Option<u64>,
    failure: Option<Error>,
}

impl<D: Disk> Preparer<D> {
    /// Prepares for the log in `dir`. Files are made in a directory beside it and renamed into it
    /// whole, so that no broker ever finds half a file.
    #[must_use]
    pub fn new(disk: D, dir: &Path, segment_len_bytes: u64, notices: Arc<Notices>) -> Self {
        let mut staging = dir.as_os_str().to_owned();
        staging.push(".preparing");
        Self {
            disk,
            dir: dir.to_owned(),
            staging: PathBuf::from(staging),
            segment_len_bytes,
            notices,
            ready: Mutex::new(Ready {
                segment: None,
                wanted_base: None,
                failure: None,
            }),
            making: Mutex::new(()),
            made: Condvar::new(),
            has_thread: AtomicBool::new(false),
            uncertain_names: Poison::default(),
        }
    }

    /// Sets that a thread calls [`Preparer::step`] from now on (or no longer).
    pub fn set_has_thread(&self, has_thread: bool) {
        self.has_thread.store(has_thread, Ordering::Release);
        self.made.notify_all();
    }

    /// Whether a thread prepares.
    #[must_use]
    pub fn has_thread(&self) -> bool {
        self.has_thread.load(Ordering::Acquire)
    }

    /// Removes what a crash left half made.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn clear_staging(&self) -> Result<()> {
        for entry in self.disk.list(&self.staging)? {
            self.disk.unlink(&self.staging.join(entry.name))?;
        }
        if self.disk.stat(&self.staging)?.is_some() {
            self.disk.remove_dir(&self.staging)?;
        }
        Ok(())
    }

    /// Asks for the file that starts at `base`.
    pub fn want(&self, base: u64) {
        let mut ready = self.ready.lock();
        if ready.segment.is_none() {
            ready.wanted_base = Some(base);
        }
    }

    /// Makes the wanted file, if one is wanted; true when it made one.
    ///
    /// # Errors
    /// [`Error::Io`], `is_no_space` among them; the request stays. [`Error::Poisoned`] for good once
    /// the sync of a directory has failed.
    ///
    /// # Blocking
    /// Until the file is allocated and synced.
    pub fn step(&self) -> Result<bool> {
        let _making = self.making.lock();
        let base = {
            let ready = self.ready.lock();
            match (ready.wanted_base, &ready.segment) {
                (Some(base), None) => base,
                _ => return Ok(false),
            }
        };
        let made = self.uncertain_names.check().and_then(|()| self.make(base));
        if let Err(error) = &made
            && error.is_failed_dir_sync()
        {
            // Nothing is known of the names now, and a second sync could lie.
            self.uncertain_names.set(error.to_string());
        }
        let mut ready = self.ready.lock();
        match made {
            Ok(segment) => {
                ready.segment = Some(Arc::new(segment));
                ready.wanted_base = None;
                ready.failure = None;
                self.made.notify_all();
                Ok(true)
            }
            Err(error) => {
                ready.failure = Some(error.clone());
                self.made.notify_all();
                Err(error)
            }
        }
    }

    /// # Durability
    /// The file, its length and its name are durable when this returns.
    fn make(&self, base: u64) -> Result<Segment<D>> {
        self.disk.create_dir_all(&self.staging)?;
        self.disk.create_dir_all(&self.dir)?;
        let name = offset_file_name(base);
        let staged = self.staging.join(&name);
        if self.disk.stat(&staged)?.is_some() {
            self.disk.unlink(&staged)?;
        }
        let file = self.disk.open(&staged, Open::CreateNew)?;
        let made = file
            .allocate(self.segment_len_bytes)
            .and_then(|()| file.sync_data());
        if let Err(error) = made {
            // The half-made file must not keep the space that is missing.
            if let Err(second) = self.disk.unlink(&staged) {
                self.notices.warn(second.to_string());
            }
            return Err(error);
        }
        let path = self.dir.join(&name);
        self.disk.rename(&staged, &path)?;
        // Between two directories: the new name, then that it is the only one.
        self.disk.sync_dir(&self.dir)?;
        self.disk.sync_dir(&self.staging)?;
        // The descriptor follows the file to its new name; errors shall name that.
        Segment::open(&self.disk, path, base, self.segment_len_bytes, Open::Write)
    }

    /// The file that starts at `base`, when it is ready and still has its name. An official broker
    /// that is refused this store finds the lock held only after its recovery, which removes files
    /// behind the end of the log: what is appended to a file without a name is lost with the process.
    #[must_use]
    pub fn take(&self, base: u64) -> Option<Arc<Segment<D>>> {
        let segment = {
            let mut ready = self.ready.lock();
            ready.segment.take_if(|segment| segment.base() == base)?
        };
        let problem = match segment.file().is_at(segment.path()) {
            Ok(true) => return Some(segment),
            Ok(false) => "its name was removed by another process".to_owned(),
            Err(error) => error.to_string(),
        };
        let path = segment.path().display();
        self.notices.warn(format!(
            "{path} was ready and is not used: {problem}. Another one is made; see that nobody \
             else starts a broker on this store"
        ));
        None
    }

    /// Whether the file that starts at `base` is ready.
    #[must_use]
    pub fn is_ready(&self, base: u64) -> bool {
        self.ready
            .lock()
            .segment
            .as_ref()
            .is_some_and(|segment| segment.base() == base)
    }

    /// Waits until the file that starts at `base` is ready.
    ///
    /// # Errors
    /// [`Error::NoSegment`] with the last failure, or that it took longer than `timeout`.
    ///
    /// # Blocking
    /// At most `timeout`.
    pub fn wait(&self, base: u64, timeout: Duration) -> Result<()> {
        let mut ready = self.ready.lock();
        ready.failure = None;
        let deadline = std::time::Instant::now() + timeout;
        loop {
            if ready
                .segment
                .as_ref()
                .is_some_and(|segment| segment.base() == base)
            {
                return Ok(());
            }
            if let Some(error) = ready.failure.take() {
                return Err(Error::NoSegment {
                    reason: error.to_string(),
                });
            }
            if !self.has_thread() {
                return Err(Error::NoSegment {
                    reason: "preparation has ended".to_owned(),
                });
            }
            let timed_out;
            (ready, timed_out) = self.made.wait_until(ready, deadline);
            if timed_out {
                let reason = format!("not made within {} ms", timeout.as_millis());
                return Err(Error::NoSegment { reason });
            }
        }
    }

    /// Removes the file that was made and never used; as long as the answer is held none is made.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Until the file that is being made is made.
    pub fn quiet(&self) -> Result<MutexGuard<'_, ()>> {
        let making = self.making.lock();
        self.remove_unused()?;
        Ok(making)
    }

    /// A clean stop: removes the file that was made and never used.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove_unused(&self) -> Result<()> {
        let unused = {
            let mut ready = self.ready.lock();
            ready.wanted_base = None;
            ready.segment.take()
        };
        if let Some(unused) = unused
            && unused.file().is_at(unused.path())?
        {
            self.disk.unlink(unused.path())?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// The file that is ready, to be populated ahead.
    #[must_use]
    pub fn peek(&self) -> Option<Arc<Segment<D>>> {
        self.ready.lock().segment.clone()
    }
}
