//! Access control as a whole: requests signed, checked and decided on.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

mod checks;
mod fuzz;
mod model;
mod order;
mod plain;
mod revoked;
mod vectors;

use mqcore_access::settings::Settings;
use mqcore_access::{
    Access, Asked, Caller, Passed, PolicyRow, Refusal, Rows, Source, Tables, UserRow,
};

/// When everything happens, Unix ms.
const NOW_MS: i64 = 1_795_249_596_000;
const SECRET: &str = "12345678";

fn user<'a>(name: &'a str, kind: &'a str, status: &'a str) -> UserRow<'a> {
    UserRow {
        name,
        secret: SECRET,
        kind,
        status,
    }
}

/// An entry: `User:u Custom Topic:a* Pub/Sub 10.0.0.0/8 Allow`, `-` for anywhere.
fn policy(text: &str) -> PolicyRow<'_> {
    let parts: Vec<_> = text.split(' ').collect();
    let [subject, policy, resource, actions, sources, decision] = parts[..] else {
        panic!("{text}");
    };
    PolicyRow {
        subject,
        policy,
        resource,
        actions: actions.split('/').collect(),
        sources: sources.split(',').filter(|source| *source != "-").collect(),
        decision,
    }
}

/// A signed request.
#[derive(Clone)]
struct Signed {
    code: i32,
    version: i32,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Signed {
    fn by(user: &str, secret: &str, code: i32, fields: &[(&str, &str)]) -> Self {
        let mut fields: Vec<_> = fields
            .iter()
            .map(|(n, v)| (String::from(*n), String::from(*v)))
            .collect();
        fields.push(("AccessKey".into(), user.into()));
        let body = b"body".to_vec();
        let signature = mqcore_access::signature::Key::of(secret).sign(&fields, &body);
        fields.push(("Signature".into(), signature));
        Self {
            code,
            version: 409,
            fields,
            body,
        }
    }

    fn check<'t>(
        &self,
        access: &Access,
        tables: &'t Tables,
        from: &str,
    ) -> Result<Passed<'t>, Refusal> {
        self.check_as(access, tables, (from, false, ""))
    }

    fn check_as<'t>(
        &self,
        access: &Access,
        tables: &'t Tables,
        (from, is_tls, principal): (&str, bool, &str),
    ) -> Result<Passed<'t>, Refusal> {
        let source = Source::of(from);
        let asked = Asked {
            code: self.code,
            version: self.version,
            fields: &self.fields,
            body: &self.body,
        };
        let caller = Caller {
            source: &source,
            is_tls,
            principal,
            now_ms: &|| NOW_MS,
        };
        access.check(
            tables,
            asked,
            caller,
            &mut mqcore_access::Allowed::default(),
        )
    }
}

/// Rows of tables without files of 4.x.
fn rows<'a>(users: &'a [UserRow<'a>], policies: &'a [PolicyRow<'a>]) -> Rows<'a> {
    Rows {
        users,
        policies,
        plain: None,
    }
}

/// Access control with these rules, users, entries and settings.
fn access(
    rules: &[(i32, &str)],
    users: &[UserRow<'_>],
    policies: &[&str],
    settings: &[(&str, &str)],
) -> Access {
    let access = Access::new(rules.iter().copied()).unwrap();
    let policies: Vec<_> = policies.iter().map(|text| policy(text)).collect();
    let settings = Settings::read(settings.iter().copied()).unwrap();
    access.replace(rows(users, &policies), settings).unwrap();
    access
}
