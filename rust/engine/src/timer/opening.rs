//! What the files of timers are made with, and what opening them found.

use super::wheel::SLOTS;

/// Slots that no roll reaches (`TIMER_BLANK_SLOTS`).
const BLANK_SLOTS: u64 = 60;

/// What the files are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerConfig {
    /// Length of a step, ms (`timerPrecisionMs`).
    pub step_ms: i64,
    /// Slots ahead of now that a message may lie in (`timerRollWindowSlot`).
    pub roll_slots: u64,
    /// Length of a file of the log (`mappedFileSizeTimerLog`).
    pub log_file_len_bytes: u64,
}

impl TimerConfig {
    pub(super) fn roll_slots(&self) -> i64 {
        let max = SLOTS / 2 - BLANK_SLOTS;
        let slots = if (2..=max).contains(&self.roll_slots) {
            self.roll_slots
        } else {
            max
        };
        slots.cast_signed()
    }
}

/// What opening found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opened {
    /// Units behind the check point that were put into the wheel.
    pub units: u64,
    /// Bytes of the log that were cut off.
    pub cut_bytes: u64,
    /// Whether the wheel was made again from the log.
    pub is_rebuilt: bool,
}
