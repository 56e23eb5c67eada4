//! Sends messages: in a closed loop a new one for each answer, in an open loop when one is due.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use mio::Token;
use mqcore_wire::{CommandRef, FRAME_BYTES_MAX};
use serde_json::{Value, json};

use crate::admin;
use crate::args::Produce;
use crate::bodies::Bodies;
use crate::failure::{Failure, Outcome};
use crate::kept::Kept;
use crate::link::{Link, Lost};
use crate::numbers::Numbers;
use crate::outline::{OPAQUE_BASE, Outline};
use crate::pace::Pace;
use crate::requests::{batch_of, outlines};
use crate::tally::Tally;
use crate::waiter::Waiter;

/// Between two tries to reach a broker that is away, and before a refused message is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long answers are waited for after the measurement has ended.
const LATE_ANSWERS: Duration = Duration::from_secs(5);
/// Messages in an open loop that were never sent and whose age still counts as a latency.
const OVERDUE_MAX: u64 = 10_000_000;
/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;

/// A request that is not answered yet.
#[derive(Debug, Clone)]
struct InFlight {
    /// When it was sent, or should have been.
    due: Instant,
    numbers: Range<u64>,
    bytes: u64,
}

/// A connection and its requests.
struct FastPath {
    link: Option<Link>,
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// When to try again to reach the broker.
    retry_at: Option<Instant>,
}

/// A run.
struct Run<'a> {
    args: &'a Produce,
    address: SocketAddr,
    bodies: Bodies,
    outlines: Vec<Outline>,
    queues: u64,
    topics: u64,
    fast_paths: Vec<FastPath>,
    pace: Option<Pace>,
    numbers: Numbers,
    kept: Option<Kept>,
    acks: Option<BufWriter<File>>,
    tally: Tally,
    away_since: Option<Instant>,
    gone: Option<String>,
    is_over: bool,
    acked: u64,
    /// Which connection has the next turn.
    turn: usize,
}

/// Makes a run.
pub(crate) fn run(args: &Produce) -> Outcome<Value> {
    let common = &args.common;
    let bodies = match &args.file {
        Some(path) => Bodies::of_file(path, args.skip_lines)?,
        None => Bodies::of_len(args.size),
    };
    let address = admin::broker(common)?;
    let outlines = outlines(args, &bodies)?;
    let start = Instant::now();
    let measured_from = start + Duration::from_secs_f64(common.warm_seconds);
    let acks = match &args.acks {
        Some(path) => {
            let file = File::create(path).map_err(|error| Failure::File {
                path: path.clone(),
                error,
            })?;
            Some(BufWriter::new(file))
        }
        None => None,
    };
    let end = bodies.count().into_iter().chain(args.count).min();
    let mut waiter = Waiter::new()?;
    let mut run = Run {
        args,
        address,
        bodies,
        outlines,
        queues: u64::from(common.queues),
        topics: u64::from(common.topics),
        fast_paths: Vec::new(),
        pace: args.rate.map(|rate| Pace::new(start, rate)),
        numbers: Numbers::new(end.unwrap_or(u64::MAX), args.batch),
        kept: args.check.then(|| Kept::new(common, address)).transpose()?,
        acks,
        tally: Tally::new(measured_from, common.pid, common.progress)?,
        away_since: None,
        gone: None,
        is_over: false,
        acked: 0,
        turn: 0,
    };
    run.connect(&waiter)?;
    let ends_at = end
        .is_none()
        .then(|| measured_from + Duration::from_secs_f64(common.seconds));
    let ended = run.work(&mut waiter, ends_at)?;
    let mut report = run.tally.report(ended);
    run.late_answers(&mut waiter, ended)?;
    let after = run.tally.report(ended);
    if let (Some(report), Some(latency)) = (report.as_object_mut(), after.get("latency_us")) {
        // Rates are of the measured time; latencies are of all that was sent in it.
        report.insert("latency_us".to_owned(), latency.clone());
    }
    let mut report = run.report(report, ended);
    if let (Some(kept), Some(report)) = (&run.kept, report.as_object_mut()) {
        report.insert("stored".to_owned(), json!(kept.stored(common)?));
        report.insert("disordered".to_owned(), json!(kept.disordered));
    }
    Ok(report)
}

