//! The mark of the last session (`mqcore.session` beside `abort`): in which start of the machine it
//! ran, where the log began, and up to which physical offset it was durable. It distinguishes damage from a
//! torn end. Knows no record and no queue.
//!
//! The mark counts only while nobody else has worked on the directory. Official brokers write `lock`
//! into their lock file at each start; an open of ours puts [`OURS`] there, so that the content shows
//! who was here last, also in a copy of the directory.
//!
//! Two slots of one sector each, in pages of their own, are written in turns: what tears one write
//! leaves the other. Big endian:
//!
//! | at | field | type |
//! |---|---|---|
//! | 0 | magic `MQCSESS1` | 8 bytes |
//! | 8 | number of the write | u64 |
//! | 16 | boot id, 0 where it is not known | u128 |
//! | 32 | durable physical offset | u64 |
//! | 40 | 1 after a clean stop: the log ends there | u64 |
//! | 48 | physical offset at which the log begins | u64 |
//! | 56 | CRC-32 of all before | u32 |
//!
//! Locks: the slot that was written last, held while the next one is written and synced; no other lock is
//! taken under it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Open, read_whole};
use crate::error::Result;
use crate::lock::Mutex;
use crate::notice::Notices;
use crate::units::PAGE_BYTES;

/// Name of the mark in the root of the store; official brokers ignore it.
pub(super) const SESSION_NAME: &str = "mqcore.session";
/// What is in the lock file while nobody else has started on the directory.
const OURS: &[u8] = b"mqcore";
/// What an official broker writes over the first bytes of the lock file.
const THEIRS: &[u8] = b"lock";
/// Longest lock file that is read: it holds a word.
const LOCK_LEN_MAX_BYTES: u64 = PAGE_BYTES;
const MAGIC: [u8; 8] = *b"MQCSESS1";
/// What a device writes whole.
const SLOT_LEN_BYTES: usize = 512;
const SLOTS: u64 = 2;
/// Length of the file: a page for each slot.
const FILE_LEN_BYTES: u64 = SLOTS * PAGE_BYTES;
/// Bytes before the CRC.
const COVERED_BYTES: usize = 56;

/// What the last session left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// The machine has not started anew since: no page was lost.
    pub(super) is_same_boot: bool,
    /// Everything below was synced.
    pub(super) durable: u64,
    /// The session was stopped, and the log ended there.
    pub(super) is_stopped: bool,
    /// Where the log began.
    pub(super) log_start: u64,
}

/// One slot as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    number: u64,
    boot_id: u128,
    durable: u64,
    is_stopped: bool,
    log_start: u64,
}

