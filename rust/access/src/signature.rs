//! The signed text of a request and its HMAC-SHA1 (`AclClientRPCHook`, `AclUtils`, `AclSigner`). Knows no
//! user's rights.
//!
//! | step | |
//! |---|---|
//! | 1 | all fields of the header but `Signature` (of some clients fewer: [`Key::has_signed`]), by name in the order of UTF-16 code units; of a field that occurs twice the last |
//! | 2 | their values in UTF-8, without anything between them |
//! | 3 | the body |
//! | 4 | HMAC-SHA1 with the secret in UTF-8, in base64 |

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use subtle::{Choice, ConstantTimeEq};

pub use crate::signed_fields::SIGNATURE;
use crate::signed_fields::{SignedFields, Unsigned};

/// The field with the user's name.
pub const ACCESS_KEY: &str = "AccessKey";
/// V4_9_3, the last one whose client does not sign `_UNIQUE_KEY_QUERY`.
const LEAVES_OUT_UNIQUE_KEY_UNTIL: i32 = 399;
/// Bytes of an HMAC-SHA1.
const DIGEST_LEN: usize = 20;
/// Characters of them in base64.
const TEXT_LEN: usize = 28;
/// Bytes that a decoder wants for so many characters, which could be one more than those of a digest.
const DECODED_MAX: usize = TEXT_LEN / 4 * 3;
/// Bytes that are put together before they are hashed: a digest is fed in large pieces several times as fast.
const GATHERED_MAX: usize = 512;

/// A secret, ready to sign: both pads of the HMAC are hashed already.
#[derive(Clone)]
pub struct Key(Hmac<Sha1>);

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key")
    }
}

impl Key {
    /// The key of a secret, of any length.
    ///
    /// # Panics
    /// Never: an HMAC takes a key of any length.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).expect("an HMAC takes a key of any length"))
    }

    /// The signature of a request as clients from 4.9.4 on sign it: all fields.
    #[must_use]
    pub fn sign<S: AsRef<str>>(&self, fields: &[(S, S)], body: &[u8]) -> String {
        let digest = self.digest(&SignedFields::of(fields), body, Unsigned::NONE);
        STANDARD.encode(digest)
    }

    /// Whether the field `Signature` is the signature of the request. Where the header has fields that
    /// some clients sign and others do not, either form is good; the one that the client's version leads
    /// to expect is tried first.
    #[must_use]
    pub fn has_signed<S: AsRef<str>>(&self, fields: &[(S, S)], body: &[u8], version: i32) -> bool {
        let sorted = SignedFields::of(fields);
        // What is no text of a digest is that of none: in this way for every user.
        let Some(shown) = shown(sorted.signature) else {
            return false;
        };
        let leaves_out = version <= LEAVES_OUT_UNIQUE_KEY_UNTIL;
        // Every form is tried whose fields are there, nothing is compared twice.
        let unique_keys = [leaves_out, !leaves_out];
        let zones = [true, false];
        let forms = |has: bool| if has { 2 } else { 1 };
        for zone in zones.iter().take(forms(sorted.has_zone)) {
            for unique_key in unique_keys.iter().take(forms(sorted.has_unique_key)) {
                let unsigned = Unsigned {
                    unique_key: *unique_key,
                    zone: *zone,
                };
                if bool::from(is_same(&self.digest(&sorted, body, unsigned), &shown)) {
                    return true;
                }
            }
        }
        false
    }

    fn digest<S: AsRef<str>>(
        &self,
        sorted: &SignedFields<'_, S>,
        body: &[u8],
        unsigned: Unsigned,
    ) -> [u8; DIGEST_LEN] {
        let mut mac = self.0.clone();
        let mut gathered = Gathered::new();
        let mut add = |bytes: &[u8]| {
            if !gathered.add(bytes) {
                mac.update(gathered.take());
                if !gathered.add(bytes) {
                    mac.update(bytes);
                }
            }
        };
        sorted.each_value(unsigned, |value| add(value.as_bytes()));
        add(body);
        mac.update(gathered.take());
        mac.finalize().into_bytes().into()
    }
}

/// The digest that a signature shows; none where it is no text of one.
fn shown(signature: &str) -> Option<[u8; DIGEST_LEN]> {
    let mut bytes = [0; DECODED_MAX];
    if signature.len() != TEXT_LEN {
        return None;
    }
    let len = STANDARD.decode_slice(signature, &mut bytes).ok()?;
    bytes.get(..len)?.try_into().ok()
}

