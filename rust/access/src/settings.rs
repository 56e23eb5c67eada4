//! What is checked at all, and how: the settings that go with the tables. Knows no user.

use hashbrown::HashSet;

use crate::fault::TableFault;
use crate::source::{Network, Source};

/// Any address may act with the rights of a Super user.
const ANYWHERE: &str = "*";

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whether a request needs a signature.
    pub authenticates: bool,
    /// Whether a user needs rights.
    pub authorizes: bool,
    /// Whether what would be refused for want of rights is only noted. Signatures are then needed where
    /// `authenticates` is set.
    pub is_dry_run: bool,
    /// Whether the holes of 5.3.3 are left open: codes that it does not check, fields that are absent,
    /// names without a signature where only rights are checked.
    pub is_like_official: bool,
    /// Whether a request that needs a user is refused in clear.
    pub requires_tls: bool,
    /// Wrong signatures of an address that are answered at once, a minute; 0: all of them.
    pub failures_free: u32,
    /// From where users may act as Super users.
    pub super_from: SuperFrom,
    /// Codes that need no signature.
    pub open_to_anybody: HashSet<i32>,
    /// Codes that need no rights.
    pub open_to_users: HashSet<i32>,
    /// The name of the cluster.
    pub cluster: String,
}

/// From where users may act as Super users.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SuperFrom {
    /// From this machine.
    #[default]
    Here,
    /// From anywhere.
    Anywhere,
    /// From these addresses.
    Networks(Vec<Network>),
}

impl SuperFrom {
    /// Whether it is one of them.
    #[must_use]
    pub fn has(&self, source: &Source) -> bool {
        match self {
            Self::Here => source.is_local(),
            Self::Anywhere => true,
            Self::Networks(networks) => {
                let ip = source.ip();
                // Who is on a Unix socket has this machine's address.
                let is_in = |net: &Network| match ip {
                    Some(ip) => net.has(ip),
                    None => source.is_local() && net.has(std::net::Ipv4Addr::LOCALHOST.into()),
                };
                networks.iter().any(is_in)
            }
        }
    }
}

impl Settings {
    /// Reads settings by name; those that are not given are as in [`Settings::default`].
    ///
    /// # Errors
    /// [`TableFault::Setting`].
    pub fn read<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, TableFault> {
        let mut settings = Self::default();
        for (name, value) in pairs {
            settings
                .set(name, value)
                .map_err(|why| TableFault::Setting {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    why,
                })?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "authenticate" => self.authenticates = truth(value)?,
            "authorize" => self.authorizes = truth(value)?,
            "dry_run" => self.is_dry_run = truth(value)?,
            "like_official" => self.is_like_official = truth(value)?,
            "requires_tls" => self.requires_tls = truth(value)?,
            "failures_free" => self.failures_free = count(value)?,
            "super_from" => self.super_from = super_from(value)?,
            "white_codes_authentication" => self.open_to_anybody = codes(value)?,
            "white_codes_authorization" => self.open_to_users = codes(value)?,
            "cluster" => value.clone_into(&mut self.cluster),
            _ => return Err("no such setting"),
        }
        Ok(())
    }

    /// Whether anything is checked.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.authenticates || self.authorizes
    }
}

fn truth(value: &str) -> Result<bool, &'static str> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("neither true nor false"),
    }
}

fn count(value: &str) -> Result<u32, &'static str> {
    value.parse().map_err(|_bad| "no count")
}

/// The parts of a list by comma.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

fn codes(value: &str) -> Result<HashSet<i32>, &'static str> {
    let codes = parts(value).map(|part| part.parse().map_err(|_bad| "not a list of codes"));
    codes.collect()
}

fn super_from(value: &str) -> Result<SuperFrom, &'static str> {
    let networks = parts(value).map(|part| {
        if part == ANYWHERE {
            Ok(None)
        } else {
            Network::parse(part)
                .map(Some)
                .ok_or("not a list of addresses and ranges")
        }
    });
    let networks = networks.collect::<Result<Vec<_>, _>>()?;
    if networks.is_empty() {
        return Ok(SuperFrom::Here);
    }
    let networks: Option<Vec<_>> = networks.into_iter().collect();
    Ok(networks.map_or(SuperFrom::Anywhere, SuperFrom::Networks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Settings, TableFault> {
        Settings::read([(name, value)])
    }

    #[test]
    fn settings_are_read_by_name() {
        assert!(read("authenticate", "true").unwrap().is_on());
        assert!(read("authorize", "true").unwrap().is_on());
        assert!(!read("requires_tls", "true").unwrap().is_on());
        let codes = read("white_codes_authentication", "34, 105,").unwrap();
        assert_eq!(codes.open_to_anybody, HashSet::from_iter([34, 105]));
        for (name, value) in [
            ("authenticate", "yes"),
            ("failures_free", "-1"),
            ("white_codes_authorization", "a"),
            ("super_from", "10.0.0.0/40"),
            ("other", ""),
        ] {
            let fault = read(name, value).unwrap_err();
            assert!(fault.to_string().starts_with(&format!("setting {name}=")));
        }
    }

    #[test]
    fn super_users_come_from_here_unless_set_otherwise() {
        let (here, far) = (Source::of("127.0.0.1:1"), Source::of("10.1.1.1:1"));
        let socket = Source::of("unix:");
        for (value, expected) in [
            ("", [true, false, true]),
            ("*", [true, true, true]),
            ("10.0.0.0/8", [false, true, false]),
            ("127.0.0.1,10.1.1.1", [true, true, true]),
        ] {
            let from = read("super_from", value).unwrap().super_from;
            assert_eq!(
                [&here, &far, &socket].map(|s| from.has(s)),
                expected,
                "{value}"
            );
        }
    }
}
