//! Where Python and Rust meet in memory and in a descriptor: the receive buffer that all connections
//! of a loop share, columns and bytes that another object keeps still, writing to a borrowed
//! socket, and objects that the cyclic collector need not look at.
#![expect(
    unsafe_code,
    reason = "the buffer protocol, a borrowed descriptor and the collector have no safe interface"
)]

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int, c_void};
use std::io::IoSlice;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use arrow_array::StructArray;
use arrow_array::ffi::{FFI_ArrowArray, from_ffi};
use arrow_schema::DataType;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyMemoryView, PySlice};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Names of the capsules of Arrow's C data interface.
pub(crate) const ARROW_SCHEMA: &CStr = c"arrow_schema";
pub(crate) const ARROW_ARRAY: &CStr = c"arrow_array";

/// One read of a socket; a default socket buffer holds not much more.
pub(crate) const RECEIVE_BYTES: usize = 256 * 1024;

/// Where the transports of a loop put what they receive. Invariants:
/// B1: the memory is never moved or given back while the object lives.
/// B2: only the thread of the loop touches it: a transport writes into it, and the fast path reads it in
/// the call that reports how much was written, before any transport of that loop writes again.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReceiveBuffer {
    bytes: Box<UnsafeCell<[u8; RECEIVE_BYTES]>>,
}

// SAFETY: B2: no two threads touch the bytes at the same time.
unsafe impl Sync for ReceiveBuffer {}

impl ReceiveBuffer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Box::new(UnsafeCell::new([0; RECEIVE_BYTES])),
        }
    }

    /// The first `len` bytes, copied nowhere: good for the call that was given them.
    pub(crate) fn filled<'a>(&'a self, _py: Python<'a>, len: usize) -> &'a [u8] {
        // SAFETY: B1 and B2; no transport writes before this call has returned to it.
        let bytes: &[u8; RECEIVE_BYTES] = unsafe { &*self.bytes.get() };
        bytes.get(..len).unwrap_or(bytes)
    }
}

/// Bytes read at once of a connection that has asked nothing yet.
const FIRST_RECEIVE_BYTES: isize = 16 * 1024;

/// The buffer as transports ask for it, asyncio wants a length, too; and the part of it for a
/// connection that has asked nothing yet.
pub(crate) fn views_of(
    buffer: &Bound<'_, ReceiveBuffer>,
) -> PyResult<(Py<PyMemoryView>, Py<PyMemoryView>)> {
    let view = PyMemoryView::from(buffer.as_any())?;
    let part = PySlice::new(buffer.py(), 0, FIRST_RECEIVE_BYTES, 1);
    let first = view.get_item(part)?.cast_into::<PyMemoryView>()?;
    Ok((view.unbind(), first.unbind()))
}

#[pymethods]
impl ReceiveBuffer {
    // SAFETY: called by the interpreter alone, with a view to fill or null.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let start = slf.get().bytes.get().cast();
        // SAFETY: B1: the memory lives as long as the object, which the view keeps alive.
        unsafe { fill(view, slf.as_any(), (start, RECEIVE_BYTES), flags) }
    }
}

/// Fills the view of a buffer that may be written.
///
/// # Safety
/// `view` is the interpreter's, or null; the memory at `start` is good for `len` bytes while `owner`
/// lives, for writing too.
unsafe fn fill(
    view: *mut ffi::Py_buffer,
    owner: &Bound<'_, PyAny>,
    (start, len): (*mut c_void, usize),
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("no view to fill"));
    }
    let (object, len) = (owner.as_ptr(), len.cast_signed());
    // SAFETY: what the caller promises.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, object, start, len, 0, flags) };
    if filled == 0 {
        Ok(())
    } else {
        Err(PyErr::fetch(owner.py()))
    }
}

/// The bytes of an object. Those of a read-only buffer are copied nowhere. Invariant B3: who gives
/// out a buffer as read-only keeps it where it is and as it is until it is given back: `bytes` and
/// Arrow promise that.
pub(crate) enum Still {
    Lent(PyUntypedBuffer),
    Copied(Vec<u8>),
}

impl Still {
    /// The bytes of `object`, whatever they count as.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the bytes do not lie side by side"));
        }
        if buffer.readonly() {
            return Ok(Self::Lent(buffer));
        }
        // Somebody may write into it: what is read is what is there now.
        Ok(Self::Copied(lent(&buffer).to_vec()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Lent(buffer) => lent(buffer),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// The bytes of a contiguous buffer.
fn lent(buffer: &PyUntypedBuffer) -> &[u8] {
    let len = buffer.len_bytes();
    if len == 0 {
        // Such a buffer may point nowhere.
        return &[];
    }
    // SAFETY: B3 for what is read-only; a writable one is read with the GIL held, at once. It is
    // contiguous, and `len` is its whole length.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), len) }
}

/// The columns of an object that gives them by Arrow's C data interface; copied nowhere, and checked
/// that no offset leads out of its data. Invariant A1: what lies behind capsules of these names is
/// what the interface defines, its buffers are as long as the last offset demands, and nobody writes
/// into them: PyArrow promises that of a batch that it validated.
pub(crate) fn struct_array(object: &Bound<'_, PyAny>) -> PyResult<StructArray> {
    let given = object.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = given.extract()?;
    let schema = schema.pointer_checked(Some(ARROW_SCHEMA))?.cast();
    let array = array.pointer_checked(Some(ARROW_ARRAY))?.cast();
    // SAFETY: A1; the array is moved out, and its capsule keeps one that is released.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    // SAFETY: A1; the capsule outlives this call.
    let schema = unsafe { schema.as_ref() };
    // SAFETY: A1.
    let data = unsafe { from_ffi(array, schema) };
    let checked = data.and_then(|data| data.validate_full().map(|()| data));
    let data = checked.map_err(|error| PyValueError::new_err(error.to_string()))?;
    match data.data_type() {
        DataType::Struct(_) => Ok(StructArray::from(data)),
        other => Err(PyValueError::new_err(format!("{other} is not columns"))),
    }
}

/// Takes an object out of what the interpreter's cyclic collector walks through: for those that come
/// by the hundred thousand and reach nothing that could reach them.
pub(crate) fn uncollected(object: &Bound<'_, PyAny>) {
    // SAFETY: a live object of a class of this extension, whose allocation has the collector's head;
    // an object that is not tracked is left as it is, and its deallocation does the same once more.
    unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) }
}

/// A socket that Python has detached: it is closed here. None of a number that is no descriptor.
pub(crate) fn owned(descriptor: i32) -> Option<OwnedFd> {
    if descriptor < 0 {
        return None;
    }
    // SAFETY: `socket.detach()` gave the number away: nobody else closes or uses it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// What a socket took.
pub(crate) enum Sent {
    /// So many bytes.
    Bytes(usize),
    /// Nothing: it is full.
    Full,
    /// It is broken; the transport will notice by itself.
    Broken,
}

/// Sends without waiting, through a descriptor that its transport keeps open.
pub(crate) fn send(descriptor: i32, slices: &[IoSlice<'_>]) -> Sent {
    if descriptor < 0 {
        return Sent::Broken;
    }
    // SAFETY: the transport closes its socket only after `connection_lost`, where the fast path forgets
    // the descriptor.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut nothing = SendAncillaryBuffer::default();
    loop {
        return match sendmsg(socket, slices, &mut nothing, flags) {
            Ok(len) => Sent::Bytes(len),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN | Errno::NOBUFS) => Sent::Full,
            Err(_broken) => Sent::Broken,
        };
    }
}
