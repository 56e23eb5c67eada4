//! What the threads of a broker's process do in one step: those of replication, and those of the store beside
//! them.

use std::io::{ErrorKind, Read};

use mqcore_engine::status::PutStatus;
use mqcore_replica::master::QUICK_MS;

use super::flaw::Flaw;
use super::node::Role;
use super::world::{Event, World};
use crate::ledger::{Checked, demand};

/// Why a master closes the link of a slave that asks for what it has removed.
const TOO_FAR_BEHIND: &str = "what is between was removed";
/// Why a slave closes its link whose log has nothing of its master's any more.
const NOTHING_STAYS: &str = "nothing of it can stay";
/// Bytes that a slave reads at once.
const READ_LEN_BYTES: usize = 64 * 1024;

impl World {
    /// A turn of the thread of replication.
    pub(crate) fn turn(&mut self, broker: usize) -> Checked {
        match self.nodes[broker].opened().map(|opened| &opened.role) {
            Some(Role::Master { .. }) => self.ship(broker),
            Some(Role::Slave { .. }) => self.copy(broker),
            Some(Role::Waiting) | None => Ok(()),
        }
    }

    fn ship(&mut self, broker: usize) -> Checked {
        let one_step = self.flaw == Some(Flaw::JoinsInOneStep);
        let Some(opened) = self.nodes[broker].opened_mut() else {
            return Ok(());
        };
        let now_ms = opened.store.replica().elapsed_ms();
        let Role::Master {
            slaves,
            members,
            was_wanting,
        } = &mut opened.role
        else {
            return Ok(());
        };
        let mut ended = Vec::new();
        slaves.note_readable(std::iter::repeat(true));
        let mut wait_ms = slaves.turn(now_ms, |address, why| ended.push((address.to_owned(), why)));
        opened.wakes_on_growth = true;
        if wait_ms > 0 && slaves.gathers(now_ms) {
            opened.wakes_on_growth = false;
            wait_ms = wait_ms.min(QUICK_MS);
        }
        if slaves.is_empty() {
            opened.wakes_on_growth = false;
        }
        // It is looked at once more every few seconds.
        let looks = slaves.is_wanting() && !*was_wanting;
        *was_wanting = slaves.is_wanting();
        let mut wanted = if looks { members.lock().wanted() } else { None };
        if one_step {
            let mut standings = Vec::new();
            slaves.note_standings(&mut standings, now_ms);
            wanted = super::flaw::joined_at_once(&members.lock(), &standings).or(wanted);
        }
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        if let Some(flaw) = self.flaw {
            self.bend_marks(broker, flaw);
        }
        self.watch_broker(broker)?;
        for (address, why) in ended {
            self.note_ended(broker, &why)?;
            self.note_too_far_behind(broker, &address, &why)?;
        }
        if let Some(wanted) = wanted
            && let Some(process) = &mut self.nodes[broker].process
        {
            process.member.alter(wanted);
            self.plan_ask(broker, 0);
        }
        self.plan_turn(broker, wait_ms);
        Ok(())
    }

    /// Asks again for the set that the replicas show (`checkSyncStateSetPeriod`).
    fn look_at_set(&mut self, broker: usize) {
        let Some(opened) = self.nodes[broker].opened() else {
            return;
        };
        let Role::Master { members, .. } = &opened.role else {
            return;
        };
        let wanted = members.lock().wanted();
        if let Some(wanted) = wanted
            && let Some(process) = &mut self.nodes[broker].process
        {
            process.member.alter(wanted);
            self.plan_ask(broker, 0);
        }
    }

