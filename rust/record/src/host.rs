//! The address of a producer or a broker as it is stored in a record.
//!
//! The port is an i32 and kept as stored, also when it is no port at all: a record must come out of
//! decode and encode with the same bytes. Knows no socket.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::layout::{HOST_V4_LEN_BYTES, HOST_V6_LEN_BYTES};

/// An address and a port.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Host {
    /// IPv4: 8 bytes in a record.
    V4 {
        /// The four bytes of the address, in network order.
        address: [u8; 4],
        /// The port as stored.
        port: i32,
    },
    /// IPv6: 20 bytes in a record.
    V6 {
        /// The sixteen bytes of the address, in network order.
        address: [u8; 16],
        /// The port as stored.
        port: i32,
    },
}

impl Host {
    /// Bytes this host takes in a record.
    #[inline]
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        match self {
            Self::V4 { .. } => HOST_V4_LEN_BYTES,
            Self::V6 { .. } => HOST_V6_LEN_BYTES,
        }
    }

    /// Whether it is stored in the IPv6 form.
    #[inline]
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        matches!(self, Self::V6 { .. })
    }

    /// The port as stored.
    #[inline]
    #[must_use]
    pub const fn port(&self) -> i32 {
        match self {
            Self::V4 { port, .. } | Self::V6 { port, .. } => *port,
        }
    }

    /// The bytes of the address.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> &[u8] {
        match self {
            Self::V4 { address, .. } => address,
            Self::V6 { address, .. } => address,
        }
    }

    /// The socket address, unless the stored port is none.
    #[must_use]
    pub fn to_socket_addr(&self) -> Option<SocketAddr> {
        let port = u16::try_from(self.port()).ok()?;
        Some(SocketAddr::new(self.ip(), port))
    }

    fn ip(&self) -> IpAddr {
        match self {
            Self::V4 { address, .. } => Ipv4Addr::from(*address).into(),
            Self::V6 { address, .. } => Ipv6Addr::from(*address).into(),
        }
    }
}

/// An IPv4 address in IPv6 clothes (a dual-stack listener) becomes plain IPv4, as `InetAddress`
/// makes it: otherwise our records would carry flags the official broker would not set.
impl From<SocketAddr> for Host {
    fn from(address: SocketAddr) -> Self {
        let port = i32::from(address.port());
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => Self::V4 {
                address: ip.octets(),
                port,
            },
            IpAddr::V6(ip) => Self::V6 {
                address: ip.octets(),
                port,
            },
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            IpAddr::V4(ip) => write!(out, "{ip}:{}", self.port()),
            IpAddr::V6(ip) => write!(out, "[{ip}]:{}", self.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_shown_as_a_socket_address() {
        let v4 = Host::V4 {
            address: [127, 0, 0, 1],
            port: 20931,
        };
        assert_eq!(v4.to_string(), "127.0.0.1:20931");
        assert_eq!(v4.len_bytes(), 8);
        let v6 = Host::from("[2001:db8::1]:99".parse::<SocketAddr>().unwrap());
        assert_eq!(v6.to_string(), "[2001:db8::1]:99");
        assert_eq!(v6.len_bytes(), 20);
        assert_eq!(
            v6.to_socket_addr(),
            Some("[2001:db8::1]:99".parse().unwrap())
        );
    }

    #[test]
    fn a_mapped_address_becomes_ipv4() {
        let host = Host::from("[::ffff:10.1.2.3]:7".parse::<SocketAddr>().unwrap());
        assert_eq!(
            host,
            Host::V4 {
                address: [10, 1, 2, 3],
                port: 7
            }
        );
    }

    #[test]
    fn a_stored_port_that_is_none_has_no_socket_address() {
        for port in [-1, 65_536, i32::MIN] {
            let host = Host::V4 {
                address: [1, 2, 3, 4],
                port,
            };
            assert_eq!(host.to_socket_addr(), None);
            assert_eq!(host.to_string(), format!("1.2.3.4:{port}"));
        }
    }
}
