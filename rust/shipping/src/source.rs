//! A master's end of a connection over which whole files of its log are copied: it lists them, and
//! sends the bytes of one with their hash. One request after the other, over any connection; knows no thread.
//!
//! The bytes leave by gathered writes of what is mapped, or was read for that. What is sent is held back while
//! the master stores messages, so that its own work comes first.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::Store;
use mqcore_replica::refill::{
    ANSWER_LEN_BYTES, Answer, EPOCHS_MAX, REQUEST_LEN_BYTES, Request, Wanted, epochs_to_bytes,
};

use crate::epochs::Epochs;
use crate::file_hash::FileHash;

/// Bytes that are read, hashed and sent at once: with more they leave the caches of a processor in between.
const STEP_LEN_BYTES: usize = 256 * 1024;
/// Pages that were read go in parts of this length: each call looks through lists of the kernel first.
const FORGET_BYTES: u64 = 4 * 1024 * 1024;
/// A master that has stored something within so long is at work.
const AT_WORK_MS: u64 = 1_000;
/// Who looks for the first time takes a master for one at work for so long: it cannot know yet.
const UNKNOWN_MS: u64 = 100;
/// Longer than that nothing is slept at once, so that an end is seen.
const PAUSE_MAX_MS: u64 = 100;

/// How fast files leave while the master stores messages: one bound for all who copy.
#[derive(Debug)]
pub struct RefillPace {
    /// Bytes a second at the most; `None` for no bound.
    bytes_per_second_max: Option<u64>,
    going: Mutex<Going>,
}

#[derive(Debug, Default)]
struct Going {
    /// When the next bytes may leave, microseconds.
    due_us: u64,
    /// Where the log ended when that was last news, and when.
    end: u64,
    grown_ms: Option<u64>,
}

impl RefillPace {
    /// A pace with a bound.
    #[must_use]
    pub fn new(bytes_per_second_max: Option<u64>) -> Self {
        Self {
            bytes_per_second_max,
            going: Mutex::default(),
        }
    }

    /// Notes that bytes leave now, from a log that ends at `end`; how long nothing may leave, ms.
    fn note(&self, bytes: u64, end: u64, now_ms: u64) -> u64 {
        let Some(max) = self.bytes_per_second_max else {
            return 0;
        };
        let mut going = self.going.lock();
        if end != going.end {
            let is_first = going.end == 0;
            let back_ms = if is_first { AT_WORK_MS - UNKNOWN_MS } else { 0 };
            going.grown_ms = Some(now_ms.saturating_sub(back_ms));
            going.end = end;
        }
        let is_at_work = going
            .grown_ms
            .is_some_and(|grown_ms| now_ms.saturating_sub(grown_ms) < AT_WORK_MS);
        if !is_at_work {
            going.due_us = 0;
            return 0;
        }
        let now_us = now_ms.saturating_mul(1_000);
        let cost_us = bytes.saturating_mul(1_000_000) / max.max(1);
        going.due_us = going.due_us.max(now_us).saturating_add(cost_us);
        (going.due_us - now_us) / 1_000
    }
}

/// What files are copied from.
pub struct Source<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    epochs: Option<Arc<Epochs<D>>>,
    pace: Arc<RefillPace>,
    hold: Option<u64>,
}

impl<D: Disk, C: Clock> Source<D, C> {
    /// Of a store, with its epochs where it has some.
    #[must_use]
    pub fn new(
        store: Arc<Store<D, C>>,
        epochs: Option<Arc<Epochs<D>>>,
        pace: Arc<RefillPace>,
    ) -> Self {
        Self {
            store,
            epochs,
            pace,
            hold: None,
        }
    }

    /// Answers requests until the connection ends; why it did.
    ///
    /// # Blocking
    /// For the connection and the disk.
    pub fn serve(
        &mut self,
        stream: &mut (impl Read + Write),
        is_stopping: impl Fn() -> bool,
    ) -> String {
        let mut request = [0; REQUEST_LEN_BYTES];
        loop {
            if let Err(error) = stream.read_exact(&mut request) {
                return format!("the slave copies no more files: {error}");
            }
            let answered = Request::of(&request)
                .map_err(|fault| fault.to_string())
                .and_then(|request| self.answer(request, stream, &is_stopping));
            if let Err(why) = answered {
                return why;
            }
        }
    }

