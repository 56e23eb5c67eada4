//! The epochs of a store's log and the file that keeps them: it is written before what they are about is
//! appended. Knows no link and no role.
//!
//! Locks: the table, over a write of the file; what was asked for, over a write of its file; no other one
//! meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_engine::small_state;
use mqcore_engine::store::Store;
use mqcore_replica::{EpochEntry, EpochTable};

/// The epochs of one open store.
pub struct Epochs<D: Disk> {
    disk: D,
    path: PathBuf,
    table: Mutex<Arc<EpochTable>>,
    /// The epoch of which a start may have lost the end, this one or an earlier one.
    lost: Option<i32>,
    /// What an earlier process had asked for last.
    asked_before: Option<Reign>,
    /// What was asked for last, as the file has it.
    asked: Mutex<Option<Reign>>,
}

/// What a master leads, and what it asks its controller for another set with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reign {
    /// The epoch of the master.
    pub epoch: i32,
    /// The epoch of the sync-state set that it knows.
    pub set_epoch: i32,
}

/// What is behind the name of the file of epochs in that of the file that keeps what was asked for last:
/// two decimal numbers, `epoch-setEpoch`.
const ASKED_SUFFIX: &str = ".asked";

/// What is behind the name of the file of epochs in that of the file that keeps the epoch which may have lost
/// its end: a decimal number.
const LOST_SUFFIX: &str = ".lost";

impl<D: Disk> Epochs<D> {
    /// Reads the file of epochs of a store that was opened. Entries that begin behind the end of the log
    /// are forgotten: what they are about was lost. A log without a file of epochs was copied before there
    /// were some; one whose file is empty has lost them.
    ///
    /// # Errors
    /// [`Error::BadText`] where neither the file nor its `.bak` can be read, or the file of a log is empty;
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads, and may write, the file.
    pub fn open<C: Clock>(store: &Store<D, C>, path: &Path) -> Result<Self> {
        let files = store.files();
        let read = small_state::read(&files.disk, path, &files.notices, EpochTable::of_text)?;
        let end = store.replica().appended();
        if read.is_none() && end > 0 && files.disk.stat(path)?.is_some() {
            let why = format!(
                "it is empty, and the log ends at {end}: nobody knows whose it is. Restore it, or remove \
                 it together with the log, to have this replica filled anew"
            );
            let path = path.to_owned();
            return Err(Error::BadText { path, why });
        }
        let table = read.map(|read| read.value).unwrap_or_default();
        let lost_path = beside(path, LOST_SUFFIX);
        let mut lost = small_state::read(&files.disk, &lost_path, &files.notices, epoch_of)?
            .map(|read| read.value);
        let last = table.last().map(|last| last.epoch);
        if !store.report().is_log_whole && last.is_some() && lost != last {
            // A later start finds nothing of it any more.
            let text = last.unwrap_or_default().to_string();
            small_state::write(&files.disk, &lost_path, text.as_bytes())?;
            lost = last;
        }
        if store.report().is_tail_certain {
            // Nobody but the epoch counted on what nobody had synced.
            store.settle_end()?;
        }
        let asked_path = beside(path, ASKED_SUFFIX);
        let asked = small_state::read(&files.disk, &asked_path, &files.notices, asked_of)?;
        let asked = asked.map(|read| read.value);
        let epochs = Self {
            disk: files.disk.clone(),
            path: path.to_owned(),
            table: Mutex::new(Arc::new(table)),
            lost,
            asked_before: asked,
            asked: Mutex::new(asked),
        };
        epochs.change(|table| table.forget_behind(end))?;
        Ok(epochs)
    }

    /// The epochs now.
    #[must_use]
    pub fn table(&self) -> Arc<EpochTable> {
        Arc::clone(&self.table.lock())
    }

