//! A tree over the values of one message. Allocates nothing; ends with the first failure, in the
//! order in which the official classes evaluate, or when its work is spent.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::Slots;
use super::meter::Meter;
use super::tree::{Constant, Holding, Operand, Order, Test};
use super::values::{Failed, Value, compare, order};

/// True, false, null, or failed.
type Outcome = Result<Option<bool>, Failed>;

impl Test {
    pub(super) fn evaluate(&self, slots: &Slots<'_>, meter: &mut Meter) -> Outcome {
        meter.spend(1);
        if meter.is_spent() {
            return Err(Failed);
        }
        match self {
            Self::Constant(truth) => Ok(*truth),
            Self::Truth(slot) => Ok(text_at(slots, *slot).map(|_text| false)),
            Self::Not(test) => Ok(test.evaluate(slots, meter)?.map(|truth| !truth)),
            Self::All(tests) => joined(tests, slots, false, meter),
            Self::Any(tests) => joined(tests, slots, true, meter),
            Self::Equal(left, right) => {
                let left = left.evaluate(slots, meter)?;
                equal(left, right.evaluate(slots, meter)?, meter)
            }
            Self::IsNull(operand) => Ok(Some(operand.evaluate(slots, meter)?.is_null())),
            Self::Ordered(left, wanted, right) => {
                ordered(left.evaluate(slots, meter)?, *wanted, (right, slots), meter)
            }
            Self::Between(parts) => range(parts, slots, Bounds::Inside, meter),
            Self::Outside(parts) => range(parts, slots, Bounds::Outside, meter),
            Self::In {
                slot,
                items,
                is_negated,
            } => Ok(text_at(slots, *slot).map(|text| {
                // Halved until one is left, each with a look at the bytes that are the same.
                let looks = items
                    .len()
                    .checked_ilog2()
                    .map_or(0, |looks| looks as usize + 1);
                meter.spend(looks);
                meter.compare(looks * text.len());
                let found = items.binary_search_by(|item| item.as_bytes().cmp(text));
                found.is_ok() != *is_negated
            })),
            Self::Holds {
                operand,
                holding,
                search,
                is_negated,
            } => {
                // An empty text is in no other, and neither is it not in one.
                if search.is_empty() {
                    return Ok(Some(false));
                }
                Ok(Some(match operand.evaluate(slots, meter)? {
                    Value::Text(text) => {
                        match holding {
                            Holding::Contains => meter.read(text.len() + search.len()),
                            Holding::Starts | Holding::Ends => meter.compare(search.len()),
                        }
                        holds(text, *holding, search) != *is_negated
                    }
                    _ => false,
                }))
            }
        }
    }
}

impl Operand {
    fn evaluate<'a>(&'a self, slots: &Slots<'a>, meter: &mut Meter) -> Result<Value<'a>, Failed> {
        Ok(match self {
            Self::Constant(constant) => constant.value(),
            Self::Property(slot) => text_at(slots, *slot).map_or(Value::Null, Value::Text),
            Self::Negated(operand) => match operand.evaluate(slots, meter)? {
                Value::Int(number) => Value::Int(number.wrapping_neg()),
                Value::Long(number) => Value::Long(number.wrapping_neg()),
                Value::Double(number) => Value::Double(-number),
                Value::Null | Value::Truth(_) | Value::Text(_) => Value::Null,
            },
            Self::Tested(test) => test
                .evaluate(slots, meter)?
                .map_or(Value::Null, Value::Truth),
        })
    }
}

impl Constant {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Truth(truth) => Value::Truth(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Long(number) => Value::Long(*number),
            Self::Double(number) => Value::Double(*number),
            Self::Text(text) => Value::Text(text.as_bytes()),
        }
    }
}

fn text_at<'a>(slots: &Slots<'a>, slot: usize) -> Option<&'a [u8]> {
    slots.get(slot).copied().flatten()
}

/// AND over tests (`decisive` false) or OR (`decisive` true): ends at the first decisive one.
fn joined(tests: &[Test], slots: &Slots<'_>, decisive: bool, meter: &mut Meter) -> Outcome {
    let mut has_null = false;
    for test in tests {
        match test.evaluate(slots, meter)? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => has_null = true,
        }
    }
    Ok((!has_null).then_some(!decisive))
}

/// Counts what it takes to compare two values.
fn count(left: Value<'_>, right: Value<'_>, are_numbers: bool, meter: &mut Meter) {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) if are_numbers => {
            meter.read(left.len() + right.len());
        }
        (Value::Text(left), Value::Text(right)) => meter.compare(left.len().min(right.len())),
        (Value::Text(text), _) | (_, Value::Text(text)) => meter.read(text.len()),
        _ => {}
    }
}

fn equal(left: Value<'_>, right: Value<'_>, meter: &mut Meter) -> Outcome {
    count(left, right, false, meter);
    match (left.is_null(), right.is_null()) {
        (true, true) => Ok(Some(true)),
        (true, false) => Ok(None),
        (false, true) => Ok(Some(false)),
        (false, false) => Ok(Some(compare(left, right)? == Ordering::Equal)),
    }
}

/// The right side is not looked at when the left one is null.
fn ordered(
    left: Value<'_>,
    wanted: Order,
    (right, slots): (&Operand, &Slots<'_>),
    meter: &mut Meter,
) -> Outcome {
    if left.is_null() {
        return Ok(None);
    }
    let right = right.evaluate(slots, meter)?;
    if right.is_null() {
        return Ok(None);
    }
    count(left, right, true, meter);
    let found = order(left, right)?;
    Ok(Some(match wanted {
        Order::Greater => found.is_gt(),
        Order::GreaterEqual => found.is_ge(),
        Order::Less => found.is_lt(),
        Order::LessEqual => found.is_le(),
    }))
}

#[derive(Clone, Copy, PartialEq)]
enum Bounds {
    Inside,
    Outside,
}

/// BETWEEN is an AND of two comparisons, its negation an OR; the value is evaluated once.
fn range(parts: &[Operand; 3], slots: &Slots<'_>, bounds: Bounds, meter: &mut Meter) -> Outcome {
    let [value, low, high] = parts;
    let value = value.evaluate(slots, meter)?;
    let (first, second, decisive) = match bounds {
        Bounds::Inside => (Order::GreaterEqual, Order::LessEqual, false),
        Bounds::Outside => (Order::Less, Order::Greater, true),
    };
    let at_low = ordered(value, first, (low, slots), meter)?;
    if at_low == Some(decisive) {
        return Ok(at_low);
    }
    let at_high = ordered(value, second, (high, slots), meter)?;
    if at_high == Some(decisive) {
        return Ok(at_high);
    }
    Ok(at_low.and(at_high))
}

fn holds(text: &[u8], holding: Holding, search: &str) -> bool {
    match holding {
        // As text, because its search is linear; what is no UTF-8 is replaced, as Java does.
        Holding::Contains => match String::from_utf8_lossy(text) {
            Cow::Borrowed(text) => text.contains(search),
            Cow::Owned(text) => text.contains(search),
        },
        Holding::Starts => text.starts_with(search.as_bytes()),
        Holding::Ends => text.ends_with(search.as_bytes()),
    }
}
