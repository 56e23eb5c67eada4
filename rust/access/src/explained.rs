//! What a decision rests on, for whoever asks why. Decides as a check does; keeps nothing.

use crate::account::Decision;
use crate::policies::Matched;
use crate::resource::{Actions, Resource};
use crate::source::Source;
use crate::tables::Tables;

/// Of no request that 4.9 has rules of its own for.
const ANY_CODE: i32 = 0;

/// What a decision rests on.
#[derive(Debug)]
pub struct Explained<'a> {
    /// Whether it is allowed.
    pub is_allowed: bool,
    /// Why: a sentence.
    pub why: String,
    /// The entries that match, in the order of precedence: the first decides, unless the user is a Super
    /// one.
    pub matched: Vec<Matched<'a>>,
}

impl<'a> Explained<'a> {
    /// Returns what a decision rests on; nothing is kept of it.
    #[must_use]
    pub fn of(
        tables: &'a Tables,
        user: &str,
        source: &Source,
        (resource, actions): (Resource<'a>, Actions),
    ) -> Self {
        let (resource, actions) = resource.meant(actions);
        let Some(user) = tables.decided(user) else {
            return Self {
                is_allowed: false,
                why: format!("User:{user} is not found."),
                matched: Vec::new(),
            };
        };
        if let Some(account) = &user.account {
            let is_allowed =
                account.decides(ANY_CODE, &resource, actions, false) == Decision::Allowed;
            let why = if is_allowed {
                "its account of 4.x allows it"
            } else {
                "its account of 4.x does not allow it"
            };
            return Self {
                is_allowed,
                why: why.to_owned(),
                matched: Vec::new(),
            };
        }
        let matched: Vec<_> = user
            .policies
            .matching(resource, actions, source.ip())
            .collect();
        let is_from = tables.settings.super_from.has(source);
        let (is_allowed, why) = if !user.is_enabled {
            (false, "the user is disabled")
        } else if user.is_super && is_from {
            (true, "the user is a Super user")
        } else {
            match matched.first() {
                Some(first) if first.entry.is_allow => (true, "the deciding entry allows it"),
                Some(_) => (false, "the deciding entry denies it"),
                None if user.is_super => {
                    (false, "no Super user may come from there (mqcoreSuperFrom)")
                }
                None => (false, "no entry matches"),
            }
        };
        Self {
            is_allowed,
            why: why.to_owned(),
            matched,
        }
    }
}
