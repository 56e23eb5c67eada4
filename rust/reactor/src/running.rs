//! The thread of a reactor: it waits for its sockets and for its fast path, and makes a turn of what is
//! ready: read and execute each connection once, drain what waited, write all answers, report.
//!
//! Locks: that of the fast path is taken once per connection that has sent something, and never held
//! over a system call; Python's threads take it for what they decided. No lock is held while reports are
//! handed over.
//!
//! A reactor that panics ends the process: its connections could never be answered, and half of a
//! broker is worse than none.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_fast_path::ConnectionId;
use mqcore_fast_path::feed::{Fault, check_output};
use mqcore_fast_path::locked::LockedFastPath;
use mqcore_fast_path::output::Lent;

use crate::busy_poll::BusyPoll;
use crate::changes::{Change, Changes, Report, Reports};
use crate::socket::{Read, Sent, Socket};

/// What is announced at once: more come with the next turn.
const EVENTS_PER_TURN: usize = 1024;
/// One read of a socket; a default socket buffer holds not much more.
const RECEIVE_BYTES: usize = 256 * 1024;
/// One read of a connection that has asked nothing yet: there may be many.
const FIRST_RECEIVE_BYTES: usize = 16 * 1024;
/// Slices of one gathered write: an answer of 32 messages with its head, twice.
const SLICES_MAX: usize = 66;
/// Bytes of an unfinished frame from which on they are reported, of a connection that has asked
/// something already: below, they are less than a socket's own buffer.
const REPORTED_BYTES_MIN: usize = 64 * 1024;
/// Connections looked at for idle ones at once: a microsecond each.
const SPARE_LOOKS_MAX: usize = 1024;
/// Looks of one busy poll, each a system call of some 300 ns: the bound where the clock does not move.
const LOOKS_MAX: usize = 4096;
/// The token of the fast path's wake descriptor: no connection has this number.
const WOKEN: Token = Token(0);

/// What a reactor waits with: it is woken with its fast path.
pub(crate) fn poll_of<D: Disk, C: Clock>(home: &LockedFastPath<D, C>) -> std::io::Result<Poll> {
    let poll = Poll::new()?;
    let descriptor = home.events().wake_descriptor().raw();
    let registry = poll.registry();
    registry.register(&mut SourceFd(&descriptor), WOKEN, Interest::READABLE)?;
    Ok(poll)
}

/// What the thread has.
pub(crate) struct Running<D: Disk, C: Clock> {
    poll: Poll,
    home: Arc<LockedFastPath<D, C>>,
    changes: Arc<Changes>,
    is_sparing: Arc<AtomicBool>,
    reports: Arc<dyn Reports>,
    sockets: HashMap<ConnectionId, Socket>,
    /// Connections that have something to read or to go on with.
    ready: Vec<ConnectionId>,
    /// Connections that have output, or take some again.
    to_write: Vec<ConnectionId>,
    to_report: Vec<Report>,
    buffer: Box<[u8]>,
    busy_poll: BusyPoll,
    /// Requests that were executed until the last turn ended, and in it.
    requests: u64,
    requests_of_turn: u64,
    /// When to drain although nothing is announced, ms.
    drains_at_ms: Option<u64>,
    is_woken: bool,
    is_stopping: bool,
}

impl<D: Disk, C: Clock> Running<D, C> {
    pub(crate) fn new(
        poll: Poll,
        home: Arc<LockedFastPath<D, C>>,
        (changes, is_sparing): (Arc<Changes>, Arc<AtomicBool>),
        reports: Arc<dyn Reports>,
        busy_poll: Duration,
    ) -> Self {
        Self {
            poll,
            home,
            changes,
            is_sparing,
            reports,
            sockets: HashMap::new(),
            ready: Vec::new(),
            to_write: Vec::new(),
            to_report: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            busy_poll: BusyPoll::new(busy_poll),
            requests: 0,
            requests_of_turn: 0,
            drains_at_ms: None,
            is_woken: true,
            is_stopping: false,
        }
    }

    /// Makes turns until the reactor is to end.
    pub(crate) fn run(&mut self) {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        loop {
            self.turn();
            if self.is_stopping {
                return self.end();
            }
            self.wait(&mut events);
        }
    }

