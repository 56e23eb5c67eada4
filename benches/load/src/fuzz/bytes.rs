//! Numbers that are drawn from a seed, and bytes that are changed by them. Knows no format.

/// Numbers at which decoders go wrong.
const SPECIAL: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
/// Changes of one input at the most.
const CHANGES_MAX: u64 = 5;
/// The head of a thing holds its lengths: half of the changes are there.
const HEAD_BYTES: u64 = 64;
/// What a copied or blanked piece has at the most.
const PIECE_BYTES: u64 = 200;

/// A sequence of numbers (`SplitMix64`).
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// The sequence of a round of a connection.
    pub(super) fn of(seed: u64, connection: u64, round: u64) -> Self {
        let mut dice = Self(seed);
        for number in [connection, round] {
            dice = Self(dice.next() ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        dice
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 where that is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several; none of none.
    pub(super) fn one<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }

    /// So many bytes of any value.
    pub(super) fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Changes bytes; `others` lend their ends.
    pub(super) fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        for _ in 0..=self.below(CHANGES_MAX) {
            self.change_once(bytes, others);
        }
    }

    fn change_once(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let len = bytes.len() as u64;
        let at = if self.once_in(2) {
            self.below(len.min(HEAD_BYTES))
        } else {
            self.below(len)
        } as usize;
        match self.below(8) {
            0 | 1 => {
                let bit = 1 << self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
            2 | 3 => {
                let width = 1 << self.below(4);
                let value = self
                    .one(&SPECIAL)
                    .copied()
                    .unwrap_or_default()
                    .to_be_bytes();
                let low = value.get(8 - width..).unwrap_or_default();
                if let Some(target) = bytes.get_mut(at..at + width) {
                    target.copy_from_slice(low);
                }
            }
            4 => bytes.truncate(at),
            5 => {
                let to = (at + self.below(PIECE_BYTES) as usize).min(bytes.len());
                let piece = bytes.get(at..to).unwrap_or_default().to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                let other = self.one(others).cloned().unwrap_or_default();
                let from = self.below(other.len() as u64) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            _ => {
                let to = (at + self.below(PIECE_BYTES) as usize).min(bytes.len());
                let filling = if self.once_in(2) { 0 } else { b'9' };
                bytes.get_mut(at..to).unwrap_or_default().fill(filling);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_drawn_again_from_its_numbers() {
        let changed = |round| {
            let mut bytes = b"a frame of some bytes".to_vec();
            Dice::of(1, 2, round).change(&mut bytes, &[vec![7; 9]]);
            bytes
        };
        assert_eq!(changed(3), changed(3));
        assert!((0..20).any(|round| changed(round) != changed(3)));
    }
}
