//! A slave that copies whole files of its master's log: over real sockets, again after each end, and on the
//! twin of the disk whenever the power goes meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pairs;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::{Bound, TwinDisk};
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};
use mqcore_replica::refill::GREETING;
use mqcore_shipping::{Filling, Master, Refill, RefillPace, Slave, Source};

use pairs::{Dir, HOW, first_end, log_bytes, open, pair, put, until};

const FILE: u64 = 1 << 20;

/// A master's log of more than four files, all of it on the disk.
fn master_of(dir: &Dir) -> (Arc<pairs::RealStore>, u64) {
    let store = open(&dir.0, "SYNC_FLUSH");
    let mut end = 0;
    while end < 4 * FILE + 50_000 {
        end = put(&store, 100);
    }
    store.durability().flush().unwrap();
    (store, end)
}

fn fill(
    master: &Master,
    filling: &Filling<mqcore_engine::disk::RealDisk, mqcore_engine::clock::SystemClock>,
) {
    let (near, far) = pair();
    master.add("a fresh slave", far.into()).unwrap();
    filling.add("the master", near.into()).unwrap();
}

#[test]
fn a_blank_slave_gets_the_whole_log_and_then_follows() {
    let (one, two) = (Dir::new("refill-one"), Dir::new("refill-two"));
    let (store, end) = master_of(&one);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let copy = open(&two.0, "ASYNC_FLUSH");
    let slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    let filling = Filling::new(Arc::clone(&copy), None).unwrap();
    assert!(filling.may_begin());
    fill(&master, &filling);
    fill(&master, &filling);
    let mut reasons = Vec::new();
    until("both connections have ended", || {
        reasons.extend(filling.ended().take().into_iter().map(|link| link.why));
        reasons.len() == 2
    });
    assert_eq!(reasons, ["", ""]);
    filling.stop().unwrap();
    let progress = filling.progress();
    assert!(progress.is_over);
    assert_eq!(
        (progress.log_end, progress.received_bytes),
        (4 * FILE, 4 * FILE)
    );
    assert!(!two.0.join("commitlog.refill").exists());
    assert!(master.slaves().is_empty(), "who copies files is no slave");
    let (near, far) = pair();
    master.add("the slave", far.into()).unwrap();
    slave.follow("the master", near.into()).unwrap();
    until("the slave has everything", || {
        copy.replica().appended() == end
    });
    let more = put(&store, 500);
    until("and what comes later", || copy.replica().appended() == more);
    assert_eq!(log_bytes(&copy, 0, more), log_bytes(&store, 0, more));
    until("the queues have it", || copy.replica().dispatched() == more);
    slave.stop();
    master.stop();
    assert!(copy.close().unwrap());
    store.close().unwrap();
}

#[test]
fn a_log_that_grows_beyond_a_file_before_it_is_followed_comes_from_its_start() {
    let (one, two) = (Dir::new("refill-early-1"), Dir::new("refill-early-2"));
    let (store, end) = master_of(&one);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let copy = open(&two.0, "ASYNC_FLUSH");
    let slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    let (near, far) = pair();
    master.add("the slave", far.into()).unwrap();
    slave.follow_from_start("the master", near.into()).unwrap();
    until("the slave has everything", || {
        copy.replica().appended() == end
    });
    assert_eq!(copy.replica().extent().start, 0);
    assert_eq!(log_bytes(&copy, 0, end), log_bytes(&store, 0, end));
    slave.stop();
    master.stop();
    copy.close().unwrap();
    store.close().unwrap();
}

