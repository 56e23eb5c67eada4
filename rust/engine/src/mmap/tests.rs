//! What a map lets its users do, and refuses.

use std::sync::atomic::AtomicU32;

use super::*;

#[test]
fn only_published_bytes_are_read_and_only_unpublished_ones_written() {
    let map = Map::anonymous(4096).unwrap();
    assert!(map.slice(0, 1).is_none());
    let mut reservation = map.reserve(0, 4).unwrap();
    assert!(map.reserve(8, 4).is_none(), "one writer at a time");
    reservation.copy_from_slice(b"abcd");
    reservation.publish();
    assert_eq!(map.slice(0, 4).unwrap(), b"abcd");
    assert!(map.slice(1, 4).is_none());
    assert!(map.reserve(3, 1).is_none(), "published bytes never change");
    assert!(map.reserve(4, 4093).is_none());
    drop(map.reserve(4, 4).unwrap());
    assert_eq!(
        map.published(),
        4,
        "a dropped reservation publishes nothing"
    );
}

#[test]
fn a_map_of_the_heap_behaves_like_any_other() {
    let map = Map::heap(100).unwrap();
    let mut reservation = map.reserve(90, 10).unwrap();
    assert_eq!(&*reservation, &[0; 10]);
    reservation[9] = 7;
    reservation.publish();
    assert_eq!(map.slice(99, 1).unwrap(), &[7]);
    assert!(map.reserve(100, 1).is_none());
    map.populate(0, 100).unwrap();
    map.lock().unwrap();
    assert_eq!(map.resident_pages(0, 100).unwrap(), 1);
    let cells = Cells::heap(8).unwrap();
    assert!(cells.store(4, 9) && !cells.store(8, 9));
    assert_eq!((cells.load(0), cells.load(4)), (0, 9));
}

#[test]
fn cells_are_big_endian_and_bounded() {
    let cells = Cells::anonymous(4096).unwrap();
    assert!(cells.store(40, 7));
    assert_eq!(cells.load(40), 7);
    assert!(!cells.store(4096, 7));
    assert!(!cells.store(41, 7));
    assert_eq!(cells.load(4094), 0);
}

/// A file that has no name any more.
fn file_of(len_bytes: u64) -> File {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("mqcore-map-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path);
    let file = file.unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(len_bytes).unwrap();
    file
}

fn filled(map: &Map, position: u64, len: usize) {
    let mut reservation = map.reserve(position, len).unwrap();
    for (byte, value) in reservation.iter_mut().zip((1..=251u8).cycle()) {
        *byte = value;
    }
    reservation.publish();
}

/// Pages of the map that stand in this process's page tables, from the kernel's book.
fn present_pages(map: &Map) -> u64 {
    let address = format!("{:x}-", map.raw.as_mut_ptr() as usize);
    let book = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = book.lines().skip_while(|line| !line.starts_with(&address));
    let present = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let kilobytes = present.trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() * 1024 / machine_page_bytes() as u64
}

#[test]
fn released_pages_keep_their_bytes_and_whoever_holds_them() {
    let page = machine_page_bytes() as u64;
    let len = 64 * page;
    let file = file_of(len);
    let map = Map::writable(&file, len).unwrap();
    filled(&map, 0, (40 * page) as usize);
    let held = map.slice(0, (40 * page) as usize).unwrap();
    let before = held.to_vec();
    let mut writing = map.reserve(40 * page, 100).unwrap();
    writing.fill(9);
    let all = present_pages(&map);
    assert!(all >= 41, "{all}");
    // The pages that are not whole at either end stay.
    map.release(1, 30 * page).unwrap();
    assert_eq!(present_pages(&map), all - 29);
    map.release(0, u64::MAX).unwrap();
    assert_eq!(present_pages(&map), 0);
    assert_eq!(&*writing, &[9; 100], "not published, not lost");
    assert_eq!(held, before);
    writing.publish();
    assert_eq!(map.slice(40 * page, 100).unwrap(), &[9; 100]);
    for (position, len) in [(0, 0), (page + 1, page - 1), (len, page), (u64::MAX, 1)] {
        map.release(position, len).unwrap();
    }
    assert_eq!(map.slice(0, before.len()).unwrap(), before);
}

#[test]
fn memory_of_no_file_is_not_released() {
    for map in [Map::anonymous(65_536).unwrap(), Map::heap(65_536).unwrap()] {
        filled(&map, 0, 65_536);
        let before = map.slice(0, 65_536).unwrap().to_vec();
        map.release(0, 65_536).unwrap();
        assert_eq!(map.slice(0, 65_536).unwrap(), before);
        let kind = |answer: io::Result<()>| answer.unwrap_err().kind();
        assert_eq!(kind(map.sync(0, 1)), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn a_locked_map_is_not_released_and_syncs() {
    let file = file_of(65_536);
    let map = Map::writable(&file, 65_536).unwrap();
    filled(&map, 0, 65_536);
    if map.lock().is_ok() {
        assert!(map.release(0, 65_536).is_err());
    }
    map.sync(4_000, 10_000).unwrap();
    map.sync(65_535, u64::MAX).unwrap();
    map.sync(65_536, 1).unwrap();
}
