//! The signed text of a request and its HMAC-SHA1 (`AclClientRPCHook`, `AclUtils`, `AclSigner`). Knows no
//! user's rights.
//!
//! | step | |
//! |---|---|
//! | 1 | all fields of the header but `Signature` (of some clients fewer: [`Key::has_signed`]), by name in the order of UTF-16 code units; of a field that occurs twice the last |
//! | 2 | their values in UTF-8, without anything between them |
//! | 3 | the body |
//! | 4 | HMAC-SHA1 with the secret in UTF-8, in base64 |

use std::cmp::Ordering;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use smallvec::SmallVec;
use subtle::{Choice, ConstantTimeEq};

/// The field with the user's name.
pub const ACCESS_KEY: &str = "AccessKey";
/// The field with the signature.
pub const SIGNATURE: &str = "Signature";
/// Not signed by Java's client up to 4.9.3, which signs what its header class declares.
const UNIQUE_KEY_QUERY: &str = "_UNIQUE_KEY_QUERY";
/// Put in by a hook of Java's client 5.x behind the one that signs (`DynamicalExtFieldRPCHook`).
const ZONE_FIELDS: [&str; 2] = ["__ZONE_NAME", "__ZONE_MODE"];
/// V4_9_3, the last one whose client does not sign it.
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

/// Fields that are not part of a signed text although they are in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unsigned {
    unique_key: bool,
    zone: bool,
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
        let every = Unsigned {
            unique_key: false,
            zone: false,
        };
        let digest = self.digest(&Sorted::of(fields), body, every);
        STANDARD.encode(digest)
    }

    /// Whether the field `Signature` is the signature of the request. Where the header has fields that
    /// some clients sign and others do not, either form is good; the one that the client's version leads
    /// to expect is tried first.
    #[must_use]
    pub fn has_signed<S: AsRef<str>>(&self, fields: &[(S, S)], body: &[u8], version: i32) -> bool {
        let sorted = Sorted::of(fields);
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
        sorted: &Sorted<'_, S>,
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

/// Whether two digests are the same, in a time that tells nothing: by words, a fifth of the time of bytes.
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

/// Fields of a usual request: those of more take memory of their own.
const FIELDS_USUAL: usize = 24;
/// Bits of an index in the fields, below the front of a name.
const INDEX_BITS: u32 = 64;

/// The fields of a header in the order in which they are signed.
struct Sorted<'a, S> {
    fields: &'a [(S, S)],
    /// The front of a name above its index in `fields`, as one number: most names differ in it, so that
    /// numbers are compared and not texts.
    order: SmallVec<[u128; FIELDS_USUAL]>,
    /// Whether a name may be there twice.
    may_repeat: bool,
    signature: &'a str,
    has_unique_key: bool,
    has_zone: bool,
}

/// The first bytes of a name as a number: of ASCII names the lesser one comes first.
#[inline]
fn front(name: &[u8]) -> u64 {
    if let [letter] = name {
        // The short header of a send.
        return u64::from(*letter) << (u64::BITS - u8::BITS);
    }
    if let Some(front) = name.first_chunk::<8>() {
        return u64::from_be_bytes(*front);
    }
    let mut front = [0; 8];
    for (slot, byte) in front.iter_mut().zip(name) {
        *slot = *byte;
    }
    u64::from_be_bytes(front)
}

/// The index in an element of `Sorted::order`.
#[inline]
fn index(element: u128) -> usize {
    // The lower half has nothing but an index.
    usize::try_from(element & u128::from(u64::MAX)).unwrap_or(usize::MAX)
}

/// The order of Java's `String`: by UTF-16 code units, which is not that of bytes beyond U+FFFF.
fn java_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

impl<'a, S: AsRef<str>> Sorted<'a, S> {
    fn of(fields: &'a [(S, S)]) -> Self {
        let mut order = SmallVec::with_capacity(fields.len());
        let mut signature = "";
        let (mut has_unique_key, mut has_zone, mut is_ascii) = (false, false, true);
        for (at, (name, value)) in (0_u64..).zip(fields) {
            let name = name.as_ref();
            if name == SIGNATURE {
                signature = value.as_ref();
                continue;
            }
            if name.starts_with('_') {
                has_unique_key |= name == UNIQUE_KEY_QUERY;
                has_zone |= ZONE_FIELDS.contains(&name);
            }
            is_ascii &= name.is_ascii();
            let front = u128::from(front(name.as_bytes())) << INDEX_BITS;
            order.push(front | u128::from(at));
        }
        order.sort_unstable();
        let same_front =
            |pair: &[u128]| matches!(pair, [one, other] if (one ^ other) >> INDEX_BITS == 0);
        let may_repeat = order.windows(2).any(same_front);
        let name = |element: u128| {
            fields
                .get(index(element))
                .map_or("", |(name, _)| name.as_ref())
        };
        if !is_ascii {
            order.sort_unstable_by(|one, other| {
                let by_name = java_order(name(*one), name(*other));
                by_name.then_with(|| index(*one).cmp(&index(*other)))
            });
        } else if may_repeat {
            order.sort_unstable_by(|one, other| {
                (name(*one), index(*one)).cmp(&(name(*other), index(*other)))
            });
        }
        Self {
            fields,
            order,
            may_repeat: may_repeat || !is_ascii,
            signature,
            has_unique_key,
            has_zone,
        }
    }

    /// The values that are signed; of a field that occurs twice the last.
    #[inline]
    fn each_value(&self, unsigned: Unsigned, mut each: impl FnMut(&'a str)) {
        let field = |at: usize| self.fields.get(index(*self.order.get(at)?));
        let leaves_out =
            unsigned.unique_key && self.has_unique_key || unsigned.zone && self.has_zone;
        if !self.may_repeat && !leaves_out {
            for (_name, value) in (0..self.order.len()).filter_map(field) {
                each(value.as_ref());
            }
            return;
        }
        for at in 0..self.order.len() {
            let Some((name, value)) = field(at) else {
                continue;
            };
            let name = name.as_ref();
            let is_repeated = field(at + 1).is_some_and(|(next, _)| next.as_ref() == name);
            let is_left_out = unsigned.unique_key && name == UNIQUE_KEY_QUERY
                || unsigned.zone && self.has_zone && ZONE_FIELDS.contains(&name);
            if !is_repeated && !is_left_out {
                each(value.as_ref());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn names_are_in_the_order_of_java() {
        // U+FF5E is one code unit above the surrogates of U+1F600, and fewer bytes.
        let fields = [("\u{ff5e}", "2"), ("\u{1f600}", "1"), ("a", "0")];
        let mut text = String::new();
        let every = Unsigned {
            unique_key: false,
            zone: false,
        };
        Sorted::of(&fields).each_value(every, |value| text.push_str(value));
        assert_eq!(text, "012");
    }

    #[test]
    fn long_names_with_one_front_and_names_within_names_are_in_order() {
        let fields = [
            ("consumerGroup", "2"),
            ("consumer", "0"),
            ("consumerA", "1"),
            ("c", ""),
        ];
        let mut text = String::new();
        let every = Unsigned {
            unique_key: false,
            zone: false,
        };
        Sorted::of(&fields).each_value(every, |value| text.push_str(value));
        assert_eq!(text, "012");
    }

    #[test]
    fn a_key_shows_nothing_of_its_secret() {
        assert_eq!(format!("{:?}", Key::of("secret")), "Key");
    }
}
