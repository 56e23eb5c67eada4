//! The parts alone, with a unit of ten bytes: queue id and number of a record.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::disk::twin::TwinDisk;

const ROOT: &str = "/store";
/// Units per file: small, so that tests cross files.
const PER_FILE: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number(u16);

impl QueueUnit for Number {
    type Own = ();
    type Beside = ();
    const LEN: usize = 10;
    const BLANK: Option<Self> = Some(Self(u16::MAX));
    const COUNTS_SYNCED: bool = true;

    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[1; 8]);
        out.extend_from_slice(&self.0.to_be_bytes());
    }

    fn present(bytes: &[u8]) -> Option<Self> {
        let number = bytes.last_chunk().map(|two| Self(u16::from_be_bytes(*two)));
        number.filter(|_| bytes.first() == Some(&1))
    }

    fn physical_start(&self) -> i64 {
        i64::from(self.0) * 100
    }

    fn record_end(&self) -> i64 {
        self.physical_start() + 100
    }
}

struct Parts {
    map: QueueMap<Number>,
    pending: Arc<Pending<Number>>,
    segments: Arc<Segments<TwinDisk, Number>>,
    writer: TailWriter<TwinDisk, Number>,
    sync: QueueSync<TwinDisk, Number>,
}

fn parts() -> Parts {
    let disk = TwinDisk::new();
    let length = FileLength {
        bytes: PER_FILE * 10,
        key: "length",
    };
    let files = Files::new(disk.clone(), length, 8, 1);
    let segments = Arc::new(Segments::new(disk, Path::new(ROOT), "q", files));
    let pending = Arc::<Pending<Number>>::default();
    let shared = || (Arc::clone(&segments), Arc::clone(&pending));
    let (units, tails) = shared();
    let writer = TailWriter::new(units, tails, |_queue| Ok(()));
    let (units, tails) = shared();
    Parts {
        map: QueueMap::default(),
        sync: QueueSync::new(units, tails),
        writer,
        pending,
        segments,
    }
}

impl Parts {
    fn append(&self, queue: &Arc<Queue<Number>>, from: u16, to: u16) {
        for number in from..to {
            let mut state = queue.lock();
            state.push(&Number(number), i64::from(number));
            self.pending.mark(queue, &mut state);
            self.pending.count_unit(i64::from(number));
        }
    }

    fn read(&self, queue: &Queue<Number>, from: u64) -> Vec<u16> {
        let to = queue.lock().end;
        let (mut next, mut out) = (from, Vec::new());
        while next < to {
            match self
                .segments
                .read_step(queue, next, to, &mut out, ReadBy::AsItIs)
            {
                Ok(Step::On(on)) => next = on,
                Ok(Step::Cold | Step::End) => break,
                Err(error) => panic!("{error}"),
            }
        }
        out.into_iter().map(|number| number.0).collect()
    }
}

#[test]
fn queues_are_found_by_name_and_leave_with_their_topic() {
    let map = QueueMap::<Number>::default();
    let queue = map.insert("T", 1, QueueState::empty());
    let again = map.insert("T", 1, QueueState::of_files(0, 40));
    assert!(Arc::ptr_eq(&queue, &again), "the one that is there stays");
    let other = map.insert("T", 2, QueueState::empty());
    assert!(
        Arc::ptr_eq(queue.topic_name(), other.topic_name()),
        "one text"
    );
    assert_eq!(map.len(), 2);
    assert!(map.find(b"T", 3).is_none() && map.find(b"U", 1).is_none());
    let ids: Vec<_> = map.all().iter().map(|queue| queue.queue_id()).collect();
    assert_eq!(ids, [1, 2], "as they became known");
    map.take_out(&queue);
    map.take_out(&queue);
    assert_eq!(map.len(), 1);
    assert!(map.find(b"T", 1).is_none());
}

#[test]
fn units_are_read_from_tail_and_files_alike() {
    let parts = parts();
    let queue = parts.map.insert("T", 0, QueueState::empty());
    parts.append(&queue, 0, 6);
    assert_eq!(parts.pending.bytes(), 60);
    assert_eq!(parts.writer.write_pending().unwrap(), 60);
    parts.append(&queue, 6, 9);
    assert_eq!(parts.pending.bytes(), 30);
    let all: Vec<u16> = (0..9).collect();
    for from in 0..9 {
        assert_eq!(parts.read(&queue, from), all[from as usize..]);
    }
    assert_eq!(
        parts.segments.present_unit(&queue, 5).unwrap(),
        Some(Number(5))
    );
    assert_eq!(parts.segments.present_unit(&queue, 6).unwrap(), None);
    parts.writer.write_queue(&queue).unwrap();
    assert_eq!(parts.read(&queue, 2), all[2..]);
    assert!(
        queue.lock().tail.capacity() == 0,
        "an idle queue keeps no buffer"
    );
}

