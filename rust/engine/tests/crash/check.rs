//! Opens what a crash left and compares it with the model: what was promised is there, in order and
//! once; queues and index are what the log holds; the store goes on, and opens again.

use std::path::Path;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::commit_log::{Scan, Stop as ScanStop, scan};
use mqcore_engine::consume_queue::Unit;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::key_index::{Layout, index_files, verify_file};
use mqcore_engine::notice::Notices;
use mqcore_engine::small_state;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{CrcCheck, tags_code};

use super::flaw::{Flaw, FlawedDisk, Phase};
use super::play::{
    CONFIG_PATH, INDEX_ENTRIES, INDEX_SLOTS, TestStore, body_of, config_of, message, properties_of,
};
use super::reported::{Reported, Sent, Stop};
use super::script::{QUEUE_KEYS, QueueKey, Script};

/// What to compare with.
pub(crate) struct Case<'a> {
    pub(crate) script: &'a Script,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) reported: &'a Reported,
    pub(crate) stop: Stop,
    /// The process ended, the machine did not.
    pub(crate) is_killed: bool,
    /// How the store ends after it went on.
    pub(crate) closes: bool,
}

/// What a good image held: the model of what comes after it.
pub(crate) struct Recovered {
    pub(crate) log: Vec<Sent>,
    pub(crate) start: u64,
    pub(crate) config: u64,
}

type Checked<T> = Result<T, String>;

macro_rules! demand {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}

/// Judges one image.
pub(crate) fn check_image(case: &Case<'_>, image: &TwinDisk) -> Checked<Recovered> {
    let store = open(case, image)?;
    let recovered = log_of(case, &store)?;
    check_promises(case, &recovered)?;
    let config = config_value(case, image)?;
    dispatch(&store)?;
    check_queues(&store, &recovered.log)?;
    check_index(&store, image, &recovered)?;
    let log = go_on(case, &store, &recovered)?;
    if case.closes {
        let is_clean = store.close().map_err(|error| format!("close: {error}"))?;
        demand!(is_clean, "not closed cleanly: {:?}", store.notices());
    }
    drop(store);
    let again = open(case, image).map_err(|error| format!("second open: {error}"))?;
    demand!(
        again.report().was_clean == case.closes,
        "was_clean is {} after {}",
        again.report().was_clean,
        if case.closes { "a stop" } else { "a kill" }
    );
    let second = log_of(case, &again).map_err(|error| format!("second open: {error}"))?;
    let same = |a: &Sent, b: &Sent| (a.at, &a.body) == (b.at, &b.body);
    let is_same =
        second.log.len() == log.len() && second.log.iter().zip(&log).all(|(a, b)| same(a, b));
    demand!(
        is_same,
        "second open: {} records, not {}",
        second.log.len(),
        log.len()
    );
    dispatch(&again)?;
    check_queues(&again, &log).map_err(|error| format!("second open: {error}"))?;
    check_index(&again, image, &second).map_err(|error| format!("second open: {error}"))?;
    demand!(image.bus_errors() == 0, "{} bus errors", image.bus_errors());
    Ok(Recovered {
        config,
        ..recovered
    })
}

fn open(case: &Case<'_>, image: &TwinDisk) -> Checked<TestStore> {
    let disk = FlawedDisk::new(image.clone(), case.flaw);
    let clock = ManualClock::at(case.reported.now_ms);
    let config = config_of(case.script);
    disk.enter(Phase::Opening);
    let store = Store::open(disk.clone(), clock, config, OpenHow::RefuseDamage);
    disk.enter(Phase::Working);
    store.map_err(|error| format!("open: {error}"))
}