    fn copy(&mut self, broker: usize) -> Checked {
        let Some(opened) = self.nodes[broker].opened_mut() else {
            return Ok(());
        };
        let Role::Slave { master, link } = &mut opened.role else {
            return Ok(());
        };
        let master = *master;
        let Some(mut link) = link.take() else {
            return Ok(());
        };
        let mut wait_ms = 0;
        let due = if link.has_begun {
            link.follower.due(&mut link.wire).map(|ms| wait_ms = ms)
        } else {
            link.has_begun = true;
            link.follower.begin()
        };
        self.watch_frames()?;
        let mut buffer = std::mem::take(&mut self.read_buffer);
        buffer.resize(READ_LEN_BYTES, 0);
        let read = match due {
            Ok(()) => link.wire.read(&mut buffer),
            Err(why) => Err(std::io::Error::other(why)),
        };
        let came = match read {
            Ok(0) => Err("the master has closed the connection".to_owned()),
            Ok(len) => {
                wait_ms = 0;
                self.report_early(broker, &mut link)?;
                link.follower.came(&buffer[..len])
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        self.read_buffer = buffer;
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        self.watch_log(broker)?;
        self.watch_frames()?;
        self.let_readers_see(broker);
        let opening = self.nodes[broker].opening;
        match came {
            Ok(()) => {
                if let Some(opened) = self.nodes[broker].opened_mut() {
                    let link = Some(link);
                    opened.role = Role::Slave { master, link };
                }
                self.plan_turn(broker, wait_ms);
                Ok(())
            }
            Err(why) => {
                let cut_at = link.follower.cut_at();
                drop(link);
                if let Some(cut_at) = cut_at {
                    return self.diverged(broker, cut_at);
                }
                self.note_ended(broker, &why)?;
                let is_hopeless = why.contains(NOTHING_STAYS);
                if is_hopeless || !self.is_faulty && why.contains("no epoch of the master") {
                    return self.empty(broker);
                }
                let retry_ms = self.options.retry_ms;
                self.plan(retry_ms, Event::Connect(broker, opening));
                Ok(())
            }
        }
    }

    /// A link has ended: there is always a plain reason.
    fn note_ended(&mut self, broker: usize, why: &str) -> Checked {
        self.trace
            .line(|| format!("a link of broker {broker} ends: {why}"));
        let is_silence = why.contains("nothing came");
        self.count.silences += u64::from(is_silence);
        let plain = [
            "closed the connection",
            "reset",
            "has connected once more",
            // A deposed master whose slave is one of the group's, or the reverse.
            "no epoch of the master",
            "another one was master since",
            "the slave is ahead",
            TOO_FAR_BEHIND,
            NOTHING_STAYS,
        ];
        // Somebody removed what a slave that was behind was about to get.
        let is_removed = why.contains("our log has nothing at") && self.count.removed > 0;
        let is_plain = is_silence || is_removed || plain.iter().any(|plain| why.contains(plain));
        demand!(is_plain, "a link of broker {broker} ended: {why}");
        Ok(())
    }

    /// A slave asks for what its master has removed.
    fn note_too_far_behind(&mut self, master: usize, address: &str, why: &str) -> Checked {
        if !why.contains(TOO_FAR_BEHIND) {
            return Ok(());
        }
        let pair = address
            .rsplit(':')
            .next()
            .and_then(|pair| pair.parse().ok());
        let is_its = |node: &super::node::Node| match node.opened().map(|opened| &opened.role) {
            Some(Role::Slave {
                link: Some(link), ..
            }) => Some(link.pair) == pair,
            _ => false,
        };
        // It may have started anew since.
        let Some(slave) = self.nodes.iter().position(is_its) else {
            return Ok(());
        };
        let start = self.nodes[master]
            .store()
            .map_or(0, |store| store.replica().extent().start);
        let end = self.ledger.copies[slave].end();
        demand!(
            end < start,
            "the log of broker {slave} ends at {end}, and its master's begins at {start}: {why}"
        );
        self.count.too_far_behind += 1;
        self.empty(slave)
    }

    /// Something that the other threads of a store do.
    pub(crate) fn work(&mut self, broker: usize) -> Checked {
        let opening = self.nodes[broker].opening;
        let in_ms = self.dice.between(5, 300);
        self.plan(in_ms, Event::Work(broker, opening));
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let done = match self.dice.below(7) {
            0 => store.durability().flush().map(|_flushed| ()),
            1 | 2 => store.dispatching().step().map(|_more| ()),
            3 => store.preparation().step().map(|_more| ()),
            4 => store
                .checkpoints()
                .note_durable()
                .and_then(|_| store.checkpoints().sync_queues(0))
                .map(|_| ()),
            5 => store.checkpoints().write(),
            _ => {
                self.keep_delays(broker);
                self.follow_delays(broker)?;
                self.look_at_set(broker);
                Ok(())
            }
        };
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        done.map_err(|error| format!("broker {broker}: {error}"))?;
        self.watch_queues(broker)
    }

    /// Syncs the log.
    pub(crate) fn flush(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let flushed = store.durability().flush();
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        flushed
            .map(|_| ())
            .map_err(|error| format!("broker {broker}: {error}"))
    }

    /// Answers sends that waited.
    pub(crate) fn drain(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let mut answers = Vec::new();
        let is_served = self.drain_fast_path(broker, &mut answers);
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        if !is_served && let Some(next_ms) = store.durability().drain(&mut answers) {
            let opening = self.nodes[broker].opening;
            self.plan(next_ms.max(1), Event::Drain(broker, opening));
        }
        let flushed = store.files().positions.flushed.position();
        for (ticket, status) in answers {
            let Some(opened) = self.nodes[broker].opened_mut() else {
                return Ok(());
            };
            let at = opened
                .parked
                .iter()
                .position(|parked| parked.ticket == ticket);
            let at = at.ok_or_else(|| format!("{ticket:?} is answered, and nobody waits"))?;
            let parked = opened.parked.remove(at);
            match status {
                PutStatus::PutOk => {
                    demand!(
                        !self.options.is_synced[broker] || flushed >= parked.acked.end,
                        "a message up to {} is acknowledged, and the disk has {flushed}",
                        parked.acked.end
                    );
                    self.acknowledged(broker, parked.acked)?;
                }
                PutStatus::FlushSlaveTimeout => {
                    demand!(
                        parked.needs_replica,
                        "a send that waits for no slave is late"
                    );
                    self.count.late += 1;
                }
                PutStatus::FlushDiskTimeout => {}
                other => return Err(format!("a send is answered with {other}")),
            }
        }
        if is_served {
            return self.take_answers(broker);
        }
        Ok(())
    }
}
