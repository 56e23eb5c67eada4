//! What goes wrong on demand, and what a crash does not keep.

use super::{contents, last, path, with_file};
use crate::disk::twin::{CallKind, Fault, Tear, Times, TwinDisk};
use crate::disk::{Disk, DiskFile, Open, Region};
use crate::error::Error;

#[test]
fn faults_strike_where_they_were_set() {
    let twin = TwinDisk::new();
    twin.write_raw(path("/log/0"), &[0; 8]);
    let fault = |call, nth, times| Fault {
        call,
        path_contains: Some("log".to_owned()),
        nth,
        errno: libc::EDQUOT,
        times,
    };
    twin.fail(fault(CallKind::Open, 2, Times::Once));
    let file = twin.open(path("/log/0"), Open::Write).unwrap();
    twin.open(path("/other"), Open::Create).unwrap();
    let error = twin.open(path("/log/0"), Open::Read).unwrap_err();
    assert!(error.is_no_space(), "{error}");
    twin.open(path("/log/0"), Open::Read).unwrap();
    twin.fail(fault(CallKind::Write, 1, Times::Always));
    for _ in 0..2 {
        file.write_at(&[1; 8], 0).unwrap_err();
    }
    assert_eq!(twin.read(path("/log/0")).unwrap(), [1, 1, 1, 1, 0, 0, 0, 0]);
    twin.heal();
    file.write_at(&[1; 8], 0).unwrap();
}

#[test]
fn after_the_stop_nothing_happens() {
    let (twin, file) = with_file("/f", 4096);
    let region = file.map(4096, 0).unwrap();
    let calls = twin.calls();
    twin.stop_at_call(calls + 2);
    file.write_at(&[1], 0).unwrap();
    assert!(!twin.is_stopped());
    let error = file.write_at(&[2], 1).unwrap_err();
    assert!(error.to_string().contains("stopped"), "{error}");
    assert!(twin.is_stopped());
    let mut reservation = region.reserve(10, 1).unwrap();
    reservation[0] = 9;
    region.publish(reservation);
    twin.unlink(path("/f")).unwrap_err();
    file.sync_data().unwrap_err();
    assert_eq!(twin.events(), 1);
    assert_eq!(
        twin.fork().read(path("/f")).unwrap()[..11],
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn space_runs_out_and_comes_back() {
    let (twin, file) = with_file("/f", 0);
    twin.set_space(1 << 20, 3 * 4096);
    assert!(file.allocate(5 * 4096).unwrap_err().is_no_space());
    assert_eq!(file.len_bytes().unwrap(), 0);
    assert!(
        file.write_at(&[1; 4 * 4096], 100)
            .unwrap_err()
            .is_no_space()
    );
    assert_eq!(file.len_bytes().unwrap(), 3 * 4096, "what fits is written");
    assert_eq!(twin.space(path("/")).unwrap().free_bytes, 0);
    file.write_at(&[2; 4096], 4096).unwrap();
    twin.set_space(1 << 20, 4096);
    file.write_at(&[1; 4096], 3 * 4096).unwrap();
    twin.unlink(path("/f")).unwrap();
    assert_eq!(twin.space(path("/")).unwrap().free_bytes, 0, "still open");
    drop(file);
    assert_eq!(twin.space(path("/")).unwrap().free_bytes, 4 * 4096);
}

#[test]
fn touching_what_a_file_lost_is_counted_not_fatal() {
    let (twin, file) = with_file("/f", 8192);
    let region = file.map(8192, 0).unwrap();
    region.publish(region.reserve(0, 5000).unwrap());
    assert!(region.slice(0, 5000).is_some());
    assert_eq!(twin.bus_errors(), 0);
    assert!(twin.truncate_under(path("/f"), 4096));
    assert!(region.slice(4000, 200).is_some());
    assert_eq!(twin.bus_errors(), 1);
    region.publish(region.reserve(5000, 10).unwrap());
    assert_eq!(twin.bus_errors(), 2);
    assert_eq!(file.len_bytes().unwrap(), 4096);
}

#[test]
fn damage_is_durable_at_once() {
    let (twin, file) = with_file("/f", 0);
    file.write_at(&[0b100], 0).unwrap();
    let mark = twin.stat(path("/f")).unwrap().unwrap().change_mark;
    assert!(twin.flip_bit(path("/f"), 0, 1));
    assert!(!twin.flip_bit(path("/f"), 1, 1));
    assert_ne!(twin.stat(path("/f")).unwrap().unwrap().change_mark, mark);
    assert_eq!(
        contents(&twin, "/f", Tear::Words),
        [Some(vec![0b110])].into()
    );
}

#[test]
fn the_lock_is_not_in_an_image() {
    let twin = TwinDisk::new();
    let lock = twin.lock(path("/lock")).unwrap();
    assert!(matches!(
        twin.lock(path("/lock")),
        Err(Error::Locked { .. })
    ));
    let history = twin.history();
    let _its_own = history
        .killed(last(&history))
        .disk()
        .lock(path("/lock"))
        .unwrap();
    drop(lock);
    let _again = twin.lock(path("/lock")).unwrap();
}
