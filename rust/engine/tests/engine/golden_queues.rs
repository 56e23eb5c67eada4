//! The consume queues of store directories that the official broker wrote: read them, search them,
//! recover them, and build them again from the walk of their logs. Needs the programs `tar` and
//! `xz`. A missing archive fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot have its data fails")]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_engine::config::StoreConfig;
use mqcore_engine::consume_queue::{Boundary, Placed, QueueTable, Trust, Unit};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::notice::Notices;
use serde_json::Value;

/// What the archives were written with.
const FILE_LEN_BYTES: u64 = 20_000;
/// Deleted by mqadmin: the files are gone, the records are in the log.
const DELETED: &str = "GoldenDeleted";
/// Kept in a batch queue, which is another format.
const BATCH_QUEUE: &str = "GoldenBcq";
/// Grew after the start of the broker that gave the answers.
const REVIVE: &str = "rmq_sys_REVIVE_LOG_DefaultCluster";
/// 4.9 chooses the file by the time of its last change, which the copy it served had in whole
/// seconds: it missed the message of exactly this time in the file before. Ours is 966.
const MISSED_BY_49: (&str, i32, i64, u64) = ("GoldenPlain", 0, 1_795_249_558_134, 1000);
/// Who answered for which store, and whether with the rules of 5.3.
const ANSWERS: [(&str, &str, bool); 7] = [
    ("v49-clean", "official", false),
    ("v49-clean", "answers-of-53", true),
    ("v53-clean", "official", true),
    ("v53-clean", "answers-of-49", false),
    ("v55-clean", "official", true),
    ("v49-killed", "after-official-recovery", false),
    ("v49-killed", "answers-of-53", true),
];

type Table = QueueTable<RealDisk>;

struct Golden {
    name: &'static str,
    root: PathBuf,
}

impl Golden {
    fn unpack(name: &'static str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("mqcore-golden-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&root).unwrap();
        let archive = dir().join(format!("{name}.tar.xz"));
        let mut tar = Command::new("tar");
        tar.arg("xJf").arg(&archive).arg("-C").arg(&root);
        let status = tar.arg("--exclude=timerwheel").status().unwrap();
        assert!(status.success(), "cannot unpack {}", archive.display());
        Self { name, root }
    }

    fn store(&self) -> PathBuf {
        self.root.join(self.name)
    }

    fn records(&self) -> Vec<Value> {
        let path = dir().join(format!("{}.manifest.jsonl.xz", self.name));
        let out = Command::new("xz").arg("-dc").arg(&path).output().unwrap();
        assert!(out.status.success(), "cannot read {}", path.display());
        let text = String::from_utf8(out.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line.get("blank").is_none())
            .collect()
    }

    fn answers(&self, of: &str) -> Vec<Value> {
        let path = dir().join(format!("{}.{of}.json", self.name));
        let text = std::fs::read_to_string(&path).unwrap();
        let answers: Value = serde_json::from_str(&text).unwrap();
        answers["queues"].as_array().unwrap().clone()
    }
}

impl Drop for Golden {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.root);
    }
}

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

fn open(root: &Path) -> Table {
    let config = StoreConfig {
        root: Some(root.to_owned()),
        queue_file_len_bytes: FILE_LEN_BYTES,
        ..StoreConfig::default()
    };
    QueueTable::open(RealDisk, root, &config, Arc::new(Notices::default()), None).unwrap()
}

/// Java's `String.hashCode`.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

const LEVELS_S: [i64; 18] = [
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
];

fn number(record: &Value, field: &str) -> i64 {
    record[field].as_i64().unwrap()
}

fn unit_of(record: &Value) -> Unit {
    let tags_code = match record["properties"]["DELAY"].as_str() {
        Some(level) if record["topic"] == "SCHEDULE_TOPIC_XXXX" => {
            let level: usize = level.parse().unwrap();
            number(record, "store_timestamp") + LEVELS_S[level - 1] * 1000
        }
        _ => i64::from(java_hash(record["tags"].as_str().unwrap_or(""))),
    };
    Unit {
        physical_offset: number(record, "physical_offset"),
        size_bytes: number(record, "store_size").try_into().unwrap(),
        tags_code,
    }
}

/// Feeds the queues with every record that dispatch would; gives what became of them.
fn dispatch(table: &Table, records: &[Value]) -> BTreeMap<&'static str, u64> {
    let mut placed = BTreeMap::new();
    for record in records {
        let is_visible = matches!(number(record, "sys_flag") & 0xc, 0 | 8);
        if !is_visible || record["topic"] == BATCH_QUEUE {
            continue;
        }
        let topic = record["topic"].as_str().unwrap().as_bytes();
        let queue_id = number(record, "queue_id").try_into().unwrap();
        let queue_offset = record["queue_offset"].as_u64().unwrap();
        let stored_ms = number(record, "store_timestamp");
        let answer = table.append(topic, queue_id, queue_offset, unit_of(record), stored_ms);
        let kind = match answer.unwrap() {
            Placed::Appended => "appended",
            Placed::Duplicate => "duplicate",
            Placed::Gap { .. } => "gap",
            Placed::Restarted { .. } => "restarted",
            Placed::Taken => "taken",
            Placed::Refused => "refused",
        };
        *placed.entry(kind).or_default() += 1;
    }
    placed
}