impl Slot {
    fn encode(self) -> [u8; SLOT_LEN_BYTES] {
        let mut bytes = Vec::with_capacity(SLOT_LEN_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.boot_id.to_be_bytes());
        bytes.extend_from_slice(&self.durable.to_be_bytes());
        bytes.extend_from_slice(&u64::from(self.is_stopped).to_be_bytes());
        bytes.extend_from_slice(&self.log_start.to_be_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        let mut slot = [0; SLOT_LEN_BYTES];
        for (target, byte) in slot.iter_mut().zip(bytes) {
            *target = byte;
        }
        slot
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (covered, rest) = bytes.split_at_checked(COVERED_BYTES)?;
        if rest.first_chunk() != Some(&crc32fast::hash(covered).to_be_bytes()) {
            return None;
        }
        let number = |at: usize| {
            let bytes = covered.get(at..)?.first_chunk()?;
            Some(u64::from_be_bytes(*bytes))
        };
        let boot_id = covered.get(16..)?.first_chunk()?;
        covered.starts_with(&MAGIC).then_some(Self {
            number: number(8)?,
            boot_id: u128::from_be_bytes(*boot_id),
            durable: number(32)?,
            is_stopped: number(40)? != 0,
            log_start: number(48)?,
        })
    }
}

/// What the lock file holds, read before it is locked.
pub(super) fn read_lock<D: Disk>(disk: &D, lock_path: &Path) -> Result<Vec<u8>> {
    Ok(read_whole(disk, lock_path, LOCK_LEN_MAX_BYTES)?.unwrap_or_default())
}

/// The mark that the last session left; `None` where there is none that counts.
pub(super) fn read_mark<D: Disk>(
    disk: &D,
    root: &Path,
    lock_content: &[u8],
    notices: &Notices,
) -> Result<Option<Mark>> {
    let path = root.join(SESSION_NAME);
    let shown = path.display();
    let Some(slot) = newest(disk, &path)? else {
        if disk.stat(&path)?.is_some() {
            notices.warn(format!(
                "{shown} is damaged: what was durable is judged by the checkpoint"
            ));
        } else if lock_content == OURS {
            notices.warn(format!(
                "{shown} is gone: what was durable is judged by the checkpoint"
            ));
        }
        return Ok(None);
    };
    if lock_content.starts_with(THEIRS) {
        notices.info(format!(
            "{shown} does not count: another broker worked on the store since"
        ));
        return Ok(None);
    }
    let boot_id = disk.boot_id().unwrap_or(0);
    Ok(Some(Mark {
        is_same_boot: boot_id != 0 && boot_id == slot.boot_id,
        durable: slot.durable,
        is_stopped: slot.is_stopped,
        log_start: slot.log_start,
    }))
}

/// The slot that was written last and is whole.
fn newest<D: Disk>(disk: &D, path: &Path) -> Result<Option<Slot>> {
    if disk.stat(path)?.is_none_or(|stat| stat.is_dir) {
        return Ok(None);
    }
    let file = disk.open(path, Open::Read)?;
    let mut found: Option<Slot> = None;
    for at in 0..SLOTS {
        let mut bytes = [0; SLOT_LEN_BYTES];
        let got = file.read_at(&mut bytes, at * PAGE_BYTES)?;
        let slot = bytes.get(..got).and_then(Slot::decode);
        if let Some(slot) = slot
            && found.is_none_or(|found| found.number < slot.number)
        {
            found = Some(slot);
        }
    }
    Ok(found)
}

/// The mark of this session.
pub(super) struct Session<D: Disk> {
    disk: D,
    path: PathBuf,
    lock_path: PathBuf,
    written: Mutex<Written<D>>,
}

struct Written<D: Disk> {
    file: Option<D::File>,
    slot: Slot,
    /// Whether the slot is on the disk, as it is here.
    is_durable: bool,
}

impl<D: Disk> Session<D> {
    /// The mark of a session that begins; writes nothing yet.
    pub(super) fn begin(disk: &D, root: &Path) -> Result<Self> {
        let path = root.join(SESSION_NAME);
        let before = newest(disk, &path)?.map_or(0, |slot| slot.number);
        let slot = Slot {
            number: before,
            boot_id: disk.boot_id().unwrap_or(0),
            durable: 0,
            is_stopped: false,
            log_start: 0,
        };
        Ok(Self {
            disk: disk.clone(),
            path,
            lock_path: root.join("lock"),
            written: Mutex::new(Written {
                file: None,
                slot,
                is_durable: false,
            }),
        })
    }

    /// Writes down where the log begins and up to where it is durable, unless that is there. A mark
    /// never claims more than what a completed sync has made durable: the caller has the end from one.
    ///
    /// # Durability
    /// On return the mark survives power loss; a crash within leaves this one or the one before.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: the mark before it holds, which claims less.
    ///
    /// # Blocking
    /// Until the device has answered.
    pub(super) fn note(&self, log: Range<u64>, is_stopped: bool) -> Result<()> {
        let mut written = self.written.lock();
        let before = written.slot;
        let noted = (before.log_start..before.durable, before.is_stopped);
        if written.is_durable && noted == (log.clone(), is_stopped) {
            return Ok(());
        }
        let slot = Slot {
            number: before.number + 1,
            durable: log.end,
            is_stopped,
            log_start: log.start,
            ..before
        };
        let file = match written.file.take() {
            Some(file) => file,
            None => self.make_file()?,
        };
        let at = slot.number % SLOTS * PAGE_BYTES;
        file.write_at(&slot.encode(), at)?;
        file.sync_data()?;
        written.file = Some(file);
        written.slot = slot;
        written.is_durable = true;
        Ok(())
    }

