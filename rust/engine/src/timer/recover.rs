//! Opening: what the check point, the wheel and the log together hold (`TimerMessageStore.recover`,
//! `recoverAndRevise`). The log is believed behind the check point as far as its units name whole
//! messages; the wheel follows the log. Where the log of messages was cut, as a replica's is that has
//! more than its group, units of what was cut go first: other messages may come to their places.

use std::path::Path;

use super::log::TimerLog;
use super::opening::{Opened, TimerConfig};
use super::point::Point;
use super::unit::{Found, UNIT_BYTES, Unit};
use super::wheel::{SLOTS, Slot, Wheel};
use crate::disk::Disk;
use crate::error::Result;

/// The queue offset of the message that a unit names.
pub type Whole<'a> = dyn FnMut(&Unit) -> Option<u64> + 'a;

/// Slots that a start without a check point looks back over, as the official one does: half of the
/// wheel without its blank slots.
const LOOK_BACK_SLOTS: i64 = SLOTS.cast_signed() / 2 - 60;

pub(super) struct Recovered<D: Disk> {
    pub(super) wheel: Wheel<D>,
    pub(super) log: TimerLog<D>,
    pub(super) read_ms: i64,
    pub(super) queue_offset: u64,
    pub(super) opened: Opened,
}

pub(super) fn recovered<D: Disk>(
    disk: &D,
    root: &Path,
    config: &TimerConfig,
    (point, now_ms): (Point, i64),
    messages_end: u64,
    whole: &mut Whole<'_>,
) -> Result<Recovered<D>> {
    let path = root.join("timerwheel");
    let had_wheel = disk.stat(&path)?.is_some_and(|stat| stat.len_bytes != 0);
    let floored_ms = now_ms - now_ms.rem_euclid(config.step_ms);
    let read_ms = match (point.read_ms, had_wheel) {
        (known_ms, _) if known_ms > 0 => known_ms - known_ms.rem_euclid(config.step_ms),
        (_, true) => (floored_ms - LOOK_BACK_SLOTS * config.step_ms).max(0),
        (_, false) => floored_ms,
    };
    let wheel = Wheel::open(disk, &path, config.step_ms, read_ms)?;
    let mut log = TimerLog::open(disk, root.join("timerlog"), config.log_file_len_bytes)?;
    let mut opened = Opened::default();
    let (first, past_end) = log.span().unwrap_or((0, 0));
    let durable = u64::try_from(point.log_end).unwrap_or(0);
    let from = if (first..=past_end).contains(&durable) {
        before_cut(&mut log, first, durable, messages_end)?
    } else {
        first
    };
    let mut walk = Walk {
        wheel: &wheel,
        log: &mut log,
        read_ms,
        units: 0,
        last_offset: None,
    };
    let end = walk.revise(from, past_end, Some(whole))?;
    let had_units = had_wheel && durable > 0;
    let mut again_from = wheel.first_beyond(read_ms, end.cast_signed());
    if again_from.is_some() {
        // The log lost what the wheel points to: what is left of it decides what the slots hold.
        wheel.clear_beyond(read_ms, end.cast_signed());
    }
    if had_units && wheel.is_of_another_step(read_ms) {
        wheel.reset()?;
        again_from = Some(0);
    }
    if let Some(again_from) = again_from {
        opened.is_rebuilt = true;
        let again_from = u64::try_from(again_from).unwrap_or(0).max(first);
        walk.revise(again_from, end, None)?;
    }
    opened.units = walk.units;
    let last_offset = walk.last_offset;
    let known = u64::try_from(point.queue_offset).unwrap_or(0);
    let queue_offset = last_offset.map_or(known, |last| known.max(last + 1));
    log.cut(from, end)?;
    opened.cut_bytes = durable.saturating_sub(end);
    Ok(Recovered {
        wheel,
        log,
        read_ms,
        queue_offset,
        opened,
    })
}

/// Where the units of messages before `messages_end` end, at `durable` or before it. Units lie in the order
/// of their messages.
fn before_cut<D: Disk>(
    log: &mut TimerLog<D>,
    first: u64,
    durable: u64,
    messages_end: u64,
) -> Result<u64> {
    let mut end = durable;
    while end > first {
        let last = log.last_before(end);
        match log.at_any(last)? {
            Found::Unit(unit) if unit.physical_offset.cast_unsigned() >= messages_end => end = last,
            _ => break,
        }
    }
    Ok(end)
}

struct Walk<'a, D: Disk> {
    wheel: &'a Wheel<D>,
    log: &'a mut TimerLog<D>,
    read_ms: i64,
    units: u64,
    last_offset: Option<u64>,
}

impl<D: Disk> Walk<'_, D> {
    /// Puts the units of `[from, to)` into the wheel, as far as they are whole; where they end.
    fn revise(&mut self, from: u64, to: u64, mut whole: Option<&mut Whole<'_>>) -> Result<u64> {
        let mut position = from;
        while position < to {
            let unit = match self.log.at_any(position)? {
                Found::Unit(unit) => unit,
                Found::Blank => {
                    let len = self.log.file_len_bytes();
                    position = position - position % len + len;
                    continue;
                }
                Found::End => break,
            };
            if let Some(whole) = &mut whole {
                let Some(queue_offset) = whole(&unit) else {
                    break;
                };
                self.units += 1;
                self.last_offset = Some(queue_offset);
            }
            self.restore_slot(&unit, position.cast_signed())?;
            position += UNIT_BYTES as u64;
        }
        Ok(position)
    }

    fn restore_slot(&self, unit: &Unit, position: i64) -> Result<()> {
        if self.wheel.floored(unit.slot_ms) < self.read_ms {
            return Ok(());
        }
        let slot = self.wheel.slot(unit.slot_ms);
        if slot.is_some_and(|slot| slot.last >= position) {
            return Ok(());
        }
        self.wheel.put(&Slot {
            time_ms: unit.slot_ms,
            first: slot.map_or(position, |slot| slot.first),
            last: position,
            count: slot.map_or(0, |slot| slot.count) + unit.weight(),
        })
    }
}
