//! A reactor that panics ends the process: a child, which is this program started again.

use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;

use mqcore_reactor::{Report, Reports};

use crate::serving::{HOST, reactor};

/// Set for the child alone.
const CHILD: &str = "MQCORE_REACTOR_PANICS";
const REASON: &str = "these reports cannot be taken";
const SIGABRT: i32 = 6;

/// Called by the reactor's thread.
struct Panics;

impl Reports for Panics {
    fn take(&self, _reports: &mut Vec<Report>) {
        panic!("{REASON}");
    }
}

/// What the child does: lets its reactor report the end of a connection, and waits for it.
#[test]
fn child_with_a_reactor_that_panics() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let (reactor, _reports, events) = reactor(|_events| Arc::new(Panics));
    let (ours, theirs) = UnixStream::pair().unwrap();
    let id = reactor.home().locked().path.open(HOST, "127.0.0.1:9");
    reactor.add(id, theirs.into());
    drop(ours);
    // Nothing raises it: without an end of the process this is a minute, and a pass.
    events
        .wake_descriptor()
        .wait(std::time::Duration::from_secs(60));
}

#[test]
fn a_reactor_that_panics_ends_the_process_with_the_reason() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "panics::child_with_a_reactor_that_panics"])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(SIGABRT), "{printed}");
    assert!(
        printed.contains(REASON) && printed.contains("mq-reactor-0"),
        "{printed}"
    );
}
