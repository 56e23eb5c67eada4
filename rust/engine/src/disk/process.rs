//! What a process asks of the system for itself: to name the file whose mapped bytes could not be
//! read before it ends of that, and to take back memory that nobody uses.
//!
//! Knows no store. Called at the start of a program, and when it has let much go, from any thread.

use std::fs::File;
use std::io::{self, Read};

use super::sys;

/// The longest line of the kernel's list of mappings that is looked at: a path of any store is
/// shorter.
const LINE_BYTES_MAX: usize = 1_024;
/// What is read of the list at once, on the stack of whichever thread has failed.
const CHUNK_BYTES: usize = 2_048;
/// Blocks from here on are the system's again when they are freed: a megabyte is made anew in a tenth of
/// the time in which it is filled. glibc begins with an eighth of it, and by itself raises that to the
/// longest block that was ever freed, up to 32 MiB: each of its arenas, of which there are eight per
/// processor, then keeps twice as much.
const LARGE_BYTES: i32 = 1 << 20;
/// What each arena keeps at its end: some of the largest of its blocks, so that it is not asked for again
/// at once.
const KEPT_BYTES: i32 = 256 << 10;
/// Arenas at the least: the event loop and those who move bytes rarely want one at the same moment.
const ARENAS_MIN: i32 = 4;
const MAPPINGS: &str = "/proc/self/maps";

/// Has the file named on standard error whose mapped bytes cannot be read, before the process ends
/// of that (SIGBUS): its disk has failed, or it was shortened.
///
/// Handlers that were there before are called afterwards; so it is called behind them.
///
/// # Errors
/// The system refuses.
pub fn name_failed_reads() -> io::Result<()> {
    sys::handle_bus_errors(name_failed_read)
}

/// Has the allocator keep little of what was freed; whether it takes such a bound. For the start of a
/// program: a library does not change how its process allocates.
#[must_use]
pub fn bound_allocator(processors: usize) -> bool {
    let arenas = i32::try_from(processors)
        .unwrap_or(i32::MAX)
        .max(ARENAS_MIN);
    sys::bound_allocator(LARGE_BYTES, KEPT_BYTES, arenas)
}

/// Gives memory that was freed back to the system, where the allocator keeps it for the next use;
/// whether there was any.
///
/// # Blocking
/// For as long as it walks what is free: milliseconds.
#[must_use]
pub fn give_memory_back() -> bool {
    sys::trim_allocator()
}

/// Writes what is mapped at an address. Takes no lock and no memory: it runs in a signal's handler.
fn name_failed_read(address: usize) {
    let mut line = Line::new();
    let Ok(mut mappings) = File::open(MAPPINGS) else {
        return report(None);
    };
    let mut chunk = [0; CHUNK_BYTES];
    while let Ok(len @ 1..) = mappings.read(&mut chunk) {
        for byte in chunk.iter().take(len) {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            if let Some(found) = Mapped::at(address, line.bytes()) {
                return report(Some(&found));
            }
            line.clear();
        }
    }
    report(None);
}

fn report(found: Option<&Mapped<'_>>) {
    sys::write_to_stderr(b"mqcore: mapped bytes cannot be read, and the process ends (SIGBUS): ");
    match found {
        Some(found) if !found.path.is_empty() => {
            sys::write_to_stderr(found.path);
            sys::write_to_stderr(b" at position ");
            let mut digits = [0; DIGITS_MAX];
            sys::write_to_stderr(decimal(found.position, &mut digits));
            sys::write_to_stderr(b". Its disk has failed, or the file was shortened");
        }
        _ => sys::write_to_stderr(b"of no file"),
    }
    sys::write_to_stderr(b"\n");
}

/// A line that is being read, as far as there is space.
struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    len: usize,
}

impl Line {
    fn new() -> Self {
        Self {
            bytes: [0; LINE_BYTES_MAX],
            len: 0,
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}

/// What is mapped at an address.
#[derive(Debug, PartialEq, Eq)]
struct Mapped<'l> {
    /// The file; empty where it is none.
    path: &'l [u8],
    /// The place in it.
    position: u64,
}

impl<'l> Mapped<'l> {
    /// What a line of the list has of an address:
    /// `7f0c2a000000-7f0c2e000000 rw-s 00001000 fe:01 42    /store/commitlog/00000000000000000000`.
    fn at(address: usize, line: &'l [u8]) -> Option<Self> {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let mut bounds = words.next()?.splitn(2, |byte| *byte == b'-');
        let address = u64::try_from(address).ok()?;
        let (begin, end) = (hexadecimal(bounds.next()?)?, hexadecimal(bounds.next()?)?);
        if !(begin..end).contains(&address) {
            return None;
        }
        let position = hexadecimal(words.nth(1)?)?.saturating_add(address - begin);
        let path = words.nth(2).unwrap_or_default().trim_ascii_start();
        let path = if path.starts_with(b"/") { path } else { b"" };
        Some(Self { path, position })
    }
}

/// Reads an address of the list.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        number.checked_mul(16)?.checked_add(digit.into())
    })
}

/// Digits of the largest 64-bit number.
const DIGITS_MAX: usize = 20;

/// Writes a number without memory of its own.
fn decimal(number: u64, into: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let (mut left, mut begin) = (number, DIGITS_MAX);
    for slot in into.iter_mut().rev() {
        *slot = b'0' + u8::try_from(left % 10).unwrap_or_default();
        begin -= 1;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    into.get(begin..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"7f0c2a000000-7f0c2e000000 rw-s 00001000 fe:01 42    /a b/commitlog/0";

    #[test]
    fn the_file_at_an_address_is_named_with_the_position_in_it() {
        let found = Mapped::at(0x7f0c_2a00_0010, LINE).unwrap();
        assert_eq!(found.path, b"/a b/commitlog/0");
        assert_eq!(found.position, 0x1010);
    }

    #[test]
    fn other_addresses_and_broken_lines_are_passed_over() {
        assert_eq!(Mapped::at(0x7f0c_2e00_0000, LINE), None);
        assert_eq!(Mapped::at(0x7f0c_29ff_ffff, LINE), None);
        for broken in [b"".as_slice(), b"x-y z", b"1-2", b"10-20 rw-p"] {
            assert_eq!(Mapped::at(0x11, broken), None);
        }
    }

    #[test]
    fn what_is_no_file_has_no_path() {
        let found = Mapped::at(0x11, b"10-20 rw-p 00000000 00:00 0    [heap]").unwrap();
        assert_eq!(found.path, b"");
        let found = Mapped::at(0x11, b"10-20 rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!(found.path, b"");
    }

    #[test]
    fn numbers_are_written_whole() {
        let mut digits = [0; DIGITS_MAX];
        for number in [0, 7, 10, 4_096, u64::MAX] {
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }
}
