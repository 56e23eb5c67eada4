//! Why a text is no expression, and where.

use std::fmt;

/// Columns that a tab goes on to, as in the official parser.
const TAB_COLUMNS: usize = 8;

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
    /// What is wrong at a byte of a text; at its end the place is that of the last character.
    pub(super) fn at(text: &str, byte: usize, what: impl Into<String>) -> Self {
        let (line, column) = line_and_column(text, byte);
        Self {
            what: what.into(),
            line,
            column,
        }
    }
}

/// Line and column as the official parser counts them (`SimpleCharStream`): in units of UTF-16, tabs
/// to their stops, and any of the usual ends of a line.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let (mut line, mut column) = (1, 0);
    let mut before = None;
    for (at, letter) in text.char_indices() {
        let is_new_line = before == Some('\n') || (before == Some('\r') && letter != '\n');
        (line, column) = if is_new_line {
            (line + 1, 1)
        } else {
            (line, column + 1)
        };
        if letter == '\t' {
            let passed = column - 1;
            column = passed + TAB_COLUMNS - passed % TAB_COLUMNS;
        }
        if at >= byte {
            break;
        }
        column += letter.len_utf16() - 1;
        before = Some(letter);
    }
    (line, column.max(1))
}

impl fmt::Display for SqlError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, line, column } = self;
        write!(
            out,
            "Invalid MessageSelector. {what} at line {line}, column {column}"
        )
    }
}

impl std::error::Error for SqlError {}
