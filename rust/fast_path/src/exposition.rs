//! Rows of figures as Prometheus's text, within a bound of series. Pure; knows no figure by itself: names,
//! labels and heads are given.

use hashbrown::{HashMap, HashSet};

use crate::traffic::OTHER;

/// How one family is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// The lines before its samples.
    pub head: String,
    /// The names of its own labels, in the order of the values of a row.
    pub labels: Vec<String>,
    /// Of a histogram: the ends of its buckets as they are written, without infinity.
    pub bounds: Vec<String>,
    /// Whether what is beyond the bound is shown by its greatest value; otherwise by the sum.
    pub is_age: bool,
}

/// The value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Counts by bucket, the last one without a bound, and the sum of all values.
    Buckets(Vec<u64>, u64),
}

impl Value {
    fn add(&mut self, other: &Self, is_age: bool) {
        match (self, other) {
            (Self::Number(one), Self::Number(two)) => {
                *one = if is_age {
                    (*one).max(*two)
                } else {
                    *one + *two
                };
            }
            (Self::Buckets(counts, sum), Self::Buckets(more, total)) => {
                for (count, more) in counts.iter_mut().zip(more) {
                    *count += more;
                }
                *sum += total;
            }
            // A family has values of one kind.
            _ => {}
        }
    }
}

/// A row: its labels, as they are written, and its value.
pub type Row = (String, Value);

/// Which series of each family are shown: what was shown once stays, so that a counter does not change
/// between its own series and the sum of others.
#[derive(Debug, Default)]
pub struct SeriesBound {
    kept: HashMap<String, HashSet<String>>,
}

impl SeriesBound {
    /// Rows within the bound, and how many are summed up in the last one.
    fn bounded(&mut self, shape: &Shape, rows: Vec<Row>, max: usize) -> (Vec<Row>, usize) {
        if rows.len() <= max / 2 {
            self.kept.remove(&shape.name);
            return (rows, 0);
        }
        let kept = self.kept.entry(shape.name.clone()).or_default();
        {
            let there: HashSet<&str> = rows.iter().map(|row| row.0.as_str()).collect();
            kept.retain(|labels| there.contains(labels.as_str()));
        }
        // One series is left for the sum.
        let free = max.saturating_sub(usize::from(rows.len() > max)).max(1);
        for (labels, _value) in &rows {
            if kept.len() >= free {
                break;
            }
            kept.insert(labels.clone());
        }
        if kept.len() == rows.len() {
            return (rows, 0);
        }
        let (mut shown, others): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| kept.contains(&row.0));
        let left_out = others.len();
        let sum = others.into_iter().reduce(|mut sum, row| {
            sum.1.add(&row.1, shape.is_age);
            sum
        });
        if let Some((_labels, value)) = sum {
            shown.push((labels_text(&shape.labels, |_name| OTHER), value));
        }
        (shown, left_out)
    }

    /// Writes a family; how many of its rows are in the sum of others.
    pub fn write(
        &mut self,
        shape: &Shape,
        common: &str,
        (rows, max): (Vec<Row>, usize),
        out: &mut Vec<u8>,
    ) -> usize {
        let (rows, left_out) = self.bounded(shape, rows, max);
        out.extend_from_slice(shape.head.as_bytes());
        for (labels, value) in &rows {
            write_row(shape, common, labels, value, out);
        }
        left_out
    }
}

fn write_row(shape: &Shape, common: &str, labels: &str, value: &Value, out: &mut Vec<u8>) {
    let name = shape.name.as_bytes();
    let mut line = |suffix: &str, bound: Option<&str>, number: u64| {
        out.extend_from_slice(name);
        out.extend_from_slice(suffix.as_bytes());
        out.push(b'{');
        out.extend_from_slice(common.as_bytes());
        out.extend_from_slice(labels.as_bytes());
        if let Some(bound) = bound {
            out.extend_from_slice(b",le=\"");
            out.extend_from_slice(bound.as_bytes());
            out.push(b'"');
        }
        out.extend_from_slice(b"} ");
        write_number(number, out);
        out.extend_from_slice(b".0\n");
    };
    match value {
        Value::Number(number) => line("", None, *number),
        Value::Buckets(counts, sum) => {
            let ends = shape.bounds.iter().map(String::as_str);
            let mut count = 0;
            for (end, more) in ends.chain(["+Inf"]).zip(counts) {
                count += more;
                line("_bucket", Some(end), count);
            }
            line("_sum", None, *sum);
            line("_count", None, count);
        }
    }
}

