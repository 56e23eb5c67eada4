//! Reads the JSON that RocketMQ writes: strict JSON but for map keys that are bare integers
//! (`{0:5,1:7}`, fastjson) or bare objects (`{{"queueId":0,"topic":"T"}:5}`). Total: any bytes give a value
//! or an error with its place; depth and size are bounded. Knows no file.

use serde_json::Value;

/// Longest text that is parsed. The largest real one is `consumerOffset.json` of a broker with
/// 100,000 queues and dozens of groups, some 100 MiB; beyond twice that something is wrong.
pub const TEXT_LEN_MAX_BYTES: usize = 256 * 1024 * 1024;
/// Deepest nesting. RocketMQ's files nest 6 deep; `serde_json` itself stops at 128.
pub const DEPTH_MAX: usize = 64;

/// Why a text cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why} at byte {position} (line {line}, column {column})")]
pub struct JsonError {
    /// Byte of the text.
    pub position: usize,
    /// Line, from 1.
    pub line: usize,
    /// Byte of the line, from 1.
    pub column: usize,
    /// What is wrong there.
    pub why: String,
}

/// The value of the text. Bare integer keys and bare object keys become their text, as
/// it is; where a key occurs twice the last one wins.
///
/// # Errors
/// [`JsonError`].
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    if text.len() > TEXT_LEN_MAX_BYTES {
        let why = format!("the text is longer than {TEXT_LEN_MAX_BYTES} bytes");
        return Err(error_at(text, TEXT_LEN_MAX_BYTES, why));
    }
    let strict = quote_bare_keys(text)?;
    serde_json::from_slice(&strict.text).map_err(|error| {
        let at = strict.source_position(&error);
        // serde_json appends its own idea of the place, which is that of the quoted text.
        let full = error.to_string();
        let why = full.split(" at line ").next().unwrap_or(&full).to_owned();
        error_at(text, at.min(text.len()), why)
    })
}

fn error_at(text: &[u8], position: usize, why: String) -> JsonError {
    let before = text.get(..position).unwrap_or(text);
    let line_start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    JsonError {
        position,
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        column: 1 + position - line_start,
        why,
    }
}

/// The text with every bare key in quotes.
struct Strict {
    text: Vec<u8>,
    /// Where quotes and their like were put in, as positions of `text`, rising.
    added: Vec<usize>,
}

impl Strict {
    /// Adds a bare key as a string.
    fn quote(&mut self, key: &[u8]) {
        self.add(b'"');
        for byte in key {
            match byte {
                b'"' | b'\\' => {
                    self.add(b'\\');
                    self.text.push(*byte);
                }
                // White space between the members of a key may not stand in a string.
                b'\n' | b'\r' | b'\t' => self.text.push(b' '),
                other => self.text.push(*other),
            }
        }
        self.add(b'"');
    }

    /// Adds a byte that the source does not have.
    fn add(&mut self, byte: u8) {
        self.added.push(self.text.len());
        self.text.push(byte);
    }

    /// The place of `error` in the text before quoting.
    fn source_position(&self, error: &serde_json::Error) -> usize {
        let mut line_start = 0;
        for _ in 1..error.line() {
            let rest = self.text.get(line_start..).unwrap_or_default();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                break;
            };
            line_start += end + 1;
        }
        let position = line_start + error.column().saturating_sub(1);
        position - self.added.partition_point(|added| *added < position)
    }
}

/// Where the scan is between two tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    Array,
}

fn quote_bare_keys(text: &[u8]) -> Result<Strict, JsonError> {
    let mut strict = Strict {
        text: Vec::with_capacity(text.len() + text.len() / 8),
        added: Vec::new(),
    };
    let mut nesting: Vec<Inside> = Vec::new();
    let mut key_may_start = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let token_end = match byte {
            b'"' => string_end(text, at),
            b'-' | b'0'..=b'9' if key_may_start => {
                let end = integer_end(text, at);
                strict.quote(&text[at..end]);
                key_may_start = false;
                at = end;
                continue;
            }
            b'{' if key_may_start => {
                let end = object_end(text, at)?;
                strict.quote(&text[at..end]);
                key_may_start = false;
                at = end;
                continue;
            }
            _ => at + 1,
        };
        match byte {
            b'{' | b'[' => {
                let inside = if byte == b'{' {
                    Inside::Object
                } else {
                    Inside::Array
                };
                nesting.push(inside);
                key_may_start = inside == Inside::Object;
                if nesting.len() > DEPTH_MAX {
                    return Err(error_at(
                        text,
                        at,
                        format!("nested deeper than {DEPTH_MAX}"),
                    ));
                }
            }
            b'}' | b']' => {
                nesting.pop();
                key_may_start = false;
            }
            b',' => key_may_start = nesting.last() == Some(&Inside::Object),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => key_may_start = false,
        }
        strict.text.extend_from_slice(&text[at..token_end]);
        at = token_end;
    }
    Ok(strict)
}

