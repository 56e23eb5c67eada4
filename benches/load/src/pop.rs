//! Pops in a closed loop: a connection pops, acknowledges every message by itself, and pops again when
//! all acknowledgements are answered.

use std::time::{Duration, Instant};

use mqcore_record::{Found, head as record};
use mqcore_wire::command::VERSION_DEFAULT;
use mqcore_wire::{CommandRef, Head};
use serde_json::Value;

use crate::admin;
use crate::args::Pop;
use crate::closed;
use crate::failure::{Failure, Outcome};
use crate::link::{Link, Lost};
use crate::outline::OPAQUE_BASE;
use crate::signed::{SignedWriter, Signer};
use crate::tally::Tally;
use crate::waiter::Waiter;

const POP_MESSAGE: i32 = 200_050;
const ACK_MESSAGE: i32 = 200_051;
/// Answers: messages; nothing in time.
const FOUND: i32 = 0;
const POLLING_TIMEOUT: i32 = 210;
/// How long a pop may be held, ms: as the Java push consumer asks.
const POLL_MS: i64 = 15_000;
/// How long nobody else gets the messages, ms: as the Java push consumer asks.
const INVISIBLE_MS: i64 = 60_000;
/// Before a pop is tried again that was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// A pop with its acknowledgements: one of a connection's.
#[derive(Debug, Clone, Copy)]
struct Slot {
    began: Instant,
    /// Messages whose acknowledgement is not answered.
    open: u32,
    messages: u64,
    again_at: Option<Instant>,
}

/// A connection and its pops.
struct FastPath {
    link: Link,
    slots: Vec<Slot>,
}

struct Run<'a> {
    args: &'a Pop,
    topics: Vec<String>,
    signer: Option<Signer>,
    fast_paths: Vec<FastPath>,
    tally: Tally,
    next: usize,
    acknowledged: u64,
}

/// A message that was popped, as its acknowledgement names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Popped {
    topic: String,
    queue_id: i64,
    offset: i64,
    handle: String,
}

/// Makes a run.
pub(crate) fn run(args: &Pop) -> Outcome<Value> {
    let common = &args.common;
    let address = admin::broker(common)?;
    let mut waiter = Waiter::new()?;
    let slot = Slot {
        began: Instant::now(),
        open: 0,
        messages: 0,
        again_at: None,
    };
    let fast_paths = closed::connect(common, address, &waiter, |link| FastPath {
        link,
        slots: vec![slot; common.outstanding as usize],
    })?;
    let measured_from = Instant::now() + Duration::from_secs_f64(common.warm_seconds);
    let mut run = Run {
        args,
        topics: common.topic_names(),
        signer: common.signer(),
        fast_paths,
        tally: Tally::new(measured_from, common.pid, common.progress)?,
        next: 0,
        acknowledged: 0,
    };
    let ends_at = measured_from + Duration::from_secs_f64(common.seconds);
    let ended = run.work(&mut waiter, ends_at);
    let ended = ended.map_err(|why| Failure::gone(address, &why))?;
    let report = run.tally.report(ended);
    let count = ("pop_count", u64::from(args.pop_count.unsigned_abs()));
    Ok(closed::headed(report, "pop", address, common, count))
}

