//! Putting keys (`IndexService.buildIndex`, `IndexFile.putKey`): which keys a record has, which of
//! them are in already, where the next file comes from, and what happens when the disk is full.
//! Called by one thread, in log order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mqcore_record::{index_key_hash, index_tags_hash};

use super::file::IndexFile;
use super::files::{IndexFiles, LastRecord};
use super::scan::IndexScan;
use crate::clock::Clock;
use crate::disk::{Disk, DiskFile};
use crate::error::{Error, Result};
use crate::lock::Mutex;
use crate::notice::Notices;

/// Between two looks for space while paused. Each costs a few system calls; a second is not long
/// beside the time it takes to free space.
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
    /// [`IndexWriter::needs_catch_up`].
    Paused,
}

/// Whether keys are being indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Yes.
    Running,
    /// No: the disk has no space for the next file. Appends go on; the index is missing from this
    /// record on.
    Paused {
        /// Physical offset of the first record that is not indexed, or not with all its keys.
        resume_offset: u64,
    },
    /// There is space again; dispatch has to come back to this record first.
    CatchingUp {
        /// As for `Paused`.
        resume_offset: u64,
    },
}

/// Puts keys.
pub struct IndexWriter<D: Disk, C: Clock> {
    files: Arc<IndexFiles<D>>,
    clock: C,
    notices: Arc<Notices>,
    writing: Mutex<Writing<D::File>>,
    /// True while [`IndexState`] is not `Running`: asked without taking the lock.
    is_behind: AtomicBool,
}

/// What only the one that puts touches.
struct Writing<F: DiskFile> {
    /// The newest file, mapped; `None` until the first put.
    current: Option<Arc<IndexFile<F>>>,
    state: IndexState,
    /// While paused: when to look for space again, in elapsed ms.
    retry_at_ms: u64,
    last: Option<LastRecord>,
}

impl<D: Disk, C: Clock> IndexWriter<D, C> {
    /// Goes on behind what the files hold.
    pub(super) fn new(
        files: &Arc<IndexFiles<D>>,
        clock: &C,
        notices: &Arc<Notices>,
    ) -> Result<Self> {
        Ok(Self {
            clock: clock.clone(),
            notices: Arc::clone(notices),
            writing: Mutex::new(Writing {
                current: None,
                state: IndexState::Running,
                retry_at_ms: 0,
                last: files.last_record()?,
            }),
            is_behind: AtomicBool::new(false),
            files: Arc::clone(files),
        })
    }

    /// Whether keys are being indexed.
    #[must_use]
    pub fn state(&self) -> IndexState {
        self.writing.lock().state
    }

    /// Where dispatch has to start so that no key is missing: the first record that is not indexed
    /// or might be so in part. Records before it that have a key are all indexed.
    #[must_use]
    pub fn resume_offset(&self) -> u64 {
        match self.writing.lock().state {
            IndexState::Running => self.files.end_offset(),
            IndexState::Paused { resume_offset } | IndexState::CatchingUp { resume_offset } => {
                resume_offset
            }
        }
    }

    /// Puts one key of a record. A record before the latest one is taken as indexed; so is a key
    /// that the latest record has already.
    ///
    /// # Errors
    /// As for [`IndexWriter::put_message`].
    pub fn put(
        &self,
        topic: &[u8],
        key: &[u8],
        physical_offset: u64,
        store_timestamp_ms: i64,
    ) -> Result<Put> {
        let hash = index_key_hash(topic, key);
        let mut writer = self.writing.lock();
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

    /// Puts the keys of a record: the unique one, `keys` split at single spaces, then the tags; a
    /// rolled back message has none. Putting a record again changes nothing, also when a crash or a full
    /// disk came between its keys.
    ///
    /// # Durability
    /// None: what is lost by a crash is dispatched again from [`IndexWriter::resume_offset`].
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
        let mut hashes = message.hashes();
        let Some(first) = hashes.next() else {
            return Ok(Put::NothingToIndex);
        };
        let mut writer = self.writing.lock();
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

    /// The record that dispatch has to come back to, once there is space after a pause; `None`
    /// while indexing runs and while there is still no space. From then on the index takes this
    /// record or an earlier one first, and answers [`Put::Paused`] to all others.
    ///
    /// # Blocking
    /// While paused, once a second: until the disk has answered whether there is space.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn needs_catch_up(&self) -> Result<Option<u64>> {
        if !self.is_behind.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut writer = self.writing.lock();
        self.look_for_space(&mut writer)?;
        Ok(match writer.state {
            IndexState::CatchingUp { resume_offset } => Some(resume_offset),
            IndexState::Running | IndexState::Paused { .. } => None,
        })
    }

