//! Answers that come later: after the sync, after its failure, after their time, or never.

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::{CallKind, Fault, Times};
use mqcore_fast_path::policy::Broker;

use crate::serving::{SEGMENT_BYTES, Serving, host, send_with};

const EIO: i32 = 5;

fn codes(serving: &mut Serving) -> Vec<(i32, i32)> {
    let answers = serving.answers();
    answers.iter().map(|a| (a.opaque, a.code)).collect()
}

#[test]
fn one_sync_answers_all_sends_in_their_order() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    for at in 0..5 {
        serving.feed(&send_with(at, &[], b"x"));
    }
    serving.drain();
    assert_eq!(codes(&mut serving), []);
    assert_eq!(serving.number("parked"), 5);
    serving.store.durability().flush().unwrap();
    serving.drain();
    assert_eq!(
        codes(&mut serving),
        [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]
    );
    serving.feed(&send_with(9, &[("i", "WAIT\u{1}false\u{2}")], b"x"));
    assert_eq!(
        codes(&mut serving),
        [(9, 0)],
        "whoever does not wait is not parked"
    );
}

#[test]
fn a_failed_sync_answers_everyone_at_once_and_nobody_with_ok() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    for at in 0..3 {
        serving.feed(&send_with(at, &[], b"x"));
    }
    serving.twin.fail(Fault {
        call: CallKind::Sync,
        path_contains: Some("/commitlog/".to_owned()),
        nth: 1,
        errno: EIO,
        times: Times::Once,
    });
    assert!(serving.store.durability().flush().is_err());
    serving.drain();
    assert_eq!(codes(&mut serving), [(0, 14), (1, 14), (2, 14)]);
    assert_eq!(serving.number("parked"), 0);
    serving.feed(&send_with(4, &[], b"x"));
    serving.drain();
    assert_eq!(
        codes(&mut serving),
        [(4, 14)],
        "refused until the store is opened again"
    );
}

#[test]
fn a_sync_that_takes_too_long_is_answered_as_such() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    serving.feed(&send_with(1, &[], b"x"));
    assert_eq!(serving.fast_path.next_deadline_ms(), Some(5_000));
    serving.pass(4_999);
    assert_eq!(codes(&mut serving), []);
    serving.pass(1);
    assert_eq!(codes(&mut serving), [(1, 10)]);
    serving.store.durability().flush().unwrap();
    serving.drain();
    assert_eq!(codes(&mut serving), [], "answered once");
}

#[test]
fn a_closed_connection_is_forgotten_with_all_it_waits_for() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    let other = serving.client;
    serving.feed(&send_with(1, &[], b"x"));
    serving.client = serving.fast_path.open(host(10), "1.2.3.4:10");
    serving.feed(&send_with(2, &[], b"x"));
    serving.fast_path.close(other);
    assert_eq!(serving.number("parked"), 2, "it ends with its ticket");
    serving.store.durability().flush().unwrap();
    serving.drain();
    assert_eq!(codes(&mut serving), [(2, 0)]);
    assert_eq!(serving.number("parked"), 0);
}

#[test]
fn a_send_waits_for_the_next_log_file_and_not_for_ever() {
    waits_for_the_next_log_file(200);
}

#[test]
fn how_long_it_waits_is_a_setting() {
    waits_for_the_next_log_file(3_000);
}

fn waits_for_the_next_log_file(wait_max_ms: u64) {
    let mut serving = Serving::with(StoreConfig::default());
    serving.fast_path.decide_broker(Broker {
        send_wait_max_ms: wait_max_ms,
        ..serving.fast_path.policy.broker.as_ref().clone()
    });
    let body = vec![7; 60_000];
    for at in 0..SEGMENT_BYTES as i32 / 61_000 {
        serving.feed(&send_with(at, &[], &body));
    }
    let stored = codes(&mut serving).len();
    // As if a thread made files ahead and had not come to the next one yet.
    serving.store.files().preparer.remove_unused().unwrap();
    serving.store.files().preparer.set_has_thread(true);
    serving.feed(&send_with(50, &[], &body));
    serving.feed(&send_with(51, &[], b"small, and behind it"));
    assert_eq!(codes(&mut serving), []);
    assert_eq!(serving.number("deferred"), 2);
    serving.pass(wait_max_ms);
    assert_eq!(codes(&mut serving), []);
    serving.pass(1);
    assert_eq!(codes(&mut serving), [(50, 2), (51, 2)]);
    serving.feed(&send_with(52, &[], &body));
    serving.store.files().preparer.set_has_thread(false);
    serving.drain();
    assert_eq!(codes(&mut serving), [(52, 0)]);
    assert_eq!(serving.number("sends"), stored as u64 + 1);
}
