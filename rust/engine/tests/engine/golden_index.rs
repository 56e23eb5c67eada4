//! The key index, the checkpoint and the small state of stores that the official broker wrote:
//! the same entries, the same answers, the same bytes when they are made again from the log.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use mqcore_engine::checkpoint::{AbortMarker, Checkpoint, Field};
use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::key_index::{
    IndexScan, KeyIndex, Keyed, LastExit, Opening, Put, index_files, verify_file,
};
use mqcore_engine::notice::Notices;
use mqcore_engine::relaxed_json;
use mqcore_engine::small_state::{self, Generation};
use mqcore_record::{index_key_hash, index_tags_hash};
use serde_json::Value;

const STORES: [&str; 5] = ["tiny", "v49-clean", "v49-killed", "v53-clean", TAGGED];
/// Of 5.5, whose index has tags beside keys.
const TAGGED: &str = "v55-clean";
/// Bits of the sys flag that hold the transaction type, and their value for a rollback
/// (`MessageSysFlag`).
const TRANSACTION_ROLLBACK: u64 = 0b1100;

fn golden(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(name);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// A store unpacked for one test.
struct Store(PathBuf, &'static str);

impl Store {
    fn unpack(name: &'static str, test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("mq-{test}-{name}-{}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let archive = golden(&format!("{name}.tar.xz"));
        let status = Command::new("tar")
            .arg("xf")
            .arg(archive)
            .arg("-C")
            .arg(&dir)
            .status();
        assert!(status.unwrap().success());
        Self(dir, name)
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.0.join(self.1).join(inside)
    }

    fn index_bytes(&self, dir: &str) -> Vec<Vec<u8>> {
        let files = index_files(&RealDisk, &self.path(dir)).unwrap();
        files
            .iter()
            .map(|path| std::fs::read(path).unwrap())
            .collect()
    }

    fn open(&self, dir: &str, last_exit: LastExit) -> KeyIndex<RealDisk, ManualClock> {
        let config = StoreConfig {
            index_slots: 1000,
            index_entries: 4000,
            ..StoreConfig::default()
        };
        let opening = Opening {
            dir: &self.path(dir),
            config: &config,
            last_exit,
        };
        let clock = ManualClock::at(1_795_249_600_000);
        let notices = Arc::new(Notices::default());
        KeyIndex::open(&RealDisk, &clock, &notices, opening).unwrap()
    }

    fn checkpoint(&self) -> Checkpoint<RealDisk> {
        let notices = Notices::default();
        Checkpoint::open(&RealDisk, &self.path("checkpoint"), &notices).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _absent = std::fs::remove_dir_all(&self.0);
    }
}

/// The records of the log, in order.
fn manifest(name: &str) -> Vec<Value> {
    let file = golden(&format!("{name}.manifest.jsonl.xz"));
    let output = Command::new("xz").arg("-dc").arg(file).output().unwrap();
    assert!(output.status.success());
    let lines = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let records = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    records
        .filter(|record| record["blank"].as_bool() != Some(true))
        .collect()
}

fn answers(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

fn property<'a>(record: &'a Value, name: &str) -> Option<&'a [u8]> {
    record["properties"][name].as_str().map(str::as_bytes)
}

/// What the broker that wrote a store indexes of a record.
fn keyed<'a>(name: &str, record: &'a Value) -> Keyed<'a> {
    Keyed {
        topic: record["topic"].as_str().unwrap().as_bytes(),
        unique_key: property(record, "UNIQ_KEY"),
        keys: property(record, "KEYS"),
        tags: property(record, "TAGS").filter(|_tags| name == TAGGED),
        physical_offset: record["physical_offset"].as_u64().unwrap(),
        store_timestamp_ms: record["store_timestamp"].as_i64().unwrap(),
        is_rollback: record["sys_flag"].as_u64().unwrap() & 0b1100 == TRANSACTION_ROLLBACK,
    }
}

/// The physical offset in an offset message id: 16 digits at its end.
fn offset_of_id(id: &str) -> u64 {
    u64::from_str_radix(&id[id.len() - 16..], 16).unwrap()
}

