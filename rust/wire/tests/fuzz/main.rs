//! Bad bytes into every decoder of the wire: a value or a typed error, never a panic, and never more
//! memory than the bytes give reason for.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../../engine/tests/fuzz/run.rs"]
mod run;

use mqcore_record::Compression;
use mqcore_wire::compression::{compress, inflate};
use mqcore_wire::{Command, CommandRef, FRAME_BYTES_MAX, FrameReader, Serialization, WireError};
use run::{Target, target};

const TARGETS: [Target; 4] = [
    target("stream", streams, stream),
    target(
        "zlib",
        || bodies(Compression::Zlib),
        |bytes, _| body(Compression::Zlib, bytes),
    ),
    target(
        "lz4",
        || bodies(Compression::Lz4),
        |bytes, _| body(Compression::Lz4, bytes),
    ),
    target(
        "zstd",
        || bodies(Compression::Zstd),
        |bytes, _| body(Compression::Zstd, bytes),
    ),
];

fn command(serialization: Serialization) -> Command {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Command {
        code: 310,
        opaque: 77,
        remark: Some("a \"remark\"".to_owned()),
        ext: [
            field("b", "topic"),
            field("e", "3"),
            field("i", "TAGS\u{1}A\u{2}"),
            field("k", "false"),
        ]
        .into(),
        body: b"body".to_vec(),
        serialization,
        ..Command::default()
    }
}

fn streams() -> Vec<Vec<u8>> {
    let json = command(Serialization::Json).encode().unwrap();
    let binary = command(Serialization::Binary).encode().unwrap();
    let header = br#"{"code":10,"extFields":{"queueId":3,"unitMode":false},"language":1} "#;
    let len = header.len() as u32;
    let odd = [&(len + 4).to_be_bytes()[..], &len.to_be_bytes(), header].concat();
    vec![
        [&json[..], &binary, &odd].concat(),
        binary.clone(),
        odd,
        [&binary[..], &json].concat(),
    ]
}

/// A connection's bytes in pieces: every command that comes out can be written and read again.
fn stream(bytes: &[u8], number: u64) {
    let mut reader = FrameReader::default();
    let piece = (number % 50 + 1) as usize;
    let mut commands = Vec::new();
    for part in bytes.chunks(piece) {
        let fed = reader.feed::<WireError>(part, |frame| {
            commands.push(CommandRef::decode(frame)?.to_owned());
            Ok(())
        });
        assert!(reader.kept_bytes() <= bytes.len());
        if fed.is_err() {
            break;
        }
    }
    for command in commands {
        let again = command.encode().unwrap();
        assert!(again.len() <= FRAME_BYTES_MAX);
        let mut read = None;
        FrameReader::default()
            .feed::<WireError>(&again, |frame| {
                read = Some(CommandRef::decode(frame)?.to_owned());
                Ok(())
            })
            .unwrap();
        assert_eq!(read.map(|read| read.ext), Some(command.ext));
    }
}

fn bodies(kind: Compression) -> Vec<Vec<u8>> {
    let text = "the same again and ".repeat(40).into_bytes();
    let bodies = [&b"x"[..], &text, &vec![0; 100_000]];
    bodies
        .iter()
        .map(|body| compress(kind, body, 5).unwrap())
        .collect()
}

fn body(kind: Compression, bytes: &[u8]) {
    const MAX: usize = 10_000;
    if let Ok(out) = inflate(kind, bytes, MAX) {
        assert!(out.len() <= MAX && out.capacity() <= 4 * MAX);
    }
}

#[test]
fn a_sample_of_bad_bytes() {
    run::sample(&TARGETS);
}

#[test]
#[ignore = "minutes: make fuzz runs it"]
fn bad_bytes_for_minutes() {
    run::for_long(&TARGETS);
}
