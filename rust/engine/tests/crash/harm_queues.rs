//! What a crash or a clean stop left is harmed in its queues: a directory or a file of a queue is
//! lost, units are blank. The next start has every message readable and gives no queue offset
//! twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::{History, TwinDisk};
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store};
use mqcore_record::CrcCheck;

use super::dice::Dice;
use super::harm::images;
use super::play::{ROOT, config_of};
use super::reported::Reported;
use super::script::{QUEUE_KEYS, QueueKey, Script};
use super::sweep::played;

/// Histories that are harmed in every test run.
const SEEDS: u64 = 60;
/// Moments of each.
const STOPS: usize = 12;
const UNIT: u64 = 20;

type PlainStore = Store<TwinDisk, ManualClock>;
/// First and next queue offset, and the bodies between.
type Held = (u64, u64, Vec<Vec<u8>>);

#[derive(Debug, Clone)]
enum Harm {
    LostDir(PathBuf),
    LostFile(PathBuf),
    Blank { path: PathBuf, from: u64, to: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// With nothing to be done, as the end of the log gave it again.
    Readable,
    /// Made again, and a warning counts it.
    Mended,
}

fn open(image: &TwinDisk, script: &Script, now_ms: i64) -> PlainStore {
    let (clock, how) = (ManualClock::at(now_ms), OpenHow::RefuseDamage);
    Store::open(image.clone(), clock, config_of(script), how).unwrap()
}

fn held(store: &PlainStore, queue_key: QueueKey) -> Held {
    let topic = queue_key.0.as_bytes();
    let Some(bounds) = store.topics().bounds(topic, queue_key.1).unwrap() else {
        return (0, 0, Vec::new());
    };
    let mut bodies = Vec::new();
    let mut from = bounds.min;
    loop {
        let ask = Ask {
            from,
            count_max: 32,
            bytes_max: 1 << 20,
            tags_codes: &[],
            is_bulk: false,
        };
        let got = store.reader().get(topic, queue_key.1, ask).unwrap();
        if got.status != GetStatus::Found && got.next_offset <= from {
            break;
        }
        let records = got.records.iter();
        bodies.extend(records.map(|it| it.view(CrcCheck::Verify).unwrap().body.to_vec()));
        from = got.next_offset;
    }
    (bounds.min, bounds.max, bodies)
}

fn all_held(store: &PlainStore) -> Vec<Held> {
    while store.dispatching().step().unwrap() {}
    QUEUE_KEYS
        .into_iter()
        .map(|queue_key| held(store, queue_key))
        .collect()
}

fn files(image: &TwinDisk, dir: &Path) -> Vec<PathBuf> {
    let entries = image.list(dir).unwrap_or_default().into_iter();
    entries.map(|entry| dir.join(entry.name)).collect()
}

fn queue_dir((topic, queue_id): QueueKey) -> PathBuf {
    let dir = Path::new(ROOT).join("consumequeue").join(topic);
    dir.join(queue_id.to_string())
}

fn harms(image: &TwinDisk, queue_key: QueueKey, dice: &mut Dice) -> Vec<Harm> {
    let dir = queue_dir(queue_key);
    let files = files(image, &dir);
    if files.is_empty() {
        return Vec::new();
    }
    let mut harms = vec![Harm::LostDir(dir)];
    harms.push(Harm::LostFile(
        files[dice.below(files.len() as u64) as usize].clone(),
    ));
    let path = files[dice.below(files.len() as u64) as usize].clone();
    let len = image.stat(&path).unwrap().unwrap().len_bytes;
    let from = dice.below((len / UNIT).max(1)) * UNIT;
    for to in [from + UNIT, len] {
        let path = path.clone();
        harms.push(Harm::Blank { path, from, to });
    }
    harms
}

fn harm(image: &TwinDisk, harm: &Harm) {
    match harm {
        Harm::LostDir(dir) => {
            for file in files(image, dir) {
                image.unlink(&file).unwrap();
            }
            image.remove_dir(dir).unwrap();
        }
        Harm::LostFile(path) => image.unlink(path).unwrap(),
        Harm::Blank { path, from, to } => {
            let file = image.open(path, Open::Write).unwrap();
            let len = file.len_bytes().unwrap();
            let count = to.min(&len).saturating_sub(*from) as usize;
            file.write_at(&vec![0; count], *from).unwrap();
        }
    }
}

fn outcome_of(
    before: &[Held],
    image: &TwinDisk,
    (script, now_ms): (&Script, i64),
) -> Result<Outcome, String> {
    let store = open(image, script, now_ms);
    let after = all_held(&store);
    // An expired unit whose neighbour is damaged may count as there until it is read.
    let is_same = |(old, new): (&Held, &Held)| (old.1, &old.2) == (new.1, &new.2);
    if before.iter().zip(&after).all(is_same) {
        let is_mended = store.queues().mender().mended().queues > 0;
        let notices = store.notices();
        let is_reported = notices
            .iter()
            .any(|it| it.text.contains("were not whole on the disk"));
        return match (is_mended, is_reported) {
            (true, true) => Ok(Outcome::Mended),
            (false, _) => Ok(Outcome::Readable),
            (true, false) => Err("made again without a word".to_owned()),
        };
    }
    let ends: Vec<_> = before
        .iter()
        .zip(&after)
        .map(|(old, new)| (old.0, old.1, old.2.len(), new.0, new.1, new.2.len()))
        .collect();
    Err(format!("{ends:?} {:?}", store.notices()))
}

fn walk(seed: u64, counts: &mut BTreeMap<(bool, Outcome), u64>) {
    let script = Script::of(seed);
    let (reported, history): (Reported, History) = played(&script, None).unwrap();
    let step = (history.stop_points() / STOPS).max(1);
    for stop in (0..history.stop_points()).step_by(step) {
        for (image, is_killed) in images(&history, stop, seed) {
            for is_stopped in [false, true] {
                let disk = image.disk();
                if is_stopped {
                    // The same after a clean stop.
                    assert!(open(&disk, &script, reported.now_ms).close().unwrap());
                }
                let before = all_held(&open(&disk.fork(), &script, reported.now_ms));
                let mut dice = Dice::of(seed ^ stop as u64);
                for queue_key in QUEUE_KEYS {
                    for harm_ in harms(&disk, queue_key, &mut dice) {
                        let harmed = disk.fork();
                        harm(&harmed, &harm_);
                        let outcome = outcome_of(&before, &harmed, (&script, reported.now_ms));
                        let outcome = outcome.unwrap_or_else(|why| {
                            panic!(
                                "{seed}/{} killed {is_killed} stopped {is_stopped} {harm_:?}: {why}",
                                image.id()
                            )
                        });
                        *counts.entry((is_stopped, outcome)).or_insert(0) += 1;
                    }
                }
            }
        }
    }
}

#[test]
fn no_harm_to_queues_is_silent() {
    let mut counts = BTreeMap::new();
    for seed in 1..=SEEDS {
        walk(seed, &mut counts);
    }
    eprintln!("{counts:?}");
    for is_stopped in [false, true] {
        assert!(counts.contains_key(&(is_stopped, Outcome::Mended)));
    }
}
