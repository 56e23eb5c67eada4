//! Handles by which messages with a time of their own are recalled (`RecallMessageHandle`). Pure.
//!
//! A handle is base64 (URL alphabet, padded) of `v1 TOPIC BROKER TIME KEY`: the time is one past the
//! slot, the key the unique key of the message.

const VERSION: &str = "v1";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a handle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) topic: String,
    pub(crate) broker: String,
    pub(crate) deliver_ms: i64,
    pub(crate) uniq_key: String,
}

/// The handle of a message in the slot `out_ms`.
pub(crate) fn handle_of(topic: &str, broker: &str, out_ms: i64, uniq_key: &str) -> String {
    let deliver_ms = out_ms + 1;
    encode(format!("{VERSION} {topic} {broker} {deliver_ms} {uniq_key}").as_bytes())
}

impl Handle {
    /// Reads a handle; `None` for what is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let plain = decode(text.as_bytes())?;
        let plain = String::from_utf8(plain).ok()?;
        let mut parts = plain.split(' ');
        if parts.next() != Some(VERSION) {
            return None;
        }
        let mut next = || parts.next().map(str::to_owned);
        Some(Self {
            topic: next()?,
            broker: next()?,
            // What is no number is a time that has passed.
            deliver_ms: next()?.parse().unwrap_or(-1),
            uniq_key: next()?,
        })
    }
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let padded = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = (padded[0] << 16) | (padded[1] << 8) | padded[2];
        for at in 0..4 {
            if at <= group.len() {
                let index = (bits >> (18 - 6 * at)) & 63;
                out.push(char::from(ALPHABET[index as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Reads base64 as Java's URL decoder does: padding may be left out, nothing else may be there.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            let digit = match group.get(at) {
                Some(byte) => ALPHABET.iter().position(|each| each == byte)? as u32,
                None => 0,
            };
            bits = (bits << 6) | digit;
        }
        let bytes = bits.to_be_bytes();
        out.extend(&bytes[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_the_official_text() {
        let text = handle_of("T", "bn", 1_700_000_000_000, "AC11");
        assert_eq!(text, "djEgVCBibiAxNzAwMDAwMDAwMDAxIEFDMTE=");
        let handle = Handle {
            topic: "T".to_owned(),
            broker: "bn".to_owned(),
            deliver_ms: 1_700_000_000_001,
            uniq_key: "AC11".to_owned(),
        };
        assert_eq!(Handle::parse(&text), Some(handle.clone()));
        assert_eq!(Handle::parse(text.trim_end_matches('=')), Some(handle));
    }

    #[test]
    fn bytes_come_back_whatever_they_are() {
        for len in 0..20 {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 37 + 250) as u8).collect();
            assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }

    #[test]
    fn what_is_no_handle_is_none() {
        for bad in [
            "",
            "=",
            "A",
            "djEgVCBi*",
            "djEgVCBibg==",
            "ÄÖ",
            "djIgVCBibiAxIEFDMTE=",
        ] {
            assert_eq!(Handle::parse(bad), None, "{bad}");
        }
    }
}
