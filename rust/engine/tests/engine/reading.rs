//! Reads queues whole. Knows no kind of store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::{Ask, GetStatus, Store};
use mqcore_record::CrcCheck;

/// Every body of a queue, in order.
pub(crate) fn bodies<D: Disk, C: Clock>(
    store: &Store<D, C>,
    topic: &str,
    queue_id: i32,
) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    loop {
        let ask = Ask {
            from: found.len() as u64,
            count_max: 32,
            bytes_max: 1 << 20,
            tags_codes: &[],
            is_bulk: false,
        };
        let got = store.reader().get(topic.as_bytes(), queue_id, ask).unwrap();
        if got.status != GetStatus::Found {
            return found;
        }
        for record in &got.records {
            found.push(record.view(CrcCheck::Verify).unwrap().body.to_vec());
        }
    }
}
