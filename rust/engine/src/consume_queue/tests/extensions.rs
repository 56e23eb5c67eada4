//! The extensions of queues: what units name in them is found again, whatever happened to either;
//! nothing else is ever found there.

use proptest::prelude::*;

use super::super::extension::Extended;
use super::*;

/// Bytes of an extension file in tests: three units of 30 bytes each.
const FILE: u64 = 100;
const TOPIC: &[u8] = b"t";

impl Home {
    fn open_extended(&self) -> QueueTable<RealDisk> {
        self.open_extending(true)
    }

    fn open_extending(&self, extends_queues: bool) -> QueueTable<RealDisk> {
        let config = StoreConfig {
            root: Some(self.root.clone()),
            queue_file_len_bytes: PER_FILE * 20,
            extends_queues,
            extension_file_len_bytes: FILE,
            ..StoreConfig::default()
        };
        let notices = Arc::clone(&self.notices);
        QueueTable::open(RealDisk, &self.root, &config, notices, None).unwrap()
    }

    fn extension_dir(&self) -> PathBuf {
        self.root.join(EXTENSION_DIR).join("t").join("0")
    }

    fn extension_names(&self) -> Vec<u64> {
        let Ok(entries) = std::fs::read_dir(self.extension_dir()) else {
            return Vec::new();
        };
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<u64> = names.map(|name| name.parse().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

/// Ten bytes that show which record they belong to.
fn bits(record: u64) -> [u8; 10] {
    let mut bits = [0xb0; 10];
    bits[..8].copy_from_slice(&record.to_be_bytes());
    bits
}

fn add(table: &QueueTable<RealDisk>, record: u64, is_extended: bool) {
    let bits = bits(record);
    let coming = Coming {
        queue_offset: record,
        unit: unit(record),
        store_timestamp_ms: record.cast_signed() + 1_000,
        extended: is_extended.then_some(&bits),
    };
    let placed = table.add(TOPIC, 0, &coming).unwrap();
    assert_eq!(placed, Placed::Appended, "unit {record}");
}

fn add_all(table: &QueueTable<RealDisk>, from: u64, to: u64) {
    for record in from..to {
        add(table, record, true);
    }
}

/// The records whose units name what was put for them; panics where they name anything else.
fn found(table: &QueueTable<RealDisk>) -> Vec<u64> {
    let bounds = table.bounds(TOPIC, 0).unwrap().unwrap();
    let mut units = Vec::new();
    table
        .read(TOPIC, 0, bounds.min, 10_000, &mut units)
        .unwrap();
    let mut reader = table.extensions(TOPIC, 0);
    let mut records = Vec::new();
    for (record, found) in (bounds.min..).zip(&units) {
        if !found.is_extended() {
            assert_eq!(*found, unit(record));
            continue;
        }
        let bits = bits(record);
        let wanted = Extended {
            tags_code: unit(record).tags_code,
            store_timestamp_ms: record.cast_signed() + 1_000,
            bits: &bits,
        };
        let extended = reader.get(found.tags_code).unwrap();
        assert!(extended.is_none_or(|it| it == wanted), "{extended:?}");
        if extended.is_some() {
            records.push(record);
        }
    }
    assert!(table.is_extension_cached(TOPIC, 0, &units).unwrap());
    records
}

fn all(from: u64, to: u64) -> Vec<u64> {
    (from..to).collect()
}

#[test]
fn what_is_put_is_found_in_memory_in_files_and_after_an_open() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 8);
    assert_eq!(found(&table), all(0, 8));
    assert_eq!(home.extension_names(), [0; 0], "in memory");
    table.write_pending().unwrap();
    assert_eq!(table.pending_bytes(), 0);
    assert_eq!(found(&table), all(0, 8));
    assert_eq!(home.extension_names(), [0, 100, 200]);
    add_all(&table, 8, 10);
    assert_eq!(found(&table), all(0, 10), "some here, some there");
    flush(&table);
    drop(table);
    let table = home.open_extended();
    add_all(&table, 10, 25);
    assert_eq!(found(&table), all(0, 25));
    flush(&table);
    // Who does not write them reads them all the same, and goes on without.
    let table = home.open_extending(false);
    assert!(!table.writes_extensions());
    append(&table, "t", 25, 27);
    assert_eq!(found(&table), all(0, 25));
    flush(&table);
    let table = home.open_extended();
    add_all(&table, 27, 30);
    assert_eq!(found(&table), [all(0, 25), all(27, 30)].concat());
}

#[test]
fn the_bytes_are_those_of_the_official_files() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 4);
    flush(&table);
    let path = home.extension_dir().join(format!("{:020}", 0));
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len(), 100);
    let head = b"\x00\x1e\xff\xff\xff\xff\xff\xff\xff\xf9\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x0a";
    assert_eq!(bytes[..20], *head);
    assert_eq!(bytes[20..30], bits(0));
    assert_eq!(bytes[30..32], *b"\x00\x1e");
    assert_eq!(bytes[90..], *b"\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00");
    let units = read(&table, "t", 0);
    let codes: Vec<i64> = units.iter().map(|unit| unit.tags_code).collect();
    let addresses = [0, 30, 60, 100].map(|ext_offset| i64::MIN + ext_offset);
    assert_eq!(codes, addresses);
}

