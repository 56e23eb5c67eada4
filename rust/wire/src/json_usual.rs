//! Reads the JSON headers that the usual clients write: one object without white space, numbers as
//! numbers, values as strings, nothing unknown. Whatever is not like that is none here and left to
//! the tolerant reader, which gives the same for everything that this one reads, only later.

use std::borrow::Cow;

use crate::fields::Fields;
use crate::header::Header;
use crate::language::Language;
use crate::special::special_at;

/// Digits of a number that certainly fits 64 bits.
const DIGITS_MAX: usize = 11;

/// A place in a header.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

/// Reads a header; none where it is not written in the usual way.
pub(crate) fn decode(header: &[u8]) -> Option<Header<'_>> {
    let text = std::str::from_utf8(header).ok()?;
    let mut walk = Walk { text, at: 0 };
    let mut out = Header {
        code: 0,
        language: Language::JAVA,
        version: 0,
        opaque: 0,
        flag: 0,
        remark: None,
        fields: Fields::new(),
    };
    let mut has_fields = false;
    walk.byte(b'{')?;
    loop {
        let name = walk.plain()?;
        walk.byte(b':')?;
        match name {
            "code" => out.code = walk.number()?,
            "flag" => out.flag = walk.number()?,
            "opaque" => out.opaque = walk.number()?,
            "version" => out.version = walk.number()?,
            // A number in quotes is a language too.
            "language" => {
                let name = walk.plain()?;
                let is_name = name.starts_with(|first: char| first.is_ascii_uppercase());
                out.language = is_name.then(|| Language::named(name))?;
            }
            "remark" => out.remark = Some(walk.string()?),
            "serializeTypeCurrentRPC" => {
                walk.plain()?;
            }
            // Two of them are not usual.
            "extFields" if !has_fields => {
                has_fields = true;
                walk.fields(&mut out.fields)?;
            }
            _ => return None,
        }
        match walk.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    let rest = header.get(walk.at..)?;
    // The C++ client ends its text with a newline.
    rest.iter().all(|byte| *byte == b'\n').then_some(out)
}