    /// Puts our word into the lock file: the mark counts from here on. It must be durable already.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub(super) fn claim(&self) -> Result<()> {
        if read_lock(&self.disk, &self.lock_path)? == OURS {
            return Ok(());
        }
        let file = self.disk.open(&self.lock_path, Open::Create)?;
        file.write_at(OURS, 0)?;
        if file.len_bytes()? > OURS.len() as u64 {
            file.set_len(OURS.len() as u64)?;
        }
        file.sync_data()?;
        match self.lock_path.parent() {
            Some(dir) => self.disk.sync_dir(dir),
            None => Ok(()),
        }
    }

    /// Opens the file at its full length, with its name durable.
    fn make_file(&self) -> Result<D::File> {
        let file = self.disk.open(&self.path, Open::Create)?;
        let len_bytes = file.len_bytes()?;
        if len_bytes < FILE_LEN_BYTES {
            // Real zeros instead of a hole: a hole could meet a full disk at every later write.
            let zeros = vec![0; (FILE_LEN_BYTES - len_bytes) as usize];
            file.write_at(&zeros, len_bytes)?;
        }
        if let Some(dir) = self.path.parent() {
            self.disk.sync_dir(dir)?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::twin::TwinDisk;

    fn begun(disk: &TwinDisk) -> Session<TwinDisk> {
        disk.create_dir_all(Path::new("/s")).unwrap();
        Session::begin(disk, Path::new("/s")).unwrap()
    }

    fn mark(disk: &TwinDisk) -> Option<Mark> {
        let lock = read_lock(disk, Path::new("/s/lock")).unwrap();
        read_mark(disk, Path::new("/s"), &lock, &Notices::default()).unwrap()
    }

    #[test]
    fn the_newest_whole_slot_counts() {
        let disk = TwinDisk::new();
        let session = begun(&disk);
        session.note(0..10, false).unwrap();
        session.claim().unwrap();
        session.note(0..20, false).unwrap();
        let events = disk.events();
        session.note(0..20, false).unwrap();
        assert_eq!(disk.events(), events, "nothing is written twice");
        assert_eq!(mark(&disk).unwrap().durable, 20);
        let path = Path::new("/s").join(SESSION_NAME);
        let newer = 2 % SLOTS * PAGE_BYTES;
        assert!(disk.flip_bit(&path, newer + 33, 1));
        assert_eq!(mark(&disk).unwrap().durable, 10, "the slot before it");
        assert!(disk.flip_bit(&path, 1 % SLOTS * PAGE_BYTES + 12, 1));
        assert_eq!(mark(&disk), None);
    }

    #[test]
    fn the_mark_is_void_once_an_official_broker_has_started() {
        let disk = TwinDisk::new();
        let session = begun(&disk);
        session.note(0..10, false).unwrap();
        assert!(mark(&disk).is_some(), "no lock file: nobody was here");
        session.claim().unwrap();
        session.note(0..30, true).unwrap();
        assert!(mark(&disk).unwrap().is_stopped);
        let lock = disk.open(Path::new("/s/lock"), Open::Write).unwrap();
        lock.write_at(THEIRS, 0).unwrap();
        assert_eq!(mark(&disk), None);
        let again = begun(&disk);
        again.note(0..40, false).unwrap();
        again.claim().unwrap();
        assert_eq!(mark(&disk).unwrap().durable, 40);
    }

    #[test]
    fn another_start_of_the_machine_is_seen() {
        let disk = TwinDisk::new();
        let session = begun(&disk);
        session.note(0..10, false).unwrap();
        assert!(mark(&disk).unwrap().is_same_boot);
        disk.set_boot_id(Some(77));
        assert!(!mark(&disk).unwrap().is_same_boot);
        disk.set_boot_id(None);
        assert!(!mark(&disk).unwrap().is_same_boot);
    }
}
