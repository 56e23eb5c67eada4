//! The class over access control: rules in, tables replaced, requests checked, decisions explained. No logic.

use std::sync::Arc;

use mqcore_access::policies::{Matched, Tier};
use mqcore_access::resource::Pattern;
use mqcore_access::settings::Settings;
use mqcore_access::{
    Access as Engine, AccountRow, Actions, Allowed, Asked, Caller, Explained, PlainRows, PolicyRow,
    Refusal, Resource, Rows, Source, UserRow, When,
};
use mqcore_engine::clock::{Clock, SystemClock};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyDict;

use crate::errors::refused;
use crate::frozen::frozen;
use crate::wire::Command;

frozen! {
    /// A request that was refused, or would have been without a dry run.
    AccessRefusal {
        /// When, Unix ms.
        time_ms: i64,
        /// Its code; 0 where it is not known.
        code: i32,
        /// The user as the request names it; empty without one.
        user: String,
        /// From where, without a port.
        source: String,
        /// The resource that it is about, as `Topic:orders`; empty without one.
        resource: String,
        /// The official names of what was asked for: any of them would have done.
        actions: Vec<&'static str>,
        /// Why: `no user`, `bad signature`, `disabled`, `needs TLS`, `super from`, `needs super`,
        /// `no policy`, `denied`, `user gone`; of files of 4.x `no account`, `unknown account`,
        /// `account signature`, `needs admin`, `no permission`.
        reason: &'static str,
        /// The remark of the answer.
        remark: String,
        /// Whether it passed all the same.
        is_dry_run: bool,
    }

    /// What was refused since somebody asked last.
    AccessRefusals {
        /// The first of them, in their order.
        refusals: Vec<Py<AccessRefusal>>,
        /// How many came when there were too many already.
        left_out: u64,
    }

    /// An entry of a policy that matches.
    AccessEntry {
        /// `Custom` or `Default`.
        policy: &'static str,
        /// As `Topic:orders*`.
        resource: String,
        /// Official names.
        actions: Vec<&'static str>,
        /// Addresses and ranges; empty: from anywhere.
        sources: Vec<String>,
        /// `Allow` or `Deny`.
        decision: &'static str,
    }

    /// What a decision rests on.
    AccessExplanation {
        /// Whether it is allowed.
        is_allowed: bool,
        /// Why.
        why: String,
        /// The entries that match, in the order of precedence: the first decides, where the user is no
        /// Super one.
        matched: Vec<Py<AccessEntry>>,
    }
}

impl AccessRefusal {
    fn of(refusal: &Refusal) -> Self {
        Self {
            time_ms: refusal.time_ms,
            code: refusal.code,
            user: refusal.user.to_string(),
            source: refusal.source.to_string(),
            resource: refusal.resource(),
            actions: refusal.actions.names(),
            reason: refusal.reason.word(),
            remark: refusal.to_string(),
            is_dry_run: refusal.is_dry_run,
        }
    }
}

impl AccessEntry {
    fn of(matched: &Matched<'_>) -> Self {
        let resource = match &matched.pattern {
            Pattern::Everything => "*".to_owned(),
            Pattern::Any(kind) => format!("{}:*", kind.name()),
            Pattern::Prefix(kind, text) => format!("{}:{text}*", kind.name()),
            Pattern::Literal(kind, name) => format!("{}:{name}", kind.name()),
        };
        let networks = matched.entry.networks.iter();
        Self {
            policy: match matched.tier {
                Tier::Custom => "Custom",
                Tier::Default => "Default",
            },
            resource,
            actions: matched.entry.actions.names(),
            sources: networks.map(ToString::to_string).collect(),
            decision: if matched.entry.is_allow {
                "Allow"
            } else {
                "Deny"
            },
        }
    }
}