#[test]
fn what_is_whole_is_not_copied_again_and_what_differs_is() {
    let (one, two) = (Dir::new("refill-again-1"), Dir::new("refill-again-2"));
    let (store, _end) = master_of(&one);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let copy = open(&two.0, "ASYNC_FLUSH");
    copy.replica().follow();
    // As a kill leaves them: the second file whole, the third with a wrong byte, the fourth in part.
    let staged = copy.replica().refill_dir();
    std::fs::create_dir_all(&staged).unwrap();
    let name = |number: u64| format!("{:020}", number * FILE);
    for number in [1, 2] {
        let from = one.0.join("commitlog").join(name(number));
        std::fs::copy(from, staged.join(name(number))).unwrap();
    }
    let wrong = std::fs::OpenOptions::new()
        .write(true)
        .open(staged.join(name(2)))
        .unwrap();
    std::os::unix::fs::FileExt::write_at(&wrong, b"?", 5_000).unwrap();
    std::fs::write(staged.join(format!("{}.part", name(3))), b"half").unwrap();
    let filling = Filling::new(Arc::clone(&copy), None).unwrap();
    fill(&master, &filling);
    assert_eq!(first_end(filling.ended()), "");
    filling.stop().unwrap();
    let progress = filling.progress();
    assert_eq!(
        (progress.kept_bytes, progress.received_bytes),
        (FILE, 3 * FILE)
    );
    assert_eq!(
        log_bytes(&copy, 0, 4 * FILE),
        log_bytes(&store, 0, 4 * FILE)
    );

    // A log that has other bytes in its last file is no copy.
    let other = Dir::new("refill-again-3");
    let stranger = open(&other.0, "SYNC_FLUSH");
    while put(&stranger, 50) < 2 * FILE {}
    let filling = Filling::new(Arc::clone(&stranger), None).unwrap();
    assert!(!filling.may_begin(), "it ends in the middle of a file");
    master.stop();
    copy.close().unwrap();
    store.close().unwrap();
    stranger.close().unwrap();
}

#[test]
fn files_are_kept_while_they_are_copied_and_given_up_with_the_connection() {
    let dir = Dir::new("refill-kept");
    let (store, _end) = master_of(&dir);
    until("queues have it", || store.replica().dispatched() > 4 * FILE);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let (mut near, far) = pair();
    master.add("a fresh slave", far.into()).unwrap();
    near.write_all(&GREETING[..3]).unwrap();
    near.write_all(&GREETING[3..]).unwrap();
    let mut greeting = [0; 8];
    near.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, GREETING);
    let list = [&1i32.to_be_bytes()[..], &[0; 8], &FILE.to_be_bytes()].concat();
    near.write_all(&list).unwrap();
    let mut answer = [0; 32];
    near.read_exact(&mut answer).unwrap();
    assert_eq!(answer[16..24], (4 * FILE).to_be_bytes());
    let expired = Some(i64::MAX);
    let removed = store.retention().remove_oldest(expired, 10, None).unwrap();
    assert_eq!(removed.log_files, 1, "the one that it has already");
    assert_eq!(store.replica().extent().start, FILE);
    // Where the disk is full the oldest goes all the same.
    let removed = store.retention().remove_oldest(None, 1, None).unwrap();
    assert_eq!(removed.log_files, 1);
    let copy = [
        &2i32.to_be_bytes()[..],
        &FILE.to_be_bytes(),
        &FILE.to_be_bytes(),
    ]
    .concat();
    near.write_all(&copy).unwrap();
    near.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], 1i32.to_be_bytes(), "it is gone");
    drop(near);
    until("nothing is held any more", || {
        store
            .retention()
            .remove_oldest(expired, 10, None)
            .unwrap()
            .log_files
            == 2
    });
    master.stop();
    store.close().unwrap();
}

type TwinStore = Store<TwinDisk, ManualClock>;

const SMALL_FILE: u64 = 73_728;

fn open_twin(disk: &TwinDisk) -> Arc<TwinStore> {
    let pairs = [
        ("storePathRootDir", "/store"),
        ("mappedFileSizeCommitLog", "73728"),
        ("mappedFileSizeConsumeQueue", "2000"),
        ("maxMessageSize", "4096"),
        ("maxHashSlotNum", "10"),
        ("maxIndexNum", "40"),
    ];
    let config = StoreConfig::from_pairs(pairs).unwrap().0;
    let clock = ManualClock::at(1_000_000_000);
    Arc::new(Store::open(disk.clone(), clock, config, OpenHow::RefuseDamage).unwrap())
}

fn twin_master(first_files_gone: usize) -> Arc<TwinStore> {
    let store = open_twin(&TwinDisk::new());
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    for number in 0..70u8 {
        let body = [number; 4_000];
        let message = Message {
            born_timestamp_ms: 1,
            ..Message::of("T", 0, &body, host)
        };
        store.preparation().step().unwrap();
        store.writer().append(&message).unwrap();
    }
    store.durability().flush().unwrap();
    while store.dispatching().step().unwrap() {}
    let removed = store
        .retention()
        .remove_oldest(None, first_files_gone, None)
        .unwrap();
    assert_eq!(removed.log_files, first_files_gone);
    store
}

