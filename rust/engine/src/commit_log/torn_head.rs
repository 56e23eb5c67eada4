//! Heads of records that a power failure has torn: a function of file contents. Knows no log.
//!
//! The sector with the first part of a head came in part, the next one, with the body, whole. The CRC covers
//! the body alone; offset and lengths are checked anyway, and are before and behind what is looked at here.
//! Queue id and queue offset are settled after the walk ([`super::DoubtfulRecords`]). What else may be lost
//! cannot be distinguished from what somebody has sent: the time of a client whose clock is at 1970, a user's flag, how
//! often a message was retried.

use mqcore_record::layout::{
    BODY_LEN_AT, BORN_HOST_AT, RECONSUME_TIMES_AT, STORE_TIMESTAMP_AT, STORE_TIMESTAMP_AT_BORN_V6,
};
use mqcore_record::{Host, RecordView};

use crate::units::round_up;

/// What a device writes whole.
pub(super) const SECTOR_BYTES: u64 = 512;
/// What a writer's copy makes visible at once: so many bytes before a border are zeros at the least.
const WORD: [u8; 8] = [0; 8];
/// So many bytes at the beginning of a time are zeros, for the next ten thousand years.
const TIME_ZEROS: usize = 2;

/// Whether power loss took a host, or the store time, of the record that lies at `physical_offset` and
/// begins with `bytes`.
pub(super) fn is_head_torn(record: &RecordView<'_>, bytes: &[u8], physical_offset: u64) -> bool {
    if record.store_timestamp_ms <= 0 {
        return true;
    }
    let border = (round_up(physical_offset, SECTOR_BYTES) - physical_offset) as usize;
    let is_word_lost = border
        .checked_sub(WORD.len())
        .and_then(|from| bytes.get(from..border))
        .is_some_and(|word| word == WORD);
    is_born_host_torn(record, (border, is_word_lost))
        || is_stored_torn(record, (border, is_word_lost))
}

/// No client has an address that begins with zeros. An IPv6 address may, but not together with the end of the
/// time before it, where that is none of 1970. No client has port 0: a border right behind the port shows by
/// it, and so do those in the time behind it whose bytes are zeros anyway.
fn is_born_host_torn(record: &RecordView<'_>, (border, is_word_lost): (usize, bool)) -> bool {
    let time_at = time_at(record);
    let last = match record.born_host {
        Host::V4 { .. } => time_at,
        Host::V6 { .. } if record.born_timestamp_ms != 0 => BORN_HOST_AT + 4,
        Host::V6 { .. } => BORN_HOST_AT,
    };
    let is_host_lost = (BORN_HOST_AT + 1..=last).contains(&border);
    let is_port_lost = (time_at..=time_at + TIME_ZEROS).contains(&border);
    is_word_lost && (is_host_lost || is_port_lost)
}

/// Where the store time is.
fn time_at(record: &RecordView<'_>) -> usize {
    match record.born_host {
        Host::V4 { .. } => STORE_TIMESTAMP_AT,
        Host::V6 { .. } => STORE_TIMESTAMP_AT_BORN_V6,
    }
}

/// A border right behind the store time shows by it, a later one by a host without a port.
fn is_stored_torn(record: &RecordView<'_>, (border, is_word_lost): (usize, bool)) -> bool {
    let time_at = time_at(record);
    let port_at = time_at + 8 + record.store_host.address().len();
    if border >= port_at + 4 {
        let head_end = port_at + 4 + BODY_LEN_AT + 4 - RECONSUME_TIMES_AT;
        return record.store_host.port() == 0 && border <= head_end;
    }
    // The first bytes of a time are zeros, and an IPv6 address may hold as many.
    let last = match record.store_host {
        Host::V4 { .. } => port_at + 3,
        Host::V6 { .. } => time_at + 8 + 2,
    };
    is_word_lost && (time_at + TIME_ZEROS + 1..=last).contains(&border)
}

#[cfg(test)]
mod tests {
    use mqcore_record::encode::{Limits, Message, Prepared};
    use mqcore_record::layout::STORE_HOST_AT;
    use mqcore_record::{CrcCheck, Found, check};

    use super::*;

    const V4: Host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10_911,
    };
    const LOCAL_V6: Host = Host::V6 {
        address: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        port: 10_911,
    };
    const NOW_MS: i64 = 1_795_249_600_000;

    /// The record of a client at `born_host`.
    fn record(born_host: Host, born_ms: i64) -> Vec<u8> {
        let message = Message {
            born_timestamp_ms: born_ms,
            born_host,
            ..Message::of("t", 0, b"body", V4)
        };
        let limits = Limits { body_len_max: 100 };
        let mut prepared = Prepared::new(&message, &limits).unwrap();
        prepared.stamp(7, 0, NOW_MS);
        let mut bytes = vec![0; prepared.total_len()];
        prepared.write_to(&mut bytes);
        bytes
    }

    /// Whether a record that lies so much before the border of a sector is taken for torn.
    fn is_torn(bytes: &[u8], border: usize) -> bool {
        let Ok(Found::Record(view)) = check(bytes, CrcCheck::Verify) else {
            return true;
        };
        is_head_torn(&view, bytes, 5 * SECTOR_BYTES - border as u64)
    }

    #[test]
    fn a_host_that_was_lost_before_a_border_is_missed() {
        let bytes = record(V4, NOW_MS);
        for border in BORN_HOST_AT + 1..STORE_HOST_AT + 8 {
            let mut torn = bytes.clone();
            torn[border - WORD.len()..border].fill(0);
            assert!(is_torn(&torn, border), "{border}");
        }
    }

    #[test]
    fn a_port_of_a_long_address_that_was_lost_is_missed() {
        let bytes = record(LOCAL_V6, NOW_MS);
        for behind in 0..=TIME_ZEROS {
            let border = STORE_TIMESTAMP_AT_BORN_V6 + behind;
            let mut torn = bytes.clone();
            torn[border - WORD.len()..border].fill(0);
            assert!(is_torn(&torn, border), "{border}");
        }
    }

    #[test]
    fn what_clients_send_is_none_of_it() {
        for host in [V4, LOCAL_V6] {
            for born_ms in [0, 1, NOW_MS] {
                let bytes = record(host, born_ms);
                for border in 1..SECTOR_BYTES as usize {
                    assert!(!is_torn(&bytes, border), "{host:?} {born_ms} {border}");
                }
            }
        }
    }
}
