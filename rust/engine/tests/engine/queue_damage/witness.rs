//! Killed since the last clean stop: what that knew of the queues shows which of them are not
//! whole.

use std::path::Path;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};

use super::{
    COUNT, append, check, errors, file, killed, notice, open, problems, queue_dir, read,
    remove_dir, stopped, zero,
};

/// Stopped once, then killed after work in other queues: the end of the log shows nothing of
/// [`QUEUES`].
fn stopped_and_killed() -> (TwinDisk, ManualClock) {
    let (disk, clock) = stopped();
    let store = open(&disk, &clock);
    clock.advance(Duration::from_secs(10));
    // More than the three seconds of records that a start dispatches again.
    for number in 0..700 {
        append(&store, &clock, ("Last", 0), number);
    }
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    store.abandon();
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_some());
    (disk, clock)
}

const WITNESS: &str = "/store/queues.manifest.before";

#[test]
fn after_a_kill_lost_queues_are_known_from_the_last_clean_stop() {
    for lost in 0..6 {
        let (disk, clock) = stopped_and_killed();
        let queues = match lost {
            0 => {
                remove_dir(&disk, &queue_dir(("T", 0)));
                1
            }
            1 => {
                remove_dir(&disk, Path::new("/store/consumequeue/T"));
                2
            }
            2 => {
                remove_dir(&disk, Path::new("/store/consumequeue"));
                4
            }
            number => {
                disk.unlink(&file(("T", 0), number - 3)).unwrap();
                1
            }
        };
        let notice = format!("{queues} queues were not whole on the disk");
        check(&open(&disk, &clock), &clock, COUNT, &notice);
        assert_eq!(problems(&disk), [""; 0], "{lost}");
        check(&open(&disk, &clock), &clock, COUNT + 1, "");
    }
}

#[test]
fn after_a_kill_blank_last_units_are_known_from_the_last_clean_stop() {
    for units in [249..250, 210..250, 200..250, 150..250, 0..250] {
        let (disk, clock) = stopped_and_killed();
        zero(&disk, ("T", 0), units.clone());
        let count = (units.end - units.start) as usize;
        check(&open(&disk, &clock), &clock, COUNT, &notice(1, count));
        assert_eq!(problems(&disk), [""; 0], "{units:?}");
    }
}

#[test]
fn a_kill_before_the_first_change_leaves_the_manifest_as_the_witness() {
    let (disk, clock) = stopped();
    open(&disk, &clock).abandon();
    remove_dir(&disk, &queue_dir(("T", 0)));
    let store = open(&disk, &clock);
    check(&store, &clock, COUNT, "were not whole on the disk");
}

#[test]
fn a_deleted_topic_does_not_come_back() {
    let (disk, clock) = stopped_and_killed();
    let store = open(&disk, &clock);
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_some());
    store.topics().delete_topic(b"T").unwrap();
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_none());
    append(&store, &clock, ("Last", 0), 0);
    store.abandon();
    let store = open(&disk, &clock);
    for queue_id in 0..2 {
        assert_eq!(store.topics().bounds(b"T", queue_id).unwrap(), None);
    }
    assert_eq!(read(&store, ("Other", 0)).len(), COUNT);
    assert!(store.close().unwrap());
}

#[test]
fn the_witness_is_void_when_another_broker_has_started() {
    let (disk, clock) = stopped_and_killed();
    let lock = disk.open(Path::new("/store/lock"), Open::Write).unwrap();
    lock.write_at(b"lock", 0).unwrap();
    drop(lock);
    remove_dir(&disk, Path::new("/store/consumequeue/T"));
    let store = open(&disk, &clock);
    assert_eq!(store.topics().bounds(b"T", 0).unwrap(), None);
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_none());
    store.abandon();
}

#[test]
fn a_lost_queue_without_records_goes_on_where_it_ended() {
    let (disk, clock) = stopped_and_killed();
    let store = open(&disk, &clock);
    let removed = store.retention().remove_oldest(None, 2, None).unwrap();
    assert!(removed.log_files > 0);
    store.abandon();
    remove_dir(&disk, &queue_dir(("T", 0)));
    let store = open(&disk, &clock);
    let bounds = store.topics().bounds(b"T", 0).unwrap().unwrap();
    assert_eq!(bounds.max, COUNT as u64);
    let left = read(&store, ("T", 0));
    assert_eq!(left.len(), (bounds.max - bounds.min) as usize);
    assert_eq!(append(&store, &clock, ("T", 0), COUNT), COUNT as u64);
    assert!(errors(&store).is_empty(), "{:?}", errors(&store));
    assert!(store.close().unwrap());
    assert_eq!(problems(&disk), [""; 0]);
}

#[test]
fn after_a_kill_queues_made_since_the_last_clean_stop_are_known_from_the_checkpoint() {
    for dir in ["T/0", "T", ""] {
        let (disk, clock) = killed(&[]);
        let dir = Path::new("/store/consumequeue").join(dir);
        remove_dir(&disk, &dir);
        let notice = "were not whole on the disk";
        check(&open(&disk, &clock), &clock, COUNT, notice);
        assert_eq!(problems(&disk), [""; 0], "{}", dir.display());
    }
}

#[test]
fn a_topic_that_is_deleted_is_not_in_the_next_witness_and_the_others_are() {
    let (disk, clock) = stopped_and_killed();
    let store = open(&disk, &clock);
    store.topics().delete_topic(b"T").unwrap();
    clock.advance(Duration::from_secs(10));
    for number in 0..700 {
        append(&store, &clock, ("Last", 0), number);
    }
    while store.dispatching().step().unwrap() {}
    store.durability().flush().unwrap();
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_none());
    store.checkpoints().write().unwrap();
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_some());
    store.abandon();
    remove_dir(&disk, &queue_dir(("Other", 0)));
    let store = open(&disk, &clock);
    for queue_id in 0..2 {
        assert_eq!(store.topics().bounds(b"T", queue_id).unwrap(), None);
    }
    assert_eq!(read(&store, ("Other", 0)).len(), COUNT);
    assert!(store.close().unwrap());
}

#[test]
fn a_checkpoint_without_new_units_writes_no_witness() {
    let (disk, clock) = stopped_and_killed();
    let store = open(&disk, &clock);
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    let first = disk.read(Path::new(WITNESS)).unwrap();
    disk.unlink(Path::new(WITNESS)).unwrap();
    store.checkpoints().write().unwrap();
    assert!(disk.stat(Path::new(WITNESS)).unwrap().is_none());
    append(&store, &clock, ("Last", 0), 700);
    while store.dispatching().step().unwrap() {}
    store.checkpoints().note_durable().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    store.checkpoints().write().unwrap();
    assert_ne!(disk.read(Path::new(WITNESS)).unwrap(), first);
    store.abandon();
}
