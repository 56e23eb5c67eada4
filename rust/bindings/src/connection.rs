//! A connection of the fast path as an event loop sees it: the receive buffer, one crossing per wake-up,
//! and output that goes out at once where the transport has nothing queued.
//!
//! | transport | output |
//! |---|---|
//! | plain socket, empty | a gathered write without the transport; what a short one leaves goes on |
//! | plain socket, after a short write | one piece through the transport, the rest waits |
//! | TLS, empty | pieces through the transport until it is full |
//! | full (`pause_writing`) | waits for `resume_writing` |

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use mqcore_engine::lock::Mutex;
use mqcore_fast_path::ConnectionId;
use mqcore_fast_path::feed::{Fault, check_output};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyTuple};

use crate::buffer::{ReceiveBuffer, owned, views_of};
use crate::direct::{Direct, send_directly};
use crate::draft::{LOCAL_HOST, bytes_of, host_of};
use crate::gil::{Gil, KEEP_BYTES_MAX, gil_call};
use crate::handed::Handed;
use crate::left::Left;
use crate::locked::{Home, LockedFastPath};
use crate::reactors::{BrokerReactor, Mover, Reactors};
use crate::wire::Command;

/// Bytes given to a transport at once: what it cannot send it copies, what is not given waits a turn.
const TRANSPORT_BYTES: usize = 256 * 1024;

/// The number of a fast path (0: Python's loop) and that of a connection there.
type Key = (usize, ConnectionId);

/// The connections of one fast path, and the buffer that their transports receive into.
pub(crate) struct Connections {
    fast_path: Arc<LockedFastPath>,
    pub(crate) reactors: Reactors,
    by_id: Mutex<HashMap<Key, Py<FastPathConnection>>>,
    buffer: Py<ReceiveBuffer>,
    /// The same as transports ask for it: asyncio wants a length, too.
    view: Py<PyMemoryView>,
    /// The part of it for a connection that has asked nothing yet.
    first_view: Py<PyMemoryView>,
}

impl Connections {
    pub(crate) fn new(py: Python<'_>, fast_path: Arc<LockedFastPath>) -> PyResult<Self> {
        let buffer = Bound::new(py, ReceiveBuffer::new())?;
        let (view, first_view) = views_of(&buffer)?;
        Ok(Self {
            reactors: Reactors::new(Arc::clone(fast_path.of_python().events())),
            fast_path,
            by_id: Mutex::default(),
            buffer: buffer.unbind(),
            view,
            first_view,
        })
    }

    fn join(&self, key: Key, connection: Py<FastPathConnection>) {
        self.by_id.lock().insert(key, connection);
    }

    fn leave(&self, key: Key) {
        let left = self.by_id.lock().remove(&key);
        drop(left);
    }

    pub(crate) fn connection_of(&self, py: Python<'_>, key: Key) -> Option<Py<FastPathConnection>> {
        let by_id = self.by_id.lock();
        by_id.get(&key).map(|found| found.clone_ref(py))
    }

    /// Writes what waits for some connections.
    pub(crate) fn pump(&self, py: Python<'_>, ids: &[ConnectionId]) -> PyResult<()> {
        for id in ids {
            let Some(connection) = self.connection_of(py, (0, *id)) else {
                continue;
            };
            let connection = connection.bind(py);
            pump(connection)?;
            let checked = check_output(&self.fast_path.locked().path.connections, *id);
            if let Err(fault) = checked {
                self.fast_path.locked().path.connections.stats.closed_slow += 1;
                refuse(connection, &fault)?;
            }
        }
        self.fast_path.locked().path.connections.note_written();
        Ok(())
    }
}

/// A connection; to be inherited together with `asyncio.BufferedProtocol`.
#[pyclass(frozen, subclass, module = "mqcore.native._native")]
pub(crate) struct FastPathConnection {
    all: OnceLock<Arc<Connections>>,
    /// 0 before it is open and after it is closed.
    id: AtomicU64,
    /// Where its bytes are moved, once attached; changed by the loop's thread alone, as its number there.
    mover: Mutex<Option<Mover>>,
    /// The socket that may be written to without the transport; below 0: none.
    descriptor: AtomicI32,
    is_full: AtomicBool,
    is_stalled: AtomicBool,
    is_pumping: AtomicBool,
    /// Set once a whole frame has come.
    has_asked: AtomicBool,
    /// Bytes of an unfinished frame as Python knows them.
    reported_half_bytes: AtomicUsize,
    /// The transport's `write`.
    write: Mutex<Option<Py<PyAny>>>,
}

