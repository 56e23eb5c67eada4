//! System calls that neither std nor rustix offers: the open-file-description lock, reads that do
//! not wait, the start of write-back. Thin: each function is one call.

#![expect(unsafe_code, reason = "system calls that no library offers safely")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

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
