//! Access control before a request is executed: the tables in force as this loop has them, the check of a
//! frame, decisions that need a record. Owns no connection.

use std::sync::Arc;

use mqcore_access::{Access, Actions, Asked, Caller, Refusal, Resource, Tables, When};
use mqcore_engine::disk::Disk;
use mqcore_wire::CommandRef;

use crate::codes;
use crate::connections::Connections;
use crate::identity::Identity;
use crate::refusals::{self, Refused};
use crate::request_context::ConnectionId;

/// Requests whose further pairs are asked for here: by the half message that is ended, by the record that is
/// sent back, by the acknowledgements in the body.
pub const READS_FURTHER: &[i32] = &[
    codes::END_TRANSACTION,
    codes::CONSUMER_SEND_MSG_BACK,
    codes::BATCH_ACK_MESSAGE,
];

/// Access control of one loop.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    access: Option<Arc<Access>>,
    tables: Arc<Tables>,
}

/// Who passed, and what is still to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Further {
    user: Box<str>,
    code: i32,
}

impl Gate {
    /// Checks requests from now on.
    pub(crate) fn set(&mut self, access: Arc<Access>) {
        self.access = Some(access);
    }

    /// Takes the tables in force, where they are others; the connections whose users may have other rights.
    #[inline]
    pub(crate) fn renewed<D: Disk>(&mut self, connections: &Connections<D>) -> Vec<ConnectionId> {
        match &self.access {
            Some(access) if access.version() != self.tables.version => {
                let before = std::mem::replace(&mut self.tables, access.tables());
                let has_same_plain = match (&before.plain, &self.tables.plain) {
                    (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                    (before, now) => before.is_none() && now.is_none(),
                };
                if has_same_plain && before.settings == self.tables.settings {
                    connections.ids_where(|each| each.identity.has_changed(&self.tables))
                } else {
                    // What is checked has changed: everybody may have other rights.
                    connections.ids_where(|_| true)
                }
            }
            _ => Vec::new(),
        }
    }

    /// Whether anything is checked.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.tables.is_on()
    }

    /// Lets a request in, or refuses it, and when; whether its user has to be asked for what it does beside
    /// its header.
    pub(crate) fn admit<D: Disk>(
        &self,
        connections: &mut Connections<D>,
        id: ConnectionId,
        command: &CommandRef<'_>,
        now_ms: &dyn Fn() -> i64,
    ) -> Result<bool, (Refused, When)> {
        let Some(connection) = connections.connection_mut(id) else {
            return Ok(false);
        };
        let checked = self.check(command, &mut connection.identity, now_ms);
        checked.map_err(|refusal| {
            let when = self
                .access
                .as_ref()
                .map(|it| it.answered(&self.tables, &refusal));
            (refusals::not_permitted(&refusal), when.unwrap_or_default())
        })
    }

    /// Checks a request; whether more pairs are to be asked for.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn check(
        &self,
        command: &CommandRef<'_>,
        identity: &mut Identity,
        now_ms: &dyn Fn() -> i64,
    ) -> Result<bool, Refusal> {
        let Some(access) = &self.access else {
            return Ok(false);
        };
        let asked = Asked {
            code: command.code,
            version: command.version,
            fields: command.fields.as_slice(),
            body: command.body,
        };
        let Identity {
            source,
            is_tls,
            principal,
            allowed,
            ..
        } = identity;
        let caller = Caller {
            source,
            is_tls: *is_tls,
            principal,
            now_ms,
        };
        let passed = access.check(&self.tables, asked, caller, allowed)?;
        identity.asks(passed.user);
        Ok(passed.needs_body)
    }

    /// Decides about pairs that a record or a body names.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn decide<'a>(
        &self,
        further: &Further,
        identity: &Identity,
        now_ms: &dyn Fn() -> i64,
        pairs: impl IntoIterator<Item = (Resource<'a>, Actions)>,
    ) -> Result<(), Refusal> {
        let Some(access) = &self.access else {
            return Ok(());
        };
        let caller = Caller {
            source: &identity.source,
            is_tls: identity.is_tls,
            principal: &identity.principal,
            now_ms,
        };
        let who = (&*further.user, further.code);
        access.decide(&self.tables, who, caller, pairs)
    }
}

impl Further {
    /// Who asked last on a connection has more to be asked for.
    pub(crate) fn of(identity: &Identity, code: i32) -> Self {
        Self {
            user: identity.user().into(),
            code,
        }
    }
}