impl FastPathConnection {
    pub(crate) fn id(&self) -> ConnectionId {
        ConnectionId(self.id.load(Ordering::Relaxed))
    }

    /// Makes it a connection of a fast path; it stays that of the first one.
    pub(crate) fn join(&self, all: &Arc<Connections>) {
        let _ = self.all.set(Arc::clone(all));
    }

    fn all(&self) -> PyResult<&Connections> {
        let all = self.all.get().map(Arc::as_ref);
        all.ok_or_else(|| PyRuntimeError::new_err("bind the connection to a fast path"))
    }

    /// The fast path that it belongs to.
    fn home(&self) -> PyResult<Arc<Home>> {
        match &*self.mover.lock() {
            Some(mover) => Ok(Arc::clone(&mover.home)),
            None => Ok(Arc::clone(self.all()?.fast_path.of_python())),
        }
    }

    pub(crate) fn reactor(&self) -> Option<Arc<BrokerReactor>> {
        self.mover.lock().as_ref()?.reactor.clone()
    }

    /// Who moves its bytes, once it is attached.
    pub(crate) fn mover(&self) -> Option<Mover> {
        self.mover.lock().clone()
    }

    /// Makes it one of another fast path, under the number that it has there.
    pub(crate) fn move_to(slf: &Bound<'_, Self>, mover: Mover, id: ConnectionId) -> PyResult<()> {
        let this = slf.get();
        let all = this.all()?;
        all.leave((this.mover().map_or(0, |left| left.number), this.id()));
        all.join((mover.number, id), slf.clone().unbind());
        this.id.store(id.0, Ordering::Relaxed);
        *this.mover.lock() = Some(mover);
        Ok(())
    }
}

/// Writes what waits for a connection, as far as its socket or transport takes it.
fn pump(slf: &Bound<'_, FastPathConnection>) -> PyResult<()> {
    let this = slf.get();
    if this.reactor().is_some() {
        this.home()?.wake();
        return Ok(());
    }
    if this.id().0 == 0 || this.is_pumping.swap(true, Ordering::Relaxed) {
        // A transport that calls back in the middle of a write: the loop below goes on.
        return Ok(());
    }
    let pumped = pump_once(slf);
    this.is_pumping.store(false, Ordering::Relaxed);
    pumped?;
    go_on_if_drained(slf)
}

fn pump_once(slf: &Bound<'_, FastPathConnection>) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    let fast_path = this.home()?;
    while !this.is_full.load(Ordering::Relaxed) {
        let descriptor = this.descriptor.load(Ordering::Relaxed);
        if descriptor >= 0 {
            match send_directly(&fast_path, this.id(), descriptor) {
                Direct::Done => return Ok(()),
                Direct::Broken => {
                    let mut inside = fast_path.locked();
                    let connections = &mut inside.path.connections;
                    connections.change_output(this.id(), |output| output.sent(usize::MAX));
                    return Ok(());
                }
                Direct::Full => {}
            }
        }
        let piece = {
            let mut inside = fast_path.locked();
            let connections = &mut inside.path.connections;
            let taken = connections.change_output(this.id(), |output| output.take(TRANSPORT_BYTES));
            let taken = taken.unwrap_or_default();
            if let Some(connection) = connections.connection_mut(this.id()) {
                connection.moved_bytes += taken.len() as u64;
            }
            taken
        };
        let write = this.write.lock().as_ref().map(|write| write.clone_ref(py));
        match write.filter(|_| !piece.is_empty()) {
            Some(write) => write.call1(py, (PyBytes::new(py, &piece),))?,
            None => return Ok(()),
        };
    }
    Ok(())
}

/// Goes on with requests that waited for the output to be read.
fn go_on_if_drained(slf: &Bound<'_, FastPathConnection>) -> PyResult<()> {
    let this = slf.get();
    let fast_path = this.home()?;
    if !this.is_stalled.load(Ordering::Relaxed) {
        return Ok(());
    }
    if fast_path.locked().path.connections.is_stalled(this.id()) {
        return Ok(());
    }
    this.is_stalled.store(false, Ordering::Relaxed);
    slf.call_method0("go_on_reading")?;
    feed(slf, 0)
}

