//! Reading: hot in batches of 32 (criterion: a loop without preparation), the units of a queue
//! alone and the log as a whole, cold (plain timing: the cache is emptied before each round).
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::cgroup::{CHILD, Group, answer};
use mqcore_benches::limits::{evict, files_below, read_rate};
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::{median, median_ratio};
use mqcore_benches::stores::{RealStore, TOPIC, fill, open, record_len};
use mqcore_benches::{by_mode, is_wanted};
use mqcore_engine::commit_log::{Scan, scan};
use mqcore_engine::consume_queue::Unit;
use mqcore_engine::disk::{Open, RealDisk};
use mqcore_engine::segment::Chain;
use mqcore_engine::store::{Ask, GetStatus};
use mqcore_record::CrcCheck;

/// Records of one pull.
const BATCH: usize = 32;
/// Records that the hot window holds, with some to spare.
const HOT_RECORDS: u64 = 50_000;

fn hot_store(bench_dir: &BenchDir) -> Arc<RealStore> {
    let store = open(bench_dir.path(), &[]);
    store.start().unwrap();
    let end = fill(&store, HOT_RECORDS, 4, false);
    let dispatched = &store.files().positions.dispatched;
    assert!(dispatched.wait(end, Duration::from_secs(20), || false));
    store
}

/// The sum of all words of a body: every byte is read.
fn read_body(body: &[u8]) -> u64 {
    let (words, _rest) = body.as_chunks::<8>();
    words
        .iter()
        .fold(0, |sum, word| sum ^ u64::from_le_bytes(*word))
}

/// Reads all queues once; records read.
fn pull_all(store: &RealStore, touches: bool) -> u64 {
    let mut count = 0;
    for queue_id in 0..4 {
        let mut from = 0;
        loop {
            let ask = Ask {
                from,
                count_max: BATCH,
                bytes_max: 1 << 20,
                tags_codes: &[],
                is_bulk: false,
            };
            let got = store.reader().get(TOPIC.as_bytes(), queue_id, ask).unwrap();
            if got.status != GetStatus::Found {
                break;
            }
            for record in &got.records {
                let view = record.view(CrcCheck::Skip).unwrap();
                if touches {
                    std::hint::black_box(read_body(view.body));
                } else {
                    std::hint::black_box(view.queue_offset);
                }
            }
            count += got.records.len() as u64;
            from = got.next_offset;
        }
    }
    count
}

/// Records per second of reading the same bytes as one slice.
fn bare_read(store: &RealStore) -> f64 {
    let end = store.files().positions.appended.position();
    let chunk = store
        .files()
        .chain
        .chunk(0, end, end as usize)
        .unwrap()
        .unwrap();
    let started = Instant::now();
    for _ in 0..4 {
        std::hint::black_box(read_body(std::hint::black_box(chunk.bytes.as_bytes())));
    }
    4.0 * HOT_RECORDS as f64 / started.elapsed().as_secs_f64()
}

fn hot(rows: &mut Rows) {
    if !is_wanted("hot read") {
        return;
    }
    let bench_dir = BenchDir::new("hot");
    let store = hot_store(&bench_dir);
    assert_eq!(pull_all(&store, true), HOT_RECORDS);
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(by_mode(20, 10))
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(by_mode(3_000, 800)));
    let mut rates = [Vec::new(), Vec::new()];
    for (touches, name) in [(true, "bodies read"), (false, "bodies untouched")] {
        let kept = &mut rates[usize::from(!touches)];
        criterion.bench_function(&format!("hot read, batches of 32, {name}"), |bencher| {
            bencher.iter_custom(|rounds| {
                let started = Instant::now();
                let mut count = 0;
                for _ in 0..rounds {
                    count += pull_all(&store, touches);
                }
                let took = started.elapsed();
                kept.push(count as f64 / took.as_secs_f64());
                took
            });
        });
    }
    let limits: Vec<f64> = (0..9).map(|_| bare_read(&store)).collect();
    let limit = median(&limits);
    let [touched, untouched] = rates.map(|rates| median(&rates));
    rows.add(&Row {
        name: "hot read, batches of 32, bodies read",
        goal: ">= 5 M records/s",
        unit: "records/s",
        reached: Some(touched),
        limit: Some(limit),
        ratio: Some(touched / limit),
        missed: Some(touched < 5e6),
        note: format!(
            "{HOT_RECORDS} records in 4 queues; the limit reads the same bytes as one slice; \
             bodies untouched {:.2} M/s",
            untouched / 1e6
        ),
    });
    store.abandon();
}

