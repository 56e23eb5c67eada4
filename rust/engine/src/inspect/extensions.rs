//! The extensions of queues, read as they lie there: what stands at the places that queue units name.
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
pub(super) struct PlaceReader {
    dir: PathBuf,
    file_len_bytes: u64,
    piece: Vec<u8>,
    piece_place: u64,
}

impl PlaceReader {
    pub(super) fn new(dir: PathBuf, file_len_bytes: u64) -> Self {
        Self {
            dir,
            file_len_bytes,
            piece: Vec::new(),
            piece_place: 0,
        }
    }

    /// The unit at the place that a queue unit names; `None` where none stands there whole.
    pub(super) fn find<D: Disk>(&mut self, disk: &D, code: i64) -> Result<Option<Extended<'_>>> {
        let Some(place) = ext_offset_of(code) else {
            return Ok(None);
        };
        for len in [PIECE_LEN, UNIT_LEN_MAX] {
            if Extended::decode(self.piece_from(place)).is_none() {
                self.fill(disk, place, len)?;
            }
        }
        Ok(Extended::decode(self.piece_from(place)))
    }

    fn piece_from(&self, place: u64) -> &[u8] {
        let at = place.checked_sub(self.piece_place);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.piece.get(at..)).unwrap_or_default()
    }

    fn fill<D: Disk>(&mut self, disk: &D, place: u64, len_max: usize) -> Result<()> {
        self.piece.clear();
        self.piece_place = place;
        let in_file = place % self.file_len_bytes;
        let path = self.dir.join(offset_file_name(place - in_file));
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
