//! Java's string hash and the codes made of it: tags code and key hash.
//!
//! `String.hashCode` runs over UTF-16 code units, not over bytes. Almost every tag and key is
//! ASCII, where units are bytes; those take eight at a time, because the plain recurrence waits
//! four cycles for each unit.

/// Powers of 31 for one step of eight units, the highest first.
const POWERS: [u32; 8] = powers();
/// 31 to the eighth: what one step multiplies the hash before it with.
const POWER_OF_STEP: u32 = POWERS[0].wrapping_mul(31);
/// The sign bits of eight bytes: none set means eight ASCII bytes.
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
/// What Java's decoder puts in place of bytes that are no UTF-8.
const REPLACEMENT: u32 = 0xFFFD;

/// What is between topic and tags in the index of 5.5 (`IndexService.buildKey` of type `T`).
const TAGS_INFIX: &[u8] = b"#T#";

const fn powers() -> [u32; 8] {
    let mut powers = [1_u32; 8];
    let mut at = 7;
    while at > 0 {
        powers[at - 1] = powers[at].wrapping_mul(31);
        at -= 1;
    }
    powers
}

/// `String.hashCode` of a text.
#[inline]
#[must_use]
pub fn java_hash(text: &str) -> i32 {
    extend(0, text.as_bytes()) as i32
}

/// `String.hashCode` of the string that Java decodes from these bytes; what is no UTF-8 becomes
/// U+FFFD, as `new String(bytes, UTF_8)` does it.
#[inline]
#[must_use]
pub fn java_hash_bytes(bytes: &[u8]) -> i32 {
    extend(0, bytes) as i32
}

/// The tags code of a consume queue entry (`MessageExtBrokerInner.tagsString2tagsCode`): hash of
/// the whole TAGS text, sign extended; 0 when there is none.
#[inline]
#[must_use]
pub fn tags_code(tags: &[u8]) -> i64 {
    i64::from(java_hash_bytes(tags))
}

/// The hash of a key in the index (`IndexFile.indexKeyHashMethod` of `topic + "#" + key`): its
/// absolute value, and 0 for the one hash that has none.
#[inline]
#[must_use]
pub fn index_key_hash(topic: &[u8], key: &[u8]) -> u32 {
    absolute(extend(step(extend(0, topic), u32::from(b'#')), key))
}

/// The hash of the tags of a message in an index of 5.5 (`topic + "#T#" + tags`): that of the key
/// `T#` with the tags behind it.
#[inline]
#[must_use]
pub fn index_tags_hash(topic: &[u8], tags: &[u8]) -> u32 {
    absolute(extend(extend(extend(0, topic), TAGS_INFIX), tags))
}

/// What the index has in place of a sign: the absolute value, and 0 for the one hash that has none.
#[inline]
fn absolute(hash: u32) -> u32 {
    let hash = hash as i32;
    if hash == i32::MIN {
        0
    } else {
        hash.unsigned_abs()
    }
}

#[inline]
fn step(hash: u32, unit: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(unit)
}

/// The hash of a string that goes on with `bytes` after a part whose hash is `hash`.
#[inline]
fn extend(mut hash: u32, bytes: &[u8]) -> u32 {
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        if u64::from_le_bytes(*chunk) & HIGH_BITS != 0 {
            return extend_decoded(hash, rest);
        }
        hash = hash.wrapping_mul(POWER_OF_STEP);
        for (byte, power) in chunk.iter().zip(POWERS) {
            hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(power));
        }
        rest = after;
    }
    if !rest.is_ascii() {
        return extend_decoded(hash, rest);
    }
    rest.iter()
        .fold(hash, |hash, byte| step(hash, u32::from(*byte)))
}