/// Every record of the log.
fn log_of(_case: &Case<'_>, store: &TestStore) -> Checked<Recovered> {
    let chain = &store.files().chain;
    let start = chain.start();
    let end = store.files().readable();
    let walk = Scan {
        from: start,
        limit: end,
        crc: CrcCheck::Verify,
        is_recovery: true,
        torn_from: 0,
        has_property_crc: false,
        forgets: false,
    };
    let mut log: Vec<Sent> = Vec::new();
    let mut newest_ms = 0;
    let mut is_ordered = true;
    let walked = scan(chain, walk, |record, physical_offset| {
        let queue_key = QUEUE_KEYS.iter().find(|(topic, queue_id)| {
            topic.as_bytes() == record.topic && *queue_id == record.queue_id
        });
        let properties = record.properties;
        let has = |keys: &&&str| properties.starts_with(&properties_of(keys));
        // The longest first: one key is the start of two.
        let keys = ["b b", "a b", "b", "a"]
            .iter()
            .find(has)
            .copied()
            .unwrap_or("");
        is_ordered &= record.store_timestamp_ms >= newest_ms;
        newest_ms = record.store_timestamp_ms;
        log.push(Sent {
            queue_key: queue_key.copied().unwrap_or(("?", record.queue_id)),
            body: record.body.to_vec(),
            keys,
            at: mqcore_engine::commit_log::Appended {
                physical_offset,
                len_bytes: record.total_len_bytes as u64,
                queue_offset: record.queue_offset.cast_unsigned(),
                store_timestamp_ms: record.store_timestamp_ms,
            },
            since: 0,
            gone: None,
        });
        Ok(true)
    });
    let walked = walked.map_err(|error| format!("walk: {error}"))?;
    demand!(
        walked.stop == ScanStop::End && walked.end == end.max(start),
        "the log ends at {} ({:?}), not at {end}",
        walked.end,
        walked.stop
    );
    demand!(is_ordered, "store times step back");
    Ok(Recovered {
        log,
        start,
        config: 0,
    })
}

/// The log is a part of what was sent, without a gap, up to what was promised at least.
fn check_promises(case: &Case<'_>, recovered: &Recovered) -> Checked<()> {
    let (reported, stop) = (case.reported, case.stop);
    let start_max = reported.start_max(stop);
    demand!(
        recovered.start <= start_max,
        "the log starts at {}, nobody removed more than up to {start_max}",
        recovered.start
    );
    let possible = reported.possible(stop);
    let first = possible.partition_point(|sent| sent.at.physical_offset < recovered.start);
    let mut expected = possible.get(first..).unwrap_or_default().iter();
    for found in &recovered.log {
        let physical_offset = found.at.physical_offset;
        let Some(sent) = expected.next() else {
            return Err(format!("a record at {physical_offset} that nobody sent"));
        };
        demand!(
            sent.at == found.at && sent.body == found.body && sent.queue_key == found.queue_key,
            "at {physical_offset} is another message than the one sent: {:?}, {:?}",
            found.at,
            sent.at
        );
    }
    let required = reported.required(stop, case.is_killed);
    if let Some(lost) = expected.next() {
        demand!(
            lost.at.end() > required,
            "lost: {:?}, promised up to {required}",
            lost.at
        );
    }
    Ok(())
}

fn config_value(case: &Case<'_>, image: &TwinDisk) -> Checked<u64> {
    let parse = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let inner = text
            .strip_prefix('<')
            .and_then(|text| text.strip_suffix('>'));
        let inner = inner.ok_or_else(|| format!("torn: {text:?}"))?;
        inner
            .trim()
            .parse::<u64>()
            .map_err(|error| error.to_string())
    };
    let loaded = small_state::read(image, Path::new(CONFIG_PATH), &Notices::default(), parse);
    let loaded = loaded.map_err(|error| format!("config: {error}"))?;
    let value = loaded.map_or(0, |loaded| loaded.value);
    let allowed = case.reported.configs(case.stop);
    demand!(
        allowed.contains(&value),
        "config {value}, not of {allowed:?}"
    );
    Ok(value)
}

fn dispatch(store: &TestStore) -> Checked<()> {
    loop {
        match store.dispatching().step() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return Err(format!("dispatch: {error}")),
        }
    }
}

/// The units of a queue, with their offsets, without blanks.
fn units_of(store: &TestStore, queue_key: QueueKey) -> Checked<Vec<(u64, Unit)>> {
    let named = |error| format!("queue {queue_key:?}: {error}");
    let topic = queue_key.0.as_bytes();
    let mut found = Vec::new();
    let Some(bounds) = store.topics().bounds(topic, queue_key.1).map_err(named)? else {
        return Ok(found);
    };
    let mut from = bounds.min;
    while from < bounds.max {
        let mut units = Vec::new();
        let read = store
            .queues()
            .read(topic, queue_key.1, from, 100, &mut units);
        read.map_err(named)?;
        // A unit whose place in the extension is empty stays as it is: it is none that is expected.
        store
            .reader()
            .fill_codes(topic, queue_key.1, &mut units)
            .map_err(named)?;
        demand!(
            !units.is_empty(),
            "queue {queue_key:?} has nothing at {from} of {bounds:?}"
        );
        for unit in units {
            if !unit.is_blank() {
                found.push((from, unit));
            }
            from += 1;
        }
    }
    Ok(found)
}

