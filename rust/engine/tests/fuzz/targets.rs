//! What bytes are put into, and whole inputs to begin with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqcore_engine::batch_queue::BatchUnit;
use mqcore_engine::checkpoint::{Checkpoint, Field};
use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::consume_queue::{Extended, MANIFEST_NAME, QueueTable, Trust, Unit};
use mqcore_engine::disk::Disk;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::key_index::{KeyIndex, LastExit, Layout, Opening, verify_file};
use mqcore_engine::notice::Notices;
use mqcore_engine::store::{Ask, OpenHow, Store};
use mqcore_engine::{relaxed_json, small_state, timer};
use mqcore_mutation::Mutation;
use mqcore_record::properties::{lookup, pairs};
use mqcore_record::{
    CrcCheck, Host, Limits, Message, Prepared, batch, check, crc_property, head, parse_offset_id,
    peek_store_timestamp_ms, peek_total_len, scan_wanted,
};

use super::run::{Target, target};

pub(crate) const TARGETS: [Target; 12] = [
    target("record", records, record),
    target("properties", properties_seeds, properties),
    target("batch", batches, batch_body),
    target("json", texts, json),
    target("small_state", texts, state),
    target("checkpoint", checkpoints, checkpoint),
    target("queue", queue_files, queue),
    target("manifest", manifests, manifest),
    target("timer", timer_units, timer_unit),
    target("units", units, other_units),
    target("index", index_files, index),
    Target {
        name: "store",
        seeds: || vec![vec![0; 64]],
        run: store,
        is_slow: true,
    },
];

const ROOT: &str = "/store";
const START_MS: i64 = 1_795_249_596_000;

fn config() -> StoreConfig {
    StoreConfig {
        root: Some(PathBuf::from(ROOT)),
        segment_len_bytes: 69_632,
        max_message_bytes: 4_000,
        queue_file_len_bytes: 100,
        index_slots: 3,
        index_entries: 6,
        hot_window_bytes: 69_632,
        ..StoreConfig::default()
    }
}

fn message<'a>(topic: &'a str, body: &'a [u8], properties: &'a [u8]) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        born_timestamp_ms: 1,
        properties,
        ..Message::of(topic, 0, body, host)
    }
}

fn records() -> Vec<Vec<u8>> {
    let limits = Limits {
        body_len_max: 1 << 20,
    };
    let long_topic = "t".repeat(200);
    let mut with_crc = b"KEYS\x01a b\x02TAGS\x01t\x02".to_vec();
    crc_property::reserve(&mut with_crc);
    let made = [
        message("T", b"body", b"KEYS\x01a b\x02TAGS\x01t\x02"),
        message(&long_topic, &[7; 700], b""),
        message("T", b"", b"UNIQ_KEY\x017F00\x02DELAY\x013\x02"),
        message("T", b"body", &with_crc),
    ];
    let bytes = made.iter().map(|message| {
        let mut record = Prepared::new(message, &limits).unwrap();
        record.stamp(5, 0, START_MS);
        let mut bytes = vec![0; record.total_len()];
        record.write_to(&mut bytes);
        bytes
    });
    bytes.collect()
}

fn record(bytes: &[u8], _number: u64) {
    for crc in [CrcCheck::Verify, CrcCheck::Skip] {
        if let Ok(mqcore_record::Found::Record(view)) = check(bytes, crc) {
            assert!(view.total_len_bytes <= bytes.len());
            let _wanted = scan_wanted(view.properties);
            let id = view.offset_id();
            let _parsed = parse_offset_id(&id);
            let _text = (view.topic_str(), view.tags(), view.transaction());
            let whole = bytes.get(..view.total_len_bytes).unwrap();
            let _fits = crc_property::verify(whole, view.properties);
        }
    }
    let _head = head(bytes);
    let _peeked = (peek_total_len(bytes), peek_store_timestamp_ms(bytes));
    let _id = parse_offset_id(&String::from_utf8_lossy(bytes));
}

fn properties_seeds() -> Vec<Vec<u8>> {
    vec![
        b"KEYS\x01a b\x02TAGS\x01t\x02UNIQ_KEY\x017F00\x02".to_vec(),
        b"A\x01\x02\x01B\x02\x02C".to_vec(),
        vec![1; 40],
        vec![2; 40],
    ]
}

