//! Connections between simulated nodes. Bytes come in order, late, in any pieces, up to the byte at which a
//! connection is cut; a direction may carry nothing for a time while both ends think it open. Time is passed
//! in. Knows no node and no stream: a tap may look at what goes in, and change it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;

use super::dice::Dice;

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Who has connected.
    Near,
    /// Who has accepted.
    Far,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// What the buffers take of the near end, which waits for nothing: more than it ever reports.
const REPORTS_BYTES: usize = 1 << 20;

/// The number of a connection.
pub(crate) type Pair = usize;

/// Looks at the bytes that an end writes, and gives those that go in their place.
pub(crate) type Tap = Box<dyn FnMut(Pair, Side, &[u8]) -> Vec<u8>>;

/// Bytes of one direction.
#[derive(Debug, Default)]
struct Direction {
    under_way: VecDeque<(u64, Vec<u8>)>,
    under_way_bytes: usize,
    arrived: VecDeque<u8>,
    /// What the buffers of both systems take.
    capacity: usize,
    latency_ms: (u64, u64),
    /// Nothing comes through before this time.
    black_until_ms: u64,
    /// The connection breaks when so many bytes have come through.
    cut_at: Option<u64>,
    delivered: u64,
    /// The writer has closed.
    is_finished: bool,
}

#[derive(Debug)]
struct Connection {
    /// What `Near` writes, and what `Far` writes.
    directions: [Direction; 2],
    /// Whether an end is held by a process.
    is_held: [bool; 2],
    /// Whether an end has learned that the connection is broken.
    is_reset: [bool; 2],
}

/// Something that an end should look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wake {
    pub(crate) pair: Pair,
    pub(crate) side: Side,
}

struct Cables {
    dice: Dice,
    now_ms: u64,
    connections: Vec<Connection>,
    /// Deliveries to be made: when, and of which direction.
    due: Vec<(u64, Pair, Side)>,
    wakes: Vec<Wake>,
    /// Which ends have written in this step.
    written: Vec<(Pair, Side)>,
    tap: Option<Tap>,
}

/// How a connection behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quality {
    pub(crate) latency_ms: (u64, u64),
    pub(crate) capacity: usize,
}

/// All connections; clones are the same network.
#[derive(Clone)]
pub(crate) struct Network(Rc<RefCell<Cables>>);

/// One end of a connection, which never waits. Dropped, it is closed.
pub(crate) struct Wire {
    cables: Rc<RefCell<Cables>>,
    pair: Pair,
    side: Side,
}

