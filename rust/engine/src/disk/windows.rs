//! Maps of parts of a file from which many pieces are copied: what lies near each other costs one
//! call of the kernel together, where reading through the file costs one each.
//!
//! Copies only: no slice of a window leaves this file. Knows no record; the bytes asked for must be
//! such that nobody changes any more.

use std::fs::File;
use std::sync::Arc;

use super::Piece;
use crate::lock::Mutex;
use crate::mmap::Map;
use crate::units::{KIB, MIB};

/// Bytes of a window, which begins at a multiple of them: some ten thousand records of 1 KiB, and
/// page tables of 32 KiB.
const WINDOW_BYTES: u64 = 16 * MIB;
/// Windows of a file: readers at as many places do not take them from each other.
const WINDOWS_MAX: usize = 4;
/// Pieces of a run at the least: making pages present costs about as much as reading two of them.
const RUN_MIN: usize = 4;
/// Bytes between two pieces of a run at the most: what is between them is made present too.
const GAP_MAX_BYTES: u64 = 32 * KIB;

#[derive(Debug)]
struct Window {
    number: u64,
    map: Arc<Map>,
    is_used: bool,
}

/// The windows of one file, the last used one last.
#[derive(Debug, Default)]
pub(super) struct Windows {
    held: Mutex<Vec<Window>>,
}

impl Windows {
    /// Appends pieces to `into` that [`run_len`] counted; false, and nothing appended, where that
    /// did not work: reading them through the file reports why.
    ///
    /// # Blocking
    /// Reads the disk where the page cache has not the bytes.
    pub(super) fn copy(&self, file: &File, run: &[Piece], into: &mut Vec<u8>) -> bool {
        let before = into.len();
        let is_whole = self.try_copy(file, run, into).is_some();
        if !is_whole {
            into.truncate(before);
        }
        is_whole
    }

    fn try_copy(&self, file: &File, run: &[Piece], into: &mut Vec<u8>) -> Option<()> {
        let (first, last) = (run.first()?, run.last()?);
        let number = first.position / WINDOW_BYTES;
        let base = number * WINDOW_BYTES;
        let map = self.window(file, number)?;
        // A disk that fails is an error here; without this the touch below would be a signal.
        map.expect_read(first.position - base, last.end() - first.position)
            .ok()?;
        for piece in run {
            into.extend_from_slice(map.slice(piece.position - base, piece.len)?);
        }
        Some(())
    }

    fn window(&self, file: &File, number: u64) -> Option<Arc<Map>> {
        let mut held = self.held.lock();
        if let Some(at) = held.iter().position(|window| window.number == number) {
            let mut window = held.remove(at);
            window.is_used = true;
            let map = Arc::clone(&window.map);
            held.push(window);
            return Some(map);
        }
        let base = number * WINDOW_BYTES;
        let len = file.metadata().ok()?.len().checked_sub(base)?;
        let map = Arc::new(Map::window(file, base, len.min(WINDOW_BYTES)).ok()?);
        if held.len() == WINDOWS_MAX {
            held.remove(0);
        }
        let is_used = true;
        held.push(Window {
            number,
            map: Arc::clone(&map),
            is_used,
        });
        Some(map)
    }

    /// Lets the windows go that were not used since the call before.
    pub(super) fn rest(&self) {
        self.held
            .lock()
            .retain_mut(|window| std::mem::take(&mut window.is_used));
    }

    /// Lets all go: the file will be cut.
    pub(super) fn clear(&self) {
        self.held.lock().clear();
    }
}

