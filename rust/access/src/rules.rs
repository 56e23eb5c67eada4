//! What a request needs, by code: rules as text, compiled once. Knows no user.
//!
//! | rule | |
//! |---|---|
//! | `open` | nobody is asked |
//! | `any` | a good signature of any user is enough |
//! | `super` | Super users only |
//! | pairs by `, ` | all must pass; `T(field)`, `G(field)`: topic or group named there; `C`: the cluster; `(a\|b)`: the first of these fields that is there; `Sub/Get`: either action; `?` behind the brackets: left out when the field is absent |
//! | `body` | alone or behind pairs: more pairs come from the body or the store |

use hashbrown::HashMap;

use crate::fault::RuleFault;
use crate::resource::{Actions, Kind, Resource};

/// What a request of a code needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Nobody is asked.
    Open,
    /// A good signature is enough.
    Any,
    /// A Super user.
    Super,
    /// Pairs of a resource and actions.
    Pairs(Pairs),
}

/// The pairs of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs {
    needs: Box<[Need]>,
    /// Whether more pairs come from the body or the store.
    pub has_body: bool,
}

/// A resource that the header names, and what is to be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Need {
    kind: Kind,
    /// The fields that name it: the first that is there does.
    fields: Box<[Box<str>]>,
    actions: Actions,
    is_optional: bool,
}

/// What a pair of a rule asks for, of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks<'a> {
    /// A resource, and one of these actions.
    Pair(Resource<'a>, Actions),
    /// The field is absent and may be.
    Nothing,
    /// The field is absent and may not be: its resource, without a name.
    Absent(Resource<'static>),
}

impl Pairs {
    /// What the pairs ask for, of the header that `field` looks into.
    pub fn of_header<'a>(
        &'a self,
        cluster: &'a str,
        field: impl Fn(&str) -> Option<&'a str> + 'a,
    ) -> impl Iterator<Item = Asks<'a>> + 'a {
        self.needs.iter().map(move |need| {
            let Need { kind, actions, .. } = *need;
            if kind == Kind::Cluster {
                let name = cluster;
                return Asks::Pair(Resource { kind, name }, actions);
            }
            // Some clients send empty fields for those they do not have.
            let mut values = need.fields.iter().filter_map(|name| field(name));
            match values.find(|value| !value.trim_ascii().is_empty()) {
                Some(name) if kind == Kind::Topic => {
                    let (resource, actions) = Resource::topic(name, actions);
                    Asks::Pair(resource, actions)
                }
                Some(name) => Asks::Pair(Resource::group(name), actions),
                None if need.is_optional => Asks::Nothing,
                None => Asks::Absent(Resource { kind, name: "" }),
            }
        })
    }
}

/// The rules of all codes.
#[derive(Debug, Clone, Default)]
pub struct Rules(HashMap<i32, Rule>);

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// The first that cannot be read.
    pub fn read<'a>(rules: impl IntoIterator<Item = (i32, &'a str)>) -> Result<Self, RuleFault> {
        let rules = rules.into_iter();
        let read = rules.map(|(code, text)| Rule::read(code, text).map(|rule| (code, rule)));
        read.collect::<Result<_, _>>().map(Self)
    }

    /// The codes of which more pairs come from the body or the store.
    pub fn with_body(&self) -> impl Iterator<Item = i32> {
        let rules = self.0.iter();
        let with_body =
            rules.filter(|(_, rule)| matches!(rule, Rule::Pairs(pairs) if pairs.has_body));
        with_body.map(|(code, _)| *code)
    }

    /// The rule of a code; of one that is not listed nothing is answered, and any user may hear that.
    #[must_use]
    pub fn of(&self, code: i32) -> &Rule {
        self.0.get(&code).unwrap_or(&Rule::Any)
    }
}

impl Rule {
    /// Reads the rule of a code.
    ///
    /// # Errors
    /// Where it cannot be read, and why.
    pub fn read(code: i32, text: &str) -> Result<Self, RuleFault> {
        match text {
            "open" => return Ok(Self::Open),
            "any" => return Ok(Self::Any),
            "super" => return Ok(Self::Super),
            _ => {}
        }
        let mut needs = Vec::new();
        let mut has_body = false;
        let mut position = 0;
        for part in text.split(", ") {
            let fault = |why| RuleFault {
                code,
                text: text.to_owned(),
                position,
                why,
            };
            if has_body {
                return Err(fault("nothing comes behind body"));
            }
            if part == "body" {
                has_body = true;
            } else {
                needs.push(Need::read(part).map_err(fault)?);
            }
            position += part.chars().count() + 2;
        }
        Ok(Self::Pairs(Pairs {
            needs: needs.into(),
            has_body,
        }))
    }
}

