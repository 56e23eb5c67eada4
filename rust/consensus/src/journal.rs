//! A file of byte records that are durable one by one. Knows no record's meaning.
//!
//! File `mqcore-controller.log`, all numbers big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `MQCTLOG1` |
//! | records | each: magic `0x4d514352` (4), length n (4), number (8), CRC-32 of length, number and content (4), content (n) |
//!
//! Numbers begin at 1 and have no gaps. The first record comes with the file, which is written under
//! another name; every other one is written and synced before the next one is begun. So only the last one
//! may be torn, and never the first: a bad first record is damage and is refused, and so are bytes that are
//! no record with a whole record behind them. The file is written anew when it is opened, too: what was only
//! in the page cache of a failed sync is never taken for durable.

use std::path::{Path, PathBuf};

use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::{Error, Result};
use mqcore_engine::poison::Poison;

/// The name of the file.
pub const FILE_NAME: &str = "mqcore-controller.log";
/// The name of the lock that one process holds.
const LOCK_NAME: &str = "lock";
/// Where the file is written anew.
const NEW_NAME: &str = "mqcore-controller.log.new";

const FILE_MAGIC: &[u8; 8] = b"MQCTLOG1";
const RECORD_MAGIC: u32 = 0x4d51_4352;
/// Magic, length, number, CRC.
const HEAD_BYTES: usize = 4 + 4 + 8 + 4;
/// Bytes of a record: a snapshot of ten thousand names with their brokers has some tens of MiB.
pub const RECORD_BYTES_MAX: usize = 256 << 20;
/// Bytes of a file that is read: a snapshot and what follows it until the next one.
const FILE_BYTES_MAX: u64 = 2 * (RECORD_BYTES_MAX as u64);

/// An open file of records.
pub struct Journal<D: Disk> {
    disk: D,
    dir: PathBuf,
    file: D::File,
    end: u64,
    next_number: u64,
    poison: Poison,
    _lock: D::Lock,
}

impl<D: Disk> Journal<D> {
    /// Opens the file of a directory, which is made where it is missing; returns the records.
    ///
    /// # Durability
    /// The records are durable.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::ForeignFile`] where another process has it open, or where it is damaged.
    pub fn open(disk: D, dir: &Path) -> Result<(Self, Vec<Vec<u8>>)> {
        disk.create_dir_all(dir)?;
        let lock_path = dir.join(LOCK_NAME);
        let lock = disk.lock(&lock_path).map_err(|error| match error {
            Error::Locked { path } => Error::ForeignFile {
                path,
                why: "a controller runs on this directory; stop it first, or set controllerStorePath \
                      to another one"
                    .to_owned(),
            },
            other => other,
        })?;
        let path = dir.join(FILE_NAME);
        let records = match disk.stat(&path)? {
            Some(_) => read(&disk, &path)?,
            None => Vec::new(),
        };
        let contents: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let (file, end) = written(&disk, dir, &contents)?;
        let journal = Self {
            disk,
            dir: dir.to_owned(),
            file,
            end,
            next_number: records.len() as u64 + 1,
            poison: Poison::default(),
            _lock: lock,
        };
        Ok((journal, records))
    }

    /// Appends a record.
    ///
    /// # Durability
    /// On return the record survives power loss.
    ///
    /// # Errors
    /// [`Error::Limit`] where it is too long. [`Error::Io`]: it is not known whether the record is there
    /// at the next open, and nothing is written any more: [`Error::Poisoned`].
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        if self.next_number == 1 {
            return self.replace(record);
        }
        self.poison.check()?;
        expect_length(record.len())?;
        let bytes = framed(self.next_number, record);
        let done = self
            .file
            .write_at(&bytes, self.end)
            .and_then(|()| self.file.sync_data());
        self.latched(done)?;
        self.end += bytes.len() as u64;
        self.next_number += 1;
        Ok(())
    }

    /// Puts a record in the place of all.
    ///
    /// # Durability
    /// At any moment either all the old ones are there, or the new one; on return the new one.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn replace(&mut self, record: &[u8]) -> Result<()> {
        self.poison.check()?;
        expect_length(record.len())?;
        let done = written(&self.disk, &self.dir, &[record]);
        let (file, end) = self.latched(done)?;
        self.file = file;
        self.end = end;
        self.next_number = 2;
        Ok(())
    }

    /// Bytes of the file.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Why nothing is written any more, where something failed.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.poison.reason()
    }

    /// Lets nothing be written any more.
    pub fn fail(&self, reason: &str) {
        self.poison.set(reason);
    }

    fn latched<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            self.poison.set(error.to_string());
        }
        done
    }
}

