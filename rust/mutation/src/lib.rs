//! Bytes that are changed where decoders go wrong, drawn from a seed: for fuzz targets of the crates and
//! for the generator of bad requests, in no released program. Knows no format.

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
/// The head of a thing holds its lengths: half of the changes are there.
const HEAD_BYTES: u64 = 64;
/// What a copied piece has at the most.
const COPIED_BYTES: u64 = 200;
/// What a blanked piece has at the most: longer than a head.
const BLANKED_BYTES: u64 = 600;
/// Steps of the sequence: the golden ratio, as `SplitMix64` has it.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers (`SplitMix64`), and the changes that are drawn from it.
#[derive(Debug, Clone)]
pub struct Mutation(u64);

impl Mutation {
    /// The sequence of a case of a fuzz target.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self(number.wrapping_mul(STEP) ^ 0x6675_7a7a)
    }

    /// The sequence that a seed and numbers name: the same ones give the same.
    #[must_use]
    pub fn named(seed: u64, numbers: &[u64]) -> Self {
        numbers.iter().fold(Self(seed), |mut before, number| {
            Self(before.draw() ^ number.wrapping_mul(STEP))
        })
    }

    /// The next number, of all 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw().checked_rem(end).unwrap_or(0)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several; none of none.
    pub fn one<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len() as u64) as usize)
    }

    /// So many bytes of any value.
    pub fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.draw() as u8).collect()
    }

    /// A copy, changed unless chance leaves it whole; `others` lend their ends.
    pub fn apply(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        if !self.once_in(CHANGES_MAX) {
            self.change(&mut bytes, others);
        }
        bytes
    }

    /// Changes bytes at least once; `others` lend their ends.
    pub fn change(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
        for _ in 0..=self.below(CHANGES_MAX - 1) {
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
                let value = self.one(&SPECIAL).copied().unwrap_or_default();
                let value = value.to_be_bytes();
                let low = value.get(8 - width..).unwrap_or_default();
                if let Some(target) = bytes.get_mut(at..at + width) {
                    target.copy_from_slice(low);
                }
            }
            4 => bytes.truncate(at),
            5 => {
                let to = (at + self.below(COPIED_BYTES) as usize).min(bytes.len());
                let piece = bytes.get(at..to).unwrap_or_default().to_vec();
                bytes.splice(at..at, piece);
            }
            6 => {
                let other = self.one(others).map_or(&[][..], Vec::as_slice);
                let from = self.below(other.len() as u64) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(other.get(from..).unwrap_or_default());
            }
            _ => {
                let to = (at + self.below(BLANKED_BYTES) as usize).min(bytes.len());
                // Nines make numbers of text longer than any type.
                let filling = if self.once_in(2) { 0 } else { b'9' };
                bytes.get_mut(at..to).unwrap_or_default().fill(filling);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(mut mutation: Mutation) -> Vec<u8> {
        mutation.apply(b"a frame of some bytes", &[vec![7; 9]])
    }

    #[test]
    fn the_same_numbers_change_the_same() {
        let of = |number| changed(Mutation::of(number));
        let named = |round| changed(Mutation::named(1, &[2, round]));
        assert_eq!((of(3), named(3)), (of(3), named(3)));
        assert!((0..20).any(|number| of(number) != of(3)));
        assert!((0..20).any(|round| named(round) != named(3)));
    }

    #[test]
    fn some_copies_are_whole_and_nothing_is_too_short_to_be_changed() {
        let whole = b"a frame of some bytes";
        let count = (0..1_000)
            .filter(|number| Mutation::of(*number).apply(whole, &[]) == whole)
            .count();
        assert!((100..400).contains(&count), "{count}");
        for number in 0..1_000 {
            Mutation::of(number).apply(b"", &[]);
            Mutation::of(number).apply(b"a", &[Vec::new()]);
        }
    }
}
