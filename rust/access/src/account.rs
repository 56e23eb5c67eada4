//! Accounts of access control of 4.x, and what they may (`PlainPermissionManager`, `Permission` of 4.9.8).
//! Knows no request but its code, and no signature.
//!
//! 4.9 looks at topics and groups of nine requests, keeps five for administrators, and lets everybody who signs
//! do the rest. Here the rest goes by what the rules of requests ask for:
//!
//! | asks for | may |
//! |---|---|
//! | Pub or Sub | who has the permission, for whatever request |
//! | Get or List, of a request that 4.9 does not look at | who signs |
//! | anything else | administrators |

use hashbrown::HashMap;

use crate::addresses::Addresses;
use crate::resource::{Actions, Kind, Resource};

/// What an account may do with a topic or as a group: `Pub`, `Sub`, both; none: `DENY`.
pub type Permission = Actions;

/// An account as its owner has it.
#[derive(Clone, Hash)]
pub struct AccountRow<'a> {
    /// Its access key.
    pub name: &'a str,
    /// Its secret key.
    pub secret: &'a str,
    /// From where it needs no signature.
    pub white: &'a str,
    /// Whether it may administrate.
    pub is_admin: bool,
    /// What it may with topics and as groups that are not listed.
    pub default: (Permission, Permission),
    /// What it may with topics.
    pub topics: Vec<(&'a str, Permission)>,
    /// What it may as groups.
    pub groups: Vec<(&'a str, Permission)>,
}

/// All of 4.x.
#[derive(Clone, Hash)]
pub struct PlainRows<'a> {
    /// From where nobody needs a signature.
    pub white: Vec<&'a str>,
    /// The accounts.
    pub accounts: Vec<AccountRow<'a>>,
}

/// What an account may.
#[derive(Debug)]
pub struct Account {
    /// From where it needs no signature.
    pub white: Addresses,
    /// Whether it may administrate.
    pub is_admin: bool,
    default: (Permission, Permission),
    topics: HashMap<Box<str>, Permission>,
    groups: HashMap<Box<str>, Permission>,
}

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allowed,
    /// An administrator may.
    NeedsAdmin,
    /// The permission is not there.
    NoPermission,
}

/// Requests whose topics and groups 4.9 looks at.
const LOOKED_AT: [i32; 9] = [10, 11, 12, 15, 34, 35, 36, 38, 310];
/// Requests that 4.9 keeps for administrators (`Permission.ADMIN_CODE`).
const OF_ADMINS: [i32; 5] = [17, 25, 200, 207, 215];
/// What traces are sent to: by everybody.
const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
const USES: Actions = Actions(Actions::PUB.0 | Actions::SUB.0);
const READS: Actions = Actions(Actions::GET.0 | Actions::LIST.0);

