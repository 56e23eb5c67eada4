//! Replicas under a controller over real sockets, and files: epochs, joins, failover, cuts. The test plays
//! the controller.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pairs;

use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Error;
use mqcore_engine::lock::Mutex;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Standby, Store};
use mqcore_record::{Host, Message};
use mqcore_replica::{Introduction, Members, MembersRule};
use mqcore_shipping::{Epochs, Joining, Master, Membership, Reign, Slave};

use pairs::{Dir, HOW, RealStore, answered, config_of, first_ended, log_bytes, pair, put, until};

/// A replica: its store, its epochs, and what it is.
struct Replica {
    id: i64,
    store: Arc<RealStore>,
    epochs: Arc<Epochs<RealDisk>>,
    master: Option<Master>,
    slave: Option<Slave<RealDisk, SystemClock>>,
}

impl Replica {
    fn open(dir: &Dir, id: i64) -> Self {
        Self::open_as(dir, id, OpenHow::RefuseDamage)
    }

    fn open_as(dir: &Dir, id: i64, how: OpenHow) -> Self {
        let mut config = config_of(&dir.0, "ASYNC_FLUSH");
        config.is_member = true;
        let store = Store::open(RealDisk, SystemClock::new(), config, how).unwrap();
        let store = Arc::new(store);
        store.start().unwrap();
        let epochs = Arc::new(Epochs::open(&store, &epoch_file(&dir.0)).unwrap());
        Self {
            id,
            store,
            epochs,
            master: None,
            slave: None,
        }
    }

    /// Leads an epoch, with a set that has this epoch, too.
    fn lead(&mut self, epoch: i32, members: &[i64]) {
        if let Some(slave) = self.slave.take() {
            slave.stop();
        }
        let own_id = self.id;
        let master = self.master.get_or_insert_with(|| {
            let rule = MembersRule {
                own_id,
                acks_whole_set: true,
                in_sync_replicas: 1,
                in_sync_replicas_min: 1,
                behind_max_ms: 15_000,
                absent_max_ms: 50,
            };
            let membership = Membership {
                own_id,
                members: Arc::new(Mutex::new(Members::new(rule))),
                epochs: Arc::clone(&self.epochs),
            };
            Master::start_member(Arc::clone(&self.store), HOW, membership).unwrap()
        });
        let replica = self.store.replica();
        let goes_on = self.store.report().is_log_whole;
        let lead = |end| {
            let reign = Reign {
                epoch,
                set_epoch: epoch,
            };
            let start = self
                .epochs
                .lead(reign, replica.extent().start, end, goes_on)?;
            master.lead(members, epoch, start, replica.confirmed());
            Ok(())
        };
        replica.lead(lead).unwrap();
    }

    fn master(&self) -> &Master {
        self.master.as_ref().unwrap()
    }

    fn slave(&self) -> &Slave<RealDisk, SystemClock> {
        self.slave.as_ref().unwrap()
    }

    /// Follows a master over a new connection.
    fn follow(&mut self, other: &Self) {
        let joining = Joining {
            epochs: Arc::clone(&self.epochs),
            who: Introduction {
                id: self.id,
                from_last_file: false,
                is_learner: false,
            },
        };
        let store = &self.store;
        let slave = self.slave.get_or_insert_with(|| {
            Slave::joining(Arc::clone(store), HOW.timing, Some(joining)).unwrap()
        });
        let (near, far) = pair();
        let name = format!("replica {}", self.id);
        other.master().add(&name, far.into()).unwrap();
        slave.follow("the master", near.into()).unwrap();
    }

    /// Waits until the other one is to be asked for, and plays the controller that agrees.
    fn let_join(&self, set_epoch: i32) {
        let master = self.master();
        let is_wanting = || master.with_members(|set| set.is_wanting()) == Some(true);
        until("nobody is to join", is_wanting);
        let wanted = master.wanted().unwrap();
        assert!(master.adopt(&wanted.members, set_epoch));
    }

    fn end(&self) -> u64 {
        self.store.replica().appended()
    }

    /// As a kill leaves it.
    fn kill(self) {
        let Self {
            store,
            master,
            slave,
            ..
        } = self;
        if let Some(master) = master {
            master.stop();
        }
        if let Some(slave) = slave {
            slave.stop();
        }
        store.abandon();
    }