fn properties(bytes: &[u8], _number: u64) {
    assert!(pairs(bytes).count() <= bytes.len() + 1);
    let _tags = lookup(bytes, "TAGS");
    let _wanted = scan_wanted(bytes);
    let mut text = bytes.to_vec();
    crc_property::reserve(&mut text);
    let mut joined = Vec::new();
    let _fits = batch::join_properties(bytes, b"A\x01b\x02", &mut joined);
}

fn batches() -> Vec<Vec<u8>> {
    let mut body = Vec::new();
    for text in ["one", "two", ""] {
        let item = batch::Item {
            flag: 1,
            body: text.as_bytes(),
            properties: b"KEYS\x01a\x02",
        };
        batch::encode(&item, &mut body).unwrap();
    }
    vec![body]
}

fn batch_body(bytes: &[u8], _number: u64) {
    let items = batch::items(bytes).take(bytes.len() + 2).count();
    assert!(items <= bytes.len() + 1, "endless");
}

fn texts() -> Vec<Vec<u8>> {
    vec![
        br#"{"offsetTable":{"T@g":{0:12,1:7}},"dataVersion":{"counter":3}}"#.to_vec(),
        br#"{"a":[1,-2.5e3,true,false,null,"\u0041\n"],}"#.to_vec(),
        b"[[[[[[[[[[1]]]]]]]]]]".to_vec(),
        b"<7>".to_vec(),
        b"[".repeat(200),
    ]
}

fn json(bytes: &[u8], _number: u64) {
    let _value = relaxed_json::parse(bytes);
}

fn state(bytes: &[u8], number: u64) {
    let twin = TwinDisk::new();
    let path = Path::new("/store/config/topics.json");
    twin.create_dir_all(Path::new("/store/config")).unwrap();
    twin.write_raw(path, bytes);
    if number.is_multiple_of(2) {
        twin.write_raw(Path::new("/store/config/topics.json.bak"), b"{}");
    }
    let parse = |text: &[u8]| relaxed_json::parse(text).map_err(|error| error.to_string());
    let _loaded = small_state::read(&twin, path, &Notices::default(), parse);
    small_state::write(&twin, path, b"{}").unwrap();
    let again = small_state::read(&twin, path, &Notices::default(), parse);
    assert!(again.unwrap().is_some());
}

fn checkpoints() -> Vec<Vec<u8>> {
    let mut page = vec![0; 4096];
    page[..8].copy_from_slice(&START_MS.to_be_bytes());
    vec![page, vec![0xff; 4096], Vec::new()]
}

fn checkpoint(bytes: &[u8], _number: u64) {
    let twin = TwinDisk::new();
    twin.create_dir_all(Path::new(ROOT)).unwrap();
    let path = Path::new("/store/checkpoint");
    twin.write_raw(path, bytes);
    let Ok(open) = Checkpoint::open(&twin, path, &Notices::default()) else {
        return;
    };
    let _least = (open.min_timestamp_ms(), open.min_timestamp_index_ms());
    open.raise(Field::PhysicTimestamp, START_MS);
    let _flushed = open.flush();
}

fn queue_files() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for number in 0..13 {
        let unit = Unit {
            physical_offset: number * 100,
            size_bytes: 100,
            tags_code: number,
        };
        bytes.extend(unit.encode());
    }
    let short = bytes.get(..140).unwrap().to_vec();
    vec![bytes, short, Unit::BLANK.encode().repeat(7)]
}

fn table(twin: &TwinDisk, stamp: Option<&[u8]>) -> Option<QueueTable<TwinDisk>> {
    let notices = Arc::new(Notices::default());
    QueueTable::open(twin.clone(), Path::new(ROOT), &config(), notices, stamp).ok()
}

/// What a store does with its queues.
fn use_table(queues: &QueueTable<TwinDisk>, number: u64) {
    let trust = if number.is_multiple_of(3) {
        Trust::All
    } else {
        Trust::Below((number % 13 * 100).cast_signed())
    };
    if queues.recovery().recover(trust).is_err() || queues.truncate_from(number % 17 * 90).is_err()
    {
        return;
    }
    let _corrected = queues.correct_min(number % 11 * 100);
    let mut units = Vec::new();
    let _read = queues.read(b"T", 0, number % 5, 100, &mut units);
    let bounds = queues.bounds(b"T", 0).ok().flatten();
    let next = bounds.map_or(0, |bounds| bounds.max);
    for ahead in [0, 3] {
        let unit = Unit {
            physical_offset: 5_000 + ahead * 100,
            size_bytes: 100,
            tags_code: 0,
        };
        let _placed = queues.append(b"T", 0, next + ahead.cast_unsigned(), unit, START_MS);
    }
    let _written = queues.write_pending();
    let _synced = queues.sync(0);
    let _kept = queues.retain(900);
}

