//! What was allowed lately on a connection: decisions that are not taken again while the tables are the same.
//! Knows no request.

use std::sync::Arc;

use crate::resource::{Actions, Kind, Resource};
use crate::tables::User;

/// Pairs of one user that were allowed lately: of one connection, and of one version of the tables.
#[derive(Debug, Default)]
pub struct Allowed {
    version: u64,
    user: Option<Arc<User>>,
    pairs: Vec<(Kind, Actions, Box<str>)>,
    next: usize,
}

/// A client sends to or reads from a few topics; looking through more would cost more than deciding.
const ALLOWED_MAX: usize = 8;

impl Allowed {
    pub(crate) fn of<'s>(&'s mut self, version: u64, user: &Arc<User>) -> &'s mut Self {
        let is_same = self
            .user
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, user));
        if self.version != version || !is_same {
            self.version = version;
            self.user = Some(Arc::clone(user));
            self.pairs.clear();
            self.next = 0;
        }
        self
    }

    pub(crate) fn has(&self, resource: &Resource<'_>, actions: Actions) -> bool {
        let mut pairs = self.pairs.iter();
        pairs.any(|(kind, known, name)| {
            *known == actions && *kind == resource.kind && **name == *resource.name
        })
    }

    pub(crate) fn keep(&mut self, resource: &Resource<'_>, actions: Actions) {
        let pair = (resource.kind, actions, resource.name.into());
        if self.pairs.len() < ALLOWED_MAX {
            self.pairs.push(pair);
        } else if let Some(slot) = self.pairs.get_mut(self.next) {
            *slot = pair;
            self.next = (self.next + 1) % ALLOWED_MAX;
        }
    }
}