    /// Adds an epoch of a master that the log follows; nothing where the log has it already.
    ///
    /// # Durability
    /// On return the entry survives power loss.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn append(&self, entry: EpochEntry) -> Result<()> {
        self.change(|table| table.append(entry))
    }

    /// The store leads `epoch` from `end`, the end of its log, on; where that begins. An epoch that is the
    /// last one already goes on where `goes_on` is set: nothing of it can be lost then. Else it is refused:
    /// slaves may hold what was lost of it, and nothing would show that what is stored there now is another
    /// message. RocketMQ begins it anew there: then slaves cut all that they have of it, and who is in sync holds
    /// less than was acknowledged.
    ///
    /// It is refused, too, where an earlier process had asked for another set in place of `set_epoch`: the
    /// request may be on its way, and nobody would wait for who comes in by it.
    ///
    /// A log without any epoch is of this one from `log_start`, its first byte, on.
    ///
    /// # Durability
    /// As [`Epochs::append`].
    ///
    /// # Errors
    /// [`Error::NotWritable`] where the log has a later epoch, or this one cannot be led on;
    /// [`Error::Io`].
    pub fn lead(&self, reign: Reign, log_start: u64, end: u64, goes_on: bool) -> Result<u64> {
        let Reign { epoch, set_epoch } = reign;
        let last = self.table().last();
        let last_epoch = last.map_or(-1, |last| last.epoch);
        if epoch < last_epoch || epoch < 0 {
            let reason = format!("epoch {epoch} is to be led, and the log has epoch {last_epoch}");
            return Err(Error::NotWritable { reason });
        }
        let is_asked = |asked: Reign| asked.epoch == epoch && asked.set_epoch >= set_epoch;
        if self.asked_before.is_some_and(is_asked) {
            let reason = format!(
                "epoch {epoch} is to be led on, and this broker had asked for another set than that of \
                 epoch {set_epoch} before it started: another epoch is needed"
            );
            return Err(Error::NotWritable { reason });
        }
        let last_of_epoch = last.filter(|last| last.epoch == epoch);
        if self.lost == Some(epoch) || last_of_epoch.is_some() && !goes_on {
            // Also where the entry went with the end of the log.
            let reason = format!(
                "epoch {epoch} is to be led on, and power loss may have taken its end, which slaves may \
                 have: another epoch is needed"
            );
            return Err(Error::NotWritable { reason });
        }
        if let Some(last) = last_of_epoch {
            return Ok(last.start);
        }
        let start = if last.is_some() { end } else { log_start };
        self.append(EpochEntry { epoch, start })?;
        Ok(start)
    }

    /// Notes that the master of `reign` is going to ask for another set: to be called before it does.
    ///
    /// # Durability
    /// On return that survives power loss.
    ///
    /// # Errors
    /// [`Error::Io`]: it must not be asked for.
    pub fn note_asked(&self, reign: Reign) -> Result<()> {
        let Reign { epoch, set_epoch } = reign;
        let asked = Some(reign);
        let mut known = self.asked.lock();
        if *known != asked {
            let text = format!("{epoch}-{set_epoch}");
            small_state::write(
                &self.disk,
                &beside(&self.path, ASKED_SUFFIX),
                text.as_bytes(),
            )?;
            *known = asked;
        }
        Ok(())
    }

    /// Forgets the epochs behind `epoch`, the last one that the master of the log has, too.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn forget_behind_epoch(&self, epoch: i32) -> Result<()> {
        self.change(|table| table.forget_from_epoch(epoch.saturating_add(1)))
    }

    /// Forgets the epochs whose log files are gone; the log begins at `start`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn forget_before(&self, start: u64) -> Result<()> {
        self.change(|table| table.forget_before(start))
    }

    /// Changes the table and then the file, where that changes something.
    fn change(&self, change: impl FnOnce(&mut EpochTable) -> bool) -> Result<()> {
        let mut known = self.table.lock();
        let mut table = EpochTable::clone(&known);
        if !change(&mut table) {
            return Ok(());
        }
        // As in RocketMQ, an empty table is not written: its entries are forgotten again at the next open.
        if table.last().is_some() {
            small_state::write(&self.disk, &self.path, &table.to_text())?;
        }
        *known = Arc::new(table);
        Ok(())
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn asked_of(text: &[u8]) -> std::result::Result<Reign, String> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let numbers = text.split_once('-').and_then(|(epoch, set_epoch)| {
        Some(Reign {
            epoch: epoch.parse().ok()?,
            set_epoch: set_epoch.parse().ok()?,
        })
    });
    numbers.ok_or_else(|| format!("{text:?} is no epoch with that of a set"))
}

fn epoch_of(text: &[u8]) -> std::result::Result<i32, String> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok());
    number.ok_or_else(|| "it is no epoch".to_owned())
}
