//! One history: controllers, the network between them, who asks them, and what goes wrong, in virtual time on
//! one thread. Everything is drawn from the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::error::{ClientWriteError, RaftError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::super::messages::{Outgoing, answered};
use super::super::types::Proposal;
use super::count::Count;
use super::flaw::Flaw;
use super::ledger::{Checked, Shared};
use super::node::{Node, Snapshots, TIMING};

/// Between two looks of the network.
const TICK_MS: u64 = 2;
/// How long things go wrong.
const TROUBLE_MS: u64 = 6_000;
/// How long they take to come together at most, once nothing goes wrong.
const HEALED_MS: u64 = 20_000;
/// How long a harm lasts.
const SPELLS_MS: [u64; 5] = [20, 150, 400, 1_000, 2_500];
/// Who lies, where a flaw makes one lie.
const LIAR: u64 = 1;

/// Something on its way.
enum Letter {
    Request {
        from: u64,
        incarnation: u64,
        request: Outgoing,
    },
    Response {
        to: u64,
        incarnation: u64,
        ticket: u64,
        response: Result<Vec<u8>, String>,
    },
}

/// What tasks hand to the network.
enum Done {
    Answered {
        by: u64,
        incarnation: u64,
        asked_by: (u64, u64),
        ticket: u64,
        response: Result<Vec<u8>, String>,
    },
    Asked(&'static str, u64),
}

type Outbox = Arc<Mutex<Vec<Done>>>;

fn put(outbox: &Outbox, done: Done) {
    outbox
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(done);
}

/// A history under way.
pub(super) struct World {
    draws: StdRng,
    flaw: Option<Flaw>,
    members: BTreeSet<u64>,
    nodes: Vec<Node>,
    snapshots: Snapshots,
    loses_power: bool,
    now_ms: u64,
    letters: BTreeMap<(u64, u64), Letter>,
    letters_sent: u64,
    /// From whom nothing reaches whom, and until when.
    cut: BTreeMap<(u64, u64), u64>,
    slow_until_ms: u64,
    starts: BTreeMap<u64, u64>,
    next_entry: u64,
    outbox: Outbox,
    pub(super) shared: Shared,
    pub(super) count: Count,
    pub(super) trace: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut draws = StdRng::seed_from_u64(seed);
        let members: BTreeSet<u64> = (1..=if draws.gen_bool(0.8) { 3 } else { 5 }).collect();
        let snapshots = Snapshots {
            entries: draws.gen_range(5..60),
            kept: draws.gen_range(0..10),
        };
        Self {
            flaw,
            nodes: members.iter().map(|id| Node::new(*id)).collect(),
            starts: members.iter().map(|id| (*id, 0)).collect(),
            members,
            snapshots,
            loses_power: draws.gen_bool(0.7),
            now_ms: 0,
            letters: BTreeMap::new(),
            letters_sent: 0,
            cut: BTreeMap::new(),
            slow_until_ms: 0,
            next_entry: 1,
            outbox: Outbox::default(),
            shared: Shared::default(),
            count: Count::default(),
            trace: Vec::new(),
            draws,
        }
    }

    fn note(&mut self, line: String) {
        self.trace.push(format!("{:>6} {line}", self.now_ms));
    }

    /// The whole history.
    pub(super) async fn run(&mut self) -> Checked {
        while self.now_ms < TROUBLE_MS {
            if self.draws.gen_ratio(1, 50) {
                self.harm().await?;
            }
            if self.draws.gen_ratio(1, 8) {
                let at = self.draws.gen_range(0..self.nodes.len());
                self.ask(at);
            }
            self.tick().await?;
        }
        let ended = self.end().await;
        for node in &mut self.nodes {
            node.end(false, &mut self.draws, None).await?;
        }
        ended
    }

    async fn tick(&mut self) -> Checked {
        tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
        self.now_ms += TICK_MS;
        self.start_ended().await?;
        self.post();
        self.arrive();
        self.end_stopped().await?;
        for node in &self.nodes {
            if let Some(term) = node.led_term() {
                self.shared.ledger().leads(term, node.id);
            }
        }
        self.cut.retain(|_, until_ms| *until_ms > self.now_ms);
        self.shared.ledger().checked()
    }

    /// Starts those whose time has come.
    async fn start_ended(&mut self) -> Checked {
        let due = self.starts.iter().find(|(_, at)| **at <= self.now_ms);
        let Some((&id, _)) = due else {
            return Ok(());
        };
        self.starts.remove(&id);
        let node = &mut self.nodes[id as usize - 1];
        let has_started = node
            .start(&self.members, self.snapshots, &self.shared, self.flaw)
            .await?;
        if !has_started {
            self.count.failed_starts += 1;
            self.starts.insert(id, self.now_ms + SPELLS_MS[0]);
        }
        self.note(format!("controller {id} starts: {has_started}"));
        Ok(())
    }

