//! Reading an extension by the places that queue units name: front to back, a piece at a time. Any
//! thread may, beside appends and writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::queue::Queue;
use super::super::unit::Unit;
use super::table::Extensions;
use super::unit::{Extended, HEAD_LEN, UNIT_LEN_MAX, ext_offset_of};
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::queue_store::QueueMap;

/// Bytes read at once: some 480 units with the bits of the usual filter. Units follow one another
/// as those of the queue do.
const PIECE_LEN: usize = 16 << 10;

/// Reads units of the extension of one queue.
pub struct ExtensionReader<'a, D: Disk> {
    map: &'a QueueMap<Unit>,
    extensions: &'a Extensions<D>,
    name: (&'a [u8], i32),
    queue: Option<Arc<Queue>>,
    piece: Vec<u8>,
    piece_offset: u64,
}

impl<D: Disk> Extensions<D> {
    /// A reader of what the units of a queue name in its extension. Looks at nothing before it is
    /// asked.
    pub(in crate::consume_queue) fn reader<'a>(
        &'a self,
        map: &'a QueueMap<Unit>,
        name: (&'a [u8], i32),
    ) -> ExtensionReader<'a, D> {
        ExtensionReader {
            map,
            extensions: self,
            name,
            queue: None,
            piece: Vec::new(),
            piece_offset: 0,
        }
    }

    /// Whether what units name in the extension of their queue can be read from memory alone. Also
    /// true where they name nothing.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub(in crate::consume_queue) fn is_cached(
        &self,
        map: &QueueMap<Unit>,
        (topic, queue_id): (&[u8], i32),
        units: &[Unit],
    ) -> Result<bool> {
        let ext_offsets = || {
            units
                .iter()
                .filter_map(|unit| ext_offset_of(unit.tags_code))
        };
        let (Some(first), Some(last)) = (ext_offsets().next(), ext_offsets().next_back()) else {
            return Ok(true);
        };
        let Some(queue) = map.find(topic, queue_id) else {
            return Ok(true);
        };
        let end = last.saturating_add(HEAD_LEN as u64);
        let mut piece = [0; 4 * 1024];
        let mut ext_offset = first;
        while ext_offset < end {
            if let Some(extension) = queue.beside()
                && extension.lock().bytes_from(ext_offset, 0).is_some()
            {
                return Ok(true);
            }
            let in_file = ext_offset % self.files.file_len_bytes();
            let left = (self.files.file_len_bytes() - in_file).min(end - ext_offset);
            let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let file = self.files.file_if_there(&queue, ext_offset - in_file)?;
            let Some(file) = file else {
                return Ok(true);
            };
            let bytes = piece.get_mut(..len).unwrap_or_default();
            if file.read_cached_at(bytes, in_file)?.is_none() {
                return Ok(false);
            }
            ext_offset += len as u64;
        }
        Ok(true)
    }
}

impl<D: Disk> ExtensionReader<'_, D> {
    /// What the extension holds where a queue unit names an offset; `None` for a unit with a tags
    /// code, and where nothing whole is at the offset, which is reported once.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the bytes.
    pub fn get(&mut self, code: i64) -> Result<Option<Extended<'_>>> {
        let Some(ext_offset) = ext_offset_of(code) else {
            return Ok(None);
        };
        if Extended::decode(self.piece_from(ext_offset)).is_none() {
            self.fill(ext_offset, PIECE_LEN)?;
            if self.is_cut_short(ext_offset) {
                self.fill(ext_offset, UNIT_LEN_MAX)?;
            }
        }
        if Extended::decode(self.piece_from(ext_offset)).is_none() {
            self.warn_of_missing(ext_offset);
        }
        Ok(Extended::decode(self.piece_from(ext_offset)))
    }

    fn piece_from(&self, ext_offset: u64) -> &[u8] {
        let at = ext_offset.checked_sub(self.piece_offset);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.piece.get(at..)).unwrap_or_default()
    }

    /// Whether a unit begins in the piece that may be whole beyond its end.
    fn is_cut_short(&self, ext_offset: u64) -> bool {
        self.piece.len() == PIECE_LEN && Extended::decode(self.piece_from(ext_offset)).is_none()
    }

    /// Reads up to so many bytes from an offset on.
    fn fill(&mut self, ext_offset: u64, len_max: usize) -> Result<()> {
        self.piece.clear();
        self.piece_offset = ext_offset;
        let files = &self.extensions.files;
        if self.queue.is_none() {
            self.queue = self.map.find(self.name.0, self.name.1);
        }
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        if let Some(extension) = queue.beside()
            && let Some(bytes) = extension.lock().bytes_from(ext_offset, len_max)
        {
            self.piece.extend_from_slice(bytes);
            return Ok(());
        }
        let in_file = ext_offset % files.file_len_bytes();
        let base = ext_offset - in_file;
        let file = files.file_if_there(queue, base)?;
        let Some(file) = file else {
            return Ok(());
        };
        let left = files.file_len_bytes() - in_file;
        let len = len_max.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.piece.resize(len, 0);
        let got = file.read_at(&mut self.piece, in_file)?;
        self.piece.truncate(got);
        Ok(())
    }

    fn warn_of_missing(&self, ext_offset: u64) {
        let has_warned = &self.extensions.has_warned_of_missing;
        if !has_warned.swap(true, Ordering::AcqRel) {
            let (topic, queue_id) = self.name;
            let topic = String::from_utf8_lossy(topic);
            self.extensions.notices.warn(format!(
                "the extension of queue {topic} {queue_id} has no unit at offset {ext_offset}: \
                 such messages are given whatever their tags, and consumers test them (reported \
                 once)"
            ));
        }
    }
}
