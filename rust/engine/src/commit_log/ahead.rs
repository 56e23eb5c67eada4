//! Reading ahead of cold readers: who reads on where it stopped gets a window that grows, who jumps
//! loses it. Pure: offsets in, ranges to be fetched out; the file is asked by the caller.

use crate::units::{KIB, MIB};

/// First window of a reader that reads on: what the kernel itself would take.
const WINDOW_FIRST_BYTES: u64 = 128 * KIB;
/// Longest window: twenty milliseconds of a disk that gives 400 MB/s.
const WINDOW_MAX_BYTES: u64 = 8 * MIB;
/// A reader that skips less than this still reads on: other queues' records lie between its own.
const SKIP_MAX_BYTES: u64 = MIB;
/// Readers followed at a time. The longest unused is dropped, so a store with more cold readers
/// than this reads ahead for the newest of them.
const READERS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Reader {
    next: u64,
    window: u64,
    fetched_to: u64,
    used: u64,
}

/// The cold readers that are followed.
#[derive(Debug, Default)]
pub struct ReadAhead {
    readers: Vec<Reader>,
    turn: u64,
}

impl ReadAhead {
    /// Takes note of a read of `[physical_offset, physical_offset + len)` below the hot window; the range
    /// that should be fetched now, if any.
    pub fn on_read(&mut self, physical_offset: u64, len: u64) -> Option<std::ops::Range<u64>> {
        self.turn += 1;
        let end = physical_offset + len;
        let follows = |reader: &Reader| {
            physical_offset >= reader.next && physical_offset - reader.next <= SKIP_MAX_BYTES
        };
        let Some(reader) = self.readers.iter_mut().find(|reader| follows(reader)) else {
            let fresh = Reader {
                next: end,
                window: 0,
                fetched_to: end,
                used: self.turn,
            };
            if self.readers.len() < READERS_MAX {
                self.readers.push(fresh);
            } else if let Some(oldest) = self.readers.iter_mut().min_by_key(|reader| reader.used) {
                *oldest = fresh;
            }
            return None;
        };
        reader.next = end;
        reader.used = self.turn;
        // Half a window is still ahead: enough to fetch the next one meanwhile.
        if reader.fetched_to > end + reader.window / 2 {
            return None;
        }
        reader.window = (reader.window * 2).clamp(WINDOW_FIRST_BYTES, WINDOW_MAX_BYTES);
        let from = reader.fetched_to.max(end);
        let (window, turn) = (reader.window, self.turn);
        // Readers of neighbouring queues want nearly the same range: the first one has asked for it.
        let has_asked = |other: &&Reader| other.used != turn && other.next <= from;
        let others = self.readers.iter().filter(has_asked);
        let asked_to = others.map(|other| other.fetched_to).max().unwrap_or(0);
        let is_asked = asked_to >= from + window / 2;
        let to = if is_asked { asked_to } else { from + window };
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.used == turn) {
            reader.fetched_to = to;
        }
        (!is_asked).then_some(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_side_by_side_ask_for_a_range_once() {
        let mut ahead = ReadAhead::default();
        let mut one = ReadAhead::default();
        let (mut asked, mut alone) = (0, 0);
        let len_of = |range: Option<std::ops::Range<u64>>| range.map_or(0, |r| r.end - r.start);
        for physical_offset in (0..256 * MIB).step_by(MIB as usize) {
            alone += len_of(one.on_read(physical_offset, MIB));
            // Four queues whose records lie by turns.
            for queue in 0..4 {
                asked += len_of(ahead.on_read(physical_offset + queue * 1_000, MIB));
            }
        }
        assert!(asked < alone * 3 / 2, "{asked} beside {alone}");
    }

    #[test]
    fn the_window_of_a_sequential_reader_grows_and_covers_without_gap() {
        let mut ahead = ReadAhead::default();
        let mut covered = 0;
        let mut longest = 0;
        for physical_offset in (0..64 * MIB).step_by(1_000) {
            if let Some(range) = ahead.on_read(physical_offset, 1_000) {
                assert!(
                    covered == 0 || range.start == covered,
                    "{range:?} after {covered}"
                );
                covered = range.end;
                longest = longest.max(range.end - range.start);
            }
            assert!(physical_offset < 3_000 || covered > physical_offset);
        }
        assert_eq!(longest, WINDOW_MAX_BYTES);
    }

    #[test]
    fn a_jump_starts_anew_and_interleaved_readers_keep_their_windows() {
        let mut ahead = ReadAhead::default();
        assert_eq!(ahead.on_read(0, 1_000), None);
        assert_eq!(
            ahead.on_read(1_000, 1_000),
            Some(2_000..2_000 + WINDOW_FIRST_BYTES)
        );
        assert_eq!(
            ahead.on_read(900 * MIB, 1_000),
            None,
            "one read is no sequence"
        );
        assert_eq!(ahead.on_read(100, 1_000), None, "backwards neither");
        let far = 900 * MIB + 1_000;
        assert_eq!(
            ahead.on_read(far, 500),
            Some(far + 500..far + 500 + WINDOW_FIRST_BYTES)
        );
        assert_eq!(ahead.on_read(2_000, 1_000), None, "still covered");
        for n in 0..1_000 {
            ahead.on_read(n * 10 * MIB, 10);
        }
        assert_eq!(ahead.readers.len(), READERS_MAX);
    }
}
