//! A master and slaves over real sockets: copies that are equal, byte for byte, and peers that are none.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pairs;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::{ManualClock, SystemClock};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::lock::Mutex;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Standby, Store, WholeRecords};
use mqcore_replica::{Header, QuorumRule};
use mqcore_shipping::{Follower, Master, Shipping, Slave, walk_of};

use pairs::{
    Dir, HOW, answered, config_of, equal_after_each_end, first_end, log_bytes, open, pair, put,
    until,
};

#[test]
fn slaves_become_equal_and_go_on_after_each_end() {
    equal_after_each_end("plain", 6, |master, number, slave| {
        let (near, far) = pair();
        master.add(&format!("slave {number}"), far.into()).unwrap();
        slave.follow("the master", near.into()).unwrap();
    });
}

#[test]
fn peers_that_are_no_slaves_are_closed_with_the_reason() {
    let dir = Dir::new("hostile");
    let store = open(&dir.0, "ASYNC_FLUSH");
    let end = put(&store, 1_000);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let cases: [(&[u8], &str); 3] = [
        (b"GET / HTTP/1.1\r\n\r\n", "the slave is ahead"),
        (&[0xff; 8], "no place in a log"),
        (&(end + 1).to_be_bytes(), "the slave is ahead"),
    ];
    for (sent, why) in cases {
        let (mut near, far) = pair();
        master.add("a stranger", far.into()).unwrap();
        near.write_all(sent).unwrap();
        let ended = first_end(master.ended());
        assert!(ended.contains(why), "{ended}");
        assert_eq!(near.read(&mut [0; 100]).unwrap_or(0), 0, "nothing was sent");
    }
    let (mut near, far) = pair();
    master.add("a liar", far.into()).unwrap();
    near.write_all(&[end.to_be_bytes(), (end + 8).to_be_bytes()].concat())
        .unwrap();
    assert!(first_end(master.ended()).contains("was sent the log up to"));
    // One that reads nothing holds up nobody.
    let (mut slow, far) = pair();
    master.add("a slow one", far.into()).unwrap();
    slow.write_all(&1u64.to_be_bytes()).unwrap();
    let copy_dir = Dir::new("beside");
    let copy = open(&copy_dir.0, "ASYNC_FLUSH");
    let slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    let (near, far) = pair();
    master.add("a good one", far.into()).unwrap();
    slave.follow("the master", near.into()).unwrap();
    until("the good one has everything", || {
        copy.replica().appended() == end
    });
    slave.stop();
    master.stop();
    store.close().unwrap();
    copy.close().unwrap();
}

#[test]
fn a_master_that_sends_no_log_changes_nothing() {
    let dir = Dir::new("lied-to");
    let store = open(&dir.0, "ASYNC_FLUSH");
    let slave = Slave::new(Arc::clone(&store), HOW.timing).unwrap();
    let header = |offset, len_bytes| Header { offset, len_bytes }.to_bytes().to_vec();
    let cases = [
        (
            [header(0, 100), vec![7; 100]].concat(),
            "that are no record",
        ),
        (header(5, 0), "no file of 1048576 bytes begins at 5"),
        (vec![0xff; 12], "a header with offset -1"),
        (
            b"SSH-2.0-x y z".to_vec(),
            "no file of 1048576 bytes begins at",
        ),
    ];
    for (sent, why) in cases {
        let (near, mut far) = pair();
        slave.follow("the master", near.into()).unwrap();
        far.read_exact(&mut [1; 8]).unwrap();
        far.write_all(&sent).unwrap();
        let ended = first_end(slave.ended());
        assert!(ended.contains(why), "{ended}");
        assert_eq!(store.replica().appended(), 0);
    }
    let (near, far) = pair();
    slave.follow("the master", near.into()).unwrap();
    drop(far);
    assert!(!first_end(slave.ended()).is_empty());
    slave.stop();
    assert!(store.close().unwrap());
}

const RULE: QuorumRule = QuorumRule {
    in_sync_replicas: 1,
    in_sync_replicas_min: 1,
    follows_in_sync: false,
    gap_max_bytes: 1 << 28,
    behind_max_bytes: 1 << 28,
};

