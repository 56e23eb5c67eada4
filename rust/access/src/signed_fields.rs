//! The fields of a header in the order in which their values are signed. Knows no key.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// The field with the signature.
pub const SIGNATURE: &str = "Signature";
/// Not signed by Java's client up to 4.9.3, which signs what its header class declares.
pub(crate) const UNIQUE_KEY_QUERY: &str = "_UNIQUE_KEY_QUERY";
/// Put in by a hook of Java's client 5.x behind the one that signs (`DynamicalExtFieldRPCHook`).
const ZONE_FIELDS: [&str; 2] = ["__ZONE_NAME", "__ZONE_MODE"];

/// Fields that are not part of a signed text although they are in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsigned {
    /// The field that clients up to 4.9.3 do not sign.
    pub(crate) unique_key: bool,
    /// The fields that clients of 5.x put in behind the hook that signs.
    pub(crate) zone: bool,
}

impl Unsigned {
    /// All fields are part of it.
    pub(crate) const NONE: Self = Self {
        unique_key: false,
        zone: false,
    };
}

/// Fields of a usual request: those of more take memory of their own.
const FIELDS_USUAL: usize = 24;
/// Bits of an index in the fields, below the front of a name.
const INDEX_BITS: u32 = 64;

/// The fields of a header in the order in which they are signed.
pub(crate) struct SignedFields<'a, S> {
    fields: &'a [(S, S)],
    /// The front of a name above its index in `fields`, as one number: most names differ in it, so that
    /// numbers are compared and not texts.
    order: SmallVec<[u128; FIELDS_USUAL]>,
    /// Whether a name may be there twice.
    may_repeat: bool,
    /// The value of `Signature`; empty without one.
    pub(crate) signature: &'a str,
    /// Whether the field is there that some clients do not sign.
    pub(crate) has_unique_key: bool,
    /// Whether one of those is there that are put in later.
    pub(crate) has_zone: bool,
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

/// The index in an element of `SignedFields::order`.
#[inline]
fn index(element: u128) -> usize {
    // The lower half has nothing but an index.
    usize::try_from(element & u128::from(u64::MAX)).unwrap_or(usize::MAX)
}

/// The order of Java's `String`: by UTF-16 code units, which is not that of bytes beyond U+FFFF.
fn java_order(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

impl<'a, S: AsRef<str>> SignedFields<'a, S> {
    pub(crate) fn of(fields: &'a [(S, S)]) -> Self {
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
    pub(crate) fn each_value(&self, unsigned: Unsigned, mut each: impl FnMut(&'a str)) {
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

    #[test]
    fn names_are_in_the_order_of_java() {
        // U+FF5E is one code unit above the surrogates of U+1F600, and fewer bytes.
        let fields = [("\u{ff5e}", "2"), ("\u{1f600}", "1"), ("a", "0")];
        let mut text = String::new();
        SignedFields::of(&fields).each_value(Unsigned::NONE, |value| text.push_str(value));
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
        SignedFields::of(&fields).each_value(Unsigned::NONE, |value| text.push_str(value));
        assert_eq!(text, "012");
    }
}