/// Writes a number in digits: a formatter takes several times as long, and there is one per line.
fn write_number(number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = number;
    loop {
        let digit = u8::try_from(rest % 10).unwrap_or_default();
        out.push(b'0' + digit);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(start..) {
        digits.reverse();
    }
}

/// Labels as they are written behind those of all samples, each with its comma.
pub fn labels_text<'a>(names: &[String], value_of: impl Fn(usize) -> &'a str) -> String {
    let mut text = String::with_capacity(names.len() * 32);
    for (at, name) in names.iter().enumerate() {
        text.push(',');
        text.push_str(name);
        text.push_str("=\"");
        let value = value_of(at);
        if value
            .bytes()
            .any(|byte| matches!(byte, b'\\' | b'"' | b'\n'))
        {
            for letter in value.chars() {
                match letter {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    other => text.push(other),
                }
            }
        } else {
            text.push_str(value);
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bounds: &[&str]) -> Shape {
        Shape {
            name: "m".to_owned(),
            head: "# TYPE m gauge\n".to_owned(),
            labels: vec!["topic".to_owned()],
            bounds: bounds.iter().map(|end| (*end).to_owned()).collect(),
            is_age: false,
        }
    }

    fn row(shape: &Shape, topic: &str, value: Value) -> Row {
        (labels_text(&shape.labels, |_at| topic), value)
    }

    fn written(
        shape: &Shape,
        rows: Vec<Row>,
        max: usize,
        bound: &mut SeriesBound,
    ) -> (String, usize) {
        let mut out = Vec::new();
        let left_out = bound.write(shape, "c=\"d\"", (rows, max), &mut out);
        (String::from_utf8(out).unwrap(), left_out)
    }

    #[test]
    fn numbers_and_buckets_become_lines() {
        let shape = shape(&["1.0", "5.0"]);
        let rows = vec![
            row(&shape, "a\"b", Value::Number(7)),
            row(&shape, "t", Value::Buckets(vec![1, 0, 2], 19)),
        ];
        let (text, left_out) = written(&shape, rows, 100, &mut SeriesBound::default());
        assert_eq!(left_out, 0);
        assert_eq!(
            text,
            "# TYPE m gauge\n\
             m{c=\"d\",topic=\"a\\\"b\"} 7.0\n\
             m_bucket{c=\"d\",topic=\"t\",le=\"1.0\"} 1.0\n\
             m_bucket{c=\"d\",topic=\"t\",le=\"5.0\"} 1.0\n\
             m_bucket{c=\"d\",topic=\"t\",le=\"+Inf\"} 3.0\n\
             m_sum{c=\"d\",topic=\"t\"} 19.0\n\
             m_count{c=\"d\",topic=\"t\"} 3.0\n"
        );
    }

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            let mut out = b"x".to_vec();
            write_number(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("x{number}"));
        }
    }

    #[test]
    fn series_that_were_shown_stay_and_others_are_summed_up() {
        let (shape, mut bound) = (shape(&[]), SeriesBound::default());
        let rows = |numbers: std::ops::Range<u64>| {
            let each =
                numbers.map(|number| row(&shape, &number.to_string(), Value::Number(number)));
            each.collect::<Vec<_>>()
        };
        assert_eq!(written(&shape, rows(0..4), 8, &mut bound).1, 0);
        let (first, left_out) = written(&shape, rows(0..20), 8, &mut bound);
        assert_eq!((first.lines().count(), left_out), (1 + 8, 13));
        let mut reverse = rows(0..20);
        reverse.reverse();
        let (second, _) = written(&shape, reverse, 8, &mut bound);
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&first), sorted(&second));
        assert!(first.contains("topic=\"_other\"} 169.0"), "{first}");
    }

    #[test]
    fn of_ages_the_greatest_is_shown_for_the_others() {
        let shape = Shape {
            is_age: true,
            ..shape(&[])
        };
        let rows = (0..6).map(|number| row(&shape, &number.to_string(), Value::Number(number)));
        let (text, _) = written(&shape, rows.collect(), 2, &mut SeriesBound::default());
        assert!(text.contains("topic=\"_other\"} 5.0"), "{text}");
    }
}
