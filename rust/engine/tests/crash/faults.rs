//! Every call of a small history fails once, with EIO and with ENOSPC, whatever it is: nothing is
//! acknowledged that is not durable, a poisoned store gives the reason, a full disk heals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::{Clock, ManualClock};
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::{CallKind, Fault, Times, TwinDisk};
use mqcore_engine::error::Error;
use mqcore_engine::small_state;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{Ask, GetStatus, OpenHow, Store};
use mqcore_record::CrcCheck;

use super::play::{CONFIG_PATH, ROOT, SEGMENT_BYTES, body_of, message, properties_of};

type TwinStore = Store<TwinDisk, ManualClock>;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const KINDS: [CallKind; 17] = [
    CallKind::Open,
    CallKind::Stat,
    CallKind::List,
    CallKind::CreateDir,
    CallKind::Rename,
    CallKind::Unlink,
    CallKind::RemoveDir,
    CallKind::SyncDir,
    CallKind::Space,
    CallKind::Read,
    CallKind::Write,
    CallKind::Sync,
    CallKind::Allocate,
    CallKind::SetLen,
    CallKind::Len,
    CallKind::Map,
    CallKind::Populate,
];

fn config(is_sync: bool, has_pool: bool) -> StoreConfig {
    StoreConfig {
        root: Some(PathBuf::from(ROOT)),
        segment_len_bytes: SEGMENT_BYTES,
        max_message_bytes: 4_000,
        queue_file_len_bytes: 60,
        index_slots: 3,
        index_entries: 4,
        flush_disk_type: if is_sync {
            FlushDiskType::Sync
        } else {
            FlushDiskType::Async
        },
        transient_pool_enabled: has_pool,
        transient_pool_buffers: 2,
        ..StoreConfig::default()
    }
}

fn open(twin: &TwinDisk, clock: &ManualClock, config: &StoreConfig) -> Result<TwinStore, Error> {
    let how = OpenHow::RefuseDamage;
    Store::open(twin.clone(), clock.clone(), config.clone(), how)
}

/// A message that was acknowledged: where, and its body.
type Acked = (u64, Vec<u8>);

/// What a history with a failing call came to.
#[derive(Default)]
struct Outcome {
    /// Until the store was opened again after a failure.
    acked: Vec<Acked>,
    /// From then on.
    acked_later: Vec<Acked>,
    errors: Vec<Error>,
    is_later: bool,
}

impl Outcome {
    fn note<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    fn put(&mut self, store: &TwinStore, number: u64, len: usize) {
        let body = body_of(0, number, len);
        let properties = properties_of("b");
        let sent = message(("T", (number % 2) as i32), &body, &properties);
        let was_poisoned = store.files().poison.reason().is_some();
        if let Some((at, status)) = self.note(store.put(&sent)) {
            assert_eq!(status, PutStatus::PutOk);
            assert!(!was_poisoned, "acknowledged after a failure");
            let acked = if self.is_later {
                &mut self.acked_later
            } else {
                &mut self.acked
            };
            acked.push((at.physical_offset, body));
        }
    }
}

/// Opens, appends over the end of a file, dispatches, syncs, cleans, closes: all that a store does.
/// Goes on after each failure, as threads do.
fn history(twin: &TwinDisk, clock: &ManualClock, config: &StoreConfig) -> Outcome {
    let mut outcome = Outcome::default();
    for round in 0..2u64 {
        outcome.is_later = !outcome.errors.is_empty();
        let Some(store) = outcome.note(open(twin, clock, config)) else {
            // The disk failed once: the next start finds it well.
            continue;
        };
        for number in 0..20 {
            outcome.put(&store, round * 100 + number, 3_900);
            if number % 4 == 0 {
                clock.advance(Duration::from_millis(500));
                outcome.note(store.preparation().step());
                outcome.note(store.dispatching().step());
                outcome.note(store.checkpoints().sync_queues(0));
                outcome.note(store.checkpoints().write());
                outcome.note(store.durability().flush());
            }
            if number == 19 {
                let text = format!("{round}");
                outcome.note(small_state::write(
                    twin,
                    Path::new(CONFIG_PATH),
                    text.as_bytes(),
                ));
                outcome.note(store.retention().remove_oldest(None, 1, None));
            }
        }
        outcome.note(store.close());
    }
    outcome
}