    /// Waits until something is ready.
    fn wait(&mut self, events: &mut Events) {
        let timeout = if self.ready.is_empty() {
            self.drains_at_ms.map(|at_ms| {
                let now_ms = self.home.clock().elapsed_ms();
                Duration::from_millis(at_ms.saturating_sub(now_ms))
            })
        } else {
            Some(Duration::ZERO)
        };
        let sleeps = timeout != Some(Duration::ZERO);
        if !(sleeps && self.has_looked(events)) {
            match self.poll.poll(events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return,
                Err(error) => panic!("a reactor cannot wait for its sockets: {error}"),
            }
        }
        self.note(events);
    }

    /// Looks for events without sleeping, where that pays; whether there are some. Between two looks other
    /// threads of the processor may run.
    fn has_looked(&mut self, events: &mut Events) -> bool {
        let Some(limit) = self.busy_poll.next(self.requests_of_turn) else {
            return false;
        };
        let started = self.home.clock().elapsed();
        let is_over = || self.home.clock().elapsed().saturating_sub(started) >= limit;
        let mut has_found = false;
        for _ in 0..LOOKS_MAX {
            let looked = self.poll.poll(events, Some(Duration::ZERO));
            has_found = looked.is_ok() && !events.is_empty();
            if has_found || is_over() {
                break;
            }
            std::thread::yield_now();
        }
        self.busy_poll.ended(has_found);
        has_found
    }

    /// Notes what the events allow.
    fn note(&mut self, events: &Events) {
        for event in events {
            if event.token() == WOKEN {
                self.is_woken = true;
                continue;
            }
            let id = ConnectionId(event.token().0 as u64);
            let Some(socket) = self.sockets.get_mut(&id) else {
                continue;
            };
            let is_ended = event.is_read_closed() || event.is_error();
            if event.is_readable() || is_ended {
                socket.is_readable = true;
                socket.is_read_closed |= is_ended;
                list(&mut self.ready, id, socket);
            }
            if event.is_writable() && !socket.is_writable {
                socket.is_writable = true;
                self.to_write.push(id);
            }
        }
    }

    /// Does what is ready, once.
    fn turn(&mut self) {
        for id in std::mem::take(&mut self.ready) {
            self.go_on(id);
        }
        if self.drain() {
            // The drain has cleared the descriptor: what is asked from now on wakes again.
            self.take_changes();
        }
        self.write();
        if !self.to_report.is_empty() {
            self.reports.take(&mut self.to_report);
        }
    }

    fn take_changes(&mut self) {
        for change in self.changes.take() {
            match change {
                Change::Add(id, descriptor) => self.add(id, descriptor),
                Change::Hold(id) => {
                    if let Some(socket) = self.sockets.get_mut(&id) {
                        socket.is_held = true;
                    }
                }
                Change::Release(id) => {
                    if let Some(socket) = self.sockets.get_mut(&id) {
                        socket.is_held = false;
                        list(&mut self.ready, id, socket);
                    }
                }
                Change::Counted(id) => {
                    if let Some(socket) = self.sockets.get_mut(&id) {
                        socket.is_reported = false;
                        list(&mut self.ready, id, socket);
                    }
                }
                Change::Remove(id) => self.remove(id),
                Change::Spare(most) => self.give_up_idle(most),
                // Who asked waits for it.
                Change::Confirm(done) => drop(done),
                Change::Stop => self.is_stopping = true,
            }
        }
    }

    fn add(&mut self, id: ConnectionId, descriptor: OwnedFd) {
        let mut socket = Socket::new(descriptor);
        // One that another loop had may have asked there.
        let inside = self.home.locked();
        let known = inside.path.connections.connection(id);
        socket.has_asked = known.is_some_and(|each| each.has_asked);
        drop(inside);
        let token = Token(usize::try_from(id.0).unwrap_or(usize::MAX));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        let registered = registry.register(&mut SourceFd(&socket.raw()), token, interest);
        if let Err(error) = registered {
            socket.is_ended = true;
            self.to_report.push(Report::Ended {
                connection: id,
                fault: Some(error.to_string()),
            });
        }
        list(&mut self.ready, id, &mut socket);
        self.sockets.insert(id, socket);
        // One that comes back may have been answered meanwhile.
        self.to_write.push(id);
    }

