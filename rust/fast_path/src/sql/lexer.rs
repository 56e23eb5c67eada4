//! Text to tokens, by the rules of the official token manager: the longest match wins, keywords
//! before names, and nothing is looked at before it is asked for.

use super::SqlError;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    End,
    Not,
    And,
    Or,
    Between,
    In,
    True,
    False,
    Null,
    Is,
    Contains,
    StartsWith,
    EndsWith,
    /// Digits, perhaps with an `L`.
    Decimal,
    /// Digits with a point, an exponent, or both.
    Float,
    /// A text in single quotes.
    Text,
    /// The name of a property.
    Name,
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Open,
    Comma,
    Close,
    Plus,
    Minus,
}

/// A token with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) at: usize,
}

const KEYWORDS: [(&str, Kind); 12] = [
    ("NOT", Kind::Not),
    ("AND", Kind::And),
    ("OR", Kind::Or),
    ("BETWEEN", Kind::Between),
    ("IN", Kind::In),
    ("TRUE", Kind::True),
    ("FALSE", Kind::False),
    ("NULL", Kind::Null),
    ("IS", Kind::Is),
    ("CONTAINS", Kind::Contains),
    ("STARTSWITH", Kind::StartsWith),
    ("ENDSWITH", Kind::EndsWith),
];

/// The tokens of a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next token; at the end one of no length.
    pub(super) fn next(&mut self) -> Result<Token<'a>, SqlError> {
        self.skip();
        let (at, rest) = (self.at, self.rest());
        let (kind, len) = match rest.as_bytes() {
            [] => (Kind::End, 0),
            [b'\'', ..] => (Kind::Text, text_len(rest).ok_or_else(|| self.open_text())?),
            [b'0'..=b'9' | b'.', ..] => number(rest).ok_or_else(|| self.unknown())?,
            [b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$', ..] => word(rest),
            other => symbol(other).ok_or_else(|| self.unknown())?,
        };
        self.at += len;
        let text = rest.get(..len).unwrap_or_default();
        Ok(Token { kind, text, at })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn open_text(&self) -> SqlError {
        SqlError::at(self.text, self.at, "a text without its closing quote")
    }

    fn unknown(&self) -> SqlError {
        let shown = self.rest().chars().next().unwrap_or_default();
        SqlError::at(
            self.text,
            self.at,
            format!("no token begins with {shown:?}"),
        )
    }

    /// Passes white space and comments. A comment that does not end is none: its signs are tokens,
    /// also those of a comment of one line at the end of the text.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C);
            let spaces = rest.bytes().take_while(is_space).count();
            let len = if spaces > 0 {
                spaces
            } else if let Some(comment) = rest.strip_prefix("--") {
                comment.find(['\n', '\r']).map_or(0, |end| 2 + end + 1)
            } else if let Some(comment) = rest.strip_prefix("/*") {
                comment.find("*/").map_or(0, |end| 2 + end + 2)
            } else {
                0
            };
            if len == 0 {
                return;
            }
            self.at += len;
        }
    }
}

/// Length of the text with its quotes; two quotes in it are one. `None` when it does not end.
fn text_len(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut at = 1;
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'\'')? + 1;
        if bytes.get(at) != Some(&b'\'') {
            return Some(at);
        }
        at += 1;
    }
}

fn word(rest: &str) -> (Kind, usize) {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let len = rest.bytes().take_while(is_inside).count();
    let word = rest.get(..len).unwrap_or_default();
    let is_it = |known: &&(&str, Kind)| known.0.eq_ignore_ascii_case(word);
    let keyword = KEYWORDS.iter().find(is_it);
    (keyword.map_or(Kind::Name, |known| known.1), len)
}

fn digits(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
}

/// An exponent's length, 0 without one.
fn exponent(bytes: &[u8]) -> usize {
    let signed = match bytes {
        [b'e' | b'E', b'+' | b'-', ..] => 2,
        [b'e' | b'E', ..] => 1,
        _ => return 0,
    };
    match digits(bytes.get(signed..).unwrap_or_default()) {
        0 => 0,
        count => signed + count,
    }
}

fn number(rest: &str) -> Option<(Kind, usize)> {
    let bytes = rest.as_bytes();
    let tail = |from: usize| bytes.get(from..).unwrap_or_default();
    let whole = digits(bytes);
    if tail(whole).first() == Some(&b'.') {
        let fraction = digits(tail(whole + 1));
        if whole + fraction == 0 {
            return None;
        }
        let end = whole + 1 + fraction;
        return Some((Kind::Float, end + exponent(tail(end))));
    }
    let power = exponent(tail(whole));
    if power > 0 {
        return Some((Kind::Float, whole + power));
    }
    // A zero is a number by itself: neither digits nor an L belong to it.
    if bytes.first() == Some(&b'0') {
        return Some((Kind::Decimal, 1));
    }
    let is_long = matches!(tail(whole).first(), Some(b'l' | b'L'));
    Some((Kind::Decimal, whole + usize::from(is_long)))
}

fn symbol(bytes: &[u8]) -> Option<(Kind, usize)> {
    Some(match bytes {
        [b'<', b'>', ..] => (Kind::NotEqual, 2),
        [b'<', b'=', ..] => (Kind::LessEqual, 2),
        [b'>', b'=', ..] => (Kind::GreaterEqual, 2),
        [b'<', ..] => (Kind::Less, 1),
        [b'>', ..] => (Kind::Greater, 1),
        [b'=', ..] => (Kind::Equal, 1),
        [b'(', ..] => (Kind::Open, 1),
        [b',', ..] => (Kind::Comma, 1),
        [b')', ..] => (Kind::Close, 1),
        [b'+', ..] => (Kind::Plus, 1),
        [b'-', ..] => (Kind::Minus, 1),
        _ => return None,
    })
}
