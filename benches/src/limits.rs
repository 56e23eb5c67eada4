//! The physical limits: what the same bytes cost without a store around them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use mqcore_engine::disk::{Disk, DiskFile, Open, RealDisk};
use mqcore_engine::mmap::Map;
use mqcore_record::body_crc;

use crate::gauge::thread_ns;
use crate::stores::{body, record_len};

/// Bytes per write where a limit is about the device and not about calls.
pub const MIB: usize = 1 << 20;

/// A file that is allocated, mapped and populated: where records are copied to.
#[derive(Debug)]
pub struct PopulatedMap {
    file: File,
    len_bytes: u64,
}

impl PopulatedMap {
    /// Makes one of `len_bytes` in `dir`.
    #[must_use]
    pub fn new(dir: &Path, len_bytes: u64) -> Self {
        let path = dir.join("limit-map");
        let file = RealDisk.open(&path, Open::Create).unwrap();
        file.allocate(len_bytes).unwrap();
        file.sync_data().unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        Self { file, len_bytes }
    }

    /// Records per second of (copy + CRC-32 of the body) for as many records as fit, and
    /// nanoseconds of processor time per record.
    #[must_use]
    pub fn rate(&self) -> (f64, f64) {
        let map = Map::writable(&self.file, self.len_bytes).unwrap();
        map.populate(0, self.len_bytes).unwrap();
        let mut all = map.reserve(0, self.len_bytes as usize).unwrap();
        let len = record_len();
        let record: Vec<u8> = body().into_iter().cycle().take(len).collect();
        let body_len = crate::stores::BODY_LEN_BYTES;
        let cpu = thread_ns();
        let started = Instant::now();
        let mut count = 0u64;
        let mut crcs = 0u32;
        for record_bytes in all.chunks_exact_mut(len) {
            let source = std::hint::black_box(&record);
            crcs ^= body_crc(&source[..body_len]);
            record_bytes.copy_from_slice(source);
            count += 1;
        }
        let took = started.elapsed().as_secs_f64();
        let cpu = thread_ns() - cpu;
        std::hint::black_box(crcs);
        (count as f64 / took, cpu as f64 / count as f64)
    }
}

/// A preallocated file whose pages were written and synced: the "bare loop" writes into it.
#[derive(Debug)]
pub struct BareFile {
    file: File,
    len_bytes: u64,
    at: u64,
}

impl BareFile {
    /// Makes one of `len_bytes` that is allocated and not yet written.
    #[must_use]
    pub fn allocated(path: &Path, len_bytes: u64) -> Self {
        let file = RealDisk.open(path, Open::Create).unwrap();
        file.allocate(len_bytes).unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        Self {
            file,
            len_bytes,
            at: 0,
        }
    }

    /// Makes one of `len_bytes`.
    #[must_use]
    pub fn new(path: &Path, len_bytes: u64) -> Self {
        let Self { file, .. } = Self::allocated(path, len_bytes);
        // Page by page: one large write would make large folios, and each small sync would then
        // write a whole one.
        let page = [0u8; 4096];
        let mut at = 0;
        while at < len_bytes {
            file.write_all_at(&page, at).unwrap();
            at += page.len() as u64;
        }
        file.sync_data().unwrap();
        Self {
            file,
            len_bytes,
            at: 0,
        }
    }

    /// Writes `bytes` behind the last and syncs.
    pub fn write_and_sync(&mut self, bytes: &[u8]) {
        self.write(bytes);
        self.file.sync_data().unwrap();
    }

    /// Writes `bytes` behind the last.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.at + bytes.len() as u64 > self.len_bytes {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at).unwrap();
        self.at += bytes.len() as u64;
    }

    /// Waits until the device has everything.
    pub fn drain(&self) {
        self.file.sync_data().unwrap();
    }
}

/// Drops a file from the page cache, after a sync: what is read next comes from the device.
pub fn evict(path: &Path) {
    let Ok(file) = RealDisk.open(path, Open::Write) else {
        return;
    };
    file.sync_data().unwrap();
    let len = file.len_bytes().unwrap();
    file.advise(None, 0, len);
}

/// Every file below `dir`, in order of their names.
#[must_use]
pub fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut out = Vec::new();
    let Ok(entries) = std::fs::read_dir(dir) else {
        return out;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.extend(files_below(&path));
        } else {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// Bytes per second of reading `files` front to back, 1 MiB at a time, up to `len_max` bytes of
/// each.
#[must_use]
pub fn read_rate(files: &[std::path::PathBuf], len_max: u64) -> f64 {
    let mut buffer = vec![0u8; MIB];
    let mut sum = 0u64;
    let started = Instant::now();
    for path in files {
        let file = File::open(path).unwrap();
        let mut at = 0;
        while at < len_max {
            let want = buffer.len().min((len_max - at) as usize);
            let got = file.read_at(&mut buffer[..want], at).unwrap();
            if got == 0 {
                break;
            }
            std::hint::black_box(&buffer[..got]);
            at += got as u64;
        }
        sum += at;
    }
    sum as f64 / started.elapsed().as_secs_f64()
}
