//! SQL92 filters: an expression over the properties of a message, compiled once, tested per record.
//! Pure functions of bytes; knows no record, no group and no store.
//!
//! | module | what |
//! |---|---|
//! | `lexer` | text to tokens, one at a time |
//! | `parser` | tokens to a tree; every refusal names its place |
//! | `tree` | the tree, and what it may consist of |
//! | `evaluate` | a tree over values: three-valued, or failed |
//! | `meter` | what that may cost, in tests and bytes looked at |
//! | `values` | values, and how two of them compare |
//! | `numbers` | texts as numbers, as Java reads them |
//! | `error` | why a text is none, and where |
//!
//! Grammar, types and null logic are those of the official `SelectorParser` and of its
//! `expression` classes (5.3); golden vectors of the official jar are the reference. Two things
//! follow from it that surprise: what follows a whole expression is not read (`a = 1 garbage` is
//! `a = 1`), and an evaluation that fails (`a > 5` with `a` = `x`) is no match, whatever the other
//! side of an OR yields.
#![deny(clippy::indexing_slicing)]

mod error;
mod evaluate;
mod lexer;
mod meter;
mod numbers;
mod parser;
mod tree;
mod values;

use mqcore_record::properties::pairs;

pub use error::SqlError;
pub use meter::Meter;
use tree::Test;

/// The kind of expression that is compiled here, as subscriptions name it.
pub const SQL92: &str = "SQL92";
/// Bytes of a text at the most. The longest that people write have some kilobytes; a text is kept
/// once per group and topic.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Brackets, signs and NOTs inside of one another at the most, and operators that take each other's
/// result: both become depth of the stack.
pub const DEPTH_MAX: usize = 128;
/// Tests in one text at the most: each message may have to pass all of them.
pub const TESTS_MAX: usize = 4_096;
/// Elements of one IN at the most; they are searched, not walked.
pub const IN_ITEMS_MAX: usize = 10_000;
/// Properties that one text may name: a place on the stack is kept for each.
pub const NAMES_MAX: usize = 256;
/// Up to so many names are compared one by one, which is faster than a search.
const NAMES_FEW: usize = 8;
/// Names that are compared in one unit of work: most differ in their length already.
const LOOKS_PER_UNIT: usize = 4;

/// The values of the named properties of one message, by slot.
type Slots<'a> = [Option<&'a [u8]>];

/// A compiled expression.
#[derive(Debug)]
pub struct Sql {
    text: Box<str>,
    test: Test,
    /// Names of properties with their slots, sorted.
    names: Box<[(Box<[u8]>, usize)]>,
    cost: usize,
}

impl PartialEq for Sql {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Sql {}

impl Sql {
    /// Compiles a text.
    ///
    /// # Errors
    /// What is wrong with it, and where; also beyond the bounds of this module.
    pub fn compile(text: &str) -> Result<Self, SqlError> {
        let parsed = parser::parse(text)?;
        let mut names: Vec<_> = parsed.names.into_iter().zip(0..).collect();
        names.sort_unstable();
        Ok(Self {
            text: text.into(),
            test: parsed.test,
            names: names.into(),
            cost: parsed.tests_count,
        })
    }

    /// The text it was compiled from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How much a test of one message may cost, in single tests.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether a message with these properties (as text) is wanted: an expression that is neither
    /// true nor false, or that cannot be evaluated, wants nothing.
    #[must_use]
    pub fn matches(&self, properties: &[u8]) -> bool {
        self.matches_within(properties, &mut Meter::endless())
    }

    /// As [`Sql::matches`]. When the work of the meter is spent the result means nothing.
    #[inline]
    #[must_use]
    pub fn matches_within(&self, properties: &[u8], meter: &mut Meter) -> bool {
        meter.compare(properties.len());
        if self.names.len() <= NAMES_FEW {
            let mut slots = [None; NAMES_FEW];
            let mut looks = 0;
            for (name, value) in pairs(properties) {
                looks += 1;
                for (wanted, slot) in &self.names {
                    if **wanted == *name {
                        put(&mut slots, *slot, value);
                    }
                }
            }
            // A pair is split off, and its name compared with each that is wanted.
            meter.spend(looks * (1 + self.names.len()) / LOOKS_PER_UNIT);
            return self.test.evaluate(&slots, meter) == Ok(Some(true));
        }
        self.matches_many(properties, meter)
    }

    fn matches_many(&self, properties: &[u8], meter: &mut Meter) -> bool {
        let mut slots = [None; NAMES_MAX];
        let search = self.names.len().ilog2() as usize;
        for (name, value) in pairs(properties) {
            meter.spend(search);
            let found = self
                .names
                .binary_search_by(|(known, _)| (**known).cmp(name));
            if let Some((_name, slot)) = found.ok().and_then(|at| self.names.get(at)) {
                put(&mut slots, *slot, value);
            }
        }
        self.test.evaluate(&slots, meter) == Ok(Some(true))
    }
}

/// Of several values of a name the last one counts, as in Java's map.
fn put<'a>(slots: &mut Slots<'a>, slot: usize, value: &'a [u8]) {
    if let Some(value_slot) = slots.get_mut(slot) {
        *value_slot = Some(value);
    }
}

#[cfg(test)]
mod tests;
