//! What waits to be written to one connection: bytes and slices of the log, in order. Knows no
//! socket: it gives slices, and is called with how much of them was written.

use std::collections::VecDeque;
use std::io::IoSlice;

use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;

/// Answers are gathered in a buffer up to this length before a new one is begun: large enough for
/// hundreds of small answers in one call, small enough that what was sent is given back soon.
const GATHER_BYTES: usize = 64 * 1024;

#[derive(Debug)]
enum Piece<D: Disk> {
    Bytes(Vec<u8>),
    Record(RecordBytes<D>),
}

impl<D: Disk> Piece<D> {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Record(record) => record.as_bytes(),
        }
    }
}

/// The output of one connection.
#[derive(Debug)]
pub struct Output<D: Disk> {
    pieces: VecDeque<Piece<D>>,
    /// Bytes of the first piece that went out.
    sent_of_first: usize,
    queued_bytes: usize,
    pinned_bytes: usize,
    is_lent: bool,
}

/// Output that is being written, out of reach of those that append: what it holds is still counted by
/// the [`Output`] that it came from.
#[derive(Debug)]
pub struct Lent<D: Disk> {
    pieces: VecDeque<Piece<D>>,
    sent_of_first: usize,
}

impl<D: Disk> Lent<D> {
    /// What is to be written next, as slices, at most `count_max` of them.
    pub fn slices<'a>(&'a self, count_max: usize, out: &mut Vec<IoSlice<'a>>) {
        slices_of(&self.pieces, self.sent_of_first, count_max, out);
    }
}

fn slices_of<'a, D: Disk>(
    pieces: &'a VecDeque<Piece<D>>,
    sent_of_first: usize,
    count_max: usize,
    out: &mut Vec<IoSlice<'a>>,
) {
    let mut skip = sent_of_first;
    for piece in pieces.iter().take(count_max) {
        let bytes = piece.as_bytes().get(skip..).unwrap_or_default();
        skip = 0;
        if !bytes.is_empty() {
            out.push(IoSlice::new(bytes));
        }
    }
}

impl<D: Disk> Default for Output<D> {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            sent_of_first: 0,
            queued_bytes: 0,
            pinned_bytes: 0,
            is_lent: false,
        }
    }
}

