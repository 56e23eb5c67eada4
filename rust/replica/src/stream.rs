//! The bytes of the stream. A slave sends its end, eight bytes each time; a master sends a header of
//! twelve bytes and as many bytes of its log as that announces. All numbers are big endian and signed.

use crate::fault::LinkFault;

/// Bytes of a slave's report: the end of its log.
pub const REPORT_LEN_BYTES: usize = 8;
/// Bytes of a master's header: offset of the first byte that follows, and how many follow.
pub const HEADER_LEN_BYTES: usize = 8 + 4;
/// The longest body that may be sent: an official slave has a buffer of 4 MiB, and copies nothing more
/// where header and body do not go into it.
pub const BODY_LEN_MAX_BYTES: usize = 4 * 1024 * 1024 - HEADER_LEN_BYTES - 1;

/// When a link sends a heartbeat, and when it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// `haSendHeartbeatInterval`: after this long without a write something is sent.
    pub heartbeat_ms: u64,
    /// `haHousekeepingInterval`: after this long without a byte read the link ends.
    pub silence_max_ms: u64,
}

/// What a master sends before each body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Physical offset of the first byte of the body.
    pub offset: u64,
    /// Bytes of the body; 0 for a heartbeat.
    pub len_bytes: u32,
}

impl Header {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_LEN_BYTES] {
        let mut bytes = [0; HEADER_LEN_BYTES];
        let (offset, len) = bytes.split_at_mut(8);
        offset.copy_from_slice(&self.offset.to_be_bytes());
        len.copy_from_slice(&self.len_bytes.to_be_bytes());
        bytes
    }

    /// The header that `bytes` are.
    ///
    /// # Errors
    /// [`LinkFault::BadHeader`] for a negative number.
    pub fn of(bytes: [u8; HEADER_LEN_BYTES]) -> Result<Self, LinkFault> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let offset = i64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let len_bytes = i32::from_be_bytes([i, j, k, l]);
        match (u64::try_from(offset), u32::try_from(len_bytes)) {
            (Ok(offset), Ok(len_bytes)) => Ok(Self { offset, len_bytes }),
            _ => Err(LinkFault::BadHeader { offset, len_bytes }),
        }
    }
}

/// The bytes of a report.
#[must_use]
pub fn report(end: u64) -> [u8; REPORT_LEN_BYTES] {
    end.to_be_bytes()
}

/// The report that `bytes` are.
///
/// # Errors
/// [`LinkFault::NegativeReport`].
pub fn report_of(bytes: [u8; REPORT_LEN_BYTES]) -> Result<u64, LinkFault> {
    let reported = i64::from_be_bytes(bytes);
    u64::try_from(reported).map_err(|_| LinkFault::NegativeReport { reported })
}
