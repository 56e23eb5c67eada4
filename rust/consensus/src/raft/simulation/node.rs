//! One controller of a history: its disk, and what runs while it is up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::disk::twin::{CallKind, Fault, Times, TwinDisk};
use mqcore_engine::error::Error;
use openraft::error::{InitializeError, RaftError};
use openraft::{BasicNode, Raft, ServerState};
use rand::Rng;
use rand::rngs::StdRng;

use super::super::Timing;
use super::super::group::configured;
use super::super::log::Log;
use super::super::messages::{Carrier, Peers};
use super::super::state::State;
use super::super::types::Types;
use super::flaw::Flaw;
use super::ledger::{Entries, Shared};

const DIR: &str = "/controller";

/// Times of a history, in virtual time.
pub(super) const TIMING: Timing = Timing {
    heartbeat_ms: 50,
    election_ms: 300,
    wait: Duration::from_secs(2),
};

/// What runs.
pub(super) struct Running {
    pub(super) raft: Raft<Types>,
    pub(super) state: State<TwinDisk, Entries>,
    pub(super) carrier: Arc<Carrier>,
}

/// One controller.
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) twin: TwinDisk,
    pub(super) running: Option<Running>,
    /// Counts its starts: what was sent to an earlier one does not arrive.
    pub(super) incarnation: u64,
}

/// How often snapshots are made, and how many entries stay behind them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshots {
    pub(super) entries: u64,
    pub(super) kept: u64,
}

impl Node {
    pub(super) fn new(id: u64) -> Self {
        Self {
            id,
            twin: TwinDisk::new(),
            running: None,
            incarnation: 0,
        }
    }

    /// Starts it from what its disk has; false where an error of the disk prevents it.
    pub(super) async fn start(
        &mut self,
        members: &BTreeSet<u64>,
        snapshots: Snapshots,
        shared: &Shared,
        flaw: Option<Flaw>,
    ) -> Result<bool, String> {
        let failed = |why: String| format!("controller {} does not start: {why}", self.id);
        // The log gives up the leadership of its own controller.
        let of = if flaw == Some(Flaw::LeadsOn) {
            0
        } else {
            self.id
        };
        let log = match Log::open(self.twin.clone(), Path::new(DIR), of) {
            Ok(log) => log,
            Err(Error::Io { .. }) => return Ok(false),
            Err(error) => return Err(failed(error.to_string())),
        };
        let machine = Entries {
            node: self.id,
            shared: shared.clone(),
            list: Vec::new(),
            cuts_snapshots: flaw == Some(Flaw::CutsSnapshots),
        };
        let state = State::new(log.clone(), machine).map_err(failed)?;
        let config = configured(TIMING, snapshots.entries, snapshots.kept)
            .map_err(|error| failed(error.to_string()))?;
        let carrier = Arc::new(Carrier::default());
        let peers = Peers(Arc::clone(&carrier));
        let raft = Raft::new(self.id, config, peers, log, state.clone())
            .await
            .map_err(|error| failed(error.to_string()))?;
        let nodes: BTreeMap<u64, BasicNode> = members
            .iter()
            .map(|id| (*id, BasicNode::default()))
            .collect();
        match raft.initialize(nodes).await {
            // A disk that fails here ends it as at any other time.
            Ok(())
            | Err(RaftError::APIError(InitializeError::NotAllowed(_)) | RaftError::Fatal(_)) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
        self.incarnation += 1;
        self.running = Some(Running {
            raft,
            state,
            carrier,
        });
        Ok(true)
    }

    /// Ends it: nothing that its tasks do from here on reaches its disk. Without power the disk has one of
    /// the images that may be left.
    pub(super) async fn end(
        &mut self,
        loses_power: bool,
        draws: &mut StdRng,
        flaw: Option<Flaw>,
    ) -> Result<(), String> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        self.twin.stop_at_call(self.twin.calls() + 1);
        running.carrier.stop();
        let _ended = running.raft.shutdown().await;
        drop(running);
        if loses_power {
            let history = self.twin.history();
            let last = history.stop_points() - 1;
            let stop = match flaw {
                Some(Flaw::SyncLies) => last.saturating_sub(draws.gen_range(0..12)),
                _ => last,
            };
            let pick = match draws.gen_range(0..6) {
                0 => "x0".to_owned(),
                1 => "x1".to_owned(),
                _ => format!("r{}", draws.r#gen::<u64>() >> 1),
            };
            let id = format!("{stop}.w.{pick}").parse()?;
            self.twin = history.image(&id).disk();
        }
        self.twin.heal();
        Ok(())
    }

    /// Its next sync fails.
    pub(super) fn fail_sync(&self) {
        self.twin.fail(Fault {
            call: CallKind::Sync,
            path_contains: None,
            nth: 1,
            errno: 5,
            times: Times::Once,
        });
    }

    /// The term that it leads, if it leads one.
    pub(super) fn led_term(&self) -> Option<u64> {
        let metrics = self.running.as_ref()?.raft.metrics();
        let metrics = metrics.borrow();
        let leads = metrics.state == ServerState::Leader && metrics.running_state.is_ok();
        leads.then(|| metrics.vote.leader_id().term)
    }

    /// Whether something failed, so that it does nothing until its next start.
    pub(super) fn has_failed(&self) -> bool {
        let failed = |running: &Running| running.raft.metrics().borrow().running_state.is_err();
        self.running.as_ref().is_some_and(failed)
    }
}