/// Reads whole frames until the log is there up to `end`.
fn read_to(slave: &mut TcpStream, end: u64) {
    let mut header = [0; 12];
    loop {
        slave.read_exact(&mut header).unwrap();
        let header = Header::of(header).unwrap();
        let mut body = vec![0; header.len_bytes as usize];
        slave.read_exact(&mut body).unwrap();
        if header.offset + u64::from(header.len_bytes) >= end {
            return;
        }
    }
}

#[test]
fn what_waits_for_replicas_is_answered_by_reports_alone() {
    let dir = Dir::new("quorum");
    let store = open(&dir.0, "ASYNC_FLUSH");
    let how = Shipping {
        quorum: Some(RULE),
        ..HOW
    };
    // What a slave may hold that this master has not sent.
    let begin = put(&store, 1);
    let master = Master::start(Arc::clone(&store), how).unwrap();
    assert_eq!(store.replica().standby(), Standby::Unavailable);
    let (mut slave, theirs) = pair();
    master.add("10.0.0.2:1", theirs.into()).unwrap();
    slave.write_all(&begin.to_be_bytes()).unwrap();
    let is_near = || store.replica().standby() == Standby::Reachable;
    until("the slave is not known", is_near);
    let ends: Vec<u64> = (0..3).map(|_| put(&store, 1)).collect();
    let park = |end| store.durability().park(end, true).unwrap();
    let tickets: Vec<Ticket> = ends.iter().map(|end| park(*end)).collect();
    read_to(&mut slave, ends[2]);
    assert_eq!(answered(&store), []);
    slave.write_all(&ends[1].to_be_bytes()).unwrap();
    let is_woken = || store.first_loop().wake_descriptor().wait(Duration::ZERO);
    until("nobody was woken", is_woken);
    let ok = |at: usize| (tickets[at], PutStatus::PutOk);
    assert_eq!(answered(&store), [ok(0), ok(1)]);
    // A report of what was not sent acknowledges nothing, and neither does a stranger's.
    slave.write_all(&(ends[2] + 1).to_be_bytes()).unwrap();
    assert!(first_end(master.ended()).contains("was sent the log up to"));
    let (mut stranger, theirs) = pair();
    master.add("10.0.0.3:1", theirs.into()).unwrap();
    stranger.write_all(&(ends[2] + 1).to_be_bytes()).unwrap();
    assert!(first_end(master.ended()).contains("the slave is ahead"));
    until("the slave counts still", || {
        store.replica().standby() == Standby::Unavailable
    });
    assert_eq!(answered(&store), []);
    let (mut slave, theirs) = pair();
    master.add("10.0.0.2:2", theirs.into()).unwrap();
    // What it asks for shows how long its log is; what it reports behind that, whose.
    slave.write_all(&ends[1].to_be_bytes()).unwrap();
    read_to(&mut slave, ends[2]);
    assert_eq!(answered(&store), []);
    slave.write_all(&ends[2].to_be_bytes()).unwrap();
    until("nobody was woken", is_woken);
    assert_eq!(answered(&store), [ok(2)]);
    master.stop();
}

#[test]
fn a_slave_that_syncs_has_synced_what_its_first_report_names() {
    let (one, two) = (Dir::new("synced-one"), Dir::new("synced-two"));
    let store = open(&one.0, "ASYNC_FLUSH");
    let copy = open(&two.0, "SYNC_FLUSH");
    let slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    let end = put(&store, 40);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    // What a connection leaves behind that ended between an append and its sync.
    let replica = copy.replica();
    let bytes = log_bytes(&store, 0, end);
    let whole = WholeRecords {
        end,
        store_ms: Some(1),
    };
    replica.append(0, &[&bytes], whole).unwrap();
    let slave = {
        drop(slave);
        Slave::new(Arc::clone(&copy), HOW.timing).unwrap()
    };
    let (ours, theirs) = pair();
    master.add("m", theirs.into()).unwrap();
    slave.follow("s", ours.into()).unwrap();
    until("nothing was reported", || {
        slave.following().reported == Some(end)
    });
    assert_eq!(copy.stats().flushed, end);
    slave.stop();
    master.stop();
}

/// What a slave that reads nothing else gets to know: why it was closed.
fn slave_end(master: &mut TcpStream, slave: &Slave<RealDisk, SystemClock>, sent: &[u8]) -> String {
    let mut request = [0; 8];
    master.read_exact(&mut request).unwrap();
    master.write_all(sent).unwrap();
    first_end(slave.ended())
}