impl Run<'_> {
    fn connect(&mut self, waiter: &Waiter) -> Outcome<()> {
        let outstanding = self.args.common.outstanding;
        for number in 0..self.args.common.connections {
            let token = Token(number as usize);
            let link = Link::to(
                self.address,
                self.args.common.tls,
                waiter.poll.registry(),
                token,
            );
            let link = link.map_err(|why| self.unreachable(&why))?;
            self.fast_paths.push(FastPath {
                link: Some(link),
                slots: vec![None; outstanding as usize],
                free: (0..outstanding).rev().collect(),
                retry_at: None,
            });
        }
        Ok(())
    }

    fn unreachable(&self, why: &Lost) -> Failure {
        Failure::Gone {
            address: self.address,
            why: why.to_string(),
        }
    }

    /// Sends and receives until it is over; returns when that was.
    fn work(&mut self, waiter: &mut Waiter, ends_at: Option<Instant>) -> Outcome<Instant> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let now = Instant::now();
            self.tally.tick(now);
            if ends_at.is_some_and(|end| now >= end) || self.is_done() || self.gone.is_some() {
                self.is_over = true;
                self.keep_acks()?;
                return Ok(now);
            }
            self.reconnect(waiter, now);
            let due = self.fill(now)?;
            waiter.wait(due.map(|due| due.saturating_duration_since(Instant::now())))?;
            self.receive(waiter, &mut buffer);
        }
    }

    /// Waits for answers to what is in flight; what is never answered has taken until now.
    fn late_answers(&mut self, waiter: &mut Waiter, ended: Instant) -> Outcome<()> {
        let mut buffer = vec![0; READ_BYTES];
        while self.in_flight() > 0 && ended.elapsed() < LATE_ANSWERS {
            waiter.wait(None)?;
            self.receive(waiter, &mut buffer);
        }
        self.keep_acks()?;
        let now = Instant::now();
        for request in self
            .fast_paths
            .iter()
            .flat_map(|fast_path| fast_path.slots.iter().flatten())
        {
            self.tally.latency(now - request.due);
        }
        if let Some(mut pace) = self.pace {
            let overdue = pace.behind(ended).min(OVERDUE_MAX);
            for _ in 0..overdue {
                self.tally
                    .latency(now.saturating_duration_since(pace.due()));
                pace.step(1);
            }
        }
        Ok(())
    }

    fn report(&self, mut report: Value, ended: Instant) -> Value {
        let common = &self.args.common;
        let about = json!({
            "job": "produce",
            "broker": self.address.to_string(),
            "connections": common.connections,
            "outstanding": common.outstanding,
            "topics": common.topics,
            "queues": common.queues,
            "size_bytes": self.args.file.is_none().then_some(self.args.size),
            "batch": self.args.batch,
            "loop": if self.pace.is_some() { "open" } else { "closed" },
            "rate_asked": self.args.rate,
            "acknowledged": self.acked,
            "unanswered": self.in_flight(),
            "never_sent": self.pace.map(|pace| pace.behind(ended)),
        });
        if let (Some(report), Value::Object(about)) = (report.as_object_mut(), about) {
            report.extend(about);
            if let Some(why) = &self.gone {
                report.insert("gone".to_owned(), json!(why));
            }
        }
        report
    }

    fn in_flight(&self) -> usize {
        let fast_paths = self.fast_paths.iter();
        fast_paths
            .map(|fast_path| fast_path.slots.len() - fast_path.free.len())
            .sum()
    }

    fn is_done(&self) -> bool {
        self.numbers.is_empty() && self.in_flight() == 0
    }

    /// Sends what can be sent now; returns when the next message is due, where that is known.
    fn fill(&mut self, now: Instant) -> Outcome<Option<Instant>> {
        let fast_paths = self.fast_paths.len();
        let mut is_full = 0;
        let mut due_next = self.numbers.next_refused();
        // A turn each, so that an open loop loads all connections alike.
        while is_full < fast_paths {
            let due = match &self.pace {
                Some(pace) if pace.due() > now => {
                    due_next = Some(due_next.map_or(pace.due(), |at| at.min(pace.due())));
                    break;
                }
                Some(pace) => pace.due(),
                None => now,
            };
            let at = self.turn % fast_paths;
            self.turn += 1;
            let can_send = self
                .fast_paths
                .get(at)
                .is_some_and(|fast_path| fast_path.link.is_some() && !fast_path.free.is_empty());
            if !can_send {
                is_full += 1;
                continue;
            }
            let Some(numbers) = self.numbers.take(now) else {
                break;
            };
            is_full = 0;
            if let Some(pace) = &mut self.pace {
                pace.step(numbers.end - numbers.start);
            }
            self.send(at, due, numbers)?;
        }
        for at in 0..fast_paths {
            let flushed = self
                .fast_paths
                .get_mut(at)
                .and_then(|fast_path| fast_path.link.as_mut());
            if let Some(Err(why)) = flushed.map(Link::flush) {
                self.lose(at, &why);
            }
        }
        Ok(due_next)
    }

    /// The queue of a message, counted over all topics. The messages of a batch lie in one.
    fn queue_of(&self, number: u64) -> u64 {
        number / u64::from(self.args.batch) % (self.queues * self.topics)
    }

    fn send(&mut self, at: usize, due: Instant, numbers: Range<u64>) -> Outcome<()> {
        let number = numbers.start;
        let index = self.queue_of(number);
        let Some(outline) = self.outlines.get(index as usize) else {
            return Ok(());
        };
        let Some(fast_path) = self.fast_paths.get_mut(at) else {
            return Ok(());
        };
        let (Some(link), Some(slot)) = (fast_path.link.as_mut(), fast_path.free.pop()) else {
            return Ok(());
        };
        let bytes = if self.args.batch > 1 {
            let body = batch_of(&self.bodies, self.args, numbers.clone())?;
            outline.write(&mut link.out, slot, number, &body);
            body.len()
        } else {
            let body = self.bodies.body(number).unwrap_or_default();
            outline.write(&mut link.out, slot, number, body);
            body.len()
        };
        if bytes > FRAME_BYTES_MAX {
            return Err(Failure::Message(format!(
                "a body of {bytes} bytes is no frame"
            )));
        }
        if let Some(in_flight) = fast_path.slots.get_mut(slot as usize) {
            *in_flight = Some(InFlight {
                due,
                numbers,
                bytes: bytes as u64,
            });
        }
        Ok(())
    }

    fn receive(&mut self, waiter: &Waiter, buffer: &mut [u8]) {
        for event in &waiter.events {
            let at = event.token().0;
            let Some(mut link) = self
                .fast_paths
                .get_mut(at)
                .and_then(|fast_path| fast_path.link.take())
            else {
                continue;
            };
            let mut done = Ok(());
            if event.is_writable() {
                done = link.unblocked();
            }
            if done.is_ok() && (event.is_readable() || event.is_read_closed()) {
                let now = Instant::now();
                done = link.read(buffer, |answer| {
                    if answer.is_response() {
                        self.answered(at, answer, now);
                    }
                });
            }
            if let Some(fast_path) = self.fast_paths.get_mut(at) {
                fast_path.link = Some(link);
            }
            if let Err(why) = done {
                self.lose(at, &why);
            }
        }
    }

    fn answered(&mut self, at: usize, answer: &CommandRef<'_>, now: Instant) {
        let code = answer.code;
        let Some(fast_path) = self.fast_paths.get_mut(at) else {
            return;
        };
        let slot = answer.opaque.wrapping_sub(OPAQUE_BASE).cast_unsigned();
        let request = fast_path
            .slots
            .get_mut(slot as usize)
            .and_then(Option::take);
        let Some(request) = request else {
            return;
        };
        fast_path.free.push(slot);
        self.tally
            .latency(now.saturating_duration_since(request.due));
        let messages = request.numbers.end - request.numbers.start;
        if code == 0 {
            self.acked += messages;
            let queue = self.queue_of(request.numbers.start);
            if let Some(kept) = &mut self.kept {
                let offset = answer.fields.value("queueOffset");
                kept.answered(at, queue, offset.and_then(|text| text.parse().ok()));
            }
            if let Some(acks) = &mut self.acks {
                for number in request.numbers.clone() {
                    // Seen when the file is flushed.
                    let _written = writeln!(acks, "{number}");
                }
            }
            self.tally.answer(code, messages, request.bytes);
        } else {
            self.tally.answer(code, 0, 0);
            if self.args.patience_seconds.is_some() {
                self.numbers.refused(now + RETRY_PAUSE, request.numbers);
            }
        }
    }

    /// A connection has ended: what was in flight on it is not acknowledged.
    fn lose(&mut self, at: usize, why: &Lost) {
        let has_patience = self.args.patience_seconds.is_some();
        let Some(fast_path) = self.fast_paths.get_mut(at) else {
            return;
        };
        fast_path.link = None;
        for (slot, in_flight) in (0_u32..).zip(&mut fast_path.slots) {
            if let Some(request) = in_flight.take() {
                fast_path.free.push(slot);
                self.tally.lost += 1;
                if has_patience {
                    self.numbers.lost(request.numbers);
                }
            }
        }
        let now = Instant::now();
        if has_patience {
            fast_path.retry_at = Some(now + RETRY_PAUSE);
            self.away_since.get_or_insert(now);
        } else if self
            .fast_paths
            .iter()
            .all(|fast_path| fast_path.link.is_none())
            && !self.is_over
        {
            self.gone = Some(why.to_string());
        }
    }

    fn reconnect(&mut self, waiter: &Waiter, now: Instant) {
        if self.away_since.is_none() {
            return;
        }
        let patience = Duration::from_secs_f64(self.args.patience_seconds.unwrap_or_default());
        for (at, fast_path) in self.fast_paths.iter_mut().enumerate() {
            if fast_path.retry_at.is_none_or(|retry| retry > now) {
                continue;
            }
            match Link::to(
                self.address,
                self.args.common.tls,
                waiter.poll.registry(),
                Token(at),
            ) {
                Ok(link) => {
                    fast_path.link = Some(link);
                    fast_path.retry_at = None;
                    self.tally.reconnects += 1;
                }
                Err(why) => {
                    fast_path.retry_at = Some(now + RETRY_PAUSE);
                    let is_spent = self.away_since.is_some_and(|since| now - since > patience);
                    if is_spent {
                        self.gone = Some(why.to_string());
                    }
                }
            }
        }
        if self
            .fast_paths
            .iter()
            .all(|fast_path| fast_path.retry_at.is_none())
        {
            self.away_since = None;
        }
    }

    fn keep_acks(&mut self) -> Outcome<()> {
        let (Some(acks), Some(path)) = (&mut self.acks, &self.args.acks) else {
            return Ok(());
        };
        acks.flush().map_err(|error| Failure::File {
            path: path.clone(),
            error,
        })
    }
}
