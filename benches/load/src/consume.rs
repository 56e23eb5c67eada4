//! Pulls messages: every connection reads every queue, one pull in flight per queue.

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::Token;
use mqcore_record::peek_total_len;
use mqcore_wire::command::VERSION_DEFAULT;
use mqcore_wire::{CommandRef, Head, WireError};
use serde_json::{Value, json};

use crate::admin::{self, AdminConnection};
use crate::args::Consume;
use crate::failure::{Failure, Outcome};
use crate::link::{Link, Lost};
use crate::signed::{SignedWriter, Signer};
use crate::tally::Tally;
use crate::waiter::Waiter;

const PULL_MESSAGE: i32 = 11;
/// The broker may hold the request, and the request brings its subscription.
const SUSPEND_AND_SUBSCRIPTION: i64 = 0x2 | 0x4;
/// How long it may be held: as the Java push consumer asks.
const SUSPEND_MS: i64 = 15_000;
/// Answers: messages; none now; none that match; the offset moved.
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 19;
const RETRY_IMMEDIATELY: i32 = 20;
const OFFSET_MOVED: i32 = 21;
/// Before a queue is asked again that was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Bytes read at a time: some pulls.
const READ_BYTES: usize = 1024 * 1024;

/// A queue as one connection reads it.
#[derive(Debug, Clone)]
struct Reading {
    topic: usize,
    queue_id: u32,
    offset: i64,
    /// Where to stop, when that is asked for.
    target: i64,
    asked: Instant,
    /// When to ask again after a refusal.
    again_at: Option<Instant>,
    is_done: bool,
}

/// A connection and its queues.
struct Reader {
    link: Link,
    queues: Vec<Reading>,
}

struct Run<'a> {
    args: &'a Consume,
    topics: Vec<String>,
    version: i64,
    signer: Option<Signer>,
    readers: Vec<Reader>,
    tally: Tally,
}

/// Makes a run.
pub(crate) fn run(args: &Consume) -> Outcome<Value> {
    let common = &args.common;
    let address = admin::broker(common)?;
    let topics = common.topic_names();
    let mut queues = Vec::new();
    let mut admin = AdminConnection::at(address, common.signer())?;
    let asked = Instant::now();
    for (topic, name) in topics.iter().enumerate() {
        for queue_id in 0..common.queues {
            let (first, next) = admin.bounds(name, queue_id)?;
            queues.push(Reading {
                topic,
                queue_id,
                offset: if args.from_end { next } else { first },
                target: next,
                asked,
                again_at: None,
                is_done: false,
            });
        }
    }
    let mut waiter = Waiter::new()?;
    let mut readers = Vec::new();
    for number in 0..common.connections {
        let token = Token(number as usize);
        let link = Link::to(address, common.tls, waiter.poll.registry(), token).map_err(|why| {
            let why = why.to_string();
            Failure::Gone { address, why }
        })?;
        readers.push(Reader {
            link,
            queues: queues.clone(),
        });
    }
    let measured_from = Instant::now() + Duration::from_secs_f64(common.warm_seconds);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut run = Run {
        args,
        topics,
        version: since_epoch.map_or(0, |since| since.as_millis() as i64),
        signer: common.signer(),
        readers,
        tally: Tally::new(measured_from, common.pid, common.progress)?,
    };
    let ends_at = measured_from + Duration::from_secs_f64(common.seconds);
    let (ended, gone) = run.work(&mut waiter, ends_at)?;
    Ok(run.report(address, ended, gone.as_ref()))
}

