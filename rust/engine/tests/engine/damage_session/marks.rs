//! What the mark of the session shows of flips, lost files and other starts of the machine.

use std::path::Path;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::Error;
use mqcore_engine::store::{OpenHow, Store, WholeRecords};
use mqcore_record::{Host, Message};

use super::*;

#[test]
fn a_flipped_bit_after_a_kill_is_refused_with_the_offset_and_what_follows() {
    for left in [Left::Killed, Left::HalfNoted, Left::Noted, Left::Dispatched] {
        let (disk, offsets) = stored(left, 50, 300, &[]);
        assert!(disk.flip_bit(Path::new(LOG), offsets[10] + 200, 3));
        let (physical_offset, whole, _) = refused(&disk);
        assert_eq!((physical_offset, whole), (offsets[10], 39), "{left:?}");
        let error = open_with(&disk, OpenHow::RefuseDamage, &[]).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("39 whole records follow"), "{text}");
        assert!(
            text.contains("mqcore store recover /store --keep"),
            "{text}"
        );
        assert!(
            text.ends_with("`mqcore store recover /store --cut`"),
            "{text}"
        );
    }
}

#[test]
fn what_is_cut_on_demand_is_written_down_and_reported() {
    let (disk, offsets) = stored(Left::Noted, 50, 300, &[]);
    assert!(disk.flip_bit(Path::new(LOG), offsets[10] + 200, 3));
    let store = open_with(&disk, OpenHow::CutDamage, &[]).unwrap();
    let cut = &store.report().cut;
    assert_eq!(
        (cut.end, cut.whole_records, cut.missing_bytes),
        (offsets[10], 39, 0)
    );
    let reported = errors(&store);
    assert_eq!(reported.len(), 1, "{reported:?}");
    for part in [
        "39 whole records",
        &format!("{} bytes", cut.kept_aside_bytes),
        &format!("{:020}", offsets[10]),
    ] {
        assert!(reported[0].contains(part), "{part} is not in {reported:?}");
    }
    let record = record_of(&disk, &format!("{:020}.json", offsets[10]));
    assert_eq!(record["kind"], "cut");
    assert_eq!(record["physical_offset"], offsets[10]);
    assert_eq!(record["bytes"], cut.kept_aside_bytes);
    assert_eq!(record["whole_records"], 39);
    assert_eq!(
        record["kept_in"][0],
        format!("truncated/{:020}", offsets[10])
    );
    assert_eq!(record["at_ms"], 2_000_000_000_i64);
    assert_eq!(record["is_done"], true);
    store.abandon();
    let again = open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
    assert!(!again.report().cut.is_loss());
}

#[test]
fn cuts_at_one_offset_do_not_take_each_others_names() {
    let (disk, offsets) = stored(Left::Noted, 20, 300, &[]);
    for again in 1..4 {
        assert!(disk.flip_bit(Path::new(LOG), offsets[5] + 200, 3));
        let store = open_with(&disk, OpenHow::CutDamage, &[]).unwrap();
        assert_eq!(store.report().cut.end, offsets[5]);
        assert_eq!(
            disk.list(Path::new("/store/truncated")).unwrap().len(),
            2 * again
        );
        append(&store, "T", 0, &body(again, 300)).unwrap();
        append(&store, "T", 0, &body(again, 300)).unwrap();
        store.durability().flush().unwrap();
        store.abandon();
    }
}

#[test]
fn after_another_start_of_the_machine_what_was_durable_is_refused_and_the_rest_cut_and_reported() {
    let (disk, offsets) = stored(Left::HalfNoted, 50, 300, &[]);
    disk.set_boot_id(Some(2));
    let below = disk.fork();
    assert!(below.flip_bit(Path::new(LOG), offsets[10] + 200, 3));
    assert_eq!(refused(&below).0, offsets[10]);
    let above = disk.fork();
    assert!(above.flip_bit(Path::new(LOG), offsets[30] + 200, 3));
    let store = open_with(&above, OpenHow::RefuseDamage, &[]).unwrap();
    assert_eq!(store.report().cut.end, offsets[30]);
    assert_eq!(store.report().cut.whole_records, 19);
    assert_eq!(errors(&store).len(), 1);
    // The log simply ends: below what was durable that is damage, above it is not.
    for (from, is_refused) in [(20, true), (25, false)] {
        let zeroed = disk.fork();
        let file = zeroed.open(Path::new(LOG), Open::Write).unwrap();
        let rest = vec![0; (SEGMENT - offsets[from]) as usize];
        file.write_at(&rest, offsets[from]).unwrap();
        if is_refused {
            let (physical_offset, whole, why) = refused(&zeroed);
            assert_eq!((physical_offset, whole), (offsets[from], 0));
            assert!(why.contains(&offsets[25].to_string()), "{why}");
        } else {
            let store = open_with(&zeroed, OpenHow::RefuseDamage, &[]).unwrap();
            assert!(!store.report().cut.is_loss());
        }
    }
}

