//! Patterns of addresses as files of 4.x write them (`RemoteAddressStrategyFactory` of 4.9.8). Knows no
//! user.
//!
//! | pattern | addresses |
//! |---|---|
//! | blank | none |
//! | `*`, `*.*.*.*`, `*:*:*:*:*:*:*:*` | all, and clients without an address |
//! | `10.0.0.1`, `::1` | that one |
//! | `10.0.0.1,10.0.0.2` | each; no blanks |
//! | `10.0.0.{1,5}`, `fe80::{1,5}` | each |
//! | `10.0.*.*`, `10.0.0.1-20`, `10.0.1-5.*` | those whose first part that is a range has the number; what is behind it counts for nothing |
//! | `fe80:0:0:1:*`, `fe80::1-ff`, `fe80::1-ff:*` | alike, with the range last, or before a last `*` |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses are let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// All of them.
    All,
    /// Those between two bounds, both included; IPv4 as IPv4 in IPv6. None: no address.
    Between(Box<[(u128, u128)]>),
}

/// Parts of an address of IPv6.
const V6_PARTS: usize = 8;
/// Parts of an address of IPv4.
const V4_PARTS: usize = 4;
const NO_ADDRESS: &str = "no address";
const NO_RANGE: &str = "no part of it is a range";
const BAD_RANGE: &str = "a range that is none";
const NO_LIST: &str = "the list in brackets is not its last part";

const fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

impl Addresses {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.trim().is_empty() {
            return Ok(Self::Between(Box::default()));
        }
        if ["*", "*.*.*.*", "*:*:*:*:*:*:*:*"].contains(&text) {
            return Ok(Self::All);
        }
        let ranges = if let Some(before) = text.strip_suffix('}') {
            listed(before)?
        } else if text.contains(',') {
            let parts = text.split(',').filter(|part| !part.is_empty());
            parts.map(one).collect::<Result<_, _>>()?
        } else if text.contains(['*', '-']) {
            let range = if text.contains(':') {
                v6_range(text)?
            } else {
                v4_range(text)?
            };
            range.into_iter().collect()
        } else {
            vec![one(text)?]
        };
        Ok(Self::Between(ranges.into()))
    }

    /// Whether a client comes from one of them; `None` is a client without an address.
    #[must_use]
    pub fn has(&self, ip: Option<IpAddr>) -> bool {
        match self {
            Self::All => true,
            Self::Between(ranges) => ip.is_some_and(|ip| {
                let ip = number(ip);
                ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&ip))
            }),
        }
    }
}

fn one(text: &str) -> Result<(u128, u128), &'static str> {
    let ip = text.parse::<IpAddr>().map_err(|_bad| NO_ADDRESS)?;
    let ip = number(ip);
    Ok((ip, ip))
}

/// `10.0.0.{1,5`: the last part is a list.
fn listed(before: &str) -> Result<Vec<(u128, u128)>, &'static str> {
    let (head, list) = before.split_once('{').ok_or(NO_LIST)?;
    let separator = if head.contains(':') { ':' } else { '.' };
    if !head.ends_with(separator) || list.contains(separator) {
        return Err(NO_LIST);
    }
    let parts = list.split(',').filter(|part| !part.is_empty());
    parts.map(|part| one(&format!("{head}{part}"))).collect()
}

/// The bounds of one part; none where it is no range, or one that ends at 0, which officially is none.
fn bounds(part: &str, radix: u32, most: u32) -> Result<Option<(u32, u32)>, &'static str> {
    let part = part.trim();
    if part == "*" {
        return Ok(Some((0, most)));
    }
    if !part.contains('-') {
        return Ok(None);
    }
    let mut ends = part.split('-').filter(|end| !end.is_empty());
    let mut next = || {
        let end = ends.next().ok_or(BAD_RANGE)?;
        u32::from_str_radix(end, radix).map_err(|_bad| BAD_RANGE)
    };
    let (low, high) = (next()?, next()?);
    if part.starts_with('-') || low > high || high > most {
        return Err(BAD_RANGE);
    }
    Ok((high > 0).then_some((low, high)))
}