    /// Ends those that met the stop of their disk, or an error of it.
    async fn end_stopped(&mut self) -> Checked {
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.twin.is_stopped() {
                self.count.stops += 1;
                let loses_power = self.loses_power && self.draws.r#gen();
                self.crash(at, loses_power).await?;
            } else if node.has_failed() {
                self.count.failures += 1;
                self.crash(at, false).await?;
            }
        }
        Ok(())
    }

    /// Takes what was sent, and puts it on its way.
    fn post(&mut self) {
        let done = std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner));
        for each in done {
            match each {
                Done::Asked(what, entry) => {
                    self.count.add(what);
                    if what == "refused" {
                        self.shared.ledger().refused(entry);
                    }
                    self.note(format!("{what} {entry}"));
                }
                Done::Answered {
                    by,
                    incarnation,
                    asked_by: (to, asked_in),
                    ticket,
                    response,
                } => {
                    if self.nodes[by as usize - 1].incarnation == incarnation {
                        let letter = Letter::Response {
                            to,
                            incarnation: asked_in,
                            ticket,
                            response,
                        };
                        self.send(by, to, letter);
                    }
                }
            }
        }
        for at in 0..self.nodes.len() {
            let Node {
                id, incarnation, ..
            } = self.nodes[at];
            let Some(running) = &self.nodes[at].running else {
                continue;
            };
            for request in running.carrier.take(Duration::ZERO) {
                let to = request.peer;
                let letter = Letter::Request {
                    from: id,
                    incarnation,
                    request,
                };
                self.send(id, to, letter);
            }
        }
    }

    fn send(&mut self, from: u64, to: u64, letter: Letter) {
        if self.cut.contains_key(&(from, to)) {
            self.count.lost += 1;
            return;
        }
        let is_slow = self.now_ms < self.slow_until_ms;
        let after_ms = match is_slow {
            true => self.draws.gen_range(20..400),
            false => self.draws.gen_range(0..12),
        };
        self.letters_sent += 1;
        let at = (self.now_ms + after_ms, self.letters_sent);
        self.letters.insert(at, letter);
    }

    fn arrive(&mut self) {
        let later = self.letters.split_off(&(self.now_ms + 1, 0));
        let due = std::mem::replace(&mut self.letters, later);
        for letter in due.into_values() {
            match letter {
                Letter::Request {
                    from,
                    incarnation,
                    request,
                } => self.asked(from, incarnation, request),
                Letter::Response {
                    to,
                    incarnation,
                    ticket,
                    response,
                } => {
                    let node = &self.nodes[to as usize - 1];
                    let is_same = node.incarnation == incarnation;
                    if let Some(running) = node.running.as_ref().filter(|_| is_same) {
                        running.carrier.deliver(ticket, response);
                    }
                }
            }
        }
    }

    /// A request arrives.
    fn asked(&mut self, from: u64, asked_in: u64, request: Outgoing) {
        let Outgoing {
            ticket,
            peer,
            bytes,
        } = request;
        self.note(format!(
            "{from} to {peer}: {}",
            String::from_utf8_lossy(&bytes)
        ));
        let answer = |response| Letter::Response {
            to: from,
            incarnation: asked_in,
            ticket,
            response,
        };
        if let Some(lie) = self.lie(peer, &bytes) {
            self.send(peer, from, answer(Ok(lie)));
            return;
        }
        let node = &self.nodes[peer as usize - 1];
        let Some(running) = &node.running else {
            self.send(peer, from, answer(Err("no connection".to_owned())));
            return;
        };
        if bytes.starts_with(b"{\"Snapshot") {
            self.count.snapshots += 1;
        }
        let (raft, outbox) = (running.raft.clone(), Arc::clone(&self.outbox));
        let (by, incarnation) = (node.id, node.incarnation);
        tokio::spawn(async move {
            let response = tokio::time::timeout(TIMING.wait, answered(&raft, &bytes)).await;
            let done = Done::Answered {
                by,
                incarnation,
                asked_by: (from, asked_in),
                ticket,
                response: response.unwrap_or_else(|late| Err(late.to_string())),
            };
            put(&outbox, done);
        });
    }

    /// What a liar answers without doing anything.
    fn lie(&self, peer: u64, request: &[u8]) -> Option<Vec<u8>> {
        if peer != LIAR {
            return None;
        }
        let request: Value = serde_json::from_slice(request).ok()?;
        let lie = match self.flaw? {
            Flaw::GrantsEveryVote => {
                let vote = request.get("Vote")?.get("vote")?;
                json!({"Ok": {"vote": vote, "vote_granted": true, "last_log_id": null}})
            }
            Flaw::StoresNothing => {
                request.get("Append")?;
                json!({"Ok": "Success"})
            }
            _ => return None,
        };
        serde_json::to_vec(&lie).ok()
    }

    /// Somebody proposes an entry, or reads.
    fn ask(&mut self, at: usize) {
        let Some(running) = &self.nodes[at].running else {
            return;
        };
        let (raft, state) = (running.raft.clone(), running.state.clone());
        let (shared, outbox) = (self.shared.clone(), Arc::clone(&self.outbox));
        let (id, flaw) = (self.nodes[at].id, self.flaw);
        if self.draws.gen_ratio(1, 3) {
            tokio::spawn(async move {
                let known_before = shared.ledger().known();
                let confirmed = tokio::time::timeout(TIMING.wait, raft.ensure_linearizable()).await;
                if matches!(confirmed, Ok(Ok(_))) || flaw == Some(Flaw::ReadsUnconfirmed) {
                    let found = state.look(|machine| machine.list.len());
                    shared.ledger().read(id, known_before, found);
                    put(&outbox, Done::Asked("read", found as u64));
                }
            });
            return;
        }
        let entry = self.next_entry;
        self.next_entry += 1;
        tokio::spawn(async move {
            let proposal = Proposal(entry.to_le_bytes().to_vec());
            let written = tokio::time::timeout(TIMING.wait, raft.client_write(proposal)).await;
            let what = match written {
                Ok(Ok(written)) => match state.take_answer(written.log_id.index) {
                    Some(position) => {
                        shared.ledger().acknowledged(entry, position);
                        "acknowledged"
                    }
                    None => "unanswered",
                },
                Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => "refused",
                Ok(Err(_)) => "failed",
                Err(_late) => "late",
            };
            let is_unknown = matches!(what, "failed" | "late");
            if is_unknown && flaw == Some(Flaw::AcknowledgesUnknown) {
                shared.ledger().promised(entry);
            }
            put(&outbox, Done::Asked(what, entry));
        });
    }

    async fn crash(&mut self, at: usize, loses_power: bool) -> Checked {
        let in_ms = SPELLS_MS[self.draws.gen_range(0..SPELLS_MS.len())];
        let node = &mut self.nodes[at];
        if node.running.is_none() {
            return Ok(());
        }
        let id = node.id;
        node.end(loses_power, &mut self.draws, self.flaw).await?;
        match loses_power {
            true => self.count.power_losses += 1,
            false => self.count.kills += 1,
        }
        self.starts.insert(id, self.now_ms + in_ms);
        self.note(format!(
            "controller {id} is gone for {in_ms} ms, power {loses_power}"
        ));
        Ok(())
    }

    /// One thing goes wrong.
    async fn harm(&mut self) -> Checked {
        let leader = self.nodes.iter().position(|node| node.led_term().is_some());
        let drawn = self.draws.gen_range(0..self.nodes.len());
        let at = leader.filter(|_| self.draws.r#gen()).unwrap_or(drawn);
        let until_ms = self.now_ms + SPELLS_MS[self.draws.gen_range(0..SPELLS_MS.len())];
        let id = self.nodes[at].id;
        match self.draws.gen_range(0..10) {
            0 => self.crash(at, false).await?,
            1 if self.loses_power => self.crash(at, true).await?,
            2 | 3 => {
                let twin = &self.nodes[at].twin;
                if self.nodes[at].running.is_some() && !twin.is_stopped() {
                    twin.stop_at_call(twin.calls() + self.draws.gen_range(1..8));
                }
            }
            4 => self.nodes[at].fail_sync(),
            5 | 6 => {
                self.count.isolations += 1;
                for other in &self.members {
                    self.cut.insert((id, *other), until_ms);
                    self.cut.insert((*other, id), until_ms);
                }
            }
            7 | 8 => {
                self.count.cuts += 1;
                let other = self.draws.gen_range(1..=self.members.len() as u64);
                self.cut.insert((id, other), until_ms);
            }
            _ => {
                self.count.slow += 1;
                self.slow_until_ms = until_ms;
            }
        }
        self.note(format!("harm to {id} until {until_ms}"));
        Ok(())
    }

    /// Everything heals: one leads, all have all.
    async fn end(&mut self) -> Checked {
        self.cut.clear();
        self.slow_until_ms = 0;
        for node in &self.nodes {
            if !node.twin.is_stopped() {
                node.twin.heal();
            }
        }
        for at in self.starts.values_mut() {
            *at = self.now_ms;
        }
        let acknowledged_before = self.count.acknowledged;
        let deadline_ms = self.now_ms + HEALED_MS;
        loop {
            let leader = self.nodes.iter().position(|node| node.led_term().is_some());
            let has_one = self.count.acknowledged >= acknowledged_before + 3;
            if has_one && self.are_equal() {
                break;
            }
            if self.now_ms > deadline_ms {
                return Err("controllers do not come together".to_owned());
            }
            if let Some(leader) = leader.filter(|_| !has_one && self.draws.gen_ratio(1, 20)) {
                self.ask(leader);
            }
            self.tick().await?;
        }
        let ledger = self.shared.ledger();
        self.count.entries += ledger.agreed() as u64;
        self.count.reigns += ledger.reigns() as u64;
        self.count.refused_and_applied += ledger.refused_and_applied() as u64;
        ledger.ended()
    }

    fn are_equal(&self) -> bool {
        let agreed = self.shared.ledger().agreed();
        // Who takes nothing is no witness.
        let is_witness = |node: &&Node| self.flaw != Some(Flaw::StoresNothing) || node.id != LIAR;
        self.nodes.iter().filter(is_witness).all(|node| {
            let found = node.running.as_ref().map(|running| &running.state);
            found.is_some_and(|state| state.look(|machine| machine.list.len()) == agreed)
        })
    }
}
