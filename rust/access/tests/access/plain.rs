//! Who is decided about by files of 4.x, with the codes and texts of 4.9.

use mqcore_access::settings::Settings;
use mqcore_access::{Access, AccountRow, Actions, PlainRows, Resource, Rows};

use super::{NOW_MS, SECRET, Signed, user};

const RULES: &[(i32, &str)] = &[
    (1, "open"),
    (3, "super"),
    (17, "T(topic) Create"),
    (26, "C Get"),
    (34, "body"),
    (46, "any"),
    (310, "T(b) Pub"),
    (11, "T(topic) Sub, G(consumerGroup) Sub"),
];
const FAR: &str = "10.1.1.1:4711";
const EXCEPTION: &str = "org.apache.rocketmq.acl.common.AclException: ";

fn account<'a>(name: &'a str, white: &'a str, is_admin: bool) -> AccountRow<'a> {
    AccountRow {
        name,
        secret: SECRET,
        white,
        is_admin,
        default: (Actions(0), Actions::SUB),
        topics: if is_admin {
            Vec::new()
        } else {
            vec![("t", Actions::PUB.and(Actions::SUB)), ("d", Actions(0))]
        },
        groups: Vec::new(),
    }
}

fn plain(settings: &[(&str, &str)]) -> Access {
    let access = Access::new(RULES.iter().copied()).unwrap();
    let rows = PlainRows {
        white: vec!["10.9.*.*"],
        accounts: vec![
            account("producer", "", false),
            account("trusted", "10.1.1.{1,2}", false),
            account("admin12", "", true),
        ],
    };
    let users = [
        user("newcomer", "Normal", "enable"),
        user("root", "Super", "enable"),
    ];
    let rows = Rows {
        users: &users,
        policies: &[],
        plain: Some(&rows),
    };
    let settings = Settings::read(settings.iter().copied()).unwrap();
    access.replace(rows, settings).unwrap();
    access
}

fn outcome(access: &Access, request: &Signed, from: &str) -> Result<String, (String, bool)> {
    let tables = access.tables();
    let passed = request.check(access, &tables, from);
    let passed = passed.map(|passed| passed.user.map_or(String::new(), |u| u.name.to_string()));
    passed.map_err(|refusal| (refusal.to_string(), refusal.reason.is_plain()))
}

fn by(user: &str, code: i32, fields: &[(&str, &str)]) -> Signed {
    Signed::by(user, SECRET, code, fields)
}

fn unsigned(code: i32, fields: &[(&str, &str)]) -> Signed {
    let mut made = by("", code, fields);
    made.fields
        .retain(|(name, _)| name != "AccessKey" && name != "Signature");
    made
}

fn refused(text: &str) -> Result<String, (String, bool)> {
    Err((format!("{EXCEPTION}{text}"), true))
}

