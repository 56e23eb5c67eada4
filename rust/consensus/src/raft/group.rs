//! One controller of several: openraft on a thread of its own, and calls into it from any other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mqcore_engine::disk::Disk;
use mqcore_engine::error::Error;
use openraft::error::{CheckIsLeaderError, ClientWriteError, InitializeError, RaftError};
use openraft::{BasicNode, Config, Raft, SnapshotPolicy};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::log::Log;
use super::messages::{Carrier, Outgoing, Peers, answered};
use super::state::State;
use super::types::{NodeId, Proposal, Types};
use crate::node::{Consensus, ConsensusError, Machine, Standing};

/// Entries from one snapshot to the next: some megabytes of log.
const SNAPSHOT_ENTRIES: u64 = 5_000;
/// Entries that are kept behind a snapshot, for a peer that is a little late.
const KEPT_ENTRIES: u64 = 500;

/// How fast controllers notice that one of them is gone.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Between two messages of an idle leader.
    pub heartbeat_ms: u64,
    /// Without one for at least so long, an election begins.
    pub election_ms: u64,
    /// How long a call waits to be agreed on.
    pub wait: Duration,
}

/// One controller of a group.
pub struct Group<D: Disk, M: Machine> {
    id: NodeId,
    raft: Raft<Types>,
    log: Log<D>,
    state: State<D, M>,
    carrier: Arc<Carrier>,
    runtime: Handle,
    wait: Duration,
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl<D: Disk, M: Machine> Group<D, M> {
    /// Opens the log of a directory and begins to talk to peers. All controllers of a group are started with
    /// the same `members`; one alone is its own leader at once.
    ///
    /// # Errors
    /// As [`Journal::open`](crate::journal::Journal::open); [`Error::Config`] for times that cannot work.
    ///
    /// # Blocking
    /// Reads and writes the disk.
    pub fn start(
        disk: D,
        dir: &Path,
        machine: M,
        id: u64,
        members: &BTreeSet<u64>,
        timing: Timing,
    ) -> Result<Self, ConsensusError> {
        let log = Log::open(disk, dir, id)?;
        let state = State::new(log.clone(), machine).map_err(|why| Error::ForeignFile {
            path: dir.to_owned(),
            why: format!("the snapshot of its log cannot be understood: {why}"),
        })?;
        let config = configured(timing, SNAPSHOT_ENTRIES, KEPT_ENTRIES)?;
        let carrier = Arc::new(Carrier::default());
        let (runtime, thread) = started_runtime()?;
        let raft = runtime
            .block_on(Raft::new(
                id,
                config,
                Peers(Arc::clone(&carrier)),
                log.clone(),
                state.clone(),
            ))
            .map_err(|error| refused(&error))?;
        let group = Self {
            id,
            raft,
            log,
            state,
            carrier,
            runtime,
            wait: timing.wait,
            thread: Mutex::new(Some(thread)),
        };
        group.begin(members)?;
        Ok(group)
    }

    /// Makes the group where it is not there yet.
    fn begin(&self, members: &BTreeSet<u64>) -> Result<(), ConsensusError> {
        let nodes: BTreeMap<NodeId, BasicNode> = members
            .iter()
            .map(|id| (*id, BasicNode::default()))
            .collect();
        let made = self.runtime.block_on(self.raft.initialize(nodes));
        match made {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(refused(&error)),
        }
        if members.len() == 1 {
            // Nobody else could be elected: there is nothing to wait for.
            let elected = self.runtime.block_on(async {
                self.raft.trigger().elect().await?;
                let wait = self.raft.wait(Some(self.wait));
                let _late = wait.current_leader(self.id, "alone").await;
                Ok::<_, openraft::error::Fatal<NodeId>>(())
            });
            elected.map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// Returns when everything that was agreed on before the call is applied here.
    ///
    /// # Errors
    /// [`ConsensusError::NotLeader`]; [`ConsensusError::Late`] where too few peers confirm it.
    pub fn confirm(&self) -> Result<(), ConsensusError> {
        let confirmed = self.waited(async { self.raft.ensure_linearizable().await })?;
        match confirmed {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(other))) => {
                Err(ConsensusError::NotLeader {
                    leader: other.leader_id,
                })
            }
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => Err(self.late()),
            Err(RaftError::Fatal(fatal)) => Err(self.failed(&fatal)),
        }
    }

    /// Takes requests to peers; waits for one, for a time.
    #[must_use]
    pub fn outgoing(&self, wait: Duration) -> Vec<Outgoing> {
        self.carrier.take(wait)
    }

    /// Gives the response to a request, or why there is none.
    pub fn deliver(&self, ticket: u64, response: Result<Vec<u8>, String>) {
        self.carrier.deliver(ticket, response);
    }

    /// The response to the request of a peer.
    ///
    /// # Errors
    /// The bytes are no request: why.
    pub fn answer(&self, request: &[u8]) -> Result<Vec<u8>, String> {
        let answer = self.waited(answered(&self.raft, request));
        answer.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Ends the thread. Does nothing the second time.
    pub fn stop(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some((stop, thread)) = thread else {
            return;
        };
        self.carrier.stop();
        let _ended = self.runtime.block_on(self.raft.shutdown());
        let _gone = stop.send(());
        let _panicked = thread.join();
    }

    fn waited<T>(&self, work: impl Future<Output = T>) -> Result<T, ConsensusError> {
        let done = self
            .runtime
            .block_on(async { tokio::time::timeout(self.wait, work).await });
        done.map_err(|_| self.late())
    }

    fn late(&self) -> ConsensusError {
        ConsensusError::Late {
            waited_ms: u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn failed(&self, fatal: &openraft::error::Fatal<NodeId>) -> ConsensusError {
        let reason = self.log.failure().unwrap_or_else(|| fatal.to_string());
        Error::Poisoned { reason }.into()
    }
}

impl<D: Disk, M: Machine> Drop for Group<D, M> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<D: Disk, M: Machine> Consensus<M> for Group<D, M> {
    fn propose(&self, entry: &[u8]) -> Result<M::Answer, ConsensusError> {
        let proposal = Proposal(entry.to_vec());
        match self.waited(self.raft.client_write(proposal))? {
            Ok(written) => {
                let answer = self.state.take_answer(written.log_id.index);
                answer.ok_or_else(|| self.late())
            }
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(other))) => {
                Err(ConsensusError::NotLeader {
                    leader: other.leader_id,
                })
            }
            // Entries that change the members are not proposed here.
            Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
                Err(refused(&error))
            }
            Err(RaftError::Fatal(fatal)) => Err(self.failed(&fatal)),
        }
    }

    fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        self.state.look(look)
    }