    fn close(self) -> bool {
        let store = Arc::clone(&self.store);
        if let Some(master) = self.master {
            master.stop();
        }
        if let Some(slave) = self.slave {
            slave.stop();
        }
        store.close().unwrap()
    }
}

fn epoch_file(root: &Path) -> std::path::PathBuf {
    root.join("epochFileCheckpoint")
}

fn assert_equal(one: &Replica, two: &Replica) {
    let end = one.end();
    let equal =
        || two.end() == end && log_bytes(&two.store, 0, end) == log_bytes(&one.store, 0, end);
    until("the logs are not equal", equal);
    assert_eq!(one.epochs.table().last(), two.epochs.table().last());
}

/// The offsets in queue 0, in the order of its log.
fn queue_offsets(store: &RealStore) -> Vec<u64> {
    let bytes = log_bytes(store, 0, store.replica().appended());
    let (mut at, mut offsets) = (0, Vec::new());
    while at < bytes.len() {
        match mqcore_record::head(&bytes[at..]).unwrap() {
            mqcore_record::Found::Record(record) => {
                if record.queue_id == 0 {
                    offsets.push(record.queue_offset as u64);
                }
                at += record.total_len_bytes;
            }
            mqcore_record::Found::Blank { .. } => at = at.next_multiple_of(1 << 20),
        }
    }
    offsets
}

#[test]
fn a_slave_joins_and_what_is_acknowledged_is_with_it_whatever_breaks() {
    let (one, two) = (Dir::new("member-one"), Dir::new("member-two"));
    let (mut a, mut b) = (Replica::open(&one, 1), Replica::open(&two, 2));
    let refused = a.store.put(&Message::of("T", 0, b"x", host())).unwrap_err();
    assert!(refused.to_string().contains("no role yet"), "{refused}");
    a.lead(1, &[1]);
    put(&a.store, 200);
    assert_eq!(a.store.replica().standby(), Standby::Unneeded);
    b.follow(&a);
    a.let_join(2);
    until("sends wait", || {
        a.store.replica().standby() == Standby::Reachable
    });
    for round in 0..6 {
        let end = put(&a.store, 100);
        let ticket = a.store.durability().park(end, true).unwrap();
        if round % 2 == 0 {
            b.slave().stop();
            b.follow(&a);
        }
        let mut answers = Vec::new();
        until("nothing is acknowledged", || {
            answers.extend(answered(&a.store));
            !answers.is_empty()
        });
        assert_eq!(answers, [(ticket, PutStatus::PutOk)]);
        assert!(b.end() >= end);
    }
    assert_equal(&a, &b);
    let end = a.end();
    // Soon, without anything else that is sent.
    until("the end is confirmed", || {
        b.store.replica().confirmed() == end
    });
    until("it is dispatched", || b.store.replica().dispatched() == end);
    // Nobody sees what only the master has.
    b.slave().stop();
    let more = put(&a.store, 10);
    std::thread::yield_now();
    assert_eq!(a.store.replica().confirmed(), end);
    assert_eq!(a.store.replica().dispatched(), end);
    assert_eq!(answered(&a.store), []);
    let leave = || a.master().with_members(|set| set.is_wanting()) == Some(true);
    until("the slave is not missed", leave);
    let wanted = a.master().wanted().unwrap();
    assert_eq!((wanted.members.as_slice(), wanted.set_epoch), (&[1][..], 2));
    assert_eq!(a.store.replica().confirmed(), end);
    assert!(a.master().adopt(&[1], 3));
    until("the master sees its log", || {
        a.store.replica().dispatched() == more
    });
    assert!(b.close());
    assert!(a.close());
}

fn host() -> Host {
    Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    }
}

