//! Refusals: their texts, which are the official ones, and those of the last time within a bound, for the
//! audit. Knows no connection; the time is passed in.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::resource::{Actions, Kind, shown};

/// Refusals that wait to be taken: a flood of them is counted, not kept. Some 300 bytes each, so 1.2 MB.
pub const REFUSALS_MAX: usize = 4_096;

/// Codes of answers (`ResponseCode`).
const SYSTEM_ERROR: i32 = 1;
const NO_PERMISSION: i32 = 16;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It names no user.
    NoUser,
    /// The user is not known or the signature is not its: one text, so that nobody learns which.
    BadSignature,
    /// The user is disabled.
    Disabled,
    /// It came in clear.
    NeedsTls,
    /// The user may not act as a Super user from there.
    SuperFrom,
    /// Super users only.
    NeedsSuper,
    /// No entry matches.
    NoPolicy,
    /// The entry that decides denies.
    Denied,
    /// A user that passed before is not known any more.
    UserGone,
    /// By files of 4.x: it names no account.
    NoAccount,
    /// By files of 4.x: an account that is not known.
    UnknownAccount,
    /// By files of 4.x: the signature is not that of the account.
    AccountSignature,
    /// By files of 4.x: administrators only.
    NeedsAdmin,
    /// By files of 4.x: the account has no permission.
    NoPermission,
}

impl Reason {
    /// A word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoUser => "no user",
            Self::BadSignature => "bad signature",
            Self::Disabled => "disabled",
            Self::NeedsTls => "needs TLS",
            Self::SuperFrom => "super from",
            Self::NeedsSuper => "needs super",
            Self::NoPolicy => "no policy",
            Self::Denied => "denied",
            Self::UserGone => "user gone",
            Self::NoAccount => "no account",
            Self::UnknownAccount => "unknown account",
            Self::AccountSignature => "account signature",
            Self::NeedsAdmin => "needs admin",
            Self::NoPermission => "no permission",
        }
    }

    /// The code of the answer.
    #[must_use]
    pub const fn code(self) -> i32 {
        if self.is_plain() {
            SYSTEM_ERROR
        } else {
            NO_PERMISSION
        }
    }

    /// Whether it is answered as brokers of 4.9 answer: code 1, and the text of an `AclException`.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        matches!(
            self,
            Self::NoAccount
                | Self::UnknownAccount
                | Self::AccountSignature
                | Self::NeedsAdmin
                | Self::NoPermission
        )
    }
}

/// A refusal, or what would have been one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When, Unix ms.
    pub time_ms: i64,
    /// The request code; 0 where it is not known.
    pub code: i32,
    /// The user, as the request names it; empty without one.
    pub user: Box<str>,
    /// From where, without a port.
    pub source: Box<str>,
    /// The kind of the resource that it is about, where it is about one.
    pub kind: Option<Kind>,
    /// Its name.
    pub name: Box<str>,
    /// What was asked for.
    pub actions: Actions,
    /// Why.
    pub reason: Reason,
    /// Whether it passed all the same: a dry run.
    pub is_dry_run: bool,
}

impl Refusal {
    /// The resource as texts name it; empty without one.
    #[must_use]
    pub fn resource(&self) -> String {
        let name = &self.name;
        self.kind
            .map_or_else(String::new, |kind| format!("{}:{name}", kind.name()))
    }
}

/// What the text of 4.9 begins with.
const ACL_EXCEPTION: &str = "org.apache.rocketmq.acl.common.AclException: ";

/// The official text; the code of the answer is 16, or 1 where files of 4.x decide.
impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, source, .. } = self;
        let no_permission = |out: &mut fmt::Formatter<'_>, detail: &str| {
            let resource = self.resource();
            write!(
                out,
                "User:{user} has no permission to access {resource} from {source}, {detail}"
            )
        };
        if self.reason.is_plain() {
            out.write_str(ACL_EXCEPTION)?;
        }
        match self.reason {
            Reason::NoAccount => out.write_str("No accessKey is configured"),
            Reason::UnknownAccount => write!(out, "No acl config for {user}"),
            Reason::AccountSignature => {
                write!(out, "Check signature failed for accessKey={user}")
            }
            Reason::NeedsAdmin => write!(
                out,
                "Need admin permission for request code={}, but accessKey={user} is not",
                self.code
            ),
            Reason::NoPermission => {
                let kind = match self.kind {
                    Some(Kind::Group) => "group",
                    _ => "topic",
                };
                write!(out, "No default permission for {kind}:{}", self.name)
            }
            Reason::NoUser => out.write_str("username cannot be null."),
            Reason::BadSignature => out.write_str("check signature failed."),
            Reason::Disabled => write!(out, "User:{user} is disabled."),
            Reason::UserGone => write!(out, "User:{user} not found."),
            Reason::NeedsTls => out.write_str("this request needs a connection with TLS."),
            Reason::SuperFrom => write!(
                out,
                "User:{user} may not act as a super user from {source}."
            ),
            Reason::NeedsSuper => write!(out, "User:{user} is not a super user."),
            Reason::NoPolicy => no_permission(out, "no matched policies."),
            Reason::Denied => no_permission(out, "the decision is deny."),
        }
    }
}

/// What was refused since the last time that somebody asked.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    refusals: VecDeque<Refusal>,
    left_out: u64,
}

impl Refusals {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing that panics runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps one; beyond [`REFUSALS_MAX`] it is counted.
    pub fn note(&self, refusal: Refusal) {
        let mut kept = self.kept();
        if kept.refusals.len() < REFUSALS_MAX {
            kept.refusals.push_back(refusal);
        } else {
            kept.left_out += 1;
        }
    }

    /// Takes those that are kept, in their order, and how many were left out behind them.
    pub fn take(&self) -> (Vec<Refusal>, u64) {
        let Kept { refusals, left_out } = std::mem::take(&mut *self.kept());
        (refusals.into(), left_out)
    }
}

/// A text of a request, as a refusal keeps it.
pub(crate) fn kept_text(text: &str) -> Box<str> {
    shown(text).into()
}
