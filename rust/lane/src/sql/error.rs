//! Why a text is no expression, and where.

use std::fmt;

/// A text that is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// What is wrong.
    pub what: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

impl SqlError {
    /// What is wrong at a byte of a text.
    pub(super) fn at(text: &str, byte: usize, what: impl Into<String>) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_at = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            what: what.into(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_at..).unwrap_or_default().chars().count() + 1,
        }
    }
}

impl fmt::Display for SqlError {
    /// Begins as the official refusal does (`SelectorParser.parse`).
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, line, column } = self;
        write!(
            out,
            "Invalid MessageSelector. {what} at line {line}, column {column}"
        )
    }
}

impl std::error::Error for SqlError {}
