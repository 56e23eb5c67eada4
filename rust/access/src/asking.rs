//! A request while it is decided on: who asks, what about, and the refusal where it may not. Knows no
//! signature.

use crate::account::{Account, Decision};
use crate::refusals::{Reason, Refusal, Refusals, kept_text};
use crate::resource::{Actions, Resource};
use crate::source::Source;
use crate::tables::{Plain, Tables, User};

/// Who asks, as its connection knows it.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// From where.
    pub source: &'a Source,
    /// Whether the connection has TLS.
    pub is_tls: bool,
    /// The user that a checked certificate names; empty without one.
    pub principal: &'a str,
    /// Gives the time, Unix ms: asked for what is refused.
    pub now_ms: &'a dyn Fn() -> i64,
}

/// A request while it is decided on.
pub(crate) struct Asking<'a> {
    pub(crate) refusals: &'a Refusals,
    pub(crate) tables: &'a Tables,
    pub(crate) caller: Caller<'a>,
    pub(crate) code: i32,
}

impl Asking<'_> {
    /// Whether a user may do everything, from where it is.
    pub(crate) fn is_super(&self, user: &User) -> bool {
        user.is_super && self.tables.settings.super_from.has(self.caller.source)
    }

    /// Why a Super user is refused: it comes from elsewhere.
    pub(crate) fn of_super(&self, user: &User, reason: Reason) -> Reason {
        if user.is_super {
            Reason::SuperFrom
        } else {
            reason
        }
    }

    /// Decides about one pair; whether it is allowed, and not only passes in a dry run.
    pub(crate) fn pair(
        &self,
        user: &User,
        resource: &Resource<'_>,
        actions: Actions,
    ) -> Result<bool, Refusal> {
        let ip = self.caller.source.ip();
        let reason = match user.policies.deciding(resource, actions, ip) {
            Some(entry) if entry.is_allow => return Ok(true),
            Some(_) => Reason::Denied,
            None => self.of_super(user, Reason::NoPolicy),
        };
        self.refuse(&user.name, Some((resource, actions)), reason)?;
        Ok(false)
    }

    /// Decides about one pair by files of 4.x.
    pub(crate) fn plain_pair(
        &self,
        name: &str,
        account: &Account,
        resource: &Resource<'_>,
        actions: Actions,
    ) -> Result<(), Refusal> {
        let like_official = self.tables.settings.is_like_official;
        let reason = match account.decides(self.code, resource, actions, like_official) {
            Decision::Allowed => return Ok(()),
            Decision::NeedsAdmin => Reason::NeedsAdmin,
            Decision::NoPermission => Reason::NoPermission,
        };
        self.refuse(name, Some((resource, actions)), reason)
    }

    /// Decides about pairs beside the header by files of 4.x; who has passed without an account came from
    /// where nobody needs one.
    pub(crate) fn plain_pairs<'a>(
        &self,
        plain: &Plain,
        name: &str,
        pairs: impl IntoIterator<Item = (Resource<'a>, Actions)>,
    ) -> Result<(), Refusal> {
        let ip = self.caller.source.ip();
        if plain.lets_in(ip) {
            return Ok(());
        }
        let user = plain.account(name);
        let Some(account) = user.and_then(|user| user.account.as_ref()) else {
            let reason = if name.is_empty() {
                Reason::NoAccount
            } else {
                Reason::UnknownAccount
            };
            return self.refuse(name, None, reason);
        };
        if account.white.has(ip) {
            return Ok(());
        }
        for (resource, actions) in pairs {
            let (resource, actions) = resource.meant(actions);
            self.plain_pair(name, account, &resource, actions)?;
        }
        Ok(())
    }

    /// Refuses, or passes in a dry run; either is kept.
    pub(crate) fn refuse(
        &self,
        user: &str,
        about: Option<(&Resource<'_>, Actions)>,
        reason: Reason,
    ) -> Result<(), Refusal> {
        let refusal = self.refusal(user, about, reason);
        self.noted(refusal, self.tables.settings.is_dry_run)
    }

    pub(crate) fn refusal(
        &self,
        user: &str,
        about: Option<(&Resource<'_>, Actions)>,
        reason: Reason,
    ) -> Refusal {
        Refusal {
            time_ms: (self.caller.now_ms)(),
            code: self.code,
            user: kept_text(user),
            source: self.caller.source.text().into(),
            kind: about.map(|(resource, _)| resource.kind),
            name: kept_text(about.map_or("", |(resource, _)| resource.name)),
            actions: about.map_or(Actions::default(), |(_, actions)| actions),
            reason,
            is_dry_run: false,
        }
    }

    /// Keeps a refusal; in a dry run it passes.
    pub(crate) fn noted(&self, refusal: Refusal, is_dry_run: bool) -> Result<(), Refusal> {
        let refusal = Refusal {
            is_dry_run,
            ..refusal
        };
        self.refusals.note(refusal.clone());
        if is_dry_run { Ok(()) } else { Err(refusal) }
    }
}
