//! Handles of popped messages, and the fields of an answer that clients make them from
//! (`ExtraInfoUtil`). Pure.

use std::fmt::Write as _;

use super::names::{ORDER_QUEUE, Source};

/// What a handle holds (`POP_CK`): eight words with spaces between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle<'a> {
    /// Queue offset that its pop began at: names the check point.
    pub start_offset: i64,
    /// When it was popped, Unix ms.
    pub pop_time_ms: i64,
    /// How long nobody else gets it, ms.
    pub invisible_ms: i64,
    /// The queue of its check point.
    pub revive_queue: i32,
    /// The broker.
    pub broker: &'a str,
}

impl<'a> Handle<'a> {
    /// Reads what acknowledgements need of a handle; in words what is wrong with it.
    ///
    /// # Errors
    /// The first part that is missing or no number.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let mut next = |name: &'static str| {
            let found = words.next();
            found.ok_or_else(|| format!("the handle has no {name}"))
        };
        let start_offset = number("offset", next("offset")?)?;
        let pop_time_ms = number("pop time", next("pop time")?)?;
        let invisible_ms = number("invisible time", next("invisible time")?)?;
        let revive_queue = number("revive queue", next("revive queue")?)?;
        let _retry = next("retry flag")?;
        Ok(Self {
            start_offset,
            pop_time_ms,
            invisible_ms,
            revive_queue,
            broker: next("broker")?,
        })
    }

    /// Whether it is of an ordered pop.
    #[must_use]
    pub const fn is_ordered(&self) -> bool {
        self.revive_queue == ORDER_QUEUE
    }
}

/// Characters of a bad value that an answer repeats.
const SHOWN_CHARS: usize = 64;

fn number<T: std::str::FromStr>(name: &str, word: &str) -> Result<T, String> {
    word.parse().map_err(|_bad| {
        let shown: String = word.chars().take(SHOWN_CHARS).collect();
        format!("the {name} of the handle is no {shown:?}")
    })
}

/// What a handle with a message's own offset holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleFields<'a> {
    /// Queue offset that its pop began at.
    pub start_offset: u64,
    /// When it was popped, Unix ms.
    pub pop_time_ms: i64,
    /// How long nobody else gets it, ms.
    pub invisible_ms: i64,
    /// The queue of its check point.
    pub revive_queue: i32,
    /// Where it was popped from.
    pub source: Source,
    /// The broker.
    pub broker: &'a str,
    /// Its queue.
    pub queue_id: i32,
    /// Its queue offset.
    pub offset: u64,
}

impl HandleFields<'_> {
    /// The handle as text (`buildExtraInfo`).
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{} {} {} {} {} {} {} {}",
            self.start_offset,
            self.pop_time_ms,
            self.invisible_ms,
            self.revive_queue,
            self.source.flag(),
            self.broker,
            self.queue_id,
            self.offset
        )
    }
}

/// The fields of an answer, as they grow queue by queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Infos {
    /// `startOffsetInfo`: where the pop of each queue began.
    pub starts: String,
    /// `msgOffsetInfo`: the offsets of the messages of each queue.
    pub offsets: String,
    /// `orderCountInfo`: how often messages of ordered pops were given before.
    pub counts: String,
}

impl Infos {
    /// Adds what was popped from a queue.
    pub fn add(&mut self, source: Source, queue_id: i32, start: u64, offsets: &[u64]) {
        let flag = source.flag();
        part(&mut self.starts);
        let _infallible = write!(self.starts, "{flag} {queue_id} {start}");
        part(&mut self.offsets);
        let _infallible = write!(self.offsets, "{flag} {queue_id} ");
        for (at, offset) in offsets.iter().enumerate() {
            if at > 0 {
                self.offsets.push(',');
            }
            let _infallible = write!(self.offsets, "{offset}");
        }
    }

    /// Adds how often a message was given before (`buildQueueOffsetOrderCountInfo`).
    pub fn count_of(&mut self, queue_id: i32, offset: u64, count: i32) {
        part(&mut self.counts);
        let flag = Source::Normal.flag();
        let _infallible = write!(self.counts, "{flag} qo{queue_id}%{offset} {count}");
    }

    /// Adds how often the messages of a queue were given before, for old clients
    /// (`buildQueueIdOrderCountInfo`).
    pub fn count_all(&mut self, queue_id: i32, count: i32) {
        part(&mut self.counts);
        let flag = Source::Normal.flag();
        let _infallible = write!(self.counts, "{flag} {queue_id} {count}");
    }
}

fn part(text: &mut String) {
    if !text.is_empty() {
        text.push(';');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_read_as_it_is_written() {
        let fields = HandleFields {
            start_offset: 7,
            pop_time_ms: 1_700_000_000_000,
            invisible_ms: 60_000,
            revive_queue: 3,
            source: Source::RetryV2,
            broker: "broker-a",
            queue_id: 1,
            offset: 9,
        };
        let text = fields.text();
        assert_eq!(text, "7 1700000000000 60000 3 2 broker-a 1 9");
        let handle = Handle::parse(&text).unwrap();
        assert_eq!((handle.start_offset, handle.revive_queue), (7, 3));
        assert_eq!(handle.broker, "broker-a");
        assert!(!handle.is_ordered());
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        for text in ["", "x", "1 2", "1 2 3 4 0", "1 2 3 x 0 b", "1  2 3 4 0 b"] {
            assert!(Handle::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_fields_of_an_answer_list_queues() {
        let mut infos = Infos::default();
        infos.add(Source::Normal, 0, 5, &[5, 7]);
        infos.add(Source::RetryV1, 0, 0, &[0]);
        infos.count_of(2, 5, 1);
        infos.count_all(2, 0);
        assert_eq!(infos.starts, "0 0 5;1 0 0");
        assert_eq!(infos.offsets, "0 0 5,7;1 0 0");
        assert_eq!(infos.counts, "0 qo2%5 1;0 2 0");
    }
}
