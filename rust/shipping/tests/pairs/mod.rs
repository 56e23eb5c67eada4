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
use mqcore_shipping::{Ended, EndedLinks, Shipping};

pub(crate) type RealStore = Store<RealDisk, SystemClock>;

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
