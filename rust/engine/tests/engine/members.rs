//! The store of a replica under a controller: readers stop at the confirm offset, appends wait for a role, a
//! log is cut where its master's copy ends, whenever the power goes meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::{Bound, TwinDisk};
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::{OpenHow, Store, WholeRecords};
use mqcore_record::layout::STORE_TIMESTAMP_AT;
use mqcore_record::{Host, Message};

type TwinStore = Store<TwinDisk, ManualClock>;

const FILE_LEN_BYTES: u64 = 73_728;
const NOW_MS: i64 = 1_000_000_000;
/// The time of a clock that was ahead, and was set back.
const AHEAD_MS: i64 = NOW_MS + 3_600_000;

fn config() -> StoreConfig {
    let pairs = [
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "73728"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "4096"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "40"),
    ];
    StoreConfig {
        is_member: true,
        ..StoreConfig::from_pairs(pairs).unwrap().0
    }
}

fn open(disk: &TwinDisk, how: OpenHow) -> Result<TwinStore> {
    let clock = ManualClock::at(NOW_MS);
    Store::open(disk.clone(), clock, config(), how)
}

fn append(store: &TwinStore, number: u8) -> Result<(u64, u64)> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let body = [number; 4_000];
    let message = Message {
        born_timestamp_ms: 1,
        properties: b"KEYS\x01k\x02",
        ..Message::of("T", 0, &body, host)
    };
    let appended = store.writer().append(&message)?;
    Ok((appended.end(), appended.queue_offset))
}

fn dispatch(store: &TwinStore) {
    while store.dispatching().step().unwrap() {}
}

/// Leads, and lets readers see everything.
fn lead(store: &TwinStore) {
    store.replica().lead(|_end| Ok(())).unwrap();
    store.replica().confirm(None);
}

/// Forty records over three files; the end of each.
fn filled(disk: &TwinDisk) -> (TwinStore, Vec<u64>) {
    let store = open(disk, OpenHow::RefuseDamage).unwrap();
    lead(&store);
    let ends = (0..40).map(|number| {
        store.preparation().step().unwrap();
        append(&store, number).unwrap().0
    });
    let ends = ends.collect();
    (store, ends)
}

#[test]
fn a_member_takes_nothing_before_it_leads_and_again_once_it_follows() {
    let disk = TwinDisk::new();
    let store = open(&disk, OpenHow::RefuseDamage).unwrap();
    let refused = append(&store, 0).unwrap_err();
    assert!(matches!(refused, Error::NotWritable { .. }), "{refused}");
    lead(&store);
    append(&store, 0).unwrap();
    store.replica().follow();
    assert!(append(&store, 1).is_err());
    lead(&store);
    assert_eq!(append(&store, 2).unwrap().1, 1);
}

#[test]
fn queues_that_are_behind_after_a_start_end_where_the_log_has_them() {
    let disk = TwinDisk::new();
    let (store, _ends) = filled(&disk);
    dispatch(&store);
    store.durability().flush().unwrap();
    drop(store);
    let store = open(&disk.fork(), OpenHow::RefuseDamage).unwrap();
    let end_of = |store: &TwinStore| {
        let found = store.topics().bounds(b"T", 0).unwrap();
        found.map_or(0, |bounds| bounds.max)
    };
    assert!(end_of(&store) < 40, "{}", end_of(&store));
    let behind = store.replica().ends_behind_queues().unwrap();
    assert_eq!(
        behind.into_iter().collect::<Vec<_>>(),
        [("T".to_owned(), [(0, 40)].into())]
    );
    lead(&store);
    dispatch(&store);
    assert_eq!(
        (
            store.replica().ends_behind_queues().unwrap().len(),
            end_of(&store)
        ),
        (0, 40)
    );
}

#[test]
fn queue_offsets_go_on_behind_those_of_another_master() {
    let one = open(&TwinDisk::new(), OpenHow::RefuseDamage).unwrap();
    let other = open(&TwinDisk::new(), OpenHow::RefuseDamage).unwrap();
    lead(&one);
    other.replica().follow();
    other.replica().confirm(Some(0));
    for number in 0..2 {
        append(&one, number).unwrap();
    }
    // It looks at what queues do not have, and the role is refused behind that.
    ship(&one, &other);
    let refused = other.replica().lead(|_end| Err(Error::Closed));
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    for number in 2..7 {
        append(&one, number).unwrap();
    }
    ship(&one, &other);
    other.replica().confirm(None);
    dispatch(&other);
    lead(&other);
    assert_eq!(append(&other, 7).unwrap().1, 7);
    // A master that hands its role over, follows and leads again.
    one.replica().rest();
    one.replica().follow();
    ship(&other, &one);
    dispatch(&one);
    lead(&one);
    assert_eq!(append(&one, 8).unwrap().1, 8);
    // A later epoch of the same master, and nothing is in its queues yet.
    lead(&one);
    assert_eq!(append(&one, 9).unwrap().1, 9);
}

