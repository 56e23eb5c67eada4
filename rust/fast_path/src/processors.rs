//! The request processors by request code: the registry. What they share is passed to them here;
//! none knows another one.

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::LoopEvents;

use crate::codes;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::gets::Got;
use crate::held::QueueKey;
use crate::offset_processor::OffsetProcessor;
use crate::pop::Pops;
use crate::pull::PullProcessor;
use crate::recall;
use crate::request_context::ConnectionId;
use crate::requests::Request;
use crate::send::{SendProcessor, back};
use crate::shared_state::SharedState;
use crate::stop::{Escalation, How, Processed, Stop};
use crate::transactions::EndTransactionProcessor;
use crate::turn::{CLOSE_WORK, Slice};

/// The family of a request: whose processor executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Send,
    Back,
    Recall,
    Transaction,
    Pull,
    Pop,
    Offset,
}

impl Family {
    const fn of(code: i32) -> Option<Self> {
        Some(match code {
            codes::SEND_MESSAGE | codes::SEND_MESSAGE_V2 | codes::SEND_BATCH_MESSAGE => Self::Send,
            codes::PULL_MESSAGE | codes::LITE_PULL_MESSAGE => Self::Pull,
            codes::CONSUMER_SEND_MSG_BACK => Self::Back,
            codes::RECALL_MESSAGE => Self::Recall,
            codes::END_TRANSACTION => Self::Transaction,
            codes::POP_MESSAGE
            | codes::ACK_MESSAGE
            | codes::BATCH_ACK_MESSAGE
            | codes::CHANGE_MESSAGE_INVISIBLETIME
            | codes::NOTIFICATION
            | codes::POLLING_INFO
            | codes::PEEK_MESSAGE => Self::Pop,
            codes::QUERY_CONSUMER_OFFSET
            | codes::UPDATE_CONSUMER_OFFSET
            | codes::GET_MAX_OFFSET
            | codes::GET_MIN_OFFSET
            | codes::SEARCH_OFFSET_BY_TIMESTAMP => Self::Offset,
            _ => return None,
        })
    }
}

/// The request processors of one loop.
pub(crate) struct Processors<D: Disk> {
    /// How messages are stored: shared by those that store some.
    pub(crate) delivery: Delivery<D>,
    pub(crate) send: SendProcessor,
    pub(crate) transactions: EndTransactionProcessor,
    pub(crate) pull: PullProcessor,
    pub(crate) pops: Pops,
    offset: OffsetProcessor,
}

impl<D: Disk> Processors<D> {
    pub(crate) fn new(shared: &SharedState, events: &Arc<LoopEvents>) -> Self {
        let (offsets, counts) = (&shared.offsets, &shared.counts);
        let ends = Arc::clone(&shared.ends);
        Self {
            delivery: Delivery::new(),
            send: SendProcessor::new(shared.repeats.clone(), Arc::clone(counts)),
            transactions: EndTransactionProcessor::new(ends, Arc::clone(counts)),
            pull: PullProcessor::new(Arc::clone(offsets)),
            pops: Pops::new(Arc::clone(&shared.pops), events),
            offset: OffsetProcessor::new(Arc::clone(offsets)),
        }
    }

    /// Executes a request.
    #[inline]
    pub(crate) fn process<C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let delivery = &mut self.delivery;
        let Some(family) = Family::of(request.code) else {
            return Err(Stop::Escalate(Escalation::Code));
        };
        match family {
            Family::Send => self.send.process(cx, delivery, request, how),
            Family::Pull => self.pull.process(cx, request, how),
            Family::Back => back::process(cx, delivery, request, how),
            Family::Recall => recall::process(cx, delivery, request),
            Family::Transaction => self.transactions.process(cx, delivery, request),
            Family::Pop => self.pops.process(cx, request, how),
            Family::Offset => {
                let shards = self.pops.shards();
                let release = |cx: &Context<'_, D, C>, group: &str, topic: &str, queue_id: i32| {
                    let shard = shards.of_group(group);
                    shard.with(|merge| merge.release(cx, group, topic, queue_id));
                };
                self.offset.process(cx, request, how, release)
            }
        }
    }

    /// Forgets what a connection waits for: marked at once, and taken out in turns.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        self.pull.close(connection);
        self.pops.close(connection);
        self.forget_left(CLOSE_WORK);
    }

    /// Lets go what a connection waits for now: it is answered as if its time were over.
    pub(crate) fn release(&mut self, connection: ConnectionId) {
        self.pull.holds.release(connection);
        self.pops.release(connection);
    }

    /// Takes out what closed connections have left.
    pub(crate) fn forget_left(&mut self, work: usize) {
        let mut slice = Slice::new(work);
        self.pull.holds.forget_left(&mut slice);
        self.pops.forget_left(&mut slice);
    }

    /// Whether [`Processors::take_emptied`] may have something.
    #[inline]
    pub(crate) fn has_emptied(&self) -> bool {
        self.pull.holds.has_emptied() || self.pops.has_emptied()
    }

    /// Queues that nobody waits at any more, since the last call.
    pub(crate) fn take_emptied(&mut self) -> Vec<QueueKey> {
        let [polls, notices] = self.pops.take_emptied();
        let mut emptied = self.pull.holds.take_emptied();
        emptied.extend(polls);
        emptied.extend(notices);
        emptied.retain(|(topic, queue_id)| {
            let is_waited_at = self.pull.holds.is_waited_at(topic, *queue_id)
                || self.pops.is_waited_at(topic, *queue_id);
            !is_waited_at
        });
        emptied
    }

    /// Answers that the next turn could give, at the most.
    pub(crate) fn waiting(&self) -> usize {
        self.delivery.parked() + self.pull.holds.len()
    }

    /// When a turn has something to do although nothing was announced, ms.
    pub(crate) fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let deadlines = [
            self.pull.holds.next_deadline_ms(),
            self.delivery.next_deadline_ms(),
            self.transactions.next_due_ms(),
            self.pops.next_deadline_ms(now_ms),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Forgets what is known of a group, of a topic or of both together beside its offsets.
    pub(crate) fn remove(&mut self, group: Option<&str>, topic: Option<&str>) {
        for shard in self.pops.shards().all() {
            shard.with(|merge| merge.remove(group, topic));
        }
        self.forget_gets(group, topic);
    }

    /// Forgets how many messages a group got, of a topic or of both together.
    pub(crate) fn forget_gets(&mut self, group: Option<&str>, topic: Option<&str>) {
        self.pops.pop.gets.remove(group, topic);
        self.pull.gets.remove(group, topic);
    }

    /// How many messages each group got of each topic.
    pub(crate) fn gets(&self) -> Vec<(String, String, Got)> {
        let mut all = self.pull.gets.clone();
        all.add_all(&self.pops.pop.gets);
        all.rows()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_that_is_executed_has_a_family_and_no_other() {
        for (name, code) in codes::REQUESTS {
            assert!(Family::of(*code).is_some(), "{name}");
        }
        let of_table = codes::REQUESTS.len();
        let all = (0..=400).chain(200_000..=200_200);
        assert_eq!(
            all.filter(|code| Family::of(*code).is_some()).count(),
            of_table
        );
    }
}