    /// Gives up connections that are idle.
    fn give_up_idle(&mut self, most: usize) {
        self.is_sparing.store(false, Ordering::Release);
        let may_leave = self.sockets.iter().filter(|(_, socket)| socket.may_leave());
        let looked_at = may_leave.map(|(id, _)| *id).take(SPARE_LOOKS_MAX);
        let inside = self.home.locked();
        let connections = &inside.path.connections;
        let idle = looked_at.filter(|id| connections.is_idle(*id));
        let idle: Vec<ConnectionId> = idle.take(most).collect();
        drop(inside);
        for id in idle {
            let Some(socket) = self.sockets.remove(&id) else {
                continue;
            };
            let registry = self.poll.registry();
            let _gone = registry.deregister(&mut SourceFd(&socket.raw()));
            let spared = Report::Spared(id, socket.into_descriptor());
            self.to_report.push(spared);
        }
    }

    fn remove(&mut self, id: ConnectionId) {
        self.to_write.push(id);
        self.write();
        if let Some(socket) = self.sockets.remove(&id) {
            // The descriptor that it was made of may be open still, and would go on to announce.
            let _gone = self
                .poll
                .registry()
                .deregister(&mut SourceFd(&socket.raw()));
        }
        self.home.locked().path.close(id);
        // What it has left is taken out in turns.
        self.drains_at_ms = Some(0);
    }

