//! Users, their policies, accounts of 4.x and the settings as they are now: immutable, replaced whole. Compiled from rows; of
//! a user whose rows are the same the compiled form is taken over. Knows no request.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::account::{Account, AccountRow, PlainRows};
use crate::addresses::Addresses;
use crate::fault::TableFault;
use crate::policies::{Draft, Entry, Policies, Tier};
use crate::resource::{Actions, Pattern};
use crate::settings::Settings;
use crate::signature::Key;
use crate::source::Network;

/// A user as its owner has it.
#[derive(Clone, Copy, Hash)]
pub struct UserRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its secret; empty: it signs nothing, and comes with a certificate.
    pub secret: &'a str,
    /// `Super` or `Normal`.
    pub kind: &'a str,
    /// `enable` or `disable`.
    pub status: &'a str,
}

/// An entry of a policy as its owner has it.
#[derive(Debug, Clone, Hash)]
pub struct PolicyRow<'a> {
    /// Whose: `User:NAME`.
    pub subject: &'a str,
    /// `Custom` or `Default`.
    pub policy: &'a str,
    /// `*`, `Topic:*`, `Topic:orders*`, `Topic:orders`.
    pub resource: &'a str,
    /// Official names of actions.
    pub actions: Vec<&'a str>,
    /// Addresses and ranges; empty: from anywhere.
    pub sources: Vec<&'a str>,
    /// `Allow` or `Deny`.
    pub decision: &'a str,
}

/// A user.
pub struct User {
    /// Its name.
    pub name: Box<str>,
    pub(crate) key: Option<Key>,
    /// Whether it may do everything.
    pub is_super: bool,
    /// Whether it may do anything.
    pub is_enabled: bool,
    /// What it may do.
    pub policies: Policies,
    /// What it is by files of 4.x, where those decide about it.
    pub account: Option<Account>,
    /// Of its rows: the same rows have the same, with one hasher.
    fingerprint: u64,
}

impl fmt::Debug for User {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "User({:?})", self.name)
    }
}

/// What files of 4.x have.
#[derive(Debug, Default)]
pub struct Plain {
    /// From where nobody needs a signature.
    white: Vec<Addresses>,
    accounts: HashMap<Box<str>, Arc<User>>,
    /// Of its rows.
    fingerprint: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Tables {
    /// What is checked.
    pub settings: Settings,
    /// Rises with every change.
    pub version: u64,
    users: HashMap<Box<str>, Arc<User>>,
    /// Files of 4.x, where they count.
    pub plain: Option<Arc<Plain>>,
    hasher: DefaultHashBuilder,
}

/// What the name of a subject begins with; users are the only ones.
const SUBJECT_PREFIX: &str = "User:";

impl Tables {
    /// Compiles the tables that come after these.
    ///
    /// # Errors
    /// The first row that cannot be taken.
    pub fn next(
        &self,
        users: &[UserRow<'_>],
        policies: &[PolicyRow<'_>],
        settings: Settings,
    ) -> Result<Self, TableFault> {
        let mut of_subjects: HashMap<&str, Vec<&PolicyRow<'_>>> = HashMap::new();
        // Those of one user come one after the other, as their owner has them.
        for rows in policies.chunk_by(|one, other| one.subject == other.subject) {
            let subject = rows.first().map_or("", |row| row.subject);
            of_subjects.entry(subject).or_default().extend(rows);
        }
        let mut compiled = HashMap::with_capacity(users.len());
        let mut subject = String::from(SUBJECT_PREFIX);
        for row in users {
            subject.truncate(SUBJECT_PREFIX.len());
            subject.push_str(row.name);
            let entries = of_subjects.remove(subject.as_str()).unwrap_or_default();
            let fingerprint = self.hasher.hash_one((row, &entries));
            let before = self.users.get(row.name);
            let user = match before.filter(|before| before.fingerprint == fingerprint) {
                Some(before) => Arc::clone(before),
                None => Arc::new(User::of(row, &entries, fingerprint)?),
            };
            if compiled.insert(Box::from(row.name), user).is_some() {
                return Err(fault_of(row, "it is there twice"));
            }
        }
        // Policies of users that are not there decide nothing, but they have to be ones.
        for rows in of_subjects.values() {
            for row in rows {
                row.read()?;
            }
        }
        Ok(Self {
            settings,
            version: self.version + 1,
            users: compiled,
            plain: None,
            hasher: self.hasher.clone(),
        })
    }

    /// The tables with what files of 4.x have; what these tables have of the same rows is taken over.
    ///
    /// # Errors
    /// The first row that cannot be taken.
    pub fn with_plain(
        mut self,
        before: &Self,
        rows: Option<&PlainRows<'_>>,
    ) -> Result<Self, TableFault> {
        self.plain = match rows {
            None => None,
            Some(rows) => {
                let fingerprint = self.hasher.hash_one(rows);
                let same = before.plain.as_ref();
                let same = same.filter(|plain| plain.fingerprint == fingerprint);
                Some(match same {
                    Some(plain) => Arc::clone(plain),
                    None => Arc::new(Plain::of(rows, fingerprint)?),
                })
            }
        };
        Ok(self)
    }

    /// Whether anything is checked.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.settings.is_on() || self.plain.is_some()
    }

    /// Files of 4.x, where they decide about somebody: all but the users that are known here, while those
    /// are asked for at all.
    #[must_use]
    pub fn plain_for(&self, name: &str, principal: &str) -> Option<&Plain> {
        let plain = self.plain.as_deref()?;
        let name = if name.is_empty() { principal } else { name };
        let is_known = self.settings.is_on() && self.users.contains_key(name);
        (!is_known).then_some(plain)
    }

    /// The user or the account of a name: who is decided about where it asks.
    #[must_use]
    pub fn decided(&self, name: &str) -> Option<&Arc<User>> {
        match self.plain_for(name, "") {
            Some(plain) => plain.account(name),
            None => self.user(name),
        }
    }

    /// A user by name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Users.
    #[must_use]
    pub fn users(&self) -> usize {
        self.users.len()
    }
}

impl Plain {
    fn of(rows: &PlainRows<'_>, fingerprint: u64) -> Result<Self, TableFault> {
        let fault = |name: &str, why| TableFault::User {
            name: name.to_owned(),
            why,
        };
        let white = rows.white.iter().map(|text| {
            Addresses::parse(text).map_err(|why| TableFault::Setting {
                name: "globalWhiteRemoteAddresses".to_owned(),
                value: (*text).to_owned(),
                why,
            })
        });
        let mut accounts = HashMap::with_capacity(rows.accounts.len());
        for row in &rows.accounts {
            let account = Account::of(row).map_err(|why| fault(row.name, why))?;
            let user = Arc::new(User::of_account(row, account));
            if accounts.insert(Box::from(row.name), user).is_some() {
                return Err(fault(row.name, "it is there twice"));
            }
        }
        Ok(Self {
            white: white.collect::<Result<_, _>>()?,
            accounts,
            fingerprint,
        })
    }

