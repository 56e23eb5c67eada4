//! Real processes, killed: a child appends at a bounded rate and prints each acknowledged message
//! through a pipe; it is killed with -9 at a random instant; the store is opened again and every
//! message that was ever acknowledged is looked at by content. In each flush mode, with and without
//! the transient pool, on one directory from round to round.
//!
//! `MQCORE_KILL_ROUNDS=1000` sets the rounds (over all modes), `MQCORE_KILL_SEED` the instants.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message};

type RealStore = Store<RealDisk, SystemClock>;

/// Rounds of the run that is part of every test run.
const ROUNDS: u64 = 20;
/// The directory of the store; set only for the child.
const CHILD_DIR: &str = "MQCORE_KILL_CHILD_DIR";
const CHILD_MODE: &str = "MQCORE_KILL_CHILD_MODE";
const CHILD_FROM: &str = "MQCORE_KILL_CHILD_FROM";
/// Queues that the child appends to.
const QUEUES: u64 = 3;
/// Messages between two pauses, and the pause: some ten thousand a second at the most.
const BURST: u64 = 10;
const PAUSE: Duration = Duration::from_millis(1);
/// A child that was not killed by then ends by itself: the parent is gone.
const CHILD_LIFE: Duration = Duration::from_secs(60);
/// Longest time that a child is let run after its first acknowledgement, ms.
const RUN_MS_MAX: u64 = 60;

const MODES: [&[(&str, &str)]; 4] = [
    &[("flushDiskType", "ASYNC_FLUSH")],
    &[("flushDiskType", "SYNC_FLUSH")],
    &[
        ("transientStorePoolEnable", "true"),
        ("transientStorePoolSize", "2"),
    ],
    &[
        ("transientStorePoolEnable", "true"),
        ("transientStorePoolSize", "2"),
        ("flushDiskType", "SYNC_FLUSH"),
    ],
];

fn open(root: &Path, mode: usize) -> Arc<RealStore> {
    let mut pairs = vec![
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "262144"),
        ("mappedFileSizeConsumeQueue", "4000"),
        ("maxMessageSize", "16384"),
        ("maxHashSlotNum", "100"),
        ("maxIndexNum", "400"),
        ("flushIntervalCommitLog", "5"),
        ("flushIntervalConsumeQueue", "5"),
        ("flushConsumeQueueThoroughInterval", "20"),
    ];
    pairs.extend_from_slice(MODES[mode]);
    let config = StoreConfig::from_pairs(pairs).unwrap().0;
    Arc::new(Store::open(RealDisk, SystemClock::new(), config, OpenHow::RefuseDamage).unwrap())
}

/// The body of a message, from its number alone.
fn body_of(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    let len = 8 + (number.wrapping_mul(0x9e37_79b9) % 3_000) as usize;
    let mut word = number;
    while body.len() < len {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        body.extend(word.to_be_bytes());
    }
    body
}

fn message<'a>(number: u64, body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        born_timestamp_ms: 1,
        properties,
        ..Message::of("T", (number % QUEUES) as i32, body, host)
    }
}

/// What the child does: it is this test, started again with a directory in its environment.
#[test]
fn child() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let number = |key: &str| std::env::var(key).unwrap().parse::<u64>().unwrap();
    let store = open(Path::new(&dir), number(CHILD_MODE) as usize);
    store.start().unwrap();
    let mut out = std::io::stderr().lock();
    let started = Instant::now();
    let mut next = number(CHILD_FROM);
    while started.elapsed() < CHILD_LIFE {
        let body = body_of(next);
        let properties = format!("KEYS\x01k{next}\x02");
        let (at, status) = store
            .put(&message(next, &body, properties.as_bytes()))
            .unwrap();
        assert_eq!(status, PutStatus::PutOk);
        let line = format!("ACK {next} {} {}\n", at.physical_offset, at.queue_offset);
        out.write_all(line.as_bytes()).unwrap();
        next += 1;
        if next.is_multiple_of(BURST) {
            std::thread::sleep(PAUSE);
        }
    }
}

/// An acknowledged message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Acked {
    number: u64,
    physical_offset: u64,
    queue_offset: u64,
}

