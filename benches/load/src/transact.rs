//! Transactions in a closed loop: a half message, its commit when it is acknowledged, and a new one
//! when the commit is.

use std::time::{Duration, Instant};

use mqcore_record::sys_flag::COMMIT;
use mqcore_wire::command::VERSION_DEFAULT;
use mqcore_wire::{CommandRef, Head, WireError};
use serde_json::Value;

use crate::admin;
use crate::args::{Aim, Transact};
use crate::bodies::Bodies;
use crate::closed;
use crate::failure::{Failure, Outcome};
use crate::link::{Link, Lost};
use crate::outline::{GROUP, OPAQUE_BASE, Outline};
use crate::requests::halves;
use crate::signed::{SignedWriter, Signer};
use crate::tally::Tally;
use crate::waiter::Waiter;

const END_TRANSACTION: i32 = 37;
/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// Hex digits of the physical offset, at the end of an offset message id.
const OFFSET_DIGITS: usize = 16;

/// A transaction that is not ended yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    began: Instant,
    /// Whether its commit is on its way.
    is_ending: bool,
}

/// A connection and its transactions.
struct FastPath {
    link: Link,
    slots: Vec<Option<Open>>,
}

struct Run<'a> {
    common: &'a Aim,
    signer: Option<Signer>,
    bodies: Bodies,
    outlines: Vec<Outline>,
    fast_paths: Vec<FastPath>,
    tally: Tally,
    next: u64,
}

/// Makes a run.
pub(crate) fn run(args: &Transact) -> Outcome<Value> {
    let common = &args.common;
    let address = admin::broker(common)?;
    let mut waiter = Waiter::new()?;
    let fast_paths = closed::connect(common, address, &waiter, |link| FastPath {
        link,
        slots: vec![None; common.outstanding as usize],
    })?;
    let measured_from = Instant::now() + Duration::from_secs_f64(common.warm_seconds);
    let mut run = Run {
        common,
        signer: common.signer(),
        bodies: Bodies::of_len(args.size),
        outlines: halves(common)?,
        fast_paths,
        tally: Tally::new(measured_from, common.pid, common.progress)?,
        next: 0,
    };
    let ends_at = measured_from + Duration::from_secs_f64(common.seconds);
    let ended = run.work(&mut waiter, ends_at);
    let ended = ended.map_err(|why| Failure::gone(address, &why))?;
    let report = run.tally.report(ended);
    let size = ("size_bytes", args.size as u64);
    Ok(closed::headed(report, "transact", address, common, size))
}

impl Run<'_> {
    fn work(&mut self, waiter: &mut Waiter, ends_at: Instant) -> Result<Instant, Lost> {
        self.tally.tick(Instant::now());
        for at in 0..self.fast_paths.len() {
            for slot in 0..self.common.outstanding {
                self.begin(at, slot);
            }
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let now = Instant::now();
            self.tally.tick(now);
            if now >= ends_at {
                return Ok(now);
            }
            for fast_path in &mut self.fast_paths {
                fast_path.link.flush()?;
            }
            if waiter.wait(None).is_err() {
                return Ok(now);
            }
            self.receive(waiter, &mut buffer)?;
        }
    }

    fn receive(&mut self, waiter: &Waiter, buffer: &mut [u8]) -> Result<(), Lost> {
        for event in &waiter.events {
            let at = event.token().0;
            let Some(fast_path) = self.fast_paths.get_mut(at) else {
                continue;
            };
            if event.is_writable() {
                fast_path.link.unblocked()?;
            }
            if !event.is_readable() && !event.is_read_closed() {
                continue;
            }
            let mut answers = Vec::new();
            fast_path.link.read(buffer, |answer| {
                if answer.is_response() {
                    let slot = answer.opaque.wrapping_sub(OPAQUE_BASE).cast_unsigned();
                    answers.push((slot, answer.code, half_offsets_of(answer)));
                }
            })?;
            let now = Instant::now();
            for (slot, code, offsets) in answers {
                self.answered(at, slot, (code, offsets), now)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, at: usize, slot: u32) {
        let number = self.next;
        self.next += 1;
        let index = number as usize % self.outlines.len().max(1);
        let body = self.bodies.body(number).unwrap_or_default();
        let (Some(outline), Some(fast_path)) =
            (self.outlines.get(index), self.fast_paths.get_mut(at))
        else {
            return;
        };
        outline.write(&mut fast_path.link.out, slot, number, body);
        if let Some(open) = fast_path.slots.get_mut(slot as usize) {
            *open = Some(Open {
                began: Instant::now(),
                is_ending: false,
            });
        }
    }

    fn answered(
        &mut self,
        at: usize,
        slot: u32,
        (code, offsets): (i32, Option<(i64, u64)>),
        now: Instant,
    ) -> Result<(), WireError> {
        let Some(fast_path) = self.fast_paths.get_mut(at) else {
            return Ok(());
        };
        let Some(Some(open)) = fast_path.slots.get_mut(slot as usize) else {
            return Ok(());
        };
        if !open.is_ending
            && code == 0
            && let Some(offsets) = offsets
        {
            open.is_ending = true;
            return end(
                &mut fast_path.link.out,
                slot,
                offsets,
                (self.common, self.signer.as_ref()),
            );
        }
        self.tally
            .latency(now.saturating_duration_since(open.began));
        let is_done = open.is_ending && code == 0;
        self.tally.answer(code, u64::from(is_done), 0);
        self.begin(at, slot);
        Ok(())
    }
}

/// Queue offset and physical offset of a half message, from the answer to it.
fn half_offsets_of(answer: &CommandRef<'_>) -> Option<(i64, u64)> {
    let offset = answer.fields.value("queueOffset")?.parse().ok()?;
    let id = answer.fields.value("msgId")?;
    let digits = id.get(id.len().checked_sub(OFFSET_DIGITS)?..)?;
    Some((offset, u64::from_str_radix(digits, 16).ok()?))
}

/// Writes the commit of a half message.
fn end(
    out: &mut Vec<u8>,
    slot: u32,
    (offset, physical): (i64, u64),
    (common, signer): (&Aim, Option<&Signer>),
) -> Result<(), WireError> {
    let head = Head {
        code: END_TRANSACTION,
        version: VERSION_DEFAULT,
        opaque: OPAQUE_BASE.wrapping_add_unsigned(slot),
        serialization: common.header.into(),
        ..Head::default()
    };
    let mut writer = SignedWriter::begin(out, &head, signer)?;
    writer.text("producerGroup", GROUP)?;
    writer.number("tranStateTableOffset", offset)?;
    writer.number("commitLogOffset", physical.cast_signed())?;
    writer.number("commitOrRollback", i64::from(COMMIT))?;
    writer.text("fromTransactionCheck", "false")?;
    writer.text("msgId", "mqcore-load")?;
    writer.text("topic", &common.topic)?;
    writer.finish(&[])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use mqcore_wire::command::encode;
    use mqcore_wire::{FRAME_BYTES_MAX, Split, split};

    use super::*;

    #[test]
    fn the_offsets_of_a_half_message_are_in_its_answer() {
        let id = "7F00000100002A9F00000000000003E8";
        let fields = [("msgId", id), ("queueOffset", "7")];
        let bytes = encode(&Head::default(), fields, b"").unwrap();
        let Ok(Split::Frame(frame)) = split(&bytes, FRAME_BYTES_MAX) else {
            panic!("a frame");
        };
        let command = CommandRef::decode(&frame).unwrap();
        assert_eq!(half_offsets_of(&command), Some((7, 1_000)));
    }
}
