//! The properties of a row as a record carries them: `name 0x01 value 0x02`, repeated.
//!
//! Names of the system in a row's own properties are not taken: whoever writes rows that were read
//! would send one message's ids with another. Tags, keys and group are, where no column has them.
#![deny(clippy::indexing_slicing)]

use std::collections::HashSet;

use mqcore_record::layout::PROPERTIES_LEN_MAX;
use mqcore_record::properties::{
    DELAY, KEYS, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, TAGS, TIMER_DELIVER_MS, UNIQ_KEY,
};

use crate::error::RowFault;

/// What orders messages: those of one key go to one queue (`MessageConst.PROPERTY_SHARDING_KEY`).
pub const SHARDING_KEY: &str = "__SHARDINGKEY";
/// The number of a row among those of its task.
pub const ROW_MARK: &str = "SPARK_ROW";

/// What a row has beside its body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Labels<'a> {
    /// Its tag.
    pub tags: Option<&'a [u8]>,
    /// Its keys, with spaces between.
    pub keys: Option<&'a [u8]>,
    /// What orders it.
    pub group: Option<&'a [u8]>,
    /// The level of delay; 0 for none.
    pub delay_level: i64,
    /// When it is let go, in ms since 1970.
    pub deliver_at_ms: Option<i64>,
}

/// Writes the properties of rows.
#[derive(Debug, Clone, Default)]
pub struct TextWriter {
    system_names: HashSet<Vec<u8>>,
    text: Vec<u8>,
}

impl TextWriter {
    /// Leaves these names out of rows' own properties.
    #[must_use]
    pub fn new(system_names: impl IntoIterator<Item = String>) -> Self {
        Self {
            system_names: system_names.into_iter().map(String::into_bytes).collect(),
            text: Vec::new(),
        }
    }

    /// Begins a row.
    pub fn begin(&mut self) {
        self.text.clear();
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Takes one of the row's own properties. Empty values are left out, as every reader drops
    /// them.
    ///
    /// # Errors
    /// [`RowFault::BadProperty`].
    pub fn own(&mut self, name: &'_ [u8], value: &'_ [u8]) -> Result<(), RowFault> {
        if value.is_empty() || self.system_names.contains(name) {
            return Ok(());
        }
        if name.trim_ascii().is_empty() {
            return Err(bad(name, "its name is blank"));
        }
        self.pair(name, value)
    }

    /// Takes the values of the row's columns.
    ///
    /// # Errors
    /// [`RowFault::BadProperty`], [`RowFault::TwoDelays`], [`RowFault::BadDelay`].
    pub fn labels(&mut self, labels: &Labels<'_>) -> Result<(), RowFault> {
        for (name, value) in [
            (TAGS, labels.tags),
            (KEYS, labels.keys),
            (SHARDING_KEY, labels.group),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                self.pair(name.as_bytes(), value)?;
            }
        }
        if labels.delay_level < 0 {
            let level = labels.delay_level;
            return Err(RowFault::BadDelay { level });
        }
        if labels.delay_level > 0 {
            if labels.deliver_at_ms.is_some() {
                return Err(RowFault::TwoDelays);
            }
            self.number(DELAY, labels.delay_level.unsigned_abs());
        }
        if let Some(at_ms) = labels.deliver_at_ms {
            self.number(TIMER_DELIVER_MS, at_ms.max(0).unsigned_abs());
        }
        Ok(())
    }

    /// Puts the unique id, and the row's number where it is marked; checks the length.
    ///
    /// # Errors
    /// [`RowFault::PropertiesTooLong`].
    pub fn end(
        &mut self,
        lead: &str,
        number: u16,
        mark: Option<u64>,
        shared_len_bytes: usize,
    ) -> Result<(), RowFault> {
        self.text.extend_from_slice(UNIQ_KEY.as_bytes());
        self.text.push(NAME_VALUE_SEPARATOR);
        self.text.extend_from_slice(lead.as_bytes());
        self.text
            .extend(number.to_be_bytes().iter().flat_map(|byte| {
                [byte >> 4, byte & 15].map(|digit| {
                    if digit < 10 {
                        b'0' + digit
                    } else {
                        b'A' + digit - 10
                    }
                })
            }));
        self.text.push(PROPERTY_SEPARATOR);
        if let Some(row) = mark {
            self.number(ROW_MARK, row);
        }
        let len = self.text.len() + shared_len_bytes;
        if len > PROPERTIES_LEN_MAX {
            let max = PROPERTIES_LEN_MAX;
            return Err(RowFault::PropertiesTooLong { len, max });
        }
        Ok(())
    }