/// Compares with the official answers; gives how many keys had one.
fn check_answers(index: &KeyIndex<RealDisk, ManualClock>, official: &Value) -> usize {
    let mut with_answer = 0;
    for query in official["query_by_key"].as_array().unwrap() {
        let (topic, key) = (
            query["topic"].as_str().unwrap(),
            query["key"].as_str().unwrap(),
        );
        let found = index
            .query(topic.as_bytes(), key.as_bytes(), 64, 0, i64::MAX)
            .unwrap();
        let mut found = found.physical_offsets;
        assert!(found.is_sorted_by(|a, b| a >= b), "newest first");
        found.reverse();
        // A text instead of a list is the error "no message".
        let ids = query["offset_msg_ids_and_uniq_keys"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let first_word = |id: &Value| id.as_str().unwrap().split(' ').next().unwrap().to_owned();
        let mut expected: Vec<u64> = ids.iter().map(|id| offset_of_id(&first_word(id))).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{topic} {key}");
        with_answer += usize::from(!expected.is_empty());
    }
    for query in official["query_by_uniq_key"].as_array().unwrap() {
        let (topic, key) = (
            query["topic"].as_str().unwrap(),
            query["uniq_key"].as_str().unwrap(),
        );
        let Some(id) = query["answer"]["offset_msg_id"].as_str() else {
            continue;
        };
        let found = index
            .query(topic.as_bytes(), key.as_bytes(), 64, 0, i64::MAX)
            .unwrap();
        assert!(
            found.physical_offsets.contains(&offset_of_id(id)),
            "{topic} {key}"
        );
        with_answer += 1;
    }
    with_answer
}

#[test]
fn queries_by_key_answer_as_the_official_broker_does() {
    for name in ["v49-clean", "v53-clean", TAGGED] {
        let store = Store::unpack(name, "answers");
        let index = store.open("index", LastExit::Clean);
        let with_answer = check_answers(&index, &answers(&format!("{name}.official.json")));
        assert!(with_answer > 30, "{with_answer}");
        let last = index.query(b"", b"", 1, 0, 0).unwrap();
        assert_eq!(last.last_update_physical_offset, index.end_offset());
    }
}

#[test]
fn files_made_from_the_log_are_the_official_ones_byte_for_byte() {
    for name in STORES {
        let store = Store::unpack(name, "bytes");
        let index = store.open("made", LastExit::Clean);
        let records = manifest(name);
        for record in &records {
            index.writer().put_message(&keyed(name, record)).unwrap();
        }
        let (made, official) = (store.index_bytes("made"), store.index_bytes("index"));
        assert_eq!(made.len(), official.len());
        assert!(made == official, "{name}");
        for record in &records {
            let again = index.writer().put_message(&keyed(name, record)).unwrap();
            assert!(!matches!(again, Put::Indexed { .. }), "{name}");
        }
        assert!(
            store.index_bytes("made") == official,
            "{name}: dispatched twice"
        );
    }
}

#[test]
fn official_files_go_on_where_they_ended() {
    for name in STORES {
        let store = Store::unpack(name, "go-on");
        let before = store.index_bytes("index");
        let index = store.open("index", LastExit::Clean);
        let records = manifest(name);
        for record in &records {
            let again = index.writer().put_message(&keyed(name, record)).unwrap();
            assert!(!matches!(again, Put::Indexed { .. }), "{name}");
        }
        assert!(store.index_bytes("index") == before, "{name}");
        let end = index.end_offset();
        assert_eq!(
            index
                .writer()
                .put(b"T", b"new", end + 1, 1_795_249_700_000)
                .unwrap(),
            Put::Indexed { entries: 1 }
        );
        assert_eq!(
            index
                .query(b"T", b"new", 9, 0, i64::MAX)
                .unwrap()
                .physical_offsets,
            [end + 1]
        );
        for path in index_files(&RealDisk, &store.path("index")).unwrap() {
            assert_eq!(verify_file(&RealDisk, &path, None).unwrap(), []);
        }
    }
}

#[test]
fn the_killed_store_gives_its_last_file_back_from_the_log() {
    let store = Store::unpack("v49-killed", "killed");
    assert!(
        AbortMarker::new(&RealDisk, &store.path("abort"))
            .is_present()
            .unwrap()
    );
    let official = store.index_bytes("index");
    let checkpoint_index_timestamp_ms = store.checkpoint().value(Field::IndexTimestamp);
    let index = store.open(
        "index",
        LastExit::Abnormal {
            checkpoint_index_timestamp_ms,
        },
    );
    assert_eq!(store.index_bytes("index").len(), official.len() - 1);
    let from = index.writer().resume_offset();
    assert_eq!(from, 3_471_565);
    for record in manifest("v49-killed") {
        let message = keyed("v49-killed", &record);
        if message.physical_offset >= from {
            index.writer().put_message(&message).unwrap();
        }
    }
    assert!(store.index_bytes("index") == official);
    let recovered = answers("v49-killed.after-official-recovery.json");
    assert!(check_answers(&index, &recovered) > 30);
}

#[test]
fn every_entry_is_read_without_changing_a_file() {
    for name in STORES {
        let store = Store::unpack(name, "scan");
        let mut entries = Vec::new();
        for path in index_files(&RealDisk, &store.path("index")).unwrap() {
            for entry in IndexScan::open(&RealDisk, &path, None).unwrap() {
                let entry = entry.unwrap();
                entries.push((entry.key_hash, entry.physical_offset.unsigned_abs()));
            }
            assert_eq!(verify_file(&RealDisk, &path, None).unwrap(), []);
        }
        let mut expected = Vec::new();
        for record in manifest(name) {
            let message = keyed(name, &record);
            if message.is_rollback {
                continue;
            }
            let pieces = message.keys.unwrap_or_default().split(|byte| *byte == b' ');
            let pieces = pieces.filter(|piece| !piece.is_empty());
            for key in message.unique_key.into_iter().chain(pieces) {
                expected.push((index_key_hash(message.topic, key), message.physical_offset));
            }
            if let Some(tags) = message.tags {
                expected.push((
                    index_tags_hash(message.topic, tags),
                    message.physical_offset,
                ));
            }
        }
        assert!(entries == expected, "{name}");
    }
}

#[test]
fn checkpoints_hold_the_times_of_their_stores() {
    let expected = BTreeMap::from([
        ("tiny", [1_795_249_597_595, 1_795_249_597_595, 0]),
        (
            "v49-clean",
            [1_795_249_541_658, 1_795_249_541_658, 1_795_249_530_145],
        ),
        (
            "v49-killed",
            [1_795_249_586_968, 1_795_249_596_508, 1_795_249_596_508],
        ),
        (
            "v53-clean",
            [1_795_249_579_922, 1_795_249_591_923, 1_795_249_557_865],
        ),
        (
            TAGGED,
            [1_795_576_647_260, 1_795_576_601_114, 1_795_576_593_219],
        ),
    ]);
    for (name, times) in expected {
        let store = Store::unpack(name, "checkpoint");
        let before = std::fs::read(store.path("checkpoint")).unwrap();
        let checkpoint = store.checkpoint();
        let fields = [
            Field::PhysicTimestamp,
            Field::LogicsTimestamp,
            Field::IndexTimestamp,
        ];
        assert_eq!(fields.map(|field| checkpoint.value(field)), times, "{name}");
        // Of 5.5 alone; the records behind it are of a queue that was flushed later.
        let queued = if name == TAGGED { 3_333_515 } else { 0 };
        assert_eq!(checkpoint.value(Field::LogicsPhysicalOffset), queued);
        assert_eq!(checkpoint.min_timestamp_ms(), times[0].min(times[1]) - 3000);
        checkpoint.flush().unwrap();
        assert!(
            std::fs::read(store.path("checkpoint")).unwrap() == before,
            "{name}"
        );
    }
}

#[test]
fn every_json_file_of_every_store_is_read() {
    let mut read = 0;
    for name in STORES {
        let store = Store::unpack(name, "json");
        for entry in std::fs::read_dir(store.path("config")).unwrap() {
            let path = entry.unwrap().path();
            let file_name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // Binary; and the previous generations are read with the newest.
            if file_name == "timercheck" || file_name.ends_with(".bak") {
                continue;
            }
            let notices = Notices::default();
            let parse = |text: &[u8]| relaxed_json::parse(text).map_err(|error| error.to_string());
            let newest = small_state::read(&RealDisk, &path, &notices, parse)
                .unwrap()
                .unwrap();
            assert_eq!(newest.generation, Generation::Newest);
            assert!(newest.value.is_object());
            std::fs::write(&path, b"{0:").unwrap();
            // messageRequestMode.json and a store's first topics.json have none.
            if std::fs::metadata(format!("{}.bak", path.display())).is_ok() {
                let previous = small_state::read(&RealDisk, &path, &notices, parse);
                assert_eq!(previous.unwrap().unwrap().generation, Generation::Previous);
            } else {
                small_state::read(&RealDisk, &path, &notices, parse).unwrap_err();
            }
            if file_name == "consumerOffset.json" && name == "v49-clean" {
                let table = &newest.value["offsetTable"]["GoldenKeys@CG_partial"];
                let offsets: Vec<_> = (0..4).map(|id| table[id.to_string()].as_i64()).collect();
                assert_eq!(offsets, [Some(20), Some(23), Some(26), Some(29)]);
            }
            read += 1;
        }
    }
    assert!(read > 20, "{read}");
}
