//! A send request whose header is written once: what changes from message to message has a fixed
//! width and is put in place, so that the generator costs little beside the broker it loads.

use mqcore_access::signature::SIGNATURE;
use mqcore_record::properties::{KEYS, PGROUP, TRAN_MSG, UNIQ_KEY, WAIT};
use mqcore_wire::command::{FrameWriter, VERSION_DEFAULT};
use mqcore_wire::{Head, Serialization, WireError};

use crate::signed::{SIGNATURE_LEN, Signer};

/// The producer group.
pub(crate) const GROUP: &str = "mqcore-load";
/// Opaque numbers begin here: all have ten digits.
pub(crate) const OPAQUE_BASE: i32 = 1_000_000_000;
/// Digits of a message's number where it is a key.
const KEY_DIGITS: usize = 10;
/// Placeholder of a key until it is put in.
const KEY_MARK: &str = "KKKKKKKKKK";
/// Digits of a message's number where it is its unique key.
const UNIQ_DIGITS: usize = 16;
/// Placeholder of a unique key's number until it is put in.
const UNIQ_MARK: &str = "UUUUUUUUUUUUUUUU";
/// Placeholder of a signature until it is put in.
const SIGNATURE_MARK: &str = "SSSSSSSSSSSSSSSSSSSSSSSSSSSS";
/// Without meaning: what a unique key begins with, as long as those of the Java client.
const UNIQ_PREFIX: &str = "7F00000100010000";
/// Bytes of a frame before its header.
const HEAD_BYTES: usize = 8;
/// Bytes of the length word.
const LEN_BYTES: usize = 4;
/// Where the opaque of a binary header is: behind code, language and version.
const BINARY_OPAQUE_AT: usize = HEAD_BYTES + 5;

const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;

/// What messages carry besides their body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks {
    /// The message's number as its key.
    pub(crate) has_keys: bool,
    /// A unique key, as the clients set it.
    pub(crate) has_uniq_keys: bool,
    /// Half messages of transactions.
    pub(crate) is_half: bool,
}

/// A request to one queue, but for opaque, keys and body.
#[derive(Debug)]
pub(crate) struct Outline {
    bytes: Vec<u8>,
    serialization: Serialization,
    opaque_at: usize,
    key_at: Option<usize>,
    uniq_at: Option<usize>,
    signed: Option<Signed>,
}

/// What the signature of a request is made of, and where it is put.
#[derive(Debug)]
struct Signed {
    signer: Signer,
    /// All fields but the signature.
    fields: Vec<(String, String)>,
    at: usize,
}

/// The field with the properties.
const PROPERTIES: &str = "i";

/// Properties with marks where numbers are to be put in.
pub(crate) fn properties(marks: Marks) -> String {
    let mut text = String::new();
    if marks.has_keys {
        text += &format!("{KEYS}\u{1}{KEY_MARK}\u{2}");
    }
    if marks.has_uniq_keys {
        text += &format!("{UNIQ_KEY}\u{1}{UNIQ_PREFIX}{UNIQ_MARK}\u{2}");
    }
    if marks.is_half {
        text += &format!("{TRAN_MSG}\u{1}true\u{2}{PGROUP}\u{1}{GROUP}\u{2}");
    }
    text + &format!("{WAIT}\u{1}true\u{2}")
}