fn queue(bytes: &[u8], number: u64) {
    let twin = TwinDisk::new();
    let dir = Path::new("/store/consumequeue/T/0");
    twin.create_dir_all(dir).unwrap();
    for (at, piece) in bytes.chunks(100).enumerate() {
        let mut piece = piece.to_vec();
        if !number.is_multiple_of(4) {
            piece.resize(100, 0);
        }
        twin.write_raw(&dir.join(format!("{:020}", at * 100)), &piece);
    }
    if let Some(queues) = table(&twin, None) {
        use_table(&queues, number);
    }
}

/// Units of a timer log, each behind the one before it.
fn timer_units() -> Vec<Vec<u8>> {
    let unit = |previous: i64| {
        let mut bytes = 52_i32.to_be_bytes().to_vec();
        bytes.extend(previous.to_be_bytes());
        bytes.extend(1_i32.to_be_bytes());
        bytes.extend(START_MS.to_be_bytes());
        bytes.extend(1_000_i32.to_be_bytes());
        bytes.extend(400_i64.to_be_bytes());
        bytes.extend([90_i32, 7].map(i32::to_be_bytes).concat());
        bytes.extend([0; 8]);
        bytes
    };
    vec![unit(-1), unit(40), vec![0; 52]]
}

fn timer_unit(bytes: &[u8], number: u64) {
    if let timer::unit::Found::Unit(unit) = timer::unit::decode(bytes, number) {
        assert!(unit.len_bytes > 0 && unit.physical_offset >= 0);
        let _weight = (unit.is_delete(), unit.weight());
    }
    let point = timer::Point::decode(bytes);
    assert_eq!(timer::Point::decode(bytes), point);
}