#[test]
fn a_confirm_offset_that_the_log_has_lost_does_not_come_back_with_other_bytes() {
    let disk = TwinDisk::new();
    let (store, ends) = filled(&disk);
    store.checkpoints().write().unwrap();
    let kept = ends[9];
    let cut = disk.fork();
    drop(store);
    let store = open(&cut, OpenHow::CutAt(kept)).unwrap();
    assert_eq!(store.replica().confirmed(), kept);
    store.replica().lead(|_end| Ok(())).unwrap();
    store.replica().confirm(Some(kept));
    for number in 0..40 {
        store.preparation().step().unwrap();
        append(&store, number).unwrap();
    }
    let killed = cut.fork();
    let store = open(&killed, OpenHow::RefuseDamage).unwrap();
    assert_eq!(
        store.replica().confirmed(),
        kept,
        "nobody has confirmed more"
    );
}

#[test]
fn a_lost_end_is_reported_until_it_is_settled_wherever_the_next_start_dies() {
    let disk = TwinDisk::new();
    let (store, _ends) = filled(&disk);
    let killed = disk.fork();
    drop(store);
    assert!(
        open(&killed.fork(), OpenHow::RefuseDamage)
            .unwrap()
            .report()
            .is_log_whole
    );
    let lost = killed.fork();
    lost.set_boot_id(Some(77));
    let mut call = 0;
    loop {
        call += 1;
        let dying = lost.fork();
        dying.stop_at_call(dying.calls() + call);
        drop(open(&dying, OpenHow::RefuseDamage));
        let has_died = dying.is_stopped();
        let store = open(&dying.fork(), OpenHow::RefuseDamage).unwrap();
        let report = store.report();
        assert!(
            !report.is_log_whole && !report.is_tail_certain,
            "call {call}"
        );
        if !has_died {
            break;
        }
    }
    let store = open(&lost, OpenHow::RefuseDamage).unwrap();
    lead(&store);
    dispatch(&store);
    assert!(store.close().unwrap());
    let store = open(&lost, OpenHow::RefuseDamage).unwrap();
    assert!(store.report().was_clean && !store.report().is_tail_certain);
    store.settle_end().unwrap();
    drop(store);
    let store = open(&lost, OpenHow::RefuseDamage).unwrap();
    assert!(store.report().is_log_whole && store.report().is_tail_certain);
}

#[test]
fn nothing_is_confirmed_that_the_disk_has_not_with_synchronous_flush() {
    let mut config = config();
    config.flush_disk_type = FlushDiskType::Sync;
    let clock = ManualClock::at(NOW_MS);
    let store = Store::open(TwinDisk::new(), clock, config, OpenHow::RefuseDamage).unwrap();
    lead(&store);
    let (first, _) = append(&store, 1).unwrap();
    store.durability().flush().unwrap();
    let (second, _) = append(&store, 2).unwrap();
    assert_eq!(
        store.replica().confirmed(),
        first,
        "nobody waits for a slave"
    );
    store.replica().confirm(Some(second));
    assert_eq!(store.replica().confirmed(), first);
    store.durability().flush().unwrap();
    assert_eq!(store.replica().confirmed(), second);
    store.abandon();
}

#[test]
fn readers_stop_at_the_confirm_offset_across_a_clean_stop_and_a_kill() {
    for is_killed in [false, true] {
        let disk = TwinDisk::new();
        let (store, ends) = filled(&disk);
        store.replica().confirm(Some(ends[9]));
        dispatch(&store);
        assert_eq!(store.replica().dispatched(), ends[9]);
        // In the middle of a record: as far as records are whole.
        store.replica().confirm(Some(ends[10] + 7));
        dispatch(&store);
        assert_eq!(store.replica().dispatched(), ends[10]);
        store.durability().flush().unwrap();
        if is_killed {
            store.checkpoints().write().unwrap();
            store.abandon();
        } else {
            assert!(
                !store.close().unwrap(),
                "the queues have not got everything"
            );
        }
        let store = open(&disk, OpenHow::RefuseDamage).unwrap();
        assert_eq!(store.replica().appended(), ends[39]);
        assert_eq!(store.replica().dispatched(), ends[10]);
        let bounds = store.topics().bounds(b"T", 0).unwrap().unwrap();
        assert_eq!(bounds.max, 11);
        store.replica().lead(|_end| Ok(())).unwrap();
        assert_eq!(
            append(&store, 40).unwrap().1,
            40,
            "behind what the log holds"
        );
        store.replica().confirm(None);
        dispatch(&store);
        let bounds = store.topics().bounds(b"T", 0).unwrap().unwrap();
        assert_eq!(bounds.max, 41);
        assert!(store.close().unwrap());
    }
}

