//! The fast path on a disk in memory and a clock that is turned by hand: bytes in, bytes out.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

mod access;
mod bad_bytes;
mod beside;
mod bits;
mod checks;
mod end_shards;
mod fairness;
mod followed_timers;
mod golden;
mod half_batches;
mod inner_batches;
mod later;
mod moving;
mod pop_shards;
mod popping;
mod pops;
mod pops_model;
mod pulls;
mod quotas;
mod repeat_shards;
mod repeats;
mod rolls;
mod sends;
mod serving;
mod sql;
mod sql_model;
mod sql_vectors;
mod timers;
mod transactions;
mod turns;
