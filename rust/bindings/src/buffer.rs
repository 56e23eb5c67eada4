//! The receive buffer that all connections of a loop share, and writing to a borrowed socket: the
//! two places where Python and the lane meet in memory and in a descriptor.
#![expect(
    unsafe_code,
    reason = "the buffer protocol and a borrowed descriptor have no safe interface"
)]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// One read of a socket; a default socket buffer holds not much more.
pub(crate) const RECEIVE_BYTES: usize = 256 * 1024;

/// Where the transports of a loop put what they receive. Invariants:
/// B1: the memory is never moved or given back while the object lives.
/// B2: only the thread of the loop touches it: a transport writes into it, and the lane reads it in
/// the call that tells how much was written, before any transport of that loop writes again.
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

    /// The first `len` bytes, copied nowhere: good for the call that was told of them.
    pub(crate) fn filled<'a>(&'a self, _py: Python<'a>, len: usize) -> &'a [u8] {
        // SAFETY: B1 and B2; no transport writes before this call has returned to it.
        let bytes: &[u8; RECEIVE_BYTES] = unsafe { &*self.bytes.get() };
        bytes.get(..len).unwrap_or(bytes)
    }
}

#[pymethods]
impl ReceiveBuffer {
    // SAFETY: called by the interpreter alone, with a view to fill or null.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let start = slf.get().bytes.get().cast();
        let len = RECEIVE_BYTES.cast_signed();
        // SAFETY: B1: the memory lives as long as the object, which the view keeps alive.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 0, flags) };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
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
    // SAFETY: the transport closes its socket only after `connection_lost`, where the lane forgets
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