const fn index(side: Side) -> usize {
    match side {
        Side::Near => 0,
        Side::Far => 1,
    }
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Cables {
            dice: Dice::of(seed),
            now_ms: 0,
            connections: Vec::new(),
            due: Vec::new(),
            wakes: Vec::new(),
            written: Vec::new(),
            tap: None,
        })))
    }

    pub(crate) fn tap(&self, tap: Tap) {
        self.0.borrow_mut().tap = Some(tap);
    }

    /// Connects: the near and the far end.
    pub(crate) fn connect(&self, quality: Quality) -> (Pair, Wire, Wire) {
        let mut cables = self.0.borrow_mut();
        let direction = |capacity| Direction {
            capacity,
            latency_ms: quality.latency_ms,
            ..Direction::default()
        };
        let pair = cables.connections.len();
        cables.connections.push(Connection {
            directions: [direction(REPORTS_BYTES), direction(quality.capacity)],
            is_held: [true; 2],
            is_reset: [false; 2],
        });
        let wire = |side| Wire {
            cables: Rc::clone(&self.0),
            pair,
            side,
        };
        (pair, wire(Side::Near), wire(Side::Far))
    }

    /// Begins a step.
    pub(crate) fn set_time(&self, now_ms: u64) {
        let mut cables = self.0.borrow_mut();
        cables.now_ms = now_ms;
        cables.written.clear();
    }

    /// Takes back what was written in this step: its writer died before.
    pub(crate) fn take_back(&self) {
        let mut cables = self.0.borrow_mut();
        for (pair, side) in std::mem::take(&mut cables.written) {
            let direction = &mut cables.connections[pair].directions[index(side)];
            if let Some((_, bytes)) = direction.under_way.pop_back() {
                direction.under_way_bytes -= bytes.len();
            }
        }
    }

    /// What is to be delivered later: when, and of which direction.
    pub(crate) fn take_due(&self) -> Vec<(u64, Pair, Side)> {
        std::mem::take(&mut self.0.borrow_mut().due)
    }

    pub(crate) fn take_wakes(&self) -> Vec<Wake> {
        std::mem::take(&mut self.0.borrow_mut().wakes)
    }

    /// Brings through what `side` has written and is due.
    pub(crate) fn deliver(&self, pair: Pair, side: Side) {
        self.0.borrow_mut().deliver(pair, side);
    }

    /// Breaks a connection now, for both ends.
    pub(crate) fn cut(&self, pair: Pair) {
        self.0.borrow_mut().cut(pair);
    }

    /// Lets a connection break when so many more bytes of `side` have come through.
    pub(crate) fn cut_behind(&self, pair: Pair, side: Side, bytes: u64) {
        let mut cables = self.0.borrow_mut();
        let direction = &mut cables.connections[pair].directions[index(side)];
        direction.cut_at = Some(direction.delivered + bytes);
    }

    /// Lets nothing of `side` come through for a time; both ends think the connection open.
    pub(crate) fn black(&self, pair: Pair, side: Side, for_ms: u64) {
        let mut cables = self.0.borrow_mut();
        let until_ms = cables.now_ms + for_ms;
        let direction = &mut cables.connections[pair].directions[index(side)];
        direction.black_until_ms = direction.black_until_ms.max(until_ms);
    }

    /// The machine of `side` is without power: its end is gone, and nobody learns it.
    pub(crate) fn vanish(&self, pair: Pair, side: Side) {
        let mut cables = self.0.borrow_mut();
        let connection = &mut cables.connections[pair];
        connection.is_held[index(side)] = false;
        connection.directions[index(side)].under_way.clear();
        connection.directions[index(side)].under_way_bytes = 0;
    }

    /// Every direction carries again, and no cut is planned.
    pub(crate) fn heal(&self) {
        let mut cables = self.0.borrow_mut();
        for pair in 0..cables.connections.len() {
            for side in [Side::Near, Side::Far] {
                let direction = &mut cables.connections[pair].directions[index(side)];
                direction.black_until_ms = 0;
                direction.cut_at = None;
                cables.deliver(pair, side);
            }
        }
    }

    /// Connections that both ends hold, unbroken.
    pub(crate) fn open(&self) -> Vec<Pair> {
        let cables = self.0.borrow();
        let all = cables.connections.iter().enumerate();
        all.filter(|(_, connection)| {
            connection.is_held == [true; 2] && connection.is_reset == [false; 2]
        })
        .map(|(pair, _)| pair)
        .collect()
    }
}

impl Cables {
    fn wake(&mut self, pair: Pair, side: Side) {
        self.wakes.push(Wake { pair, side });
    }

    fn cut(&mut self, pair: Pair) {
        let connection = &mut self.connections[pair];
        connection.is_reset = [true; 2];
        for direction in &mut connection.directions {
            direction.under_way.clear();
            direction.under_way_bytes = 0;
            // What has arrived and was not read is lost, or is not.
            if self.dice.once_in(2) {
                direction.arrived.clear();
            }
        }
        self.wake(pair, Side::Near);
        self.wake(pair, Side::Far);
    }

