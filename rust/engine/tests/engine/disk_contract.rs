//! The contract of `Disk`, kept by the real disk and by its twin alike: what the twin shows of the
//! store is worth as much as the two agree. Knows no file of the store.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{
    CellRegion, Disk, DiskFile, Entry, Open, RealDisk, Region, read_exact_at, read_whole,
};
use mqcore_engine::error::{Error, Result};

/// An empty directory of a disk under test; one of the machine goes away with it.
struct TestDir<D> {
    disk: D,
    root: PathBuf,
    is_real: bool,
}

impl<D> Drop for TestDir<D> {
    fn drop(&mut self) {
        if self.is_real {
            // A leftover in the temporary directory harms nobody.
            let _left_over = std::fs::remove_dir_all(&self.root);
        }
    }
}

impl<D: Disk> TestDir<D> {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> D::File {
        let file = self.disk.open(&self.path(name), Open::Create).unwrap();
        file.write_at(bytes, 0).unwrap();
        file
    }

    fn whole(&self, name: &str) -> Option<Vec<u8>> {
        read_whole(&self.disk, &self.path(name), 1 << 20).unwrap()
    }
}

fn real() -> TestDir<RealDisk> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("mqcore-disk-{}-{number}", std::process::id());
    let root = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&root).unwrap();
    TestDir {
        disk: RealDisk,
        root,
        is_real: true,
    }
}

fn twin() -> TestDir<TwinDisk> {
    let disk = TwinDisk::new();
    let root = PathBuf::from("/store/of/twin");
    disk.create_dir_all(&root).unwrap();
    TestDir {
        disk,
        root,
        is_real: false,
    }
}

fn errno<T>(result: Result<T>) -> i32 {
    match result {
        Ok(_) => panic!("this must fail"),
        Err(error) => error.errno().unwrap(),
    }
}

