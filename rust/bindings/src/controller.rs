//! The class over a controller's log and state. Each method unpacks, calls with the GIL kept or released,
//! maps the error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mqcore_consensus::raft::{Group, Outgoing, Timing};
use mqcore_consensus::{Consensus, ConsensusError, Machine};
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Error;
use mqcore_replica::controller::{
    AlterSet, Answer, ApplyId, AskedBy, Candidate, Claim, Clean, ControllerState, Elect, Epochs,
    Event, Fence, Register, View,
};
use pyo3::prelude::*;

use crate::errors::raised;
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};

frozen! {
    /// What a controller keeps of a broker name.
    BrokerSetView {
        /// Its cluster.
        cluster: String,
        /// The next id that is given.
        next_id: i64,
        /// The master's id; None where there is none.
        master: Option<i64>,
        /// The master's address.
        master_address: Option<String>,
        /// Grows with every master.
        master_epoch: i32,
        /// Ids of brokers that have every message that may have been acknowledged, in order.
        in_sync: Vec<i64>,
        /// Grows with every change of that set.
        set_epoch: i32,
        /// The address of every broker by its id, in order.
        replicas: BTreeMap<i64, String>,
        /// What names the process of every broker by its id, in order; what it applied with, of RocketMQ's.
        check_codes: BTreeMap<i64, String>,
        /// Ids of brokers that may be elected beside the set, in order.
        eligible: Vec<i64>,
    }

    /// What came of a request to a controller.
    ControllerAnswer {
        /// The official code.
        code: i32,
        /// Why it was refused; empty where it was done.
        remark: String,
        /// Whether the state is another one.
        is_changed: bool,
        /// The broker name behind it; None where it is not known.
        view: Option<Py<BrokerSetView>>,
    }

    /// A request to another controller.
    ControllerMessage {
        /// Names it when its response is delivered.
        ticket: u64,
        /// The number of the controller that it goes to.
        peer: u64,
        /// The request.
        content: Vec<u8>,
    }

    /// The state of a controller among its peers.
    ControllerStanding {
        /// Whether what it is asked can be agreed on.
        is_leader: bool,
        /// The number of the leader; None where none is known.
        leader: Option<u64>,
        /// Entries that were applied since its log began.
        applied: u64,
        /// Why nothing is agreed on any more; None where nothing failed.
        failure: Option<String>,
    }
}

/// `ControllerGroupRow`.
#[derive(FromPyObject)]
pub(crate) struct GroupRow {
    number: u64,
    members: Vec<u64>,
    heartbeat_ms: u64,
    election_ms: u64,
    wait_ms: u64,
}

/// `AlterSetRow`.
#[derive(FromPyObject)]
pub(crate) struct AlterSetRow {
    name: String,
    master: i64,
    master_epoch: i32,
    set_epoch: i32,
    in_sync: Vec<i64>,
    alive: Vec<i64>,
    in_sync_min: u32,
}

/// `ElectRow`.
#[derive(FromPyObject)]
pub(crate) struct ElectRow {
    name: String,
    broker_id: Option<i64>,
    is_designated: bool,
    master_epoch: i32,
    set_epoch: i32,
    alive: Vec<CandidateRow>,
    allows_unclean: bool,
    in_sync_min: u32,
}

/// `CandidateRow`.
#[derive(FromPyObject)]
pub(crate) struct CandidateRow {
    id: i64,
    epoch: i32,
    max_offset: i64,
    priority: i32,
}

/// `ClaimRow`.
#[derive(FromPyObject)]
pub(crate) struct ClaimRow {
    check_code: String,
    seen: String,
    is_held: bool,
}

impl From<AlterSetRow> for Event {
    fn from(row: AlterSetRow) -> Self {
        Self::AlterSet(AlterSet {
            name: row.name,
            master: row.master,
            seen: Epochs {
                master: row.master_epoch,
                set: row.set_epoch,
            },
            in_sync: row.in_sync.into_iter().collect(),
            alive: row.alive.into_iter().collect(),
            in_sync_min: row.in_sync_min,
        })
    }
}

impl From<ElectRow> for Event {
    fn from(row: ElectRow) -> Self {
        let asked_by = match (row.broker_id, row.is_designated) {
            (None, _) => AskedBy::Controller,
            (Some(id), false) => AskedBy::Broker(id),
            (Some(id), true) => AskedBy::Administrator(id),
        };
        let candidate = |each: CandidateRow| Candidate {
            id: each.id,
            epoch: each.epoch,
            max_offset: each.max_offset,
            priority: each.priority,
        };
        Self::Elect(Elect {
            name: row.name,
            asked_by,
            seen: Epochs {
                master: row.master_epoch,
                set: row.set_epoch,
            },
            alive: row.alive.into_iter().map(candidate).collect(),
            allows_unclean: row.allows_unclean,
            in_sync_min: row.in_sync_min,
        })
    }
}

