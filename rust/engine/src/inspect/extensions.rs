//! The extensions of queues, read as they lie there: what is at the positions that queue units name.
//! Trusts nothing but the names of files.

use std::path::PathBuf;

use crate::consume_queue::{Extended, ext_offset_of};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::units::offset_file_name;

/// Bytes read at once: with very many queues each holds this many, so they are few.
const PIECE_LEN: usize = 2 << 10;
/// Bytes of the longest unit.
const UNIT_LEN_MAX: usize = i16::MAX as usize;

/// Reads units of one extension; keeps the last read bytes, no descriptor.
pub(super) struct ExtensionReader {
    dir: PathBuf,
    file_len_bytes: u64,
    piece: Vec<u8>,
    piece_start: u64,
}

impl ExtensionReader {
    pub(super) fn new(dir: PathBuf, file_len_bytes: u64) -> Self {
        Self {
            dir,
            file_len_bytes,
            piece: Vec::new(),
            piece_start: 0,
        }
    }

    /// The unit at the position that a queue unit names; `None` where no whole one is there.
    pub(super) fn find<D: Disk>(&mut self, disk: &D, code: i64) -> Result<Option<Extended<'_>>> {
        let Some(position) = ext_offset_of(code) else {
            return Ok(None);
        };
        for len in [PIECE_LEN, UNIT_LEN_MAX] {
            if Extended::decode(self.piece_from(position)).is_none() {
                self.fill(disk, position, len)?;
            }
        }
        Ok(Extended::decode(self.piece_from(position)))
    }

    fn piece_from(&self, position: u64) -> &[u8] {
        let at = position.checked_sub(self.piece_start);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.piece.get(at..)).unwrap_or_default()
    }

    fn fill<D: Disk>(&mut self, disk: &D, position: u64, len_max: usize) -> Result<()> {
        self.piece.clear();
        self.piece_start = position;
        let in_file = position % self.file_len_bytes;
        let path = self.dir.join(offset_file_name(position - in_file));
        if disk.stat(&path)?.is_none() {
            return Ok(());
        }
        let left = self.file_len_bytes - in_file;
        let len = len_max.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.piece.resize(len, 0);
        let got = disk
            .open(&path, Open::Read)?
            .read_at(&mut self.piece, in_file)?;
        self.piece.truncate(got);
        Ok(())
    }
}