/// A user: name, secret, `Super` or `Normal`, `enable` or `disable`.
type UserTuple = (PyBackedStr, PyBackedStr, PyBackedStr, PyBackedStr);
/// An entry: subject, `Custom` or `Default`, resource, actions, sources, `Allow` or `Deny`.
type PolicyTuple = (
    PyBackedStr,
    PyBackedStr,
    PyBackedStr,
    Vec<PyBackedStr>,
    Vec<PyBackedStr>,
    PyBackedStr,
);

/// Names of topics, or of groups, and what an account may with them: 1 Pub, 2 Sub, 3 both, 0 neither.
type PermissionTuples = Vec<(PyBackedStr, u8)>;
/// An account of 4.x: access key, secret key, addresses that need no signature, whether it is an
/// administrator, what it may with topics and groups that are not listed, topics, groups.
type AccountTuple = (
    PyBackedStr,
    PyBackedStr,
    PyBackedStr,
    bool,
    (u8, u8),
    PermissionTuples,
    PermissionTuples,
);
/// Files of 4.x: addresses that need no signature, accounts.
type PlainTuple = (Vec<PyBackedStr>, Vec<AccountTuple>);

fn texts(list: &[PyBackedStr]) -> Vec<&str> {
    list.iter().map(|text| &**text).collect()
}

fn resource_of(text: &str) -> PyResult<Resource<'_>> {
    Resource::parse(text).ok_or_else(|| PyValueError::new_err(format!("{text:?} is no resource")))
}

/// Access control of one server.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct Access {
    engine: Arc<Engine>,
}

impl Access {
    pub(crate) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

#[pymethods]
impl Access {
    #[new]
    fn new(rules: &Bound<'_, PyDict>) -> PyResult<Self> {
        let rules: Vec<(i32, PyBackedStr)> = rules.items().extract()?;
        let rules = rules.iter().map(|(code, text)| (*code, &**text));
        let engine =
            Engine::new(rules).map_err(|fault| PyValueError::new_err(fault.to_string()))?;
        Ok(Self {
            engine: Arc::new(engine),
        })
    }

    /// Puts other tables in force; the version of them.
    #[pyo3(signature = (users, policies, settings, plain=None))]
    fn replace(
        &self,
        py: Python<'_>,
        users: Vec<UserTuple>,
        policies: Vec<PolicyTuple>,
        settings: &Bound<'_, PyDict>,
        plain: Option<PlainTuple>,
    ) -> PyResult<u64> {
        let settings: Vec<(PyBackedStr, PyBackedStr)> = settings.items().extract()?;
        let replaced = py.detach(|| {
            let settings = settings.iter().map(|(name, value)| (&**name, &**value));
            let settings = Settings::read(settings)?;
            let users: Vec<_> = users.iter().map(user_row).collect();
            let policies: Vec<_> = policies.iter().map(policy_row).collect();
            let plain = plain.as_ref().map(plain_rows);
            let rows = Rows {
                users: &users,
                policies: &policies,
                plain: plain.as_ref(),
            };
            self.engine.replace(rows, settings)
        });
        replaced.map_err(|fault| PyValueError::new_err(fault.to_string()))
    }

    #[getter]
    fn version(&self) -> u64 {
        self.engine.version()
    }

    /// Answers to wrong signatures that were given late.
    #[getter]
    fn late_refusals(&self) -> u64 {
        self.engine.failures.counts().0
    }

    /// Answers to wrong signatures that were not given.
    #[getter]
    fn silent_refusals(&self) -> u64 {
        self.engine.failures.counts().1
    }

    #[getter]
    fn is_on(&self) -> bool {
        self.engine.tables().is_on()
    }