    fn answer(
        &mut self,
        request: Request,
        stream: &mut impl Write,
        is_stopping: &impl Fn() -> bool,
    ) -> Result<(), String> {
        let holds = self.store.replica().holds();
        match self.hold {
            Some(hold) => holds.go_on(hold, request.needed_from),
            None => self.hold = Some(holds.take(request.needed_from)),
        }
        let wrote = |written: std::io::Result<()>| written.map_err(|error| error.to_string());
        let replica = self.store.replica();
        let extent = replica.extent();
        let (start, end) = (extent.start, replica.settled_files_end().max(extent.start));
        let mut answer = Answer {
            is_there: true,
            epochs: 0,
            start,
            end,
            file_len_bytes: extent.file_len_bytes,
        };
        if request.wanted == Wanted::List {
            let table = self.epochs.as_ref().map(|epochs| epochs.table());
            let all = table.as_ref().map_or(&[][..], |table| table.entries());
            let last = all.get(all.len().saturating_sub(EPOCHS_MAX)..);
            let last = last.unwrap_or_default();
            answer.epochs = last.len();
            let bytes = [answer.to_bytes(), epochs_to_bytes(last)].concat();
            return wrote(stream.write_all(&bytes));
        }
        let base = request.base;
        answer.start = base;
        answer.end = base.saturating_add(extent.file_len_bytes);
        answer.is_there =
            base.is_multiple_of(extent.file_len_bytes) && base >= start && answer.end <= end;
        wrote(stream.write_all(&answer.to_bytes()))?;
        if !answer.is_there {
            return Ok(());
        }
        let is_sent = request.wanted == Wanted::Copy;
        let hash = self.pass(
            base..answer.end,
            is_sent.then_some(&mut *stream),
            is_stopping,
        )?;
        wrote(stream.write_all(&hash))
    }

    /// Hashes a part of the log, and sends it where there is somewhere to.
    fn pass(
        &self,
        range: std::ops::Range<u64>,
        mut to: Option<&mut impl Write>,
        is_stopping: &impl Fn() -> bool,
    ) -> Result<[u8; 16], String> {
        let replica = self.store.replica();
        let mut hash = FileHash::new();
        let mut spare = Vec::new();
        let (mut at, mut kept_from) = (range.start, range.start);
        while at < range.end {
            if is_stopping() {
                return Err("the master stops".to_owned());
            }
            let len_max = STEP_LEN_BYTES.min((range.end - at) as usize);
            let read = replica.range_into(at, len_max, spare);
            let chunk = read.map_err(|error| error.to_string())?;
            let chunk = chunk.ok_or_else(|| {
                format!("the file at {at} was removed while it was copied: the disk is too full")
            })?;
            let bytes = chunk.bytes.as_bytes();
            hash.take(bytes);
            if let Some(to) = &mut to {
                to.write_all(bytes).map_err(|error| error.to_string())?;
            }
            let len = bytes.len() as u64;
            let is_copy = chunk.bytes.is_copy();
            spare = chunk.bytes.into_spare();
            at += len;
            if !is_copy {
                kept_from = at;
            } else if at - kept_from >= FORGET_BYTES || at >= range.end {
                replica.forget(kept_from, at);
                kept_from = at;
            }
            self.pause(len, is_stopping);
        }
        Ok(hash.bytes())
    }

    /// Lets the master's own work come first.
    fn pause(&self, len: u64, is_stopping: &impl Fn() -> bool) {
        let replica = self.store.replica();
        let mut left_ms = self
            .pace
            .note(len, replica.appended(), replica.elapsed_ms());
        while left_ms > 0 && !is_stopping() {
            let pause_ms = left_ms.min(PAUSE_MAX_MS);
            std::thread::sleep(Duration::from_millis(pause_ms));
            left_ms -= pause_ms;
        }
    }
}

impl<D: Disk, C: Clock> Drop for Source<D, C> {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            self.store.replica().holds().give_back(hold);
        }
    }
}

const _: () = assert!(ANSWER_LEN_BYTES == 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_at_work_has_its_bound_and_an_idle_one_has_none() {
        let pace = RefillPace::new(Some(1_000_000));
        assert_eq!(pace.note(100_000, 10, 2_000), 100, "nothing is known yet");
        assert_eq!(pace.note(1_000_000, 10, 2_100), 0, "it has stored nothing");
        assert_eq!(pace.note(100_000, 11, 2_110), 100);
        assert_eq!(pace.note(100_000, 11, 2_150), 160);
        assert_eq!(pace.note(100_000, 12, 3_000), 100);
        assert_eq!(pace.note(100_000, 12, 3_999), 100);
        assert_eq!(
            pace.note(100_000, 12, 4_000),
            0,
            "it has stored nothing for a second"
        );
        assert_eq!(RefillPace::new(None).note(u64::MAX, 1, 1), 0);
    }
}
