//! The check of a request, step by step, with the official texts.

use mqcore_access::{Access, Actions, Allowed, Asked, Caller, Explained, Resource, Source};

use super::{NOW_MS, SECRET, Signed, access, rows, user};

const FROM: &str = "10.1.1.1:4711";
const RULES: &[(i32, &str)] = &[
    (1, "open"),
    (2, "any"),
    (3, "super"),
    (10, "T(topic) Pub"),
    (11, "T(topic) Sub, G(consumerGroup) Sub"),
    (12, "T(topic) Sub/Get"),
    (25, "C Update"),
    (36, "G(group) Sub, body"),
    (37, "T(topic)? Pub, body"),
];
const ON: &[(&str, &str)] = &[
    ("authenticate", "true"),
    ("authorize", "true"),
    ("cluster", "c1"),
];
const POLICIES: &[&str] = &[
    "User:app Custom Topic:a* Pub/Sub - Allow",
    "User:app Custom Topic:abc Pub - Deny",
    "User:app Custom Group:g Sub - Allow",
    "User:app Custom Topic:near Pub 10.0.0.0/8 Allow",
    "User:ops Custom Cluster:c1 Update - Allow",
    "User:off Custom * All - Allow",
];

fn on(more: &[(&str, &str)]) -> Access {
    let settings: Vec<_> = ON.iter().chain(more).copied().collect();
    let users = [
        user("app", "Normal", "enable"),
        user("ops", "Normal", "enable"),
        user("off", "Normal", "disable"),
        user("root", "Super", "enable"),
    ];
    access(RULES, &users, POLICIES, &settings)
}

/// The user that passed, or the text of the refusal.
fn outcome(access: &Access, request: &Signed, from: &str) -> Result<String, String> {
    let tables = access.tables();
    let passed = request.check(access, &tables, from);
    let passed = passed.map(|passed| {
        passed
            .user
            .map_or(String::new(), |user| user.name.to_string())
    });
    passed.map_err(|refusal| refusal.to_string())
}

fn by(user: &str, code: i32, fields: &[(&str, &str)]) -> Signed {
    Signed::by(user, SECRET, code, fields)
}

#[test]
fn requests_pass_and_are_refused_with_the_official_texts() {
    let access = on(&[]);
    let no = |topic: &str, why: &str| {
        Err(format!(
            "User:app has no permission to access {topic} from 10.1.1.1, {why}"
        ))
    };
    let app = || Ok("app".to_owned());
    let topic = |code, name| by("app", code, &[("topic", name)]);
    let pull = |topic, group| by("app", 11, &[("topic", topic), ("consumerGroup", group)]);
    for (request, expected) in [
        (topic(10, "a1"), app()),
        (topic(10, "b1"), no("Topic:b1", "no matched policies.")),
        (topic(10, "abc"), no("Topic:abc", "the decision is deny.")),
        (topic(10, "near"), app()),
        (by("app", 10, &[]), no("Topic:", "no matched policies.")),
        (
            by("app", 10, &[("topic", " ")]),
            no("Topic:", "no matched policies."),
        ),
        (pull("a1", "g"), app()),
        (pull("a1", "h"), no("Group:h", "no matched policies.")),
        (pull("%RETRY%g", "g"), app()),
        (pull("%RETRY%h", "g"), no("Group:h", "no matched policies.")),
        (pull("%DLQ%g", "g"), app()),
        (topic(10, "%RETRY%g"), app()),
        (topic(12, "a1"), app()),
        (by("app", 25, &[]), no("Cluster:c1", "no matched policies.")),
        (by("ops", 25, &[]), Ok("ops".to_owned())),
        (by("app", 2, &[]), app()),
        (by("app", 999, &[]), app()),
        (
            by("app", 3, &[]),
            Err("User:app is not a super user.".to_owned()),
        ),
        (by("app", 37, &[]), app()),
        (by("off", 2, &[]), Err("User:off is disabled.".to_owned())),
        (
            by("nobody", 2, &[]),
            Err("check signature failed.".to_owned()),
        ),
        (by("", 2, &[]), Err("username cannot be null.".to_owned())),
        (by("", 1, &[]), Ok(String::new())),
    ] {
        assert_eq!(
            outcome(&access, &request, FROM),
            expected,
            "{:?}",
            request.fields
        );
    }
    let far = outcome(&access, &topic(10, "near"), "11.1.1.1:1").unwrap_err();
    assert!(
        far.ends_with("from 11.1.1.1, no matched policies."),
        "{far}"
    );
}

#[test]
fn an_unknown_user_a_bad_signature_and_a_disabled_one_with_it_look_alike() {
    let access = on(&[]);
    for name in ["app", "nobody", "off", "root"] {
        let request = Signed::by(name, "another", 2, &[]);
        let text = outcome(&access, &request, FROM).unwrap_err();
        assert_eq!(text, "check signature failed.", "{name}");
    }
}