#[test]
fn a_log_is_not_cut_before_its_first_file_and_stays_what_it_is() {
    let disk = TwinDisk::new();
    let (store, ends) = filled(&disk);
    dispatch(&store);
    store.durability().flush().unwrap();
    store.retention().remove_oldest(None, 1, None).unwrap();
    let start = store.replica().extent().start;
    assert!(start > ends[3]);
    let end = store.replica().appended();
    for cut in [disk.fork(), {
        assert!(store.close().unwrap());
        disk.fork()
    }] {
        let refused = open(&cut, OpenHow::CutAt(ends[3])).err().unwrap();
        let text = refused.to_string();
        assert!(matches!(refused, Error::NoRecord { .. }), "{text}");
        assert!(text.contains(&format!("begins at {start}")), "{text}");
        let store = open(&cut, OpenHow::RefuseDamage).unwrap();
        assert_eq!(store.replica().appended(), end);
        store.abandon();
    }
}

/// Kills whoever has a store open on this disk, lets another process open it and take what it finds for durable,
/// ends that, and takes the power away; the log that is left of `end` bytes.
fn left_after_kill_and_power_loss(disk: &TwinDisk, store: TwinStore, end: u64) -> Vec<u8> {
    drop(store);
    let store = open(disk, OpenHow::RefuseDamage).unwrap();
    assert_eq!(store.durability().synced(), end);
    drop(store);
    let history = disk.history();
    let synced_alone = format!("{}.w.x0", history.stop_points() - 1);
    let image = history.image(&synced_alone.parse().unwrap());
    let store = open(&image.disk(), OpenHow::RefuseDamage).unwrap();
    log_bytes(&store)
}

/// Writes down that the log, and what is made of it, is durable.
fn write_checkpoint(store: &TwinStore) {
    store.durability().flush().unwrap();
    dispatch(store);
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
}

#[test]
fn what_a_master_with_an_earlier_time_sent_is_durable_with_the_start_behind_a_kill() {
    let (master, ends) = filled(&TwinDisk::new());
    let mut bytes = log_bytes(&master);
    // As of an official master, whose clock was set back behind its first message.
    bytes[STORE_TIMESTAMP_AT..][..8].copy_from_slice(&AHEAD_MS.to_be_bytes());
    let disk = TwinDisk::new();
    let store = open(&disk, OpenHow::RefuseDamage).unwrap();
    store.replica().follow();
    store.replica().confirm(None);
    let first = WholeRecords {
        end: ends[0],
        store_ms: Some(AHEAD_MS),
    };
    let len = ends[0] as usize;
    store.replica().append(0, &[&bytes[..len]], first).unwrap();
    write_checkpoint(&store);
    ship(&master, &store);
    assert!(left_after_kill_and_power_loss(&disk, store, ends[39]) == bytes);
}

#[test]
fn a_checkpoint_covers_nothing_that_comes_behind_a_cut() {
    let disk = TwinDisk::new();
    let (store, ends) = filled(&disk);
    drop(store);
    let clock = ManualClock::at(AHEAD_MS);
    let store = Store::open(disk.clone(), clock, config(), OpenHow::RefuseDamage).unwrap();
    lead(&store);
    append(&store, 40).unwrap();
    write_checkpoint(&store);
    drop(store);
    let newest_covered_ms = |disk: &TwinDisk| {
        let file = disk.open("/store/checkpoint".as_ref(), Open::Read);
        let mut times = [0; 24];
        file.unwrap().read_at(&mut times, 0).unwrap();
        let times = times.as_chunks::<8>().0.iter();
        times.map(|time| i64::from_be_bytes(*time)).max().unwrap()
    };
    assert_eq!(newest_covered_ms(&disk), AHEAD_MS);
    // In the middle of a file, and where one begins.
    for kept in [ends[12], FILE_LEN_BYTES] {
        let cut = disk.fork();
        let store = open(&cut, OpenHow::CutAt(kept)).unwrap();
        assert_eq!(store.replica().appended(), kept);
        assert_eq!(newest_covered_ms(&cut), NOW_MS, "{kept}");
        assert_eq!(store.replica().extent().last_store_ms, NOW_MS, "{kept}");
    }
}

