//! Random work on the twin: it agrees with the real disk on every byte and name, its replay agrees
//! with its live state at every event, and whatever was synced is in every image.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use mqcore_engine::disk::twin::{Bound, CallKind, Fault, Tear, Times, TwinDisk};
use mqcore_engine::disk::{CellRegion, Disk, DiskFile, Open, RealDisk, Region};
use proptest::prelude::*;

const NAMES: [&str; 5] = ["a", "b", "d/c", "d/e", "f"];
const LEN_BYTES_MAX: u64 = 12_000;

#[derive(Debug, Clone)]
enum Step {
    Write(usize, u64, u8, usize),
    Append(usize, u8, usize),
    Cell(usize, u64, u32),
    SetLen(usize, u64),
    Allocate(usize, u64),
    Rename(usize, usize),
    Unlink(usize),
    Sync(usize),
    SyncRange(usize, u64, usize),
    SyncDir(bool),
    FailNextSync,
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..NAMES.len();
    let at = 0..LEN_BYTES_MAX;
    let len = 1..5000usize;
    prop_oneof![
        4 => (file.clone(), at.clone(), 1..=255u8, len.clone())
            .prop_map(|(f, p, v, l)| Step::Write(f, p, v, l)),
        4 => (file.clone(), 1..=255u8, len).prop_map(|(f, v, l)| Step::Append(f, v, l)),
        2 => (file.clone(), at.clone(), any::<u32>()).prop_map(|(f, p, v)| Step::Cell(f, p, v)),
        1 => (file.clone(), at.clone()).prop_map(|(f, l)| Step::SetLen(f, l)),
        1 => (file.clone(), at).prop_map(|(f, l)| Step::Allocate(f, l)),
        2 => (file.clone(), file.clone()).prop_map(|(f, t)| Step::Rename(f, t)),
        1 => file.clone().prop_map(Step::Unlink),
        3 => file.clone().prop_map(Step::Sync),
        2 => (file, 0..LEN_BYTES_MAX, 1..5000usize).prop_map(|(f, p, l)| Step::SyncRange(f, p, l)),
        2 => any::<bool>().prop_map(Step::SyncDir),
        1 => Just(Step::FailNextSync),
    ]
}

/// Takes a step; the outcome is compared between disks by its error number.
fn take<D: Disk>(disk: &D, dir: &Path, step: &Step) -> Option<i32> {
    let path = |file: usize| dir.join(NAMES[file]);
    let open = |file: usize| disk.open(&path(file), Open::Create);
    let outcome = match step {
        Step::Write(file, position, value, len) => {
            open(*file).and_then(|f| f.write_at(&vec![*value; *len], *position))
        }
        Step::Append(file, value, len) => open(*file).and_then(|file| {
            let published = file.len_bytes()?;
            file.allocate(published + *len as u64)?;
            let region = file.map(published + *len as u64, published)?;
            let mut bytes = region.reserve(published, *len).unwrap();
            bytes.fill(*value);
            region.publish(bytes);
            Ok(())
        }),
        Step::Cell(file, position, value) => open(*file).and_then(|file| {
            let len_bytes = file.len_bytes()? / 4 * 4;
            if len_bytes > 0 {
                let cells = file.map_cells(len_bytes)?;
                let position = position % len_bytes / 4 * 4;
                assert!(cells.store(position, *value));
                assert_eq!(cells.load(position), *value);
            }
            Ok(())
        }),
        Step::SetLen(file, len_bytes) => open(*file).and_then(|f| f.set_len(*len_bytes)),
        Step::Allocate(file, len_bytes) => open(*file).and_then(|f| f.allocate(len_bytes + 1)),
        Step::Rename(from, to) => disk.rename(&path(*from), &path(*to)),
        Step::Unlink(file) => disk.unlink(&path(*file)),
        Step::Sync(file) => disk
            .open(&path(*file), Open::Write)
            .and_then(|file| file.sync_data()),
        Step::SyncRange(file, position, len) => {
            disk.open(&path(*file), Open::Write).and_then(|file| {
                let len_bytes = file.len_bytes()?;
                if len_bytes == 0 {
                    return Ok(());
                }
                let region = file.map(len_bytes, len_bytes)?;
                region.release(*position, *len as u64);
                region.sync(*position, *len as u64)
            })
        }
        Step::SyncDir(inner) => disk.sync_dir(&if *inner { dir.join("d") } else { dir.into() }),
        Step::FailNextSync => Ok(()),
    };
    outcome.err().and_then(|error| error.errno())
}

