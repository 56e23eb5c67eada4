//! Sizes are found from the files, whatever the settings are.

use super::setup::{Dir, START_MS, Setup, keyed};
use crate::disk::RealDisk;
use crate::key_index::{LastExit, Layout, found_layout};

/// Writes an index of so many keys, one record each, from the physical offset 0 on.
fn written(slots: u64, entries: u64, keys: u64) -> Dir {
    let dir = Dir::new();
    let index = Setup::new(RealDisk, slots, entries)
        .open(&dir.0, LastExit::Clean)
        .unwrap();
    for number in 0..keys {
        let name = format!("key-{number}");
        let put = keyed(&name, number * 100, START_MS + number as i64);
        index.writer().put_message(&put).unwrap();
    }
    dir
}

fn found(dir: &Dir, configured: Option<Layout>) -> Option<(u32, u32)> {
    found_layout(&RealDisk, &dir.0, configured)
        .unwrap()
        .map(|each| (each.slots(), each.entries()))
}

#[test]
fn any_sizes_are_found_by_the_content() {
    let official = Layout::of(5_000_000, 20_000_000);
    // Four entries per slot; many slots; few slots; a length that four entries per slot have too.
    for (slots, entries) in [(50, 200), (1_000, 300), (7, 5_000), (105, 420), (55, 430)] {
        for keys in [1, 2, 100, 250] {
            let dir = written(slots, entries, keys);
            let expected = Some((slots as u32, entries as u32));
            // The length may be that of the settings and of four entries per slot, and the sizes not.
            for configured in [None, official, Layout::of(slots + 5, entries - 1)] {
                assert_eq!(found(&dir, configured), expected, "{keys} keys");
            }
        }
    }
}

#[test]
fn records_with_several_keys_are_no_other_layout() {
    let dir = Dir::new();
    let index = Setup::new(RealDisk, 33, 500)
        .open(&dir.0, LastExit::Clean)
        .unwrap();
    for number in 0..60 {
        let put = keyed("a b c d e", number, START_MS);
        index.writer().put_message(&put).unwrap();
    }
    assert_eq!(found(&dir, None), Some((33, 500)));
}

#[test]
fn a_file_without_entries_takes_the_settings_or_what_fits() {
    let dir = Dir::new();
    assert_eq!(found(&dir, None), None);
    std::fs::create_dir_all(&dir.0).unwrap();
    let path = dir.0.join("20240101000000000");
    let length = |len_bytes: u64| std::fs::write(&path, vec![0; len_bytes as usize]).unwrap();
    length(0);
    assert_eq!(found(&dir, None), None);
    length(Layout::of(10, 90).unwrap().len_bytes());
    assert_eq!(found(&dir, Layout::of(10, 90)), Some((10, 90)));
    let (slots, entries) = found(&dir, None).unwrap();
    assert_eq!(slots * 4 + entries * 20, 10 * 4 + 90 * 20);
    length(40 + 84 * 5 + 1);
    assert_eq!(found(&dir, None), None);
}

#[test]
fn what_a_crash_left_takes_the_layout_of_its_length() {
    let dir = written(50, 200, 20);
    let path = dir.0.read_dir().unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&path).unwrap();
    // The header was written, slots and entries were not.
    bytes[40..].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(found(&dir, None), Some((50, 200)));
    let other = dir.0.join("20200101000000000");
    bytes.truncate(40 + 4 * 51 + 20 * 20);
    std::fs::write(&other, &bytes).unwrap();
    assert_eq!(found(&dir, None), None);
}
