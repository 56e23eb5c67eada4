//! Compiled expressions against a naive evaluator that walks the expression as it was made up, with
//! properties in a map: the same answer for every text.

use std::collections::HashMap;

use mqcore_fast_path::sql::Sql;
use proptest::prelude::*;

/// An expression as people write it.
#[derive(Debug, Clone)]
enum Shape {
    Compare(&'static str, &'static str, i64),
    Equal(&'static str, &'static str, bool),
    Null(&'static str, bool),
    Between(&'static str, i64, i64, bool),
    In(&'static str, Vec<&'static str>, bool),
    Holds(&'static str, &'static str, &'static str, bool),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

const NAMES: [&str; 3] = ["a", "b", "_c$"];
const VALUES: [&str; 10] = [
    "0",
    "1",
    "2",
    "-7",
    "x",
    "it's",
    "1.5",
    "true",
    "2147483648",
    "ä",
];

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Shape {
    fn text(&self) -> String {
        let not = |is_negated: &bool| if *is_negated { "NOT " } else { "" };
        match self {
            Self::Compare(name, operator, number) => format!("{name}{operator}{number}"),
            Self::Equal(name, text, true) => format!("{name} <> {}", quoted(text)),
            Self::Equal(name, text, false) => format!("{name}={}", quoted(text)),
            Self::Null(name, true) => format!("{name} is not null"),
            Self::Null(name, false) => format!("{name} IS NULL"),
            Self::Between(name, low, high, is_negated) => {
                format!("{name} {}BETWEEN {low} AND {high}", not(is_negated))
            }
            Self::In(name, items, is_negated) => {
                let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
                format!("{name} {}IN ({})", not(is_negated), items.join(" , "))
            }
            Self::Holds(name, word, text, is_negated) => {
                format!("{name} {}{word} {}", not(is_negated), quoted(text))
            }
            Self::Not(shape) => format!("NOT({})", shape.text()),
            Self::And(left, right) => format!("({}) AND ({})", left.text(), right.text()),
            Self::Or(left, right) => format!("({}) Or({})", left.text(), right.text()),
        }
    }

    /// True, false or null; an error where the official broker throws.
    fn value(&self, of: &HashMap<&str, &str>) -> Result<Option<bool>, ()> {
        let ordered = |name: &str, operator: &str, number: i64| -> Result<Option<bool>, ()> {
            let Some(text) = of.get(name) else {
                return Ok(None);
            };
            let is_int = i32::try_from(number).is_ok();
            let found: i64 = if is_int {
                text.parse::<i32>().map_err(|_| ())?.into()
            } else {
                text.parse().map_err(|_| ())?
            };
            Ok(Some(match operator {
                ">" => found > number,
                ">=" => found >= number,
                "<" => found < number,
                "<=" => found <= number,
                "=" => found == number,
                _ => found != number,
            }))
        };
        Ok(match self {
            Self::Compare(name, operator, number) => ordered(name, operator, *number)?,
            Self::Equal(name, text, is_negated) => of.get(name).map(|v| (v == text) != *is_negated),
            Self::Null(name, is_negated) => Some(of.contains_key(name) == *is_negated),
            Self::Between(name, low, high, false) => {
                let first = ordered(name, ">=", *low)?;
                if first == Some(false) {
                    return Ok(first);
                }
                both(first, ordered(name, "<=", *high)?)
            }
            Self::Between(name, low, high, true) => {
                let first = ordered(name, "<", *low)?;
                if first == Some(true) {
                    return Ok(first);
                }
                either(first, ordered(name, ">", *high)?)
            }
            Self::In(name, items, is_negated) => {
                of.get(name).map(|v| items.contains(v) != *is_negated)
            }
            Self::Holds(name, word, text, is_negated) => Some(match of.get(name) {
                None => false,
                Some(_) if text.is_empty() => false,
                Some(value) => {
                    let found = match *word {
                        "CONTAINS" => value.contains(text),
                        "STARTSWITH" => value.starts_with(text),
                        _ => value.ends_with(text),
                    };
                    found != *is_negated
                }
            }),
            Self::Not(shape) => shape.value(of)?.map(|truth| !truth),
            Self::And(left, right) => {
                let left = left.value(of)?;
                if left == Some(false) {
                    return Ok(left);
                }
                both(left, right.value(of)?)
            }
            Self::Or(left, right) => {
                let left = left.value(of)?;
                if left == Some(true) {
                    return Ok(left);
                }
                either(left, right.value(of)?)
            }
        })
    }
}

fn both(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    both(left.map(|truth| !truth), right.map(|truth| !truth)).map(|truth| !truth)
}

fn shape() -> impl Strategy<Value = Shape> {
    let name = || proptest::sample::select(&NAMES[..]);
    let value = || proptest::sample::select(&VALUES[..]);
    let number = || prop_oneof![-8..8_i64, Just(2_147_483_648)];
    let operators = ["=", "<>", ">", ">=", "<", "<="];
    let words = ["CONTAINS", "STARTSWITH", "endswith"];
    let leaf = prop_oneof![
        (
            name(),
            proptest::sample::select(operators.to_vec()),
            0..5_i64
        )
            .prop_map(|(n, o, v)| Shape::Compare(n, o, v)),
        (name(), value(), any::<bool>()).prop_map(|(n, v, is)| Shape::Equal(n, v, is)),
        (name(), any::<bool>()).prop_map(|(n, is)| Shape::Null(n, is)),
        (name(), 0..5_i64, number(), any::<bool>())
            .prop_map(|(n, low, high, is)| { Shape::Between(n, low, high.max(low), is) }),
        (
            name(),
            proptest::collection::vec(value(), 1..7),
            any::<bool>()
        )
            .prop_map(|(n, items, is)| Shape::In(n, items, is)),
        (
            name(),
            proptest::sample::select(words.to_vec()),
            prop_oneof![value(), Just("")],
            any::<bool>()
        )
            .prop_map(|(n, w, v, is)| Shape::Holds(n, w, v, is)),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|shape| Shape::Not(Box::new(shape))),
            (inner.clone(), inner.clone()).prop_map(|(l, r)| Shape::And(Box::new(l), Box::new(r))),
            (inner.clone(), inner).prop_map(|(l, r)| Shape::Or(Box::new(l), Box::new(r))),
        ]
    })
}

fn properties() -> impl Strategy<Value = HashMap<&'static str, &'static str>> {
    let pair = (
        proptest::sample::select(&NAMES[..]),
        proptest::sample::select(&VALUES[..]),
    );
    proptest::collection::hash_map(pair.0, pair.1, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]

    #[test]
    fn a_compiled_expression_agrees_with_a_naive_one(shape in shape(), of in properties()) {
        let text = shape.text();
        let sql = Sql::compile(&text).unwrap();
        let pairs: String = of.iter().map(|(n, v)| format!("{n}\u{1}{v}\u{2}")).collect();
        let wanted = shape.value(&of) == Ok(Some(true));
        prop_assert_eq!(sql.matches(pairs.as_bytes()), wanted, "{}", text);
    }

    #[test]
    fn any_text_is_compiled_or_refused(text in "\\PC{0,60}", words in "([a-c'(),.0-9<>= -]|AND|OR|NOT|IN|IS|NULL|BETWEEN| ){0,40}") {
        for each in [text, words] {
            if let Ok(sql) = Sql::compile(&each) {
                let _any = sql.matches(b"a\x011\x02b\x01x\x02");
            }
        }
    }
}
