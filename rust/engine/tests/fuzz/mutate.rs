//! Changes bytes by a seed. Knows no format.

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
const CHANGES_MAX: u64 = 6;

/// A sequence of changes.
pub(crate) struct Mutation(u64);

impl Mutation {
    pub(crate) fn of(number: u64) -> Self {
        Self(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6675_7a7a)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 where that is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// A changed copy.
    pub(crate) fn apply(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..self.below(CHANGES_MAX) {
            self.change(&mut bytes, others);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        let len = bytes.len() as u64;
        // The head of a thing holds its lengths: it is hit more often.
        let near = len.min(64);
        let at = if self.below(2) == 0 {
            self.below(near)
        } else {
            self.below(len)
        };
        let at = at as usize;
        match self.below(8) {
            0 | 1 => {
                let bit = 1 << self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bit;
                }
            }
            2 | 3 => {
                let width = [1, 2, 4, 8][self.below(4) as usize];
                let value = SPECIAL[self.below(SPECIAL.len() as u64) as usize];
                let big_endian = value.to_be_bytes();
                if let Some(target) = bytes.get_mut(at..at + width) {
                    target.copy_from_slice(&big_endian[8 - width..]);
                }
            }
            4 => bytes.truncate(at),
            5 => {
                let to = at + self.below(64) as usize;
                let piece = bytes.get(at..to.min(bytes.len())).unwrap_or_default();
                let piece = piece.to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                let other = &others[self.below(others.len() as u64) as usize];
                let from = self.below(other.len() as u64) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            _ => {
                let to = (at + self.below(600) as usize).min(bytes.len());
                if let Some(piece) = bytes.get_mut(at..to) {
                    piece.fill(0);
                }
            }
        }
    }
}