/// A unit of consumequeue_ext (its length, hash of tags, store time, length of the filter bits), and one
/// of a batch queue.
fn units() -> Vec<Vec<u8>> {
    let mut extended = 28_i16.to_be_bytes().to_vec();
    extended.extend(7_i64.to_be_bytes());
    extended.extend(START_MS.to_be_bytes());
    extended.extend([0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    vec![extended, vec![0; 46], vec![1; 46]]
}

fn other_units(bytes: &[u8], _number: u64) {
    if let Some(unit) = Extended::decode(bytes) {
        let _shown = format!("{unit:?}");
    }
    if let Some(unit) = bytes.first_chunk() {
        let _unit = BatchUnit::decode(unit);
    }
}

fn manifests() -> Vec<Vec<u8>> {
    let twin = TwinDisk::new();
    twin.create_dir_all(Path::new(ROOT)).unwrap();
    let queues = table(&twin, None).unwrap();
    for (topic, offset) in [("T", 0), ("T", 1), ("Unlike", 0)] {
        let unit = Unit {
            physical_offset: offset * 100,
            size_bytes: 100,
            tags_code: 0,
        };
        let at = offset.cast_unsigned();
        queues
            .append(topic.as_bytes(), 0, at, unit, START_MS)
            .unwrap();
    }
    queues.save_manifest(b"stamp").unwrap();
    let path = Path::new(ROOT).join(MANIFEST_NAME);
    vec![twin.read(&path).unwrap()]
}

fn manifest(bytes: &[u8], number: u64) {
    let twin = TwinDisk::new();
    twin.create_dir_all(Path::new(ROOT)).unwrap();
    let mut bytes = bytes.to_vec();
    if number.is_multiple_of(2) && bytes.len() > 4 {
        // With a good checksum, so that what is before it is looked at.
        let at = bytes.len() - 4;
        let crc = crc32fast::hash(&bytes[..at]);
        bytes[at..].copy_from_slice(&crc.to_be_bytes());
    }
    twin.write_raw(&Path::new(ROOT).join(MANIFEST_NAME), &bytes);
    if let Some(queues) = table(&twin, Some(b"stamp")) {
        use_table(&queues, number);
    }
}

fn index_files() -> Vec<Vec<u8>> {
    let twin = filled_store();
    let names = twin.list(Path::new("/store/index")).unwrap();
    let path = |name: &str| Path::new("/store/index").join(name);
    names
        .iter()
        .map(|entry| twin.read(&path(&entry.name)).unwrap())
        .collect()
}

fn index(bytes: &[u8], number: u64) {
    let twin = TwinDisk::new();
    let dir = Path::new("/store/index");
    twin.create_dir_all(dir).unwrap();
    let mut bytes = bytes.to_vec();
    if !number.is_multiple_of(4) {
        bytes.resize(40 + 4 * 3 + 20 * 6, 0);
    }
    let path = dir.join("20261121082636000");
    twin.write_raw(&path, &bytes);
    let _problems = verify_file(&twin, &path, Layout::of(3, 6));
    let config = config();
    let last_exit = if number.is_multiple_of(2) {
        LastExit::Clean
    } else {
        LastExit::Abnormal {
            checkpoint_index_timestamp_ms: i64::MAX,
        }
    };
    let opening = Opening {
        dir,
        config: &config,
        last_exit,
    };
    let clock = ManualClock::at(START_MS);
    let Ok(index) = KeyIndex::open(&twin, &clock, &Arc::new(Notices::default()), opening) else {
        return;
    };
    for key in ["a", "b"] {
        let _answer = index.query(b"T", key.as_bytes(), 64, 0, i64::MAX);
    }
    let _cut = index.writer().truncate_from(number % 2_000);
    let _synced = index.syncing().sync_all();
}

/// A store with two log files, several queue and index files, closed.
fn filled_store() -> TwinDisk {
    let twin = TwinDisk::with_clock(ManualClock::at(START_MS));
    let clock = ManualClock::at(START_MS);
    let store = Store::open(twin.clone(), clock, config(), OpenHow::RefuseDamage).unwrap();
    for number in 0..24 {
        let body = vec![number; 3_900];
        let keys = ["KEYS\x01a\x02", "KEYS\x01a b\x02", ""][number as usize % 3];
        let topic = ["T", "Unlike"][number as usize % 2];
        store.put(&message(topic, &body, keys.as_bytes())).unwrap();
    }
    assert!(store.close().unwrap());
    twin
}

/// Damages files of a store, opens and uses it.
fn store(_bytes: &[u8], number: u64) {
    let twin = filled_store().fork();
    let mut mutation = Mutation::of(!number);
    let files: Vec<(String, u64)> = twin
        .tree()
        .into_iter()
        .filter_map(|(path, len)| Some((path, len?)))
        .collect();
    if mutation.below(2) == 0 {
        twin.write_raw(Path::new("/store/abort"), b"");
    }
    for _ in 0..1 + mutation.below(4) {
        let (path, len) = &files[mutation.below(files.len() as u64) as usize];
        let path = Path::new(path);
        match mutation.below(4) {
            0 => {
                let all = twin.read(path).unwrap_or_default();
                let cut = mutation.below(len + 1) as usize;
                twin.write_raw(path, all.get(..cut).unwrap_or_default());
            }
            1 => {
                let all = twin.read(path).unwrap_or_default();
                let changed = mutation.apply(&all, std::slice::from_ref(&all));
                twin.write_raw(path, &changed);
            }
            _ => {
                let _flipped = twin.flip_bit(path, mutation.below(*len), number as u8 % 8);
            }
        }
    }
    let how = match mutation.below(3) {
        0 => OpenHow::RefuseDamage,
        1 => OpenHow::CutDamage,
        _ => OpenHow::KeepBehind,
    };
    let clock = ManualClock::at(START_MS + 1_000);
    let Ok(store) = Store::open(twin.clone(), clock, config(), how) else {
        return;
    };
    use_store(&store);
    let _closed = store.close();
}

fn use_store(store: &Store<TwinDisk, ManualClock>) {
    for _ in 0..100 {
        if !store.dispatching().step().unwrap_or(false) {
            break;
        }
    }
    for topic in ["T", "Unlike"] {
        let mut from = 0;
        for _ in 0..100 {
            let ask = Ask {
                from,
                count_max: 8,
                bytes_max: 1 << 20,
                tags_codes: &[],
                is_bulk: false,
            };
            let Ok(got) = store.reader().get(topic.as_bytes(), 0, ask) else {
                break;
            };
            if got.next_offset <= from {
                break;
            }
            from = got.next_offset;
        }
        let _found = store
            .key_reader()
            .query(topic.as_bytes(), b"a", 64, 0, i64::MAX);
    }
    let _removed = store.retention().remove_oldest(None, 1, None);
    for _ in 0..3 {
        let _put = store.put(&message("T", b"more", b"KEYS\x01b\x02"));
    }
    let _synced = store.checkpoints().sync_queues(0);
    let _written = store.checkpoints().write();
}