#[test]
fn a_slave_compares_the_end_of_its_log_when_it_connects() {
    let (one, two) = (Dir::new("compared-one"), Dir::new("compared-two"));
    let store = open(&one.0, "ASYNC_FLUSH");
    let copy = open(&two.0, "ASYNC_FLUSH");
    let end = put(&store, 100);
    let bytes = log_bytes(&store, 0, end);
    let whole = WholeRecords {
        end,
        store_ms: Some(1),
    };
    copy.replica().append(0, &[&bytes], whole).unwrap();
    let slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    let begin = end - 64 * 1024;
    let frame = |changed: Option<usize>| {
        let mut body = bytes[begin as usize..].to_vec();
        if let Some(at) = changed {
            body[at] ^= 1;
        }
        let len_bytes = body.len() as u32;
        let offset = begin;
        [Header { offset, len_bytes }.to_bytes().to_vec(), body].concat()
    };
    for changed in [0, 1_000, 64 * 1024 - 1] {
        let (near, mut far) = pair();
        slave.follow("the master", near.into()).unwrap();
        let why = slave_end(&mut far, &slave, &frame(Some(changed)));
        assert!(why.contains("bytes at"), "{why}");
        assert!(why.contains("no copies of each other"), "{why}");
        assert_eq!(copy.replica().appended(), end);
    }
    slave.stop();
    // Nothing is acknowledged before all is compared.
    let walk = Arc::new(Mutex::new(walk_of(&copy)));
    let mut follower = Follower::new(Arc::clone(&copy), walk, HOW.timing);
    let mut reports = Vec::new();
    follower.begin().unwrap();
    follower.due(&mut reports).unwrap();
    let whole = frame(None);
    let (last, front) = whole.split_last().unwrap();
    follower.came(front).unwrap();
    follower.due(&mut reports).unwrap();
    assert_eq!(reports, begin.to_be_bytes(), "its request alone");
    follower.came(&[*last]).unwrap();
    follower.due(&mut reports).unwrap();
    assert_eq!(reports, [begin.to_be_bytes(), end.to_be_bytes()].concat());
}

#[test]
fn a_part_of_a_frame_is_not_taken_for_the_end_of_the_masters_log() {
    let dir = Dir::new("ends-before");
    let bytes = {
        let store = open(&dir.0, "ASYNC_FLUSH");
        let end = put(&store, 100);
        let bytes = log_bytes(&store, 0, end);
        store.close().unwrap();
        bytes
    };
    let clock = ManualClock::at(1);
    let config = config_of(&dir.0, "ASYNC_FLUSH");
    let copy = Store::open(RealDisk, clock.clone(), config, OpenHow::RefuseDamage);
    let copy = Arc::new(copy.unwrap());
    let end = bytes.len() as u64;
    let offset = end - 64 * 1024;
    let head = |len_bytes| Header { offset, len_bytes }.to_bytes();
    let begun = || {
        let walk = Arc::new(Mutex::new(walk_of(&copy)));
        let mut follower = Follower::new(Arc::clone(&copy), walk, HOW.timing);
        follower.begin().unwrap();
        follower.due(&mut Vec::new()).unwrap();
        follower
    };
    let long = Duration::from_millis(3_000);
    // Bytes of a header that announces a body, with pauses between.
    let mut follower = begun();
    for byte in head(64 * 1024) {
        follower.came(&[byte]).unwrap();
        clock.advance(long);
    }
    follower.came(&bytes[offset as usize..]).unwrap();
    let mut reports = Vec::new();
    follower.due(&mut reports).unwrap();
    assert_eq!(reports, end.to_be_bytes());
    // Whole headers that announce none.
    let mut follower = begun();
    follower.came(&head(0)).unwrap();
    clock.advance(long);
    let why = follower.came(&head(0)).unwrap_err();
    assert!(why.contains("the master has nothing behind"), "{why}");
}

