//! Sizes and names that every floor shares: pages, sizes in bytes, file names made of offsets.
//! Knows no file and no clock.

/// The page that RocketMQ's "least pages" arithmetic counts in, whatever the machine's page is
/// (`DefaultMappedFile.OS_PAGE_SIZE`).
pub const PAGE_BYTES: u64 = 4096;
/// 1024 bytes.
pub const KIB: u64 = 1024;
/// 1024 KiB.
pub const MIB: u64 = 1024 * KIB;
/// 1024 MiB.
pub const GIB: u64 = 1024 * MIB;

/// Digits of a file name that is an offset (`UtilAll.offset2FileName`).
pub const OFFSET_NAME_DIGITS: usize = 20;

/// The file name of the file whose first byte has this offset: 20 decimal digits.
#[must_use]
pub fn offset_file_name(offset: u64) -> String {
    format!("{offset:020}")
}

/// The offset that a file name means, or `None` when the name is not 20 digits.
#[must_use]
pub fn parse_offset_file_name(name: &str) -> Option<u64> {
    if name.len() != OFFSET_NAME_DIGITS || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    name.parse().ok()
}

/// `value` rounded down to a multiple of `unit`.
#[must_use]
pub fn round_down(value: u64, unit: u64) -> u64 {
    value - value % unit
}

/// `value` rounded up to a multiple of `unit`.
#[must_use]
pub fn round_up(value: u64, unit: u64) -> u64 {
    value.div_ceil(unit) * unit
}

/// The number that a directory name means; `None` when it is no queue's.
#[must_use]
pub fn parse_queue_id(name: &str) -> Option<i32> {
    let queue_id: i32 = name.parse().ok()?;
    // Other spellings ("007", "+7") would be a second directory of the same queue.
    (queue_id.to_string() == name).then_some(queue_id)
}

/// Longest topic, bytes: the longest name that file systems take.
pub const TOPIC_MAX_BYTES: usize = 255;

/// Whether a topic can be the name of a directory. What a message claims is never trusted: a topic
/// of `..` would leave the store.
#[must_use]
pub fn is_topic(topic: &[u8]) -> bool {
    let is_plain = !topic.iter().any(|byte| matches!(byte, 0 | b'/'));
    let is_dots = matches!(topic, b"." | b"..");
    let has_len = (1..=TOPIC_MAX_BYTES).contains(&topic.len());
    let is_text = std::str::from_utf8(topic).is_ok_and(|text| !text.contains('\u{fffd}'));
    has_len && is_plain && !is_dots && is_text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_and_its_file_name_are_the_same_thing() {
        assert_eq!(offset_file_name(1_073_741_824), "00000000001073741824");
        assert_eq!(
            parse_offset_file_name("00000000001073741824"),
            Some(1_073_741_824)
        );
        assert_eq!(parse_offset_file_name("1073741824"), None);
        assert_eq!(parse_offset_file_name("0000000000107374182x"), None);
        assert_eq!(parse_offset_file_name("99999999999999999999"), None);
    }

    #[test]
    fn a_topic_never_leaves_its_directory() {
        for bad in ["", ".", "..", "a/b", "a\0b", "\u{fffd}", &"x".repeat(256)] {
            assert!(!is_topic(bad.as_bytes()), "{bad:?}");
        }
        assert!(!is_topic(b"\xff\xfe"));
        for good in ["%RETRY%group", "a|b", "...", "主题"] {
            assert!(is_topic(good.as_bytes()), "{good:?}");
        }
    }

    #[test]
    fn a_queue_directory_has_the_plain_number() {
        assert_eq!(parse_queue_id("12"), Some(12));
        for bad in ["", "+1", "01", "x", "2147483648"] {
            assert_eq!(parse_queue_id(bad), None, "{bad}");
        }
    }
}
