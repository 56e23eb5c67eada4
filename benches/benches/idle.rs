//! What a store that nobody uses costs: wake-ups and processor time with 1,000 queues. Plain
//! counting over some seconds.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::by_mode;
use mqcore_benches::gauge::{cpu_seconds, voluntary_switches};
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stores::{fill, open};

fn main() {
    let mut rows = Rows::new("idle");
    let bench_dir = BenchDir::new("idle");
    let store = open(bench_dir.path(), &[]);
    store.start().unwrap();
    let end = fill(&store, 10_000, 1_000, false);
    let dispatched = &store.files().positions.dispatched;
    assert!(dispatched.wait(end, Duration::from_secs(60), || false));
    store.durability().flush().unwrap();
    store.checkpoints().sync_queues(0).unwrap();
    // The threads finish what the last appends left to them.
    std::thread::sleep(Duration::from_secs(2));
    let span = Duration::from_secs(by_mode(15, 5));
    let (switches, cpu) = (voluntary_switches(), cpu_seconds());
    let started = Instant::now();
    std::thread::sleep(span);
    let took = started.elapsed().as_secs_f64();
    // One of them is this thread's own sleep.
    let wake_ups = (voluntary_switches() - switches).saturating_sub(1) as f64 / took;
    let share = (cpu_seconds() - cpu) / took * 100.0;
    store.abandon();
    rows.add(&Row {
        name: "idle store with 1,000 queues, wake-ups",
        goal: "<= 100 wake-ups/s",
        unit: "wake-ups/s",
        reached: Some(wake_ups),
        missed: Some(wake_ups > 100.0),
        note: "voluntary switches of all threads".to_owned(),
        ..Row::default()
    });
    rows.add(&Row {
        name: "idle store with 1,000 queues, processor",
        goal: "<= 0.5 % of a core",
        unit: "% of a core",
        reached: Some(share),
        missed: Some(share > 0.5),
        note: "user and system, counted in ticks of 10 ms".to_owned(),
        ..Row::default()
    });
}