#[test]
fn a_divergent_tail_is_cut_and_kept_and_the_copies_are_equal() {
    let (one, two) = (Dir::new("cut-one"), Dir::new("cut-two"));
    let (mut a, mut b) = (Replica::open(&one, 1), Replica::open(&two, 2));
    a.lead(1, &[1]);
    put(&a.store, 300);
    b.follow(&a);
    a.let_join(2);
    let common = put(&a.store, 50);
    until("the slave has it, and the master knows", || {
        a.store.replica().confirmed() == common
    });
    b.slave().stop();
    // The old master goes on alone: nothing of it is acknowledged or seen.
    put(&a.store, 700);
    assert!(a.end() > common + (1 << 20), "over more than one file");
    assert_eq!(a.store.replica().confirmed(), common);
    a.kill();
    b.lead(2, &[2]);
    assert_eq!(b.epochs.table().last().unwrap().start, common);
    put(&b.store, 20);
    let mut a = Replica::open(&one, 1);
    assert!(a.end() > common);
    assert!(a.store.replica().dispatched() <= common);
    a.follow(&b);
    let ended = first_ended(a.slave().ended());
    assert_eq!(ended.cut_at, Some(common), "{}", ended.why);
    a.close();
    let mut a = Replica::open_as(&one, 1, OpenHow::CutAt(common));
    assert_eq!(a.end(), common);
    let cut = &a.store.report().cut;
    assert!(cut.whole_records > 600 && cut.kept_aside_bytes > 1 << 20);
    a.follow(&b);
    put(&b.store, 30);
    assert_equal(&b, &a);
    let offsets = queue_offsets(&b.store);
    assert!(
        offsets.iter().copied().eq(0..offsets.len() as u64),
        "{offsets:?}"
    );
    a.close();
    b.close();
    // A crash behind the cut leaves a log that opens as any other.
    let again = Replica::open(&one, 1);
    again.kill();
    Replica::open(&one, 1).close();
}

#[test]
fn a_log_is_cut_where_a_record_begins_and_nowhere_else() {
    let dir = Dir::new("cut-at");
    let mut a = Replica::open(&dir, 1);
    a.lead(1, &[1]);
    let first = put(&a.store, 20);
    let end = put(&a.store, 20);
    assert!(a.close());
    for at in [first + 1, first - 1] {
        let mut config = config_of(&dir.0, "ASYNC_FLUSH");
        config.is_member = true;
        let opened = Store::open(RealDisk, SystemClock::new(), config, OpenHow::CutAt(at));
        let error = opened.err().unwrap();
        assert!(matches!(error, Error::NoRecord { physical_offset, .. } if physical_offset == at));
    }
    let a = Replica::open(&dir, 1);
    assert_eq!(a.end(), end, "a refusal changes nothing");
    assert!(a.close());
    let a = Replica::open_as(&dir, 1, OpenHow::CutAt(end + 5));
    assert_eq!(a.end(), end);
    a.close();
    let a = Replica::open_as(&dir, 1, OpenHow::CutAt(first));
    assert_eq!(a.end(), first);
    assert_eq!(a.store.replica().dispatched(), first);
    a.close();
}

#[test]
fn who_had_asked_for_a_set_before_it_was_killed_does_not_lead_the_epoch_on() {
    let dir = Dir::new("asked");
    let reign = |epoch, set_epoch| Reign { epoch, set_epoch };
    let mut a = Replica::open(&dir, 1);
    a.lead(4, &[1]);
    let end = put(&a.store, 10);
    a.epochs.note_asked(reign(4, 4)).unwrap();
    let goes_on = a.epochs.lead(reign(4, 4), 0, end, true);
    assert_eq!(goes_on.unwrap(), 0, "who has asked knows whom it waits for");
    a.kill();
    let a = Replica::open(&dir, 1);
    let refused = a.epochs.lead(reign(4, 4), 0, end, true).unwrap_err();
    assert!(
        refused.to_string().contains("another epoch is needed"),
        "{refused}"
    );
    // The set has been replaced since: what was asked for comes too late.
    assert_eq!(a.epochs.lead(reign(4, 5), 0, end, true).unwrap(), 0);
    assert_eq!(a.epochs.lead(reign(5, 5), 0, end, true).unwrap(), end);
    a.close();
}

#[test]
fn what_queues_have_not_got_has_its_offsets_all_the_same() {
    let dir = Dir::new("undispatched");
    let mut a = Replica::open(&dir, 1);
    a.lead(1, &[1]);
    let seen = put(&a.store, 30);
    until("it is dispatched", || {
        a.store.replica().dispatched() == seen
    });
    // A member that never comes: nothing is confirmed from here on.
    assert!(a.master().adopt(&[1, 9], 2));
    until("sends wait", || {
        a.store.replica().standby() == Standby::Reachable
    });
    put(&a.store, 30);
    assert_eq!(a.store.replica().dispatched(), seen);
    a.store.checkpoints().write().unwrap();
    a.kill();
    let mut a = Replica::open(&dir, 1);
    assert_eq!(a.store.replica().confirmed(), seen);
    assert_eq!(a.store.replica().dispatched(), seen);
    a.lead(2, &[1, 9]);
    put(&a.store, 30);
    assert_eq!(a.store.replica().dispatched(), seen, "queues wait still");
    let offsets = queue_offsets(&a.store);
    assert!(
        offsets.iter().copied().eq(0..offsets.len() as u64),
        "{offsets:?}"
    );
    assert!(!a.close(), "the next start has to feed the queues");
}

