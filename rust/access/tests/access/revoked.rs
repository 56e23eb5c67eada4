//! Tables that are replaced: what stays, what is notified, what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mqcore_access::settings::Settings;
use mqcore_access::{Access, PolicyRow, UserRow};

use super::{policy, rows, user};

fn replace(
    access: &Access,
    users: &[UserRow<'_>],
    policies: &[PolicyRow<'_>],
) -> Result<u64, String> {
    let settings = Settings::read([("authenticate", "true")]).unwrap();
    access
        .replace(rows(users, policies), settings)
        .map_err(|fault| fault.to_string())
}

#[test]
fn users_whose_rows_are_the_same_are_taken_over() {
    let access = Access::new([]).unwrap();
    let heard = Arc::new(AtomicU64::new(0));
    let hears = Arc::clone(&heard);
    access.listen(move || {
        hears.fetch_add(1, Ordering::Relaxed);
    });
    let users = [user("a", "Normal", "enable"), user("b", "Normal", "enable")];
    let one = policy("User:a Custom Topic:t Sub - Allow");
    assert_eq!(replace(&access, &users, std::slice::from_ref(&one)), Ok(1));
    let before = access.tables();
    assert_eq!(
        replace(
            &access,
            &users,
            &[one, policy("User:b Custom Topic:t Sub - Deny")]
        ),
        Ok(2)
    );
    let after = access.tables();
    let is_same = |name: &str| Arc::ptr_eq(before.user(name).unwrap(), after.user(name).unwrap());
    assert!(is_same("a"));
    assert!(!is_same("b"));
    assert_eq!(heard.load(Ordering::Relaxed), 2);
    assert_eq!(access.version(), 2);
}

#[test]
fn a_bad_row_is_named_and_changes_nothing() {
    let access = Access::new([]).unwrap();
    let good = user("a", "Normal", "enable");
    replace(&access, &[good], &[]).unwrap();
    for (users, policies, named) in [
        (
            vec![user("b", "Admin", "enable")],
            vec![],
            "user \"b\": neither Super nor Normal",
        ),
        (
            vec![user("b", "Normal", "on")],
            vec![],
            "user \"b\": neither enable nor disable",
        ),
        (
            vec![user(" ", "Normal", "enable")],
            vec![],
            "user \" \": it has no name",
        ),
        (vec![good, good], vec![], "user \"a\": it is there twice"),
        (
            vec![good],
            vec!["User:a Other * Sub - Allow"],
            "neither Custom nor Default",
        ),
        (
            vec![good],
            vec!["User:a Custom * Sub - Maybe"],
            "neither Allow nor Deny",
        ),
        (
            vec![good],
            vec!["User:a Custom * Any - Allow"],
            "no such action: \"Any\"",
        ),
        (
            vec![good],
            vec!["User:a Custom * Sub 10.0.0.* Allow"],
            "no address and no range",
        ),
        (
            vec![good],
            vec!["User:a Custom Topic Sub - Allow"],
            "no kind before a colon",
        ),
        (
            vec![],
            vec!["User:gone Custom Topic Sub - Allow"],
            "no kind before a colon",
        ),
        (
            vec![good],
            vec!["Role:a Custom * Sub - Allow"],
            "its subject is no user",
        ),
    ] {
        let policies: Vec<_> = policies.iter().map(|text| policy(text)).collect();
        let fault = replace(&access, &users, &policies).unwrap_err();
        assert!(fault.contains(named), "{fault}");
    }
    assert_eq!(access.version(), 1);
    assert!(access.tables().user("a").is_some());
    let shown = format!("{access:?} {:?}", access.tables());
    assert!(!shown.contains(super::SECRET), "{shown}");
}
