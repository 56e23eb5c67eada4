//! Finds the first byte that a JSON string does not hold as it is: a quote, a backslash or a control
//! character. Eight bytes at a time, in plain arithmetic: most strings of a header are short.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The place of the first special byte.
#[inline]
pub(crate) fn special_at(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // A subtraction borrows from the bytes above a hit only, so that the lowest hit is true.
        let below = |limit: u64, word: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
        let equal = |byte: u8| below(1, word ^ (ONES * u64::from(byte)));
        let hits = below(0x20, word) | equal(b'"') | equal(b'\\');
        if hits != 0 {
            return Some(number * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    let at = rest.iter().position(is_special)?;
    Some(words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_where_a_plain_search_finds_it(
            bytes in proptest::collection::vec(
                prop_oneof![8 => b'a'..=b'z', 1 => any::<u8>(), 1 => Just(b'"'), 1 => Just(0x20)],
                0..40,
            )
        ) {
            let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(special_at(&bytes), bytes.iter().position(is_special));
        }
    }

    #[test]
    fn each_special_byte_is_found_among_all_others() {
        for byte in 0..=255_u8 {
            for at in 0..17 {
                let mut bytes = [0xff; 17];
                bytes[at] = byte;
                let is_special = byte < 0x20 || byte == b'"' || byte == b'\\';
                assert_eq!(special_at(&bytes), is_special.then_some(at), "{byte:#x}");
            }
        }
    }
}