#[test]
fn a_store_that_was_killed_while_it_followed_can_lead_at_once_behind_whole_records() {
    let (one, two) = (Dir::new("torn-one"), Dir::new("torn-two"));
    let (mut a, mut b) = (Replica::open(&one, 1), Replica::open(&two, 2));
    a.lead(1, &[1]);
    for round in 0..20 {
        b.follow(&a);
        put(&a.store, 60);
        b.slave().stop();
        // Wherever the connection has ended, nothing torn is left.
        let end = b.end();
        let batch = log_bytes(&b.store, 0, end);
        assert!(batch.len() as u64 == end, "round {round}");
        let walk = mqcore_shipping::walk_of(&b.store);
        assert_eq!(walk.whole_end(), end);
        let mut checked = mqcore_replica::RecordWalk::new(0, 1 << 20);
        checked.take(&batch).unwrap();
        assert_eq!(checked.whole_end(), end);
    }
    a.kill();
    b.lead(2, &[2]);
    put(&b.store, 5);
    let offsets = queue_offsets(&b.store);
    assert!(offsets.iter().copied().eq(0..offsets.len() as u64));
    b.close();
}

#[test]
fn epochs_that_the_log_has_not_reached_are_forgotten_and_a_torn_file_gives_way_to_its_bak() {
    let dir = Dir::new("epoch-file");
    let mut a = Replica::open(&dir, 1);
    a.lead(1, &[1]);
    let end = put(&a.store, 10);
    a.lead(3, &[1]);
    let last = a.epochs.table().last().unwrap();
    assert_eq!((last.epoch, last.start), (3, end));
    // What power loss may have taken of it a slave may have: nothing else may be stored in its place.
    let of_epoch = |epoch| Reign {
        epoch,
        set_epoch: 9,
    };
    let refused = a.epochs.lead(of_epoch(3), 0, end, false).unwrap_err();
    assert!(
        refused.to_string().contains("another epoch is needed"),
        "{refused}"
    );
    let refused = a.epochs.lead(of_epoch(2), 0, end, true).unwrap_err();
    assert!(
        refused.to_string().contains("the log has epoch 3"),
        "{refused}"
    );
    a.close();
    let path = epoch_file(&dir.0);
    std::fs::write(&path, "2\n0\n1-0\n7-999999\n").unwrap();
    let a = Replica::open(&dir, 1);
    assert_eq!(a.epochs.table().last_epoch(), 1);
    assert_eq!(
        std::fs::read_to_string(&path).unwrap().lines().last(),
        Some("1-0")
    );
    a.close();
    std::fs::write(
        path.with_file_name("epochFileCheckpoint.bak"),
        "1\n0\n1-0\n",
    )
    .unwrap();
    let whole = std::fs::read(&path).unwrap();
    for len in 1..whole.len() {
        std::fs::write(&path, &whole[..len]).unwrap();
        let a = Replica::open(&dir, 1);
        assert_eq!(a.epochs.table().last_epoch(), 1);
        a.store.abandon();
    }
    std::fs::remove_file(path.with_file_name("epochFileCheckpoint.bak")).unwrap();
    let mut config = config_of(&dir.0, "ASYNC_FLUSH");
    config.is_member = true;
    let how = OpenHow::RefuseDamage;
    let store = Store::open(RealDisk, SystemClock::new(), config, how).unwrap();
    let refused = Epochs::open(&store, &path).err().unwrap();
    assert!(
        refused
            .to_string()
            .contains("there is no previous generation"),
        "{refused}"
    );
    // Torn to nothing: the log would pass for one that was copied before there were epochs.
    std::fs::write(&path, "").unwrap();
    let refused = Epochs::open(&store, &path).err().unwrap();
    assert!(
        refused.to_string().contains("nobody knows whose it is"),
        "{refused}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        Epochs::open(&store, &path).unwrap().table().last_epoch(),
        -1
    );
}