/// The same for bytes that are not all ASCII. Every malformed sequence counts as Java's decoder
/// counts it: like Rust's, except that a surrogate written as three bytes (ED A0..BF xx) is one
/// replacement, where Rust sees three.
#[cold]
fn extend_decoded(mut hash: u32, bytes: &[u8]) -> u32 {
    // How many continuation bytes of a surrogate may still follow as part of the last replacement.
    let mut surrogate_left = 0_u8;
    for chunk in bytes.utf8_chunks() {
        for unit in chunk.valid().encode_utf16() {
            hash = step(hash, u32::from(unit));
            surrogate_left = 0;
        }
        match chunk.invalid() {
            [] => {}
            [0xA0..=0xBF] if surrogate_left == 2 => surrogate_left = 1,
            [0x80..=0xBF] if surrogate_left == 1 => surrogate_left = 0,
            invalid => {
                hash = step(hash, REPLACEMENT);
                surrogate_left = if invalid == [0xED] { 2 } else { 0 };
            }
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(text: &str) -> i32 {
        text.encode_utf16().fold(0, |hash: i32, unit| {
            hash.wrapping_mul(31).wrapping_add(i32::from(unit))
        })
    }

    #[test]
    fn the_hash_is_javas() {
        for (text, hash) in [
            ("", 0),
            ("a", 97),
            ("TagA", 2_598_919),
            ("TagB", 2_598_920),
            ("hello", 99_162_322),
            ("polygenelubricants", i32::MIN),
            ("Hello, world!", -1_880_044_555),
            ("你好", 652_829),
            ("上海", 647_341),
            // U+1F600 is the surrogates D83D DE00: 31 * 0xD83D + 0xDE00.
            ("\u{1F600}", 1_772_899),
            ("tag一\u{1F600}x", -901_778_417),
            ("TagA || TagB", 1_359_775_119),
        ] {
            assert_eq!(java_hash(text), hash, "{text}");
            assert_eq!(java_hash_bytes(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn bad_utf8_counts_as_javas_decoder_counts_it() {
        let fffd = |count: usize| plain(&"\u{FFFD}".repeat(count));
        for (bytes, count) in [
            (&b"\xFF"[..], 1),
            (b"\xC0\x80", 2),
            (b"\xE4\xBD", 1),
            (b"\xF0\x9F\x98", 1),
            (b"\xE0\x80\x80", 3),
            // Surrogates as three bytes (CESU-8): one each.
            (b"\xED\xA0\x80", 1),
            (b"\xED\xA0\xBD\xED\xB8\x80", 2),
            (b"\xED\xA0", 1),
            (b"\xED\xA0\xA0\xA0", 2),
            (b"\xF5\x80\x80\x80", 4),
        ] {
            assert_eq!(java_hash_bytes(bytes), fffd(count), "{bytes:02x?}");
        }
        assert_eq!(java_hash_bytes(b"\xEDa\xA0"), plain("\u{FFFD}a\u{FFFD}"));
    }

    #[test]
    fn the_tags_code_is_sign_extended() {
        assert_eq!(tags_code(b"TagA"), 2_598_919);
        assert_eq!(tags_code(b""), 0);
        assert_eq!(tags_code(b"polygenelubricants"), -2_147_483_648);
    }

    #[test]
    fn the_key_hash_is_that_of_the_golden_index() {
        assert_eq!(index_key_hash(b"GoldenTiny", b"key-1"), 616_737_015);
        assert_eq!(
            index_key_hash(
                b"GoldenTiny",
                b"FD00000000000000000000000000000255EB30946E0968CEFEBD0000"
            ),
            1_982_730_028
        );
        assert_eq!(
            index_key_hash(b"SCHEDULE_TOPIC_XXXX", b"key-5"),
            585_724_452
        );
    }

    #[test]
    fn the_key_hash_without_absolute_value_is_zero() {
        assert_eq!(java_hash("orders#aagwguczs"), i32::MIN);
        assert_eq!(index_key_hash(b"orders", b"aagwguczs"), 0);
    }

    proptest! {
        #[test]
        fn any_text_hashes_as_the_plain_recurrence(text in any::<String>()) {
            prop_assert_eq!(java_hash(&text), plain(&text));
        }

        #[test]
        fn any_ascii_hashes_as_the_plain_recurrence(text in "[ -~]{0,80}") {
            prop_assert_eq!(java_hash(&text), plain(&text));
        }

        #[test]
        fn the_parts_of_a_key_hash_as_their_whole(topic in ".{0,30}", key in ".{0,30}") {
            let hash = plain(&format!("{topic}#{key}"));
            prop_assert_eq!(
                index_key_hash(topic.as_bytes(), key.as_bytes()),
                if hash == i32::MIN { 0 } else { hash.unsigned_abs() }
            );
        }

        #[test]
        fn the_tags_of_a_topic_hash_as_a_key_of_their_own(topic in ".{0,30}", tags in ".{0,30}") {
            prop_assert_eq!(
                index_tags_hash(topic.as_bytes(), tags.as_bytes()),
                index_key_hash(topic.as_bytes(), format!("T#{tags}").as_bytes())
            );
        }

        #[test]
        fn any_bytes_hash(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = java_hash_bytes(&bytes);
        }
    }
}
