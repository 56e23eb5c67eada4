//! `timerlog/`: units behind one another in files of one length (`TimerLog`). Knows no wheel.
//!
//! Files are sparse at full length, as those of the queues; what is appended stays in memory until
//! [`TimerLog::write`], and readers see both as one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::unit::{BLANK_BYTES, BLANK_MAGIC, Found, PREVIOUS_AT, UNIT_BYTES, Unit, decode};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};
use crate::units::{offset_file_name, parse_offset_file_name};

const UNIT: u64 = UNIT_BYTES as u64;
/// Bytes kept in memory before they are written: some 5,000 units.
const TAIL_MAX_BYTES: usize = 256 << 10;
/// Bytes read at a time: units of a slot lie near one another when they came together.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks kept: those of a slot that was filled over a minute at some thousand messages per second.
const BLOCKS_MAX: usize = 32;
/// So many zeros behind the end show that nothing was written there: more than is entered between
/// two syncs at once.
const ZEROS_MIN_BYTES: u64 = 4 << 20;

struct Block {
    position: u64,
    bytes: Vec<u8>,
    used: u64,
}

/// The log.
pub(super) struct TimerLog<D: Disk> {
    disk: D,
    dir: PathBuf,
    file_len_bytes: u64,
    files: BTreeMap<u64, D::File>,
    /// Written so far; the tail begins here.
    written: u64,
    tail: Vec<u8>,
    /// Files written to since the last sync.
    unsynced: Vec<u64>,
    has_new_name: bool,
    blocks: Vec<Block>,
    tick: u64,
}

impl<D: Disk> TimerLog<D> {
    /// Opens the files that are there; the end is set by recovery. Their names may not be durable: a process
    /// may have ended before it had synced them.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`], [`Error::Io`].
    pub(super) fn open(disk: &D, dir: PathBuf, file_len_bytes: u64) -> Result<Self> {
        let mut files = BTreeMap::new();
        for entry in disk.list(&dir)? {
            let Some(base) = parse_offset_file_name(&entry.name) else {
                continue;
            };
            let path = dir.join(&entry.name);
            if entry.len_bytes == 0 {
                // A crash took its length, and with it whatever stood there.
                let file = disk.open(&path, Open::Write)?;
                file.set_len(file_len_bytes)?;
                files.insert(base, file);
                continue;
            }
            if entry.len_bytes != file_len_bytes {
                return Err(Error::WrongFileSize {
                    path,
                    len_bytes: entry.len_bytes,
                    expected_bytes: file_len_bytes,
                    key: "mappedFileSizeTimerLog",
                });
            }
            files.insert(base, disk.open(&path, Open::Write)?);
        }
        let has_new_name = !files.is_empty();
        Ok(Self {
            disk: disk.clone(),
            dir,
            file_len_bytes,
            files,
            written: 0,
            tail: Vec::new(),
            unsynced: Vec::new(),
            has_new_name,
            blocks: Vec::new(),
            tick: 0,
        })
    }

