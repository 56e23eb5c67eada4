//! The check of a request: its signature, then the pairs of its rule. Owns the tables in force and what was
//! refused; knows no connection.
//!
//! | step | refused with |
//! |---|---|
//! | neither a user nor a certificate | `username cannot be null.` |
//! | an unknown user or another signature | `check signature failed.`, for both |
//! | a disabled user, after a good signature | `User:N is disabled.` |
//! | a pair that no entry matches, or that is denied | the official texts (`refusals`) |
//!
//! Where files of 4.x decide, which is about everybody but the users that are known here:
//!
//! | step | |
//! |---|---|
//! | it comes from where nobody needs a signature | passes |
//! | no account, an unknown one, another signature | refused; no signature is needed from an account's own addresses |
//! | a pair that the account may not | refused; codes and texts are those of 4.9 |
//!
//! What is refused by itself is kept in [`Refusals`]; in a dry run it is kept and passes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::account::PlainRows;
use crate::allowed::Allowed;
use crate::asking::{Asking, Caller};
use crate::failures::{Failures, When};
use crate::fault::{RuleFault, TableFault};
use crate::refusals::{Reason, Refusal, Refusals};
use crate::resource::{Actions, Resource};
use crate::rules::{Asks, Rule, Rules, is_by_header_officially, is_unchecked_officially};
use crate::settings::Settings;
use crate::signature::{ACCESS_KEY, Key};
use crate::tables::{Plain, PolicyRow, Tables, User, UserRow};

/// A request to be checked.
#[derive(Debug)]
pub struct Asked<'a, S> {
    /// Its code.
    pub code: i32,
    /// The version of the client, as an ordinal.
    pub version: i32,
    /// The fields of its header, in the order of the frame.
    pub fields: &'a [(S, S)],
    /// Its body.
    pub body: &'a [u8],
}

// By hand: what is derived would ask that of the text too.
impl<S> Clone for Asked<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Asked<'_, S> {}

impl<'a, S: AsRef<str>> Asked<'a, S> {
    /// The value of a field; of one that occurs twice the last.
    fn field(&self, name: &str) -> Option<&'a str> {
        let mut found = self
            .fields
            .iter()
            .rev()
            .filter(|(known, _)| is_named(known.as_ref(), name));
        found.next().map(|(_, value)| value.as_ref())
    }
}

/// A request that passed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed<'t> {
    /// The user; none where none is needed.
    pub user: Option<&'t Arc<User>>,
    /// Whether more pairs, from its body or the store, have to be asked for ([`Access::decide`]).
    pub needs_body: bool,
}

/// What tables are made of.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// Users.
    pub users: &'a [UserRow<'a>],
    /// Entries of their policies.
    pub policies: &'a [PolicyRow<'a>],
    /// Files of 4.x, where they count.
    pub plain: Option<&'a PlainRows<'a>>,
}

/// Who wants to know of new tables.
type Listener = Box<dyn Fn() + Send + Sync>;

/// Access control of one server.
pub struct Access {
    /// What each code needs.
    pub rules: Rules,
    tables: Mutex<Arc<Tables>>,
    version: AtomicU64,
    listeners: Mutex<Vec<Listener>>,
    /// What was refused.
    pub refusals: Refusals,
    /// Wrong signatures of the last minute.
    pub failures: Failures,
    /// Signs for users that are not there, so that they take as long to be refused.
    nobody: Key,
}