    /// Checks a request as the fast path does; the name of its user, empty where none is needed.
    #[pyo3(signature = (command, source, *, is_tls, principal=""))]
    fn check(
        &self,
        py: Python<'_>,
        command: PyRef<'_, Command>,
        source: &str,
        is_tls: bool,
        principal: &str,
    ) -> PyResult<String> {
        let tables = self.engine.tables();
        let fields = command.fields(py)?;
        let asked = Asked {
            code: command.code(),
            version: command.version(),
            fields: &fields,
            body: command.body(py),
        };
        let source = Source::of(source);
        let caller = Caller {
            source: &source,
            is_tls,
            principal,
            now_ms: &|| SystemClock::new().now_ms(),
        };
        let passed = self
            .engine
            .check(&tables, asked, caller, &mut Allowed::default());
        match passed {
            Ok(passed) => Ok(passed
                .user
                .map_or_else(String::new, |user| user.name.to_string())),
            Err(refusal) => {
                let answered = match self.engine.answered(&tables, &refusal) {
                    When::Now => "now",
                    When::Late => "late",
                    When::Never => "never",
                };
                let error = refused(py, &refusal);
                error.value(py).setattr("answered", answered)?;
                Err(error)
            }
        }
    }

    /// Decides about pairs that a request asks for beside its header.
    #[pyo3(signature = (user, source, pairs, *, code=0))]
    fn decide(
        &self,
        py: Python<'_>,
        user: &str,
        source: &str,
        pairs: Vec<(PyBackedStr, u8)>,
        code: i32,
    ) -> PyResult<()> {
        let pairs = pairs
            .iter()
            .map(|(text, actions)| Ok((resource_of(text)?, Actions(*actions))));
        let pairs = pairs.collect::<PyResult<Vec<_>>>()?;
        let source = Source::of(source);
        let caller = Caller {
            source: &source,
            is_tls: true,
            principal: "",
            now_ms: &|| SystemClock::new().now_ms(),
        };
        let tables = self.engine.tables();
        let decided = self.engine.decide(&tables, (user, code), caller, pairs);
        decided.map_err(|refusal| refused(py, &refusal))
    }

    /// Returns what a decision rests on.
    fn explain(
        &self,
        py: Python<'_>,
        user: &str,
        source: &str,
        resource: &str,
        actions: u8,
    ) -> PyResult<AccessExplanation> {
        let tables = self.engine.tables();
        let about = (resource_of(resource)?, Actions(actions));
        let explained = Explained::of(&tables, user, &Source::of(source), about);
        let matched = explained.matched.iter();
        let matched = matched.map(|entry| Py::new(py, AccessEntry::of(entry)));
        Ok(AccessExplanation {
            is_allowed: explained.is_allowed,
            matched: matched.collect::<PyResult<_>>()?,
            why: explained.why,
        })
    }

    /// Takes what was refused since the last call.
    fn take_refusals(&self, py: Python<'_>) -> PyResult<AccessRefusals> {
        let (refusals, left_out) = self.engine.refusals.take();
        let refusals = refusals.iter();
        let refusals = refusals.map(|refusal| Py::new(py, AccessRefusal::of(refusal)));
        Ok(AccessRefusals {
            refusals: refusals.collect::<PyResult<_>>()?,
            left_out,
        })
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.engine)
    }
}

fn user_row((name, secret, kind, status): &UserTuple) -> UserRow<'_> {
    UserRow {
        name,
        secret,
        kind,
        status,
    }
}

fn permissions(rows: &PermissionTuples) -> Vec<(&str, Actions)> {
    rows.iter()
        .map(|(name, actions)| (&**name, Actions(*actions)))
        .collect()
}

fn plain_rows((white, accounts): &PlainTuple) -> PlainRows<'_> {
    let accounts = accounts.iter();
    let accounts =
        accounts.map(
            |(name, secret, white, is_admin, default, topics, groups)| AccountRow {
                name,
                secret,
                white,
                is_admin: *is_admin,
                default: (Actions(default.0), Actions(default.1)),
                topics: permissions(topics),
                groups: permissions(groups),
            },
        );
    PlainRows {
        white: texts(white),
        accounts: accounts.collect(),
    }
}

fn policy_row(
    (subject, policy, resource, actions, sources, decision): &PolicyTuple,
) -> PolicyRow<'_> {
    PolicyRow {
        subject,
        policy,
        resource,
        actions: texts(actions),
        sources: texts(sources),
        decision,
    }
}