    fn pair(&mut self, name: &[u8], value: &[u8]) -> Result<(), RowFault> {
        if has_separator(name) {
            return Err(bad(name, "its name holds a separator (0x01 or 0x02)"));
        }
        if has_separator(value) {
            return Err(bad(name, "its value holds a separator (0x01 or 0x02)"));
        }
        self.text.extend_from_slice(name);
        self.text.push(NAME_VALUE_SEPARATOR);
        self.text.extend_from_slice(value);
        self.text.push(PROPERTY_SEPARATOR);
        Ok(())
    }

    fn number(&mut self, name: &str, mut value: u64) {
        self.text.extend_from_slice(name.as_bytes());
        self.text.push(NAME_VALUE_SEPARATOR);
        let start = self.text.len();
        loop {
            self.text.push(b'0' + (value % 10) as u8);
            value /= 10;
            if value == 0 {
                break;
            }
        }
        if let Some(digits) = self.text.get_mut(start..) {
            digits.reverse();
        }
        self.text.push(PROPERTY_SEPARATOR);
    }
}

fn bad(name: &[u8], why: &'static str) -> RowFault {
    RowFault::BadProperty {
        name: String::from_utf8_lossy(name).into_owned(),
        why,
    }
}

fn has_separator(text: &[u8]) -> bool {
    // No early exit: it is never taken, and without it the compiler looks at many at once.
    text.iter().fold(false, |found, byte| {
        found | (*byte == NAME_VALUE_SEPARATOR) | (*byte == PROPERTY_SEPARATOR)
    })
}

#[cfg(test)]
mod tests {
    use mqcore_record::properties::pairs;
    use proptest::prelude::*;

    use super::*;

    fn writer() -> TextWriter {
        TextWriter::new(["UNIQ_KEY".to_owned(), "TAGS".to_owned()])
    }

    fn read(text: &[u8]) -> Vec<(String, String)> {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        pairs(text)
            .map(|(name, value)| (shown(name), shown(value)))
            .collect()
    }

    #[test]
    fn a_row_carries_its_own_properties_then_the_columns_then_the_marks() {
        let mut writer = writer();
        writer.own(b"colour", b"red").unwrap();
        writer.own(b"UNIQ_KEY", b"of another message").unwrap();
        writer.own(b"empty", b"").unwrap();
        let labels = Labels {
            tags: Some(b"a"),
            keys: Some(b"k1 k2"),
            group: Some(b""),
            delay_level: 3,
            deliver_at_ms: None,
        };
        writer.labels(&labels).unwrap();
        writer.end("LEAD", 0x00AF, Some(1_234), 0).unwrap();
        let want = [
            ("colour", "red"),
            ("TAGS", "a"),
            ("KEYS", "k1 k2"),
            ("DELAY", "3"),
            ("UNIQ_KEY", "LEAD00AF"),
            ("SPARK_ROW", "1234"),
        ];
        assert_eq!(
            read(writer.text()),
            want.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn what_a_record_cannot_carry_is_refused() {
        let bad = |name: &[u8], value: &[u8]| writer().own(name, value).unwrap_err().to_string();
        assert_eq!(bad(b" ", b"v"), "property \" \": its name is blank");
        assert!(bad(b"a\x01", b"v").contains("its name holds a separator"));
        assert!(bad(b"a", b"\x02").contains("its value holds a separator"));
        let labels = |delay_level, deliver_at_ms| Labels {
            delay_level,
            deliver_at_ms,
            ..Labels::default()
        };
        assert_eq!(
            writer().labels(&labels(-1, None)),
            Err(RowFault::BadDelay { level: -1 })
        );
        assert_eq!(
            writer().labels(&labels(1, Some(5))),
            Err(RowFault::TwoDelays)
        );
        let tags = Labels {
            tags: Some(b"a\x02b"),
            ..Labels::default()
        };
        assert!(writer().labels(&tags).is_err());
    }

    #[test]
    fn the_length_is_that_of_the_whole_record() {
        let mut writer = writer();
        writer.own(b"a", &[b'x'; 32_700]).unwrap();
        let before = writer.text().len();
        writer.end("", 0, None, 0).unwrap();
        let own = writer.text().len() - before;
        writer.begin();
        writer.own(b"a", &[b'x'; 32_700]).unwrap();
        let left = 32_767 - before - own;
        assert!(writer.clone().end("", 0, None, left).is_ok());
        let max = 32_767;
        assert_eq!(
            writer.end("", 0, None, left + 1),
            Err(RowFault::PropertiesTooLong { len: max + 1, max })
        );
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_rust_shows_them(value in any::<u64>()) {
            let mut writer = writer();
            writer.number("n", value);
            prop_assert_eq!(read(writer.text()), vec![("n".to_owned(), value.to_string())]);
        }
    }
}
