//! What a sync of a range of a map leaves open, case by case.

use std::collections::BTreeSet;

use super::{contents, path, with_file};
use crate::disk::twin::{CallKind, Fault, Tear, Times, TwinDisk, TwinRegion};
use crate::disk::{Disk, DiskFile, Open, Region};

const PAGE: u64 = 4096;

fn append(region: &TwinRegion, position: u64, bytes: &[u8]) {
    let mut reservation = region.reserve(position, bytes.len()).unwrap();
    reservation.copy_from_slice(bytes);
    region.publish(reservation);
}

/// The first byte of each page, in every image.
fn firsts(twin: &TwinDisk) -> BTreeSet<Vec<u8>> {
    let found = contents(twin, "/f", Tear::Whole).into_iter();
    found
        .map(|bytes| bytes.unwrap().iter().copied().step_by(4096).collect())
        .collect()
}

fn fail_next_sync(twin: &TwinDisk) {
    twin.fail(Fault {
        call: CallKind::Sync,
        path_contains: None,
        nth: 1,
        errno: libc::EIO,
        times: Times::Once,
    });
}

#[test]
fn only_the_pages_of_the_range_are_certain() {
    let (twin, file) = with_file("/f", 4 * PAGE);
    let region = file.map(4 * PAGE, 0).unwrap();
    for (page, value) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        append(&region, page * PAGE, &[value]);
    }
    // It touches two pages, each with a part.
    region.sync(2 * PAGE - 1, 2).unwrap();
    let wanted = [0, 1].map(|first| [0, 4].map(|last| vec![first, 2, 3, last]));
    assert_eq!(firsts(&twin), wanted.into_iter().flatten().collect());
    region.sync(0, 1).unwrap();
    assert_eq!(firsts(&twin), [vec![1, 2, 3, 0], vec![1, 2, 3, 4]].into());
    region.sync(4 * PAGE, PAGE).unwrap();
    assert_eq!(firsts(&twin).len(), 2, "nothing lies there");
    region.sync(0, u64::MAX).unwrap();
    assert_eq!(firsts(&twin), [vec![1, 2, 3, 4]].into());
}

#[test]
fn what_comes_while_a_range_is_synced_is_not_part_of_it() {
    let (twin, file) = with_file("/f", PAGE);
    let region = file.map(PAGE, 0).unwrap();
    append(&region, 0, &[1]);
    let other = twin.open(path("/f"), Open::Write).unwrap();
    twin.on_call(move |call, _| {
        if call == CallKind::Sync {
            other.write_at(&[2], 1).unwrap();
        }
    });
    region.sync(0, 2).unwrap();
    let found = contents(&twin, "/f", Tear::Words).into_iter();
    let found: BTreeSet<_> = found.map(|bytes| bytes.unwrap()[..2].to_vec()).collect();
    assert_eq!(found, [vec![1, 0], vec![1, 2]].into());
}

#[test]
fn a_range_takes_the_length_with_it_that_it_needs() {
    let (twin, file) = with_file("/f", 0);
    file.write_at(&[1], 0).unwrap();
    file.allocate(2 * PAGE).unwrap();
    let region = file.map(2 * PAGE, 1).unwrap();
    append(&region, PAGE, &[2]);
    file.allocate(3 * PAGE).unwrap();
    region.sync(PAGE, 1).unwrap();
    let found = contents(&twin, "/f", Tear::Whole).into_iter();
    let found: BTreeSet<_> = found
        .map(|bytes| {
            bytes
                .map(|b| (b.len() as u64 / PAGE, b[0], b[4096]))
                .unwrap()
        })
        .collect();
    let wanted = [(2, 0, 2), (2, 1, 2), (3, 0, 2), (3, 1, 2)];
    assert_eq!(found, wanted.into());
}

#[test]
fn a_failed_sync_of_a_range_leaves_the_whole_file_uncertain() {
    let (twin, file) = with_file("/f", 2 * PAGE);
    let region = file.map(2 * PAGE, 0).unwrap();
    append(&region, 0, &[1]);
    append(&region, PAGE, &[2]);
    fail_next_sync(&twin);
    let error = region.sync(0, 1).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EIO));
    // It may have been the other page that could not be written: that is not reported again.
    region.sync(0, 2 * PAGE).unwrap();
    file.sync_data().unwrap();
    assert_eq!(firsts(&twin).len(), 4);
}

#[test]
fn with_a_cut_that_is_open_a_range_is_the_whole_file() {
    let (twin, file) = with_file("/f", 2 * PAGE);
    file.write_at(&[1; 8192], 0).unwrap();
    file.sync_data().unwrap();
    file.set_len(PAGE).unwrap();
    file.allocate(2 * PAGE).unwrap();
    let region = file.map(2 * PAGE, PAGE).unwrap();
    append(&region, PAGE, &[2]);
    region.sync(PAGE, 1).unwrap();
    assert_eq!(firsts(&twin), [vec![1, 2]].into());
}
