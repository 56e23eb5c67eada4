//! How fast crash images are made: enumerations recover them by the million, so an image that
//! cost a millisecond would make them impossible.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use mqcore_engine::disk::twin::{Bound, History, Tear, TwinDisk};
use mqcore_engine::disk::{CellRegion, Disk, DiskFile, Open, Region};

const FILES: [&str; 5] = [
    "/store/commitlog/00000000000000000000",
    "/store/commitlog/00000000000000016384",
    "/store/consumequeue/topic/0/00000000000000000000",
    "/store/index/20260101000000000",
    "/store/checkpoint",
];
const FILE_BYTES: u64 = 16 * 1024;

/// Appends to a log by map, to a queue by writes and to an index by cells, with a sync in between.
fn history() -> History {
    let twin = TwinDisk::new();
    for dir in ["commitlog", "consumequeue/topic/0", "index"] {
        twin.create_dir_all(&Path::new("/store").join(dir)).unwrap();
    }
    let files = FILES.map(|path| {
        let file = twin.open(Path::new(path), Open::CreateNew).unwrap();
        let len_bytes = if path.ends_with("checkpoint") {
            4096
        } else {
            FILE_BYTES
        };
        file.allocate(len_bytes).unwrap();
        file
    });
    let log = files[0].map(FILE_BYTES, 0).unwrap();
    let index = files[3].map_cells(FILE_BYTES).unwrap();
    for number in 0..40u64 {
        let mut bytes = log.reserve(number * 250, 250).unwrap();
        bytes.fill(number as u8 + 1);
        bytes[100] = 0xff;
        log.publish(bytes);
        files[2]
            .write_at(&[number as u8 + 1; 20], number * 20)
            .unwrap();
        index.store(40 + number * 4, number as u32 + 1);
        if number % 8 == 7 {
            files[0].sync_data().unwrap();
        }
        if number % 16 == 15 {
            files[4].write_at(&number.to_be_bytes(), 0).unwrap();
            files[4].sync_data().unwrap();
            twin.sync_dir(Path::new("/store/commitlog")).unwrap();
        }
    }
    twin.history()
}

#[test]
fn images_are_made_and_opened_in_microseconds() {
    let history = history();
    let bound = Bound {
        images_max: 400,
        tear: Tear::Words,
        seed: 1,
    };
    let started = Instant::now();
    let mut made = 0u64;
    let mut distinct = HashSet::new();
    for stop in 0..history.stop_points() {
        for image in history.images(stop, &bound) {
            made += 1;
            distinct.insert(image.hash());
        }
    }
    let making = started.elapsed();
    let started = Instant::now();
    let mut bytes_read = 0u64;
    let mut opened = 0u64;
    for stop in (0..history.stop_points()).step_by(4) {
        for image in history.images(stop, &bound) {
            let disk = image.disk();
            opened += 1;
            for path in FILES {
                let Ok(file) = disk.open(Path::new(path), Open::Write) else {
                    continue;
                };
                let len_bytes = file.len_bytes().unwrap();
                let region = file.map(len_bytes, len_bytes).unwrap();
                let bytes = region.slice(0, len_bytes as usize).unwrap();
                bytes_read += u64::from(bytes.first().copied().unwrap_or(0)) + bytes.len() as u64;
            }
        }
    }
    let opening = started.elapsed();
    println!(
        "{made} images ({} distinct) of {} stop points in {making:?}: {:.0}/s; {opened} made, \
         opened and mapped whole ({bytes_read} bytes) in {opening:?}: {:.0}/s",
        distinct.len(),
        history.stop_points(),
        made as f64 / making.as_secs_f64(),
        opened as f64 / opening.as_secs_f64(),
    );
    assert!(distinct.len() > 10_000, "{}", distinct.len());
    // Ten times what is measured on a slow machine; a system call per page would be over it.
    assert!(making.as_micros() < u128::from(made) * 200, "{making:?}");
    assert!(
        opening.as_micros() < u128::from(opened) * 400,
        "{opening:?}"
    );
}