fn feed(slf: &Bound<'_, FastPathConnection>, len: usize) -> PyResult<()> {
    let (py, this) = (slf.py(), slf.get());
    let id = this.id();
    if id.0 == 0 {
        return Ok(());
    }
    let fast_path = this.home()?;
    let bytes = this.all()?.buffer.bind(py).get().filled(py, len);
    let mut dirty = Vec::new();
    let (fed, handed, left) = gil_call(py, Gil::kept_if(len <= KEEP_BYTES_MAX), || {
        let (mut inside, now_ms) = fast_path.locked_now();
        let fed = inside.path.feed(id, bytes, now_ms);
        inside.path.connections.take_dirty(&mut dirty);
        fast_path.wake_before_deadline(&mut inside);
        let left = Left::of(&inside, id);
        (fed, inside.path.take_escalated(), left)
    });
    if left.is_stalled {
        this.is_stalled.store(true, Ordering::Relaxed);
        slf.call_method0("stop_reading")?;
    }
    this.all()?.pump(py, &dirty)?;
    if !handed.is_empty() {
        let requests = handed.into_iter().map(|each| Handed::of(py, each));
        let requests = requests.collect::<PyResult<Vec<_>>>()?;
        slf.call_method1("handed", (requests,))?;
    }
    match fed {
        Ok(()) => report_left(slf, left),
        Err(fault) => refuse(slf, &fault),
    }
}

/// Reports to Python requests that wait for the next turn, and of an unfinished frame that counts.
fn report_left(slf: &Bound<'_, FastPathConnection>, left: Left) -> PyResult<()> {
    let this = slf.get();
    let is_first = left.has_asked && !this.has_asked.swap(true, Ordering::Relaxed);
    let is_counted = left.is_counted();
    let counted = if is_counted { left.half_bytes } else { 0 };
    let reported = this.reported_half_bytes.swap(counted, Ordering::Relaxed);
    if counted != reported || is_first {
        slf.call_method1("unfinished", (counted, left.half_since_ms, left.has_asked))?;
    }
    if left.has_more {
        slf.call_method0("wait_turn")?;
    }
    Ok(())
}

/// Opens a connection in the fast path that it is to belong to.
fn open(
    slf: &Bound<'_, FastPathConnection>,
    (number, home, reactor): (usize, Arc<Home>, Option<Arc<BrokerReactor>>),
    peer: &str,
    born_host: Option<&str>,
) -> PyResult<()> {
    let this = slf.get();
    let host = born_host.map_or(Ok(LOCAL_HOST), host_of)?;
    let id = home.locked().path.open(host, peer);
    *this.mover.lock() = Some(Mover {
        number,
        home,
        reactor,
    });
    this.all()?.join((number, id), slf.clone().unbind());
    this.id.store(id.0, Ordering::Relaxed);
    Ok(())
}

fn refuse(slf: &Bound<'_, FastPathConnection>, fault: &Fault) -> PyResult<()> {
    slf.call_method1("give_up", (fault.to_string(),)).map(drop)
}