fn units(rows: &mut Rows) {
    if !is_wanted("queue-only scan") {
        return;
    }
    let count: u64 = by_mode(20_000_000, 6_000_000);
    let bench_dir = BenchDir::new("units");
    let store = open(bench_dir.path(), &[]);
    for n in 0..count {
        let unit = Unit {
            physical_offset: (n * 1_000).cast_signed(),
            size_bytes: 1_000,
            tags_code: (n % 7).cast_signed(),
        };
        store
            .queues()
            .append(TOPIC.as_bytes(), 0, n, unit, 1)
            .unwrap();
        if n % 1_000_000 == 0 {
            store.queues().write_pending().unwrap();
        }
    }
    store.queues().write_pending().unwrap();
    store.queues().sync(0).unwrap();
    let files = files_below(&bench_dir.path().join("consumequeue"));
    let mut pairs = Vec::new();
    let mut out = Vec::with_capacity(1 << 16);
    for _ in 0..by_mode(5, 3) {
        files.iter().for_each(|path| evict(path));
        let limit = read_rate(&files, u64::MAX) / 20.0;
        files.iter().for_each(|path| evict(path));
        let started = Instant::now();
        let mut next = 0;
        let mut sum = 0i64;
        while next < count {
            out.clear();
            let read = store
                .queues()
                .read(TOPIC.as_bytes(), 0, next, 1 << 16, &mut out)
                .unwrap();
            assert!(read.next > next);
            next = read.next;
            sum ^= out
                .iter()
                .fold(0, |sum, unit| sum ^ unit.physical_offset ^ unit.tags_code);
        }
        std::hint::black_box(sum);
        pairs.push((count as f64 / started.elapsed().as_secs_f64(), limit));
    }
    store.abandon();
    let reached = median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let ratio = median_ratio(&pairs);
    rows.add(&Row {
        name: "queue-only scan of a long backlog, cold",
        goal: "the disk's rate, or >= 50 M units/s",
        unit: "units/s",
        reached: Some(reached),
        limit: Some(median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>())),
        ratio: Some(ratio),
        missed: Some(reached < 5e7 && ratio < 0.95),
        note: format!(
            "{count} units in {} files, dropped from the cache",
            files.len()
        ),
    });
}

/// The child: scans the log in `dir`, after a bare read of its files.
fn scan_child(dir: &std::path::Path, len: u64) {
    let files = files_below(dir);
    files.iter().for_each(|path| evict(path));
    let bare = read_rate(&files, len);
    files.iter().for_each(|path| evict(path));
    let started = Instant::now();
    let (chain, _) = Chain::open(&RealDisk, dir, 1 << 30, Open::Read).unwrap();
    let walk = Scan {
        from: 0,
        limit: len,
        crc: CrcCheck::Skip,
        is_recovery: false,
        torn_from: 0,
        has_property_crc: false,
        forgets: true,
    };
    let mut bytes = 0u64;
    let end = scan(&chain, walk, |record, _| {
        bytes += record.body.len() as u64;
        Ok(true)
    })
    .unwrap();
    let rate = end.end as f64 / started.elapsed().as_secs_f64();
    answer(&[rate, bare, bytes as f64]);
}

fn cold_scan(rows: &mut Rows) {
    if !is_wanted("cold scan") {
        return;
    }
    let (log_bytes, limit_bytes): (u64, u64) = by_mode((4 << 30, 1 << 30), (1 << 30, 256 << 20));
    let bench_dir = BenchDir::new("scan");
    let store = open(bench_dir.path(), &[]);
    let end = fill(&store, log_bytes / record_len() as u64, 4, false);
    store.durability().flush().unwrap();
    store.abandon();
    drop(store);
    let dir = bench_dir.path().join("commitlog");
    let (dir, len) = (dir.to_string_lossy().into_owned(), end.to_string());
    let mut pairs = Vec::new();
    let mut refused = None;
    for _ in 0..by_mode(3, 2) {
        match Group::new(limit_bytes).and_then(|group| group.run("scan", &[&dir, &len])) {
            Ok(numbers) => pairs.push((numbers[0], numbers[1])),
            Err(why) => refused = Some(why),
        }
    }
    let goal = ">= 80 % of the disk's sequential read";
    let name = "cold scan of a log larger than its cache";
    if pairs.is_empty() {
        let note = format!(
            "not measured, no memory cgroup: {}",
            refused.unwrap_or_default()
        );
        rows.add(&Row {
            name,
            goal,
            unit: "bytes/s",
            note,
            ..Row::default()
        });
        return;
    }
    let ratio = median_ratio(&pairs);
    rows.add(&Row {
        name,
        goal,
        unit: "bytes/s",
        reached: Some(median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>())),
        limit: Some(median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>())),
        ratio: Some(ratio),
        missed: Some(ratio < 0.8),
        note: format!(
            "{} MB of log in a group of {} MB",
            end >> 20,
            limit_bytes >> 20
        ),
    });
}

fn main() {
    if std::env::var(CHILD).is_ok() {
        let mut arguments = std::env::args().skip(1);
        let dir = arguments.next().unwrap();
        let len = arguments.next().unwrap().parse().unwrap();
        scan_child(std::path::Path::new(&dir), len);
        return;
    }
    let mut rows = Rows::new("read");
    hot(&mut rows);
    units(&mut rows);
    cold_scan(&mut rows);
}
