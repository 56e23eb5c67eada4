//! What a map lets its users do, and refuses.

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
