//! openraft's own tests of a storage, three controllers whose messages a test carries, and crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mqcore_engine::disk::twin::{Bound, CallKind, Fault, Times, TwinDisk};
use openraft::Vote;
use openraft::storage::RaftLogStorage;
use openraft::testing::{StoreBuilder, Suite};

use super::log::{Failure, Log};
use super::state::State;
use super::types::Types;
use super::{Group, Timing};
use crate::node::{Consensus, ConsensusError, Machine};

const DIR: &str = "/controller";
const PATIENCE: Duration = Duration::from_secs(30);

/// Remembers its entries.
#[derive(Default)]
struct Entries(Vec<String>);

impl Machine for Entries {
    type Answer = usize;

    fn apply(&mut self, entry: &[u8]) -> Result<usize, String> {
        self.0.push(String::from_utf8_lossy(entry).into_owned());
        Ok(self.0.len())
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.join("\n").into_bytes()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        self.0 = text.lines().map(str::to_owned).collect();
        Ok(())
    }
}

struct Builder;

impl StoreBuilder<Types, Log<TwinDisk>, State<TwinDisk, Entries>, ()> for Builder {
    async fn build(&self) -> Result<((), Log<TwinDisk>, State<TwinDisk, Entries>), Failure> {
        let log = Log::open(TwinDisk::new(), Path::new(DIR), 1).unwrap();
        let state = State::new(log.clone(), Entries::default()).unwrap();
        Ok(((), log, state))
    }
}

#[test]
fn the_storage_passes_the_tests_of_openraft() {
    Suite::test_all(Builder).unwrap();
}

fn timing() -> Timing {
    Timing {
        heartbeat_ms: 50,
        // Far above what a busy machine keeps a thread waiting.
        election_ms: 1_000,
        wait: Duration::from_secs(5),
    }
}

fn started(twin: &TwinDisk, id: u64, members: &BTreeSet<u64>) -> Group<TwinDisk, Entries> {
    Group::start(
        twin.clone(),
        Path::new(DIR),
        Entries::default(),
        id,
        members,
        timing(),
    )
    .unwrap()
}

type One = Arc<Group<TwinDisk, Entries>>;

/// Three controllers; a thread per controller carries its messages.
struct Three {
    disks: BTreeMap<u64, TwinDisk>,
    running: Arc<Mutex<BTreeMap<u64, One>>>,
    cut: Arc<Mutex<BTreeSet<u64>>>,
    stops: Arc<AtomicBool>,
    carriers: Vec<JoinHandle<()>>,
}

impl Three {
    fn new() -> Self {
        let mut three = Self {
            disks: (1..=3).map(|id| (id, TwinDisk::new())).collect(),
            running: Arc::default(),
            cut: Arc::default(),
            stops: Arc::default(),
            carriers: Vec::new(),
        };
        for id in 1..=3 {
            three.start(id);
        }
        three
    }