#[test]
fn the_newest_log_file_that_is_gone_is_missed_after_every_end() {
    for left in [Left::Noted, Left::Dispatched, Left::Stopped] {
        for boot_id in [1, 2] {
            let (disk, offsets) = stored(left, 200, 1_000, &[]);
            disk.set_boot_id(Some(boot_id));
            let gone = format!("/store/commitlog/{SEGMENT:020}");
            disk.unlink(Path::new(&gone)).unwrap();
            let (physical_offset, whole, why) = refused(&disk);
            assert_eq!((physical_offset, whole), (SEGMENT, 0), "{left:?}");
            let end = offsets[199] + (offsets[199] - offsets[198]);
            let missing = end - SEGMENT;
            assert!(why.contains(&format!("{missing} bytes")), "{left:?}: {why}");
            let store = open_with(&disk, OpenHow::CutDamage, &[]).unwrap();
            assert_eq!(store.report().cut.missing_bytes, missing);
            assert_eq!(errors(&store).len(), 1);
            let record = record_of(&disk, &format!("{SEGMENT:020}.json"));
            assert_eq!(record["missing_bytes"], missing);
            store.abandon();
            open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
        }
    }
}

#[test]
fn without_a_mark_the_queues_miss_the_newest_log_file_of_a_stopped_store() {
    let (disk, _) = stored(Left::Stopped, 200, 1_000, &[]);
    disk.unlink(Path::new("/store/mqcore.session")).unwrap();
    let whole = disk.fork();
    assert!(
        !open_with(&whole, OpenHow::RefuseDamage, &[])
            .unwrap()
            .report()
            .cut
            .is_loss()
    );
    disk.unlink(Path::new(&format!("/store/commitlog/{SEGMENT:020}")))
        .unwrap();
    assert_eq!(refused(&disk).0, SEGMENT);
}

#[test]
fn a_log_file_in_the_middle_that_is_gone_is_refused() {
    let (disk, _) = stored(Left::Stopped, 300, 1_000, &[]);
    disk.unlink(Path::new(&format!("/store/commitlog/{SEGMENT:020}")))
        .unwrap();
    let (physical_offset, whole, why) = refused(&disk);
    assert_eq!(physical_offset, SEGMENT);
    assert!(whole > 40, "{whole}");
    assert!(why.contains("a file of the log is missing"), "{why}");
    let store = open_with(&disk, OpenHow::CutDamage, &[]).unwrap();
    let cut = &store.report().cut;
    assert_eq!(cut.end, SEGMENT);
    assert_eq!(
        (cut.kept_aside_bytes, cut.missing_bytes),
        (SEGMENT, SEGMENT)
    );
    assert_eq!(cut.whole_records, whole);
    assert_eq!(cut.recorded_in.len(), 1);
    assert_eq!(errors(&store).len(), 1);
    let record = record_of(&disk, &format!("{SEGMENT:020}.json"));
    assert_eq!(
        record["kept_in"][0],
        format!("truncated/{:020}", 2 * SEGMENT)
    );
    store.abandon();
    open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
}

#[test]
fn what_an_official_broker_cut_or_added_since_is_not_refused() {
    // It ended its recovery before the mark, and went on from there with shorter records.
    let (disk, offsets) = stored(Left::Noted, 50, 300, &[]);
    official_start(&disk);
    let stale = disk.fork();
    let file = stale.open(Path::new(LOG), Open::Write).unwrap();
    file.write_at(&[0; 100], offsets[30]).unwrap();
    let store = open_with(&stale, OpenHow::RefuseDamage, &[]).unwrap();
    assert_eq!(store.report().cut.end, offsets[30]);
    assert!(store.report().cut.is_loss(), "cut and told");
    // The same without its start is damage.
    let file = stale.open(Path::new(LOG), Open::Write).unwrap();
    file.write_at(&[0; 100], offsets[20]).unwrap();
    drop(store);
    assert_eq!(refused(&stale).0, offsets[20]);
}

#[test]
fn a_torn_last_record_is_cut_and_reported_after_a_kill() {
    let (disk, offsets) = stored(Left::HalfNoted, 50, 300, &[]);
    let file = disk.open(Path::new(LOG), Open::Write).unwrap();
    file.write_at(&[0; 250], offsets[49] + 150).unwrap();
    let store = open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
    assert_eq!(store.report().cut.end, offsets[49]);
    assert_eq!(store.report().cut.whole_records, 0);
    assert_eq!(errors(&store).len(), 1);
}