fn expect_length(len_bytes: usize) -> Result<()> {
    if len_bytes > RECORD_BYTES_MAX {
        return Err(Error::Limit {
            what: "bytes of a record of a controller's log".to_owned(),
            limit: RECORD_BYTES_MAX as u64,
        });
    }
    Ok(())
}

fn crc(number: u64, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&(content.len() as u64).to_be_bytes());
    hasher.update(&number.to_be_bytes());
    hasher.update(content);
    hasher.finalize()
}

fn framed(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + content.len());
    bytes.extend_from_slice(&RECORD_MAGIC.to_be_bytes());
    // Bounded by `RECORD_BYTES_MAX`.
    let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&crc(number, content).to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// Writes a whole file under another name, and gives it its own.
fn written<D: Disk>(disk: &D, dir: &Path, records: &[&[u8]]) -> Result<(D::File, u64)> {
    let new = dir.join(NEW_NAME);
    if disk.stat(&new)?.is_some() {
        disk.unlink(&new)?;
    }
    let mut bytes = FILE_MAGIC.to_vec();
    for (number, record) in (1..).zip(records) {
        bytes.extend_from_slice(&framed(number, record));
    }
    let file = disk.open(&new, Open::CreateNew)?;
    file.write_at(&bytes, 0)?;
    file.sync_data()?;
    disk.rename(&new, &dir.join(FILE_NAME))?;
    disk.sync_dir(dir)?;
    Ok((file, bytes.len() as u64))
}

fn read<D: Disk>(disk: &D, path: &Path) -> Result<Vec<Vec<u8>>> {
    let file = disk.open(path, Open::Read)?;
    let len = file.len_bytes()?;
    let foreign = |why: String| Error::ForeignFile {
        path: path.to_owned(),
        why,
    };
    let fitting = usize::try_from(len).ok().filter(|_| len <= FILE_BYTES_MAX);
    let len = fitting.ok_or_else(|| {
        foreign(format!(
            "it has {len} bytes, more than any log of a controller ({FILE_BYTES_MAX})"
        ))
    })?;
    let mut bytes = vec![0; len];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    let Some(mut rest) = bytes.strip_prefix(FILE_MAGIC) else {
        return Err(foreign(
            "it is no log of a controller of this version; set controllerStorePath to another \
             directory, or restore the file"
                .to_owned(),
        ));
    };
    let mut records = Vec::new();
    while let Some((content, behind)) = whole(rest, records.len() as u64 + 1) {
        records.push(content.to_vec());
        rest = behind;
    }
    let position = count - rest.len();
    let is_torn = !records.is_empty() && !is_followed(rest, records.len() as u64 + 1);
    if !rest.is_empty() && !is_torn {
        return Err(foreign(format!(
            "it is damaged at position {position}, where no kill and no power loss leaves bytes that are no \
             record. Restore the file, or begin anew with an empty controllerStorePath: brokers then need \
             their brokerIdentity files removed"
        )));
    }
    Ok(records)
}

