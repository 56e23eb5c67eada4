//! Putting keys (`IndexService.buildIndex`, `IndexFile.putKey`): which keys a record has, which of
//! them are in already, where the next file comes from, and what happens when there is no room.
//! Called by one thread, in log order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::tz::TimeZone;
use mqcore_record::index_key_hash;

use super::file::{IndexFile, read_header};
use super::name::next_name;
use super::table::{IndexState, KeyIndex, LastRecord, Writer};
use crate::clock::Clock;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};

/// What a file is called until it is allocated: not digits alone, so that nobody takes it for an
/// index file.
pub(super) const UNFINISHED_SUFFIX: &str = ".new";
/// Between two looks for room while paused. Each costs a few system calls; a second is not long
/// beside the time it takes to make room.
const RETRY_INTERVAL_MS: u64 = 1_000;
/// `MessageConst.KEY_SEPARATOR`.
const KEY_SEPARATOR: u8 = b' ';

/// What came of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// So many entries were added.
    Indexed {
        /// Entries.
        entries: usize,
    },
    /// The record and its keys were in already.
    AlreadyIndexed,
    /// A rolled back message, or one without a key.
    NothingToIndex,
    /// Not indexed: the index is paused, or catching up from an earlier record. See
    /// [`KeyIndex::needs_catch_up`].
    Paused,
}

impl<D: Disk, C: Clock> KeyIndex<D, C> {
    /// Puts one key of a record. A record before the latest one is taken as indexed; so is a key
    /// that the latest record has already.
    ///
    /// # Errors
    /// As for [`KeyIndex::put_message`].
    pub fn put(
        &self,
        topic: &[u8],
        key: &[u8],
        physical_offset: u64,
        store_timestamp_ms: i64,
    ) -> Result<Put> {
        let hash = index_key_hash(topic, key);
        let mut writer = self.writer.lock();
        if let Some(answer) = self.answer_before_put(&mut writer, physical_offset)? {
            return Ok(answer);
        }
        if let Some(last) = &writer.last
            && last.physical_offset == physical_offset
            && last.hashes.contains(&hash)
        {
            return Ok(Put::AlreadyIndexed);
        }
        let is_put = self.put_hash(&mut writer, hash, physical_offset, store_timestamp_ms)?;
        Ok(if is_put {
            Put::Indexed { entries: 1 }
        } else {
            Put::Paused
        })
    }

    /// Puts the keys of a record: the unique one, then `keys` split at single spaces; a rolled
    /// back message has none. Putting a record again changes nothing, also when a crash or a full
    /// disk came between its keys.
    ///
    /// # Durability
    /// None: what is lost by a crash is dispatched again from [`KeyIndex::resume_offset`].
    ///
    /// # Blocking
    /// When a file becomes full: until the next one is allocated and its name synced.
    ///
    /// # Errors
    /// [`Error::Io`] when the next file cannot be made for another reason than a full disk;
    /// putting the same record again goes on where it stopped. [`Error::Limit`] for an offset
    /// beyond the format.
    pub fn put_message(&self, message: &Keyed<'_>) -> Result<Put> {
        let Keyed {
            physical_offset,
            store_timestamp_ms,
            ..
        } = *message;
        let mut hashes = message.keys().map(|key| index_key_hash(message.topic, key));
        let Some(first) = hashes.next() else {
            return Ok(Put::NothingToIndex);
        };
        let mut writer = self.writer.lock();
        if let Some(answer) = self.answer_before_put(&mut writer, physical_offset)? {
            return Ok(answer);
        }
        let mut present: VecDeque<u32> = match &writer.last {
            Some(last) if last.physical_offset == physical_offset => {
                last.hashes.iter().copied().collect()
            }
            _ => VecDeque::new(),
        };
        let mut entries = 0;
        for hash in std::iter::once(first).chain(hashes) {
            // Entries are in the order of the keys, so this looks at the front nearly always.
            if let Some(at) = present.iter().position(|there| *there == hash) {
                present.remove(at);
                continue;
            }
            if !self.put_hash(&mut writer, hash, physical_offset, store_timestamp_ms)? {
                return Ok(Put::Paused);
            }
            entries += 1;
        }
        Ok(if entries == 0 {
            Put::AlreadyIndexed
        } else {
            Put::Indexed { entries }
        })
    }

