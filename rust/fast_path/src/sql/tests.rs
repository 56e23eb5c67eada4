//! What the golden vectors do not show: places of refusals, bounds, numbers.

use super::meter::Meter;
use super::numbers::{java_double, java_integer};
use super::{DEPTH_MAX, IN_ITEMS_MAX, NAMES_MAX, Sql, TESTS_MAX, TEXT_BYTES_MAX};

fn properties(pairs: &[(&str, &str)]) -> Vec<u8> {
    let texts = pairs
        .iter()
        .map(|(name, value)| format!("{name}\u{1}{value}\u{2}"));
    texts.collect::<String>().into_bytes()
}

fn matches(text: &str, pairs: &[(&str, &str)]) -> bool {
    Sql::compile(text).unwrap().matches(&properties(pairs))
}

fn refusal(text: &str) -> String {
    Sql::compile(text).unwrap_err().to_string()
}

#[test]
fn a_filter_is_true_or_nothing() {
    let flight = [("dep_delay", "75"), ("origin", "JFK")];
    assert!(matches("dep_delay > 60 AND origin = 'JFK'", &flight));
    assert!(!matches("dep_delay > 75 AND origin = 'JFK'", &flight));
    assert!(!matches("gate > 1", &flight), "null");
    assert!(!matches("NOT (gate > 1)", &flight), "null");
    assert!(!matches("origin > 5 OR dep_delay = 75", &flight), "failed");
    assert!(matches("dep_delay = 75 OR origin > 5", &flight));
    assert!(matches("gate IS NULL", &flight));
    assert!(
        matches("a = '2'", &[("a", "1"), ("a", "2")]),
        "the last one stands"
    );
    assert!(!matches("a = 1", &[]));
}

#[test]
fn what_follows_an_expression_is_not_read() {
    assert!(matches("a = 1 garbage '", &[("a", "1")]));
    assert!(
        Sql::compile("a = 1 '").is_err(),
        "but one token is looked at"
    );
}