/// One test per disk for each part of the contract.
macro_rules! contract {
    ($($name:ident)*) => {
        mod on_real {
            $(#[test] fn $name() { super::$name(&super::real()); })*
        }
        mod on_twin {
            $(#[test] fn $name() { super::$name(&super::twin()); })*
        }
    };
}

contract! {
    files_open_as_asked
    reads_are_short_only_at_the_end
    a_read_only_file_stays_as_it_is
    lengths_and_holes
    allocation_grows_and_never_shrinks
    a_map_and_its_file_are_one
    ranges_of_a_map_are_synced_and_released
    zeroing_before_and_writing_under_a_map
    cells_and_their_file_are_one
    a_rename_replaces
    names_that_cannot_be
    directories_come_and_go
    an_unlinked_file_works_on
    lists_are_sorted
    the_lock_excludes_everyone
    marks_change_with_content
    errors_name_the_path
}

fn files_open_as_asked<D: Disk>(dir: &TestDir<D>) {
    let path = dir.path("f");
    let open = |how| dir.disk.open(&path, how);
    assert_eq!(errno(open(Open::Read)), libc::ENOENT);
    assert_eq!(errno(open(Open::Write)), libc::ENOENT);
    open(Open::CreateNew).unwrap();
    assert_eq!(errno(open(Open::CreateNew)), libc::EEXIST);
    let file = open(Open::Create).unwrap();
    assert_eq!(file.path(), path);
    file.write_at(b"kept", 0).unwrap();
    let again = open(Open::Create).unwrap();
    assert_eq!(again.len_bytes().unwrap(), 4, "create does not truncate");
    assert_eq!(
        errno(dir.disk.open(&dir.path("no/f"), Open::Create)),
        libc::ENOENT
    );
    assert_eq!(
        errno(dir.disk.open(&dir.path("f/f"), Open::Create)),
        libc::ENOTDIR
    );
    assert_eq!(errno(dir.disk.open(&dir.root, Open::Write)), libc::EISDIR);
}

fn reads_are_short_only_at_the_end<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", b"0123456789");
    let mut into = [0; 4];
    assert_eq!(file.read_at(&mut into, 3).unwrap(), 4);
    assert_eq!(&into, b"3456");
    assert_eq!(file.read_at(&mut into, 8).unwrap(), 2);
    assert_eq!(&into, b"8956");
    assert_eq!(file.read_at(&mut into, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut into, 1 << 40).unwrap(), 0);
    // Another thread may evict a page at any time, so `None` is allowed; a short answer is not.
    let cached = file.read_cached_at(&mut into, 8).unwrap();
    assert!(cached.is_none_or(|got| got == 2));
    read_exact_at(&file, &mut into, 6).unwrap();
    assert_eq!(&into, b"6789");
    assert_eq!(errno(read_exact_at(&file, &mut into, 7)), 0);
    assert_eq!(dir.whole("f").unwrap(), b"0123456789");
    assert_eq!(dir.whole("g"), None);
    let too_long = read_whole(&dir.disk, &dir.path("f"), 9);
    assert!(matches!(too_long, Err(Error::ForeignFile { .. })));
}

fn a_read_only_file_stays_as_it_is<D: Disk>(dir: &TestDir<D>) {
    dir.file("f", b"abcd");
    let file = dir.disk.open(&dir.path("f"), Open::Read).unwrap();
    assert_eq!(errno(file.write_at(b"x", 0)), libc::EBADF);
    assert_eq!(errno(file.allocate(10)), libc::EBADF);
    assert_eq!(errno(file.set_len(1)), libc::EINVAL);
    assert_eq!(errno(file.map(4, 0)), libc::EACCES);
    assert_eq!(errno(file.map_cells(4)), libc::EACCES);
    file.sync_data().unwrap();
    assert_eq!(dir.whole("f").unwrap(), b"abcd");
}

fn lengths_and_holes<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", b"abc");
    file.write_at(b"xyz", 10_000).unwrap();
    assert_eq!(file.len_bytes().unwrap(), 10_003);
    let bytes = dir.whole("f").unwrap();
    assert_eq!(
        (&bytes[..4], &bytes[9_999..]),
        (&b"abc\0"[..], &b"\0xyz"[..])
    );
    file.set_len(2).unwrap();
    file.set_len(5).unwrap();
    assert_eq!(dir.whole("f").unwrap(), b"ab\0\0\0");
    file.write_at(b"", 100).unwrap();
    assert_eq!(
        file.len_bytes().unwrap(),
        5,
        "nothing written, nothing grown"
    );
    let sparse = dir.disk.open(&dir.path("s"), Open::CreateNew).unwrap();
    sparse.set_len(1 << 20).unwrap();
    let stat = dir.disk.stat(&dir.path("s")).unwrap().unwrap();
    assert_eq!((stat.is_dir, stat.len_bytes), (false, 1 << 20));
    assert!(stat.allocated_bytes < 1 << 16, "{}", stat.allocated_bytes);
}

fn allocation_grows_and_never_shrinks<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", b"abc");
    file.allocate(65_536).unwrap();
    assert_eq!(file.len_bytes().unwrap(), 65_536);
    file.allocate(100).unwrap();
    assert_eq!(file.len_bytes().unwrap(), 65_536);
    let stat = dir.disk.stat(&dir.path("f")).unwrap().unwrap();
    assert!(stat.allocated_bytes >= 65_536, "{}", stat.allocated_bytes);
    let bytes = dir.whole("f").unwrap();
    assert_eq!(&bytes[..3], b"abc");
    assert!(bytes[3..].iter().all(|byte| *byte == 0));
}

fn a_map_and_its_file_are_one<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", b"head");
    file.allocate(16_384).unwrap();
    let region = file.map(16_384, 4).unwrap();
    assert_eq!((region.len_bytes(), region.published()), (16_384, 4));
    assert_eq!(region.slice(0, 4).unwrap(), b"head");
    assert!(region.slice(0, 5).is_none(), "not published");
    assert!(
        region.reserve(3, 2).is_none(),
        "published bytes never change"
    );
    assert!(region.reserve(16_383, 2).is_none(), "past the end");
    let mut reservation = region.reserve(4, 4096).unwrap();
    assert!(region.reserve(8192, 1).is_none(), "one writer at a time");
    reservation.fill(b'x');
    region.publish(reservation);
    assert_eq!(region.published(), 4100);
    let mut into = [0; 3];
    read_exact_at(&file, &mut into, 4098).unwrap();
    assert_eq!(&into, b"xx\0");
    region.populate(0, 16_384).unwrap();
    region.populate(1 << 30, 5).unwrap();
    assert!(region.resident_pages(0, 16_384) >= 2);
    drop(region.reserve(4100, 10).unwrap());
    assert_eq!(region.published(), 4100, "dropped, not published");
    file.sync_data().unwrap();
    drop(region);
    let again = file.map(16_384, 4100).unwrap();
    assert_eq!(again.slice(4099, 1).unwrap(), b"x");
}