    fn standing(&self) -> Standing {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let failure = metrics.running_state.as_ref().err();
        Standing {
            is_leader: failure.is_none() && metrics.current_leader == Some(self.id),
            leader: metrics.current_leader,
            applied: metrics.last_applied.map_or(0, |id| id.index),
            failure: failure.map(|fatal| self.failed(fatal).to_string()),
        }
    }
}

/// What openraft is started with.
pub(super) fn configured(
    timing: Timing,
    snapshot_entries: u64,
    kept_entries: u64,
) -> Result<Arc<Config>, ConsensusError> {
    let config = Config {
        cluster_name: "mqcore".to_owned(),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min: timing.election_ms,
        election_timeout_max: timing.election_ms * 2,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(snapshot_entries),
        max_in_snapshot_log_to_keep: kept_entries,
        ..Config::default()
    };
    let config = config.validate().map_err(|error| refused(&error))?;
    Ok(Arc::new(config))
}

fn refused(error: &impl std::fmt::Display) -> ConsensusError {
    Error::Config {
        key: "controllerDLegerPeers".to_owned(),
        value: String::new(),
        why: error.to_string(),
    }
    .into()
}

type Thread = (oneshot::Sender<()>, JoinHandle<()>);

/// Starts the thread that runs openraft's tasks and timers, until it is stopped.
fn started_runtime() -> Result<(Handle, Thread), ConsensusError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| refused(&error))?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("mq-consensus".to_owned())
        .spawn(move || {
            let _stopped = runtime.block_on(stopped);
        })
        .map_err(|error| refused(&error))?;
    Ok((handle, (stop, thread)))
}