#[test]
fn zeros_that_a_client_sent_are_no_torn_text_once_they_were_durable() {
    let disk = TwinDisk::new();
    let clock = ManualClock::at(1_000_000_000);
    let how = OpenHow::RefuseDamage;
    let store = Store::open(disk.clone(), clock, config(&[]), how).unwrap();
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let mut properties = b"A\x01".to_vec();
    properties.extend([0; 1_500]);
    for _ in 0..5 {
        let message = Message {
            born_timestamp_ms: 1,
            properties: &properties,
            ..Message::of("T", 0, b"body", host)
        };
        store.writer().append(&message).unwrap();
    }
    store.durability().flush().unwrap();
    store.checkpoints().note_durable().unwrap();
    store.abandon();
    disk.set_boot_id(Some(2));
    let store = open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
    assert_eq!(store.report().records, 5);
    assert!(!store.report().cut.is_loss());
}

#[test]
fn what_a_slave_lacks_of_its_last_record_is_missed_where_the_rest_was_durable() {
    let (source, _) = stored(Left::Noted, 0, 300, &[]);
    let store = open_with(&source, OpenHow::RefuseDamage, &[]).unwrap();
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let mut offsets = Vec::new();
    for _ in 0..5 {
        let message = Message {
            born_timestamp_ms: 1,
            properties: b"NAME\x01a value of some length, so that it can lose its end",
            ..Message::of("T", 0, b"body", host)
        };
        offsets.push(store.writer().append(&message).unwrap().physical_offset);
    }
    let (last, end) = (offsets[4], store.replica().appended());
    let log = source.read(Path::new(LOG)).unwrap();
    for lacking in 1..50 {
        let (disk, _) = stored(Left::Noted, 0, 300, &[]);
        let copy = open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
        let came = &log[..(end - lacking) as usize];
        let whole = WholeRecords {
            end: last,
            store_ms: Some(1_000_000_000),
        };
        copy.replica().append(0, &[came], whole).unwrap();
        copy.durability().flush().unwrap();
        copy.checkpoints().note_durable().unwrap();
        copy.abandon();
        disk.set_boot_id(Some(2));
        let copy = open_with(&disk, OpenHow::RefuseDamage, &[]).unwrap();
        assert_eq!(
            copy.replica().appended(),
            last,
            "{lacking} bytes are lacking"
        );
    }
}

#[test]
fn a_cut_that_is_interrupted_anywhere_is_finished_and_reported() {
    let (disk, offsets) = stored(Left::HalfNoted, 20, 300, &[]);
    let file = disk.open(Path::new(LOG), Open::Write).unwrap();
    file.write_at(&[0; 150], offsets[19] + 150).unwrap();
    let garbage = disk.read(Path::new(LOG)).unwrap()[offsets[19] as usize..].to_vec();
    let used = garbage.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for call in 1.. {
        let image = disk.fork();
        image.stop_at_call(call);
        let is_through = open_with(&image, OpenHow::RefuseDamage, &[]).is_ok();
        image.heal();
        let store = open_with(&image, OpenHow::RefuseDamage, &[]).unwrap();
        assert_eq!(store.files().positions.appended.position(), offsets[19]);
        let name = format!("{:020}", offsets[19]);
        let copy = image
            .read(&Path::new("/store/truncated").join(&name))
            .unwrap();
        assert_eq!(copy, garbage[..used], "stopped at call {call}");
        let record = record_of(&image, &format!("{name}.json"));
        assert_eq!(record["is_done"], true, "stopped at call {call}");
        assert_eq!(record["bytes"], used);
        if is_through {
            assert!(call > 40);
            break;
        }
    }
}

#[test]
fn the_mark_follows_the_flush_by_itself() {
    let disk = TwinDisk::new();
    let clock = ManualClock::at(1_000_000_000);
    let how = OpenHow::RefuseDamage;
    let sync = [
        ("flushDiskType", "SYNC_FLUSH"),
        ("flushIntervalConsumeQueue", "1"),
    ];
    let store = Store::open(disk.clone(), clock.clone(), config(&sync), how).unwrap();
    let store = std::sync::Arc::new(store);
    store.start().unwrap();
    let (physical_offset, _) = append(&store, "T", 0, b"body").unwrap();
    let end = store.files().positions.appended.position();
    assert!(end > physical_offset);
    store.durability().settle(end).unwrap();
    // The mark is the only thing that holds the end of the log once the log is gone.
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let image = disk.fork();
        image.unlink(Path::new(LOG)).unwrap();
        let lost = open_with(&image, OpenHow::RefuseDamage, &sync);
        if matches!(lost, Err(Error::Damaged { .. })) {
            break;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the mark stays behind"
        );
        std::thread::yield_now();
    }
    store.abandon();
}