impl fmt::Debug for Access {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Access(version {})", self.version())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Access {
    /// Access control with these rules, by request code; off until it has tables.
    ///
    /// # Errors
    /// The first rule that cannot be read.
    pub fn new<'a>(rules: impl IntoIterator<Item = (i32, &'a str)>) -> Result<Self, RuleFault> {
        Ok(Self {
            rules: Rules::read(rules)?,
            tables: Mutex::default(),
            version: AtomicU64::new(0),
            listeners: Mutex::default(),
            refusals: Refusals::default(),
            failures: Failures::default(),
            nobody: Key::of(""),
        })
    }

    /// Puts other tables in force; returns their version.
    ///
    /// # Errors
    /// The first row that cannot be taken; the tables before stay.
    pub fn replace(&self, rows: Rows<'_>, settings: Settings) -> Result<u64, TableFault> {
        // One replacement at a time: the next one comes after this one.
        let mut tables = locked(&self.tables);
        let next = tables.next(rows.users, rows.policies, settings)?;
        let next = next.with_plain(&tables, rows.plain)?;
        let version = next.version;
        let before = std::mem::replace(&mut *tables, Arc::new(next));
        self.version.store(version, Ordering::Release);
        drop(tables);
        // Many users: not under the lock.
        drop(before);
        for listener in &*locked(&self.listeners) {
            listener();
        }
        Ok(version)
    }

    /// Calls `listener` after each replacement, on the thread that replaced.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        locked(&self.listeners).push(Box::new(listener));
    }

    /// The version of the tables in force.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The tables in force: whoever keeps them compares the versions.
    #[must_use]
    pub fn tables(&self) -> Arc<Tables> {
        Arc::clone(&locked(&self.tables))
    }

    /// Checks a request.
    ///
    /// # Errors
    /// The refusal, which is kept already.
    pub fn check<'t, S: AsRef<str>>(
        &self,
        tables: &'t Tables,
        asked: Asked<'_, S>,
        caller: Caller<'_>,
        allowed: &mut Allowed,
    ) -> Result<Passed<'t>, Refusal> {
        let settings = &tables.settings;
        let rule = self.rules.of(asked.code);
        if !tables.is_on() || *rule == Rule::Open {
            return Ok(Passed::default());
        }
        if tables.plain.is_some() {
            let name = asked.field(ACCESS_KEY).unwrap_or_default();
            if let Some(plain) = tables.plain_for(name, caller.principal) {
                return self.check_plain((tables, plain), &asked, caller);
            }
        }
        let user = self.authenticate(tables, &asked, caller)?;
        let passed = Passed {
            user,
            needs_body: false,
        };
        let code = asked.code;
        if !asks_rights(settings, code) {
            return Ok(passed);
        }
        let asking = Asking {
            refusals: &self.refusals,
            tables,
            caller,
            code,
        };
        let (Rule::Pairs(_) | Rule::Super, Some(user)) = (rule, user) else {
            if *rule != Rule::Any {
                asking.refuse("", None, Reason::NoUser)?;
            }
            return Ok(passed);
        };
        if asking.is_super(user) {
            return Ok(passed);
        }
        let Rule::Pairs(pairs) = rule else {
            asking.refuse(&user.name, None, asking.of_super(user, Reason::NeedsSuper))?;
            return Ok(passed);
        };
        let is_by_header = settings.is_like_official && is_by_header_officially(code);
        let allowed = allowed.of(tables.version, user);
        for asks in pairs.of_header(&settings.cluster, |name| asked.field(name)) {
            match asks {
                Asks::Pair(resource, actions) => {
                    if !allowed.has(&resource, actions) && asking.pair(user, &resource, actions)? {
                        allowed.keep(&resource, actions);
                    }
                }
                Asks::Absent(resource) if !settings.is_like_official => {
                    let about = (&resource, Actions::default());
                    let reason = asking.of_super(user, Reason::NoPolicy);
                    asking.refuse(&user.name, Some(about), reason)?;
                }
                Asks::Nothing | Asks::Absent(_) => {}
            }
        }
        Ok(Passed {
            needs_body: pairs.has_body && !is_by_header,
            ..passed
        })
    }

    /// When the refusal of a request is answered: that of many wrong signatures is late.
    pub fn answered(&self, tables: &Tables, refusal: &Refusal) -> When {
        let free = tables.settings.failures_free;
        let is_guess = matches!(
            refusal.reason,
            Reason::BadSignature | Reason::AccountSignature | Reason::UnknownAccount
        );
        if !is_guess || free == 0 {
            return When::Now;
        }
        self.failures.note(&refusal.source, refusal.time_ms, free)
    }

    /// Decides about pairs that a request asks for beside its header: all must pass.
    ///
    /// # Errors
    /// The refusal of the first that does not, which is kept already.
    pub fn decide<'a>(
        &self,
        tables: &Tables,
        (user, code): (&str, i32),
        caller: Caller<'_>,
        pairs: impl IntoIterator<Item = (Resource<'a>, Actions)>,
    ) -> Result<(), Refusal> {
        let asking = Asking {
            refusals: &self.refusals,
            tables,
            caller,
            code,
        };
        if let Some(plain) = tables.plain_for(user, "") {
            return asking.plain_pairs(plain, user, pairs);
        }
        if !asks_rights(&tables.settings, code) {
            return Ok(());
        }
        let Some(known) = tables.user(user).filter(|user| user.is_enabled) else {
            let is_nobody = user.is_empty();
            let reason = if is_nobody {
                Reason::NoUser
            } else {
                Reason::UserGone
            };
            return asking.refuse(user, None, reason);
        };
        if asking.is_super(known) {
            return Ok(());
        }
        for (resource, actions) in pairs {
            let (resource, actions) = resource.meant(actions);
            asking.pair(known, &resource, actions)?;
        }
        Ok(())
    }

    /// Checks a request about which files of 4.x decide.
    fn check_plain<'t, S: AsRef<str>>(
        &self,
        (tables, plain): (&'t Tables, &'t Plain),
        asked: &Asked<'_, S>,
        caller: Caller<'_>,
    ) -> Result<Passed<'t>, Refusal> {
        let (settings, code) = (&tables.settings, asked.code);
        let is_open = settings.is_on() && settings.open_to_anybody.contains(&code);
        if is_open || plain.lets_in(caller.source.ip()) {
            return Ok(Passed::default());
        }
        let asking = Asking {
            refusals: &self.refusals,
            tables,
            caller,
            code,
        };
        let name = asked.field(ACCESS_KEY);
        let refused = |reason| {
            let refusal = asking.refusal(name.unwrap_or_default(), None, reason);
            asking.noted(refusal, false)
        };
        let found = name.and_then(|name| plain.account(name));
        let found = found.and_then(|user| Some((user, user.account.as_ref()?, user.key.as_ref()?)));
        let Some((user, account, key)) = found else {
            let reason = name.map_or(Reason::NoAccount, |_unknown| Reason::UnknownAccount);
            return refused(reason).map(|()| Passed::default());
        };
        let mut passed = Passed {
            user: Some(user),
            needs_body: false,
        };
        if account.white.has(caller.source.ip()) {
            return Ok(passed);
        }
        if settings.requires_tls && !caller.is_tls {
            refused(Reason::NeedsTls)?;
        }
        if !key.has_signed(asked.fields, asked.body, asked.version) {
            refused(Reason::AccountSignature)?;
        }
        if settings.is_on() && settings.open_to_users.contains(&code) {
            return Ok(passed);
        }
        match self.rules.of(code) {
            Rule::Open | Rule::Any => {}
            Rule::Super if account.is_full_admin() => {}
            Rule::Super => asking.refuse(&user.name, None, Reason::NeedsAdmin)?,
            Rule::Pairs(pairs) => {
                for asks in pairs.of_header(&settings.cluster, |name| asked.field(name)) {
                    match asks {
                        Asks::Pair(resource, actions) => {
                            asking.plain_pair(&user.name, account, &resource, actions)?;
                        }
                        Asks::Absent(resource)
                            if !settings.is_like_official && !account.is_full_admin() =>
                        {
                            let about = (&resource, Actions::default());
                            asking.refuse(&user.name, Some(about), Reason::NoPermission)?;
                        }
                        Asks::Nothing | Asks::Absent(_) => {}
                    }
                }
                passed.needs_body = pairs.has_body;
            }
        }
        Ok(passed)
    }

    /// The user of a request; none where none is needed, or a dry run lets it pass.
    fn authenticate<'t, S: AsRef<str>>(
        &self,
        tables: &'t Tables,
        asked: &Asked<'_, S>,
        caller: Caller<'_>,
    ) -> Result<Option<&'t Arc<User>>, Refusal> {
        let settings = &tables.settings;
        let name = asked.field(ACCESS_KEY).unwrap_or_default();
        if settings.is_like_official && !settings.authenticates {
            return Ok(tables.user(name));
        }
        let found = if settings.requires_tls && !caller.is_tls {
            Err(Reason::NeedsTls)
        } else if !name.is_empty() {
            self.signer(tables, name, asked)
        } else if caller.principal.is_empty() {
            Err(Reason::NoUser)
        } else {
            tables.user(caller.principal).ok_or(Reason::BadSignature)
        };
        let found = match found {
            Ok(user) if !user.is_enabled => Err(Reason::Disabled),
            found => found,
        };
        let reason = match found {
            Ok(user) => return Ok(Some(user)),
            Err(_) if settings.open_to_anybody.contains(&asked.code) => return Ok(None),
            Err(reason) => reason,
        };
        let asking = Asking {
            refusals: &self.refusals,
            tables,
            caller,
            code: asked.code,
        };
        let name = if name.is_empty() {
            caller.principal
        } else {
            name
        };
        let refusal = asking.refusal(name, None, reason);
        // Without `authenticates` a signature is needed for the rights alone, and a dry run is about them.
        let passes = settings.is_dry_run && !settings.authenticates;
        asking.noted(refusal, passes).map(|()| None)
    }

    fn signer<'t, S: AsRef<str>>(
        &self,
        tables: &'t Tables,
        name: &str,
        asked: &Asked<'_, S>,
    ) -> Result<&'t Arc<User>, Reason> {
        let user = tables.user(name);
        let key = user.and_then(|user| user.key.as_ref());
        let is_known = key.is_some();
        let has_signed =
            key.unwrap_or(&self.nobody)
                .has_signed(asked.fields, asked.body, asked.version);
        user.filter(|_| is_known && has_signed)
            .ok_or(Reason::BadSignature)
    }
}

/// Whether a field has this name. Of a header nearly all names end otherwise: their text is not compared.
#[inline]
fn is_named(known: &str, name: &str) -> bool {
    let (known, name) = (known.as_bytes(), name.as_bytes());
    known.len() == name.len() && known.last() == name.last() && known == name
}

/// Whether a user needs rights for requests of a code, beside a good signature.
fn asks_rights(settings: &Settings, code: i32) -> bool {
    let is_unchecked = settings.is_like_official && is_unchecked_officially(code);
    settings.authorizes && !is_unchecked && !settings.open_to_users.contains(&code)
}