#[test]
fn a_slave_that_holds_what_was_never_sent_is_refused_however_long_the_log_is() {
    let dir = Dir::new("never-sent");
    let store = open(&dir.0, "ASYNC_FLUSH");
    let opened = put(&store, 50);
    // What a crash leaves: nobody knows what is lost.
    store.abandon();
    drop(store);
    let store = open(&dir.0, "ASYNC_FLUSH");
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let end = put(&store, 50);
    let (mut slave, theirs) = pair();
    master.add("10.0.0.2:1", theirs.into()).unwrap();
    slave.write_all(&(opened + 1).to_be_bytes()).unwrap();
    let why = first_end(master.ended());
    assert!(why.contains("the slave is ahead"), "{why}");
    // What one slave was sent another may hold.
    let (mut slave, theirs) = pair();
    master.add("10.0.0.3:1", theirs.into()).unwrap();
    slave.write_all(&opened.to_be_bytes()).unwrap();
    read_to(&mut slave, end);
    let (mut other, theirs) = pair();
    master.add("10.0.0.2:2", theirs.into()).unwrap();
    other.write_all(&(opened + 1).to_be_bytes()).unwrap();
    read_to(&mut other, end);
    master.stop();
}

#[test]
fn a_new_slave_acknowledges_nothing_that_was_sent_before_its_log_begins() {
    let dir = Dir::new("begun");
    let store = open(&dir.0, "ASYNC_FLUSH");
    let how = Shipping {
        quorum: Some(RULE),
        ..HOW
    };
    let master = Master::start(Arc::clone(&store), how).unwrap();
    let first = put(&store, 10);
    let early = store.durability().park(first, true).unwrap();
    let file = store.replica().extent().file_len_bytes;
    let end = put(&store, 800);
    assert!(end > file, "the log has a second file");
    let (mut slave, theirs) = pair();
    master.add("10.0.0.2:1", theirs.into()).unwrap();
    slave.write_all(&0u64.to_be_bytes()).unwrap();
    read_to(&mut slave, end);
    slave.write_all(&end.to_be_bytes()).unwrap();
    let first_answers = RefCell::new(Vec::new());
    until("nothing is answered", || {
        first_answers.borrow_mut().extend(answered(&store));
        !first_answers.borrow().is_empty()
    });
    assert_eq!(
        *first_answers.borrow(),
        [(early, PutStatus::FlushSlaveTimeout)]
    );
    // Nothing waits any more that the slave has not got.
    let late = store.durability().park(end, true).unwrap();
    let is_answered = || answered(&store) == [(late, PutStatus::PutOk)];
    until("the slave does not count", is_answered);
    master.stop();
}

#[test]
fn a_learner_has_the_log_and_no_send_counts_it() {
    let (one, two, three) = (
        Dir::new("learn-1"),
        Dir::new("learn-2"),
        Dir::new("learn-3"),
    );
    let store = open(&one.0, "ASYNC_FLUSH");
    let quorum = QuorumRule {
        in_sync_replicas: 2,
        in_sync_replicas_min: 2,
        follows_in_sync: false,
        gap_max_bytes: 1 << 28,
        behind_max_bytes: 1 << 28,
    };
    let how = Shipping {
        quorum: Some(quorum),
        ..HOW
    };
    let begun = put(&store, 50);
    let master = Master::start(Arc::clone(&store), how).unwrap();
    let copies = [open(&two.0, "ASYNC_FLUSH"), open(&three.0, "ASYNC_FLUSH")];
    let learner = Slave::new(Arc::clone(&copies[0]), HOW.timing)
        .unwrap()
        .learning();
    let (near, far) = pair();
    master.add("10.0.0.2:1", far.into()).unwrap();
    learner.follow("the master", near.into()).unwrap();
    until("the learner has the log", || {
        copies[0].replica().appended() == begun
    });
    until("the master knows what it is", || {
        master.slaves().iter().any(|slave| slave.is_learner)
    });
    let standing = master.slaves().remove(0).standing;
    assert_eq!((standing.acknowledged, standing.lag_bytes), (0, 0));
    until("nobody is in sync", || {
        store.replica().standby() == Standby::NotEnough
    });
    assert_eq!(store.files().positions.replicated.position(), 0);
    // A slave that is none counts, and the learner goes on.
    let slave = Slave::new(Arc::clone(&copies[1]), HOW.timing).unwrap();
    let (near, far) = pair();
    master.add("10.0.0.3:1", far.into()).unwrap();
    slave.follow("the master", near.into()).unwrap();
    until("the slave counts", || {
        store.replica().standby() == Standby::Reachable
    });
    let end = put(&store, 50);
    until("both have it", || {
        copies.iter().all(|copy| copy.replica().appended() == end)
    });
    assert_eq!(log_bytes(&copies[0], 0, end), log_bytes(&store, 0, end));
    learner.stop();
    slave.stop();
    master.stop();
}
