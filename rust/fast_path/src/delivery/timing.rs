//! Which time of its own a message asks for, and whether it may (`HookUtils.handleScheduleMessage`,
//! `transformTimerMessage`). Pure: the time is passed in.

use crate::policy::Timing;
use crate::properties::Timed;
use crate::refusals::{self, Refused};

const MS_PER_S: i64 = 1_000;

impl Timing {
    /// The slot of the wheel that a message is for; `None` when it is due now.
    ///
    /// A slot is delivered when its step has ended, so that a message comes at the first step that
    /// is not before its time.
    pub(crate) fn slot_of(&self, timed: &Timed<'_>, now_ms: i64) -> Result<Option<i64>, Refused> {
        if !self.is_enabled {
            return Err(refusals::timers_off());
        }
        // The clock of the timers; a deletion names a time of that clock already.
        let now_ms = now_ms.saturating_add(self.ahead_ms);
        let ahead_ms = if timed.is_delete { 0 } else { self.ahead_ms };
        let number = |text: &[u8]| long(text).ok_or_else(|| refusals::bad_time(self));
        let deliver_ms = match (timed.delay_s, timed.delay_ms, timed.deliver_ms) {
            (Some(delay_s), ..) => now_ms.saturating_add(number(delay_s)?.saturating_mul(MS_PER_S)),
            (None, Some(delay_ms), _) => now_ms.saturating_add(number(delay_ms)?),
            (None, None, Some(deliver_ms)) => number(deliver_ms)?.saturating_add(ahead_ms),
            (None, None, None) => return Ok(None),
        };
        if deliver_ms <= now_ms {
            return if timed.is_delete {
                Err(refusals::bad_time(self))
            } else {
                Ok(None)
            };
        }
        if deliver_ms - now_ms > self.max_delay_ms {
            return Err(refusals::bad_time(self));
        }
        // The last step that begins before it.
        Ok(Some((deliver_ms - 1) / self.step_ms * self.step_ms))
    }

    /// Refuses a message for a step that has `count` already: with a growing part from the limit
    /// on, all from twice the limit on. `turn` spreads the refusals.
    pub(crate) fn check_congestion(&self, count: i32, turn: u32) -> Result<(), Refused> {
        let (count, limit) = (i64::from(count), i64::from(self.congested_at));
        let excess = count - limit;
        // Fibonacci hashing: neighbouring turns fall far apart.
        let lot = (i64::from(turn.wrapping_mul(0x9E37_79B9) >> 16) * limit.max(1)) >> 16;
        if excess <= 0 || (excess < limit && lot >= excess) {
            return Ok(());
        }
        Err(refusals::step_full(limit))
    }
}

/// A number as `Long.parseLong` reads it.
fn long(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;

    const NOW_MS: i64 = 1_700_000_000_250;

    fn timing() -> Timing {
        Timing {
            is_enabled: true,
            ..Timing::default()
        }
    }

    fn delay(ms: &str) -> Result<Option<i64>, Refused> {
        let timed = Timed {
            delay_ms: Some(ms.as_bytes()),
            ..Timed::default()
        };
        timing().slot_of(&timed, NOW_MS)
    }

    #[test]
    fn a_slot_is_the_last_step_that_begins_before_the_time() {
        assert_eq!(delay("750"), Ok(Some(1_700_000_000_000)), "due at ...1.000");
        assert_eq!(delay("751"), Ok(Some(1_700_000_001_000)), "due at ...2.000");
        assert_eq!(delay("1"), Ok(Some(1_700_000_000_000)));
        assert_eq!(delay("0"), Ok(None));
        assert_eq!(delay("-1"), Ok(None), "in the past: at once");
    }

    #[test]
    fn what_is_no_time_or_too_far_is_refused_in_the_official_words() {
        let too_far = delay("259200001").unwrap_err();
        assert_eq!(too_far.code, codes::MESSAGE_ILLEGAL);
        assert!(
            too_far.remark.contains("max delay 259200000ms"),
            "{}",
            too_far.remark
        );
        assert!(delay("259200000").is_ok());
        for bad in ["31556952000000", "9223372036854775807", "soon", "", "1.5"] {
            assert_eq!(
                delay(bad).unwrap_err().code,
                codes::MESSAGE_ILLEGAL,
                "{bad}"
            );
        }
        let timed = Timed {
            delay_s: Some(b"1"),
            ..Timed::default()
        };
        let off = Timing::default().slot_of(&timed, NOW_MS).unwrap_err();
        assert_eq!(off.code, codes::SYSTEM_ERROR);
        assert!(off.remark.ends_with("timerWheelEnable is false"));
    }

    #[test]
    fn seconds_count_before_milliseconds_and_those_before_a_time() {
        let timed = Timed {
            delay_s: Some(b"10"),
            delay_ms: Some(b"junk"),
            deliver_ms: Some(b"junk"),
            ..Timed::default()
        };
        assert_eq!(
            timing().slot_of(&timed, NOW_MS),
            Ok(Some(1_700_000_010_000))
        );
    }

    #[test]
    fn a_deletion_needs_a_time_ahead() {
        let timed = Timed {
            deliver_ms: Some(b"1"),
            is_delete: true,
            ..Timed::default()
        };
        assert!(timing().slot_of(&timed, NOW_MS).is_err());
    }

    #[test]
    fn a_crowded_step_refuses_more_and_more() {
        let timing = Timing {
            congested_at: 100,
            ..timing()
        };
        let refused = |count| {
            let turns = 0..1_000;
            turns
                .filter(|turn| timing.check_congestion(count, *turn).is_err())
                .count()
        };
        assert_eq!(refused(100), 0);
        assert!((150..350).contains(&refused(125)), "{}", refused(125));
        assert!((650..850).contains(&refused(175)), "{}", refused(175));
        assert_eq!(refused(200), 1_000);
    }
}
