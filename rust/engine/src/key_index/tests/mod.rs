//! Tests of the index.

mod edges;
mod found;
mod model;
mod setup;
mod tight_disk;
