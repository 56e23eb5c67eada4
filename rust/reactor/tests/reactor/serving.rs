//! What the tests share: a reactor over a store without threads, the loop that takes its reports, and
//! frames.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::store::{LoopEvents, OpenHow, Store};
use mqcore_fast_path::FastPath;
use mqcore_fast_path::locked::LockedFastPath;
use mqcore_fast_path::policy::{Broker, Topic};
use mqcore_reactor::{Reactor, Reports};
use mqcore_record::Host;
use mqcore_wire::command::encode;
use mqcore_wire::{Head, Serialization};

pub(crate) type TwinReactor = Reactor<TwinDisk, ManualClock>;

/// The clock does not move: it is the number of looks that ends each.
pub(crate) const BUSY_POLL: Duration = Duration::from_micros(50);

/// All messages of a test fit: no thread prepares a second file.
const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// The code of a request that the fast path does not execute: HEART_BEAT.
pub(crate) const ESCALATED: i32 = 34;
pub(crate) const SEND: i32 = 310;

pub(crate) const HOST: Host = Host::V4 {
    address: [127, 0, 0, 1],
    port: 9,
};

/// Starts a reactor; `reports` is given what wakes the loop that takes them.
pub(crate) fn reactor<R: Reports>(
    reports: impl FnOnce(Arc<LoopEvents>) -> Arc<R>,
) -> (TwinReactor, Arc<R>, Arc<LoopEvents>) {
    let clock = ManualClock::at(1_795_249_596_000);
    let twin = TwinDisk::with_clock(clock.clone());
    twin.keep_history(false);
    let config = StoreConfig {
        root: Some(PathBuf::from("/store")),
        segment_len_bytes: SEGMENT_BYTES,
        index_enabled: false,
        ..StoreConfig::default()
    };
    let store = Store::open(twin, clock.clone(), config, OpenHow::RefuseDamage).unwrap();
    let first = FastPath::new(Arc::new(store), 0);
    let mut path = first.beside(0).unwrap();
    path.decide_broker(Broker {
        cluster: "c1".to_owned(),
        version: 409,
        ..Broker::default()
    });
    path.policy.topics.insert("t".into(), Topic::plain(4));
    let events = Arc::clone(first.events());
    let reports = reports(Arc::clone(&events));
    let home = Arc::new(LockedFastPath::new(path, clock));
    let taken: Arc<dyn Reports> = reports.clone();
    let started = Reactor::start("mq-reactor-0", home, taken, BUSY_POLL).unwrap();
    (started, reports, events)
}

pub(crate) fn frame(code: i32, opaque: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let head = Head {
        code,
        opaque,
        version: 409,
        serialization: Serialization::Json,
        ..Head::default()
    };
    encode(&head, fields.iter().copied(), body).unwrap()
}

pub(crate) fn send(opaque: i32, body: &[u8]) -> Vec<u8> {
    let fields = [
        ("a", "p"),
        ("b", "t"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", ""),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    frame(SEND, opaque, &fields, body)
}