fn position_of(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

/// Puts the number of a message in place of its marks.
pub(crate) fn put_numbers(
    bytes: &mut [u8],
    key_at: Option<usize>,
    uniq_at: Option<usize>,
    number: u64,
) {
    let mut put = |at: usize, text: String| {
        if let Some(field) = bytes.get_mut(at..at + text.len()) {
            field.copy_from_slice(text.as_bytes());
        }
    };
    if let Some(at) = key_at {
        put(
            at,
            format!("{:0KEY_DIGITS$}", number % 10_u64.pow(KEY_DIGITS as u32)),
        );
    }
    if let Some(at) = uniq_at {
        put(at, format!("{number:0UNIQ_DIGITS$X}"));
    }
}

/// Where the marks are.
pub(crate) fn marks_in(bytes: &[u8]) -> (Option<usize>, Option<usize>) {
    (
        position_of(bytes, KEY_MARK.as_bytes()),
        position_of(bytes, UNIQ_MARK.as_bytes()),
    )
}

impl Outline {
    /// The request of a message, or of a batch.
    pub(crate) fn send(
        topic: &str,
        queue_id: u32,
        marks: Marks,
        is_batch: bool,
        born_timestamp_ms: i64,
        (serialization, signer): (Serialization, Option<Signer>),
    ) -> Result<Self, WireError> {
        let head = Head {
            code: if is_batch {
                SEND_BATCH_MESSAGE
            } else {
                SEND_MESSAGE_V2
            },
            version: VERSION_DEFAULT,
            opaque: OPAQUE_BASE,
            serialization,
            ..Head::default()
        };
        let mut bytes = Vec::new();
        let properties = if is_batch {
            format!("{WAIT}\u{1}true\u{2}")
        } else {
            properties(marks)
        };
        let texts = [
            ("a", GROUP),
            ("b", topic),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", &queue_id.to_string()),
            ("f", "0"),
            ("g", &born_timestamp_ms.to_string()),
            ("h", "0"),
            (PROPERTIES, &properties),
            ("j", "0"),
            ("k", "false"),
            ("m", if is_batch { "true" } else { "false" }),
        ];
        let mut fields: Vec<_> = texts.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
        fields.extend(signer.as_ref().map(Signer::field));
        let mut writer = FrameWriter::begin(&mut bytes, &head)?;
        for (name, value) in &fields {
            writer.text(name, value)?;
        }
        if signer.is_some() {
            writer.text(SIGNATURE, SIGNATURE_MARK)?;
        }
        writer.finish(&[])?;
        let opaque = match serialization {
            Serialization::Binary => Some(BINARY_OPAQUE_AT),
            Serialization::Json => {
                let text = OPAQUE_BASE.to_string();
                let member = format!("\"opaque\":{text}");
                let at = position_of(&bytes, member.as_bytes());
                at.map(|at| at + member.len() - text.len())
            }
        };
        let (key_at, uniq_at) = marks_in(&bytes);
        let signature_at = position_of(&bytes, SIGNATURE_MARK.as_bytes());
        let signed = signer
            .zip(signature_at)
            .map(|(signer, at)| Signed { signer, fields, at });
        Ok(Self {
            // The member is there: it was just written.
            opaque_at: opaque.unwrap_or(bytes.len()),
            bytes,
            serialization,
            key_at,
            uniq_at,
            signed,
        })
    }

    /// Signs once and for all, where all messages have this body and no number: a signature covers
    /// neither the opaque nor a time.
    pub(crate) fn seal(&mut self, body: &[u8]) {
        if self.key_at.is_none()
            && self.uniq_at.is_none()
            && let Some(signed) = self.signed.take()
        {
            signed.put(&mut self.bytes, 0, body);
        }
    }

    /// Writes the request of a message at the end of `out`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, slot: u32, number: u64, body: &[u8]) {
        let start = out.len();
        out.reserve(self.bytes.len() + body.len());
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(body);
        let Some(frame) = out.get_mut(start..) else {
            return;
        };
        let len = (frame.len() - LEN_BYTES) as u32;
        if let Some(field) = frame.get_mut(..LEN_BYTES) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        let opaque = OPAQUE_BASE.wrapping_add_unsigned(slot);
        match self.serialization {
            Serialization::Binary => {
                if let Some(field) = frame.get_mut(self.opaque_at..self.opaque_at + 4) {
                    field.copy_from_slice(&opaque.to_be_bytes());
                }
            }
            Serialization::Json => {
                let mut rest = opaque.unsigned_abs();
                for at in (self.opaque_at..self.opaque_at + 10).rev() {
                    if let Some(digit) = frame.get_mut(at) {
                        *digit = b'0' + (rest % 10) as u8;
                    }
                    rest /= 10;
                }
            }
        }
        put_numbers(frame, self.key_at, self.uniq_at, number);
        if let Some(signed) = &self.signed {
            signed.put(frame, number, body);
        }
    }
}

impl Signed {
    /// Puts the signature of a message into its frame.
    fn put(&self, frame: &mut [u8], number: u64, body: &[u8]) {
        let mut fields = self.fields.clone();
        for (_name, text) in fields.iter_mut().filter(|(name, _)| name == PROPERTIES) {
            let mut bytes = std::mem::take(text).into_bytes();
            let (key_at, uniq_at) = marks_in(&bytes);
            put_numbers(&mut bytes, key_at, uniq_at, number);
            // Digits in place of letters: it is text still.
            *text = String::from_utf8(bytes).unwrap_or_default();
        }
        let signature = self.signer.sign(&fields, body);
        if let Some(field) = frame.get_mut(self.at..self.at + SIGNATURE_LEN) {
            field.copy_from_slice(signature.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use mqcore_access::signature::Key;
    use mqcore_wire::{CommandRef, FRAME_BYTES_MAX, Split, split};

    use super::*;

    #[test]
    fn an_outline_filled_in_is_the_request() {
        for serialization in [Serialization::Json, Serialization::Binary] {
            let marks = Marks {
                has_keys: true,
                has_uniq_keys: true,
                is_half: false,
            };
            let form = (serialization, None);
            let outline = Outline::send("T", 3, marks, false, 1_700_000_000_000, form);
            let mut out = vec![7];
            outline.unwrap().write(&mut out, 42, 255, b"body");
            let Ok(Split::Frame(frame)) = split(&out[1..], FRAME_BYTES_MAX) else {
                panic!("a frame");
            };
            assert_eq!(frame.len_bytes, out.len() - 1);
            let command = CommandRef::decode(&frame).unwrap();
            assert_eq!((command.code, command.opaque), (310, OPAQUE_BASE + 42));
            assert_eq!(command.body, b"body");
            assert_eq!(command.fields.value("e"), Some("3"));
            let expected = "KEYS\u{1}0000000255\u{2}UNIQ_KEY\u{1}7F0000010001000000000000000000FF\u{2}WAIT\u{1}true\u{2}";
            assert_eq!(command.fields.value("i"), Some(expected));
        }
    }
    #[test]
    fn a_signed_outline_has_the_signature_of_each_message() {
        for (has_keys, is_sealed) in [(true, false), (false, false), (false, true)] {
            let marks = Marks {
                has_keys,
                has_uniq_keys: has_keys,
                is_half: false,
            };
            let form = (Serialization::Json, Some(Signer::of("AK", "SK12345678")));
            let mut outline = Outline::send("T", 3, marks, false, 7, form).unwrap();
            if is_sealed {
                outline.seal(b"body");
            }
            for number in [1, 255] {
                let mut out = Vec::new();
                outline.write(&mut out, 42, number, b"body");
                let Ok(Split::Frame(frame)) = split(&out, FRAME_BYTES_MAX) else {
                    panic!("a frame");
                };
                let command = CommandRef::decode(&frame).unwrap();
                assert_eq!(command.fields.value("AccessKey"), Some("AK"));
                let key = Key::of("SK12345678");
                assert!(key.has_signed(command.fields.as_slice(), command.body, command.version));
            }
        }
    }
}
