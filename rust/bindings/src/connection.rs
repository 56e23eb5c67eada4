//! A connection of the lane as an event loop sees it: the receive buffer, one crossing per wake-up,
//! and output that goes out at once where the transport has nothing queued.
//!
//! | transport | output |
//! |---|---|
//! | plain socket, empty | a gathered write without the transport; what a short one leaves goes on |
//! | plain socket, after a short write | one piece through the transport, the rest waits |
//! | TLS, empty | pieces through the transport until it is full |
//! | full (`pause_writing`) | waits for `resume_writing` |

use std::io::IoSlice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use mqcore_engine::lock::Mutex;
use mqcore_lane::feed::{Fault, check_output};
use mqcore_lane::{ConnectionId, Escalated, Escalation};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyTuple};

use crate::buffer::{Sent, send};
use crate::door::{KEEP_BYTES_MAX, Pass, through};
use crate::draft::{LOCAL_HOST, bytes_of, host_of};
use crate::lane::NativeLane;
use crate::wire::Command;

/// Slices of one gathered write: an answer of 32 messages with its head, twice.
const SLICES_MAX: usize = 66;
/// Bytes given to a transport at once: what it cannot send it copies, so not too many; what is
/// not given waits for another turn of the loop, so not too few.
const TRANSPORT_BYTES: usize = 256 * 1024;

/// Bytes of an unfinished frame from which on Python counts them, of a connection that has asked
/// something already: below, they are less than a socket's own buffer.
const TOLD_BYTES_MIN: usize = 64 * 1024;

/// A connection; to be inherited together with `asyncio.BufferedProtocol`.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
pub(crate) struct LaneConnection {
    lane: OnceLock<Py<NativeLane>>,
    /// 0 before it is open and after it is closed.
    id: AtomicU64,
    /// The socket that may be written to without the transport; below 0: none.
    descriptor: AtomicI32,
    is_full: AtomicBool,
    is_stalled: AtomicBool,
    is_pumping: AtomicBool,
    /// Set once a whole frame has come.
    has_asked: AtomicBool,
    /// Bytes of an unfinished frame as Python was told last.
    told_half_bytes: AtomicUsize,
    /// The transport's `write`.
    write: Mutex<Option<Py<PyAny>>>,
}

impl LaneConnection {
    fn id(&self) -> ConnectionId {
        ConnectionId(self.id.load(Ordering::Relaxed))
    }

    fn lane<'a>(&'a self, py: Python<'a>) -> PyResult<&'a NativeLane> {
        let lane = self.lane.get();
        let lane = lane.ok_or_else(|| PyRuntimeError::new_err("bind the connection to a lane"))?;
        Ok(lane.bind(py).get())
    }
}

/// A request for Python: its command, why it is handed over, and the name of what is missing.
pub(crate) type EscalatedRow = (Py<Command>, &'static str, String);

/// A handed request as Python reads it.
pub(crate) fn escalated_row(py: Python<'_>, handed: Escalated) -> PyResult<EscalatedRow> {
    let (escalation, name) = match handed.escalation {
        Escalation::Code => ("code", String::new()),
        Escalation::Topic(name) => ("topic", name),
        Escalation::Group(name) => ("group", name),
        Escalation::Check => ("check", String::new()),
    };
    let command = Py::new(py, Command::owned(py, &handed.command)?)?;
    Ok((command, escalation, name))
}

/// What a turn left of a connection's bytes.
#[derive(Clone, Copy, Default)]
struct Left {
    half_bytes: usize,
    half_since_ms: u64,
    has_asked: bool,
    is_stalled: bool,
    /// Requests are left that wait for the next turn.
    has_more: bool,
}

/// What sending directly came to.
enum Direct {
    Done,
    Full,
    Broken,
}

/// Writes what waits for a connection, as far as its socket or transport takes it.
fn pump(slf: &Bound<'_, LaneConnection>) -> PyResult<()> {
    let this = slf.get();
    if this.id().0 == 0 || this.is_pumping.swap(true, Ordering::Relaxed) {
        // A transport that calls back in the middle of a write: the loop below goes on.
        return Ok(());
    }
    let pumped = pump_once(slf);
    this.is_pumping.store(false, Ordering::Relaxed);
    pumped?;
    go_on_if_drained(slf)
}

fn pump_once(slf: &Bound<'_, LaneConnection>) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    let lane = this.lane(py)?;
    while !this.is_full.load(Ordering::Relaxed) {
        let descriptor = this.descriptor.load(Ordering::Relaxed);
        if descriptor >= 0 {
            match send_directly(lane, this.id(), descriptor) {
                Direct::Done => return Ok(()),
                Direct::Broken => {
                    let mut inside = lane.lock();
                    let connections = &mut inside.lane.connections;
                    connections.change_output(this.id(), |output| output.sent(usize::MAX));
                    return Ok(());
                }
                Direct::Full => {}
            }
        }
        let piece = {
            let mut inside = lane.lock();
            let connections = &mut inside.lane.connections;
            let taken = connections.change_output(this.id(), |output| output.take(TRANSPORT_BYTES));
            let taken = taken.unwrap_or_default();
            if let Some(connection) = connections.connection_mut(this.id()) {
                connection.moved_bytes += taken.len() as u64;
            }
            taken
        };
        let write = this.write.lock().as_ref().map(|write| write.clone_ref(py));
        let Some(write) = write.filter(|_| !piece.is_empty()) else {
            return Ok(());
        };
        write.call1(py, (PyBytes::new(py, &piece),))?;
    }
    Ok(())
}

fn send_directly(lane: &NativeLane, id: ConnectionId, descriptor: i32) -> Direct {
    let mut inside = lane.lock();
    let connections = &mut inside.lane.connections;
    loop {
        let sent = {
            let Some(connection) = connections.connection(id) else {
                return Direct::Done;
            };
            if connection.output.is_empty() {
                return Direct::Done;
            }
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES_MAX);
            connection.output.slices(SLICES_MAX, &mut slices);
            send(descriptor, &slices)
        };
        match sent {
            Sent::Bytes(len) => {
                connections.change_output(id, |output| output.sent(len));
                if let Some(connection) = connections.connection_mut(id) {
                    connection.moved_bytes += len as u64;
                }
            }
            Sent::Full => return Direct::Full,
            Sent::Broken => return Direct::Broken,
        }
    }
}