/// What was acknowledged is there; what retention removed is not asked for.
fn check(
    (twin, may_be_damaged): (&TwinDisk, bool),
    clock: &ManualClock,
    config: &StoreConfig,
    acked: &[Acked],
    case: &str,
) {
    let store = match open(twin, clock, config) {
        // Of what a failed sync was to write the mark of the session knows, if the disk has lost
        // it.
        Err(Error::Damaged { .. }) if may_be_damaged => {
            let how = OpenHow::CutDamage;
            Store::open(twin.clone(), clock.clone(), config.clone(), how)
        }
        opened => opened,
    };
    let store = store.unwrap_or_else(|error| panic!("{case}: {error}"));
    let start = store.files().chain.start();
    for (physical_offset, body) in acked
        .iter()
        .filter(|(physical_offset, _)| *physical_offset >= start)
    {
        let record = store.reader().record_at(*physical_offset);
        let record =
            record.unwrap_or_else(|error| panic!("{case}: lost {physical_offset}: {error}"));
        assert_eq!(record.view(CrcCheck::Verify).unwrap().body, body, "{case}");
    }
    while store.dispatching().step().unwrap() {}
    for queue_id in 0..2 {
        let bounds = store.topics().bounds(b"T", queue_id).unwrap();
        let Some(bounds) = bounds else { continue };
        let mut units = Vec::new();
        let count = (bounds.max - bounds.min) as usize;
        let queues = store.queues();
        queues
            .read(b"T", queue_id, bounds.min, count, &mut units)
            .unwrap();
        for unit in units.iter().filter(|unit| !unit.is_blank()) {
            let physical_offset = unit.physical_offset.cast_unsigned();
            assert!(
                store.reader().record_at(physical_offset).is_ok(),
                "{case}: {unit:?}"
            );
        }
    }
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost() {
    let mut cases = 0;
    for (is_sync, has_pool) in [(false, false), (true, false), (false, true), (true, true)] {
        let config = config(is_sync, has_pool);
        for call in KINDS {
            for errno in [EIO, ENOSPC] {
                let mut nth = 1;
                loop {
                    let clock = ManualClock::at(1_795_249_596_000);
                    let twin = TwinDisk::with_clock(clock.clone());
                    let fault = Fault {
                        call,
                        path_contains: None,
                        nth,
                        errno,
                        times: Times::Once,
                    };
                    twin.fail(fault);
                    let case = format!("sync {is_sync} pool {has_pool} {call:?} {errno} {nth}");
                    let mut outcome = history(&twin, &clock, &config);
                    twin.heal();
                    cases += 1;
                    let is_sync_call = matches!(call, CallKind::Sync | CallKind::SyncDir);
                    if !is_sync_call {
                        outcome.acked.append(&mut outcome.acked_later);
                    }
                    // The process was stopped, or the power went: with synchronous flush the worst
                    // image that the twin allows keeps it too. Only what a failed sync was to write
                    // stays uncertain for ever, whoever opens the store again.
                    check(
                        (&twin.fork(), false),
                        &clock,
                        &config,
                        &outcome.acked,
                        &case,
                    );
                    if is_sync {
                        let history = twin.history();
                        let last = history.stop_points() - 1;
                        let id = format!("{last}.w.x0").parse().unwrap();
                        let image = history.image(&id).disk();
                        check(
                            (&image, is_sync_call),
                            &clock,
                            &config,
                            &outcome.acked,
                            &case,
                        );
                    }
                    if outcome.errors.is_empty() && nth > 1 {
                        break;
                    }
                    // Far calls of the frequent kinds are like near ones.
                    nth += if nth < 40 { 1 } else { 7 };
                    if nth > 400 {
                        break;
                    }
                }
            }
        }
    }
    eprintln!("{cases} histories, each with a failing call");
    assert!(cases > 1_000);
}

fn fail(twin: &TwinDisk, call: CallKind, path: &str, errno: i32, times: Times) {
    twin.fail(Fault {
        call,
        path_contains: Some(path.to_owned()),
        nth: 1,
        errno,
        times,
    });
}

fn fresh(is_sync: bool) -> (TwinDisk, ManualClock, StoreConfig, Arc<TwinStore>) {
    let clock = ManualClock::at(1_795_249_596_000);
    let twin = TwinDisk::with_clock(clock.clone());
    let config = config(is_sync, false);
    let store = Arc::new(open(&twin, &clock, &config).unwrap());
    (twin, clock, config, store)
}

fn put(store: &TwinStore, number: u64) -> Result<u64, Error> {
    let body = body_of(1, number, 3_900);
    let properties = properties_of("a");
    let (at, status) = store.put(&message(("T", 0), &body, &properties))?;
    assert_eq!(status, PutStatus::PutOk);
    Ok(at.end())
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_reads_end_at_what_is_flushed() {
    let (twin, clock, config, store) = fresh(true);
    let flushed = put(&store, 1).unwrap();
    fail(&twin, CallKind::Sync, "/commitlog/", EIO, Times::Once);
    let parked = store
        .writer()
        .append(&message(("T", 0), b"parked", b""))
        .unwrap();
    let ticket = store.durability().park(parked.end(), false).unwrap();
    assert!(matches!(put(&store, 2), Err(Error::Io { errno: EIO, .. })));
    // The second sync would succeed; it is not tried.
    for number in 3..6 {
        let refused = put(&store, number);
        let Err(Error::Poisoned { reason }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("/commitlog/"), "{reason}");
    }
    let mut answers = Vec::new();
    store.durability().drain(&mut answers);
    assert_eq!(answers, [(ticket, PutStatus::ServiceNotAvailable)]);
    assert_eq!(store.files().readable(), flushed);
    assert!(store.reader().record_at(flushed).is_err());
    while store.dispatching().step().unwrap_or(false) {}
    assert_eq!(store.topics().bounds(b"T", 0).unwrap().unwrap().max, 1);
    assert!(store.close().is_err());
    drop(store);
    let store = open(&twin, &clock, &config).unwrap();
    assert!(put(&store, 9).is_ok());
}

#[test]
fn a_full_disk_refuses_the_next_log_file_and_heals() {
    let (twin, _clock, _config, store) = fresh(false);
    put(&store, 0).unwrap();
    twin.set_space(1 << 30, 0);
    let refused = (1..40).find_map(|number| put(&store, number).err());
    let error = refused.expect("the file was full by then");
    assert_eq!(PutStatus::of(&error), PutStatus::CreateMappedFileFailed);
    assert!(error.to_string().contains("28"), "{error}");
    assert!(store.reader().record_at(0).is_ok(), "reads go on");
    twin.set_space(1 << 30, 1 << 29);
    assert!(put(&store, 50).is_ok(), "healed without a restart");
    assert_eq!(twin.bus_errors(), 0);
}

#[test]
fn queues_that_cannot_be_written_hold_appends_back_until_they_can() {
    let (twin, clock, _config, store) = fresh(false);
    put(&store, 0).unwrap();
    fail(
        &twin,
        CallKind::Write,
        "/consumequeue/",
        ENOSPC,
        Times::Always,
    );
    clock.advance(Duration::from_secs(1));
    let _result = store.dispatching().step();
    let _result = store.checkpoints().sync_queues(0);
    let refused = put(&store, 1);
    let Err(Error::NotWritable { reason }) = &refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("/consumequeue/"), "{reason}");
    let ask = Ask {
        from: 0,
        count_max: 8,
        bytes_max: 1 << 20,
        tags_codes: &[],
        is_bulk: false,
    };
    assert_eq!(
        store.reader().get(b"T", 0, ask).unwrap().status,
        GetStatus::Found
    );
    twin.heal();
    clock.advance(Duration::from_secs(1));
    let _result = store.dispatching().step();
    let _result = store.checkpoints().sync_queues(0);
    assert!(put(&store, 2).is_ok(), "healed without a restart");
}

#[test]
fn an_index_without_space_pauses_and_catches_up() {
    let (twin, clock, _config, store) = fresh(false);
    fail(&twin, CallKind::Allocate, "/index/", ENOSPC, Times::Always);
    for number in 0..4 {
        put(&store, number).unwrap();
    }
    while store.dispatching().step().unwrap() {}
    assert_eq!(store.topics().bounds(b"T", 0).unwrap().unwrap().max, 4);
    let found = store
        .key_reader()
        .query(b"T", b"a", 64, 0, i64::MAX)
        .unwrap();
    assert!(found.records.is_empty());
    twin.heal();
    clock.advance(Duration::from_secs(5));
    for number in 4..6 {
        put(&store, number).unwrap();
        while store.dispatching().step().unwrap() {}
    }
    let found = store
        .key_reader()
        .query(b"T", b"a", 64, 0, i64::MAX)
        .unwrap();
    assert_eq!(found.records.len(), 6);
}

#[test]
fn a_config_that_cannot_be_written_keeps_its_old_content() {
    for call in [CallKind::Write, CallKind::Sync, CallKind::Rename] {
        for errno in [EIO, ENOSPC] {
            let twin = TwinDisk::new();
            let path = Path::new(CONFIG_PATH);
            small_state::write(&twin, path, b"old").unwrap();
            fail(&twin, call, ".tmp", errno, Times::Always);
            assert!(small_state::write(&twin, path, b"new").is_err());
            assert_eq!(twin.read(path).unwrap(), b"old");
            twin.heal();
            small_state::write(&twin, path, b"new").unwrap();
            assert_eq!(twin.read(path).unwrap(), b"new");
        }
    }
}

#[test]
fn a_failed_read_is_an_error_and_no_message() {
    let (twin, clock, config, store) = fresh(false);
    let end = put(&store, 0).unwrap();
    for number in 1..40 {
        put(&store, number).unwrap();
    }
    assert!(store.close().unwrap());
    drop(store);
    let store = open(&twin, &clock, &config).unwrap();
    fail(&twin, CallKind::Read, "/commitlog/", EIO, Times::Always);
    for physical_offset in [0, end] {
        let read = store.reader().record_at(physical_offset);
        assert!(matches!(read.err(), Some(Error::Io { errno: EIO, .. })));
    }
    twin.heal();
    assert!(store.reader().record_at(0).is_ok());
}

#[test]
fn store_times_never_step_back_and_nothing_stalls_when_the_clock_jumps() {
    let (twin, clock, config, store) = fresh(true);
    let mut newest_ms = 0;
    let mut number = 0;
    let mut store = Some(store);
    for jump_ms in [0, 3_600_000, -7_200_000, 1, -1, 86_400_000, -86_400_000] {
        clock.set_wall_ms(clock.now_ms() + jump_ms);
        for _ in 0..3 {
            let body = body_of(2, number, 100);
            let open = store.as_ref().unwrap();
            let (at, status) = open.put(&message(("T", 0), &body, b"")).unwrap();
            assert_eq!((status, at.queue_offset), (PutStatus::PutOk, number));
            assert!(at.store_timestamp_ms >= newest_ms, "after {jump_ms}");
            newest_ms = at.store_timestamp_ms;
            number += 1;
        }
        let open_store = store.take().unwrap();
        while open_store.dispatching().step().unwrap() {}
        open_store.checkpoints().sync_queues(0).unwrap();
        open_store.checkpoints().write().unwrap();
        if number % 2 == 0 {
            assert!(open_store.close().unwrap());
        }
        drop(open_store);
        store = Some(Arc::new(open(&twin, &clock, &config).unwrap()));
        let bounds = store
            .as_ref()
            .unwrap()
            .topics()
            .bounds(b"T", 0)
            .unwrap()
            .unwrap();
        assert_eq!((bounds.min, bounds.max), (0, number));
    }
}