/// The record with a number that bytes begin with, and what is behind it.
fn whole(bytes: &[u8], number: u64) -> Option<(&[u8], &[u8])> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (stored_number, rest) = rest.split_first_chunk::<8>()?;
    let (stored_crc, rest) = rest.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (content, behind) = rest.split_at_checked(len)?;
    let is_whole = u32::from_be_bytes(*magic) == RECORD_MAGIC
        && u64::from_be_bytes(*stored_number) == number
        && u32::from_be_bytes(*stored_crc) == crc(number, content);
    is_whole.then_some((content, behind))
}

/// Whether a later record than `number` is somewhere in bytes that do not begin with that one.
fn is_followed(bytes: &[u8], number: u64) -> bool {
    let magic = RECORD_MAGIC.to_be_bytes();
    let starts = bytes.windows(HEAD_BYTES).enumerate();
    let mut candidates = starts.filter(|(_, head)| head.starts_with(&magic));
    candidates.any(|(start, head)| {
        let stored = head.get(8..16).and_then(|number| number.try_into().ok());
        let stored = stored.map(u64::from_be_bytes);
        let rest = bytes.get(start..).unwrap_or_default();
        stored.is_some_and(|stored| stored > number && whole(rest, stored).is_some())
    })
}

#[cfg(test)]
mod tests {
    use mqcore_engine::disk::twin::{Bound, CallKind, Fault, Times, TwinDisk};

    use super::*;

    const DIR: &str = "/controller";

    fn opened(twin: &TwinDisk) -> (Journal<TwinDisk>, Vec<Vec<u8>>) {
        Journal::open(twin.clone(), Path::new(DIR)).unwrap()
    }

    /// Content of different lengths, some beyond a page.
    fn record(number: u8) -> Vec<u8> {
        vec![number; usize::from(number) * 700]
    }

    fn path() -> PathBuf {
        Path::new(DIR).join(FILE_NAME)
    }

    fn reopened_with(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let twin = TwinDisk::new();
        twin.write_raw(&path(), bytes);
        Journal::open(twin, Path::new(DIR)).map(|(_, records)| records)
    }

    #[test]
    fn what_was_appended_is_there_in_every_crash_image() {
        let twin = TwinDisk::new();
        let (mut journal, records) = opened(&twin);
        assert!(records.is_empty());
        twin.forget();
        // By the number of events: how many records are durable.
        let mut durable = vec![(twin.history().stop_points(), 0)];
        for number in 1..=8 {
            journal.append(&record(number)).unwrap();
            durable.push((twin.history().stop_points(), number));
        }
        let history = twin.history();
        let mut images = 0;
        for stop in 0..history.stop_points() {
            let least = durable.iter().filter(|(at, _)| *at <= stop + 1);
            let least = least.map(|(_, number)| *number).max().unwrap_or(0);
            for image in history.images(stop, &Bound::default()) {
                images += 1;
                let (_, found) = opened(&image.disk());
                assert!(found.len() >= usize::from(least), "{}", image.id());
                let wanted: Vec<_> = (1..=8).map(record).take(found.len()).collect();
                assert_eq!(found, wanted, "{}", image.id());
            }
        }
        assert!(images > 100, "{images}");
    }

    #[test]
    fn a_replacement_is_whole_or_not_there_and_appends_go_on_behind_it() {
        let twin = TwinDisk::new();
        let (mut journal, _) = opened(&twin);
        journal.append(&record(1)).unwrap();
        journal.append(&record(2)).unwrap();
        twin.forget();
        journal.replace(&record(9)).unwrap();
        let replaced = twin.history().stop_points();
        journal.append(&record(3)).unwrap();
        let history = twin.history();
        let old = vec![record(1), record(2)];
        let new = [vec![record(9)], vec![record(9), record(3)]];
        for stop in 0..history.stop_points() {
            for image in history.images(stop, &Bound::default()) {
                let (mut journal, found) = opened(&image.disk());
                let is_new = new.contains(&found);
                assert!(
                    is_new || (found == old && stop < replaced),
                    "{}",
                    image.id()
                );
                // It goes on whatever was cut.
                journal.append(&record(4)).unwrap();
                drop(journal);
                let wanted = [found, vec![record(4)]].concat();
                assert_eq!(opened(&image.disk()).1.len() + 1, wanted.len());
            }
        }
    }

