//! Records that were read together below the hot window, and the buffers that they are read into. Knows
//! no file and no queue.

use std::sync::Arc;

use crate::disk::Disk;
use crate::lock::Mutex;
use crate::segment::{LogSlice, SharedBytes};
use crate::units::KIB;

/// Bytes of records that are read together at the most.
pub(super) const TOGETHER_BYTES: usize = 256 * KIB as usize;
/// Buffers that are kept for the next reads: as many as the answers hold that are on their way to a few
/// readers.
const SPARES_MAX: usize = 64;

/// Buffers that are not in use. A fresh one costs as much as what is copied into it: the kernel clears
/// its pages.
#[derive(Debug, Default)]
pub(super) struct Spares {
    kept: Mutex<Vec<Vec<u8>>>,
}

impl Spares {
    /// An empty buffer, which comes back when it is dropped.
    pub(super) fn take(spares: &Arc<Self>) -> Lent {
        let bytes = spares.kept.lock().pop();
        Lent {
            bytes: bytes.unwrap_or_else(|| Vec::with_capacity(TOGETHER_BYTES)),
            home: Arc::clone(spares),
        }
    }

    /// Gives all memory back.
    pub(super) fn clear(&self) {
        *self.kept.lock() = Vec::new();
    }
}

/// A buffer on loan.
pub(super) struct Lent {
    bytes: Vec<u8>,
    home: Arc<Spares>,
}

impl Lent {
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut kept = self.home.kept.lock();
        if kept.len() < SPARES_MAX && bytes.capacity() <= TOGETHER_BYTES {
            kept.push(bytes);
        }
    }
}

/// Records that lie in one copy, in the order in which they were read.
pub(super) struct Together {
    buffer: SharedBytes,
    /// Where each of them lies in the log.
    pieces: std::vec::IntoIter<(u64, usize)>,
    /// Where the next one lies in the copy.
    at: usize,
}

impl Together {
    pub(super) fn none() -> Self {
        Self::new(Arc::new([]), Vec::new())
    }

    /// Records by offset and length, side by side in a buffer.
    pub(super) fn new(buffer: SharedBytes, pieces: Vec<(u64, usize)>) -> Self {
        Self {
            buffer,
            pieces: pieces.into_iter(),
            at: 0,
        }
    }

    /// The next record, if it is this one.
    #[inline]
    pub(super) fn take<D: Disk>(
        &mut self,
        physical_offset: u64,
        len: usize,
    ) -> Option<LogSlice<D>> {
        if self.pieces.as_slice().first() != Some(&(physical_offset, len)) {
            return None;
        }
        self.pieces.next();
        let range = self.at..self.at + len;
        self.at = range.end;
        Some(LogSlice::Shared {
            buffer: Arc::clone(&self.buffer),
            range,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn records_come_in_the_order_in_which_they_were_read_and_no_other() {
        let spares = Arc::new(Spares::default());
        let mut lent = Spares::take(&spares);
        lent.bytes().extend_from_slice(b"aabbbc");
        let mut together = Together::new(Arc::new(lent), vec![(10, 2), (20, 3), (40, 1)]);
        assert!(together.take::<RealDisk>(20, 3).is_none(), "not its turn");
        assert!(together.take::<RealDisk>(10, 3).is_none(), "another length");
        let first = together.take::<RealDisk>(10, 2).unwrap();
        let second = together.take::<RealDisk>(20, 3).unwrap();
        assert_eq!(
            (first.as_bytes(), second.as_bytes()),
            (&b"aa"[..], &b"bbb"[..])
        );
        drop((together, first));
        assert_eq!(spares.kept.lock().len(), 0, "a record is held");
        drop(second);
        assert_eq!(spares.kept.lock().len(), 1);
        let again = Spares::take(&spares);
        assert_eq!(again.as_ref(), b"");
        drop(again);
        spares.clear();
        assert_eq!(spares.kept.lock().len(), 0);
    }
}
