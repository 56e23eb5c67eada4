//! What a crash left is harmed once more: a bit flips, a file of the log or a small file is lost,
//! the machine starts anew. For each the store either gives all records, or refuses with an offset
//! at or before the harm, or cuts and reports it; never does it lose anything silently.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::{Bound, CrashImage, History, Tear, TwinDisk};
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::Error;
use mqcore_engine::notice::Level;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::CrcCheck;

use super::dice::Dice;
use super::play::{ROOT, SEGMENT_BYTES, config_of};
use super::reported::Reported;
use super::script::Script;
use super::sweep::played;

/// Histories that are harmed in every test run.
const SEEDS: u64 = 60;
/// Moments of each.
const STOPS: usize = 12;
/// Power losses of each moment, beside the kill.
const POWER_LOSSES: usize = 3;
/// Flips of each image.
const FLIPS: usize = 6;

type PlainStore = Store<TwinDisk, ManualClock>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Harm {
    /// A bit of the log at a physical offset.
    Flip(u64),
    /// The newest log file that holds records.
    LostLog {
        base: u64,
        durable: u64,
    },
    LostSmall(&'static str),
    /// A small file is lost, and a bit of the log flips.
    LostSmallAndFlip(&'static str, u64),
    /// A bit of a small file, and one of the log.
    FlippedSmallAndFlip(&'static str, u64),
}

const SMALL: [&str; 5] = [
    "checkpoint",
    "mqcore.session",
    "lock",
    "queues.manifest",
    "queues.manifest.before",
];

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Readable,
    Refused,
    CutAndReported,
    /// A record that the start does not look at is bad: reading it fails.
    LeftToReaders,
    /// The lost file held only what was younger than every mark, and in no queue.
    TooYoung,
}

fn open(image: &TwinDisk, script: &Script, now_ms: i64) -> Result<PlainStore, Error> {
    let how = OpenHow::RefuseDamage;
    Store::open(
        image.clone(),
        ManualClock::at(now_ms),
        config_of(script),
        how,
    )
}

/// Place, length and body of every record.
fn records(image: &TwinDisk, script: &Script, now_ms: i64) -> Vec<(u64, u64, Vec<u8>)> {
    let store = open(&image.fork(), script, now_ms).unwrap();
    let chain = &store.files().chain;
    let walk = mqcore_engine::commit_log::Scan {
        from: chain.start(),
        limit: store.files().readable(),
        crc: CrcCheck::Verify,
        is_recovery: true,
        torn_from: u64::MAX,
        has_property_crc: false,
        forgets: false,
    };
    let mut found = Vec::new();
    mqcore_engine::commit_log::scan(chain, walk, |record, at| {
        found.push((at, record.total_len_bytes as u64, record.body.to_vec()));
        Ok(true)
    })
    .unwrap();
    found
}

fn log_path(base: u64) -> PathBuf {
    Path::new(ROOT)
        .join("commitlog")
        .join(format!("{base:020}"))
}

fn small_path(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// The offset in the mark of the session, read from its file; 0 where it has no valid one.
fn durable_of(image: &TwinDisk) -> u64 {
    let Some(bytes) = image.read(&small_path("mqcore.session")) else {
        return 0;
    };
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let slots = [0, 4096].into_iter().filter(|at| {
        let covered = bytes.get(*at..at + 48);
        let stored = bytes.get(at + 48..at + 52);
        covered.is_some_and(|covered| stored == Some(&crc32fast::hash(covered).to_be_bytes()))
    });
    let newest = slots.max_by_key(|at| number(at + 8));
    newest.map_or(0, |at| number(at + 32))
}

fn flip(image: &TwinDisk, at: u64, bit: u8) {
    let base = at - at % SEGMENT_BYTES;
    assert!(image.flip_bit(&log_path(base), at - base, bit));
}

fn lose(image: &TwinDisk, path: &Path) {
    if image.stat(path).unwrap().is_some() {
        image.unlink(path).unwrap();
    }
}

fn harm(image: &TwinDisk, harm: &Harm, dice: &mut Dice) {
    let bit = dice.below(8) as u8;
    match harm {
        Harm::Flip(at) => flip(image, *at, bit),
        Harm::LostLog { base, .. } => lose(image, &log_path(*base)),
        Harm::LostSmall(name) => lose(image, &small_path(name)),
        Harm::LostSmallAndFlip(name, at) => {
            lose(image, &small_path(name));
            flip(image, *at, bit);
        }
        Harm::FlippedSmallAndFlip(name, at) => {
            if let Ok(file) = image.open(&small_path(name), Open::Read) {
                let len = file.len_bytes().unwrap().max(1);
                image.flip_bit(&small_path(name), dice.below(len.min(64)), bit);
            }
            flip(image, *at, bit);
        }
    }
}

fn harms(image: &TwinDisk, records: &[(u64, u64, Vec<u8>)], dice: &mut Dice) -> Vec<Harm> {
    let mut harms: Vec<Harm> = SMALL.into_iter().map(Harm::LostSmall).collect();
    if records.is_empty() {
        return harms;
    }
    for _ in 0..FLIPS {
        let (at, len, _) = &records[dice.below(records.len() as u64) as usize];
        let within = dice.below(*len);
        // No CRC covers the queue offset, and a far one makes millions of blank units.
        let within = if (20..27).contains(&within) {
            27
        } else {
            within
        };
        let at = at + within;
        harms.push(Harm::Flip(at));
        harms.push(Harm::LostSmallAndFlip(dice.pick(&SMALL), at));
        harms.push(Harm::FlippedSmallAndFlip(dice.pick(&SMALL), at));
    }
    let newest = records.last().map_or(0, |(at, ..)| at - at % SEGMENT_BYTES);
    let durable = durable_of(image);
    harms.push(Harm::LostLog {
        base: newest,
        durable,
    });
    harms
}

/// Opens one harmed image and classifies the outcome.
fn outcome_of(
    script: &Script,
    image: &TwinDisk,
    records: &[(u64, u64, Vec<u8>)],
    harm: &Harm,
    now_ms: i64,
) -> Result<Outcome, String> {
    let harmed = match harm {
        Harm::Flip(at) | Harm::LostSmallAndFlip(_, at) | Harm::FlippedSmallAndFlip(_, at) => *at,
        Harm::LostLog { base, .. } => *base,
        Harm::LostSmall(_) => u64::MAX,
    };
    let store = match open(image, script, now_ms) {
        Ok(store) => store,
        Err(Error::Damaged {
            physical_offset, ..
        }) if physical_offset <= harmed && harmed != u64::MAX => return Ok(Outcome::Refused),
        // Where the files go on may be behind the one that is lost.
        Err(Error::Damaged { .. }) if matches!(harm, Harm::LostLog { .. }) => {
            return Ok(Outcome::Refused);
        }
        Err(error) => return Err(error.to_string()),
    };
    let is_same = |(at, _, body): &&(u64, u64, Vec<u8>)| {
        let record = store.reader().record_at(*at);
        let view = record
            .as_ref()
            .ok()
            .map(|record| record.view(CrcCheck::Verify));
        view.is_some_and(|view| view.is_ok_and(|view| view.body == body))
    };
    let lost: Vec<_> = records.iter().filter(|record| !is_same(record)).collect();
    if lost.is_empty() {
        return Ok(Outcome::Readable);
    }
    let report = store.report();
    let is_alone = lost
        .iter()
        .all(|(at, len, _)| (*at..at + len).contains(&harmed));
    if is_alone && (report.was_clean || harmed < report.scanned_from) {
        return Ok(Outcome::LeftToReaders);
    }
    if let Harm::LostLog { base, durable } = harm
        && durable <= base
    {
        return Ok(Outcome::TooYoung);
    }
    let reported = store.notices().into_iter();
    let is_reported = reported
        .filter(|notice| notice.level == Level::Error)
        .any(|notice| notice.text.contains("the log was cut at"));
    let is_recorded = report
        .cut
        .recorded_in
        .iter()
        .all(|path| image.read(path).is_some());
    if report.cut.is_loss() && is_reported && is_recorded {
        return Ok(Outcome::CutAndReported);
    }
    Err(format!(
        "{} of {} records were lost silently: {report:?}",
        lost.len(),
        records.len()
    ))
}

/// Whether whole records may be cut: with the mark of a session of this start of the machine never.
fn may_cut(is_killed: bool, harm: &Harm) -> bool {
    let loses_mark = match harm {
        Harm::Flip(_) | Harm::LostLog { .. } | Harm::LostSmall(_) => false,
        // What an official broker writes into the lock file is written anew.
        Harm::LostSmallAndFlip(name, _) => *name == "mqcore.session",
        Harm::FlippedSmallAndFlip(name, _) => ["mqcore.session", "lock"].contains(name),
    };
    !is_killed || loses_mark
}

pub(super) fn images(history: &History, stop: usize, seed: u64) -> Vec<(CrashImage, bool)> {
    let bound = Bound {
        images_max: POWER_LOSSES,
        tear: Tear::Words,
        seed,
    };
    let killed = std::iter::once((history.killed(stop), true));
    killed
        .chain(history.images(stop, &bound).map(|image| (image, false)))
        .collect()
}

fn walk(seed: u64, counts: &mut BTreeMap<(bool, Outcome), u64>) {
    let script = Script::of(seed);
    let (reported, history): (Reported, History) = played(&script, None).unwrap();
    let step = (history.stop_points() / STOPS).max(1);
    for stop in (0..history.stop_points()).step_by(step) {
        for (image, is_killed) in images(&history, stop, seed) {
            let disk = image.disk();
            let records = records(&disk, &script, reported.now_ms);
            let mut dice = Dice::of(seed ^ stop as u64);
            for harm_ in harms(&disk, &records, &mut dice) {
                let harmed = disk.fork();
                harm(&harmed, &harm_, &mut dice);
                let name = format!("{seed}/{} killed {is_killed} {harm_:?}", image.id());
                let outcome = outcome_of(&script, &harmed, &records, &harm_, reported.now_ms);
                let outcome = outcome.unwrap_or_else(|why| panic!("{name}: {why}"));
                let has_mark = durable_of(&disk) > 0;
                assert!(
                    outcome != Outcome::CutAndReported
                        || may_cut(is_killed, &harm_)
                        || !has_mark
                        || records.last().is_some_and(|(at, len, _)| {
                            matches!(harm_, Harm::Flip(harmed) | Harm::LostSmallAndFlip(_, harmed)
                                | Harm::FlippedSmallAndFlip(_, harmed)
                                if (*at..at + len).contains(&harmed))
                        }),
                    "{name}: whole records were cut"
                );
                *counts.entry((is_killed, outcome)).or_insert(0) += 1;
            }
        }
    }
}

#[test]
fn no_harm_is_silent() {
    let mut counts = BTreeMap::new();
    for seed in 1..=SEEDS {
        walk(seed, &mut counts);
    }
    eprintln!("{counts:?}");
    for is_killed in [true, false] {
        for outcome in [Outcome::Readable, Outcome::Refused, Outcome::CutAndReported] {
            assert!(
                counts.contains_key(&(is_killed, outcome)),
                "{is_killed} {outcome:?}"
            );
        }
    }
}