#[test]
fn an_open_goes_on_behind_the_last_unit_and_clears_what_is_there() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 8);
    flush(&table);
    drop(table);
    // As a crash leaves it: the extension was ahead of its queue.
    let last = home.extension_dir().join(format!("{:020}", 200));
    let mut bytes = std::fs::read(&last).unwrap();
    bytes[60..].fill(0x11);
    std::fs::write(&last, bytes).unwrap();
    let later = home.extension_dir().join(format!("{:020}", 300));
    std::fs::write(later, [7; 100]).unwrap();
    let unmade = home.extension_dir().join(format!("{:020}", 400));
    std::fs::write(unmade, []).unwrap();
    let table = home.open_extended();
    table.recovery().settle_extensions().unwrap();
    assert_eq!(home.extension_names(), [0, 100, 200]);
    assert_eq!(std::fs::read(&last).unwrap()[60..], [0; 40]);
    add_all(&table, 8, 12);
    flush(&table);
    assert_eq!(found(&table), all(0, 12));
    assert_eq!(home.extension_names(), [0, 100, 200, 300]);
}

#[test]
fn offsets_of_units_that_were_taken_back_are_used_again() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 10);
    table.truncate_from(700).unwrap();
    assert_eq!(found(&table), all(0, 7));
    add_all(&table, 7, 9);
    flush(&table);
    table.truncate_from(100).unwrap();
    assert_eq!(found(&table), [0]);
    add_all(&table, 1, 3);
    flush(&table);
    assert_eq!(found(&table), all(0, 3));
    assert_eq!(home.extension_names(), [0], "files behind are gone");
    table.truncate_from(0).unwrap();
    add_all(&table, 0, 2);
    flush(&table);
    assert_eq!(found(&table), all(0, 2));
}

#[test]
fn offsets_that_the_queue_still_names_are_never_given_again() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 8);
    flush(&table);
    drop(table);
    std::fs::remove_dir_all(home.root.join(EXTENSION_DIR)).unwrap();
    let table = home.open_extended();
    assert_eq!(found(&table), [0; 0], "lost, and nothing else is found");
    add_all(&table, 8, 10);
    flush(&table);
    assert_eq!(home.extension_names(), [300]);
    assert_eq!(found(&table), [8, 9]);
    drop(table);
    // A unit in the middle of the last file is damaged: only it is lost.
    let path = home.extension_dir().join(format!("{:020}", 300));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[30] = 0x7f;
    std::fs::write(&path, bytes).unwrap();
    let table = home.open_extended();
    assert_eq!(found(&table), [8]);
    add(&table, 10, true);
    assert_eq!(found(&table), [8, 10]);
}