    /// The record that dispatch has to come back to, once there is room after a pause; `None`
    /// while indexing runs and while there is still no room. From then on the index takes this
    /// record or an earlier one first, and answers [`Put::Paused`] to all others.
    ///
    /// # Blocking
    /// While paused, once a second: until the disk has answered whether there is room.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn needs_catch_up(&self) -> Result<Option<u64>> {
        if !self.is_behind.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut writer = self.writer.lock();
        self.look_for_room(&mut writer)?;
        Ok(match writer.state {
            IndexState::CatchingUp { resume_offset } => Some(resume_offset),
            IndexState::Running | IndexState::Paused { .. } => None,
        })
    }

    /// The answer to a put that adds nothing, if it is one.
    fn answer_before_put(
        &self,
        writer: &mut Writer<D::File>,
        physical_offset: u64,
    ) -> Result<Option<Put>> {
        if i64::try_from(physical_offset).is_err() {
            return Err(Error::Limit {
                what: format!("physical offset {physical_offset} in the index"),
                limit: i64::MAX.unsigned_abs(),
            });
        }
        self.look_for_room(writer)?;
        match writer.state {
            IndexState::Running => {}
            IndexState::CatchingUp { resume_offset } if physical_offset <= resume_offset => {
                self.set_state(writer, IndexState::Running);
            }
            IndexState::Paused { .. } | IndexState::CatchingUp { .. } => {
                return Ok(Some(Put::Paused));
            }
        }
        let is_before = writer
            .last
            .as_ref()
            .is_some_and(|last| physical_offset < last.physical_offset);
        Ok(is_before.then_some(Put::AlreadyIndexed))
    }

    /// Adds an entry; false when there is no room for the next file.
    #[inline]
    fn put_hash(
        &self,
        writer: &mut Writer<D::File>,
        hash: u32,
        physical_offset: u64,
        store_timestamp_ms: i64,
    ) -> Result<bool> {
        let has_room = writer.current.as_ref().is_some_and(|file| !file.is_full());
        if !has_room && !self.next_file_or_pause(writer, physical_offset)? {
            return Ok(false);
        }
        if let Some(file) = &writer.current {
            file.put(hash, physical_offset, store_timestamp_ms);
        }
        match &mut writer.last {
            Some(last) if last.physical_offset == physical_offset => last.hashes.push(hash),
            Some(last) => {
                last.physical_offset = physical_offset;
                last.hashes.clear();
                last.hashes.push(hash);
            }
            None => {
                writer.last = Some(LastRecord {
                    physical_offset,
                    hashes: vec![hash],
                });
            }
        }
        Ok(true)
    }

    fn next_file_or_pause(&self, writer: &mut Writer<D::File>, resume_offset: u64) -> Result<bool> {
        match self.next_file(writer) {
            Ok(()) => Ok(true),
            Err(error) if error.is_no_space() => {
                self.notices.warn(format!(
                    "the key index is paused at physical offset {resume_offset} ({error}): \
                     messages are stored but not found by key until there is room for a file of \
                     {} bytes in {}",
                    self.layout.len_bytes(),
                    self.dir.display()
                ));
                writer.retry_at_ms = self.clock.elapsed_ms() + RETRY_INTERVAL_MS;
                self.set_state(writer, IndexState::Paused { resume_offset });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// While paused, now and then: tries to make the next file.
    fn look_for_room(&self, writer: &mut Writer<D::File>) -> Result<()> {
        let IndexState::Paused { resume_offset } = writer.state else {
            return Ok(());
        };
        let now_ms = self.clock.elapsed_ms();
        if now_ms < writer.retry_at_ms {
            return Ok(());
        }
        writer.retry_at_ms = now_ms + RETRY_INTERVAL_MS;
        match self.next_file(writer) {
            Ok(()) => {
                self.notices.info(format!(
                    "there is room again: the key index goes on at physical offset {resume_offset}"
                ));
                self.set_state(writer, IndexState::CatchingUp { resume_offset });
                Ok(())
            }
            Err(error) if error.is_no_space() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes `writer.current` a mapped file with room: the newest one, or a new one.
    fn next_file(&self, writer: &mut Writer<D::File>) -> Result<()> {
        let newest = self.files.read().last().map(Arc::clone);
        if let Some(newest) = &newest
            && !newest.is_full()
        {
            let mapped = Arc::new(newest.mapped()?);
            self.replace(&mapped);
            writer.current = Some(mapped);
            return Ok(());
        }
        let last = newest.as_ref().map(|newest| newest.name());
        let name = next_name(self.clock.now_ms(), TimeZone::system(), last).ok_or_else(|| {
            Error::Limit {
                what: format!("an index file after {}", last.unwrap_or_default()),
                limit: 99_999_999_999_999_999,
            }
        })?;
        let file = Arc::new(self.make_file(&name)?);
        if let Some(newest) = &newest {
            file.preset(newest.end_offset(), newest.end_timestamp_ms());
        }
        self.files.write().push(Arc::clone(&file));
        writer.current = Some(file);
        Ok(())
    }

    /// An empty, mapped file under this name: allocated and synced under another name first, so
    /// that a crash never leaves an index file of another size.
    fn make_file(&self, name: &str) -> Result<IndexFile<D::File>> {
        self.disk.create_dir_all(&self.dir)?;
        let path = self.dir.join(name);
        let unfinished = self.dir.join(format!("{name}{UNFINISHED_SUFFIX}"));
        let made = (|| {
            let file = self.disk.open(&unfinished, Open::Create)?;
            file.allocate(self.layout.len_bytes())?;
            file.sync_data()?;
            drop(file);
            self.disk.rename(&unfinished, &path)?;
            self.disk.sync_dir(&self.dir)?;
            let file = self.disk.open(&path, Open::Write)?;
            let header = read_header(&file)?;
            IndexFile::new(name, file, self.layout, &header).mapped()
        })();
        if made.is_err() {
            // What it took is given back. The first error counts; when this fails too, the next
            // opening removes an unfinished file, and takes an empty one as one without entries.
            let _absent_or_stays = self.disk.unlink(&unfinished);
            let _absent_or_stays = self.disk.unlink(&path);
        }
        made
    }
}

/// A record as far as the index is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Keyed<'a> {
    /// Its topic.
    pub topic: &'a [u8],
    /// Property `UNIQ_KEY`.
    pub unique_key: Option<&'a [u8]>,
    /// Property `KEYS`: keys joined by single spaces.
    pub keys: Option<&'a [u8]>,
    /// Its place in the log.
    pub physical_offset: u64,
    /// When it was stored, ms.
    pub store_timestamp_ms: i64,
    /// Whether its transaction was rolled back: then it is not indexed.
    pub is_rollback: bool,
}

impl<'a> Keyed<'a> {
    /// The keys in the order of their entries.
    fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (unique_key, keys) = if self.is_rollback {
            (None, None)
        } else {
            (self.unique_key, self.keys)
        };
        let pieces = keys
            .unwrap_or_default()
            .split(|byte| *byte == KEY_SEPARATOR);
        unique_key
            .into_iter()
            .chain(pieces.filter(|piece| !piece.is_empty()))
    }
}