/// The state as the log's machine: entries are events.
#[derive(Default)]
struct Brokers(ControllerState);

impl Machine for Brokers {
    type Answer = Answer;

    fn apply(&mut self, entry: &[u8]) -> Result<Answer, String> {
        let event = Event::decode(entry).map_err(|fault| fault.to_string())?;
        Ok(self.0.apply(&event))
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.0 = ControllerState::decode(bytes).map_err(|fault| fault.to_string())?;
        Ok(())
    }
}

type Node = Group<RealDisk, Brokers>;

/// The official code of a request to a controller that is not the leader, and its remark.
const NOT_LEADER: (i32, &str) = (2007, "The controller is not in leader state");

/// A controller's log and state: what it answers is durable.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ControllerNode {
    // Taken by `close`, which gives the lock of the directory back.
    inside: Mutex<Option<Arc<Node>>>,
}

#[pymethods]
impl ControllerNode {
    #[new]
    fn new(py: Python<'_>, directory: PathBuf, group: GroupRow) -> PyResult<Self> {
        let members = group.members.into_iter().collect::<BTreeSet<_>>();
        let timing = Timing {
            heartbeat_ms: group.heartbeat_ms,
            election_ms: group.election_ms,
            wait: Duration::from_millis(group.wait_ms),
        };
        let opened = gil_call(py, Gil::Released, || {
            let machine = Brokers::default();
            Group::start(
                RealDisk,
                &directory,
                machine,
                group.number,
                &members,
                timing,
            )
        });
        let node = opened.map_err(|error| failed(py, &error))?;
        Ok(Self {
            inside: Mutex::new(Some(Arc::new(node))),
        })
    }

    /// A master wants another set.
    fn alter_set(&self, py: Python<'_>, row: AlterSetRow) -> PyResult<ControllerAnswer> {
        self.asked(py, &row.into())
    }

    /// Somebody wants a master.
    fn elect(&self, py: Python<'_>, row: ElectRow) -> PyResult<ControllerAnswer> {
        self.asked(py, &row.into())
    }

    /// A broker wants an id.
    fn apply_id(
        &self,
        py: Python<'_>,
        cluster: String,
        name: String,
        id: i64,
        check_code: String,
    ) -> PyResult<ControllerAnswer> {
        self.asked(
            py,
            &Event::ApplyId(ApplyId {
                cluster,
                name,
                id,
                check_code,
            }),
        )
    }

    /// A broker with an id is there.
    fn register(
        &self,
        py: Python<'_>,
        name: String,
        id: i64,
        address: String,
        claim: Option<ClaimRow>,
    ) -> PyResult<ControllerAnswer> {
        let claim = claim.map(|row| Claim {
            check_code: row.check_code,
            seen: row.seen,
            is_held: row.is_held,
        });
        let event = Event::Register(Register {
            name,
            id,
            address,
            claim,
        });
        self.asked(py, &event)
    }

    /// A master wants every other set that it has asked for to be refused from now on.
    fn fence(
        &self,
        py: Python<'_>,
        name: String,
        master: i64,
        master_epoch: i32,
        set_epoch: i32,
    ) -> PyResult<ControllerAnswer> {
        let seen = Epochs {
            master: master_epoch,
            set: set_epoch,
        };
        self.asked(py, &Event::Fence(Fence { name, master, seen }))
    }

    /// Brokers are to be forgotten; without ids the whole name.
    fn clean(
        &self,
        py: Python<'_>,
        name: String,
        ids: Vec<i64>,
        alive: Vec<i64>,
        allows_living: bool,
    ) -> PyResult<ControllerAnswer> {
        self.asked(
            py,
            &Event::Clean(Clean {
                name,
                ids: ids.into_iter().collect::<BTreeSet<_>>(),
                allows_living,
                alive: alive.into_iter().collect(),
            }),
        )
    }

    /// Whether it leads, and has applied everything that was agreed on before the call.
    fn confirm(&self, py: Python<'_>) -> PyResult<bool> {
        let node = self.node(py)?;
        match gil_call(py, Gil::Released, || node.confirm()) {
            Ok(()) => Ok(true),
            Err(ConsensusError::NotLeader { .. } | ConsensusError::Late { .. }) => Ok(false),
            Err(error) => Err(failed(py, &error)),
        }
    }

    /// Takes requests to other controllers; waits for one, for a time.
    fn outgoing(&self, py: Python<'_>, wait_ms: u64) -> PyResult<Vec<ControllerMessage>> {
        let node = self.node(py)?;
        let wait = Duration::from_millis(wait_ms);
        let taken = gil_call(py, Gil::Released, || node.outgoing(wait));
        let message = |Outgoing {
                           ticket,
                           peer,
                           bytes,
                       }| ControllerMessage {
            ticket,
            peer,
            content: bytes,
        };
        Ok(taken.into_iter().map(message).collect())
    }

