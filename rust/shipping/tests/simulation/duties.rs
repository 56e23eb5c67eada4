//! What the threads of a process do in one step: those of replication, and those of the store beside them.

use mqcore_engine::status::PutStatus;
use mqcore_replica::master::QUICK_MS;
use std::io::{ErrorKind, Read, Write};

use super::ledger::{Checked, demand};
use super::node::{Duty, Link};
use super::world::{Event, World};

/// So much longer a slave that was refused waits until it tries again.
const REFUSED_MS: u64 = 4_000;
/// Bytes that a slave reads at once.
const READ_LEN_BYTES: usize = 64 * 1024;

impl World {
    /// A turn of the thread of replication.
    pub(crate) fn turn(&mut self, node: usize) -> Checked {
        if node == 0 {
            self.ship()
        } else {
            self.follow(node)
        }
    }

    fn ship(&mut self) -> Checked {
        let Some(process) = &mut self.nodes[0].process else {
            return Ok(());
        };
        let now_ms = process.store.replica().elapsed_ms();
        let Duty::Master(slaves) = &mut process.duty else {
            return Ok(());
        };
        let mut ended = Vec::new();
        slaves.note_readable(std::iter::repeat(true));
        let mut wait_ms = slaves.turn(now_ms, |address, why| ended.push((address.to_owned(), why)));
        process.wakes_on_growth = true;
        if wait_ms > 0 && slaves.gathers(now_ms) {
            process.wakes_on_growth = false;
            wait_ms = wait_ms.min(QUICK_MS);
        }
        if slaves.is_empty() {
            process.wakes_on_growth = false;
        }
        if self.nodes[0].twin.is_stopped() {
            return Ok(());
        }
        if let Some(flaw) = self.flaw {
            self.bend_marks(flaw);
        }
        // What was reported before a link ended counts.
        self.watch_marks()?;
        for (address, why) in ended {
            self.note_ended_by_master(&address, &why)?;
        }
        self.plan_turn(0, wait_ms);
        Ok(())
    }

    fn follow(&mut self, node: usize) -> Checked {
        let Some(process) = &mut self.nodes[node].process else {
            return Ok(());
        };
        let Duty::Slave { link: slot, .. } = &mut process.duty else {
            return Ok(());
        };
        let Some(mut link) = slot.take() else {
            return Ok(());
        };
        self.nodes[node].last_master = link.master;
        let mut wait_ms = 0;
        let due = if link.has_begun {
            link.follower.due(&mut link.wire).map(|ms| wait_ms = ms)
        } else {
            link.has_begun = true;
            link.follower.begin()
        };
        self.watch_reports()?;
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
                let came = &buffer[..len];
                self.report_early(node, &mut link, came)?;
                link.follower.came(came)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        self.read_buffer = buffer;
        self.watch_reports()?;
        if self.nodes[node].twin.is_stopped() {
            return Ok(());
        }
        match came {
            Ok(()) => {
                if let Some(process) = &mut self.nodes[node].process
                    && let Duty::Slave { link: slot, .. } = &mut process.duty
                {
                    *slot = Some(link);
                }
                self.plan_turn(node, wait_ms);
            }
            Err(why) => {
                drop(link);
                self.note_ended_by_slave(node, &why)?;
                let incarnation = self.nodes[node].incarnation;
                let is_refused = self.nodes[node].refused.is_some();
                let retry_ms = self.options.retry_ms + if is_refused { REFUSED_MS } else { 0 };
                self.plan(retry_ms, Event::Connect { node, incarnation });
            }
        }
        Ok(())
    }

    /// What a slave with a flaw reports too early.
    fn report_early(&mut self, node: usize, link: &mut Link, came: &[u8]) -> Checked {
        let appended = self.ledger.promises[node].end;
        let early = self
            .flaw
            .and_then(|flaw| flaw.early_report(link, appended, came));
        if let Some(report) = early {
            let written = link.wire.write_all(&report.to_be_bytes());
            written.map_err(|error| error.to_string())?;
            self.watch_reports()?;
        }
        Ok(())
    }

    /// Something that the other threads of a store do.
    pub(crate) fn work(&mut self, node: usize) -> Checked {
        let incarnation = self.nodes[node].incarnation;
        let in_ms = self.dice.between(5, 300);
        self.plan(in_ms, Event::Work { node, incarnation });
        let Some(store) = self.nodes[node].store().cloned() else {
            return Ok(());
        };
        let done = match self.dice.below(6) {
            0 => store.durability().flush().map(|_flushed| ()),
            1 | 2 => store.dispatching().step().map(|_more| ()),
            3 => store.preparation().step().map(|_more| ()),
            4 => store
                .checkpoints()
                .note_durable()
                .and_then(|_| store.checkpoints().sync_queues(0))
                .map(|_| ()),
            _ => store.checkpoints().write(),
        };
        done.map_err(|error| format!("node {node}: {error}"))?;
        self.watch_queues(node)
    }

    /// Syncs the log.
    pub(crate) fn flush(&mut self, node: usize) -> Checked {
        let Some(store) = self.nodes[node].store().cloned() else {
            return Ok(());
        };
        let flushed = store.durability().flush();
        flushed
            .map(|_| ())
            .map_err(|error| format!("node {node}: {error}"))
    }

    /// Answers sends that waited.
    pub(crate) fn drain(&mut self) -> Checked {
        let Some(store) = self.nodes[0].store().cloned() else {
            return Ok(());
        };
        let mut answers = Vec::new();
        let next_ms = store.durability().drain(&mut answers);
        if let Some(next_ms) = next_ms {
            let incarnation = self.nodes[0].incarnation;
            self.plan(next_ms.max(1), Event::Drain { incarnation });
        }
        self.watch_marks()?;
        let flushed = store.files().positions.flushed.position();
        for (ticket, status) in answers {
            let waiting = self
                .ledger
                .sent
                .iter()
                .rposition(|sent| sent.ticket == Some(ticket));
            let at = waiting.ok_or_else(|| format!("{ticket:?} is answered, and nobody waits"))?;
            self.trace.note(at as u64);
            self.parked = self.parked.saturating_sub(1);
            match status {
                PutStatus::PutOk => self.count.acknowledged += 1,
                PutStatus::FlushSlaveTimeout => self.count.late += 1,
                PutStatus::FlushDiskTimeout => {}
                other => return Err(format!("a send is answered with {other}")),
            }
            demand!(
                status != PutStatus::FlushSlaveTimeout || self.ledger.sent[at].needs_replica,
                "a send that waits for no slave is answered with {status}"
            );
            self.ledger.answered(at, status, flushed)?;
        }
        Ok(())
    }
}