    #[test]
    fn crashes_while_it_is_opened_lose_nothing() {
        let twin = TwinDisk::new();
        let (mut journal, _) = opened(&twin);
        journal.append(&record(1)).unwrap();
        drop(journal);
        twin.forget();
        drop(opened(&twin));
        let history = twin.history();
        for stop in 0..history.stop_points() {
            for image in history.images(stop, &Bound::default()) {
                assert_eq!(opened(&image.disk()).1, [record(1)], "{}", image.id());
            }
        }
    }

    #[test]
    fn after_a_failure_nothing_is_written_and_what_failed_is_not_taken_for_durable() {
        for call in [CallKind::Write, CallKind::Sync] {
            let twin = TwinDisk::new();
            let (mut journal, _) = opened(&twin);
            journal.append(&record(1)).unwrap();
            twin.fail(Fault {
                call,
                path_contains: None,
                nth: 1,
                errno: 5,
                times: Times::Once,
            });
            assert!(matches!(journal.append(&record(2)), Err(Error::Io { .. })));
            let again = journal.append(&record(2));
            assert!(matches!(again, Err(Error::Poisoned { .. })), "{again:?}");
            assert!(matches!(
                journal.replace(&record(2)),
                Err(Error::Poisoned { .. })
            ));
            assert!(journal.failure().unwrap().contains("errno 5"));
            drop(journal);
            // What an open returns is there after power loss, whatever a failed sync left.
            let (_journal, found) = opened(&twin);
            let history = twin.history();
            let stop = history.stop_points() - 1;
            for image in history.images(stop, &Bound::default()) {
                assert_eq!(opened(&image.disk()).1, found, "{}", image.id());
            }
        }
    }

    #[test]
    fn one_process_has_it_open() {
        let twin = TwinDisk::new();
        let (_journal, _) = opened(&twin);
        let second = Journal::open(twin, Path::new(DIR)).map(|_| ());
        let Err(Error::ForeignFile { why, .. }) = second else {
            panic!("{second:?}");
        };
        assert!(why.contains("a controller runs on this directory"));
    }

    #[test]
    fn a_torn_end_is_cut_and_damage_before_whole_records_is_refused() {
        let twin = TwinDisk::new();
        let (mut journal, _) = opened(&twin);
        for number in 1..=3 {
            journal.append(&record(number)).unwrap();
        }
        let bytes = twin.read(&path()).unwrap();
        let ends = [1, 2, 3].map(|number| {
            let before = (1..=number).map(|each| HEAD_BYTES + record(each).len());
            FILE_MAGIC.len() + before.sum::<usize>()
        });
        for len in FILE_MAGIC.len()..=bytes.len() {
            let whole = ends.iter().filter(|end| **end <= len).count();
            let found = reopened_with(&bytes[..len]).map(|records| records.len());
            if whole > 0 || len == FILE_MAGIC.len() {
                assert_eq!(found.unwrap(), whole);
            } else {
                assert!(matches!(found, Err(Error::ForeignFile { .. })), "{len}");
            }
        }
        for at in (0..bytes.len()).step_by(37) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x20;
            let found = reopened_with(&changed);
            if at >= ends[1] {
                assert_eq!(found.unwrap().len(), 2);
            } else {
                assert!(matches!(found, Err(Error::ForeignFile { .. })), "{at}");
            }
        }
        assert!(reopened_with(b"MQCTLOG2").is_err());
    }

    #[test]
    fn too_long_a_record_is_refused_and_writing_goes_on() {
        let twin = TwinDisk::new();
        let (mut journal, _) = opened(&twin);
        let long = vec![0; RECORD_BYTES_MAX + 1];
        assert!(matches!(journal.append(&long), Err(Error::Limit { .. })));
        journal.append(&record(1)).unwrap();
    }
}
