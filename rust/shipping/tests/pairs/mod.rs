//! Stores that copy one another over real sockets: made, filled, compared, waited for.

#![allow(dead_code, reason = "no program of tests uses all of it")]

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};
use mqcore_replica::Timing;
use mqcore_shipping::{Ended, EndedLinks, Master, Shipping, Slave};

pub(crate) type RealStore = Store<RealDisk, SystemClock>;
pub(crate) type RealSlave = Slave<RealDisk, SystemClock>;

pub(crate) const HOW: Shipping = Shipping {
    timing: Timing {
        heartbeat_ms: 5_000,
        silence_max_ms: 20_000,
    },
    batch_len_bytes: 32_768,
    bytes_per_second_max: None,
    copied_bytes_per_second_max: None,
    quorum: None,
};
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mqcore-ship-{name}-{}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn open(root: &Path, flush: &str) -> Arc<RealStore> {
    let config = config_of(root, flush);
    let how = OpenHow::RefuseDamage;
    let store = Arc::new(Store::open(RealDisk, SystemClock::new(), config, how).unwrap());
    store.start().unwrap();
    store
}

/// The settings of a small store.
pub(crate) fn config_of(root: &Path, flush: &str) -> StoreConfig {
    let pairs = [
        ("storePathRootDir", root.to_str().unwrap()),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxMessageSize", "65536"),
        ("maxHashSlotNum", "1000"),
        ("maxIndexNum", "40000"),
        ("flushDiskType", flush),
    ];
    StoreConfig::from_pairs(pairs).unwrap().0
}

pub(crate) fn put(store: &RealStore, count: usize) -> u64 {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    let mut end = 0;
    for number in 0..count {
        let body = vec![b'a' + (number % 26) as u8; 1 + number * 37 % 3_000];
        let message = Message {
            born_timestamp_ms: 1,
            ..Message::of("T", (number % 3) as i32, &body, host)
        };
        end = store.put(&message).unwrap().0.end();
    }
    end
}

pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    one.set_read_timeout(Some(PATIENCE)).unwrap();
    (one, listener.accept().unwrap().0)
}

pub(crate) fn log_bytes(store: &RealStore, from: u64, to: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while from + (out.len() as u64) < to {
        let at = from + out.len() as u64;
        let len = usize::try_from(to - at).unwrap();
        let chunk = store.replica().range(at, len).unwrap().unwrap();
        out.extend_from_slice(chunk.bytes.as_bytes());
    }
    out
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

pub(crate) fn first_end(ended: &EndedLinks) -> String {
    first_ended(ended).why
}

pub(crate) fn first_ended(ended: &EndedLinks) -> Ended {
    let began = Instant::now();
    loop {
        if let Some(first) = ended.take().into_iter().next() {
            return first;
        }
        assert!(began.elapsed() < PATIENCE, "no link has ended");
        std::thread::yield_now();
    }
}

pub(crate) fn answered(store: &RealStore) -> Vec<(Ticket, PutStatus)> {
    let mut answers = Vec::new();
    store.durability().drain(&mut answers);
    answers
}

/// Has two slaves copy the log of a master, over connections that `connect` makes anew in each round; in every
/// second one they are ended in the middle of whatever is under way.
pub(crate) fn equal_after_each_end(
    name: &str,
    rounds: usize,
    connect: impl Fn(&Master, usize, &RealSlave),
) {
    let [one, two, three] = ["1", "2", "3"].map(|each| Dir::new(&format!("{name}-{each}")));
    let store = open(&one.0, "ASYNC_FLUSH");
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let copies = [open(&two.0, "ASYNC_FLUSH"), open(&three.0, "SYNC_FLUSH")];
    let slaves: Vec<_> = copies
        .iter()
        .map(|copy| Slave::new(Arc::clone(copy), HOW.timing).unwrap())
        .collect();
    for round in 0..rounds {
        for (number, slave) in slaves.iter().enumerate() {
            connect(&master, number, slave);
        }
        let end = put(&store, 300);
        let expected = store.replica().extent().end;
        assert_eq!(end, expected);
        if round % 2 == 0 {
            // In the middle of whatever is under way.
            for slave in &slaves {
                slave.stop();
            }
            continue;
        }
        for (copy, slave) in copies.iter().zip(&slaves) {
            until("a slave has everything", || {
                copy.replica().appended() == end
            });
            assert_eq!(log_bytes(copy, 0, end), log_bytes(&store, 0, end));
            until("it has reported it", || {
                slave.following().reported == Some(end)
            });
        }
        until("the master knows it", || {
            let all = master.slaves();
            let open = all.iter().filter(|each| each.standing.acknowledged == end);
            open.count() == 2
        });
    }
    assert!(copies[1].files().positions.flushed.position() > 0);
    for slave in &slaves {
        slave.stop();
    }
    master.stop();
    for copy in copies {
        assert!(copy.close().unwrap());
    }
    store.close().unwrap();
}
