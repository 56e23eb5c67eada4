//! Headers as JSON, written as fastjson writes them and read with the tolerance that old clients
//! need: numbers and booleans as field values, a number as language, numbers in quotes, unknown
//! members, missing members, white space behind.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de::DeserializeSeed};

use crate::error::WireError;
use crate::fields::{FIELDS_MAX, Fields};
use crate::frame::Serialization;
use crate::header::{Head, Header};
use crate::json_usual;
use crate::language::Language;
use crate::special::special_at;

/// Reads a header.
pub(crate) fn decode(header: &[u8]) -> Result<Header<'_>, WireError> {
    json_usual::decode(header).map_or_else(|| decode_any(header), Ok)
}

/// Reads a header however it is written.
pub(crate) fn decode_any(header: &[u8]) -> Result<Header<'_>, WireError> {
    let mut read = Read::default();
    let mut from = serde_json::Deserializer::from_slice(header);
    let ended = from
        .deserialize_map(Members(&mut read))
        .and_then(|()| from.end());
    if let Err(error) = ended {
        if read.is_overfull {
            return Err(WireError::TooManyFields { max: FIELDS_MAX });
        }
        // serde_json appends its own idea of the place; it has fields of its own here.
        let full = error.to_string();
        let why = full.split(" at line ").next().unwrap_or(&full).to_owned();
        return Err(WireError::BadJson {
            why,
            line: error.line(),
            column: error.column(),
        });
    }
    Ok(Header {
        code: read.code,
        language: read.language,
        version: read.version,
        opaque: read.opaque,
        flag: read.flag,
        remark: read.remark,
        fields: read.fields,
    })
}

/// The members read so far; what is missing keeps its default.
#[derive(Default)]
struct Read<'de> {
    code: i32,
    language: Language,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<Cow<'de, str>>,
    fields: Fields<'de>,
    is_overfull: bool,
}

/// The object of the header.
struct Members<'r, 'de>(&'r mut Read<'de>);

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        let read = self.0;
        while let Some(Text(name)) = from.next_key()? {
            match name.as_ref() {
                "code" => read.code = from.next_value::<Number>()?.0,
                "version" => read.version = from.next_value::<Number>()?.0,
                "opaque" => read.opaque = from.next_value::<Number>()?.0,
                "flag" => read.flag = from.next_value::<Number>()?.0,
                "language" => read.language = from.next_value::<LanguageMember>()?.0,
                "remark" => read.remark = from.next_value::<Scalar<'de>>()?.0,
                "extFields" => {
                    read.fields = Fields::new();
                    from.next_value_seed(FieldsMember(read))?;
                }
                _ => {
                    from.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A name: borrowed where it needs no unescaping.
struct Text<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(TextVisitor)
    }
}

/// The value of a field: numbers and booleans become their text, null is none.
struct Scalar<'de>(Option<Cow<'de, str>>);

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string, a number, a boolean or null")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Scalar(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Scalar(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Scalar(Some(Cow::Owned(number.to_string()))))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Scalar(Some(Cow::Owned(number.to_string()))))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Scalar(Some(Cow::Owned(number.to_string()))))
            }

            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Self::Value, E> {
                Ok(Scalar(Some(Cow::Borrowed(if truth {
                    "true"
                } else {
                    "false"
                }))))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Scalar(None))
            }
        }
        from.deserialize_any(ScalarVisitor)
    }
}

/// A member that is a 32-bit number; in quotes, or null for 0, as fastjson takes it too.
struct Number(i32);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a 32-bit number")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
                let unexpected = de::Unexpected::Signed(number);
                let fits = i32::try_from(number);
                fits.map(Number)
                    .map_err(|_| E::invalid_value(unexpected, &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
                let unexpected = de::Unexpected::Unsigned(number);
                let fits = i32::try_from(number);
                fits.map(Number)
                    .map_err(|_| E::invalid_value(unexpected, &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                let number = text.trim().parse();
                number
                    .map(Number)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Number, E> {
                Ok(Number(0))
            }
        }
        from.deserialize_any(NumberVisitor)
    }
}

/// The language: a name, or its number.
struct LanguageMember(Language);

impl<'de> Deserialize<'de> for LanguageMember {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Scalar(member) = Scalar::deserialize(from)?;
        let language = match member {
            None => Language::JAVA,
            Some(text) => match text.parse::<i64>() {
                Ok(number) => Language::numbered(number),
                Err(_) => Language::named(&text),
            },
        };
        Ok(Self(language))
    }
}

/// The fields: an object of scalars, or null.
struct FieldsMember<'r, 'de>(&'r mut Read<'de>);

impl<'de> DeserializeSeed<'de> for FieldsMember<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldsMember<'_, 'de> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object or null")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<(), A::Error> {
        while let Some(Text(name)) = from.next_key()? {
            let Scalar(value) = from.next_value()?;
            let Some(value) = value else {
                continue;
            };
            if self.0.fields.push(name, value).is_err() {
                self.0.is_overfull = true;
                return Err(de::Error::custom("too many fields"));
            }
        }
        Ok(())
    }
}

/// Space for the digits of a number.
#[derive(Default)]
pub(crate) struct Digits([u8; 20]);

impl Digits {
    /// The number as decimal text.
    #[inline]
    pub(crate) fn of(&mut self, value: i64) -> &str {
        let mut rest = value.unsigned_abs();
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        // Digits and a sign are ASCII.
        std::str::from_utf8(&self.0[at..]).unwrap_or_default()
    }
}

fn number(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(Digits::default().of(i64::from(value)).as_bytes());
}

/// Writes a string with its quotes.
#[inline]
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = special_at(rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else {
            break;
        };
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(control >> 4), digit(control & 15)]);
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Begins a header. Members come in the order of the alphabet, as fastjson writes them.
pub(crate) fn begin(out: &mut Vec<u8>, code: i32) {
    out.extend_from_slice(b"{\"code\":");
    number(out, code);
}

/// Writes a field. Values are always strings: the C++ client ignores others, Go fails on them.
#[inline]
pub(crate) fn field(out: &mut Vec<u8>, is_first: bool, name: &str, value: &str) {
    out.extend_from_slice(if is_first { b",\"extFields\":{" } else { b"," });
    string(out, name);
    out.push(b':');
    string(out, value);
}

/// Ends a header.
pub(crate) fn end(out: &mut Vec<u8>, has_fields: bool, head: &Head<'_>) {
    if has_fields {
        out.push(b'}');
    }
    out.extend_from_slice(b",\"flag\":");
    number(out, head.flag);
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(head.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    number(out, head.opaque);
    if let Some(remark) = head.remark {
        out.extend_from_slice(b",\"remark\":");
        string(out, remark);
    }
    debug_assert_eq!(head.serialization, Serialization::Json);
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    number(out, head.version);
    out.push(b'}');
}