    /// Lets a connection have its turn: what was left, or what has come.
    fn go_on(&mut self, id: ConnectionId) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        socket.is_listed = false;
        if !socket.may_go_on() {
            return;
        }
        let len = if socket.has_more {
            0
        } else {
            let most = if socket.has_asked {
                RECEIVE_BYTES
            } else {
                FIRST_RECEIVE_BYTES
            };
            let buffer = self.buffer.get_mut(..most).unwrap_or_default();
            match socket.read(buffer) {
                Read::Bytes(len) => len,
                Read::Nothing => return,
                Read::Ended => return self.end_of(id, None),
            }
        };
        self.feed(id, len);
    }

    fn feed(&mut self, id: ConnectionId, len: usize) {
        let bytes = self.buffer.get(..len).unwrap_or_default();
        let (mut inside, now_ms) = self.home.locked_now();
        let fed = inside.path.feed(id, bytes, now_ms);
        let connections = &inside.path.connections;
        let is_stalled = connections.is_stalled(id);
        let has_more = connections.execution_time.is_over();
        let left = connections.connection(id).map(|connection| {
            (
                connection.half_frame.len(),
                connection.half_since_ms.unwrap_or(0),
                connection.has_asked,
            )
        });
        drop(inside);
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        socket.is_stalled = is_stalled;
        socket.has_more = has_more;
        if let Some((half_bytes, frame, has_asked)) = left {
            let is_first = has_asked && !socket.has_asked;
            let is_counted = !has_asked || half_bytes >= REPORTED_BYTES_MIN;
            let bytes = if is_counted { half_bytes } else { 0 };
            if is_first || bytes != socket.reported_bytes {
                socket.is_reported = bytes > 0;
                self.to_report.push(Report::Unfinished {
                    connection: id,
                    bytes,
                    frame,
                    has_asked,
                });
            }
            socket.has_asked = has_asked;
            socket.reported_bytes = bytes;
        }
        list(&mut self.ready, id, socket);
        if let Err(fault) = fed {
            self.end_of(id, Some(&fault));
        }
    }

    /// Drains what waited where something was announced or is due, and takes what the turn has left;
    /// whether it drained.
    fn drain(&mut self) -> bool {
        let (mut inside, now_ms) = self.home.locked_now();
        let is_due = self.drains_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        let drains = std::mem::take(&mut self.is_woken) || is_due;
        if drains {
            // Tickets of somebody else: they are those of the first loop.
            let mut others = Vec::new();
            inside.path.drain(now_ms, &mut others);
        }
        inside.path.connections.take_dirty(&mut self.to_write);
        let requests = inside.path.connections.stats.requests;
        let escalated = inside.path.take_escalated();
        self.drains_at_ms = inside.path.next_deadline_ms();
        inside.drains_at_ms = self.drains_at_ms.unwrap_or(u64::MAX);
        drop(inside);
        self.requests_of_turn = requests - std::mem::replace(&mut self.requests, requests);
        let reports = escalated.into_iter().map(Report::Escalated);
        self.to_report.extend(reports);
        drains
    }

    /// Writes what waits, as far as sockets take it.
    fn write(&mut self) {
        let mut ids = std::mem::take(&mut self.to_write);
        let mut written: Vec<(ConnectionId, Lent<D>, Sent)> = Vec::with_capacity(ids.len());
        while !ids.is_empty() {
            {
                let connections = &mut self.home.locked().path.connections;
                for id in ids.drain(..) {
                    let socket = self.sockets.get(&id);
                    if socket.is_some_and(|socket| socket.is_writable)
                        && let Some(lent) = connections.lend_output(id)
                    {
                        written.push((id, lent, Sent::Full));
                    }
                }
            }
            for (id, lent, sent) in &mut written {
                let Some(socket) = self.sockets.get_mut(id) else {
                    continue;
                };
                let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES_MAX);
                lent.slices(SLICES_MAX, &mut slices);
                *sent = socket.send(&slices);
            }
            self.give_back(&mut written, &mut ids);
        }
        self.to_write = ids;
    }

    /// Gives lent output back; `again` gets those that have more and take more.
    fn give_back(
        &mut self,
        written: &mut Vec<(ConnectionId, Lent<D>, Sent)>,
        again: &mut Vec<ConnectionId>,
    ) {
        let mut slow: Vec<(ConnectionId, Fault)> = Vec::new();
        let mut inside = self.home.locked();
        for (id, lent, sent) in written.drain(..) {
            let connections = &mut inside.path.connections;
            let sent_bytes = if let Sent::Bytes(len) = sent { len } else { 0 };
            connections.give_back_output(id, lent, sent_bytes);
            if matches!(sent, Sent::Broken) {
                // What it had is dropped; reading reports the end.
                connections.change_output(id, |output| output.sent(usize::MAX));
            }
            let Some(socket) = self.sockets.get_mut(&id) else {
                continue;
            };
            let has_more = connections
                .connection(id)
                .is_some_and(|connection| !connection.output.is_empty());
            if has_more && socket.is_writable {
                again.push(id);
            }
            if has_more && !socket.is_writable && !socket.is_full {
                socket.is_full = true;
                self.to_report.push(Report::Full(id));
            }
            if !has_more && std::mem::take(&mut socket.is_full) {
                self.to_report.push(Report::Drained(id));
            }
            if socket.is_stalled && !connections.is_stalled(id) {
                socket.is_stalled = false;
                socket.has_more = true;
                list(&mut self.ready, id, socket);
            }
            if let Err(fault) = check_output(connections, id) {
                connections.stats.closed_slow += 1;
                slow.push((id, fault));
            }
        }
        inside.path.connections.note_written();
        drop(inside);
        for (id, fault) in slow {
            self.end_of(id, Some(&fault));
        }
    }

    /// Reports that a connection has ended, or has to be.
    fn end_of(&mut self, id: ConnectionId, fault: Option<&Fault>) {
        let Some(socket) = self.sockets.get_mut(&id) else {
            return;
        };
        if !std::mem::replace(&mut socket.is_ended, true) {
            self.to_report.push(Report::Ended {
                connection: id,
                fault: fault.map(ToString::to_string),
            });
        }
    }

    /// Writes what sockets take at once, and forgets all connections.
    fn end(&mut self) {
        self.to_write.extend(self.sockets.keys());
        self.write();
        let mut inside = self.home.locked();
        for (id, _socket) in self.sockets.drain() {
            inside.path.close(id);
        }
    }
}

/// Lists a connection that a turn may do something for.
fn list(ready: &mut Vec<ConnectionId>, id: ConnectionId, socket: &mut Socket) {
    if socket.may_go_on() && !socket.is_listed {
        socket.is_listed = true;
        ready.push(id);
    }
}