#[test]
fn whenever_the_power_goes_during_a_cut_the_log_opens_and_is_cut_again() {
    let disk = TwinDisk::new();
    let (store, ends) = filled(&disk);
    dispatch(&store);
    assert!(store.close().unwrap());
    disk.forget();
    let at = ends[12];
    let store = open(&disk, OpenHow::CutAt(at)).unwrap();
    assert_eq!(store.replica().appended(), at);
    let history = disk.history();
    store.abandon();
    let bound = Bound {
        images_max: 4,
        ..Bound::default()
    };
    let mut images = 0;
    for stop in 0..history.stop_points() {
        let all = history.images(stop, &bound).chain([history.killed(stop)]);
        for image in all {
            images += 1;
            let (disk, id) = (image.disk(), image.id());
            let store = open(&disk, OpenHow::RefuseDamage);
            let store = store.unwrap_or_else(|error| panic!("{id}: {error}"));
            let end = store.replica().appended();
            assert!(
                end == at || ends.contains(&end) && end > at || end.is_multiple_of(FILE_LEN_BYTES),
                "{id}: {end}"
            );
            store.abandon();
            let store = open(&disk, OpenHow::CutAt(at));
            let store = store.unwrap_or_else(|error| panic!("{id}: {error}"));
            assert_eq!(store.replica().appended(), at, "{id}");
            assert!(store.replica().dispatched() <= at, "{id}");
            lead(&store);
            dispatch(&store);
            assert_eq!(append(&store, 99).unwrap(), (ends[13], 13), "{id}");
            store.abandon();
        }
    }
    assert!(images > 100, "{images}");
}

#[test]
fn a_master_at_rest_takes_no_append_and_goes_on_or_follows() {
    let disk = TwinDisk::new();
    let store = open(&disk, OpenHow::RefuseDamage).unwrap();
    lead(&store);
    append(&store, 1).unwrap();
    let end = store.replica().appended();
    store.replica().rest();
    let refused = append(&store, 2).unwrap_err();
    assert!(refused.to_string().contains("handed over"), "{refused}");
    assert_eq!(store.replica().appended(), end);
    store.replica().go_on();
    append(&store, 3).unwrap();
    store.replica().rest();
    store.replica().follow();
    assert!(store.replica().follows());
    let refused = append(&store, 4).unwrap_err();
    // The reason is that of a slave alone: it heals when the store leads again.
    assert!(!refused.to_string().contains("handed over"), "{refused}");
    lead(&store);
    append(&store, 5).unwrap();
}

#[test]
fn a_master_that_handed_over_grows_by_the_bytes_of_the_next_one() {
    let (first_disk, heir_disk) = (TwinDisk::new(), TwinDisk::new());
    let first = open(&first_disk, OpenHow::RefuseDamage).unwrap();
    let heir = open(&heir_disk, OpenHow::RefuseDamage).unwrap();
    lead(&first);
    for number in 0..5 {
        append(&first, number).unwrap();
    }
    heir.replica().follow();
    ship(&first, &heir);
    first.replica().rest();
    lead(&heir);
    for number in 5..30 {
        append(&heir, number).unwrap();
    }
    first.replica().follow();
    ship(&heir, &first);
    for store in [&first, &heir] {
        store.replica().confirm(None);
        dispatch(store);
    }
    let bounds = |store: &TwinStore| store.topics().bounds(b"T", 0).unwrap().unwrap();
    assert_eq!(bounds(&first), bounds(&heir));
    assert_eq!(bounds(&first).max, 30);
}

/// Everything that a log holds.
fn log_bytes(store: &TwinStore) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(chunk) = store.replica().range(out.len() as u64, 1 << 20).unwrap() {
        out.extend_from_slice(chunk.bytes.as_bytes());
    }
    out
}

/// Copies what `to` lacks of the log of `from`, whole records of one file at a time.
fn ship(from: &TwinStore, to: &TwinStore) {
    while to.replica().appended() < from.replica().appended() {
        let at = to.replica().appended();
        let chunk = from.replica().range(at, 1 << 20).unwrap().unwrap();
        let bytes = chunk.bytes.as_bytes();
        let whole = WholeRecords {
            end: at + bytes.len() as u64,
            store_ms: Some(1),
        };
        to.replica().append(at, &[bytes], whole).unwrap();
    }
}