/// Relative path and bytes of every queue file.
fn queue_files(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let list = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let top = store.join("consumequeue");
    let topics = list(&top);
    let queues = topics.iter().flat_map(|topic| list(topic));
    let files = queues.flat_map(|queue| list(&queue));
    let named = files.map(|file| {
        let name = file.strip_prefix(&top).unwrap().display().to_string();
        (name, std::fs::read(&file).unwrap())
    });
    named.collect()
}

#[test]
fn queues_built_from_the_log_are_the_official_files_byte_for_byte() {
    for name in ["v49-clean", "v53-clean", "v55-clean", "v49-killed"] {
        let golden = Golden::unpack(name);
        let built_root = golden.root.join("built");
        std::fs::create_dir_all(&built_root).unwrap();
        let table = open(&built_root);
        let records = golden.records();
        let placed = dispatch(&table, &records);
        // The killed store: the half topic's queue was deleted in mid-log and began again.
        let restarts = u64::from(name == "v49-killed");
        assert_eq!(placed.get("restarted").copied().unwrap_or(0), restarts);
        let expected = ["appended", "restarted"];
        assert!(
            placed.keys().all(|kind| expected.contains(kind)),
            "{placed:?}"
        );
        table.write_pending().unwrap();
        table.sync(0).unwrap();
        let mut built = queue_files(&built_root);
        let official = queue_files(&golden.store());
        built.retain(|name, _| !name.starts_with(DELETED));
        assert!(built.keys().eq(official.keys()), "{name}: other files");
        assert!(official.len() > 60, "{name}: {} files", official.len());
        for (file, bytes) in &official {
            assert!(&built[file] == bytes, "{name}: {file} differs");
        }
        let again = dispatch(&table, &records);
        assert!(again.keys().eq(["duplicate"].iter()), "{name}: {again:?}");
        assert_eq!(table.pending_bytes(), 0);
    }
}

#[test]
fn official_queues_have_the_official_bounds() {
    for (name, answers, _) in ANSWERS {
        let golden = Golden::unpack(name);
        let table = open(&golden.store());
        let is_killed = name == "v49-killed";
        let trust = if is_killed {
            Trust::Below(0)
        } else {
            Trust::All
        };
        let before = queue_files(&golden.store());
        table.recovery().recover(trust).unwrap();
        assert!(
            queue_files(&golden.store()) == before,
            "{name}: bytes changed"
        );
        if is_killed {
            let kinds = dispatch(&table, &golden.records());
            assert!(!kinds.contains_key("restarted"), "{kinds:?}");
        }
        let mut checked = 0;
        for answer in golden.answers(answers) {
            let topic = answer["topic"].as_str().unwrap();
            if [BATCH_QUEUE, REVIVE].contains(&topic) || (topic == DELETED && is_killed) {
                continue;
            }
            let queue_id = number(&answer, "queue_id").try_into().unwrap();
            let bounds = table.bounds(topic.as_bytes(), queue_id).unwrap();
            let found = bounds.map_or((0, 0), |bounds| (bounds.min, bounds.max));
            let min = answer["min_offset"].as_u64().unwrap();
            let max = answer["max_offset"].as_u64().unwrap();
            assert_eq!(found, (min, max), "{name} {answers}: {topic} {queue_id}");
            checked += usize::from(max > 0);
        }
        assert!(checked > 40, "{name}: {checked} queues");
    }
}

#[test]
fn searches_by_time_give_the_official_answers() {
    for (name, answers, is_53) in ANSWERS {
        let golden = Golden::unpack(name);
        let table = open(&golden.store());
        let records = golden.records();
        let times: HashMap<i64, i64> = records
            .iter()
            .map(|record| {
                (
                    number(record, "physical_offset"),
                    number(record, "store_timestamp"),
                )
            })
            .collect();
        let time = |unit: &Unit| times.get(&unit.physical_offset).copied();
        let (mut checked, mut wrong) = (0, Vec::new());
        for answer in golden.answers(answers) {
            let name = answer["topic"].as_str().unwrap();
            let wanted = answer.get("offset_by_timestamp").and_then(Value::as_object);
            let Some(wanted) = wanted.filter(|_| ![BATCH_QUEUE, REVIVE, DELETED].contains(&name))
            else {
                continue;
            };
            let topic = name.as_bytes();
            let queue_id = number(&answer, "queue_id").try_into().unwrap();
            for (timestamp, offset) in wanted {
                let ms = timestamp.parse().unwrap();
                let found = if is_53 {
                    table.search_by_time(topic, queue_id, ms, Boundary::Lower, &time)
                } else {
                    table.search_nearest_by_time(topic, queue_id, ms, &time)
                };
                let found = found.unwrap().unwrap();
                let official = offset.as_u64().unwrap();
                let is_missed = (name, queue_id, ms, official) == MISSED_BY_49;
                if is_missed {
                    assert_eq!(found, 966);
                } else if found != official {
                    wrong.push(format!(
                        "{name} {queue_id} at {ms}: {found}, official {offset}"
                    ));
                }
                checked += 1;
            }
        }
        let count = wrong.len();
        assert!(
            wrong.is_empty(),
            "{name} {answers}: {count} of {checked}: {wrong:#?}"
        );
        assert!(checked > 400, "{name}: {checked} searches");
    }
}