    fn deliver(&mut self, pair: Pair, side: Side) {
        let now_ms = self.now_ms;
        let connection = &mut self.connections[pair];
        let is_received = connection.is_held[index(side.other())];
        let direction = &mut connection.directions[index(side)];
        if direction.black_until_ms > now_ms {
            self.due.push((direction.black_until_ms, pair, side));
            return;
        }
        let mut is_cut = false;
        let mut came = false;
        while let Some((due_ms, _)) = direction.under_way.front() {
            if *due_ms > now_ms {
                break;
            }
            let Some((_, bytes)) = direction.under_way.pop_front() else {
                break;
            };
            direction.under_way_bytes -= bytes.len();
            let left = direction
                .cut_at
                .map_or(u64::MAX, |at| at.saturating_sub(direction.delivered));
            let len = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            direction.delivered += len as u64;
            came = true;
            if is_received {
                direction.arrived.extend(&bytes[..len]);
            }
            is_cut = direction.cut_at.is_some_and(|at| direction.delivered >= at);
            if is_cut {
                break;
            }
        }
        let is_over = direction.is_finished && direction.under_way.is_empty();
        if !is_received && came {
            // Nobody is there for them: the answer is a reset.
            connection.is_reset[index(side)] = true;
        }
        if is_cut {
            self.cut(pair);
        } else if came || is_over {
            self.wake(pair, side.other());
            self.wake(pair, side);
        }
    }
}

fn failed(kind: ErrorKind) -> io::Error {
    io::Error::from(kind)
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let cables = &mut *self.cables.borrow_mut();
        let connection = &mut cables.connections[self.pair];
        let is_reset = connection.is_reset[index(self.side)];
        let direction = &mut connection.directions[index(self.side.other())];
        if direction.arrived.is_empty() {
            let is_over = direction.is_finished
                && direction.under_way.is_empty()
                && direction.black_until_ms <= cables.now_ms;
            return match (is_reset, is_over) {
                (true, _) => Err(failed(ErrorKind::ConnectionReset)),
                (false, true) => Ok(0),
                (false, false) => Err(failed(ErrorKind::WouldBlock)),
            };
        }
        let there = direction.arrived.len().min(buffer.len());
        let len = if cables.dice.once_in(3) {
            cables.dice.between(1, there as u64) as usize
        } else {
            there
        };
        for (into, byte) in buffer.iter_mut().zip(direction.arrived.drain(..len)) {
            *into = byte;
        }
        let more = !direction.arrived.is_empty();
        // There is space for the writer again.
        cables.wake(self.pair, self.side.other());
        if more {
            cables.wake(self.pair, self.side);
        }
        Ok(len)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let cables = &mut *self.cables.borrow_mut();
        let now_ms = cables.now_ms;
        let connection = &mut cables.connections[self.pair];
        if connection.is_reset[index(self.side)] {
            return Err(failed(ErrorKind::ConnectionReset));
        }
        let direction = &mut connection.directions[index(self.side)];
        let used = direction.under_way_bytes + direction.arrived.len();
        let free = direction.capacity.saturating_sub(used).min(bytes.len());
        if free == 0 {
            return Err(failed(ErrorKind::WouldBlock));
        }
        let len = if self.side == Side::Far && cables.dice.once_in(4) {
            cables.dice.between(1, free as u64) as usize
        } else {
            free
        };
        let (least, most) = direction.latency_ms;
        let last_ms = direction.under_way.back().map_or(0, |(due, _)| *due);
        let due_ms = last_ms.max(now_ms + cables.dice.between(least, most));
        let tap = cables.tap.as_mut();
        let bytes = &bytes[..len];
        let bytes = tap.map_or_else(|| bytes.to_vec(), |tap| tap(self.pair, self.side, bytes));
        direction.under_way_bytes += bytes.len();
        direction.under_way.push_back((due_ms, bytes));
        cables.due.push((due_ms, self.pair, self.side));
        cables.written.push((self.pair, self.side));
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let cables = &mut *self.cables.borrow_mut();
        let now_ms = cables.now_ms;
        let connection = &mut cables.connections[self.pair];
        if !connection.is_held[index(self.side)] {
            return;
        }
        connection.is_held[index(self.side)] = false;
        let direction = &mut connection.directions[index(self.side)];
        direction.is_finished = true;
        let last_ms = direction.under_way.back().map_or(now_ms, |(due, _)| *due);
        cables.due.push((last_ms.max(now_ms), self.pair, self.side));
    }
}