fn ranges_of_a_map_are_synced_and_released<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", b"");
    file.allocate(65_536).unwrap();
    let region = file.map(65_536, 0).unwrap();
    let mut reservation = region.reserve(0, 40_000).unwrap();
    reservation.fill(b'x');
    region.publish(reservation);
    let held = region.slice(0, 40_000).unwrap();
    region.sync(100, 20_000).unwrap();
    region.release(0, 40_000);
    assert!(held.iter().all(|byte| *byte == b'x'));
    let mut reservation = region.reserve(40_000, 100).unwrap();
    reservation.fill(b'y');
    region.release(0, 65_536);
    assert_eq!(&*reservation, &[b'y'; 100], "who writes goes on");
    region.publish(reservation);
    assert_eq!(region.slice(39_999, 2).unwrap(), b"xy");
    let mut into = [0; 3];
    read_exact_at(&file, &mut into, 39_999).unwrap();
    assert_eq!(&into, b"xyy");
    // Past the end there is nothing to do.
    region.sync(65_000, 1 << 30).unwrap();
    region.sync(1 << 30, 5).unwrap();
    region.release(1 << 30, 5);
}

fn zeroing_before_and_writing_under_a_map<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", &[7; 8192]);
    file.write_at(&[0; 4192], 4000).unwrap();
    let region = file.map(8192, 4000).unwrap();
    assert_eq!(&*region.reserve(4000, 100).unwrap(), &[0; 100]);
    // A pool buffer is written out through the file, then published.
    file.write_at(b"committed", 4000).unwrap();
    assert!(region.slice(4000, 9).is_none());
    region.publish_through(4009);
    assert_eq!(region.slice(3999, 10).unwrap(), b"\x07committed");
    region.publish_through(10);
    assert_eq!(region.published(), 4009, "never lowered");
    region.publish_through(1 << 20);
    assert_eq!(region.published(), 8192, "never past the map");
}

fn cells_and_their_file_are_one<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", &[0, 0, 1, 2]);
    file.allocate(4096).unwrap();
    let cells = file.map_cells(4096).unwrap();
    assert_eq!(
        (cells.len_bytes(), cells.load(0), cells.load(4)),
        (4096, 0x102, 0)
    );
    assert!(cells.store(8, 0xa0b0_c0d0));
    assert!(!cells.store(4096, 1) && !cells.store(6, 1) && !cells.store(u64::MAX - 3, 1));
    let mut into = [0; 5];
    read_exact_at(&file, &mut into, 8).unwrap();
    assert_eq!(into, [0xa0, 0xb0, 0xc0, 0xd0, 0]);
    file.write_at(&[9, 9], 11).unwrap();
    assert_eq!((cells.load(8), cells.load(12)), (0xa0b0_c009, 0x0900_0000));
    let others = file.map_cells(4096).unwrap();
    assert!(others.store(16, 5));
    assert_eq!(cells.load(16), 5);
}

fn a_rename_replaces<D: Disk>(dir: &TestDir<D>) {
    dir.file("old", b"old");
    dir.file("new", b"new");
    let reader = dir.disk.open(&dir.path("old"), Open::Read).unwrap();
    dir.disk.rename(&dir.path("new"), &dir.path("old")).unwrap();
    dir.disk.sync_dir(&dir.root).unwrap();
    assert_eq!(dir.whole("old").unwrap(), b"new");
    assert_eq!(dir.whole("new"), None);
    let mut into = [0; 3];
    read_exact_at(&reader, &mut into, 0).unwrap();
    assert_eq!(&into, b"old", "who has it open keeps it");
    dir.disk.rename(&dir.path("old"), &dir.path("old")).unwrap();
    assert_eq!(dir.whole("old").unwrap(), b"new");
    dir.disk.create_dir_all(&dir.path("d")).unwrap();
    dir.disk
        .rename(&dir.path("old"), &dir.path("d/moved"))
        .unwrap();
    dir.disk.rename(&dir.path("d"), &dir.path("e")).unwrap();
    assert_eq!(dir.whole("e/moved").unwrap(), b"new");
}

