//! Texts as numbers, exactly as Java's `Integer.valueOf`, `Long.valueOf` and `Double.valueOf` read
//! them.

/// The first digits of the scripts that Java's `Character.digit` knows within 16 bits, besides
/// ASCII's (general category Nd).
const ZEROS: [u32; 36] = [
    0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90,
    0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
];
const RADIX: i64 = 10;

/// A whole number as `Long.valueOf` reads it; `None` when it does not.
pub(super) fn java_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    // Summed below zero, where there is one number more.
    let mut sum: i64 = 0;
    let mut add = |digit: u32| {
        sum = sum.checked_mul(RADIX)?.checked_sub(i64::from(digit))?;
        Some(())
    };
    if digits.is_ascii() {
        for byte in digits {
            add(char::from(*byte).to_digit(10)?)?;
        }
    } else {
        for letter in std::str::from_utf8(digits).ok()?.chars() {
            add(digit_of(letter)?)?;
        }
    }
    if is_negative {
        Some(sum)
    } else {
        sum.checked_neg()
    }
}

fn digit_of(letter: char) -> Option<u32> {
    let code = u32::from(letter);
    letter.to_digit(10).or_else(|| {
        let zero = ZEROS
            .iter()
            .find(|zero| (**zero..**zero + 10).contains(&code))?;
        Some(code - zero)
    })
}

/// A number as `Double.valueOf` reads it; `None` when it does not.
pub(super) fn java_double(text: &[u8]) -> Option<f64> {
    let text = trimmed(text);
    let (is_negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = match rest {
        b"NaN" => f64::NAN,
        b"Infinity" => f64::INFINITY,
        [b'0', b'x' | b'X', hex @ ..] => hex_double(hex)?,
        decimal => decimal_double(decimal)?,
    };
    Some(if is_negative { -magnitude } else { magnitude })
}

/// As `String.trim`: what is not above a space goes.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_kept = |byte: &u8| *byte > b' ';
    let Some(first) = text.iter().position(is_kept) else {
        return &[];
    };
    let end = text.iter().rposition(is_kept).map_or(0, |last| last + 1);
    text.get(first..end).unwrap_or_default()
}

fn without_suffix(text: &[u8]) -> &[u8] {
    match text {
        [rest @ .., b'f' | b'F' | b'd' | b'D'] => rest,
        _ => text,
    }
}

/// Digits with at most one point, perhaps an exponent, perhaps a suffix.
fn decimal_double(text: &[u8]) -> Option<f64> {
    let text = without_suffix(text);
    let is_e = |byte: &u8| matches!(byte, b'e' | b'E');
    let (mantissa, exponent) = match text.iter().position(is_e) {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
        None => (text, None),
    };
    let digits = mantissa.iter().filter(|byte| byte.is_ascii_digit()).count();
    let points = mantissa.iter().filter(|byte| **byte == b'.').count();
    if digits == 0 || points > 1 || digits + points != mantissa.len() {
        return None;
    }
    if exponent.is_some_and(|exponent| power_of(exponent).is_none()) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The number of an exponent, with its sign; one beyond all doubles is cut.
fn power_of(text: &[u8]) -> Option<i64> {
    const CUT: i64 = 1 << 32;
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: i64, byte: &u8| (sum * RADIX + i64::from(byte - b'0')).min(CUT);
    Some(sign * digits.iter().fold(0, add))
}

/// What follows `0x`: digits with at most one point, `p`, a power of two.
fn hex_double(text: &[u8]) -> Option<f64> {
    let text = without_suffix_of_hex(text)?;
    let p_at = text.iter().position(|byte| matches!(byte, b'p' | b'P'))?;
    let mut power = power_of(text.get(p_at + 1..)?)?;
    // The first 60 bits that count; of those behind only whether there are any.
    let (mut bits, mut has_rest) = (0_u64, false);
    let (mut digits, mut is_behind_point) = (0, false);
    for byte in text.get(..p_at)? {
        if *byte == b'.' && !is_behind_point {
            is_behind_point = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        digits += 1;
        let is_taken = bits >> 56 == 0;
        if is_taken {
            bits = bits << 4 | digit;
        } else {
            has_rest |= digit != 0;
        }
        power += match (is_taken, is_behind_point) {
            (true, true) => -4,
            (false, false) => 4,
            _ => 0,
        };
    }
    (digits > 0).then(|| scaled(bits, has_rest, power))
}

/// In a hexadecimal number `f` and `d` are digits before the `p`, and a suffix only behind it.
fn without_suffix_of_hex(text: &[u8]) -> Option<&[u8]> {
    let p_at = text.iter().position(|byte| matches!(byte, b'p' | b'P'))?;
    let has_suffix = matches!(text.last(), Some(b'f' | b'F' | b'd' | b'D'));
    let cut = usize::from(has_suffix && text.len() > p_at + 1);
    text.get(..text.len() - cut)
}

/// `bits * 2^power`, rounded half to even; `has_rest`: it is a little more than that.
fn scaled(bits: u64, has_rest: bool, power: i64) -> f64 {
    const FRACTION_BITS: i64 = 52;
    const POWER_MIN: i64 = -1074;
    const POWER_MAX: i64 = 1023;
    if bits == 0 {
        return 0.0;
    }
    let top = 63 - i64::from(bits.leading_zeros()) + power;
    if top > POWER_MAX {
        return f64::INFINITY;
    }
    // The unit of the last place that the result can have.
    let unit = (top - FRACTION_BITS).max(POWER_MIN);
    let drop = unit - power;
    let kept = if drop <= 0 {
        bits << (-drop).min(63)
    } else if drop > 63 {
        0
    } else {
        let kept = bits >> drop;
        let rest = bits & ((1 << drop) - 1);
        let half = 1_u64 << (drop - 1);
        let is_up = rest > half || (rest == half && (has_rest || kept & 1 == 1));
        kept + u64::from(is_up)
    };
    // Exact: at most 53 bits, and both steps stay among the doubles.
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits")]
    let kept = kept as f64;
    let half = unit / 2;
    kept * power_of_two(half) * power_of_two(unit - half)
}

fn power_of_two(power: i64) -> f64 {
    const BIAS: i64 = 1023;
    let biased = (power + BIAS).clamp(1, 2 * BIAS).cast_unsigned();
    f64::from_bits(biased << 52)
}