/// Who asks what from where, and what becomes of it.
type Case = (Signed, &'static str, Result<String, (String, bool)>);

fn assert_outcomes(cases: Vec<Case>) {
    let access = plain(&[]);
    for (request, from, expected) in cases {
        let found = outcome(&access, &request, from);
        assert_eq!(found, expected, "{:?}", request.fields);
    }
}

#[test]
fn who_has_no_signature_of_an_account_is_let_in_from_some_addresses_alone() {
    let send = |topic| [("b", topic)];
    assert_outcomes(vec![
        (by("producer", 310, &send("t")), FAR, Ok("producer".into())),
        (
            by("producer", 310, &send("u")),
            FAR,
            refused("No default permission for topic:u"),
        ),
        (
            by("producer", 310, &send("d")),
            FAR,
            refused("No default permission for topic:d"),
        ),
        (
            unsigned(310, &send("t")),
            FAR,
            refused("No accessKey is configured"),
        ),
        (
            by("nobody1", 310, &send("t")),
            FAR,
            refused("No acl config for nobody1"),
        ),
        (
            Signed::by("producer", "another", 310, &send("t")),
            FAR,
            refused("Check signature failed for accessKey=producer"),
        ),
        // Addresses that need no signature.
        (unsigned(310, &send("u")), "10.9.3.4:1", Ok(String::new())),
        (
            Signed::by("trusted", "another", 310, &send("u")),
            FAR,
            Ok("trusted".into()),
        ),
        (
            Signed::by("trusted", "another", 310, &send("u")),
            "10.1.1.3:1",
            refused("Check signature failed for accessKey=trusted"),
        ),
    ]);
}

#[test]
fn accounts_do_what_they_have_permissions_for() {
    assert_outcomes(vec![
        // What 4.9 keeps for administrators, and what it does not look at.
        (
            by("producer", 17, &[("topic", "t")]),
            FAR,
            refused("Need admin permission for request code=17, but accessKey=producer is not"),
        ),
        (
            by("admin12", 17, &[("topic", "t")]),
            FAR,
            Ok("admin12".into()),
        ),
        (by("admin12", 3, &[]), FAR, Ok("admin12".into())),
        (
            by("producer", 3, &[]),
            FAR,
            refused("Need admin permission for request code=3, but accessKey=producer is not"),
        ),
        (by("producer", 26, &[]), FAR, Ok("producer".into())),
        (
            unsigned(46, &[]),
            FAR,
            refused("No accessKey is configured"),
        ),
        (unsigned(1, &[]), FAR, Ok(String::new())),
        // A topic of retries goes with its group.
        (
            by(
                "producer",
                11,
                &[("topic", "%RETRY%g"), ("consumerGroup", "g")],
            ),
            FAR,
            Ok("producer".into()),
        ),
    ]);
}

#[test]
fn users_of_5_x_are_decided_about_as_such_while_those_are_asked_for() {
    let send = by("newcomer", 310, &[("b", "t")]);
    let unknown = refused("No acl config for newcomer");
    assert_eq!(outcome(&plain(&[]), &send, FAR), unknown);
    let both = plain(&[("authenticate", "true"), ("authorize", "true")]);
    let text =
        "User:newcomer has no permission to access Topic:t from 10.1.1.1, no matched policies.";
    assert_eq!(outcome(&both, &send, FAR), Err((text.into(), false)));
    assert_eq!(
        outcome(&both, &send, "10.9.3.4:1"),
        Err((text.replace("10.1.1.1", "10.9.3.4"), false))
    );
    let producer = by("producer", 310, &[("b", "t")]);
    assert_eq!(outcome(&both, &producer, FAR), Ok("producer".into()));
    assert_eq!(
        outcome(&both, &unsigned(310, &[("b", "t")]), FAR),
        refused("No accessKey is configured")
    );
}

#[test]
fn pairs_of_a_body_are_decided_about_alike() {
    let access = plain(&[]);
    let tables = access.tables();
    let decided = |user: &str, from: &str, topic: &str| {
        let source = mqcore_access::Source::of(from);
        let caller = mqcore_access::Caller {
            source: &source,
            is_tls: false,
            principal: "",
            now_ms: &|| NOW_MS,
        };
        let pair = Resource::topic(topic, Actions::SUB);
        let decided = access.decide(&tables, (user, 34), caller, [pair]);
        decided.map_err(|refusal| refusal.to_string())
    };
    assert_eq!(decided("producer", FAR, "t"), Ok(()));
    assert_eq!(
        decided("producer", FAR, "u"),
        Err(format!("{EXCEPTION}No default permission for topic:u"))
    );
    assert_eq!(decided("", "10.9.3.4:1", "u"), Ok(()));
    assert_eq!(
        decided("", FAR, "u"),
        Err(format!("{EXCEPTION}No accessKey is configured"))
    );
    assert_eq!(decided("admin12", FAR, "u"), Ok(()));
}

#[test]
fn in_a_dry_run_permissions_are_noted_and_signatures_asked_for() {
    let access = plain(&[("dry_run", "true")]);
    let send = by("producer", 310, &[("b", "u")]);
    assert_eq!(outcome(&access, &send, FAR), Ok("producer".into()));
    let (noted, _) = access.refusals.take();
    assert!(noted.iter().all(|each| each.is_dry_run) && noted.len() == 1);
    let wrong = Signed::by("producer", "another", 310, &[("b", "t")]);
    assert!(outcome(&access, &wrong, FAR).is_err());
}

#[test]
fn a_bad_pattern_leaves_the_tables_before() {
    let access = plain(&[]);
    let rows = PlainRows {
        white: vec!["10.0.0.300"],
        accounts: Vec::new(),
    };
    let rows = Rows {
        users: &[],
        policies: &[],
        plain: Some(&rows),
    };
    let fault = access.replace(rows, Settings::default()).unwrap_err();
    assert!(fault.to_string().contains("10.0.0.300"), "{fault}");
    let send = by("producer", 310, &[("b", "t")]);
    assert_eq!(outcome(&access, &send, FAR), Ok("producer".into()));
}
