//! A reactor with its thread, over real sockets and a store on a disk in memory.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod moves;
mod panics;
mod serving;
mod stress;
