//! Bad bytes into a port of a running program, thousands a second: it lives, and answers a good
//! request between them within a bound.
//!
//! A round is a connection's: bad requests in one write, and a good one behind them. What is drawn and is
//! no frame comes last, one a round, and the connection has to end: a connection costs as much as many
//! requests. A round is drawn from the seed and the numbers of connection and round, which a report of
//! trouble names.

mod inputs;
mod port;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mqcore_mutation::Mutation;
use mqcore_wire::{FRAME_BYTES_MAX, Split, split};
use serde_json::{Value, json};

use crate::args::{Fuzz, PortKind};
use crate::failure::{Failure, Outcome};
use inputs::{Source, pieces};
use port::{Port, Seen, Trouble};

/// Inputs of a round at the most.
const ROUND_INPUTS_MAX: u64 = 48;
/// Bytes of a round at the most, but for its last input: they fit the buffers of two sockets, so that
/// who only writes is never waited for.
const ROUND_BYTES_MAX: usize = 64 * 1024;
/// Rounds of a connection: what it holds at the broker goes with it.
const CONNECTION_ROUNDS: u64 = 40;
/// The number of the good request.
const PROBE_OPAQUE: i32 = 0x7f5a_0001;
/// How long bytes that are no request may be left without an answer.
const RAW_WAIT: Duration = Duration::from_millis(20);
/// Rounds of raw bytes between two good requests.
const RAW_ROUNDS: u64 = 64;
/// Bytes of a trouble's round that are kept in the report.
const SHOWN_BYTES: usize = 4096;

/// What all connections count together.
#[derive(Default)]
struct Counts {
    inputs: AtomicU64,
    rounds: AtomicU64,
    connections: AtomicU64,
    /// Connections that ended though every input was a frame.
    ended_early: AtomicU64,
    answers: Mutex<BTreeMap<i32, u64>>,
    trouble: Mutex<Vec<Value>>,
    is_over: AtomicBool,
}

impl Counts {
    fn add(&self, answers: &BTreeMap<i32, u64>) {
        let mut all = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for (code, count) in answers {
            *all.entry(*code).or_default() += count;
        }
    }

    fn fail(&self, connection: u64, round: u64, trouble: &Trouble, sent: &[u8]) {
        self.is_over.store(true, Ordering::Relaxed);
        let shown = sent.get(..sent.len().min(SHOWN_BYTES)).unwrap_or_default();
        let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(json!({
            "connection": connection, "round": round, "why": trouble.to_string(), "sent": hex,
        }));
    }
}