fn parse(line: &str) -> Option<Acked> {
    let mut words = line.strip_prefix("ACK ")?.split(' ');
    let mut word = || words.next()?.parse().ok();
    Some(Acked {
        number: word()?,
        physical_offset: word()?,
        queue_offset: word()?,
    })
}

/// Lets a child append until it is killed; returns the messages that it acknowledged.
fn round(root: &Path, mode: usize, from: u64, run: Duration) -> Vec<Acked> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CHILD_DIR, root)
        .env(CHILD_MODE, mode.to_string())
        .env(CHILD_FROM, from.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut acked = Vec::new();
    let mut kill_at = None;
    let mut line = String::new();
    loop {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // The last line may be cut off: such a message does not count.
        if !line.ends_with('\n') {
            break;
        }
        match parse(line.trim_end()) {
            Some(message) => acked.push(message),
            None => assert!(!line.contains("panicked"), "the child failed: {line}"),
        }
        let now = Instant::now();
        if now >= *kill_at.get_or_insert(now + run) {
            // SIGKILL. What is in the pipe already is read on.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(!acked.is_empty(), "the child acknowledged nothing");
    acked
}

/// Every message that was acknowledged is there, at its offset, with its content.
fn check(store: &RealStore, acked: &[Acked], mode: usize) {
    for message in acked {
        let record = store.reader().record_at(message.physical_offset);
        let record = record.unwrap_or_else(|error| panic!("mode {mode}: {message:?}: {error}"));
        let view = record.view(CrcCheck::Verify).unwrap();
        assert_eq!(
            view.body,
            body_of(message.number),
            "mode {mode}: {message:?}"
        );
        assert_eq!(view.queue_offset as u64, message.queue_offset);
        let mut units = Vec::new();
        let queue_id = (message.number % QUEUES) as i32;
        store
            .queues()
            .read(b"T", queue_id, message.queue_offset, 1, &mut units)
            .unwrap();
        let is_it = units.len() == 1 && units[0].physical_offset as u64 == message.physical_offset;
        assert!(is_it, "mode {mode}: {message:?}: {units:?}");
    }
    let mut physical_offsets: Vec<u64> = acked
        .iter()
        .map(|message| message.physical_offset)
        .collect();
    physical_offsets.sort_unstable();
    physical_offsets.dedup();
    assert_eq!(
        physical_offsets.len(),
        acked.len(),
        "an offset was given twice"
    );
}

#[test]
fn whoever_is_killed_loses_nothing_that_was_acknowledged() {
    let of = |key: &str| std::env::var(key).ok().and_then(|text| text.parse().ok());
    let rounds: u64 = of("MQCORE_KILL_ROUNDS").unwrap_or(ROUNDS);
    let mut seed: u64 = of("MQCORE_KILL_SEED").unwrap_or(1);
    let started = Instant::now();
    let mut total = 0;
    for mode in 0..MODES.len() {
        let name = format!("mqcore-kill-{mode}-{}", std::process::id());
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _absent = std::fs::remove_dir_all(&root);
        let mut acked: Vec<Acked> = Vec::new();
        for _ in 0..rounds.div_ceil(MODES.len() as u64) {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let run = Duration::from_micros((seed >> 33) % (RUN_MS_MAX * 1_000));
            // Numbers of messages that were appended and never acknowledged are not used again.
            let from = acked.last().map_or(0, |last| last.number + 1_000_000);
            acked.extend(round(&root, mode, from, run));
            let store = open(&root, mode);
            // What older rounds acknowledged was checked then; now and then all of it is again.
            let recent = acked.len().saturating_sub(5_000);
            check(&store, &acked[recent..], mode);
            store.abandon();
        }
        let store = open(&root, mode);
        check(&store, &acked, mode);
        assert!(store.close().unwrap());
        total += acked.len();
        drop(store);
        std::fs::remove_dir_all(&root).unwrap();
    }
    eprintln!(
        "{rounds} kills, {total} acknowledged messages found again, {:.1} s",
        started.elapsed().as_secs_f64()
    );
}