#[test]
fn blanks_stand_between_the_files_and_the_tail() {
    let parts = parts();
    let queue = parts.map.insert("T", 0, QueueState::empty());
    {
        let mut state = queue.lock();
        (state.fill_to, state.end) = (5, 5);
    }
    parts.append(&queue, 5, 6);
    let expected = [u16::MAX, u16::MAX, 5];
    assert_eq!(parts.read(&queue, 3), expected);
    parts.writer.write_pending().unwrap();
    assert_eq!(parts.read(&queue, 3), expected);
    assert_eq!(queue.lock().files_end, 2 * PER_FILE * 10);
}

#[test]
fn a_sync_covers_what_was_written_and_counts_durable_units() {
    let parts = parts();
    let queue = parts.map.insert("T", 0, QueueState::empty());
    parts.append(&queue, 0, 6);
    let nothing = parts.sync.sync(0, || Ok(())).unwrap();
    assert_eq!((nothing.covered_ms, nothing.waiting_ms), (Some(-1), 0));
    parts.writer.write_pending().unwrap();
    assert!(parts.segments.has_unsynced());
    let synced = parts.sync.sync(0, || Ok(())).unwrap();
    assert_eq!((synced.covered_ms, synced.files), (Some(5), 2));
    assert_eq!(synced.waiting_ms, NOTHING_WAITS_MS);
    assert_eq!(queue.lock().synced, 6);
    assert!(!parts.segments.has_unsynced());
}

#[test]
fn after_a_failed_sync_none_succeeds() {
    let parts = parts();
    let failed = parts.sync.sync(0, || {
        Err(crate::error::Error::Timeout {
            what: "a test",
            waited_ms: 0,
        })
    });
    assert!(failed.is_err());
    let after = parts.sync.sync(0, || Ok(()));
    assert!(matches!(after, Err(crate::error::Error::Poisoned { .. })));
}

#[test]
fn the_last_safe_file_is_the_newest_whose_first_unit_was_synced() {
    let parts = parts();
    let queue = parts.map.insert("T", 0, QueueState::empty());
    parts.append(&queue, 0, 11);
    parts.writer.write_pending().unwrap();
    let file = PER_FILE * 10;
    let last = |below| {
        let is_safe = |unit: &Number| unit.0 < below;
        parts
            .segments
            .last_safe_file(&queue, (0, 3 * file), is_safe)
            .unwrap()
    };
    assert_eq!(
        [last(100), last(8), last(4), last(0)],
        [2 * file, file, 0, 0]
    );
}

#[test]
fn files_that_are_removed_are_forgotten() {
    let parts = parts();
    let queue = parts.map.insert("T", 0, QueueState::empty());
    parts.append(&queue, 0, 6);
    parts.writer.write_pending().unwrap();
    let file = PER_FILE * 10;
    assert_eq!(parts.segments.open_count(), 2);
    parts.segments.remove_file_for_good(&queue, file).unwrap();
    assert_eq!(parts.segments.open_count(), 1);
    assert!(
        parts
            .segments
            .file_if_there(&queue, file)
            .unwrap()
            .is_none()
    );
    assert!(parts.segments.file_if_there(&queue, 0).unwrap().is_some());
    parts.segments.forget_queue(&queue);
    assert!(!parts.segments.has_unsynced());
}

#[test]
fn a_file_is_zero_behind_a_position_and_known_to_be() {
    let parts = parts();
    let queue = parts.map.insert("T", 0, QueueState::empty());
    parts.append(&queue, 0, 4);
    parts.writer.write_pending().unwrap();
    let file = parts.segments.file(&queue, 0).unwrap();
    assert!(parts.segments.zero_behind(&file, 20).unwrap());
    assert!(!parts.segments.zero_behind(&file, 20).unwrap(), "once");
    assert_eq!(parts.read(&queue, 0), [0, 1]);
    assert!(
        !parts
            .segments
            .is_absent_behind(&queue, 0, (&file, 0))
            .unwrap()
    );
}

#[test]
fn first_not_is_the_end_of_a_prefix() {
    for end in 0..=9 {
        assert_eq!(first_not(0, 9, |at| Ok(at < end)).unwrap(), end);
    }
}