impl Need {
    fn read(part: &str) -> Result<Self, &'static str> {
        let (what, actions) = part.split_once(' ').ok_or("no actions")?;
        let is_optional = what.ends_with('?');
        let what = what.strip_suffix('?').unwrap_or(what);
        let named = |kind, rest: &str| {
            let inside = rest
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'));
            let fields: Option<Box<[Box<str>]>> =
                inside.map(|i| i.split('|').map(Into::into).collect());
            let fields = fields.ok_or("no field in brackets")?;
            if fields.iter().any(|name| name.is_empty()) {
                return Err("a field without a name");
            }
            Ok((kind, fields))
        };
        let (kind, fields) = match what.split_at_checked(1) {
            Some(("T", rest)) => named(Kind::Topic, rest)?,
            Some(("G", rest)) => named(Kind::Group, rest)?,
            Some(("C", "")) if !is_optional => (Kind::Cluster, Box::default()),
            _ => return Err("neither T(field), G(field) nor C"),
        };
        let mut all = Actions::default();
        for name in actions.split('/') {
            all = all.and(Actions::named(name).ok_or("no such action")?);
        }
        Ok(Self {
            kind,
            fields,
            actions: all,
            is_optional,
        })
    }
}

/// Codes that 5.3.3 lets any user with a good signature do, whatever they change or give away: what
/// `mqcoreAuthLikeOfficial` returns to.
const UNCHECKED_OFFICIALLY: &[i32] = &[
    18, 21, 25, 26, 28, 43, 45, 46, 60, 61, 200, 201, 225, 305, 306, 316, 324, 325, 329, 361, 400,
    401, 402, 513, 907, 1007, 2001, 2002, 2003, 2004, 200_056, 200_151,
];

/// Codes of which 5.3.3 asks for what the header has, and for nothing of the record that it names or that
/// the answer is made of.
const LOOKED_AT_BY_HEADER_OFFICIALLY: &[i32] = &[33, 36, 37, 208, 309, 323];

/// Whether 5.3.3 asks for nothing but what the header has.
#[must_use]
pub fn is_by_header_officially(code: i32) -> bool {
    LOOKED_AT_BY_HEADER_OFFICIALLY.contains(&code)
}

/// Whether 5.3.3 lets any user do it.
#[must_use]
pub fn is_unchecked_officially(code: i32) -> bool {
    UNCHECKED_OFFICIALLY.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'a>(rule: &'a Rule, fields: &'a [(&'a str, &'a str)]) -> Vec<Asks<'a>> {
        let Rule::Pairs(pairs) = rule else {
            panic!("{rule:?}");
        };
        let field = |name: &str| {
            let mut found = fields.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| *value)
        };
        pairs.of_header("c1", field).collect()
    }

    #[test]
    fn a_rule_is_read_with_all_that_it_may_have() {
        let rule =
            Rule::read(11, "T(topic|b) Sub/Get, G(consumerGroup)? Sub, C Get, body").unwrap();
        let both = Actions::SUB.and(Actions::GET);
        let (topic, _) = Resource::topic("t", both);
        let cluster = Resource {
            kind: Kind::Cluster,
            name: "c1",
        };
        let cluster = Asks::Pair(cluster, Actions::GET);
        let short = [("topic", ""), ("b", "t")];
        let pair = Asks::Pair(topic, both);
        assert_eq!(asked(&rule, &short), [pair, Asks::Nothing, cluster]);
        let retry = [("topic", "%RETRY%g"), ("consumerGroup", "g")];
        let group = Asks::Pair(Resource::group("g"), both);
        let second = Asks::Pair(Resource::group("g"), Actions::SUB);
        assert_eq!(asked(&rule, &retry), [group, second, cluster]);
        let absent = Asks::Absent(Resource {
            kind: Kind::Topic,
            name: "",
        });
        assert_eq!(asked(&rule, &[]), [absent, Asks::Nothing, cluster]);
        let Rule::Pairs(pairs) = rule else {
            panic!();
        };
        assert!(pairs.has_body);
    }

    #[test]
    fn the_words_are_rules() {
        assert_eq!(Rule::read(1, "any"), Ok(Rule::Any));
        assert_eq!(Rule::read(1, "super"), Ok(Rule::Super));
        assert_eq!(Rule::read(1, "open"), Ok(Rule::Open));
        let body = Rule::read(1, "body").unwrap();
        assert!(matches!(body, Rule::Pairs(Pairs { has_body: true, needs }) if needs.is_empty()));
    }

    #[test]
    fn a_bad_rule_names_its_code_and_position() {
        let fault = Rule::read(17, "C Get, T(topic) Make").unwrap_err();
        let text =
            r#"the rule of request 17, "C Get, T(topic) Make", at character 7: no such action"#;
        assert_eq!(fault.to_string(), text);
        for bad in [
            "",
            "T",
            "T(topic)",
            "T Pub",
            "T() Pub",
            "T(a|) Pub",
            "C(x) Get",
            "C? Get",
            "Q(a) Get",
            "T(a) Any",
            "T(a) Pub,G(b) Sub",
            "body, C Get",
            "any, C Get",
            "T(a)  Pub",
        ] {
            assert!(Rule::read(1, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unlisted_code_needs_a_user() {
        let rules = Rules::read([(10, "open")]).unwrap();
        assert_eq!(rules.of(10), &Rule::Open);
        assert_eq!(rules.of(11), &Rule::Any);
    }
}
