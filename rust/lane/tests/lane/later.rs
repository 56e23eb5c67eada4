//! Answers that come later: after the sync, after its failure, after their time, or never.

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::{CallKind, Fault, Times};

use crate::desk::{Desk, SEGMENT_BYTES, host, send_with};

const EIO: i32 = 5;

fn codes(desk: &mut Desk) -> Vec<(i32, i32)> {
    let answers = desk.answers();
    answers.iter().map(|a| (a.opaque, a.code)).collect()
}

#[test]
fn one_sync_answers_all_sends_in_their_order() {
    let mut desk = Desk::new(FlushDiskType::Sync);
    for at in 0..5 {
        desk.feed(&send_with(at, &[], b"x"));
    }
    desk.drain();
    assert_eq!(codes(&mut desk), []);
    assert_eq!(desk.number("parked"), 5);
    desk.store.flush().unwrap();
    desk.drain();
    assert_eq!(codes(&mut desk), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
    desk.feed(&send_with(9, &[("i", "WAIT\u{1}false\u{2}")], b"x"));
    assert_eq!(
        codes(&mut desk),
        [(9, 0)],
        "whoever does not wait is not parked"
    );
}

#[test]
fn a_failed_sync_answers_everyone_at_once_and_nobody_with_ok() {
    let mut desk = Desk::new(FlushDiskType::Sync);
    for at in 0..3 {
        desk.feed(&send_with(at, &[], b"x"));
    }
    desk.twin.fail(Fault {
        call: CallKind::Sync,
        path_contains: Some("/commitlog/".to_owned()),
        nth: 1,
        errno: EIO,
        times: Times::Once,
    });
    assert!(desk.store.flush().is_err());
    desk.drain();
    assert_eq!(codes(&mut desk), [(0, 14), (1, 14), (2, 14)]);
    assert_eq!(desk.number("parked"), 0);
    desk.feed(&send_with(4, &[], b"x"));
    desk.drain();
    assert_eq!(
        codes(&mut desk),
        [(4, 14)],
        "refused until the store is opened again"
    );
}

#[test]
fn a_sync_that_takes_too_long_is_told_as_such() {
    let mut desk = Desk::new(FlushDiskType::Sync);
    desk.feed(&send_with(1, &[], b"x"));
    assert_eq!(desk.lane.next_deadline_ms(), Some(5_000));
    desk.pass(4_999);
    assert_eq!(codes(&mut desk), []);
    desk.pass(1);
    assert_eq!(codes(&mut desk), [(1, 10)]);
    desk.store.flush().unwrap();
    desk.drain();
    assert_eq!(codes(&mut desk), [], "answered once");
}

#[test]
fn a_closed_connection_is_forgotten_with_all_it_waits_for() {
    let mut desk = Desk::new(FlushDiskType::Sync);
    let other = desk.client;
    desk.feed(&send_with(1, &[], b"x"));
    desk.client = desk.lane.open(host(10), "1.2.3.4:10");
    desk.feed(&send_with(2, &[], b"x"));
    desk.lane.close(other);
    assert_eq!(desk.number("parked"), 2, "it ends with its ticket");
    desk.store.flush().unwrap();
    desk.drain();
    assert_eq!(codes(&mut desk), [(2, 0)]);
    assert_eq!(desk.number("parked"), 0);
}

#[test]
fn a_send_waits_for_the_next_log_file_and_not_for_ever() {
    let mut desk = Desk::with(StoreConfig::default());
    let body = vec![7; 60_000];
    for at in 0..SEGMENT_BYTES as i32 / 61_000 {
        desk.feed(&send_with(at, &[], &body));
    }
    let stored = codes(&mut desk).len();
    // As if a thread made files ahead and had not come to the next one yet.
    desk.store.files().preparer.remove_unused().unwrap();
    desk.store.files().preparer.set_has_thread(true);
    desk.feed(&send_with(50, &[], &body));
    desk.feed(&send_with(51, &[], b"small, and behind it"));
    assert_eq!(codes(&mut desk), []);
    assert_eq!(desk.number("deferred"), 2);
    desk.pass(100);
    assert_eq!(codes(&mut desk), []);
    desk.pass(101);
    assert_eq!(codes(&mut desk), [(50, 2), (51, 2)]);
    desk.feed(&send_with(52, &[], &body));
    desk.store.files().preparer.set_has_thread(false);
    desk.drain();
    assert_eq!(codes(&mut desk), [(52, 0)]);
    assert_eq!(desk.number("sends"), stored as u64 + 1);
}
