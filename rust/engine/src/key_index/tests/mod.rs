//! Tests of the index.

mod edges;
mod model;
mod setup;
mod tight_disk;