/// The addresses of IPv4 that a pattern with a range has; none where its head is no part of an address.
fn v4_range(text: &str) -> Result<Option<(u128, u128)>, &'static str> {
    let parts: Vec<&str> = text.split('.').filter(|part| !part.is_empty()).collect();
    if parts.len() != V4_PARTS {
        return Err(NO_ADDRESS);
    }
    let mut found = None;
    for (at, part) in parts.iter().enumerate().skip(1) {
        if let Some(range) = bounds(part, 10, u32::from(u8::MAX))? {
            found = Some((at, range));
            break;
        }
    }
    let (at, (low, high)) = found.ok_or(NO_RANGE)?;
    let head = parts.iter().take(at).map(|part| part.trim());
    let mut ends = ([0; V4_PARTS], [u8::MAX; V4_PARTS]);
    let mut is_address = true;
    for ((text, first), last) in head.zip(&mut ends.0).zip(&mut ends.1) {
        *first = text.parse().map_err(|_bad| NO_ADDRESS)?;
        *last = *first;
        // `010` is the beginning of no address.
        is_address &= first.to_string() == text;
    }
    if let (Some(first), Some(last)) = (ends.0.get_mut(at), ends.1.get_mut(at)) {
        *first = u8::try_from(low).map_err(|_bad| BAD_RANGE)?;
        *last = u8::try_from(high).map_err(|_bad| BAD_RANGE)?;
    }
    let ip = |parts: [u8; V4_PARTS]| number(IpAddr::V4(Ipv4Addr::from(parts)));
    Ok(is_address.then(|| (ip(ends.0), ip(ends.1))))
}

/// The addresses of IPv6 that a pattern with a range has; none where its head is no part of an address.
fn v6_range(text: &str) -> Result<Option<(u128, u128)>, &'static str> {
    let has_star = text.contains('*');
    if has_star && text.find('*') != Some(text.len() - 1) {
        return Err("a * that is not last");
    }
    let (before, last) = text.rsplit_once(':').ok_or(NO_ADDRESS)?;
    let has_minus = text.contains('-');
    // The range, and what is before it; a `*` behind it changes nothing.
    let (head, range) = match (has_star, has_minus) {
        (true, true) => before.rsplit_once(':').ok_or(NO_ADDRESS)?,
        _ => (before, last),
    };
    if head.contains('-') || (has_minus && !range.contains('-')) {
        return Err("a range that is not the last part, or before a last *");
    }
    let (low, high) = bounds(range, 16, u32::from(u16::MAX))?.ok_or(NO_RANGE)?;
    let parts_max = if has_star && has_minus {
        V6_PARTS - 2
    } else {
        V6_PARTS - 1
    };
    let head = expanded(head, parts_max);
    let at = head.len();
    let mut ends = ([0; V6_PARTS], [u16::MAX; V6_PARTS]);
    let mut is_address = at < V6_PARTS;
    for ((text, first), last) in head.iter().zip(&mut ends.0).zip(&mut ends.1) {
        let number = u16::from_str_radix(text, 16).ok();
        is_address &= number.is_some();
        *first = number.unwrap_or_default();
        *last = *first;
    }
    if let (Some(first), Some(last)) = (ends.0.get_mut(at), ends.1.get_mut(at)) {
        *first = u16::try_from(low).map_err(|_bad| BAD_RANGE)?;
        *last = u16::try_from(high).map_err(|_bad| BAD_RANGE)?;
    }
    let ip = |parts: [u16; V6_PARTS]| number(IpAddr::V6(Ipv6Addr::from(parts)));
    Ok(is_address.then(|| (ip(ends.0), ip(ends.1))))
}

/// The parts of the beginning of an address; `::` is as many zeros as are missing to `parts_max`
/// (`AclUtils.expandIP`).
fn expanded(head: &str, parts_max: usize) -> Vec<String> {
    let colons = head.matches(':').count();
    let missing = parts_max.saturating_sub(colons);
    let spread = if missing > 0 {
        head.replace("::", &":".repeat(missing + 1))
    } else {
        head.to_owned()
    };
    let parts = spread.split(':');
    parts
        .map(|part| if part.is_empty() { "0" } else { part }.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_in_is_what_the_official_classes_let_in() {
        // Made by the classes of 4.9.7: `tests/access/address_patterns.txt` has how.
        let mut count = 0;
        for line in include_str!("../tests/access/address_patterns.txt").lines() {
            if line.starts_with('#') {
                continue;
            }
            let (pattern, rest) = line.split_once('|').unwrap();
            let parsed = Addresses::parse(pattern.trim_matches('"'));
            if rest == "error" {
                assert!(parsed.is_err(), "{line}");
            } else {
                let (address, expected) = rest.split_once('|').unwrap();
                let ip = address.parse().ok();
                let has = parsed.unwrap_or_else(|why| panic!("{line}: {why}")).has(ip);
                assert_eq!(has.to_string(), expected, "{line}");
            }
            count += 1;
        }
        assert!(count > 300, "{count}");
    }

    #[test]
    fn who_has_no_address_is_let_in_by_all_alone() {
        for (pattern, expected) in [
            ("*", true),
            ("*.*.*.*", true),
            ("127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(Addresses::parse(pattern).unwrap().has(None), expected);
        }
    }
}
