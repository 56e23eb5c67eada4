//! What a request processor is given for one call: the store, what was decided, where responses go,
//! the reader threads, the time. Knows no processor.

use std::sync::Arc;

use mqcore_access::{Actions, Resource};
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{LoopEvents, Store};
use mqcore_record::Host;

use crate::connections::Connections;
use crate::filtering::MessageFilters;
use crate::gate::{Further, Gate};
use crate::policy::Policy;
use crate::readers::{Job, Readers};
use crate::refusals::{self, Refused};
use crate::request_context::{ConnectionId, RequestContext};
use crate::requests::Request;
use crate::stop::{Processed, Stop};
use crate::throttling::have_read;

/// The surroundings of a request processor, for the length of one call.
pub(crate) struct Context<'a, D: Disk, C: Clock> {
    pub(crate) store: &'a Arc<Store<D, C>>,
    /// What the loop of this fast path is woken for.
    pub(crate) events: &'a LoopEvents,
    /// What was decided; does not change during the call.
    pub(crate) policy: &'a Policy,
    /// Where responses go, and who is connected.
    pub(crate) connections: &'a mut Connections<D>,
    /// The threads that read what is not in memory.
    pub(crate) readers: &'a mut Readers<D, C>,
    /// Message filters of pulls and pops, and what they may still cost.
    pub(crate) filters: &'a mut MessageFilters,
    /// Who may do what.
    pub(crate) gate: &'a Gate,
    /// The time of this turn, ms.
    pub(crate) now_ms: u64,
    /// Whether requests wait for the next log file: those that store something now wait behind them.
    pub(crate) has_deferred: bool,
}

impl<D: Disk, C: Clock> Context<'_, D, C> {
    /// Whether a request that stores so many bytes has to wait for the next log file.
    #[inline]
    pub(crate) fn waits_for_log(&self, bytes: u64) -> bool {
        self.has_deferred || !self.store.writer().is_ready_for(bytes)
    }

    /// Code and remark for an append that failed.
    pub(crate) fn not_stored(&self, error: &mqcore_engine::error::Error) -> Refused {
        refusals::not_stored(error, self.store.config().max_message_bytes)
    }

    /// Code and remark for a message that needs more replicas in sync than there are.
    pub(crate) fn too_few_replicas(&self) -> Refused {
        let max = self.store.config().max_message_bytes;
        refusals::of_status(PutStatus::InSyncReplicasNotEnough, "", max)
    }

    /// Code and remark for a message that cannot be stored.
    pub(crate) fn illegal(&self) -> Refused {
        refusals::illegal(self.store.config().max_message_bytes)
    }

    /// Answers a request that is refused, of a family whose refusals have no fields.
    pub(crate) fn refuse(
        &mut self,
        request_context: &RequestContext,
        processed: Processed,
    ) -> Processed {
        self.refuse_by(processed, |cx, refused| {
            cx.connections.refuse(request_context, refused);
        })
    }

    /// Answers a refusal with `respond`, where the response has fields of its own.
    pub(crate) fn refuse_by(
        &mut self,
        processed: Processed,
        respond: impl FnOnce(&mut Self, &Refused),
    ) -> Processed {
        let Err(Stop::Refuse(refused)) = processed else {
            return processed;
        };
        respond(self, &refused);
        Ok(())
    }

    /// Has something read by the threads; refuses the request when too much waits.
    pub(crate) fn read_elsewhere(&mut self, request_context: &RequestContext, job: Job<D>) {
        if !self.readers.submit(job) {
            self.connections
                .refuse(request_context, &refusals::overload());
        }
    }

    /// What is still to be asked for of a request; none where its header had all.
    pub(crate) fn further(&self, request: &Request<'_>) -> Option<Further> {
        if !request.has_further {
            return None;
        }
        let connection = self
            .connections
            .connection(request.request_context.connection)?;
        Some(Further::of(&connection.identity, request.code))
    }

    /// Decides about pairs that a record or a body names.
    pub(crate) fn permit<'p>(
        &self,
        request_context: &RequestContext,
        further: &Further,
        pairs: impl IntoIterator<Item = (Resource<'p>, Actions)>,
    ) -> std::result::Result<(), Refused> {
        let Some(connection) = self.connections.connection(request_context.connection) else {
            // Nobody would have the answer, and nobody may have what it does.
            return Err(refusals::overload());
        };
        let now_ms = || self.store.wall_ms();
        let decided = self
            .gate
            .decide(further, &connection.identity, &now_ms, pairs);
        decided.map_err(|refusal| refusals::not_permitted(&refusal))
    }

    /// Counts what a request was given to read, where there are quotas.
    #[inline]
    pub(crate) fn note_read(
        &self,
        request_context: &RequestContext,
        names: (&str, &str),
        amount: (u64, u64),
    ) {
        if !self.policy.broker.quotas.is_empty() {
            let id = request_context.connection;
            have_read(self.connections, id, names, amount, self.now_ms);
        }
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self, connection: ConnectionId) -> bool {
        self.connections.connection(connection).is_some()
    }

    /// Where a client is, as official remarks spell it.
    pub(crate) fn peer(&self, request_context: &RequestContext) -> &str {
        let connection = self.connections.connection(request_context.connection);
        connection.map_or("", |connection| &connection.peer)
    }

    /// Where the client of a request is, as records have it.
    pub(crate) fn born_host(&self, request: &Request<'_>) -> Host {
        let connection = self
            .connections
            .connection(request.request_context.connection);
        connection.map_or(self.policy.broker.store_host, |connection| {
            let passed_on = connection.names_hosts.then(|| request.named_host());
            passed_on.flatten().unwrap_or(connection.born_host)
        })
    }

    /// The record at a physical offset, unless the disk would have to be waited for.
    pub(crate) fn record_if_hot(&self, physical_offset: u64) -> Result<Option<RecordBytes<D>>> {
        let Some(head) = self.store.reader().record_now(physical_offset, 4)? else {
            return Ok(None);
        };
        let len = head.as_bytes().first_chunk::<4>();
        let len = len.map_or(0, |len| i32::from_be_bytes(*len));
        // Whatever it is, Python finds out what is wrong with it.
        let Ok(len @ 1..) = usize::try_from(len) else {
            return Ok(None);
        };
        self.store.reader().record_now(physical_offset, len)
    }
}