impl Run<'_> {
    fn work(&mut self, waiter: &mut Waiter, ends_at: Instant) -> Result<Instant, Lost> {
        self.tally.tick(Instant::now());
        for at in 0..self.fast_paths.len() {
            for slot in 0..self.args.common.outstanding as usize {
                self.pop(at, slot)?;
            }
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let now = Instant::now();
            self.tally.tick(now);
            let is_done = self
                .args
                .count
                .is_some_and(|count| self.acknowledged >= count);
            if now >= ends_at || is_done {
                return Ok(now);
            }
            self.pop_again(now)?;
            for fast_path in &mut self.fast_paths {
                fast_path.link.flush()?;
            }
            if waiter.wait(None).is_err() {
                return Ok(now);
            }
            self.receive(waiter, &mut buffer)?;
        }
    }

    fn pop_again(&mut self, now: Instant) -> Result<(), Lost> {
        for at in 0..self.fast_paths.len() {
            for slot in 0..self.args.common.outstanding as usize {
                let found = self
                    .fast_paths
                    .get_mut(at)
                    .and_then(|l| l.slots.get_mut(slot));
                let is_due = |slot: &mut Slot| slot.again_at.take_if(|due| *due <= now).is_some();
                if found.is_some_and(is_due) {
                    self.pop(at, slot)?;
                }
            }
        }
        Ok(())
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
            let now = Instant::now();
            let (mut popped, mut refused, mut done) = (Vec::new(), Vec::new(), Vec::new());
            let (slots, tally) = (&mut fast_path.slots, &mut self.tally);
            let broker = self.args.broker_name.as_str();
            let count = slots.len();
            let acknowledged = &mut self.acknowledged;
            fast_path.link.read(buffer, |answer| {
                let number = answer.opaque.wrapping_sub(OPAQUE_BASE).cast_unsigned() as usize;
                let Some(slot) = slots.get_mut(number % count.max(1)) else {
                    return;
                };
                if number < count {
                    tally.latency(now.saturating_duration_since(slot.began));
                    let all = popped_of(answer, broker);
                    slot.messages = all.len() as u64;
                    slot.open = all.len() as u32;
                    tally.answer(answer.code, 0, answer.body.len() as u64);
                    match answer.code {
                        FOUND => popped.push((number, all)),
                        POLLING_TIMEOUT => done.push(number),
                        _ => refused.push(number),
                    }
                } else {
                    slot.open -= u32::from(slot.open > 0);
                    let is_done = u64::from(answer.code == 0);
                    *acknowledged += is_done;
                    tally.answer(answer.code, is_done, 0);
                    if slot.open == 0 {
                        done.push(number % count);
                    }
                }
            })?;
            for (slot, all) in popped {
                for message in all {
                    self.acknowledge(at, slot, &message)?;
                }
            }
            for slot in refused {
                let found = self
                    .fast_paths
                    .get_mut(at)
                    .and_then(|l| l.slots.get_mut(slot));
                if let Some(slot) = found {
                    slot.again_at = Some(now + REFUSED_PAUSE);
                }
            }
            for slot in done {
                self.pop(at, slot)?;
            }
        }
        Ok(())
    }

    fn head(&self, code: i32, number: usize) -> Head<'static> {
        Head {
            code,
            version: VERSION_DEFAULT,
            opaque: OPAQUE_BASE.wrapping_add_unsigned(number as u32),
            // Codes of five digits do not fit the binary header.
            ..Head::default()
        }
    }

    fn pop(&mut self, at: usize, slot: usize) -> Result<(), Lost> {
        let head = self.head(POP_MESSAGE, slot);
        self.next += 1;
        let topic = self.topics.get(self.next % self.topics.len().max(1));
        let topic = topic.map_or("", String::as_str);
        let Some(fast_path) = self.fast_paths.get_mut(at) else {
            return Ok(());
        };
        if let Some(slot) = fast_path.slots.get_mut(slot) {
            slot.began = Instant::now();
        }
        let mut frame = SignedWriter::begin(&mut fast_path.link.out, &head, self.signer.as_ref())?;
        frame.text("consumerGroup", &self.args.group)?;
        frame.text("topic", topic)?;
        frame.number("queueId", -1)?;
        frame.number("maxMsgNums", i64::from(self.args.pop_count))?;
        frame.number("invisibleTime", INVISIBLE_MS)?;
        frame.number("pollTime", POLL_MS)?;
        frame.number("bornTime", 0)?;
        frame.number("initMode", 0)?;
        frame.text("expType", "TAG")?;
        frame.text("exp", "*")?;
        frame.text("order", "false")?;
        frame.finish(&[])?;
        Ok(())
    }

    fn acknowledge(&mut self, at: usize, slot: usize, message: &Popped) -> Result<(), Lost> {
        let count = self.args.common.outstanding as usize;
        let head = self.head(ACK_MESSAGE, slot + count);
        let Some(fast_path) = self.fast_paths.get_mut(at) else {
            return Ok(());
        };
        let mut frame = SignedWriter::begin(&mut fast_path.link.out, &head, self.signer.as_ref())?;
        frame.text("consumerGroup", &self.args.group)?;
        frame.text("topic", &message.topic)?;
        frame.number("queueId", message.queue_id)?;
        frame.text("extraInfo", &message.handle)?;
        frame.number("offset", message.offset)?;
        frame.finish(&[])?;
        Ok(())
    }
}

/// The messages of an answer with their handles, as the official client makes them; retries, which
/// carry theirs, are left to come again: a run has none.
fn popped_of(answer: &CommandRef<'_>, broker: &str) -> Vec<Popped> {
    let field = |name: &str| answer.fields.value(name).unwrap_or_default();
    let (time, invisible) = (field("popTime"), field("invisibleTime"));
    let (revive, starts) = (field("reviveQid"), field("startOffsetInfo"));
    let mut popped = Vec::new();
    let mut rest = answer.body;
    while let Ok(Found::Record(view)) = record(rest) {
        let queue_id = i64::from(view.queue_id);
        if let Some(start) = start_of(starts, queue_id) {
            popped.push(Popped {
                topic: view.topic_str().into_owned(),
                queue_id,
                offset: view.queue_offset,
                handle: format!(
                    "{start} {time} {invisible} {revive} 0 {broker} {queue_id} {}",
                    view.queue_offset
                ),
            });
        }
        rest = rest.get(view.total_len_bytes..).unwrap_or_default();
    }
    popped
}

/// Where the pop of a queue began.
fn start_of(starts: &str, queue_id: i64) -> Option<&str> {
    let part = starts.split(';').find(|part| {
        let mut words = part.split(' ');
        words.next() == Some("0") && words.next().and_then(|w| w.parse().ok()) == Some(queue_id)
    });
    part?.rsplit(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_finds_where_its_pop_began() {
        let starts = "0 1 7;1 0 3;0 0 5";
        assert_eq!(start_of(starts, 0), Some("5"));
        assert_eq!(start_of(starts, 1), Some("7"));
        assert_eq!(start_of(starts, 2), None);
        assert_eq!(start_of("", 0), None);
    }
}