impl Run<'_> {
    fn work(&mut self, waiter: &mut Waiter, ends_at: Instant) -> Outcome<(Instant, Option<Lost>)> {
        self.tally.tick(Instant::now());
        for at in 0..self.readers.len() {
            for queue in 0..self.readers.first().map_or(0, |reader| reader.queues.len()) {
                self.pull(at, queue)?;
            }
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let now = Instant::now();
            self.tally.tick(now);
            if now >= ends_at || self.is_done() {
                return Ok((now, None));
            }
            for at in 0..self.readers.len() {
                self.ask_again(at, now)?;
                let flushed = self.readers.get_mut(at).map(|reader| reader.link.flush());
                if let Some(Err(why)) = flushed {
                    return Ok((now, Some(why)));
                }
            }
            waiter.wait(None)?;
            for event in &waiter.events {
                let at = event.token().0;
                if at >= self.readers.len() {
                    continue;
                }
                if let Err(why) = self.receive(at, event.is_writable(), &mut buffer) {
                    return Ok((Instant::now(), Some(why)));
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        let mut queues = self.readers.iter().flat_map(|reader| &reader.queues);
        self.args.until_end && queues.all(|queue| queue.is_done)
    }

    fn ask_again(&mut self, at: usize, now: Instant) -> Outcome<()> {
        let count = self.readers.get(at).map_or(0, |reader| reader.queues.len());
        for queue in 0..count {
            let reading = self
                .readers
                .get_mut(at)
                .and_then(|r| r.queues.get_mut(queue));
            let is_due = reading.is_some_and(|reading| {
                let is_due = reading.again_at.is_some_and(|due| due <= now);
                if is_due {
                    reading.again_at = None;
                }
                is_due
            });
            if is_due {
                self.pull(at, queue)?;
            }
        }
        Ok(())
    }

    /// Asks for the next messages of a queue.
    fn pull(&mut self, at: usize, queue: usize) -> Outcome<()> {
        let Some(reader) = self.readers.get_mut(at) else {
            return Ok(());
        };
        let Some(reading) = reader.queues.get_mut(queue) else {
            return Ok(());
        };
        if self.args.until_end && reading.offset >= reading.target {
            reading.is_done = true;
            return Ok(());
        }
        reading.asked = Instant::now();
        let topic = self.topics.get(reading.topic).map_or("", String::as_str);
        let head = Head {
            code: PULL_MESSAGE,
            version: VERSION_DEFAULT,
            opaque: queue as i32,
            serialization: self.args.common.header.into(),
            ..Head::default()
        };
        let mut write = || -> Result<(), WireError> {
            let mut frame = SignedWriter::begin(&mut reader.link.out, &head, self.signer.as_ref())?;
            frame.text("consumerGroup", &self.args.group)?;
            frame.text("topic", topic)?;
            frame.number("queueId", i64::from(reading.queue_id))?;
            frame.number("queueOffset", reading.offset)?;
            frame.number("maxMsgNums", i64::from(self.args.pull_count))?;
            frame.number("sysFlag", SUSPEND_AND_SUBSCRIPTION)?;
            frame.number("commitOffset", 0)?;
            frame.number("suspendTimeoutMillis", SUSPEND_MS)?;
            frame.text("subscription", "*")?;
            frame.number("subVersion", self.version)?;
            frame.text("expressionType", "TAG")?;
            frame.finish(&[])
        };
        write().map_err(|error| Failure::Message(error.to_string()))
    }

    fn receive(&mut self, at: usize, is_writable: bool, buffer: &mut [u8]) -> Result<(), Lost> {
        let Self { readers, tally, .. } = self;
        let Some(reader) = readers.get_mut(at) else {
            return Ok(());
        };
        if is_writable {
            reader.link.unblocked()?;
        }
        let mut answered = Vec::new();
        let Reader { link, queues } = reader;
        let now = Instant::now();
        link.read(buffer, |answer| {
            let queue = answer.opaque as usize;
            let Some(reading) = queues.get_mut(queue).filter(|_| answer.is_response()) else {
                return;
            };
            if take(reading, answer, now, tally) {
                answered.push(queue);
            }
        })?;
        for queue in answered {
            // A pull always fits a frame: its texts came from the command line.
            if self.pull(at, queue).is_err() {
                return Err(Lost::Closed);
            }
        }
        Ok(())
    }

    fn report(&self, address: SocketAddr, ended: Instant, gone: Option<&Lost>) -> Value {
        let common = &self.args.common;
        let mut report = self.tally.report(ended);
        let about = json!({
            "job": "consume",
            "broker": address.to_string(),
            "connections": common.connections,
            "topics": common.topics,
            "queues": common.queues,
            "pull_count": self.args.pull_count,
        });
        if let (Some(report), Value::Object(about)) = (report.as_object_mut(), about) {
            report.extend(about);
            if let Some(why) = gone {
                report.insert("gone".to_owned(), json!(why.to_string()));
            }
        }
        report
    }
}

/// Takes an answer; returns whether the queue is to be asked again at once.
fn take(reading: &mut Reading, answer: &CommandRef<'_>, now: Instant, tally: &mut Tally) -> bool {
    let next = answer.fields.value("nextBeginOffset");
    if let Some(next) = next.and_then(|text| text.parse().ok()) {
        reading.offset = next;
    }
    let messages = if answer.code == FOUND {
        tally.latency(now.saturating_duration_since(reading.asked));
        count(answer.body)
    } else {
        0
    };
    tally.answer(answer.code, messages, answer.body.len() as u64);
    let is_usual = matches!(
        answer.code,
        FOUND | NOT_FOUND | RETRY_IMMEDIATELY | OFFSET_MOVED
    );
    if !is_usual {
        reading.again_at = Some(now + REFUSED_PAUSE);
    }
    is_usual
}

/// Number of stored messages in the body of a pull.
fn count(body: &[u8]) -> u64 {
    let mut rest = body;
    let mut messages = 0;
    while let Some(len) = peek_total_len(rest).filter(|len| *len > 0) {
        let Some(after) = rest.get(len..) else {
            break;
        };
        messages += 1;
        rest = after;
    }
    messages
}
