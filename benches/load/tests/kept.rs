//! What the generator finds out about a broker by `--check`, and the sink, against peers whose
//! behaviour the test decides.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::{Arc, Mutex};

use mqcore_wire::command::encode;
use mqcore_wire::header::RESPONSE;
use mqcore_wire::{CommandRef, FrameReader, Head, WireError};
use serde_json::Value;

const SEND_MESSAGE_V2: i32 = 310;
const GET_MAX_OFFSET: i32 = 30;

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    All,
    /// Each tenth is acknowledged and not kept.
    NotEachTenth,
    /// All have the offset of the first.
    AtOneOffset,
}

/// Serves on a free port for as long as the test runs; returns the address.
fn serving(kept: Kept) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let queues: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, queues) = (socket.unwrap(), Arc::clone(&queues));
            std::thread::spawn(move || serve(socket, kept, &queues));
        }
    });
    address
}

fn serve(mut socket: TcpStream, kept: Kept, queues: &Mutex<BTreeMap<String, u64>>) {
    let mut reader = FrameReader::default();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = socket.read(&mut buffer) {
        let mut answers = Vec::new();
        reader
            .feed::<WireError>(&buffer[..read], |frame| {
                let command = CommandRef::decode(frame)?;
                let mut queues = queues.lock().unwrap();
                let name = command
                    .fields
                    .value("e")
                    .or(command.fields.value("queueId"));
                let next = queues
                    .entry(name.unwrap_or_default().to_owned())
                    .or_default();
                let offset = next.to_string();
                if command.code == SEND_MESSAGE_V2 {
                    let is_lost = kept == Kept::NotEachTenth && *next % 10 == 9;
                    *next += u64::from(!is_lost);
                }
                let answered = match command.code {
                    SEND_MESSAGE_V2 if kept == Kept::AtOneOffset => "0",
                    SEND_MESSAGE_V2 | GET_MAX_OFFSET => offset.as_str(),
                    _ => "0",
                };
                let head = Head {
                    opaque: command.opaque,
                    flag: RESPONSE,
                    serialization: command.serialization,
                    ..Head::default()
                };
                let fields = [("queueOffset", answered), ("offset", answered)];
                answers.extend(encode(&head, fields, b"")?);
                Ok(())
            })
            .unwrap();
        // Who does not read any more has seen enough.
        if socket.write_all(&answers).is_err() {
            return;
        }
    }
}

fn produced(address: &str, more: &[&str]) -> Value {
    let common = ["produce", "--broker", address, "-t", "T", "-c", "4"];
    let done = Process::new(env!("CARGO_BIN_EXE_mqcore-load"))
        .args(common)
        .args(more)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_broker_that_keeps_all_in_order_is_found_to() {
    let address = serving(Kept::All);
    for _again in 0..2 {
        let report = produced(&address, &["--count", "1000", "--check"]);
        assert_eq!(report["acknowledged"], 1_000);
        assert_eq!(report["stored"], 1_000);
        assert_eq!(report["disordered"], 0);
    }
}

#[test]
fn what_is_acknowledged_and_not_kept_is_found() {
    let report = produced(
        &serving(Kept::NotEachTenth),
        &["--count", "1000", "--check"],
    );
    assert_eq!(report["acknowledged"], 1_000);
    assert!(report["stored"].as_i64().unwrap() < 1_000, "{report}");
}

#[test]
fn offsets_that_do_not_go_on_are_found() {
    let report = produced(&serving(Kept::AtOneOffset), &["--count", "1000", "--check"]);
    assert_eq!(report["stored"], 1_000);
    // All but the first of each connection and queue.
    assert!(
        report["disordered"].as_i64().unwrap() >= 1_000 - 16,
        "{report}"
    );
}

#[test]
fn the_sink_stores_as_many_bytes_as_a_log_of_the_same_messages() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sink");
    let _absent = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let mut sink = Process::new(env!("CARGO_BIN_EXE_mqcore-load"))
        .args(["sink", "--directory"])
        .arg(&dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(sink.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let report = produced(address, &["--count", "100", "--size", "700", "-w", "8"]);
    sink.kill().unwrap();
    sink.wait().unwrap();
    assert_eq!(report["acknowledged"], 100);
    let bytes = std::fs::read(dir.join("sink-0")).unwrap();
    // The head of a record, the topic, the body; nothing behind the last.
    let stored = 100 * (91 + 1 + 700);
    assert!(bytes[stored - 600..stored].iter().any(|byte| *byte != 0));
    assert!(bytes[stored..].iter().all(|byte| *byte == 0));
    std::fs::remove_dir_all(&dir).unwrap();
}
