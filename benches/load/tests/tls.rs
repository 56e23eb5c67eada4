//! The generator over TLS, against a peer with a certificate that nobody has signed; it and its key are
//! used by this test alone.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command as Process;
use std::sync::Arc;

use mqcore_wire::command::encode;
use mqcore_wire::header::RESPONSE;
use mqcore_wire::{CommandRef, FrameReader, Head, WireError};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

/// Bytes of a body: several records of TLS.
const BODY_BYTES: usize = 50_000;

/// Serves TLS alone, on a free port, for as long as the test runs; returns the address.
fn serving() -> String {
    let certificate = include_bytes!("server.pem");
    let key = include_bytes!("server.key");
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate).unwrap()],
            PrivateKeyDer::from_pem_slice(key).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let stream = StreamOwned::new(session, socket.unwrap());
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: impl Read + Write) {
    let mut reader = FrameReader::default();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        let mut answers = Vec::new();
        reader
            .feed::<WireError>(&buffer[..read], |frame| {
                let command = CommandRef::decode(frame)?;
                // What comes is what was sent.
                let code = i32::from(command.body.len() != BODY_BYTES);
                let head = Head {
                    code,
                    opaque: command.opaque,
                    flag: RESPONSE,
                    serialization: command.serialization,
                    ..Head::default()
                };
                answers.extend(encode(&head, [("queueId", "0")], b"")?);
                Ok(())
            })
            .unwrap();
        // Who does not read any more has seen enough.
        if stream
            .write_all(&answers)
            .and_then(|()| stream.flush())
            .is_err()
        {
            return;
        }
    }
}

fn run(address: &str, more: &[&str]) -> (bool, Vec<u8>) {
    let size = BODY_BYTES.to_string();
    let common = ["produce", "--broker", address, "-t", "T", "--size", &size];
    let done = Process::new(env!("CARGO_BIN_EXE_mqcore-load"))
        .args(common)
        .args(["-c", "3", "-w", "9", "--count", "2000"])
        .args(more)
        .output()
        .unwrap();
    (done.status.success(), done.stdout)
}

#[test]
fn messages_are_sent_and_answered_over_tls() {
    let (is_good, printed) = run(&serving(), &["--tls"]);
    assert!(is_good);
    let report: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(report["acknowledged"], 2_000);
    assert_eq!(report["codes"]["0"], 2_000);
    assert_eq!(report["lost"], 0);
}

#[test]
fn a_plain_connection_is_not_taken_for_one() {
    let (is_good, _printed) = run(&serving(), &[]);
    assert!(!is_good);
}
