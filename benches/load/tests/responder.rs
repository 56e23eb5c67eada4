//! The program against a responder that answers as a broker does, refuses, and goes away.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_wire::command::encode;
use mqcore_wire::header::RESPONSE;
use mqcore_wire::{CommandRef, FrameReader, Head, WireError};
use serde_json::Value;

/// What the responder does with the request of a number.
type Rule = fn(u64) -> Deed;

enum Deed {
    Answer(i32),
    Close,
}

/// Answers on a free port for as long as the test runs; returns the address and what counts requests.
fn responder(rule: Rule) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&requests);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, counted) = (socket.unwrap(), Arc::clone(&counted));
            std::thread::spawn(move || serve(socket, rule, &counted));
        }
    });
    (address, requests)
}

fn serve(mut socket: TcpStream, rule: Rule, requests: &AtomicU64) {
    let mut reader = FrameReader::default();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read) = socket.read(&mut buffer) {
        if read == 0 {
            return;
        }
        let mut answers = Vec::new();
        let mut is_closing = false;
        reader
            .feed::<WireError>(&buffer[..read], |frame| {
                let command = CommandRef::decode(frame)?;
                let deed = rule(requests.fetch_add(1, Ordering::SeqCst));
                let (Deed::Answer(code), false) = (deed, is_closing) else {
                    is_closing = true;
                    return Ok(());
                };
                let head = Head {
                    opaque: command.opaque,
                    flag: RESPONSE,
                    code,
                    serialization: command.serialization,
                    ..Head::default()
                };
                answers.extend(encode(&head, [("queueId", "0")], b"")?);
                Ok(())
            })
            .unwrap();
        // Who does not read any more has seen enough.
        if socket.write_all(&answers).is_err() || is_closing {
            return;
        }
    }
}

fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn run(arguments: &[&str]) -> (bool, Value) {
    let done = Process::new(env!("CARGO_BIN_EXE_mqcore-load"))
        .args(arguments)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&done.stderr).into_owned();
    let report = serde_json::from_slice(&done.stdout);
    assert!(report.is_ok(), "{arguments:?}: {output}");
    (done.status.success(), report.unwrap())
}

#[test]
fn a_count_is_sent_and_answered() {
    let (address, requests) = responder(|_| Deed::Answer(0));
    for header in ["json", "binary"] {
        let before = requests.load(Ordering::SeqCst);
        let common = [
            "produce", "--broker", &address, "-t", "T", "-c", "3", "-w", "5",
        ];
        let more = ["--count", "1000", "--header", header, "--size", "100"];
        let (is_good, report) = run(&[&common[..], &more].concat());
        assert!(is_good);
        assert_eq!(report["messages"], 1_000);
        assert_eq!(report["bytes"], 100_000);
        assert_eq!(report["codes"]["0"], 1_000);
        assert_eq!(report["latency_us"]["count"], 1_000);
        assert_eq!(requests.load(Ordering::SeqCst) - before, 1_000);
    }
}

#[test]
fn batches_count_their_messages() {
    let (address, requests) = responder(|_| Deed::Answer(0));
    let line = [
        "produce", "--broker", &address, "-t", "T", "--batch", "8", "--count", "20",
    ];
    let (_, report) = run(&line);
    assert_eq!(report["acknowledged"], 20);
    assert_eq!(report["codes"]["0"], 3);
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

#[test]
fn an_open_loop_sends_what_is_due() {
    let (address, _) = responder(|_| Deed::Answer(0));
    let line = [
        "produce", "--broker", &address, "-t", "T", "--count", "50", "--rate", "1000",
    ];
    let (_, report) = run(&line);
    assert_eq!(
        (&report["loop"], &report["messages"]),
        (&"open".into(), &50.into())
    );
    // The last of 50 is due 49 ms after the first.
    assert!(report["seconds"].as_f64().unwrap() >= 0.049, "{report}");
}

#[test]
fn with_patience_every_line_is_acknowledged_in_the_end() {
    // Closes at some requests, refuses others: both are sent again.
    let (address, requests) = responder(|number| match number {
        40 | 90 | 91 => Deed::Close,
        number if number % 17 == 5 => Deed::Answer(2),
        _ => Deed::Answer(0),
    });
    let dir = scratch("patience");
    let (lines, acks) = (dir.join("lines"), dir.join("acks"));
    let text: String = (0..300).map(|line| format!("line {line}\n")).collect();
    std::fs::write(&lines, format!("head\n{text}")).unwrap();
    let (lines, acks_text) = (lines.to_str().unwrap(), acks.to_str().unwrap());
    let line = [
        "produce",
        "--broker",
        &address,
        "-t",
        "T",
        "-c",
        "2",
        "-w",
        "4",
        "--file",
        lines,
        "--skip-lines",
        "1",
        "--acks",
        acks_text,
        "--patience-seconds",
        "60",
        "--keys",
    ];
    let (is_good, report) = run(&line);
    assert!(is_good, "{report}");
    assert_eq!(report["acknowledged"], 300);
    let acked = std::fs::read_to_string(&acks).unwrap();
    let numbers: BTreeSet<u64> = acked.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(acked.lines().count(), 300);
    assert_eq!(numbers, (0..300).collect());
    assert!(report["reconnects"].as_u64().unwrap() >= 2, "{report}");
    assert!(report["codes"]["2"].as_u64().unwrap() >= 1, "{report}");
    assert!(requests.load(Ordering::SeqCst) > 300);
}

#[test]
fn without_patience_a_broker_that_goes_ends_the_run() {
    let (address, _) = responder(|number| match number {
        10.. => Deed::Close,
        _ => Deed::Answer(0),
    });
    let (is_good, report) = run(&["produce", "--broker", &address, "-t", "T", "--count", "100"]);
    assert!(!is_good);
    assert_eq!(report["acknowledged"], 10);
    assert_eq!(report["lost"], 1);
    assert!(report["gone"].is_string());
}