/// Goes on with requests that waited for the output to be read.
fn go_on_if_drained(slf: &Bound<'_, LaneConnection>) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    let lane = this.lane(py)?;
    if !this.is_stalled.load(Ordering::Relaxed) {
        return Ok(());
    }
    if lane.lock().lane.connections.is_stalled(this.id()) {
        return Ok(());
    }
    this.is_stalled.store(false, Ordering::Relaxed);
    slf.call_method0("go_on_reading")?;
    feed(slf, 0)
}

fn feed(slf: &Bound<'_, LaneConnection>, len: usize) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    let id = this.id();
    if id.0 == 0 {
        return Ok(());
    }
    let lane = this.lane(py)?;
    let bytes = lane.buffer.bind(py).get().filled(py, len);
    let mut dirty = Vec::new();
    let (fed, handed, left) = through(py, Pass::keeping_if(len <= KEEP_BYTES_MAX), || {
        let (mut inside, now_ms) = lane.lock_now();
        let fed = inside.lane.feed(id, bytes, now_ms);
        inside.lane.connections.take_dirty(&mut dirty);
        lane.tell_deadline(&mut inside);
        let connections = &inside.lane.connections;
        let left = connections.connection(id).map(|connection| Left {
            half_bytes: connection.half_frame.len(),
            half_since_ms: connection.half_since_ms.unwrap_or(0),
            has_asked: connection.has_asked,
            is_stalled: connections.is_stalled(id),
            has_more: connections.execution_time.is_over(),
        });
        (fed, inside.lane.take_escalated(), left.unwrap_or_default())
    });
    if left.is_stalled {
        this.is_stalled.store(true, Ordering::Relaxed);
        slf.call_method0("stop_reading")?;
    }
    pump_all(py, lane, &dirty)?;
    if !handed.is_empty() {
        let rows = handed.into_iter().map(|each| escalated_row(py, each));
        let rows = rows.collect::<PyResult<Vec<_>>>()?;
        slf.call_method1("hand_over", (rows,))?;
    }
    match fed {
        Ok(()) => tell_left(slf, left),
        Err(fault) => refuse(slf, &fault),
    }
}

/// Tells Python of requests that wait for the next turn, and of an unfinished frame that counts.
fn tell_left(slf: &Bound<'_, LaneConnection>, left: Left) -> PyResult<()> {
    let this = slf.get();
    let is_first = left.has_asked && !this.has_asked.swap(true, Ordering::Relaxed);
    let is_counted = !left.has_asked || left.half_bytes >= TOLD_BYTES_MIN;
    let counted = if is_counted { left.half_bytes } else { 0 };
    let told = this.told_half_bytes.swap(counted, Ordering::Relaxed);
    if counted != told || is_first {
        slf.call_method1("unfinished", (counted, left.half_since_ms, left.has_asked))?;
    }
    if left.has_more {
        slf.call_method0("wait_turn")?;
    }
    Ok(())
}

fn refuse(slf: &Bound<'_, LaneConnection>, fault: &Fault) -> PyResult<()> {
    slf.call_method1("give_up", (fault.to_string(),)).map(drop)
}