fn contents<D: Disk>(disk: &D, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for name in NAMES {
        let path = dir.join(name);
        if let Some(stat) = disk.stat(&path).unwrap() {
            let mut bytes = vec![0; stat.len_bytes as usize];
            let file = disk.open(&path, Open::Read).unwrap();
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
            found.insert(name.to_owned(), bytes);
        }
    }
    found
}

fn twin() -> TwinDisk {
    let twin = TwinDisk::new();
    twin.create_dir_all(Path::new("/d")).unwrap();
    twin
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn twin_and_real_disk_agree(steps in prop::collection::vec(step(), 1..40)) {
        let dir: PathBuf = std::env::temp_dir().join(format!("mqcore-twin-{}", std::process::id()));
        let _none_yet = std::fs::remove_dir_all(&dir);
        RealDisk.create_dir_all(&dir.join("d")).unwrap();
        let twin = twin();
        for step in &steps {
            let real = take(&RealDisk, &dir, step);
            prop_assert_eq!(take(&twin, Path::new("/"), step), real, "{:?}", step);
        }
        prop_assert_eq!(contents(&twin, Path::new("/")), contents(&RealDisk, &dir));
        prop_assert_eq!(twin.bus_errors(), 0);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn replay_is_the_live_state_at_every_event(steps in prop::collection::vec(step(), 1..60)) {
        let twin = twin();
        let mut live = vec![(twin.events(), twin.content_hash())];
        for step in &steps {
            if matches!(step, Step::FailNextSync) {
                twin.fail(Fault {
                    call: CallKind::Sync,
                    path_contains: None,
                    nth: 1,
                    errno: libc::EIO,
                    times: Times::Once,
                });
            }
            take(&twin, Path::new("/"), step);
            live.push((twin.events(), twin.content_hash()));
        }
        let history = twin.history();
        for (events, hash) in live {
            let killed = history.killed(events as usize);
            prop_assert_eq!(killed.hash(), hash, "\n{}", history.describe(events as usize));
            prop_assert_eq!(killed.disk().content_hash(), hash);
        }
    }

    #[test]
    fn what_was_synced_is_in_every_image(
        steps in prop::collection::vec(step(), 1..40),
        seed in any::<u64>(),
    ) {
        let twin = twin();
        let root = Path::new("/");
        for step in &steps {
            take(&twin, root, step);
        }
        for file in 0..NAMES.len() {
            take(&twin, root, &Step::Sync(file));
        }
        twin.sync_dir(root).unwrap();
        twin.sync_dir(Path::new("/d")).unwrap();
        let synced = twin.content_hash();
        let history = twin.history();
        let bound = Bound { images_max: 50, tear: Tear::Words, seed };
        let stops = history.stop_points();
        let last: BTreeSet<u128> = history.images(stops - 1, &bound).map(|i| i.hash()).collect();
        prop_assert_eq!(last, BTreeSet::from([synced]), "\n{}", history.describe(stops));
        // Images of every earlier moment are sound disks, distinct, and made again by their ids.
        for stop in 0..stops {
            let mut seen = BTreeSet::new();
            for image in history.images(stop, &bound) {
                prop_assert!(seen.insert(image.hash()));
                prop_assert_eq!(image.disk().content_hash(), image.hash(), "{}", image.id());
                let again = history.image(&image.id().to_string().parse().unwrap());
                prop_assert_eq!(again.hash(), image.hash());
            }
        }
    }
}
