//! Many threads ask one reactor for everything at once, while another answers what it reports: each
//! request is answered once, in order, and nobody waits for ever. What order the threads run in is the
//! machine's; what they do is drawn from [`SEED`].

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mqcore_engine::store::LoopEvents;
use mqcore_fast_path::ConnectionId;
use mqcore_reactor::{Report, Reported};
use mqcore_wire::{CommandRef, FRAME_BYTES_MAX, FrameReader};

use crate::serving::{ESCALATED, HOST, TwinReactor, frame, reactor, send};

const SEED: u64 = 1;
const THREADS: u64 = 6;
/// Connections that each thread has, one after another.
const CONNECTIONS: u64 = 12;
/// Requests of a connection that are sent before the answers are read, and how often.
const BURST: i32 = 12;
const BURSTS: i32 = 6;
/// One request of so many is for the thread that takes reports.
const ESCALATED_OF: u64 = 4;
/// A body of this length is an unfinished frame that is reported, when it is cut.
const LONG_BODY_BYTES: usize = 100_000;
const LONG_OF: u64 = 40;
/// Whoever waits longer waits for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

struct Drawn(u64);

impl Drawn {
    fn below(&mut self, limit: u64) -> u64 {
        let next = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        self.0 = next;
        (next >> 33) % limit
    }
}

/// Takes reports as Python's loop does: answers requests, counts unfinished frames, removes what ended.
fn take_reports(
    reactor: &TwinReactor,
    reported: &Reported,
    events: &LoopEvents,
    is_over: &AtomicBool,
) {
    while !is_over.load(Ordering::Acquire) {
        assert!(
            events.wake_descriptor().wait(FOR_EVER),
            "nothing is reported"
        );
        events.wake_descriptor().clear();
        for report in reported.take() {
            match report {
                Report::Escalated(escalated) => {
                    assert_eq!(escalated.command.code, ESCALATED);
                    let answer = frame(ESCALATED, escalated.command.opaque, &[], b"");
                    let mut inside = reactor.home().locked();
                    let connections = &mut inside.path.connections;
                    connections.write(escalated.connection, &answer);
                    reactor.home().wake();
                }
                Report::Unfinished {
                    connection, bytes, ..
                } if bytes > 0 => reactor.counted(connection),
                Report::Ended { connection, fault } => {
                    assert_eq!(fault, None);
                    reactor.remove(connection);
                }
                Report::Unfinished { .. }
                | Report::Full(_)
                | Report::Drained(_)
                | Report::Spared(..) => {}
            }
        }
    }
}

/// One connection's client.
struct Client<'a> {
    reactor: &'a TwinReactor,
    id: ConnectionId,
    socket: UnixStream,
    reader: FrameReader,
    drawn: &'a mut Drawn,
}

impl Client<'_> {
    /// Holds or releases it, or neither.
    fn meddle(&mut self) {
        match self.drawn.below(6) {
            0 => self.reactor.hold(self.id),
            1 => self.reactor.release(self.id),
            _ => {}
        }
    }

    /// Sends requests, cut anywhere; the numbers of the sends, and of those for the other thread.
    fn ask(&mut self, first: i32) -> (Vec<i32>, Vec<i32>) {
        let (mut sends, mut escalated) = (Vec::new(), Vec::new());
        for opaque in first..first + BURST {
            let bytes = if self.drawn.below(ESCALATED_OF) == 0 {
                escalated.push(opaque);
                frame(ESCALATED, opaque, &[], b"")
            } else {
                sends.push(opaque);
                let is_long = self.drawn.below(LONG_OF) == 0;
                send(
                    opaque,
                    &vec![b'x'; if is_long { LONG_BODY_BYTES } else { 50 }],
                )
            };
            let cut = self.drawn.below(bytes.len() as u64) as usize;
            // Held, it would not take what does not fit its buffer.
            self.reactor.release(self.id);
            self.socket.write_all(&bytes[..cut]).unwrap();
            self.meddle();
            if bytes.len() > LONG_BODY_BYTES {
                self.reactor.release(self.id);
            }
            self.socket.write_all(&bytes[cut..]).unwrap();
        }
        self.reactor.release(self.id);
        (sends, escalated)
    }

    /// Reads as many answers; the numbers of the sends, and of those of the other thread.
    fn read(&mut self, count: usize) -> (Vec<i32>, Vec<i32>) {
        let (mut sends, mut escalated) = (Vec::new(), Vec::new());
        let mut buffer = [0; 4096];
        while sends.len() + escalated.len() < count {
            let len = self.socket.read(&mut buffer).unwrap();
            assert!(len > 0, "closed before all is answered");
            let answers = &buffer[..len];
            let read = self.reader.feed(answers, |answer| {
                let answer = CommandRef::decode(answer)?.to_owned();
                if answer.code == ESCALATED {
                    escalated.push(answer.opaque);
                } else {
                    assert_eq!(answer.code, 0, "{answer:?}");
                    sends.push(answer.opaque);
                }
                Ok::<(), mqcore_wire::WireError>(())
            });
            read.unwrap();
        }
        (sends, escalated)
    }
}

/// The life of a connection; its number.
fn serve_one(reactor: &TwinReactor, drawn: &mut Drawn) -> ConnectionId {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(FOR_EVER)).unwrap();
    ours.set_write_timeout(Some(FOR_EVER)).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let id = reactor.home().locked().path.open(HOST, "127.0.0.1:9");
    reactor.add(id, theirs.into());
    let is_removed = drawn.below(2) == 0;
    let mut client = Client {
        reactor,
        id,
        socket: ours,
        reader: FrameReader::new(FRAME_BYTES_MAX),
        drawn,
    };
    for burst in 0..BURSTS {
        let asked = client.ask(burst * BURST);
        assert_eq!(client.read(BURST as usize), asked);
    }
    if is_removed {
        reactor.remove(id);
    } else {
        client.socket.shutdown(std::net::Shutdown::Write).unwrap();
    }
    let mut rest = Vec::new();
    client.socket.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"", "an answer came twice");
    id
}

#[test]
fn each_request_is_answered_once_in_order_whatever_is_asked_meanwhile() {
    let (reactor, reported, events) = reactor(|events| Arc::new(Reported::new(events)));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| take_reports(&reactor, &reported, &events, &is_over));
        let reactor = &reactor;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut drawn = Drawn(SEED + thread);
                    let each = (0..CONNECTIONS).map(|_each| serve_one(reactor, &mut drawn));
                    each.collect::<Vec<ConnectionId>>()
                })
            })
            .collect();
        let served: Vec<_> = threads.into_iter().map(|each| each.join()).collect();
        is_over.store(true, Ordering::Release);
        events.wake_descriptor().raise();
        taking.join().unwrap();
        reactor.stop();
        let inside = reactor.home().locked();
        for id in served.into_iter().flat_map(Result::unwrap) {
            assert!(inside.path.connections.connection(id).is_none());
        }
    });
    assert_eq!(reactor.connections(), 0);
    assert!(reported.take().is_empty());
}

#[test]
fn a_reactor_with_connections_stops_and_closes_them() {
    let (reactor, _reported, _events) = reactor(|events| Arc::new(Reported::new(events)));
    let mut clients = Vec::new();
    for _each in 0..4 {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(FOR_EVER)).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let id = reactor.home().locked().path.open(HOST, "127.0.0.1:9");
        reactor.add(id, theirs.into());
        clients.push(ours);
    }
    reactor.stop();
    reactor.stop();
    for mut client in clients {
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}