fn check_queues(store: &TestStore, log: &[Sent]) -> Checked<()> {
    for queue_key in QUEUE_KEYS {
        let found = units_of(store, queue_key)?;
        let tag = |keys: &str| {
            tags_code(if keys.is_empty() {
                b"t"
            } else {
                keys.as_bytes()
            })
        };
        let expected = log
            .iter()
            .filter(|sent| sent.queue_key == queue_key)
            .map(|sent| {
                let unit = Unit {
                    physical_offset: sent.at.physical_offset.cast_signed(),
                    size_bytes: sent.at.len_bytes as i32,
                    tags_code: tag(sent.keys),
                };
                (sent.at.queue_offset, unit)
            });
        let expected: Vec<(u64, Unit)> = expected.collect();
        demand!(
            found == expected,
            "queue {queue_key:?} is {found:?}, a rebuild would be {expected:?}"
        );
    }
    Ok(())
}

fn check_index(store: &TestStore, image: &TwinDisk, recovered: &Recovered) -> Checked<()> {
    let Some(index) = store.index() else {
        return Err("no index".to_owned());
    };
    for topic in ["T", "Unlike"] {
        for key in ["a", "b"] {
            let answer = index.query(topic.as_bytes(), key.as_bytes(), 64, 0, i64::MAX);
            let mut found = answer
                .map_err(|error| format!("index: {error}"))?
                .physical_offsets;
            found.retain(|at| *at >= recovered.start);
            let of_topic = recovered
                .log
                .iter()
                .rev()
                .filter(|sent| sent.queue_key.0 == topic);
            let expected = of_topic.flat_map(|sent| {
                let times = sent.keys.split(' ').filter(|piece| *piece == key).count();
                std::iter::repeat_n(sent.at.physical_offset, times)
            });
            let expected: Vec<u64> = expected.collect();
            demand!(
                found == expected,
                "index {topic} {key}: {found:?}, a rebuild would be {expected:?}"
            );
        }
    }
    let files = index_files(image, index.dir()).map_err(|error| format!("index: {error}"))?;
    let layout = Layout::of(INDEX_SLOTS, INDEX_ENTRIES);
    for path in files {
        let problems =
            verify_file(image, &path, layout).map_err(|error| format!("index: {error}"))?;
        demand!(problems.is_empty(), "{problems:?}");
    }
    Ok(())
}

/// Appends more: no place is given twice. Gives the log as it must be then.
fn go_on(case: &Case<'_>, store: &TestStore, recovered: &Recovered) -> Checked<Vec<Sent>> {
    let named = |error: mqcore_engine::error::Error| format!("going on: {error}");
    let mut log = recovered.log.clone();
    let required = case.reported.required(case.stop, case.is_killed);
    for (number, queue_key) in [QUEUE_KEYS[0], QUEUE_KEYS[2]].into_iter().enumerate() {
        let body = body_of(!case.script.seed, number as u64, 30);
        let properties = properties_of("b");
        let at = store
            .writer()
            .append(&message(queue_key, &body, &properties))
            .map_err(named)?;
        let promised = case.reported.sent.iter().filter(|sent| {
            sent.since <= case.stop && sent.at.end() <= required && sent.gone.is_none()
        });
        for sent in promised {
            demand!(
                at.physical_offset >= sent.at.end(),
                "place {} is given again",
                at.physical_offset
            );
            demand!(
                sent.queue_key != queue_key || at.queue_offset > sent.at.queue_offset,
                "queue offset {} of {queue_key:?} is given again",
                at.queue_offset
            );
        }
        let last = log.iter().rev().find(|sent| sent.queue_key == queue_key);
        if let Some(last) = last {
            demand!(
                at.queue_offset == last.at.queue_offset + 1,
                "queue offset {} of {queue_key:?} follows {}",
                at.queue_offset,
                last.at.queue_offset
            );
        }
        log.push(Sent {
            queue_key,
            body,
            keys: "b",
            at,
            since: 0,
            gone: None,
        });
    }
    let end = log.last().map_or(0, |sent| sent.at.end());
    let status = store.durability().settle(end).map_err(named)?;
    demand!(status == PutStatus::PutOk, "going on: {status}");
    dispatch(store)?;
    check_queues(store, &log).map_err(|error| format!("going on: {error}"))?;
    Ok(log)
}