/// Writes what waits for some connections.
pub(crate) fn pump_all(py: Python<'_>, lane: &NativeLane, ids: &[ConnectionId]) -> PyResult<()> {
    for id in ids {
        let Some(connection) = lane.connection(py, *id) else {
            continue;
        };
        let connection = connection.bind(py);
        pump(connection)?;
        let checked = check_output(&lane.lock().lane.connections, *id);
        if let Err(fault) = checked {
            lane.lock().lane.connections.stats.closed_slow += 1;
            refuse(connection, &fault)?;
        }
    }
    Ok(())
}

#[pymethods]
impl LaneConnection {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            lane: OnceLock::new(),
            id: AtomicU64::new(0),
            descriptor: AtomicI32::new(-1),
            is_full: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_pumping: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
            told_half_bytes: AtomicUsize::new(0),
            write: Mutex::new(None),
        }
    }

    fn bind(&self, lane: Py<NativeLane>) {
        // A second lane would be a mistake of the caller: the first one stays.
        let _first = self.lane.set(lane);
    }

    #[pyo3(signature = (write, *, descriptor, peer, born_host))]
    fn attach(
        slf: &Bound<'_, Self>,
        write: Py<PyAny>,
        descriptor: i32,
        peer: &str,
        born_host: Option<&str>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let host = born_host.map_or(Ok(LOCAL_HOST), host_of)?;
        let lane = this.lane(py)?;
        let id = lane.lock().lane.open(host, peer);
        lane.join(id, slf.clone().unbind());
        let before = this.write.lock().replace(write);
        drop(before);
        this.descriptor.store(descriptor, Ordering::Relaxed);
        this.id.store(id.0, Ordering::Relaxed);
        Ok(())
    }

    fn detach(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let id = ConnectionId(this.id.swap(0, Ordering::Relaxed));
        this.descriptor.store(-1, Ordering::Relaxed);
        let write = this.write.lock().take();
        drop(write);
        let lane = this.lane(py)?;
        {
            let mut inside = lane.lock();
            inside.lane.close(id);
            // What it has left is taken out in turns.
            lane.tell_deadline(&mut inside);
        }
        lane.leave(id);
        Ok(())
    }

    #[pyo3(name = "get_buffer")]
    fn shared_buffer(slf: &Bound<'_, Self>, sizehint: isize) -> PyResult<Py<PyMemoryView>> {
        let _ = sizehint;
        let py = slf.py();
        let lane = slf.get().lane(py)?;
        // Of a connection that has asked nothing yet less is read at once: there may be many.
        let has_asked = slf.get().has_asked.load(Ordering::Relaxed);
        let view = if has_asked {
            &lane.view
        } else {
            &lane.first_view
        };
        Ok(view.clone_ref(py))
    }

    fn buffer_updated(slf: &Bound<'_, Self>, nbytes: usize) -> PyResult<()> {
        feed(slf, nbytes)
    }

    /// Goes on with requests that were left for the next turn.
    fn take_turn(slf: &Bound<'_, Self>) -> PyResult<()> {
        feed(slf, 0)
    }

    fn pause_writing(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.get().is_full.store(false, Ordering::Relaxed);
        pump(slf)
    }

    fn write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let bytes = bytes_of(data)?;
        let lane = this.lane(py)?;
        let mut dirty = Vec::new();
        {
            let mut inside = lane.lock();
            inside.lane.connections.write(this.id(), &bytes);
            inside.lane.connections.take_dirty(&mut dirty);
        }
        pump_all(py, lane, &dirty)
    }

    /// False when the lane does not execute requests of this code.
    fn execute(slf: &Bound<'_, Self>, command: PyRef<'_, Command>) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let command = command.to_wire(py)?;
        let lane = this.lane(py)?;
        let mut dirty = Vec::new();
        let is_short = command.body.len() <= KEEP_BYTES_MAX;
        let is_executed = through(py, Pass::keeping_if(is_short), || {
            let (mut inside, now_ms) = lane.lock_now();
            let is_executed = inside.lane.execute(this.id(), command, now_ms);
            inside.lane.connections.take_dirty(&mut dirty);
            lane.tell_deadline(&mut inside);
            is_executed
        });
        pump_all(py, lane, &dirty)?;
        Ok(is_executed)
    }

    /// Bytes that it has received and been sent.
    fn traffic(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let this = slf.get();
        let lane = this.lane(slf.py())?.lock();
        let connection = lane.lane.connections.connection(this.id());
        Ok(connection.map_or(0, |connection| connection.moved_bytes))
    }

    /// For how long a frame has been incomplete, ms.
    fn half_frame_ms(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let this = slf.get();
        let (inside, now_ms) = this.lane(slf.py())?.lock_now();
        let connection = inside.lane.connections.connection(this.id());
        let since = connection.and_then(|connection| connection.half_since_ms);
        let is_ours = this.is_stalled.load(Ordering::Relaxed);
        Ok(since
            .filter(|_| !is_ours)
            .map_or(0, |at| now_ms.saturating_sub(at)))
    }
}
