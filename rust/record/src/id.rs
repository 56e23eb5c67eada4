//! The offset id of a message: where it is stored, as text (`MessageDecoder.createMessageId`).
//!
//! Upper-case hex of the store host's address, its port as i32, and the physical offset as i64: 32
//! digits for IPv4, 56 for IPv6.

use crate::error::RecordError;
use crate::host::Host;

const ID_LEN_V4: usize = 2 * (4 + 4 + 8);
const ID_LEN_V6: usize = 2 * (16 + 4 + 8);
const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
/// How much of a bad id an error repeats.
const ERROR_TEXT_CHARS_MAX: usize = 64;

/// The offset id of the record that `host` stored at `physical_offset`.
#[must_use]
pub fn offset_id(host: &Host, physical_offset: i64) -> String {
    let mut id = String::with_capacity(ID_LEN_V6);
    let mut push = |bytes: &[u8]| {
        for byte in bytes {
            id.push(char::from(DIGITS[usize::from(byte >> 4)]));
            id.push(char::from(DIGITS[usize::from(byte & 0xF)]));
        }
    };
    push(host.address());
    push(&host.port().to_be_bytes());
    push(&physical_offset.to_be_bytes());
    id
}

/// Reads an offset id; lower-case digits are accepted too, as in Java.
///
/// # Errors
///
/// [`RecordError::BadOffsetId`] when the text is not 32 or 56 hex digits.
pub fn parse_offset_id(text: &str) -> Result<(Host, i64), RecordError> {
    let parsed = match text.len() {
        ID_LEN_V4 => bytes_of::<16>(text).map(|bytes| {
            let [a0, a1, a2, a3, p0, p1, p2, p3, offset @ ..] = bytes;
            let port = i32::from_be_bytes([p0, p1, p2, p3]);
            (
                Host::V4 {
                    address: [a0, a1, a2, a3],
                    port,
                },
                i64::from_be_bytes(offset),
            )
        }),
        ID_LEN_V6 => bytes_of::<28>(text).and_then(|bytes| {
            let (address, rest) = bytes.split_first_chunk::<16>()?;
            let (port, offset) = rest.split_first_chunk::<4>()?;
            let port = i32::from_be_bytes(*port);
            let offset = i64::from_be_bytes(*offset.first_chunk::<8>()?);
            Some((
                Host::V6 {
                    address: *address,
                    port,
                },
                offset,
            ))
        }),
        _ => None,
    };
    parsed.ok_or_else(|| RecordError::BadOffsetId {
        text: text.chars().take(ERROR_TEXT_CHARS_MAX).collect(),
    })
}

fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_id_is_that_of_the_golden_manifest() {
        let host = Host::V4 {
            address: [127, 0, 0, 1],
            port: 20931,
        };
        assert_eq!(offset_id(&host, 0x47A), "7F000001000051C3000000000000047A");
        assert_eq!(
            parse_offset_id("7f000001000051c3000000000000047a"),
            Ok((host, 0x47A))
        );
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let long = "ä".repeat(100);
        for text in [
            "",
            "7F",
            "7F000001000051C3000000000000047G",
            "+F000001000051C3000000000000047A",
        ]
        .into_iter()
        .chain([long.as_str(), "ääääääääääääääää"])
        {
            assert!(matches!(
                parse_offset_id(text),
                Err(RecordError::BadOffsetId { .. })
            ));
        }
    }

    proptest! {
        #[test]
        fn an_id_reads_back(address in any::<[u8; 16]>(), (port, at) in any::<(i32, i64)>()) {
            let v6 = Host::V6 { address, port };
            let id = offset_id(&v6, at);
            prop_assert_eq!(id.len(), 56);
            prop_assert_eq!(parse_offset_id(&id), Ok((v6, at)));
            let v4 = Host::V4 { address: [1, 2, 3, 255], port };
            let id = offset_id(&v4, at);
            prop_assert_eq!(id.len(), 32);
            prop_assert_eq!(parse_offset_id(&id), Ok((v4, at)));
        }

        #[test]
        fn any_text_is_an_id_or_an_error(text in ".{0,60}") {
            let _ = parse_offset_id(&text);
        }
    }
}