#[test]
fn a_super_user_acts_from_here_or_from_where_it_may() {
    let request = by("root", 3, &[]);
    let here = on(&[]);
    assert!(outcome(&here, &request, "127.0.0.1:1").is_ok());
    assert!(outcome(&here, &request, "unix:").is_ok());
    let far = outcome(&here, &request, FROM).unwrap_err();
    assert_eq!(far, "User:root may not act as a super user from 10.1.1.1.");
    let wide = on(&[("super_from", "10.0.0.0/8")]);
    assert!(outcome(&wide, &request, FROM).is_ok());
    assert!(outcome(&wide, &by("root", 10, &[("topic", "x")]), FROM).is_ok());
}

#[test]
fn a_certificate_needs_no_signature_and_a_signature_comes_first() {
    let access = on(&[]);
    let tables = access.tables();
    let bare = Signed {
        fields: vec![("topic".into(), "a1".into())],
        ..by("app", 10, &[])
    };
    let name = |request: &Signed, principal| {
        let passed = request.check_as(&access, &tables, (FROM, true, principal));
        passed
            .map(|passed| passed.user.unwrap().name.to_string())
            .map_err(|r| r.to_string())
    };
    assert_eq!(name(&bare, "app"), Ok("app".to_owned()));
    assert_eq!(
        name(&bare, "nobody"),
        Err("check signature failed.".to_owned())
    );
    assert_eq!(name(&bare, "off"), Err("User:off is disabled.".to_owned()));
    assert_eq!(
        name(&by("app", 10, &[("topic", "a1")]), "ops"),
        Ok("app".to_owned())
    );
    let bad = Signed::by("app", "another", 10, &[("topic", "a1")]);
    assert!(
        name(&bad, "app").is_err(),
        "a certificate does not heal a signature"
    );
}

#[test]
fn requests_in_clear_are_refused_where_tls_is_required() {
    let access = on(&[("requires_tls", "true")]);
    let tables = access.tables();
    let request = by("app", 2, &[]);
    let text = outcome(&access, &request, FROM).unwrap_err();
    assert_eq!(text, "this request needs a connection with TLS.");
    assert!(request.check_as(&access, &tables, (FROM, true, "")).is_ok());
}

#[test]
fn lists_of_codes_spare_the_signature_or_the_rights() {
    let access = on(&[
        ("white_codes_authentication", "2,10"),
        ("white_codes_authorization", "11"),
    ]);
    assert_eq!(outcome(&access, &by("", 2, &[]), FROM), Ok(String::new()));
    let bad = Signed::by("app", "another", 2, &[]);
    assert_eq!(
        outcome(&access, &bad, FROM),
        Ok(String::new()),
        "it is nobody"
    );
    let rights = outcome(&access, &by("", 10, &[("topic", "a1")]), FROM);
    assert_eq!(rights, Err("username cannot be null.".to_owned()));
    assert!(outcome(&access, &by("app", 11, &[("topic", "b")]), FROM).is_ok());
    assert!(outcome(&access, &by("", 11, &[("topic", "b")]), FROM).is_err());
}

#[test]
fn rights_without_signatures_are_not_had_unless_as_officially() {
    let off = [("authenticate", "false")];
    let unsigned = Signed::by("app", "another", 10, &[("topic", "a1")]);
    assert!(outcome(&on(&off), &unsigned, FROM).is_err());
    let official = on(&[("authenticate", "false"), ("like_official", "true")]);
    assert_eq!(outcome(&official, &unsigned, FROM), Ok("app".to_owned()));
    assert!(
        outcome(&official, &by("app", 25, &[]), FROM).is_ok(),
        "25 is not checked there"
    );
    assert!(
        outcome(&official, &by("app", 10, &[]), FROM).is_ok(),
        "nor an absent field"
    );
    let other = Signed::by("app", "another", 10, &[("topic", "b1")]);
    assert!(outcome(&official, &other, FROM).is_err());
}

#[test]
fn a_dry_run_notes_what_it_lets_pass() {
    let access = on(&[("dry_run", "true")]);
    let request = by("app", 11, &[("topic", "b1"), ("consumerGroup", "h")]);
    assert_eq!(outcome(&access, &request, FROM), Ok("app".to_owned()));
    let bad = Signed::by("app", "another", 2, &[]);
    assert!(
        outcome(&access, &bad, FROM).is_err(),
        "signatures are in force"
    );
    let (noted, left_out) = access.refusals.take();
    let noted: Vec<_> = noted
        .iter()
        .map(|r| (r.resource(), r.reason.word(), r.is_dry_run))
        .collect();
    let dry = |resource: &str| (resource.to_owned(), "no policy", true);
    let signature = (String::new(), "bad signature", false);
    assert_eq!(noted, [dry("Topic:b1"), dry("Group:h"), signature]);
    assert_eq!(left_out, 0);
    let audit = on(&[("dry_run", "true"), ("authenticate", "false")]);
    assert_eq!(outcome(&audit, &bad, FROM), Ok(String::new()));
}

