//! A connection that goes from reactor to reactor: each answers what comes while it is there, and lets
//! it go again.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mqcore_engine::store::LoopEvents;
use mqcore_fast_path::ConnectionId;
use mqcore_fast_path::locked::LockedFastPath;
use mqcore_reactor::{Reactor, Report, Reported, Reports};
use mqcore_wire::{FRAME_BYTES_MAX, FrameReader};

use crate::serving::{BUSY_POLL, HOST, TwinReactor, reactor, send};

/// Whoever waits longer waits for ever.
const FOR_EVER: Duration = Duration::from_secs(60);
const MOVES: i32 = 6;

/// Sends a message and reads its answer.
fn ask(socket: &mut UnixStream, opaque: i32) {
    socket.write_all(&send(opaque, b"x")).unwrap();
    let mut reader = FrameReader::new(FRAME_BYTES_MAX);
    let mut buffer = [0; 4096];
    let mut answers = 0;
    while answers == 0 {
        let len = socket.read(&mut buffer).unwrap();
        assert!(len > 0, "closed before it is answered");
        let read = reader.feed(&buffer[..len], |_answer| {
            answers += 1;
            Ok::<(), mqcore_wire::WireError>(())
        });
        read.unwrap();
    }
    assert_eq!(answers, 1);
}

/// Lets a reactor give up its connection, once that is idle: an answer may be read before it is counted.
fn spared(
    from: &TwinReactor,
    id: ConnectionId,
    (reported, events): (&Reported, &LoopEvents),
) -> OwnedFd {
    let begun = Instant::now();
    while !from.home().locked().path.connections.is_idle(id) {
        assert!(begun.elapsed() < FOR_EVER, "it is never idle");
        std::thread::yield_now();
    }
    from.spare(1);
    loop {
        assert!(events.wake_descriptor().wait(FOR_EVER), "it is kept");
        events.wake_descriptor().clear();
        for report in reported.take() {
            if let Report::Spared(spared, socket) = report {
                assert_eq!(spared, id);
                return socket;
            }
        }
    }
}

#[test]
fn a_connection_that_moved_may_move_again_before_it_has_asked_anew() {
    let (first, reported, events) = reactor(|events| Arc::new(Reported::new(events)));
    let mut beside = first.home().locked().path.beside(0).unwrap();
    beside.policy = first.home().locked().path.policy.clone();
    let home = Arc::new(LockedFastPath::new(beside, first.home().clock().clone()));
    let of_second = Arc::new(Reported::new(Arc::clone(&events)));
    let reports: Arc<dyn Reports> = of_second.clone();
    let second = Reactor::start("mq-reactor-1", home, reports, BUSY_POLL).unwrap();

    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(FOR_EVER)).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut id = first.home().locked().path.open(HOST, "127.0.0.1:9");
    first.add(id, theirs.into());
    ask(&mut ours, 0);
    let mut at = [(&first, &*reported), (&second, &*of_second)];
    for turn in 1..=MOVES {
        let [(from, reports), (to, _)] = at;
        let socket = spared(from, id, (reports, &events));
        id = to.take_over(from, id, socket).unwrap();
        assert_eq!((from.connections(), to.connections()), (0, 1));
        if turn % 2 == 0 {
            ask(&mut ours, turn);
        }
        at.reverse();
    }
    first.stop();
    second.stop();
}