    /// Where the first and behind the last file end, and the length of one.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let first = *self.files.first_key_value()?.0;
        let last = *self.files.last_key_value()?.0;
        Some((first, last + self.file_len_bytes))
    }

    pub(super) fn file_len_bytes(&self) -> u64 {
        self.file_len_bytes
    }

    /// Position of the next unit.
    pub(super) fn end(&self) -> u64 {
        self.written + self.tail.len() as u64
    }

    /// Position of the last unit before `end`, which is behind one.
    pub(super) fn last_before(&self, end: u64) -> u64 {
        let in_file = end % self.file_len_bytes;
        if in_file >= UNIT {
            return end - UNIT;
        }
        let begin = (end - in_file).saturating_sub(self.file_len_bytes);
        let units = (self.file_len_bytes - BLANK_BYTES as u64) / UNIT;
        begin + units.saturating_sub(1) * UNIT
    }

    /// Goes on at a position, and removes files behind it (`truncateDirtyFiles`). What lies behind `durable`
    /// may be in the memory of the system alone, written by a process that has ended.
    pub(super) fn cut(&mut self, durable: u64, end: u64) -> Result<()> {
        self.written = end;
        self.tail.clear();
        self.blocks.clear();
        let behind: Vec<u64> = self.files.range(end..).map(|(base, _)| *base).collect();
        for base in behind {
            self.files.remove(&base);
            self.disk.unlink(&self.dir.join(offset_file_name(base)))?;
            self.has_new_name = true;
        }
        if let Some(file) = self.file_of(end) {
            let base = end - end % self.file_len_bytes;
            zero(file, end - base, self.file_len_bytes)?;
        }
        let from = durable.min(end);
        let unsure = self.files.range(from - from % self.file_len_bytes..);
        self.unsynced = unsure.map(|(base, _)| *base).collect();
        Ok(())
    }

    fn file_of(&self, position: u64) -> Option<&D::File> {
        self.files.get(&(position - position % self.file_len_bytes))
    }

    /// Appends a unit; its position.
    ///
    /// # Errors
    /// [`Error::Io`]: nothing was appended.
    pub(super) fn append(&mut self, unit: &Unit) -> Result<u64> {
        let rest = self.file_len_bytes - self.end() % self.file_len_bytes;
        if rest < UNIT + BLANK_BYTES as u64 {
            let mut blank = vec![0; rest as usize];
            blank[..4].copy_from_slice(&(rest as i32).to_be_bytes());
            blank[12..16].copy_from_slice(&BLANK_MAGIC.to_be_bytes());
            self.tail.extend(blank);
        }
        // Also at the end of a file: what is in memory never reaches into the next one.
        if self.tail.len() >= TAIL_MAX_BYTES || self.end().is_multiple_of(self.file_len_bytes) {
            self.write()?;
        }
        let position = self.end();
        self.tail.extend(unit.encode());
        Ok(position)
    }

    /// Writes the tail: it survives the process then.
    ///
    /// # Errors
    /// [`Error::Io`]; the tail stays in memory.
    pub(super) fn write(&mut self) -> Result<()> {
        if self.tail.is_empty() {
            return Ok(());
        }
        let base = self.written - self.written % self.file_len_bytes;
        if !self.files.contains_key(&base) {
            self.disk.create_dir_all(&self.dir)?;
            let path = self.dir.join(offset_file_name(base));
            let file = self.disk.open(&path, Open::Create)?;
            file.set_len(self.file_len_bytes)?;
            self.files.insert(base, file);
            self.has_new_name = true;
        }
        let Some(file) = self.files.get(&base) else {
            return Ok(());
        };
        file.write_at(&self.tail, self.written - base)?;
        self.forget_blocks(self.written);
        self.written += self.tail.len() as u64;
        self.tail.clear();
        if !self.unsynced.contains(&base) {
            self.unsynced.push(base);
        }
        Ok(())
    }

    /// Writes and syncs; where the log is durable up to.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Until the device has answered.
    pub(super) fn flush(&mut self) -> Result<u64> {
        self.write()?;
        for base in &self.unsynced {
            if let Some(file) = self.files.get(base) {
                file.sync_data()?;
            }
        }
        self.unsynced.clear();
        if self.has_new_name {
            // Whoever made the folder may have ended before its name was durable.
            self.disk.create_dir_all(&self.dir)?;
            self.disk.sync_dir(&self.dir)?;
            self.has_new_name = false;
        }
        Ok(self.written)
    }

    /// What is at a position.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn at(&mut self, position: u64) -> Result<Found> {
        if position >= self.written {
            let at = (position - self.written) as usize;
            let bytes = self.tail.get(at..at + UNIT_BYTES);
            return Ok(bytes.map_or(Found::End, |bytes| decode(bytes, position)));
        }
        self.at_any(position)
    }

    /// What is at a position of the files, also behind the end: for recovery.
    pub(super) fn at_any(&mut self, position: u64) -> Result<Found> {
        let base = position - position % self.file_len_bytes;
        if base + self.file_len_bytes - position < BLANK_BYTES as u64 {
            return Ok(Found::Blank);
        }
        let block = position - position % (BLOCK_BYTES as u64);
        let block = block.max(base);
        let len = BLOCK_BYTES as u64 + UNIT;
        self.tick += 1;
        let tick = self.tick;
        let cached = self.blocks.iter().position(|each| {
            each.position <= position && position + UNIT <= each.position + each.bytes.len() as u64
        });
        let index = if let Some(index) = cached {
            index
        } else {
            let Some(file) = self.files.get(&base) else {
                return Ok(Found::End);
            };
            let len = len.min(base + self.file_len_bytes - block) as usize;
            let mut bytes = vec![0; len];
            let got = file.read_at(&mut bytes, block - base)?;
            bytes.truncate(got);
            self.keep(Block {
                position: block,
                bytes,
                used: tick,
            })
        };
        let Some(block) = self.blocks.get_mut(index) else {
            return Ok(Found::End);
        };
        block.used = tick;
        let at = (position - block.position) as usize;
        let to = (at + UNIT_BYTES).min(block.bytes.len());
        let bytes = block.bytes.get(at..to).unwrap_or_default();
        Ok(decode(bytes, position))
    }

    fn keep(&mut self, block: Block) -> usize {
        if self.blocks.len() < BLOCKS_MAX {
            self.blocks.push(block);
            return self.blocks.len() - 1;
        }
        let oldest = (0..self.blocks.len()).min_by_key(|at| self.blocks[*at].used);
        let oldest = oldest.unwrap_or(0);
        self.blocks[oldest] = block;
        oldest
    }

    /// Blocks that reach behind a position hold bytes that change.
    fn forget_blocks(&mut self, position: u64) {
        self.blocks
            .retain(|block| block.position + block.bytes.len() as u64 <= position);
    }

    /// Makes a unit the oldest of its chain: those before it are done.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn unlink_before(&mut self, position: u64) -> Result<()> {
        self.write()?;
        let base = position - position % self.file_len_bytes;
        let Some(file) = self.files.get(&base) else {
            return Ok(());
        };
        file.write_at(&(-1_i64).to_be_bytes(), position - base + PREVIOUS_AT)?;
        self.blocks.clear();
        if !self.unsynced.contains(&base) {
            self.unsynced.push(base);
        }
        Ok(())
    }

    /// Removes files whose last unit names a message below `physical_offset`, but not the last one
    /// (`deleteExpiredFileByOffsetForTimerLog`); how many.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn retain(&mut self, physical_offset: u64) -> Result<usize> {
        let mut removed = 0;
        while self.files.len() > 1 {
            let Some((&base, _)) = self.files.first_key_value() else {
                break;
            };
            let last = base + self.last_unit_at();
            let is_done = match self.at(last)? {
                Found::Unit(unit) => unit.physical_offset < physical_offset.cast_signed(),
                Found::Blank | Found::End => false,
            };
            if !is_done || base + self.file_len_bytes > self.written {
                break;
            }
            self.files.remove(&base);
            self.blocks.clear();
            self.disk.unlink(&self.dir.join(offset_file_name(base)))?;
            self.has_new_name = true;
            removed += 1;
        }
        Ok(removed)
    }

    /// Where the last unit of a full file is (`getOffsetForLastUnit`).
    fn last_unit_at(&self) -> u64 {
        let usable = self.file_len_bytes - BLANK_BYTES as u64;
        usable - usable % UNIT - UNIT
    }

    /// Bytes of the files.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.files.len() as u64 * self.file_len_bytes
    }
}

/// Makes what was written behind the end zero: no unit of an earlier life may stand there again.
fn zero<F: DiskFile>(file: &F, from: u64, to: u64) -> Result<()> {
    let mut bytes = vec![0; BLOCK_BYTES];
    let (mut at, mut end) = (from, to.min(from + ZEROS_MIN_BYTES));
    while at < end {
        let len = bytes.len().min((end - at) as usize);
        bytes[..len].fill(0);
        let got = file.read_at(&mut bytes[..len], at)?;
        if bytes[..got].iter().any(|byte| *byte != 0) {
            file.write_at(&vec![0; got], at)?;
            end = to.min(at + len as u64 + ZEROS_MIN_BYTES);
        }
        at += len as u64;
    }
    Ok(())
}