/// Makes a run.
pub(crate) fn run(args: &Fuzz) -> Outcome<Value> {
    let file = read(&args.seeds)?;
    let source = Source::of(&file, &args.without);
    let raw = pieces(&file);
    let probe = args.probe.as_ref().map(read).transpose()?;
    if raw.is_empty() || (args.kind == PortKind::Remoting && source.len() == 0) {
        let path = args.seeds.display();
        return Err(Failure::Message(format!(
            "{path} has nothing to begin with"
        )));
    }
    let probe = match (args.kind, probe) {
        (PortKind::Remoting, None) => {
            let why = "a port of the protocol needs --probe: a good request";
            return Err(Failure::Message(why.to_owned()));
        }
        (PortKind::Remoting, Some(frame)) => Some(numbered(&frame)?),
        (PortKind::Raw, probe) => probe,
    };
    let counts = Counts::default();
    let started = Instant::now();
    let work = Work {
        args,
        source: &source,
        raw: &raw,
        probe: probe.as_deref(),
        counts: &counts,
        ends_at: started + Duration::from_secs_f64(args.seconds),
        patience: Duration::from_secs_f64(args.patience_seconds),
    };
    std::thread::scope(|scope| {
        for number in 0..u64::from(args.connections) {
            scope.spawn(move || work.connection(number));
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    let inputs = counts.inputs.load(Ordering::Relaxed);
    let answers = counts
        .answers
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let answers: serde_json::Map<_, _> = answers
        .into_iter()
        .map(|(code, count)| (code.to_string(), json!(count)))
        .collect();
    let trouble = counts
        .trouble
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let mut report = json!({
        "job": "fuzz",
        "address": args.address.to_string(),
        "seed": args.seed,
        "seconds": seconds,
        "inputs": inputs,
        "inputs_per_second": inputs as f64 / seconds,
        "rounds": counts.rounds.load(Ordering::Relaxed),
        "connections": counts.connections.load(Ordering::Relaxed),
        "ended_early": counts.ended_early.load(Ordering::Relaxed),
        "codes": answers,
    });
    if let (false, Some(report)) = (trouble.is_empty(), report.as_object_mut()) {
        report.insert("gone".to_owned(), Value::Array(trouble));
    }
    Ok(report)
}

fn read(path: &std::path::PathBuf) -> Outcome<Vec<u8>> {
    std::fs::read(path).map_err(|error| Failure::File {
        path: path.clone(),
        error,
    })
}

fn note(answers: &mut BTreeMap<i32, u64>, code: i32) {
    *answers.entry(code).or_default() += 1;
}

/// The good request with a number that no input has.
fn numbered(frame: &[u8]) -> Outcome<Vec<u8>> {
    let wrong = |why: String| Failure::Message(format!("the good request is none: {why}"));
    let Ok(Split::Frame(found)) = split(frame, FRAME_BYTES_MAX) else {
        return Err(wrong("it is no frame".to_owned()));
    };
    let command = mqcore_wire::CommandRef::decode(&found).map_err(|error| wrong(error.to_string()));
    let mut command = command?.to_owned();
    command.opaque = PROBE_OPAQUE;
    command.encode().map_err(|error| wrong(error.to_string()))
}

/// The inputs of a round.
#[derive(Default)]
struct Drawn {
    /// Those that are frames, one behind another.
    bytes: Vec<u8>,
    frames: u64,
    /// What ends the connection.
    last: Option<Vec<u8>>,
}

/// What the threads share.
#[derive(Clone, Copy)]
struct Work<'a> {
    args: &'a Fuzz,
    source: &'a Source,
    raw: &'a [Vec<u8>],
    probe: Option<&'a [u8]>,
    counts: &'a Counts,
    ends_at: Instant,
    patience: Duration,
}

impl Work<'_> {
    /// The rounds of a connection, made anew as often as it ends.
    fn connection(&self, number: u64) {
        let mut port = None;
        let rounds = self
            .args
            .round
            .map_or(0..u64::MAX, |round| round..round + 1);
        for round in rounds {
            if self.counts.is_over.load(Ordering::Relaxed) || Instant::now() >= self.ends_at {
                return;
            }
            let connection = self.args.connection.unwrap_or(number);
            let mut sent = Vec::new();
            let done = match self.args.kind {
                PortKind::Remoting => self.round(&mut port, connection, round, &mut sent),
                PortKind::Raw => self.raw_round(connection, round, &mut sent),
            };
            self.counts.rounds.fetch_add(1, Ordering::Relaxed);
            if let Err(trouble) = done {
                self.counts.fail(connection, round, &trouble, &sent);
            }
        }
    }

    fn open(&self) -> Result<Port, Trouble> {
        self.counts.connections.fetch_add(1, Ordering::Relaxed);
        Port::to(self.args.address, self.args.tls, self.patience)
    }

    /// Draws the inputs of a round.
    fn drawn(&self, dice: &mut Mutation) -> Drawn {
        let mut drawn = Drawn::default();
        for _ in 0..=dice.below(ROUND_INPUTS_MAX) {
            let input = self.source.draw(dice, PROBE_OPAQUE, &self.args.without);
            if !input.is_whole {
                drawn.last.get_or_insert(input.bytes);
                continue;
            }
            drawn.frames += 1;
            drawn.bytes.extend(input.bytes);
            if drawn.bytes.len() > ROUND_BYTES_MAX {
                break;
            }
        }
        drawn
    }

    fn round(
        &self,
        port: &mut Option<Port>,
        connection: u64,
        round: u64,
        sent: &mut Vec<u8>,
    ) -> Result<(), Trouble> {
        let mut dice = Mutation::named(self.args.seed, &[connection, round]);
        let drawn = self.drawn(&mut dice);
        let mut last = drawn.last;
        let mut inputs = drawn.frames + u64::from(last.is_some());
        sent.extend(drawn.bytes);
        sent.extend(self.probe.unwrap_or_default());
        let mut open = match port.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let mut answers = BTreeMap::new();
        let seen = if open.send(sent, self.patience)? {
            open.until_answered(Some(PROBE_OPAQUE), self.patience, |code| {
                note(&mut answers, code);
            })?
        } else {
            Seen::End
        };
        match seen {
            Seen::Nothing => {
                return Err(Trouble::Late("the answer to a good request", self.patience));
            }
            // What was behind the input that ended it was not looked at: those before it were answered,
            // but for the few that want no answer.
            Seen::End => {
                self.counts.ended_early.fetch_add(1, Ordering::Relaxed);
                inputs = answers.values().sum::<u64>() + 1;
                last = None;
            }
            Seen::Answer => {}
        }
        if let Some(last) = last {
            sent.clone_from(&last);
            // Some go at once, and read nothing of what comes.
            if open.send(&last, self.patience)? && !dice.once_in(8) {
                open.end();
                let seen = open.until_answered(None, self.patience, |code| {
                    note(&mut answers, code);
                })?;
                if seen == Seen::Nothing {
                    return Err(Trouble::Late("the end of a connection", self.patience));
                }
            }
        } else if seen == Seen::Answer && !(round + 1).is_multiple_of(CONNECTION_ROUNDS) {
            *port = Some(open);
        }
        self.counts.inputs.fetch_add(inputs, Ordering::Relaxed);
        self.counts.add(&answers);
        Ok(())
    }

    /// Whether anything comes back to a good request over a connection of its own.
    fn is_answered(&self, probe: &[u8]) -> Result<bool, Trouble> {
        let mut good = self.open()?;
        Ok(good.send(probe, self.patience)? && good.hears(self.patience))
    }

    /// Bytes of another protocol over a connection of their own.
    fn raw_round(&self, connection: u64, round: u64, sent: &mut Vec<u8>) -> Result<(), Trouble> {
        let mut dice = Mutation::named(self.args.seed, &[connection, round]);
        *sent = dice.one(self.raw).cloned().unwrap_or_default();
        if !dice.once_in(16) {
            dice.change(sent, self.raw);
        }
        let mut open = self.open()?;
        if open.send(sent, self.patience)? && !dice.once_in(3) {
            open.end();
            open.hears(RAW_WAIT);
        }
        self.counts.inputs.fetch_add(1, Ordering::Relaxed);
        if let (Some(probe), 0) = (self.probe, round % RAW_ROUNDS) {
            // Who has many connections already may refuse one.
            let began = Instant::now();
            while !self.is_answered(probe)? {
                if began.elapsed() > self.patience {
                    return Err(Trouble::Late("the answer to a good request", self.patience));
                }
            }
        }
        Ok(())
    }
}