    /// The answer to a put that adds nothing, if it is one.
    fn answer_before_put(
        &self,
        writer: &mut Writing<D::File>,
        physical_offset: u64,
    ) -> Result<Option<Put>> {
        if i64::try_from(physical_offset).is_err() {
            return Err(Error::Limit {
                what: format!("physical offset {physical_offset} in the index"),
                limit: i64::MAX.unsigned_abs(),
            });
        }
        self.look_for_space(writer)?;
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

    /// Adds an entry; false when there is no space for the next file.
    #[inline]
    fn put_hash(
        &self,
        writer: &mut Writing<D::File>,
        hash: u32,
        physical_offset: u64,
        store_timestamp_ms: i64,
    ) -> Result<bool> {
        let has_space = writer.current.as_ref().is_some_and(|file| !file.is_full());
        if !has_space && !self.next_file_or_pause(writer, physical_offset)? {
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

    fn next_file_or_pause(
        &self,
        writer: &mut Writing<D::File>,
        resume_offset: u64,
    ) -> Result<bool> {
        match self.next_file(writer) {
            Ok(()) => Ok(true),
            Err(error) if error.is_no_space() => {
                self.notices.warn(format!(
                    "the key index is paused at physical offset {resume_offset} ({error}): \
                     messages are stored but not found by key until there is room for a file of \
                     {} bytes in {}",
                    self.files.layout.len_bytes(),
                    self.files.dir.display()
                ));
                writer.retry_at_ms = self.clock.elapsed_ms() + RETRY_INTERVAL_MS;
                self.set_state(writer, IndexState::Paused { resume_offset });
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// While paused, now and then: tries to make the next file.
    fn look_for_space(&self, writer: &mut Writing<D::File>) -> Result<()> {
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

    fn next_file(&self, writer: &mut Writing<D::File>) -> Result<()> {
        writer.current = Some(self.files.next(self.clock.now_ms())?);
        Ok(())
    }

    fn set_state(&self, writer: &mut Writing<D::File>, state: IndexState) {
        writer.state = state;
        let is_behind = state != IndexState::Running;
        self.is_behind.store(is_behind, Ordering::Release);
    }

    /// Calls `look` while no file is made.
    pub(super) fn while_still<T>(&self, look: impl FnOnce() -> T) -> T {
        let _writing = self.writing.lock();
        look()
    }

    /// Makes sure that no entry at or beyond `physical_offset` is found, after the log was cut
    /// there: entries cannot be taken out, so files that hold one go as a whole. Returns where
    /// dispatch of the index has to start to have all that lies before. Store times may start
    /// again below those that were cut: the caller sets the checkpoint's `indexMsgTimestamp` back
    /// to [`super::IndexStats::end_timestamp_ms`] where it is above, or files that are made later
    /// could pass for synced.
    ///
    /// # Durability
    /// On return the removal survives power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn truncate_from(&self, physical_offset: u64) -> Result<u64> {
        let mut writer = self.writing.lock();
        let keep = self.files.list.read().iter().position(|file| {
            // An empty first file ends at 0 without holding the record at 0.
            let is_empty = file.next_number() <= 1;
            file.end_offset() >= physical_offset && !(is_empty && physical_offset == 0)
        });
        if let Some(keep) = keep {
            writer.current = None;
            self.files.drop_from(keep)?;
        }
        writer.last = self.files.last_record()?;
        if let IndexState::Paused { resume_offset } | IndexState::CatchingUp { resume_offset } =
            writer.state
            && resume_offset >= physical_offset
        {
            self.set_state(&mut writer, IndexState::Running);
        }
        Ok(self.files.end_offset())
    }

    /// Takes out the files from the first one on whose entries go back in the log: another broker has cut the
    /// log, and went on behind the entries of what it cut. Returns as [`IndexWriter::truncate_from`].
    ///
    /// # Durability
    /// On return the removal survives power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads all entries.
    pub fn truncate_from_disorder(&self) -> Result<u64> {
        let mut writer = self.writing.lock();
        let mut before = 0;
        for (at, file) in self.files.now().iter().enumerate() {
            let entries = IndexScan::open(&self.files.disk, file.path(), Some(self.files.layout))?;
            for entry in entries {
                let physical_offset = entry?.physical_offset;
                if physical_offset < before {
                    writer.current = None;
                    self.files.drop_from(at)?;
                    writer.last = self.files.last_record()?;
                    return Ok(self.files.end_offset());
                }
                before = physical_offset;
            }
        }
        Ok(self.files.end_offset())
    }

    /// Removes every file: the log is empty, or the index is to be made again from its start.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn clear(&self) -> Result<()> {
        let mut writer = self.writing.lock();
        writer.current = None;
        self.files.drop_from(0)?;
        writer.last = None;
        self.set_state(&mut writer, IndexState::Running);
        Ok(())
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
    /// Property `TAGS` where tags are indexed, as 5.5 does; else `None`.
    pub tags: Option<&'a [u8]>,
    /// Its place in the log.
    pub physical_offset: u64,
    /// When it was stored, ms.
    pub store_timestamp_ms: i64,
    /// Whether its transaction was rolled back: then it is not indexed.
    pub is_rollback: bool,
}

impl<'a> Keyed<'a> {
    /// The hashes of its keys, then of its tags, in the order of their entries.
    fn hashes(&self) -> impl Iterator<Item = u32> + use<'a> {
        let topic = self.topic;
        let (unique_key, keys, tags) = if self.is_rollback {
            (None, None, None)
        } else {
            (self.unique_key, self.keys, self.tags)
        };
        let pieces = keys
            .unwrap_or_default()
            .split(|byte| *byte == KEY_SEPARATOR);
        let tags = tags.filter(|tags| !tags.is_empty());
        unique_key
            .into_iter()
            .chain(pieces.filter(|piece| !piece.is_empty()))
            .map(move |key| index_key_hash(topic, key))
            .chain(tags.map(|tags| index_tags_hash(topic, tags)))
    }
}
