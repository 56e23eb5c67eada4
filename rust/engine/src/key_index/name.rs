//! Names of index files: the local time of their making, 17 digits (`yyyyMMddHHmmssSSS`,
//! `UtilAll.timeMillisToHumanString`). Files are ordered by name, so a new name is always above
//! the last one, also within a millisecond and when the clock or the season steps back.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// Digits of a name.
const NAME_DIGITS: usize = 17;

/// Whether this is the name of an index file.
pub(super) fn is_index_name(name: &str) -> bool {
    name.len() == NAME_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name for a file made at `now_ms`, above `last`; `None` when no name is left.
pub(super) fn next_name(now_ms: i64, zone: TimeZone, last: Option<&str>) -> Option<String> {
    let now = Timestamp::from_millisecond(now_ms)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned(zone)
        .datetime();
    let name = digits_of(now);
    let Some(last) = last.filter(|last| name.as_str() <= *last) else {
        return Some(name);
    };
    let following = match civil_of(last).and_then(|at| at.checked_add(1.millisecond()).ok()) {
        Some(at) => digits_of(at),
        // Digits that are no date: somebody named it so. Count on.
        None => format!("{:017}", last.parse::<u64>().ok()? + 1),
    };
    is_index_name(&following).then_some(following)
}

fn digits_of(at: DateTime) -> String {
    format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}{:03}",
        at.year().max(0),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

fn civil_of(name: &str) -> Option<DateTime> {
    let number = |from: usize, to: usize| name.get(from..to)?.parse::<i16>().ok();
    DateTime::new(
        number(0, 4)?,
        i8::try_from(number(4, 6)?).ok()?,
        i8::try_from(number(6, 8)?).ok()?,
        i8::try_from(number(8, 10)?).ok()?,
        i8::try_from(number(10, 12)?).ok()?,
        i8::try_from(number(12, 14)?).ok()?,
        i32::from(number(14, 17)?) * 1_000_000,
    )
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_local_time_and_only_rise() {
        let zone = || TimeZone::fixed(jiff::tz::offset(8));
        let at = |now_ms, last| next_name(now_ms, zone(), last).unwrap();
        assert_eq!(at(1_795_249_596_209, None), "20261121162636209");
        let utc = next_name(1_795_249_596_209, TimeZone::UTC, None).unwrap();
        assert_eq!(utc, "20261121082636209");
        assert_eq!(at(0, Some("20261121162636209")), "20261121162636210");
        assert_eq!(at(0, Some("20261231235959999")), "20270101000000000");
        assert_eq!(
            at(1_795_249_596_209, Some("20261121162636209")),
            "20261121162636210"
        );
        assert_eq!(at(0, Some("20269999999999998")), "20269999999999999");
        assert_eq!(next_name(0, zone(), Some("99999999999999999")), None);
        assert!(is_index_name(&at(i64::MAX, None)));
        assert!(is_index_name(&at(i64::MIN, None)));
    }

    #[test]
    fn other_names_are_not_ours() {
        for name in [
            "",
            "2026112116263620",
            "2026112116263620x",
            "00000000000000000000",
        ] {
            assert!(!is_index_name(name), "{name}");
        }
    }
}