    /// Whether nobody who comes from there needs a signature.
    #[must_use]
    pub fn lets_in(&self, ip: Option<IpAddr>) -> bool {
        self.white.iter().any(|addresses| addresses.has(ip))
    }

    /// An account by name.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&Arc<User>> {
        self.accounts.get(name)
    }
}

fn fault_of(row: &UserRow<'_>, why: &'static str) -> TableFault {
    let name = row.name.to_owned();
    TableFault::User { name, why }
}

impl User {
    fn of(
        row: &UserRow<'_>,
        entries: &[&PolicyRow<'_>],
        fingerprint: u64,
    ) -> Result<Self, TableFault> {
        if row.name.trim_ascii().is_empty() {
            return Err(fault_of(row, "it has no name"));
        }
        let is_super = match row.kind {
            "Super" => true,
            "Normal" => false,
            _ => return Err(fault_of(row, "neither Super nor Normal")),
        };
        let is_enabled = match row.status {
            "enable" => true,
            "disable" => false,
            _ => return Err(fault_of(row, "neither enable nor disable")),
        };
        let mut draft = Draft::of(entries.len());
        for entry in entries {
            let (tier, pattern, entry) = entry.read()?;
            draft.add(tier, &pattern, entry);
        }
        Ok(Self {
            name: row.name.into(),
            key: (!row.secret.is_empty()).then(|| Key::of(row.secret)),
            is_super,
            is_enabled,
            policies: draft.finish(),
            account: None,
            fingerprint,
        })
    }

    fn of_account(row: &AccountRow<'_>, account: Account) -> Self {
        Self {
            name: row.name.into(),
            key: Some(Key::of(row.secret)),
            is_super: false,
            is_enabled: true,
            policies: Policies::default(),
            account: Some(account),
            fingerprint: 0,
        }
    }
}

impl PolicyRow<'_> {
    fn read(&self) -> Result<(Tier, Pattern<'_>, Entry), TableFault> {
        let fault = |why, value: &str| TableFault::Policy {
            subject: self.subject.to_owned(),
            resource: self.resource.to_owned(),
            why,
            value: value.to_owned(),
        };
        if !self.subject.starts_with(SUBJECT_PREFIX) {
            return Err(fault("its subject is no user", self.subject));
        }
        let tier = match self.policy {
            "Custom" => Tier::Custom,
            "Default" => Tier::Default,
            other => return Err(fault("neither Custom nor Default", other)),
        };
        let is_allow = match self.decision {
            "Allow" => true,
            "Deny" => false,
            other => return Err(fault("neither Allow nor Deny", other)),
        };
        let pattern = Pattern::parse(self.resource).map_err(|why| fault(why, self.resource))?;
        let mut actions = Actions::default();
        for name in &self.actions {
            let action = Actions::named(name).ok_or_else(|| fault("no such action", name))?;
            actions = actions.and(action);
        }
        let networks = self
            .sources
            .iter()
            .map(|text| Network::parse(text).ok_or_else(|| fault("no address and no range", text)));
        let entry = Entry {
            actions,
            networks: networks.collect::<Result<_, _>>()?,
            is_allow,
        };
        Ok((tier, pattern, entry))
    }
}