impl Account {
    pub(crate) fn of(row: &AccountRow<'_>) -> Result<Self, &'static str> {
        let table = |rows: &[(&str, Permission)]| {
            // Of one that is there twice the last counts.
            rows.iter()
                .map(|(name, perm)| (Box::from(*name), *perm))
                .collect()
        };
        Ok(Self {
            white: Addresses::parse(row.white)?,
            is_admin: row.is_admin,
            default: row.default,
            topics: table(&row.topics),
            groups: table(&row.groups),
        })
    }

    /// Whether it may do everything: an administrator without permissions of its own.
    #[must_use]
    pub fn is_full_admin(&self) -> bool {
        self.is_admin && self.topics.is_empty() && self.groups.is_empty()
    }

    /// Whether it may do one of some actions with a resource, for a request.
    #[must_use]
    pub fn decides(
        &self,
        code: i32,
        resource: &Resource<'_>,
        actions: Actions,
        like_official: bool,
    ) -> Decision {
        let is_looked_at = LOOKED_AT.contains(&code);
        if self.is_full_admin() {
            return Decision::Allowed;
        }
        if like_official && !is_looked_at {
            return if OF_ADMINS.contains(&code) && !self.is_admin {
                Decision::NeedsAdmin
            } else {
                Decision::Allowed
            };
        }
        if !is_looked_at && actions.has_any(READS) {
            return Decision::Allowed;
        }
        let own = match resource.kind {
            Kind::Topic if actions.has_any(USES) => {
                let own = self.topics.get(resource.name).copied();
                own.unwrap_or(self.default.0)
            }
            Kind::Group if actions.has_any(USES) => {
                let own = self.groups.get(resource.name).copied();
                own.unwrap_or(self.default.1)
            }
            _ if self.is_admin => return Decision::Allowed,
            _ => return Decision::NeedsAdmin,
        };
        let is_trace = resource.kind == Kind::Topic
            && resource.name == TRACE_TOPIC
            && actions.has_any(Actions::PUB);
        if is_trace || own.has_any(Actions(actions.0 & USES.0)) {
            Decision::Allowed
        } else {
            Decision::NoPermission
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Permission = Actions(0);

    fn account(is_admin: bool, topics: &[(&str, Permission)]) -> Account {
        let row = AccountRow {
            name: "account",
            secret: "12345678",
            white: "",
            is_admin,
            default: (NONE, Actions::SUB),
            topics: topics.to_vec(),
            groups: Vec::new(),
        };
        Account::of(&row).unwrap()
    }

    fn topic(name: &str) -> Resource<'_> {
        Resource {
            kind: Kind::Topic,
            name,
        }
    }

    #[test]
    fn permissions_of_topics_and_groups_decide_and_defaults_for_the_rest() {
        let app = account(false, &[("t", Actions::PUB), ("d", NONE)]);
        let decides = |resource, actions| app.decides(310, &resource, actions, false);
        assert_eq!(decides(topic("t"), Actions::PUB), Decision::Allowed);
        assert_eq!(decides(topic("t"), Actions::SUB), Decision::NoPermission);
        assert_eq!(decides(topic("d"), Actions::PUB), Decision::NoPermission);
        assert_eq!(decides(topic("u"), Actions::PUB), Decision::NoPermission);
        assert_eq!(
            decides(Resource::group("g"), Actions::SUB),
            Decision::Allowed
        );
        let trace = topic(TRACE_TOPIC);
        assert_eq!(decides(trace, Actions::PUB), Decision::Allowed);
        assert_eq!(decides(trace, Actions::SUB), Decision::NoPermission);
    }

    #[test]
    fn what_4_9_does_not_look_at_is_read_by_all_used_by_permission_and_changed_by_administrators() {
        let app = account(false, &[("t", Actions::SUB)]);
        let get = Actions::SUB.and(Actions::GET);
        let (yes, admin, no) = (
            Decision::Allowed,
            Decision::NeedsAdmin,
            Decision::NoPermission,
        );
        let check = |code, name, actions, closed, open| {
            let resource = match name {
                "" => Resource {
                    kind: Kind::Cluster,
                    name: "c",
                },
                name => topic(name),
            };
            let decides = |official| app.decides(code, &resource, actions, official);
            assert_eq!((decides(false), decides(true)), (closed, open), "{code}");
        };
        check(30, "u", Actions::GET, yes, yes);
        check(14, "u", get, yes, yes);
        check(12, "u", get, no, no);
        check(12, "t", get, yes, yes);
        check(361, "u", Actions::SUB, no, yes);
        check(361, "t", Actions::SUB, yes, yes);
        check(320, "t", Actions::PUB, no, yes);
        check(17, "t", Actions::CREATE, admin, admin);
        check(25, "", Actions::UPDATE, admin, admin);
        check(3001, "", Actions::UPDATE, admin, yes);
        check(26, "", Actions::GET, yes, yes);
    }

    #[test]
    fn an_administrator_with_permissions_of_its_own_goes_by_them() {
        let full = account(true, &[]);
        let bound = account(true, &[("t", Actions::PUB)]);
        let decides =
            |of: &Account, code, name, actions| of.decides(code, &topic(name), actions, false);
        assert_eq!(decides(&full, 310, "u", Actions::PUB), Decision::Allowed);
        assert_eq!(
            decides(&bound, 310, "u", Actions::PUB),
            Decision::NoPermission
        );
        assert_eq!(decides(&bound, 310, "t", Actions::PUB), Decision::Allowed);
        assert_eq!(decides(&bound, 17, "u", Actions::CREATE), Decision::Allowed);
    }
}