fn names_that_cannot_be<D: Disk>(dir: &TestDir<D>) {
    let disk = &dir.disk;
    dir.file("f", b"1");
    disk.create_dir_all(&dir.path("d/inner")).unwrap();
    let at = |name: &str| dir.path(name);
    assert_eq!(errno(disk.rename(&at("none"), &at("x"))), libc::ENOENT);
    assert_eq!(errno(disk.rename(&at("f"), &at("none/x"))), libc::ENOENT);
    assert_eq!(errno(disk.rename(&at("f"), &at("d"))), libc::EISDIR);
    assert_eq!(errno(disk.rename(&at("d"), &at("f"))), libc::ENOTDIR);
    assert_eq!(errno(disk.rename(&at("d"), &at("d/inner/x"))), libc::EINVAL);
    disk.create_dir_all(&at("empty")).unwrap();
    assert_eq!(errno(disk.rename(&at("empty"), &at("d"))), libc::ENOTEMPTY);
    assert_eq!(errno(disk.unlink(&at("none"))), libc::ENOENT);
    assert_eq!(errno(disk.unlink(&at("d"))), libc::EISDIR);
    assert_eq!(errno(disk.remove_dir(&at("d"))), libc::ENOTEMPTY);
    assert_eq!(errno(disk.remove_dir(&at("f"))), libc::ENOTDIR);
    assert_eq!(errno(disk.remove_dir(&at("none"))), libc::ENOENT);
    assert_eq!(errno(disk.create_dir_all(&at("f"))), libc::EEXIST);
    assert_eq!(errno(disk.create_dir_all(&at("f/x"))), libc::EEXIST);
    assert_eq!(errno(disk.list(&at("f"))), libc::ENOTDIR);
    assert_eq!(errno(disk.stat(&at("f/x"))), libc::ENOTDIR);
    assert_eq!(errno(disk.sync_dir(&at("none"))), libc::ENOENT);
    assert_eq!(errno(disk.space(&at("none"))), libc::ENOENT);
    assert_eq!(errno(disk.file_system(&at("none"))), libc::ENOENT);
}

fn directories_come_and_go<D: Disk>(dir: &TestDir<D>) {
    let deep = dir.path("a/b/c");
    dir.disk.create_dir_all(&deep).unwrap();
    dir.disk.create_dir_all(&deep).unwrap();
    assert!(dir.disk.stat(&deep).unwrap().unwrap().is_dir);
    dir.disk.sync_dir(&deep).unwrap();
    dir.disk.remove_dir(&deep).unwrap();
    assert_eq!(dir.disk.stat(&deep).unwrap(), None);
    assert_eq!(dir.disk.list(&deep).unwrap(), []);
    assert_eq!(dir.disk.list(&dir.path("a/b")).unwrap(), []);
    let space = dir.disk.space(&dir.root).unwrap();
    assert!(space.total_bytes >= space.free_bytes && space.free_bytes >= space.usable_bytes);
    dir.disk.file_system(&dir.root).unwrap();
}

fn an_unlinked_file_works_on<D: Disk>(dir: &TestDir<D>) {
    let file = dir.file("f", &[1; 4096]);
    let region = file.map(4096, 2048).unwrap();
    assert!(file.is_at(&dir.path("f")).unwrap());
    dir.disk.unlink(&dir.path("f")).unwrap();
    assert_eq!(dir.disk.stat(&dir.path("f")).unwrap(), None);
    assert!(!file.is_at(&dir.path("f")).unwrap());
    let other = dir.file("f", b"another");
    assert!(!file.is_at(&dir.path("f")).unwrap());
    assert!(other.is_at(&dir.path("f")).unwrap());
    let mut reservation = region.reserve(2048, 1).unwrap();
    reservation[0] = 2;
    region.publish(reservation);
    file.sync_data().unwrap();
    let mut into = [0; 2];
    read_exact_at(&file, &mut into, 2047).unwrap();
    assert_eq!(into, [1, 2]);
    assert_eq!(file.len_bytes().unwrap(), 4096);
    assert_eq!(other.len_bytes().unwrap(), 7);
    drop(file);
    assert_eq!(region.slice(2047, 2).unwrap(), [1, 2]);
}