#[test]
fn retention_removes_what_no_unit_names_any_more() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 12);
    flush(&table);
    assert_eq!(home.extension_names(), [0, 100, 200, 300]);
    table.retain(500).unwrap();
    assert_eq!(home.extension_names(), [100, 200, 300]);
    assert_eq!(found(&table), all(5, 12));
    table.retain(1_200).unwrap();
    assert_eq!(
        home.extension_names(),
        [100, 200, 300],
        "an empty queue keeps its place"
    );
    add_all(&table, 12, 14);
    flush(&table);
    table.retain(1_200).unwrap();
    assert_eq!(home.extension_names(), [400]);
    drop(table);
    let table = home.open_extended();
    table.retain(1_200).unwrap();
    add(&table, 14, true);
    assert_eq!(found(&table), all(12, 15));
}

#[test]
fn a_deleted_topic_takes_its_extension_with_it() {
    let home = Home::new();
    let table = home.open_extended();
    add_all(&table, 0, 8);
    table.write_pending().unwrap();
    add_all(&table, 8, 10);
    table.delete_topic(TOPIC).unwrap();
    assert_eq!(table.pending_bytes(), 0);
    assert!(!home.root.join(EXTENSION_DIR).join("t").exists());
    add_all(&table, 0, 2);
    flush(&table);
    assert_eq!(found(&table), all(0, 2));
    table.delete_queue(TOPIC, 0).unwrap();
    assert_eq!(home.extension_names(), [0; 0]);
}

#[test]
fn an_extension_of_other_files_is_left_alone() {
    let home = Home::new();
    std::fs::create_dir_all(home.extension_dir()).unwrap();
    let path = home.extension_dir().join(format!("{:020}", 0));
    std::fs::write(&path, [1; 50]).unwrap();
    let table = home.open_extended();
    add_all(&table, 0, 3);
    flush(&table);
    assert_eq!(read(&table, "t", 0), units(0, 3), "tags codes alone");
    assert_eq!(std::fs::read(path).unwrap(), [1; 50]);
    let reported = home.notices.drain();
    assert!(
        reported
            .iter()
            .any(|notice| notice.text.contains("mappedFileSizeConsumeQueueExt"))
    );
}

#[derive(Debug, Clone)]
enum Step {
    Add { count: u64, is_extended: bool },
    Write,
    Sync,
    Reopen,
    Truncate { back: u64 },
    Retain { back: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..9u64, prop::bool::weighted(0.8))
            .prop_map(|(count, is_extended)| Step::Add { count, is_extended }),
        3 => Just(Step::Write),
        1 => Just(Step::Sync),
        2 => Just(Step::Reopen),
        2 => (0..12u64).prop_map(|back| Step::Truncate { back }),
        1 => (0..12u64).prop_map(|back| Step::Retain { back }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_unit_finds_its_own(steps in prop::collection::vec(step(), 1..40)) {
        let home = Home::new();
        let mut table = home.open_extended();
        let mut kinds: Vec<bool> = Vec::new();
        let (mut first, mut written) = (0u64, 0usize);
        for step in steps {
            match step {
                Step::Add { count, is_extended } => {
                    for _ in 0..count {
                        add(&table, kinds.len() as u64, is_extended);
                        kinds.push(is_extended);
                    }
                }
                Step::Write => {
                    table.write_pending().unwrap();
                    written = kinds.len();
                }
                Step::Sync => {
                    flush(&table);
                    written = kinds.len();
                }
                Step::Reopen => {
                    drop(table);
                    table = home.open_extended();
                    table.correct_min(first * 100).unwrap();
                    kinds.truncate(written);
                }
                Step::Truncate { back } => {
                    let end = (kinds.len() as u64).saturating_sub(back).max(first);
                    table.truncate_from(end * 100).unwrap();
                    kinds.truncate(end as usize);
                    written = written.min(kinds.len());
                }
                Step::Retain { back } => {
                    // Of what is in memory alone a kill would leave nothing, not even its offset.
                    flush(&table);
                    written = kinds.len();
                    first = (kinds.len() as u64).saturating_sub(back).max(first);
                    table.retain(first * 100).unwrap();
                }
            }
            let wanted: Vec<u64> = (first..kinds.len() as u64)
                .filter(|record| kinds[*record as usize])
                .collect();
            if table.bounds(TOPIC, 0).unwrap().is_some() {
                prop_assert_eq!(found(&table), wanted);
            }
        }
    }
}
