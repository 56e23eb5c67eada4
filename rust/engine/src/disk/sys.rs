//! System calls that neither std nor rustix offers: the open-file-description lock, reads that do
//! not wait, the start of write-back, the signal of a failed read of mapped bytes, memory given
//! back. Thin: each function is one call.

#![expect(unsafe_code, reason = "system calls that no library offers safely")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::OnceLock;

/// What names the file at an address, and what was done about the signal before; entered once, and read by
/// its handler.
static BUS_ERRORS: OnceLock<(fn(usize), libc::sigaction)> = OnceLock::new();

/// Takes the exclusive open-file-description lock of byte 0; `Ok(false)` when someone has it.
pub(super) fn try_lock_byte_0(file: &File) -> io::Result<bool> {
    let what = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open as long as `file` lives; `what` is a whole flock structure.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const what) };
    if answer == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Reads from the page cache only: `Ok(None)` when the bytes, or some of them, are not there.
pub(super) fn read_cached(
    file: &File,
    into: &mut [u8],
    position: u64,
) -> io::Result<Option<usize>> {
    let Ok(offset) = libc::off_t::try_from(position) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let vector = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: the vector names the memory of `into`, which lives and is ours to write.
    let got = unsafe {
        libc::preadv2(
            file.as_raw_fd(),
            &raw const vector,
            1,
            offset,
            libc::RWF_NOWAIT,
        )
    };
    if let Ok(got) = usize::try_from(got) {
        return Ok(Some(got));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::EINTR) => Ok(None),
        _ => Err(error),
    }
}

/// Starts write-back of a range; errors show at the next sync.
pub(super) fn start_write_back(file: &File, position: u64, len_bytes: u64) {
    let (Ok(position), Ok(len)) = (i64::try_from(position), i64::try_from(len_bytes)) else {
        return;
    };
    // SAFETY: the descriptor is open as long as `file` lives; no pointer is passed.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), position, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Has a function called with the address before a failed read of mapped bytes (SIGBUS) ends the process as
/// it did before; once. It must take no lock and no memory.
pub(super) fn handle_bus_errors(name: fn(usize)) -> io::Result<()> {
    let mut before = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is changed; `before` has space for a whole structure.
    let got = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has filled it.
    let before = unsafe { before.assume_init() };
    if BUS_ERRORS.set((name, before)).is_err() {
        return Ok(());
    }
    let mut action = before;
    action.sa_sigaction = on_bus_error as *const () as usize;
    // On the thread's own stack where it has no other: what has failed is no push to it.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is a whole structure, and its handler has the signature of SA_SIGINFO.
    let set = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Runs on the thread that has read, between two of its instructions: takes no lock and no memory.
extern "C" fn on_bus_error(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some((name, before)) = BUS_ERRORS.get() else {
        return;
    };
    // SAFETY: the kernel gives a whole structure, which lives as long as the handler runs.
    let is_sent = unsafe { (*info).si_code } <= 0;
    if !is_sent {
        // SAFETY: the same; the kernel has sent this signal, so that it has an address.
        let info = unsafe { &*info };
        // SAFETY: the signal is one of a fault.
        let address = unsafe { info.si_addr() };
        name(address.addr());
    }
    // SAFETY: it is what was in force before; the read fails once more, and goes there.
    unsafe { libc::sigaction(number, ptr::from_ref(before), ptr::null_mut()) };
    if is_sent {
        // SAFETY: no memory is touched; it comes when the handler has returned.
        unsafe { libc::raise(number) };
    }
}

/// Writes to standard error, as far as that goes.
pub(super) fn write_to_stderr(text: &[u8]) {
    // SAFETY: the pointer and the length are those of `text`.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Has the allocator take blocks from a length on from the system, and give them back when they are freed,
/// for good: by itself it would raise the length to that of the longest block that was freed. It has so
/// many arenas, and each keeps so much at its end.
#[cfg(target_env = "gnu")]
pub(super) fn bound_allocator(large_bytes: i32, kept_bytes: i32, arenas: i32) -> bool {
    // SAFETY: numbers alone are passed.
    let large = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, large_bytes) };
    // SAFETY: the same.
    let kept = unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, kept_bytes) };
    // SAFETY: the same.
    let count = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    large != 0 && kept != 0 && count != 0
}

/// Other C libraries have no such bound.
#[cfg(not(target_env = "gnu"))]
pub(super) fn bound_allocator(_large_bytes: i32, _kept_bytes: i32, _arenas: i32) -> bool {
    false
}

/// Gives pages that the allocator keeps free back to the system; whether there were any.
#[cfg(target_env = "gnu")]
pub(super) fn trim_allocator() -> bool {
    // SAFETY: glibc takes its own locks; nothing that is in use is moved.
    unsafe { libc::malloc_trim(0) != 0 }
}

/// Other C libraries give memory back by themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn trim_allocator() -> bool {
    false
}
