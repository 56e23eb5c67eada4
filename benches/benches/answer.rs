//! The methods to bring a pull's answer from the log to a socket, on a real TCP connection whose
//! reader only reads: copied into one buffer, gathered from the mapped file, or sent from the file
//! by the kernel. Decides [`mqcore_fast_path::connections`]'s border between copying and slices; no
//! store, no fast path.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::thread::JoinHandle;
use std::time::Instant;

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::gauge::thread_ns;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::median;
use mqcore_benches::{by_mode, is_wanted};
use mqcore_engine::disk::{Disk, DiskFile, Open, RealDisk};
use mqcore_engine::mmap::Map;
use rustix::fs::sendfile;
use rustix::net::{SendFlags, send};

/// Bytes of the file that answers are taken from: in memory, more than the caches of a processor.
const FILE_BYTES: u64 = 256 << 20;
/// A record of 1 KB of body with its head, topic and properties.
const RECORD_BYTES: usize = 1_220;
/// Frame length, header length and a header of the usual fields.
const HEAD_BYTES: usize = 190;
/// Where a queue's records lie apart: three records of other queues between two of them.
const APART: usize = 4;
/// Slices per gathered write, as many as the connection takes at once.
const SLICES_MAX: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteMethod {
    Copy,
    Gather,
    SendFile,
}

const METHODS: [(WriteMethod, &str); 3] = [
    (WriteMethod::Copy, "copied"),
    (WriteMethod::Gather, "gathered"),
    (WriteMethod::SendFile, "sendfile"),
];

struct Bench {
    file: File,
    map: Map,
    socket: TcpStream,
    reader: Option<JoinHandle<()>>,
    buffer: Vec<u8>,
    at: usize,
    // Removed last.
    _bench_dir: BenchDir,
}

impl Bench {
    fn new() -> Self {
        let bench_dir = BenchDir::new("answer");
        let path = bench_dir.path().join("log");
        let made = RealDisk.open(&path, Open::Create).unwrap();
        made.allocate(FILE_BYTES).unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        // Page by page, as the log's window is populated.
        for at in (0..FILE_BYTES).step_by(4096) {
            file.write_all_at(&[7; 4096], at).unwrap();
        }
        file.sync_data().unwrap();
        let map = Map::readable(&file, FILE_BYTES).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nodelay(true).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut sink = vec![0; 1 << 20];
            while peer.read(&mut sink).is_ok_and(|len| len > 0) {}
        });
        Self {
            file,
            map,
            socket,
            reader: Some(reader),
            buffer: Vec::new(),
            at: 0,
            _bench_dir: bench_dir,
        }
    }

    /// Sends one answer of `records` records that lie `step` records apart.
    fn send(&mut self, method: WriteMethod, records: usize, step: usize) {
        let span = records * step * RECORD_BYTES;
        if self.at + span > FILE_BYTES as usize {
            self.at = 0;
        }
        let first = self.at;
        self.at += span;
        let offsets = (0..records).map(|n| first + n * step * RECORD_BYTES);
        let head = [1u8; HEAD_BYTES];
        match method {
            WriteMethod::Copy => {
                self.buffer.clear();
                self.buffer.extend_from_slice(&head);
                for offset in offsets {
                    let record = self.map.slice(offset as u64, RECORD_BYTES).unwrap();
                    self.buffer.extend_from_slice(record);
                }
                self.socket.write_all(&self.buffer).unwrap();
            }
            WriteMethod::Gather => {
                let mut slices = Vec::with_capacity(records + 1);
                slices.push(IoSlice::new(&head));
                if step == 1 {
                    let all = self.map.slice(first as u64, span).unwrap();
                    slices.push(IoSlice::new(all));
                } else {
                    slices.extend(
                        offsets
                            .map(|offset| self.map.slice(offset as u64, RECORD_BYTES).unwrap())
                            .map(IoSlice::new),
                    );
                }
                write_all_gathered(&self.socket, &mut slices);
            }
            WriteMethod::SendFile => {
                send(&self.socket, &head, SendFlags::MORE).unwrap();
                if step == 1 {
                    send_file(&self.socket, &self.file, first, span);
                } else {
                    for offset in offsets {
                        send_file(&self.socket, &self.file, offset, RECORD_BYTES);
                    }
                }
            }
        }
    }

    /// Nanoseconds of the sender's processor and of the clock per answer.
    fn round(
        &mut self,
        method: WriteMethod,
        records: usize,
        step: usize,
        answers: usize,
    ) -> (f64, f64) {
        let (cpu, started) = (thread_ns(), Instant::now());
        for _ in 0..answers {
            self.send(method, records, step);
        }
        let took = started.elapsed().as_nanos() as f64;
        (
            (thread_ns() - cpu) as f64 / answers as f64,
            took / answers as f64,
        )
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

fn write_all_gathered(mut socket: &TcpStream, slices: &mut [IoSlice<'_>]) {
    let mut left = slices;
    while !left.is_empty() {
        let count = left.len().min(SLICES_MAX);
        let sent = socket.write_vectored(&left[..count]).unwrap();
        IoSlice::advance_slices(&mut left, sent);
    }
}

fn send_file(socket: &TcpStream, file: &File, at: usize, len: usize) {
    let mut from = at as u64;
    let end = from + len as u64;
    while from < end {
        let len = (end - from) as usize;
        sendfile(socket, file, Some(&mut from), len).unwrap();
    }
}

fn main() {
    let mut rows = Rows::new("answer");
    let mut bench = Bench::new();
    let rounds = by_mode(9, 3);
    for (step, lie) in [(1, "side by side"), (APART, "apart")] {
        for records in [1, 4, 13, 54, 215] {
            let len = records * RECORD_BYTES;
            let name =
                |method: &str| format!("answer of {} KB, records {lie}, {method}", len / 1_000);
            if !METHODS.iter().any(|(_, method)| is_wanted(&name(method))) {
                continue;
            }
            // Some 200 MB per round, at most 40,000 answers.
            let answers = (by_mode(200_000_000, 40_000_000) / len).min(40_000);
            let mut figures = [const { Vec::new() }; METHODS.len()];
            for _ in 0..rounds {
                for (figure, (method, _)) in figures.iter_mut().zip(METHODS) {
                    figure.push(bench.round(method, records, step, answers));
                }
            }
            let copied: Vec<f64> = figures[0].iter().map(|(cpu, _)| *cpu).collect();
            for (figure, (_, method)) in figures.iter().zip(METHODS) {
                let ratios: Vec<f64> = figure
                    .iter()
                    .zip(&copied)
                    .map(|((cpu, _), c)| cpu / c)
                    .collect();
                let cpu: Vec<f64> = figure.iter().map(|(cpu, _)| *cpu).collect();
                let took: Vec<f64> = figure.iter().map(|(_, took)| *took).collect();
                rows.add(&Row {
                    name: &name(method),
                    goal: "shown",
                    unit: "ns of processor",
                    reached: Some(median(&cpu)),
                    limit: None,
                    ratio: Some(median(&ratios)),
                    missed: None,
                    note: format!(
                        "ratio to copied; {:.0} ns of the clock, {:.2} GB/s",
                        median(&took),
                        len as f64 / median(&took)
                    ),
                });
            }
        }
    }
}
