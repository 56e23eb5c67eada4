//! What goes to peers and comes from them, as bytes that somebody else carries: a request waits in a queue
//! until it is taken, and is answered by its ticket.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, BasicNode, Raft};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::types::{NodeId, Types};

/// Requests that wait to be taken: openraft has one per peer and kind under way.
const WAITING_MAX: usize = 1_024;

/// What a peer answered, or why it did not.
type Response = Result<Vec<u8>, String>;

/// A request to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Names it when its response is delivered.
    pub ticket: u64,
    /// The number of the peer.
    pub peer: u64,
    /// The request.
    pub bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<NodeId>),
    Snapshot(InstallSnapshotRequest<Types>),
}

#[derive(Default)]
struct Waiting {
    requests: Vec<Outgoing>,
    answers: HashMap<u64, oneshot::Sender<Response>>,
    next_ticket: u64,
    is_stopped: bool,
}

/// Requests to peers, on their way.
#[derive(Default)]
pub(super) struct Carrier {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Carrier {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the requests that wait; waits for one, for a time.
    pub(super) fn take(&self, wait: Duration) -> Vec<Outgoing> {
        let waiting = self.waiting();
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(waiting, wait, |each| {
                each.requests.is_empty() && !each.is_stopped
            })
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut waiting.requests)
    }

    /// Gives the response to a request, or why there is none.
    pub(super) fn deliver(&self, ticket: u64, response: Result<Vec<u8>, String>) {
        if let Some(answer) = self.waiting().answers.remove(&ticket) {
            // Who asked may wait no longer.
            let _late = answer.send(response);
        }
    }

    /// Ends every wait.
    pub(super) fn stop(&self) {
        let mut waiting = self.waiting();
        waiting.is_stopped = true;
        waiting.answers.clear();
        drop(waiting);
        self.arrived.notify_all();
    }

    fn send(&self, peer: NodeId, bytes: Vec<u8>) -> Option<(u64, oneshot::Receiver<Response>)> {
        let mut waiting = self.waiting();
        if waiting.is_stopped || waiting.requests.len() >= WAITING_MAX {
            return None;
        }
        waiting.next_ticket += 1;
        let ticket = waiting.next_ticket;
        let (sender, receiver) = oneshot::channel();
        waiting.answers.insert(ticket, sender);
        waiting.requests.push(Outgoing {
            ticket,
            peer,
            bytes,
        });
        drop(waiting);
        self.arrived.notify_all();
        Some((ticket, receiver))
    }
}

/// Makes the way to each peer.
pub(super) struct Peers(pub(super) std::sync::Arc<Carrier>);

/// The way to one peer.
pub(super) struct Peer {
    carrier: std::sync::Arc<Carrier>,
    id: NodeId,
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, target: NodeId, _node: &BasicNode) -> Peer {
        Peer {
            carrier: std::sync::Arc::clone(&self.0),
            id: target,
        }
    }
}

type Fault<E> = RPCError<NodeId, BasicNode, RaftError<NodeId, E>>;

impl Peer {
    async fn ask<A, E>(&self, request: &Request, option: &RPCOption) -> Result<A, Fault<E>>
    where
        A: DeserializeOwned,
        E: std::error::Error + DeserializeOwned,
    {
        let lost = |why: String| RPCError::Unreachable(Unreachable::from(AnyError::error(why)));
        let bytes = serde_json::to_vec(request).map_err(|error| lost(error.to_string()))?;
        let Some((ticket, receiver)) = self.carrier.send(self.id, bytes) else {
            return Err(lost("too many requests to peers wait".to_owned()));
        };
        let response = match tokio::time::timeout(option.hard_ttl(), receiver).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(why))) => return Err(lost(why)),
            Ok(Err(_stopped)) => return Err(lost("the controller stops".to_owned())),
            Err(_late) => {
                self.carrier.waiting().answers.remove(&ticket);
                return Err(lost("no response in time".to_owned()));
            }
        };
        let parsed: Result<A, RaftError<NodeId, E>> = serde_json::from_slice(&response)
            .map_err(|error| RPCError::Network(NetworkError::new(&error)))?;
        parsed.map_err(|error| RPCError::RemoteError(RemoteError::new(self.id, error)))
    }
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, RPCError<NodeId, BasicNode, RaftError<NodeId>>> {
        self.ask(&Request::Append(rpc), &option).await
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, Fault<InstallSnapshotError>> {
        self.ask(&Request::Snapshot(rpc), &option).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<NodeId>,
        option: RPCOption,
    ) -> Result<VoteResponse<NodeId>, RPCError<NodeId, BasicNode, RaftError<NodeId>>> {
        self.ask(&Request::Vote(rpc), &option).await
    }
}

/// The response to a peer's request.
pub(super) async fn answered(raft: &Raft<Types>, request: &[u8]) -> Result<Vec<u8>, String> {
    let request = serde_json::from_slice(request)
        .map_err(|error| format!("no message between controllers: {error}"))?;
    let response = match request {
        Request::Append(rpc) => serde_json::to_vec(&raft.append_entries(rpc).await),
        Request::Vote(rpc) => serde_json::to_vec(&raft.vote(rpc).await),
        Request::Snapshot(rpc) => serde_json::to_vec(&raft.install_snapshot(rpc).await),
    };
    response.map_err(|error| error.to_string())
}