/// The end of the object that starts at `start`, or of the text when it is not closed.
fn object_end(text: &[u8], start: usize) -> Result<usize, JsonError> {
    let mut depth = 0;
    let mut at = start;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Ok(at);
        }
        if depth > DEPTH_MAX {
            let why = format!("nested deeper than {DEPTH_MAX}");
            return Err(error_at(text, at - 1, why));
        }
    }
    Ok(text.len())
}

/// The end of the string that starts at `start`, or of the text when it is not closed.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The end of the integer that starts at `start` with a digit or a minus sign.
fn integer_end(text: &[u8], start: usize) -> usize {
    let rest = text.get(start + 1..).unwrap_or_default();
    let digits = rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    start + 1 + digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn integer_keys_need_no_quotes() {
        let text =
            b"{\n\t\"offsetTable\":{\"T@g\":{0:10,1 :7\n\t\t,\"2\":-3},\"a\\\"{1:\":[1,2]}\n}";
        let value = parse(text).unwrap();
        let expected =
            json!({"offsetTable": {"T@g": {"0": 10, "1": 7, "2": -3}, "a\"{1:": [1, 2]}});
        assert_eq!(value, expected);
        assert_eq!(
            parse(b"{-1:[3,{5:6}]}").unwrap(),
            json!({"-1": [3, {"5": 6}]})
        );
        assert_eq!(parse(b"[1,2]").unwrap(), json!([1, 2]));
    }

    #[test]
    fn object_keys_become_their_text() {
        let text = br#"{"mqTable":{{"brokerName":"a\"}","queueId":0}:{"x":1},
            {"queueId":1 }:{"x":{2:3}}},"s":"{{"}"#;
        let expected = json!({"mqTable": {
            r#"{"brokerName":"a\"}","queueId":0}"#: {"x": 1},
            r#"{"queueId":1 }"#: {"x": {"2": 3}},
        }, "s": "{{"});
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse(b"{{\n}:1}").unwrap(), json!({"{ }": 1}));
        for broken in [&b"{{:1}"[..], b"{{}", b"{{}1}", b"{{}:1", b"[{{\"}:1}]"] {
            let error = parse(broken).unwrap_err();
            assert!(error.position <= broken.len(), "{error}");
        }
        let error = parse(b"{{\"a\":1}:x}").unwrap_err();
        assert_eq!(error.position, 9);
        let error = parse("{".repeat(1_000).as_bytes()).unwrap_err();
        assert!(error.why.contains("nested"), "{error}");
    }

    #[test]
    fn an_error_names_its_position_in_the_text_that_was_given() {
        let error = parse(b"{1:2,3:4,\n5:x}").unwrap_err();
        assert_eq!((error.position, error.line, error.column), (12, 2, 3));
        let error = parse(b"{1:2,3:").unwrap_err();
        assert!(error.why.contains("EOF"), "{error}");
        assert!(parse(b"").is_err());
        assert!(parse(b"{1.5:2}").is_err());
        assert!(parse(b"{\"a\xff\":2}").is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(deep(DEPTH_MAX).as_bytes()).is_ok());
        let error = parse(deep(1_000_000).as_bytes()).unwrap_err();
        assert_eq!(error.position, DEPTH_MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(error) = parse(&bytes) {
                prop_assert!(error.position <= bytes.len());
            }
        }

        #[test]
        fn json_like_bytes_give_an_answer(text in "[\\[\\]{}0-9:,\"\\\\ \\-a\n]{0,60}") {
            if let Err(error) = parse(text.as_bytes()) {
                prop_assert!(error.position <= text.len());
            }
        }

        #[test]
        fn strict_json_is_read_as_serde_reads_it(
            table in proptest::collection::btree_map("[a-z0-9{},:]{0,6}", any::<i64>(), 0..6)
        ) {
            let text = serde_json::to_vec(&json!({"t": table, "l": [table, 1]})).unwrap();
            prop_assert_eq!(parse(&text).unwrap(), serde_json::from_slice::<Value>(&text).unwrap());
        }
    }
}