#[test]
fn a_refusal_names_its_line_and_column() {
    let cases = [
        (
            "",
            "a property or a constant is expected, but the text ends at line 1, column 1",
        ),
        (
            "a >",
            "a property or a constant is expected, but the text ends at line 1, column 3",
        ),
        (
            "a = 1\nAND b >> 2",
            "a property or a constant is expected, not \">\" at line 2, column 8",
        ),
        ("ä = 1", "no token begins with 'ä' at line 1, column 1"),
        (
            "a = 'ä' AND b = 'x",
            "a text without its closing quote at line 1, column 17",
        ),
        (
            "a > 'x'",
            "this has no order: only numbers and properties have at line 1, column 5",
        ),
        (
            "a BETWEEN 5 AND 4",
            "the low end of BETWEEN is above its high end at line 1, column 11",
        ),
        (
            "a = NULL",
            "NULL cannot be compared: use IS NULL at line 1, column 5",
        ),
        (
            "5",
            "the expression will not result in a truth at line 1, column 1",
        ),
        (
            "a = 0.0",
            "a number with a point must be above 0.0 and finite at line 1, column 5",
        ),
        (
            "a = 9223372036854775808",
            "a number beyond 64 bits at line 1, column 5",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(
            refusal(text),
            format!("Invalid MessageSelector. {wanted}"),
            "{text}"
        );
    }
}

#[test]
fn every_bound_is_a_refusal() {
    let nested = |depth: usize| format!("{}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Sql::compile(&nested(DEPTH_MAX)).is_ok());
    for depth in [DEPTH_MAX + 1, 10_000] {
        assert!(refusal(&nested(depth)).contains("brackets in one another"));
    }
    assert!(refusal(&"NOT ".repeat(10_000)).contains("brackets"));
    assert!(refusal(&format!("a{}", " = 1".repeat(10_000))).contains("operators"));
    assert!(refusal(&format!("a{}", " IS NULL".repeat(1_000))).contains("operators"));
    let long = "a".repeat(TEXT_BYTES_MAX);
    assert!(Sql::compile(&long).is_ok());
    assert!(refusal(&format!("{long}ä")).contains("bytes of text"));
    assert!(refusal(&"x".repeat(1 << 20)).contains("1048576 bytes of text"));
    let chain = |count: usize| vec!["a=1"; count].join(" OR ");
    assert!(Sql::compile(&chain(TESTS_MAX - 1)).is_ok());
    assert!(refusal(&chain(TESTS_MAX)).contains("tests"));
    let items = |count: usize| format!("a IN ({})", vec!["''"; count].join(","));
    assert!(Sql::compile(&items(IN_ITEMS_MAX)).is_ok());
    assert!(refusal(&items(IN_ITEMS_MAX + 1)).contains("IN with more"));
    let names = |count: usize| {
        let each: Vec<String> = (0..count).map(|at| format!("n{at} = '{at}'")).collect();
        each.join(" AND ")
    };
    assert!(refusal(&names(NAMES_MAX + 1)).contains("properties"));
    let all: Vec<(String, String)> = (0..NAMES_MAX)
        .map(|at| (format!("n{at}"), at.to_string()))
        .collect();
    let all: Vec<(&str, &str)> = all.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert!(matches(&names(NAMES_MAX), &all));
    assert!(!matches(&names(NAMES_MAX), all.get(1..).unwrap()));
}

#[test]
fn a_search_in_a_long_text_is_linear() {
    let value = "a".repeat(30_000);
    let search = format!("{}b", "a".repeat(15_000));
    assert!(!matches(
        &format!("v CONTAINS '{search}'"),
        &[("v", &value)]
    ));
}

#[test]
fn whole_numbers_are_read_as_java_reads_them() {
    let cases = [
        ("0", Some(0)),
        ("+7", Some(7)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("\u{FF11}\u{0662}", Some(12)),
        ("", None),
        ("-", None),
        (" 1", None),
        ("1L", None),
        ("1.0", None),
        ("0x10", None),
    ];
    for (text, wanted) in cases {
        assert_eq!(java_integer(text.as_bytes()), wanted, "{text}");
    }
    assert_eq!(java_integer(b"\xFF"), None);
}

#[test]
fn doubles_are_read_as_java_reads_them() {
    let cases = [
        ("1", 1.0),
        (" 1.5f\n", 1.5),
        ("-.5D", -0.5),
        ("5.", 5.0),
        ("1e400", f64::INFINITY),
        ("-1e-400", -0.0),
        ("-Infinity", f64::NEG_INFINITY),
        ("0x1p3", 8.0),
        ("0X.8P+1f", 1.0),
        ("0x1.fffffffffffff8p0", 2.0),
        ("0x1.00000000000008p0", 1.0),
        ("0x1.0000000000000800001p0", 1.000_000_000_000_000_2),
        ("0x1p-1074", 5e-324),
        ("0x1p-1075", 0.0),
        ("0x1.8p-1075", 5e-324),
        ("0x1p1024", f64::INFINITY),
        ("0x1.fffffffffffffp1023", f64::MAX),
        ("0x0p99999999999", 0.0),
        ("0x1fp-4", 1.9375),
    ];
    for (text, wanted) in cases {
        let found = java_double(text.as_bytes()).map(f64::to_bits);
        assert_eq!(found, Some(f64::to_bits(wanted)), "{text}");
    }
    assert!(java_double(b"-NaN").is_some_and(f64::is_nan));
    let none = [
        "",
        " ",
        ".",
        "e5",
        "1e",
        "1e+",
        "nan",
        "inf",
        "NaNd",
        "1__0",
        "1 0",
        "0x10",
        "0xp1",
        "0x.p1",
        "1.2.3",
        "--1",
        "\u{FF11}",
        "0x1.8.8p1",
        "1fd",
        "0x1pf",
    ];
    for text in none {
        assert_eq!(java_double(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn work_counts_the_bytes_that_are_looked_at_and_ends_a_test() {
    let spent = |text: &str, value: &str| {
        let mut meter = Meter::endless();
        let properties = format!("n\u{1}{value}\u{2}");
        let _wanted = Sql::compile(text)
            .unwrap()
            .matches_within(properties.as_bytes(), &mut meter);
        meter.spent()
    };
    let long = "a".repeat(14_000);
    assert!(spent("n = 'x'", "y") < 10);
    let terms = |term: &str| vec![term; 100].join(" OR ");
    assert!(spent(&terms("n CONTAINS 'x'"), &long) > 100 * 3_000);
    assert!(
        spent(&terms("n > 5"), &"1".repeat(14_000)) > 3_000,
        "a number is read"
    );
    assert!(spent(&terms("n STARTSWITH 'x'"), &long) < 2_000);
    let mut meter = Meter::of(1_000);
    let sql = Sql::compile(&terms("n CONTAINS 'x'")).unwrap();
    let properties = [b"n\x01", long.as_bytes(), b"\x02"].concat();
    let _nobody_knows = sql.matches_within(&properties, &mut meter);
    assert!(meter.is_spent(), "{meter:?}");
    assert!(meter.spent() < 1_000 + 4_000, "one search may go beyond");
}