fn bytes_of(store: &TwinStore, from: u64, to: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while from + (out.len() as u64) < to {
        let at = from + out.len() as u64;
        let chunk = store
            .replica()
            .range(at, (to - at) as usize)
            .unwrap()
            .unwrap();
        out.extend_from_slice(chunk.bytes.as_bytes());
    }
    out
}

/// Refills a store from another one over a connection.
fn refill(
    copy: &Arc<TwinStore>,
    master: &Arc<TwinStore>,
) -> Result<Refill<TwinDisk, ManualClock>, String> {
    let (mut near, mut far): (TcpStream, TcpStream) = pair();
    let store = Arc::clone(master);
    let serving = std::thread::spawn(move || {
        let mut greeting = [0; 8];
        far.read_exact(&mut greeting).unwrap();
        far.write_all(&GREETING).unwrap();
        Source::new(store, None, Arc::new(RefillPace::new(None))).serve(&mut far, || false)
    });
    copy.replica().follow();
    let refill = Refill::new(Arc::clone(copy), None);
    let ran = refill.run(&mut near, || false);
    drop(near);
    serving.join().unwrap();
    ran.and_then(|()| refill.clear()).map(|()| refill)
}

#[test]
fn whenever_the_power_goes_during_a_refill_it_goes_on_without_a_hole_or_a_wrong_byte() {
    for first_files_gone in [0, 1] {
        let master = twin_master(first_files_gone);
        let (start, end) = (master.replica().extent().start, 3 * SMALL_FILE);
        assert_eq!(start, first_files_gone as u64 * SMALL_FILE);
        let expected = bytes_of(&master, start, end);
        let disk = TwinDisk::new();
        let store = open_twin(&disk);
        store.preparation().step().unwrap();
        disk.forget();
        refill(&store, &master).unwrap();
        assert_eq!(store.replica().appended(), end);
        assert_eq!(bytes_of(&store, start, end), expected);
        let history = disk.history();
        store.abandon();
        let bound = Bound {
            images_max: 4,
            ..Bound::default()
        };
        let (mut images, mut resumed) = (0, 0);
        for stop in 0..history.stop_points() {
            let all = history.images(stop, &bound).chain([history.killed(stop)]);
            for image in all {
                images += 1;
                let (disk, id) = (image.disk(), image.id());
                let store = open_twin(&disk);
                let found = store.replica().appended();
                assert!(
                    found == 0 || found.is_multiple_of(SMALL_FILE) && found > start,
                    "{id}: the log ends at {found}"
                );
                if found > 0 {
                    let ours = bytes_of(&store, start, found);
                    assert!(ours == expected[..ours.len()], "{id}: other bytes");
                }
                let done = refill(&store, &master).unwrap_or_else(|why| panic!("{id}: {why}"));
                assert_eq!(store.replica().appended(), end, "{id}");
                assert!(
                    bytes_of(&store, start, end) == expected,
                    "{id}: other bytes at the end"
                );
                let left = end - found.max(start);
                resumed += usize::from(done.progress().received_bytes < left);
                while store.dispatching().step().unwrap() {}
                assert_eq!(store.replica().dispatched(), end, "{id}");
                store.abandon();
            }
        }
        assert!(images > 60, "{images}");
        assert!(resumed > 0, "no file was there and whole");
    }
}

#[test]
fn a_disk_that_loses_a_byte_on_the_way_is_found_by_the_hash() {
    let master = twin_master(0);
    let disk = TwinDisk::new();
    let store = open_twin(&disk);
    refill(&store, &master).unwrap();
    store.abandon();
    // Of a file that lies beside the log, whole by its length.
    let disk = TwinDisk::new();
    let store = open_twin(&disk);
    let dir = store.replica().refill_dir();
    disk.create_dir_all(&dir).unwrap();
    let path = dir.join("00000000000000000000");
    let file = disk.open(Path::new(&path), Open::CreateNew).unwrap();
    let mut bytes = bytes_of(&master, 0, SMALL_FILE);
    bytes[10_000] ^= 1;
    file.write_at(&bytes, 0).unwrap();
    let done = refill(&store, &master).unwrap();
    assert_eq!(done.progress().received_bytes, 3 * SMALL_FILE);
    assert!(bytes_of(&store, 0, 3 * SMALL_FILE) == bytes_of(&master, 0, 3 * SMALL_FILE));
    store.abandon();
}
