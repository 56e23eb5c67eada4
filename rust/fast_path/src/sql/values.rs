//! Values of an expression, and how two of them compare (`ComparisonExpression.__compare`).

use std::cmp::Ordering;

use super::numbers::{java_double, java_integer};

/// An evaluation that cannot be: in the official broker an exception, which ends the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failed;

/// A value. Properties are texts; numbers and truths come from the expression alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Truth(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a [u8]),
}

impl Value<'_> {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// As `Double.compareTo`: NaN is greater than all and equal to itself, -0.0 is below 0.0.
fn doubles(left: f64, right: f64) -> Ordering {
    let canonical = |number: f64| {
        if number.is_nan() {
            f64::NAN.abs()
        } else {
            number
        }
    };
    canonical(left).total_cmp(&canonical(right))
}

/// How two values compare that are not null; of kinds that cannot be compared the left one is the
/// lesser.
pub(super) fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Failed> {
    use Value::{Double, Int, Long, Text, Truth};
    // An int is a long of a narrower range, as is a text that is compared to one.
    let narrow = |text: &[u8]| java_integer(text).and_then(|n| i32::try_from(n).ok());
    let narrow = |text: &[u8]| narrow(text).ok_or(Failed);
    let wide = |text: &[u8]| java_integer(text).ok_or(Failed);
    let real = |text: &[u8]| java_double(text).ok_or(Failed);
    #[expect(clippy::cast_precision_loss, reason = "Java's Long.doubleValue")]
    let widened = |number: i64| number as f64;
    Ok(match (left, right) {
        (Truth(left), Truth(right)) => left.cmp(&right),
        (Int(left), Int(right)) => left.cmp(&right),
        (Int(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Int(right)) => left.cmp(&i64::from(right)),
        (Long(left), Long(right)) => left.cmp(&right),
        (Double(left), Double(right)) => doubles(left, right),
        (Double(left), Int(right)) => doubles(left, f64::from(right)),
        (Int(left), Double(right)) => doubles(f64::from(left), right),
        (Double(left), Long(right)) => doubles(left, widened(right)),
        (Long(left), Double(right)) => doubles(widened(left), right),
        (Text(left), Text(right)) => left.cmp(right),
        (Text(left), Int(right)) => narrow(left)?.cmp(&right),
        (Int(left), Text(right)) => left.cmp(&narrow(right)?),
        (Text(left), Long(right)) => wide(left)?.cmp(&right),
        (Long(left), Text(right)) => left.cmp(&wide(right)?),
        (Text(left), Double(right)) => doubles(real(left)?, right),
        (Double(left), Text(right)) => doubles(left, real(right)?),
        (Text(left), Truth(right)) => left.eq_ignore_ascii_case(b"true").cmp(&right),
        // The official class casts the truth to a text here, which fails.
        (Truth(_), Text(_)) => return Err(Failed),
        (Truth(_), _) | (_, Truth(_)) | (Value::Null, _) | (_, Value::Null) => Ordering::Less,
    })
}

/// How two values compare by `>`, `>=`, `<`, `<=`: two texts as numbers.
pub(super) fn order(left: Value<'_>, right: Value<'_>) -> Result<Ordering, Failed> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        let left = java_double(left).ok_or(Failed)?;
        return Ok(doubles(left, java_double(right).ok_or(Failed)?));
    }
    compare(left, right)
}