/// How many of the first pieces lie so near each other, in ascending order and in one window, that
/// they are copied together; 0 where reading each is as good.
pub(super) fn run_len(pieces: &[Piece]) -> usize {
    let Some(first) = pieces.first() else {
        return 0;
    };
    let window_end = (first.position / WINDOW_BYTES + 1) * WINDOW_BYTES;
    let mut end = first.position;
    let count = pieces
        .iter()
        .take_while(|piece| {
            let is_near = piece.position >= end && piece.position - end <= GAP_MAX_BYTES;
            end = piece.end();
            is_near && end <= window_end
        })
        .count();
    if count < RUN_MIN { 0 } else { count }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disk::real::RealFile;
    use crate::disk::{Disk, DiskFile, Open, RealDisk};

    const FILE_BYTES: u64 = 2 * WINDOW_BYTES + 5_000;

    fn byte_at(position: u64) -> u8 {
        (position.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
    }

    /// A file that has no name any more.
    fn file(name: &str) -> RealFile {
        let name = format!("mqcore-windows-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let content: Vec<u8> = (0..FILE_BYTES).map(byte_at).collect();
        std::fs::write(&path, content).unwrap();
        let file = RealDisk.open(&path, Open::Write).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    fn pieces_from(starts: &[(u64, usize)]) -> Vec<Piece> {
        let piece = |&(position, len): &(u64, usize)| Piece { position, len };
        starts.iter().map(piece).collect()
    }

    #[test]
    fn pieces_are_what_the_file_has_wherever_they_lie() {
        let file = file("pieces");
        let near_ends = (0..3u64).flat_map(|at| {
            let end = ((at + 1) * WINDOW_BYTES).min(FILE_BYTES);
            (0..4_000u64).step_by(7).map(move |back| end - 4_200 + back)
        });
        let anywhere = (0..FILE_BYTES - 300).step_by(4_999);
        let starts = proptest::collection::vec(
            (
                prop_oneof![
                    proptest::sample::select(near_ends.collect::<Vec<_>>()),
                    proptest::sample::select(anywhere.collect::<Vec<_>>()),
                ],
                1..200_usize,
                1..40_u64,
            ),
            1..8,
        );
        proptest!(|(starts in starts)| {
            // Groups side by side, as the records of a queue lie; groups in any order.
            let pieces: Vec<Piece> = starts
                .iter()
                .flat_map(|&(start, len, count)| (0..count).map(move |at| (start + at * 211, len)))
                .filter(|(position, len)| position + *len as u64 <= FILE_BYTES)
                .map(|(position, len)| Piece { position, len })
                .collect();
            let mut got = vec![1, 2, 3];
            file.read_pieces(&pieces, &mut got).unwrap();
            let want: Vec<u8> = [1, 2, 3]
                .into_iter()
                .chain(pieces.iter().flat_map(|p| (p.position..p.end()).map(byte_at)))
                .collect();
            prop_assert!(got == want);
        });
    }

    #[test]
    fn runs_end_at_gaps_at_steps_back_and_at_windows() {
        let tight = pieces_from(&[(0, 100), (100, 100), (300, 100), (400, 100), (500, 100)]);
        assert_eq!(run_len(&tight), 5);
        assert_eq!(run_len(&tight[..3]), 0, "too few");
        let gap = 500 + GAP_MAX_BYTES + 1;
        let apart = pieces_from(&[(0, 100), (100, 100), (200, 100), (400, 100), (gap, 100)]);
        assert_eq!(run_len(&apart), 4);
        let back = pieces_from(&[(500, 10), (510, 10), (520, 10), (530, 10), (100, 10)]);
        assert_eq!(run_len(&back), 4);
        let at = WINDOW_BYTES - 50;
        let across = pieces_from(&[(at, 10), (at + 10, 10), (at + 20, 10), (at + 30, 10)]);
        assert_eq!(run_len(&across), 4);
        let across = pieces_from(&[(at, 10), (at + 10, 10), (at + 20, 10), (at + 30, 40)]);
        assert_eq!(run_len(&across), 0, "the last one is not in the window");
        assert_eq!(run_len(&[]), 0);
    }

    #[test]
    fn what_the_file_has_not_is_an_error() {
        let file = file("beyond");
        let beyond: Vec<_> = (0..8)
            .map(|at| (FILE_BYTES - 400 + at * 100, 100))
            .collect();
        let mut got = Vec::new();
        assert!(file.read_pieces(&pieces_from(&beyond), &mut got).is_err());
        assert!(
            file.read_pieces(&pieces_from(&beyond[..4]), &mut got)
                .is_ok()
        );
    }

    #[test]
    fn a_borrowed_file_is_read_without_windows() {
        let name = format!("mqcore-windows-{}-borrowed", std::process::id());
        let (owned, link) = (
            std::env::temp_dir().join(&name),
            std::env::temp_dir().join(format!("{name}-link")),
        );
        std::fs::write(&owned, (0..100).map(byte_at).collect::<Vec<u8>>()).unwrap();
        std::os::unix::fs::symlink(&owned, &link).unwrap();
        let file = RealDisk.open(&link, Open::Write).unwrap();
        let mut got = Vec::new();
        let pieces = pieces_from(&[(0, 10), (20, 10), (40, 10), (60, 10)]);
        file.read_pieces(&pieces, &mut got).unwrap();
        std::fs::remove_file(&owned).unwrap();
        std::fs::remove_file(&link).unwrap();
        assert_eq!(got.len(), 40);
        assert!(file.windows().held.lock().is_empty());
    }

    #[test]
    fn windows_go_when_nobody_uses_them_and_before_a_file_is_cut() {
        let file = file("rest");
        let pieces = pieces_from(&[(0, 9), (10, 9), (20, 9), (30, 9)]);
        let mut got = Vec::new();
        for _ in 0..2 {
            file.read_pieces(&pieces, &mut got).unwrap();
        }
        let count = || file.windows().held.lock().len();
        assert_eq!(count(), 1);
        file.rest();
        assert_eq!(count(), 1, "it was used");
        file.rest();
        assert_eq!(count(), 0);
        for turn in 0..3 {
            for number in 0..3 {
                let at = number * WINDOW_BYTES + turn;
                let there = [at, at + 9, at + 18, at + 27].map(|position| (position, 9));
                file.read_pieces(&pieces_from(&there), &mut got).unwrap();
            }
        }
        assert_eq!(count(), 3, "each was made once");
        file.set_len(15).unwrap();
        assert_eq!(count(), 0);
        assert!(file.read_pieces(&pieces, &mut got).is_err());
    }
}