fn lists_are_sorted<D: Disk>(dir: &TestDir<D>) {
    for name in ["b", "a", "00000000000000004096", "Z"] {
        dir.file(name, name.as_bytes());
    }
    dir.disk.create_dir_all(&dir.path("m/n")).unwrap();
    let entry = |name: &str, is_dir, len_bytes| Entry {
        name: name.to_owned(),
        is_dir,
        len_bytes,
    };
    let wanted = [
        entry("00000000000000004096", false, 20),
        entry("Z", false, 1),
        entry("a", false, 1),
        entry("b", false, 1),
        entry("m", true, 0),
    ];
    assert_eq!(dir.disk.list(&dir.root).unwrap(), wanted);
}

fn the_lock_excludes_everyone<D: Disk>(dir: &TestDir<D>) {
    let path = dir.path("lock");
    let lock = dir.disk.lock(&path).unwrap();
    assert_eq!(dir.whole("lock").unwrap(), b"lock");
    let second = dir.disk.clone().lock(&path);
    assert!(matches!(second, Err(Error::Locked { path: at }) if at == path));
    let _another = dir.disk.lock(&dir.path("other")).unwrap();
    drop(lock);
    dir.disk.lock(&path).unwrap();
    assert_eq!(dir.whole("lock").unwrap(), b"lock");
    assert_eq!(errno(dir.disk.lock(&dir.path("none/lock"))), libc::ENOENT);
}

fn marks_change_with_content<D: Disk>(dir: &TestDir<D>) {
    let path = dir.path("f");
    let mark = |path: &Path| dir.disk.stat(path).unwrap().unwrap().change_mark;
    let file = dir.file("f", b"1");
    let first = mark(&path);
    assert_eq!(mark(&path), first);
    // The real disk's clock of changes ticks with the kernel's timer.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while mark(&path) == first {
        assert!(std::time::Instant::now() < deadline, "the mark stays");
        file.write_at(b"2", 0).unwrap();
    }
    let second = mark(&path);
    dir.file("g", b"1");
    dir.disk.rename(&dir.path("g"), &path).unwrap();
    assert_ne!(mark(&path), second, "another file");
}

fn errors_name_the_path<D: Disk>(dir: &TestDir<D>) {
    let path = dir.path("none");
    let error = dir.disk.open(&path, Open::Read).map(|_| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot open {}: ", path.display())),
        "{text}"
    );
    assert!(text.ends_with("(errno 2)"), "{text}");
}

#[test]
fn a_file_behind_a_link_is_read_and_never_written() {
    let dir = real();
    let content = b"0123456789abcdef";
    dir.file("owned", content);
    let link = dir.path("link");
    std::os::unix::fs::symlink(dir.path("owned"), &link).unwrap();
    let lens: Vec<u64> = dir
        .disk
        .list(&dir.root)
        .unwrap()
        .iter()
        .map(|e| e.len_bytes)
        .collect();
    assert_eq!(lens, [16, 16], "a link has the length of its file");
    assert!(
        !dir.disk
            .open(&dir.path("owned"), Open::Write)
            .unwrap()
            .is_borrowed()
    );
    let file = dir.disk.open(&link, Open::Write).unwrap();
    assert!(file.is_borrowed());
    let mut read = [0; 4];
    read_exact_at(&file, &mut read, 2).unwrap();
    assert_eq!(&read, b"2345");
    assert!(file.write_at(b"x", 0).is_err());
    assert!(file.set_len(0).is_err());
    assert!(file.allocate(64).is_err());
    file.sync_data().unwrap();
    let region = file.map(16, 0).unwrap();
    assert_eq!(region.slice(10, 6), Some(&b"abcdef"[..]));
    assert!(region.reserve(16, 0).is_none() && region.reserve(0, 4).is_none());
    region.populate(0, 16).unwrap();
    let cells = file.map_cells(16).unwrap();
    assert_eq!(cells.load(0), u32::from_be_bytes(*b"0123"));
    assert!(!cells.store(0, 7));
    dir.disk.unlink(&link).unwrap();
    assert_eq!(dir.whole("owned").as_deref(), Some(&content[..]));
}