    fn start(&mut self, id: u64) {
        let one = Arc::new(started(&self.disks[&id], id, &BTreeSet::from([1, 2, 3])));
        self.running.lock().unwrap().insert(id, Arc::clone(&one));
        let (running, cut) = (Arc::clone(&self.running), Arc::clone(&self.cut));
        let stops = Arc::clone(&self.stops);
        let one = Arc::downgrade(&one);
        self.carriers.push(std::thread::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                let Some(from) = one.upgrade() else { return };
                for request in from.outgoing(Duration::from_millis(20)) {
                    let peer = running.lock().unwrap().get(&request.peer).cloned();
                    let is_cut = {
                        let cut = cut.lock().unwrap();
                        cut.contains(&id) || cut.contains(&request.peer)
                    };
                    let response = match peer.filter(|_| !is_cut) {
                        Some(peer) => peer.answer(&request.bytes),
                        None => Err("no connection".to_owned()),
                    };
                    from.deliver(request.ticket, response);
                }
            }
        }));
    }

    /// Ends a controller; what its disk has stays.
    fn kill(&mut self, id: u64) {
        let one = self.running.lock().unwrap().remove(&id).unwrap();
        one.stop();
        let began = Instant::now();
        while Arc::strong_count(&one) > 1 && began.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }

    fn one(&self, id: u64) -> One {
        Arc::clone(&self.running.lock().unwrap()[&id])
    }

    /// The leader that a majority agrees with.
    fn leader(&self, without: &[u64]) -> u64 {
        let began = Instant::now();
        loop {
            let ids: Vec<u64> = self.running.lock().unwrap().keys().copied().collect();
            let found = ids
                .into_iter()
                .filter(|id| !without.contains(id))
                .find(|id| self.one(*id).confirm().is_ok());
            if let Some(id) = found {
                return id;
            }
            assert!(began.elapsed() < PATIENCE, "nobody leads");
        }
    }

    /// Agrees on an entry, with whoever leads by then; the leader.
    fn agree(&self, without: &[u64], entry: &str) -> u64 {
        let began = Instant::now();
        loop {
            let id = self.leader(without);
            match self.one(id).propose(entry.as_bytes()) {
                Ok(_number) => return id,
                // Another one was elected meanwhile.
                Err(ConsensusError::NotLeader { .. }) if began.elapsed() < PATIENCE => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn until_equal(&self, id: u64, wanted: &[&str]) {
        let began = Instant::now();
        loop {
            let found = self.one(id).look(|machine| machine.0.clone());
            if found == wanted {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{id}: {found:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for carrier in self.carriers.drain(..) {
            let _panicked = carrier.join();
        }
    }
}

#[test]
fn three_controllers_go_on_without_their_leader_and_it_catches_up() {
    let mut three = Three::new();
    let first = three.agree(&[], "one");
    let other = (1..=3).find(|id| *id != first).unwrap();
    assert!(matches!(
        three.one(other).propose(b"elsewhere"),
        Err(ConsensusError::NotLeader { .. })
    ));
    three.kill(first);
    let second = three.agree(&[first], "two");
    assert_ne!(second, first);
    three.start(first);
    for id in 1..=3 {
        three.until_equal(id, &["one", "two"]);
    }
}

#[test]
fn a_leader_that_is_cut_off_agrees_on_nothing_and_confirms_nothing() {
    let three = Three::new();
    let first = three.agree(&[], "one");
    three.cut.lock().unwrap().insert(first);
    let second = three.leader(&[first]);
    assert_ne!(second, first);
    assert!(three.one(first).propose(b"lost").is_err());
    assert!(three.one(first).confirm().is_err());
    three.agree(&[first], "two");
    three.cut.lock().unwrap().clear();
    for id in 1..=3 {
        three.until_equal(id, &["one", "two"]);
    }
}

#[test]
fn one_alone_leads_at_once_and_keeps_what_it_answered_through_power_loss() {
    let alone = BTreeSet::from([1]);
    let twin = TwinDisk::new();
    let one = started(&twin, 1, &alone);
    twin.forget();
    let mut answered = vec![(twin.history().stop_points(), 0)];
    for number in 1..=4 {
        let entry = format!("entry {number}");
        assert_eq!(one.propose(entry.as_bytes()).unwrap(), number);
        answered.push((twin.history().stop_points(), number));
    }
    let all = one.look(|machine| machine.0.clone());
    drop(one);
    let history = twin.history();
    for stop in 0..history.stop_points() {
        let least = answered.iter().filter(|(at, _)| *at <= stop + 1);
        let least = least.map(|(_, number)| *number).max().unwrap_or(0);
        let bound = Bound {
            images_max: 3,
            ..Bound::default()
        };
        for image in history.images(stop, &bound) {
            let one = started(&image.disk(), 1, &alone);
            one.confirm().unwrap();
            let found = one.look(|machine| machine.0.clone());
            assert!(found.len() >= least, "{}", image.id());
            assert_eq!(found, all[..found.len()], "{}", image.id());
        }
    }
}

#[tokio::test]
async fn who_led_when_it_ended_does_not_lead_after_its_start() {
    let twin = TwinDisk::new();
    let mut log = Log::open(twin.clone(), Path::new(DIR), 1).unwrap();
    for (leader, leads_on) in [(1, false), (2, true)] {
        let vote = Vote::new_committed(7, leader);
        log.save_vote(&vote).await.unwrap();
        drop(log);
        log = Log::open(twin.clone(), Path::new(DIR), 1).unwrap();
        let found = log.read_vote().await.unwrap().unwrap();
        assert_eq!(found.leader_id(), vote.leader_id());
        assert_eq!(found.is_committed(), leads_on);
    }
}

#[test]
fn after_a_failed_sync_a_controller_agrees_on_nothing() {
    let twin = TwinDisk::new();
    let one = started(&twin, 1, &BTreeSet::from([1]));
    one.propose(b"one").unwrap();
    twin.fail(Fault {
        call: CallKind::Sync,
        path_contains: None,
        nth: 1,
        errno: 5,
        times: Times::Once,
    });
    assert!(one.propose(b"two").is_err());
    assert!(one.propose(b"three").is_err());
    assert_eq!(one.look(|machine| machine.0.clone()), ["one"]);
    let standing = one.standing();
    assert!(!standing.is_leader, "{standing:?}");
    assert!(standing.failure.unwrap().contains("errno 5"));
}