    /// Gives the response to a request to another controller; None where there is none.
    fn deliver(&self, py: Python<'_>, ticket: u64, response: Option<Vec<u8>>) -> PyResult<()> {
        let node = self.node(py)?;
        let response = response.ok_or_else(|| "no response".to_owned());
        gil_call(py, Gil::Kept, || node.deliver(ticket, response));
        Ok(())
    }

    /// The response to the request of another controller; None where it is none.
    fn answer(&self, py: Python<'_>, request: Vec<u8>) -> PyResult<Option<Vec<u8>>> {
        let node = self.node(py)?;
        Ok(gil_call(py, Gil::Released, || node.answer(&request).ok()))
    }

    /// What is kept of a broker name; None where it is not known.
    fn view(&self, py: Python<'_>, name: &str) -> PyResult<Option<BrokerSetView>> {
        let node = self.node(py)?;
        let view = gil_call(py, Gil::Kept, || node.look(|state| state.0.view(name)));
        Ok(view.map(shown))
    }

    /// Every broker name, in order.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let node = self.node(py)?;
        Ok(gil_call(py, Gil::Kept, || {
            node.look(|state| state.0.sets().map(|(name, _)| name.to_owned()).collect())
        }))
    }

    /// Its state among its peers.
    fn standing(&self, py: Python<'_>) -> PyResult<ControllerStanding> {
        let node = self.node(py)?;
        let standing = gil_call(py, Gil::Kept, || node.standing());
        Ok(ControllerStanding {
            is_leader: standing.is_leader,
            leader: standing.leader,
            applied: standing.applied,
            failure: standing.failure,
        })
    }

    /// Closes the log. Does nothing the second time.
    fn close(&self, py: Python<'_>) {
        let node = self.locked().take();
        gil_call(py, Gil::Released, || {
            if let Some(node) = node {
                node.stop();
            }
        });
    }
}

impl ControllerNode {
    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Arc<Node>>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, py: Python<'_>) -> PyResult<Arc<Node>> {
        let node = self.locked().clone();
        node.ok_or_else(|| raised(py, &Error::Closed))
    }

    /// Answers at once what changes nothing; has everything else agreed on.
    fn asked(&self, py: Python<'_>, event: &Event) -> PyResult<ControllerAnswer> {
        let node = self.node(py)?;
        let answered = gil_call(py, Gil::Released, || {
            let known = || node.look(|state| state.0.answer_without_change(event));
            if known().is_some() {
                // By a state that is not the present one it might be another answer.
                node.confirm()?;
                if let Some(answer) = known() {
                    return Ok(answer);
                }
            }
            node.propose(&event.encode())
        });
        let answer = match answered {
            Ok(answer) => answer,
            Err(ConsensusError::NotLeader { leader: _ }) => {
                let (code, remark) = NOT_LEADER;
                return Ok(ControllerAnswer {
                    code,
                    remark: remark.to_owned(),
                    is_changed: false,
                    view: None,
                });
            }
            Err(error) => return Err(failed(py, &error)),
        };
        let view = answer.view.map(|view| Py::new(py, shown(view)));
        Ok(ControllerAnswer {
            code: answer.code.number(),
            remark: answer.remark,
            is_changed: answer.is_changed,
            view: view.transpose()?,
        })
    }
}

fn shown(view: View) -> BrokerSetView {
    BrokerSetView {
        cluster: view.cluster,
        next_id: view.next_id,
        master: view.master,
        master_address: view.master_address,
        master_epoch: view.master_epoch,
        in_sync: view.in_sync,
        set_epoch: view.set_epoch,
        replicas: view.replicas.into_iter().collect(),
        check_codes: view.check_codes.into_iter().collect(),
        eligible: view.eligible,
    }
}

/// The exception for what a controller could not agree on.
fn failed(py: Python<'_>, error: &ConsensusError) -> PyErr {
    match error {
        ConsensusError::Log(error) => raised(py, error),
        ConsensusError::NotLeader { leader: _ } => raised(
            py,
            &Error::NotWritable {
                reason: error.to_string(),
            },
        ),
        ConsensusError::Late { waited_ms } => raised(
            py,
            &Error::Timeout {
                what: "the agreement of controllers",
                waited_ms: *waited_ms,
            },
        ),
        ConsensusError::TooLong {
            len_bytes: _,
            max_bytes,
        } => raised(
            py,
            &Error::Limit {
                what: "bytes of an entry of a controller's log".to_owned(),
                limit: *max_bytes as u64,
            },
        ),
    }
}