impl<'a> Walk<'a> {
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let byte = self.text.as_bytes().get(self.at)?;
        self.at += 1;
        Some(*byte)
    }

    #[inline]
    fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// Goes to the end of a string's plain bytes; returns where it is and the byte there: a quote
    /// or a backslash.
    #[inline]
    fn to_special(&self, from: usize) -> Option<(usize, u8)> {
        let rest = self.text.as_bytes().get(from..)?;
        let len = special_at(rest)?;
        let byte = *rest.get(len)?;
        // No JSON string has a control character.
        (byte >= 0x20).then_some((from + len, byte))
    }

    /// A string without escapes.
    #[inline]
    fn plain(&mut self) -> Option<&'a str> {
        self.byte(b'"')?;
        let (end, byte) = self.to_special(self.at)?;
        if byte != b'"' {
            return None;
        }
        let plain = self.text.get(self.at..end)?;
        self.at = end + 1;
        Some(plain)
    }

    /// A string; with escapes it is a copy.
    #[inline]
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.byte(b'"')?;
        let (end, byte) = self.to_special(self.at)?;
        let plain = self.text.get(self.at..end)?;
        self.at = end + 1;
        if byte == b'"' {
            return Some(Cow::Borrowed(plain));
        }
        self.unescaped(plain).map(Cow::Owned)
    }

    /// The rest of a string behind its first backslash, with what is before it.
    fn unescaped(&mut self, before: &str) -> Option<String> {
        // Properties come with an escape for each separator: they shrink by a fifth.
        let mut out = String::with_capacity(before.len() + 256);
        out.push_str(before);
        loop {
            out.push(self.escape()?);
            let (end, byte) = self.to_special(self.at)?;
            out.push_str(self.text.get(self.at..end)?);
            self.at = end + 1;
            if byte == b'"' {
                return Some(out);
            }
        }
    }

    /// What an escape represents, behind its backslash. Halves of pairs are not usual.
    fn escape(&mut self) -> Option<char> {
        Some(match self.next()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = 0;
                for _ in 0..4 {
                    let digit = char::from(self.next()?).to_digit(16)?;
                    code = code << 4 | digit;
                }
                char::from_u32(code)?
            }
            _ => return None,
        })
    }

    #[inline]
    fn number(&mut self) -> Option<i32> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let is_negative = rest.first() == Some(&b'-');
        let digits = rest.get(usize::from(is_negative)..)?;
        let mut value = 0_i64;
        let mut len = 0;
        for byte in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
            len += 1;
            if len > DIGITS_MAX {
                return None;
            }
            value = value * 10 + i64::from(byte - b'0');
        }
        // Zero is a number by itself: `01` is no JSON, and `-0` no integer.
        let is_zero = digits.first() == Some(&b'0');
        if len == 0 || (is_zero && (len > 1 || is_negative)) {
            return None;
        }
        self.at += usize::from(is_negative) + len;
        i32::try_from(if is_negative { -value } else { value }).ok()
    }

    fn fields(&mut self, into: &mut Fields<'a>) -> Option<()> {
        self.byte(b'{')?;
        if self.text.as_bytes().get(self.at) == Some(&b'}') {
            self.at += 1;
            return Some(());
        }
        loop {
            let name = self.plain()?;
            self.byte(b':')?;
            let value = self.string()?;
            into.push(Cow::Borrowed(name), value).ok()?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json;

    const ROUTE: &str = r#"{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}"#;

    fn is_read_alike(header: &str) -> bool {
        decode(header.as_bytes())
            .is_some_and(|usual| json::decode_any(header.as_bytes()) == Ok(usual))
    }

    #[test]
    fn the_headers_of_the_clients_are_usual() {
        for header in [
            ROUTE,
            // Go: the order of its structure, a remark that is empty.
            r#"{"code":310,"language":"GO","version":317,"opaque":-1,"flag":2,"remark":"","extFields":{"i":"TAGS\u0001A\u0002\"\\\/\n","e":"-1"}}"#,
            r#"{"code":0,"extFields":{},"flag":1,"language":"CPP","opaque":0,"version":333}
"#,
            r#"{"code":17,"remark":"No topic \u00e4 ä ✓"}"#,
        ] {
            assert!(is_read_alike(header), "{header}");
        }
    }

    #[test]
    fn what_is_unusual_is_left() {
        for header in [
            "{}",
            r#"{"code":1.0}"#,
            r#"{"code":01}"#,
            r#"{"code":-0}"#,
            r#"{"code":-}"#,
            r#"{"code":2147483648}"#,
            r#"{"code":99999999999999999999}"#,
            r#"{"code":"1"}"#,
            r#"{"code":1,}"#,
            r#"{"code":1}x"#,
            r#"{"code":1"#,
            r#"{"language":1}"#,
            r#"{"language":"1"}"#,
            r#"{"language":"+1"}"#,
            r#"{"extFields":null}"#,
            r#"{"extFields":{"queueId":3}}"#,
            r#"{"extFields":{"a":"1"},"extFields":{"b":"1"}}"#,
            r#"{"extFields":{"a":"\ud83d\ude00"}}"#,
            r#"{"extFields":{"a":"\x"}}"#,
            r#"{"other":1}"#,
            "{\"remark\":\"a\u{1}\"}",
            r#"{"remark":"\u00zz"}"#,
        ] {
            assert_eq!(decode(header.as_bytes()), None, "{header}");
        }
        assert_eq!(decode(b"{\"remark\":\"\xff\"}"), None);
    }

    proptest! {
        /// Whatever this reader reads the tolerant one reads alike; damaged at one place.
        #[test]
        fn both_readers_agree(
            at in 0..ROUTE.len(),
            cut in 0..3_usize,
            put in "[ -~\n\u{1}ä]{0,2}|\\\\u00[0-9a-f]{2}|null|[0-9]{1,12}|\"[a-z]\":",
        ) {
            let mut header = ROUTE.to_owned();
            let end = (at + cut).min(header.len());
            header.replace_range(at..end, &put);
            if decode(header.as_bytes()).is_some() {
                prop_assert!(is_read_alike(&header), "{}", header);
            }
        }

        #[test]
        fn both_readers_agree_on_values(value in "\\PC{0,8}|(\\\\[nrtbf/u\"\\\\]|0041|[a-z\u{1}]){0,6}") {
            let header = format!("{{\"extFields\":{{\"a\":\"{value}\"}},\"remark\":\"{value}\"}}");
            if decode(header.as_bytes()).is_some() {
                prop_assert!(is_read_alike(&header), "{}", header);
            }
        }
    }
}
