//! How long the levels of delayed messages wait (`messageDelayLevel`): the setting, and the levels as
//! they are now.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::lock::{RwLock, RwLockReadGuard};

/// What an unknown delay level waits (`ScheduleMessageService.computeDeliverTimestamp`).
const UNKNOWN_LEVEL_MS: i64 = 1_000;

/// The delays of the levels, ms, from `messageDelayLevel`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DelayLevels(Vec<i64>);

impl DelayLevels {
    fn parse(text: &str) -> Result<Self> {
        let refused = |level: &str| Error::Config {
            key: "messageDelayLevel".to_owned(),
            value: text.to_owned(),
            why: format!(
                "{level:?} is no time: a number with s, m, h or d, levels split by spaces"
            ),
        };
        let mut levels = Vec::new();
        for level in text.split_whitespace() {
            let (number, unit) =
                level.split_at(level.len() - level.chars().last().map_or(0, char::len_utf8));
            let unit_ms: i64 = match unit {
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(refused(level)),
            };
            let number: i64 = number.parse().map_err(|_| refused(level))?;
            levels.push(number.checked_mul(unit_ms).ok_or_else(|| refused(level))?);
        }
        Ok(Self(levels))
    }

    /// When a record of the schedule topic is due; `None` when it has no level.
    fn due_ms(&self, level: &[u8], store_timestamp_ms: i64) -> Option<i64> {
        let level: usize = std::str::from_utf8(level).ok()?.trim().parse().ok()?;
        Some(store_timestamp_ms + self.delay_ms(level)?)
    }

    /// How long a level waits; one above the last waits as long as that, and level 0 is none.
    fn delay_ms(&self, level: usize) -> Option<i64> {
        let index = level.min(self.0.len()).saturating_sub(1);
        let delay = self.0.get(index).copied().unwrap_or(UNKNOWN_LEVEL_MS);
        (level > 0).then_some(delay)
    }
}

/// The levels as they are now: an administrator may change them while messages are stored.
#[derive(Debug, Clone)]
pub struct LiveLevels(Arc<RwLock<DelayLevels>>);

impl LiveLevels {
    /// The levels of a setting.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub(super) fn parse(text: &str) -> Result<Self> {
        let levels = DelayLevels::parse(text)?;
        Ok(Self(Arc::new(RwLock::new(levels))))
    }

    /// When a record of the schedule topic is due; `None` when it has no level.
    pub(super) fn due_ms(&self, level: &[u8], store_timestamp_ms: i64) -> Option<i64> {
        self.now().due_ms(level, store_timestamp_ms)
    }

    fn now(&self) -> RwLockReadGuard<'_, DelayLevels> {
        self.0.read()
    }

    /// Replaces the levels: messages that are stored from now on wait so long; those that wait keep
    /// their times.
    ///
    /// # Errors
    /// [`Error::Config`]: nothing has changed.
    pub fn set(&self, text: &str) -> Result<()> {
        let levels = DelayLevels::parse(text)?;
        *self.0.write() = levels;
        Ok(())
    }

    /// How many levels there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.now().0.len()
    }

    /// How long a level waits, ms; `None` for a level that is none.
    #[must_use]
    pub fn delay_ms(&self, level: usize) -> Option<i64> {
        self.now().delay_ms(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_as_the_official_settings_write_them() {
        let levels = DelayLevels::parse("1s 5s 1m 2h").unwrap();
        assert_eq!(levels.due_ms(b"1", 10), Some(1_010));
        assert_eq!(levels.due_ms(b"4", 0), Some(7_200_000));
        assert_eq!(
            levels.due_ms(b"99", 0),
            Some(7_200_000),
            "clipped to the last level"
        );
        assert_eq!(levels.due_ms(b"0", 0), None);
        assert_eq!(levels.due_ms(b"-1", 0), None);
        assert!(DelayLevels::parse("1s 5x").is_err());
        assert!(DelayLevels::parse("1s s").is_err());
    }
}