#[test]
fn refusals_are_kept_within_a_bound_and_short() {
    use mqcore_access::refusals::REFUSALS_MAX;
    let access = on(&[]);
    let long = "x".repeat(1 << 20);
    assert!(outcome(&access, &by(&long, 10, &[("topic", &long)]), FROM).is_err());
    for _ in 0..REFUSALS_MAX + 4 {
        assert!(outcome(&access, &by("", 10, &[]), FROM).is_err());
    }
    let (kept, left_out) = access.refusals.take();
    assert_eq!((kept.len(), left_out), (REFUSALS_MAX, 5));
    assert_eq!(kept[0].user.len(), 255);
    assert_eq!(kept[0].time_ms, NOW_MS);
    assert_eq!(access.refusals.take().0.len(), 0);
}

#[test]
fn pairs_of_a_body_are_decided_by_the_name_that_passed() {
    let access = on(&[]);
    let tables = access.tables();
    let source = Source::of(FROM);
    let caller = Caller {
        source: &source,
        is_tls: false,
        principal: "",
        now_ms: &|| NOW_MS,
    };
    let decide = |user, pairs: &[(&'static str, Actions)]| {
        let pairs = pairs
            .iter()
            .map(|(text, actions)| (Resource::parse(text).unwrap(), *actions));
        access
            .decide(&tables, (user, 34), caller, pairs)
            .map_err(|refusal| refusal.to_string())
    };
    let sub = Actions::SUB;
    assert_eq!(
        decide("app", &[("Topic:a1", sub), ("Topic:%RETRY%g", sub)]),
        Ok(())
    );
    let refused = decide("app", &[("Topic:a1", sub), ("Group:h", sub)]).unwrap_err();
    assert!(refused.contains("Group:h"));
    assert_eq!(decide("gone", &[]), Err("User:gone not found.".to_owned()));
    assert_eq!(decide("off", &[]), Err("User:off not found.".to_owned()));
    assert_eq!(decide("", &[]), Err("username cannot be null.".to_owned()));
}

#[test]
fn what_was_allowed_is_not_decided_again_and_what_was_refused_is() {
    let access = on(&[]);
    let mut allowed = Allowed::default();
    let source = Source::of(FROM);
    let caller = Caller {
        source: &source,
        is_tls: false,
        principal: "",
        now_ms: &|| NOW_MS,
    };
    let mut check = |access: &Access, request: &Signed| {
        let tables = access.tables();
        let asked = Asked {
            code: request.code,
            version: request.version,
            fields: &request.fields,
            body: &request.body,
        };
        access.check(&tables, asked, caller, &mut allowed).is_ok()
    };
    for round in 0..3 {
        for at in 0..12 {
            let name = format!("a{at}");
            assert!(
                check(&access, &by("app", 10, &[("topic", &name)])),
                "{round}"
            );
        }
        assert!(!check(&access, &by("app", 10, &[("topic", "b")])));
        assert!(
            !check(&access, &by("ops", 10, &[("topic", "a1")])),
            "another user"
        );
    }
    let settings = mqcore_access::settings::Settings::read(ON.iter().copied()).unwrap();
    access
        .replace(rows(&[user("app", "Normal", "enable")], &[]), settings)
        .unwrap();
    assert!(
        !check(&access, &by("app", 10, &[("topic", "a1")])),
        "other tables"
    );
}

#[test]
fn a_decision_is_explained_by_all_entries_that_match() {
    let access = on(&[]);
    let tables = access.tables();
    let explain = |user, text| {
        let about = (Resource::parse(text).unwrap(), Actions::PUB);
        let explained = Explained::of(&tables, user, &Source::of(FROM), about);
        (explained.is_allowed, explained.why, explained.matched.len())
    };
    assert_eq!(
        explain("app", "Topic:abc"),
        (false, "the deciding entry denies it".into(), 2)
    );
    assert_eq!(
        explain("app", "Topic:abd"),
        (true, "the deciding entry allows it".into(), 1)
    );
    assert_eq!(
        explain("app", "Topic:x"),
        (false, "no entry matches".into(), 0)
    );
    assert_eq!(
        explain("off", "Topic:x"),
        (false, "the user is disabled".into(), 1)
    );
    assert_eq!(explain("nobody", "Topic:x").1, "User:nobody is not found.");
    assert!(!explain("root", "Topic:x").0, "from there");
    assert!(access.refusals.take().0.is_empty());
}
