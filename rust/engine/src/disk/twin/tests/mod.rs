//! What the twin does at crashes and faults, case by case.

mod crash;
mod faults;
mod ranges;

use std::collections::BTreeSet;
use std::path::Path;

use super::{Bound, CrashImage, History, Tear, TwinDisk, TwinFile};
use crate::disk::{Disk, DiskFile, Open};

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn all(tear: Tear) -> Bound {
    Bound {
        images_max: 1 << 20,
        tear,
        seed: 0,
    }
}

fn last(history: &History) -> usize {
    history.stop_points() - 1
}

/// What each image of the last stop point holds at `file`; equal ones once.
fn contents(twin: &TwinDisk, file: &str, tear: Tear) -> BTreeSet<Option<Vec<u8>>> {
    let history = twin.history();
    let images = history.images(last(&history), &all(tear));
    images.map(|image| image.disk().read(path(file))).collect()
}

/// A durable file of zeros in a durable directory entry.
fn with_file(name: &str, len_bytes: u64) -> (TwinDisk, TwinFile) {
    let twin = TwinDisk::new();
    let file = twin.open(path(name), Open::CreateNew).unwrap();
    file.allocate(len_bytes).unwrap();
    twin.forget();
    (twin, file)
}

fn hashes(images: impl Iterator<Item = CrashImage>) -> BTreeSet<u128> {
    images.map(|image| image.hash()).collect()
}
