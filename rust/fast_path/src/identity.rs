//! Who is on a connection: where it comes from, what protects it, which user asked last. Knows no request.

use std::sync::Arc;

use mqcore_access::{Allowed, Source, Tables, User};

/// Who is on a connection.
#[derive(Debug)]
pub struct Identity {
    /// From where.
    pub source: Source,
    /// Whether it has TLS.
    pub is_tls: bool,
    /// The user that a checked certificate names; empty without one.
    pub principal: Box<str>,
    /// Who asked last, while access control is on.
    user: Option<Arc<User>>,
    /// Whether a request of it has passed access control.
    pub(crate) has_passed: bool,
    /// Whether several users have asked, as behind a proxy or a console.
    has_several: bool,
    /// What that user was allowed lately.
    pub(crate) allowed: Allowed,
}

impl Identity {
    /// Somebody, by the address that the connection comes from.
    #[must_use]
    pub fn of(peer: &str) -> Self {
        Self {
            source: Source::of(peer),
            is_tls: false,
            principal: Box::default(),
            user: None,
            has_passed: false,
            has_several: false,
            allowed: Allowed::default(),
        }
    }

    /// The same on another loop: who asks next shows again who it is.
    #[must_use]
    pub fn moved(&self) -> Self {
        Self {
            source: self.source.clone(),
            is_tls: self.is_tls,
            principal: self.principal.clone(),
            user: None,
            has_passed: false,
            has_several: false,
            allowed: Allowed::default(),
        }
    }

    /// Knows it beside its address: whether it has TLS, and which user a checked certificate names, if any.
    pub fn identify(&mut self, is_tls: bool, principal: &str) {
        self.is_tls = is_tls;
        self.principal = principal.into();
    }

    /// A user asks.
    #[inline]
    pub(crate) fn asks(&mut self, user: Option<&Arc<User>>) {
        self.has_passed = true;
        let is_same = match (&self.user, user) {
            (Some(known), Some(user)) => Arc::ptr_eq(known, user),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            let is_other = |known: &Arc<User>| user.is_some_and(|user| user.name != known.name);
            self.has_several |= self.user.as_ref().is_some_and(is_other);
            self.user = user.cloned();
        }
    }

    /// Who asked last; empty where nobody had to be named.
    #[must_use]
    pub fn user(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.name)
    }

    /// Whether who asked here has other rights by these tables, or may have.
    pub(crate) fn has_changed(&self, tables: &Tables) -> bool {
        self.has_several
            || self.user.as_ref().is_some_and(|known| {
                !tables
                    .decided(&known.name)
                    .is_some_and(|user| Arc::ptr_eq(known, user))
            })
    }
}