impl<D: Disk> Output<D> {
    /// Bytes that wait.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Bytes of the log among them that keep their file from being removed.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.pinned_bytes
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued_bytes == 0
    }

    /// Lets `write` add bytes at the end.
    pub fn append<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let has_space =
            matches!(self.pieces.back(), Some(Piece::Bytes(b)) if b.len() < GATHER_BYTES);
        if !has_space {
            self.pieces.push_back(Piece::Bytes(Vec::new()));
        }
        let Some(Piece::Bytes(bytes)) = self.pieces.back_mut() else {
            // The branch above has just put one there.
            return write(&mut Vec::new());
        };
        let before = bytes.len();
        let result = write(bytes);
        self.queued_bytes += bytes.len().saturating_sub(before);
        result
    }

    /// Adds a record as a slice of the log.
    pub fn push_record(&mut self, record: RecordBytes<D>) {
        let len = record.as_bytes().len();
        self.queued_bytes += len;
        if !record.is_copy() {
            self.pinned_bytes += len;
        }
        self.pieces.push_back(Piece::Record(record));
    }

    /// What is to be written next, as slices, at most `count_max` of them.
    pub fn slices<'a>(&'a self, count_max: usize, out: &mut Vec<IoSlice<'a>>) {
        slices_of(&self.pieces, self.sent_of_first, count_max, out);
    }

    /// Takes everything out to be written without the lock around the output; `None` where nothing
    /// waits, or it is lent: what was appended since goes out after that. More may be appended
    /// meanwhile; nothing else is called before [`Output::give_back`].
    pub fn lend(&mut self) -> Option<Lent<D>> {
        if self.is_empty() || std::mem::replace(&mut self.is_lent, true) {
            return None;
        }
        Some(Lent {
            pieces: std::mem::take(&mut self.pieces),
            sent_of_first: std::mem::take(&mut self.sent_of_first),
        })
    }

    /// Takes back what was lent, of which so many bytes went out.
    pub fn give_back(&mut self, lent: Lent<D>, sent_bytes: usize) {
        let appended = std::mem::replace(&mut self.pieces, lent.pieces);
        self.pieces.extend(appended);
        self.sent_of_first = lent.sent_of_first;
        self.is_lent = false;
        self.sent(sent_bytes);
    }

    /// Takes off what went out.
    pub fn sent(&mut self, mut len: usize) {
        len = len.min(self.queued_bytes);
        self.queued_bytes -= len;
        while len > 0
            && let Some(first) = self.pieces.front()
        {
            let left = first.as_bytes().len() - self.sent_of_first;
            if len < left {
                self.sent_of_first += len;
                return;
            }
            len -= left;
            self.sent_of_first = 0;
            self.drop_first();
        }
    }

    /// Takes about `len_max` bytes off, copied: for a transport that wants bytes.
    pub fn take(&mut self, len_max: usize) -> Vec<u8> {
        if self.sent_of_first == 0
            && let Some(Piece::Bytes(bytes)) = self.pieces.front_mut()
            && bytes.len() == self.queued_bytes
            && bytes.len() <= len_max
        {
            // All there is, in one buffer: it goes as it is.
            let bytes = std::mem::take(bytes);
            self.pieces.clear();
            self.queued_bytes = 0;
            return bytes;
        }
        let mut out = Vec::with_capacity(len_max.min(self.queued_bytes));
        let mut slices = Vec::new();
        self.slices(usize::MAX, &mut slices);
        for slice in &slices {
            let left = len_max - out.len();
            out.extend_from_slice(slice.get(..left.min(slice.len())).unwrap_or_default());
            if out.len() == len_max {
                break;
            }
        }
        self.sent(out.len());
        out
    }

    fn drop_first(&mut self) {
        match self.pieces.pop_front() {
            Some(Piece::Record(record)) if !record.is_copy() => {
                self.pinned_bytes -= record.as_bytes().len();
            }
            // A buffer that was gathered in is used again for what comes next.
            Some(Piece::Bytes(mut bytes)) if self.pieces.is_empty() => {
                bytes.clear();
                self.pieces.push_back(Piece::Bytes(bytes));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use mqcore_engine::disk::RealDisk;

    use super::*;

    #[test]
    fn what_is_taken_in_any_pieces_is_what_was_appended() {
        for step in [1_001, 4_099, 64, 70_001, 100_000, 1 << 20] {
            let mut output = Output::<RealDisk>::default();
            let mut want = Vec::new();
            for at in 0..60_u8 {
                let part = vec![at; usize::from(at) * 101];
                output.append(|bytes| bytes.extend_from_slice(&part));
                want.extend_from_slice(&part);
            }
            assert_eq!(output.queued_bytes(), want.len());
            let mut got = Vec::new();
            while !output.is_empty() {
                if step % 2 == 0 {
                    got.extend(output.take(step));
                } else if step % 4 == 1 {
                    let lent = output.lend().unwrap();
                    // Who is listed twice writes once.
                    assert!(output.lend().is_none());
                    let mut slices = Vec::new();
                    lent.slices(3, &mut slices);
                    let seen: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                    let len = seen.len().min(step);
                    got.extend_from_slice(&seen[..len]);
                    if want.len() < 400_000 {
                        // Somebody answers meanwhile.
                        let more = vec![u8::MAX; 999];
                        output.append(|bytes| bytes.extend_from_slice(&more));
                        want.extend_from_slice(&more);
                    }
                    output.give_back(lent, len);
                    assert_eq!(output.queued_bytes(), want.len() - got.len());
                } else {
                    let mut slices = Vec::new();
                    output.slices(3, &mut slices);
                    let seen: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                    let len = seen.len().min(step);
                    got.extend_from_slice(&seen[..len]);
                    output.sent(len);
                }
            }
            assert_eq!(got, want, "{step} bytes at once");
        }
    }
}
