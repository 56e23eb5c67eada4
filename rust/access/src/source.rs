//! Where a request comes from, and ranges of addresses. Knows no socket: an address is a text.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Where a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    ip: Option<IpAddr>,
    is_local: bool,
    text: Box<str>,
}

/// What the name of a client on a Unix socket begins with.
const UNIX_PREFIX: &str = "unix:";

impl Source {
    /// The source of a peer: `host`, `host:port`, `[host]:port`, or `unix:...`.
    #[must_use]
    pub fn of(peer: &str) -> Self {
        let ip = ip_of(peer);
        let text = match ip {
            Some(ip) => ip.to_string().into(),
            None => peer.into(),
        };
        Self {
            is_local: peer.starts_with(UNIX_PREFIX) || ip.is_some_and(|ip| ip.is_loopback()),
            ip,
            text,
        }
    }

    /// Its address, unless it is a Unix socket or unknown. IPv4 in IPv6 is IPv4.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// Whether it is this machine.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// As refusals name it: without a port.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn ip_of(peer: &str) -> Option<IpAddr> {
    let bare = |text: &str| {
        // The zone of a link-local address names an interface of ours.
        let text = text.split_once('%').map_or(text, |(ip, _zone)| ip);
        text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
    };
    if let Some(rest) = peer.strip_prefix('[') {
        return bare(rest.split_once(']')?.0);
    }
    bare(peer).or_else(|| bare(peer.rsplit_once(':')?.0))
}

/// A range of addresses: one, or those with a prefix (CIDR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    /// As IPv6; IPv4 as IPv4 in IPv6.
    bits: u128,
    mask: u128,
    is_v4: bool,
    len: u8,
}

const V4_LEN: u8 = 32;
const V6_LEN: u8 = 128;

const fn mapped(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

impl Network {
    /// Reads an address or a CIDR range.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (ip, len) = match text.split_once('/') {
            Some((ip, len)) => (ip, Some(len.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().ok()?;
        let len_max = if ip.is_ipv4() { V4_LEN } else { V6_LEN };
        let len = len.unwrap_or(len_max);
        if len > len_max {
            return None;
        }
        let mapped_len = u32::from(V6_LEN - len_max + len);
        let mask = u128::MAX
            .checked_shl(u32::from(V6_LEN) - mapped_len)
            .unwrap_or(0);
        Some(Self {
            bits: mapped(ip) & mask,
            mask,
            is_v4: ip.is_ipv4(),
            len,
        })
    }

    /// Whether an address is in it. `::/0` has those of IPv4 too: they are there as `::ffff:0:0/96`.
    #[must_use]
    pub fn has(&self, ip: IpAddr) -> bool {
        mapped(ip) & self.mask == self.bits
    }
}

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = Ipv6Addr::from_bits(self.bits);
        let (ip, len_max) = match v6.to_ipv4_mapped() {
            Some(v4) if self.is_v4 => (IpAddr::V4(v4), V4_LEN),
            // 0.0.0.0/0 keeps the bits of IPv4: they are in the mask.
            _ => (IpAddr::V6(v6), V6_LEN),
        };
        if self.len == len_max {
            write!(out, "{ip}")
        } else {
            write!(out, "{ip}/{}", self.len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(ip: &str, range: &str) -> bool {
        let ip = Source::of(ip).ip().unwrap();
        Network::parse(range).unwrap().has(ip)
    }

    #[test]
    fn a_source_is_an_address_without_its_port() {
        for (peer, text) in [
            ("10.1.2.3:4567", "10.1.2.3"),
            ("10.1.2.3", "10.1.2.3"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[::ffff:10.1.2.3]:80", "10.1.2.3"),
            ("[fe80::1%eth0]:80", "fe80::1"),
            ("unix:/run/mq", "unix:/run/mq"),
            ("?", "?"),
            ("[", "["),
            ("", ""),
        ] {
            assert_eq!(Source::of(peer).text(), text, "{peer}");
        }
        assert!(Source::of("[::1]:80").is_local());
        assert!(Source::of("127.8.8.8:80").is_local());
        assert!(Source::of("unix:").is_local());
        assert!(!Source::of("10.0.0.1:80").is_local());
        assert!(!Source::of("?").is_local());
    }

    #[test]
    fn ranges_have_their_addresses_and_no_others() {
        for (ip, range, expected) in [
            ("10.1.2.3", "10.0.0.0/8", true),
            ("11.1.2.3", "10.0.0.0/8", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.4", "10.1.2.3", false),
            ("10.1.2.4", "10.1.2.3/31", false),
            ("10.1.2.2", "10.1.2.3/31", true),
            ("10.1.2.3", "0.0.0.0/0", true),
            ("2001:db8::1", "0.0.0.0/0", false),
            ("2001:db8::1", "2001:db8::/32", true),
            ("2001:db9::1", "2001:db8::/32", false),
            ("10.1.2.3", "2001:db8::/32", false),
            ("2001:db8::1", "::/0", true),
            ("::ffff:10.1.2.3", "10.0.0.0/8", true),
            ("10.1.2.3", "::ffff:10.0.0.0/104", true),
        ] {
            assert_eq!(is_in(ip, range), expected, "{ip} in {range}");
        }
        for bad in [
            "",
            "10",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "a/8",
            "10.0.0.*",
            "1/2/3",
        ] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn ranges_are_shown_as_they_are_written() {
        for text in [
            "10.0.0.0/8",
            "10.1.2.3",
            "2001:db8::/32",
            "::1",
            "0.0.0.0/0",
            "::/0",
        ] {
            assert_eq!(Network::parse(text).unwrap().to_string(), text);
        }
        let uneven = Network::parse("10.9.9.9/8").unwrap();
        assert_eq!(uneven.to_string(), "10.0.0.0/8");
    }
}
