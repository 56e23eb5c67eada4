//! What the kernel counts for this process and this machine. Reads `/proc` and a clock only.

use std::fs::read_to_string;
use std::os::unix::fs::FileExt;

/// Bytes that the machine has written to its block devices (`/proc/diskstats`, whole disks only).
#[must_use]
pub fn device_bytes_written() -> u64 {
    let text = read_to_string("/proc/diskstats").unwrap_or_default();
    let mut sectors = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(written)) = (fields.get(2), fields.get(9)) else {
            continue;
        };
        let is_whole_disk = std::path::Path::new("/sys/block").join(name).exists();
        if is_whole_disk
            && !["ram", "zram", "loop", "dm-"]
                .iter()
                .any(|p| name.starts_with(p))
        {
            sectors += written.parse::<u64>().unwrap_or(0);
        }
    }
    sectors * 512
}

/// Bytes that this process made dirty (`/proc/self/io`, `write_bytes`).
#[must_use]
pub fn process_bytes_written() -> u64 {
    let text = read_to_string("/proc/self/io").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// Minor and major page faults of this process so far.
#[must_use]
pub fn page_faults() -> (u64, u64) {
    let fields = stat_fields();
    let at = |n: usize| {
        fields
            .get(n)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    (at(7), at(9))
}

/// Processor time of this process so far, user and system, seconds.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let fields = stat_fields();
    let at = |n: usize| {
        fields
            .get(n)
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // The kernel's clock tick is 100 per second on every platform that we build for.
    (at(11) + at(12)) as f64 / 100.0
}

/// The fields of `/proc/self/stat` from the third (state) on.
fn stat_fields() -> Vec<String> {
    let text = read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().map(str::to_owned).collect()
}

/// Times that any thread of this process gave up the processor to wait: each is a wake-up later.
#[must_use]
pub fn voluntary_switches() -> u64 {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = read_to_string(task.path().join("status")).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line
            .and_then(|value| value.trim().parse::<u64>().ok())
            .unwrap_or(0);
    }
    sum
}

/// Anonymous memory of this process, bytes.
#[must_use]
pub fn anonymous_bytes() -> u64 {
    let text = read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|value| {
        value
            .trim()
            .trim_end_matches(" kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.unwrap_or(0) * 1024
}

/// Processor time of this thread so far, ns: what others take from the machine meanwhile does not
/// count.
#[must_use]
pub fn thread_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// How long a thread was ready to run while others ran (`/proc/thread-self/schedstat`).
#[derive(Debug)]
pub struct QueuedTime(std::fs::File);

impl QueuedTime {
    /// That of the calling thread, whoever reads it.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self(std::fs::File::open("/proc/thread-self/schedstat").unwrap())
    }

    /// So far, ns. The kernel counts a wait when it ends.
    #[must_use]
    pub fn ns(&self) -> u64 {
        let mut bytes = [0; 96];
        let len = self.0.read_at(&mut bytes, 0).unwrap();
        let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default());
        let second = text.split_whitespace().nth(1);
        second.and_then(|value| value.parse().ok()).unwrap()
    }
}