/// Whether two digests are the same, in a time that depends on neither: by words, which is faster than by bytes.
fn is_same(one: &[u8; DIGEST_LEN], other: &[u8; DIGEST_LEN]) -> Choice {
    let words = |[front @ .., a, b, c, d]: &[u8; DIGEST_LEN]| {
        let back = u32::from_ne_bytes([*a, *b, *c, *d]);
        (u128::from_ne_bytes(*front), back)
    };
    let (one, other) = (words(one), words(other));
    one.0.ct_eq(&other.0) & one.1.ct_eq(&other.1)
}

/// Short pieces on their way to a digest, put together.
struct Gathered {
    bytes: [u8; GATHERED_MAX],
    len: usize,
}

impl Gathered {
    const fn new() -> Self {
        Self {
            bytes: [0; GATHERED_MAX],
            len: 0,
        }
    }

    /// Adds a piece; false where there is no place for it.
    #[inline]
    fn add(&mut self, piece: &[u8]) -> bool {
        let end = self.len + piece.len();
        let Some(free) = self.bytes.get_mut(self.len..end) else {
            return false;
        };
        free.copy_from_slice(piece);
        self.len = end;
        true
    }

    /// Takes all there is.
    fn take(&mut self) -> &[u8] {
        let len = std::mem::take(&mut self.len);
        self.bytes.get(..len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signed_fields::UNIQUE_KEY_QUERY;

    /// The vector of the protocol's notes, made with the official client.
    const VECTOR: &str = "2SgNRi9e7hKCz2jKZf6iN5j8TTw=";

    fn is_good(fields: &[(&str, &str)], version: i32) -> bool {
        Key::of("SK12345678").has_signed(fields, b"BODY", version)
    }

    #[test]
    fn the_known_vector_is_signed_and_accepted() {
        let fields = [("topic", "T"), ("AccessKey", "AK"), ("Signature", VECTOR)];
        assert_eq!(Key::of("SK12345678").sign(&fields, b"BODY"), VECTOR);
        assert!(is_good(&fields, 409));
    }

    #[test]
    fn neither_another_secret_nor_another_text_is_accepted() {
        let fields = [("topic", "T"), ("AccessKey", "AK"), ("Signature", VECTOR)];
        let key = Key::of("SK12345678");
        assert!(!Key::of("SK12345679").has_signed(&fields, b"BODY", 409));
        assert!(!key.has_signed(&fields, b"BODy", 409));
        for signature in [
            "",
            "2SgNRi9e7hKCz2jKZf6iN5j8TTw",
            "2SgNRi9e7hKCz2jKZf6iN5j8TTw==",
        ] {
            let other = [
                ("topic", "T"),
                ("AccessKey", "AK"),
                ("Signature", signature),
            ];
            assert!(!is_good(&other, 409), "{signature}");
        }
        assert!(
            !is_good(&[("topic", "T"), ("AccessKey", "AK")], 409),
            "none"
        );
    }

    #[test]
    fn of_a_field_that_occurs_twice_the_last_is_signed() {
        let twice = [
            ("topic", "other"),
            ("Signature", "other"),
            ("AccessKey", "AK"),
            ("topic", "T"),
            ("Signature", VECTOR),
        ];
        assert!(is_good(&twice, 409));
    }

    #[test]
    fn fields_that_only_some_clients_sign_are_accepted_either_way() {
        let key = Key::of("SK12345678");
        let bare = [("topic", "T"), ("AccessKey", "AK")];
        let added = [
            (UNIQUE_KEY_QUERY, "true"),
            ("__ZONE_MODE", "false"),
            ("__ZONE_NAME", "z"),
        ];
        for signed in 0..8_u8 {
            let mut fields = bare.to_vec();
            let of = |at: usize| signed & (1 << at) != 0;
            fields.extend((0..3).filter(|at| of(*at)).map(|at| added[at]));
            let signature = key.sign(&fields, b"BODY");
            let mut sent = bare.to_vec();
            sent.extend(added);
            sent.push((SIGNATURE, &signature));
            // The zone's two fields come together.
            let is_accepted = of(1) == of(2);
            for version in [399, 401] {
                assert_eq!(is_good(&sent, version), is_accepted, "{signed} {version}");
            }
        }
    }

    #[test]
    fn a_key_shows_nothing_of_its_secret() {
        assert_eq!(format!("{:?}", Key::of("secret")), "Key");
    }
}