#[pymethods]
impl FastPathConnection {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self {
            all: OnceLock::new(),
            mover: Mutex::new(None),
            id: AtomicU64::new(0),
            descriptor: AtomicI32::new(-1),
            is_full: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_pumping: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
            reported_half_bytes: AtomicUsize::new(0),
            write: Mutex::new(None),
        }
    }

    #[pyo3(signature = (write, *, descriptor, peer, born_host))]
    fn attach(
        slf: &Bound<'_, Self>,
        write: Py<PyAny>,
        descriptor: i32,
        peer: &str,
        born_host: Option<&str>,
    ) -> PyResult<()> {
        let this = slf.get();
        let home = Arc::clone(this.all()?.fast_path.of_python());
        open(slf, (0, home, None), peer, born_host)?;
        let before = this.write.lock().replace(write);
        drop(before);
        this.descriptor.store(descriptor, Ordering::Relaxed);
        Ok(())
    }

    /// Opens it, and gives its socket to a reactor, which closes it in the end.
    #[pyo3(signature = (descriptor, *, peer, born_host))]
    fn attach_socket(
        slf: &Bound<'_, Self>,
        descriptor: i32,
        peer: &str,
        born_host: Option<&str>,
    ) -> PyResult<()> {
        let socket = owned(descriptor);
        let this = slf.get();
        let chosen = this.all()?.reactors.least_loaded();
        let (Some((number, reactor)), Some(socket)) = (chosen, socket) else {
            return Err(PyRuntimeError::new_err("no reactor, or no socket"));
        };
        let home = (
            number,
            Arc::clone(reactor.home()),
            Some(Arc::clone(&reactor)),
        );
        open(slf, home, peer, born_host)?;
        reactor.add(this.id(), socket);
        Ok(())
    }

    /// Who is on it, beside its address: whether it has TLS, and the user that a checked certificate names.
    fn identify(&self, is_tls: bool, principal: &str) -> PyResult<()> {
        let (id, home) = (self.id(), self.home()?);
        if let Some(connection) = home.locked().path.connections.connection_mut(id) {
            connection.identity.identify(is_tls, principal);
        }
        Ok(())
    }

    fn detach(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let id = ConnectionId(this.id.swap(0, Ordering::Relaxed));
        this.descriptor.store(-1, Ordering::Relaxed);
        let write = this.write.lock().take();
        drop(write);
        let number = this.mover().map_or(0, |mover| mover.number);
        if let Some(reactor) = this.reactor() {
            reactor.remove(id);
            this.all()?.reactors.even_out();
        } else {
            let home = this.home()?;
            let mut inside = home.locked();
            inside.path.close(id);
            // What it has left is taken out in turns.
            home.wake_before_deadline(&mut inside);
        }
        this.all()?.leave((number, id));
        Ok(())
    }

    /// Its reactor reads no more of it.
    fn hold(&self) {
        if let Some(reactor) = self.reactor() {
            reactor.hold(self.id());
        }
    }

    /// Its reactor reads it again.
    fn release(&self) {
        if let Some(reactor) = self.reactor() {
            reactor.release(self.id());
        }
    }

    #[pyo3(name = "get_buffer")]
    fn shared_buffer(slf: &Bound<'_, Self>, sizehint: isize) -> PyResult<Py<PyMemoryView>> {
        let _ = sizehint;
        let py = slf.py();
        let all = slf.get().all()?;
        // Of a connection that has asked nothing yet less is read at once: there may be many.
        let asked = slf
            .get()
            .has_asked
            .load(Ordering::Relaxed)
            .then_some(&all.view);
        let view = asked.unwrap_or(&all.first_view);
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
        let (py, this, bytes) = (slf.py(), slf.get(), bytes_of(data)?);
        let (fast_path, mut dirty) = (this.home()?, Vec::new());
        let mut inside = fast_path.locked();
        inside.path.connections.write(this.id(), &bytes);
        if this.reactor().is_some() {
            fast_path.wake();
            return Ok(());
        }
        inside.path.connections.take_dirty(&mut dirty);
        drop(inside);
        this.all()?.pump(py, &dirty)
    }

    /// False when the fast path does not execute requests of this code, or another broker is to.
    fn execute(slf: &Bound<'_, Self>, command: PyRef<'_, Command>) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let (command, fast_path, mut dirty) = (command.to_wire(py)?, this.home()?, Vec::new());
        let is_short = command.body.len() <= KEEP_BYTES_MAX;
        let is_executed = gil_call(py, Gil::kept_if(is_short), || {
            let (mut inside, now_ms) = fast_path.locked_now();
            let is_executed = inside.path.execute(this.id(), command, now_ms);
            if this.reactor().is_some() {
                // The reactor writes the answer, and takes what else came of it.
                fast_path.wake();
                return is_executed;
            }
            inside.path.connections.take_dirty(&mut dirty);
            fast_path.wake_before_deadline(&mut inside);
            is_executed
        });
        this.all()?.pump(py, &dirty)?;
        Ok(is_executed)
    }

    /// Its requests name where their clients are from now on: a broker passes them on.
    fn let_name_hosts(&self) -> PyResult<()> {
        let (id, home) = (self.id(), self.home()?);
        if let Some(connection) = home.locked().path.connections.connection_mut(id) {
            connection.names_hosts = true;
        }
        Ok(())
    }

    /// Bytes that it has received and been sent.
    fn traffic(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let home = slf.get().home()?;
        let inside = home.locked();
        let connection = inside.path.connections.connection(slf.get().id());
        Ok(connection.map_or(0, |connection| connection.moved_bytes))
    }

    /// For how long a frame has been incomplete, ms.
    fn half_frame_ms(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let (this, home) = (slf.get(), slf.get().home()?);
        let (inside, now_ms) = home.locked_now();
        let is_ours = this.is_stalled.load(Ordering::Relaxed);
        let left = Left::of(&inside, this.id());
        Ok(if is_ours { 0 } else { left.half_ms(now_ms) })
    }
}
