//! The parts alone, each with those alone that it uses, on the twin of the disk.

use std::path::Path;
use std::sync::Arc;

use super::super::load::QueueLoader;
use super::super::probe::{first_at_or_above, first_live};
use super::super::queue::{MIN_UNKNOWN, State};
use super::super::{HoleMender, MANIFEST_NAME, Queue, Unit, WITNESS_NAME, Witness};
use super::{PER_FILE, unit};
use crate::disk::Disk;
use crate::disk::twin::TwinDisk;
use crate::notice::Notices;
use crate::queue_store::{FileLength, Files, Pending, QueueMap, Segments, TailWriter};

const ROOT: &str = "/store";
const FILE: u64 = PER_FILE * 20;

struct Parts {
    disk: TwinDisk,
    map: Arc<QueueMap<Unit>>,
    pending: Arc<Pending<Unit>>,
    segments: Arc<Segments<TwinDisk, Unit>>,
    loader: Arc<QueueLoader<TwinDisk>>,
    witness: Witness<TwinDisk>,
}

impl Parts {
    fn on(disk: &TwinDisk) -> Self {
        let length = FileLength {
            bytes: FILE,
            key: "length",
        };
        let files = Files::new(disk.clone(), length, 16, 1);
        let segments = Segments::new(disk.clone(), Path::new(ROOT), "q", files);
        let (map, pending) = (Arc::default(), Arc::default());
        let (segments, notices) = (Arc::new(segments), Arc::<Notices>::default());
        let loader = QueueLoader::new(Arc::clone(&segments), Arc::clone(&notices));
        let loader = Arc::new(loader);
        let queues = (Arc::clone(&map), Arc::clone(&pending));
        let looks = Arc::clone(&loader);
        let witness = Witness::new(Path::new(ROOT), &segments, queues, looks, notices);
        Self {
            disk: disk.clone(),
            map,
            pending,
            segments,
            loader,
            witness,
        }
    }

    /// A queue with the units of so many records in files.
    fn queue(&self, units: u64) -> Arc<Queue> {
        let queue = self.map.insert("T", 0, State::empty());
        for n in 0..units {
            let mut state = queue.lock();
            state.push(&unit(n), 1);
            self.pending.mark(&queue, &mut state);
        }
        let (segments, pending) = (Arc::clone(&self.segments), Arc::clone(&self.pending));
        let writer = TailWriter::new(segments, pending, |_queue| Ok(()));
        writer.write_pending().unwrap();
        queue
    }

    fn mender(&self) -> HoleMender<TwinDisk> {
        let (segments, pending) = (Arc::clone(&self.segments), Arc::clone(&self.pending));
        HoleMender::new(Arc::clone(&self.map), segments, pending)
    }

    fn has(&self, name: &str) -> bool {
        let path = Path::new(ROOT).join(name);
        self.disk.stat(&path).unwrap().is_some()
    }
}

#[test]
fn the_first_record_at_or_above_an_offset_is_found_among_blanks() {
    let records = [0, 1, 2, 5, 8, 9];
    // Blanks where no record is.
    let at = |index: u64| {
        Ok(if records.contains(&index) {
            unit(index)
        } else {
            Unit::BLANK
        })
    };
    for physical in 0..1_000 {
        let expected = records
            .iter()
            .find(|n| (**n * 100).cast_signed() >= physical);
        let expected = expected.map_or((10, MIN_UNKNOWN), |n| (*n, (*n * 100).cast_signed()));
        assert_eq!(
            first_at_or_above(0, 10, physical, at).unwrap(),
            expected,
            "{physical}"
        );
    }
}

#[test]
fn a_damaged_unit_before_the_first_live_one_stays() {
    let zero = Unit {
        size_bytes: 0,
        ..unit(0)
    };
    let at = |index| Ok(if index == 3 { zero } else { unit(index) });
    assert_eq!(first_live(0, 8, 400, at).unwrap(), (3, MIN_UNKNOWN));
    assert_eq!(first_live(0, 8, 500, at).unwrap(), (5, 500));
    assert_eq!(first_live(0, 8, 900, at).unwrap(), (8, MIN_UNKNOWN));
}

#[test]
fn the_first_look_finds_ends_and_the_minimum() {
    let disk = TwinDisk::new();
    Parts::on(&disk).queue(23);
    let parts = Parts::on(&disk);
    let queue = parts.map.insert("T", 0, State::of_files(0, 3 * FILE));
    parts.loader.set_log_min(701);
    let state = parts.loader.lock_known(&queue).unwrap();
    assert_eq!((state.min, state.end, state.written), (8, 23, 23));
    assert_eq!(state.last_physical_end, 2_300);
}

#[test]
fn the_manifest_becomes_the_witness_and_both_can_be_void() {
    let disk = TwinDisk::new();
    let parts = Parts::on(&disk);
    parts.queue(13);
    parts.witness.save(b"stamp").unwrap();
    assert!(parts.has(MANIFEST_NAME) && !parts.has(WITNESS_NAME));
    let read = Parts::on(&disk);
    assert_eq!(read.witness.load(Some(b"stamp")).unwrap(), (true, true));
    assert_eq!(read.map.find(b"T", 0).unwrap().lock().end, 13);
    let other = Parts::on(&disk);
    assert_eq!(other.witness.load(Some(b"other")).unwrap(), (false, false));
    assert_eq!(other.map.len(), 0);
    read.witness.refresh().unwrap();
    assert!(!parts.has(WITNESS_NAME), "nothing has changed");
    read.witness.retire().unwrap();
    assert!(!parts.has(MANIFEST_NAME) && parts.has(WITNESS_NAME));
    read.witness.void().unwrap();
    assert!(read.witness.is_void() && !parts.has(WITNESS_NAME));
    read.witness.refresh().unwrap();
    assert!(!read.witness.is_void() && parts.has(WITNESS_NAME));
}

#[test]
fn a_file_that_is_gone_is_made_again_and_leaves_a_hole() {
    let disk = TwinDisk::new();
    let parts = Parts::on(&disk);
    let queue = parts.queue(23);
    let (mender, path) = (parts.mender(), parts.segments.file_path(&queue, FILE));
    mender.compare_with_directories().unwrap();
    assert!(mender.make_absent_files().unwrap().is_empty());
    disk.unlink(&path).unwrap();
    mender.compare_with_directories().unwrap();
    let holes = mender.make_absent_files().unwrap();
    let [hole] = &holes[..] else {
        panic!("{holes:?}");
    };
    assert_eq!((hole.from, hole.to), (10, 20));
    assert_eq!((hole.log_from, hole.log_to), (1_000, 2_000));
    let bytes: Vec<u8> = (10..20).flat_map(|n| unit(n).encode()).collect();
    assert!(mender.write_units(hole, 10, &bytes).unwrap());
    for n in 0..23 {
        assert_eq!(mender.unit_in_file(&queue, n).unwrap(), unit(n));
    }
    queue.lock().epoch += 1;
    assert!(
        !mender.write_units(hole, 10, &bytes).unwrap(),
        "units were taken back"
    );
}

#[test]
fn nothing_is_mended_without_a_log() {
    let disk = TwinDisk::new();
    let parts = Parts::on(&disk);
    parts.queue(3);
    let mender = parts.mender();
    assert!(!mender.has_log());
    assert!(!mender.mend_unit(b"T", 0, 1).unwrap());
    assert!(!mender.mend_unit(b"other", 0, 1).unwrap());
}
