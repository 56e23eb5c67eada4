//! The answer to a pop (`PopMessageProcessor`, `PopMessageResponseHeader`).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use super::take::{Part, Run};
use crate::codes;
use crate::desk::Said;
use crate::lane::Lane;

const FOUND: &str = "FOUND";
const NOTHING: &str = "NO_MESSAGE_IN_QUEUE";

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Answers a pop that went through its queues, or holds it.
    pub(super) fn finish_pop(&mut self, mut run: Run<D>) {
        if run.parts.is_empty() {
            if let Some(code) = self.hold_pop(&run) {
                self.give_popped(run, code);
            }
            return;
        }
        // What is left is for somebody who waits for the same.
        if run.rest > 0 {
            let line = (&*run.pop.topic, &*run.pop.group, run.pop.queue_id);
            let next = self.pops.polls.next_of(line);
            self.pops.woken.extend(next);
        }
        run.rest = run.rest.max(0);
        self.desk.stats.pulls += 1;
        self.give_popped(run, codes::SUCCESS);
    }

    fn give_popped(&mut self, run: Run<D>, code: i32) {
        let remark = if code == codes::SUCCESS {
            FOUND
        } else {
            NOTHING
        };
        let said = Said {
            code,
            remark: Some(remark),
        };
        let Run {
            pop,
            infos,
            time_ms,
            revive_queue,
            rest,
            parts,
            ..
        } = run;
        let write = |fields: &mut mqcore_wire::command::FrameWriter<'_, '_>| {
            fields.number("popTime", time_ms)?;
            fields.number("invisibleTime", pop.invisible_ms)?;
            fields.number("reviveQid", revive_queue.into())?;
            fields.number("restNum", rest)?;
            fields.text("startOffsetInfo", &infos.starts)?;
            fields.text("msgOffsetInfo", &infos.offsets)?;
            if pop.is_ordered {
                fields.text("orderCountInfo", &infos.counts)?;
            }
            Ok(())
        };
        let mut records = Vec::with_capacity(parts.len());
        let mut body = Vec::new();
        let has_own = parts.iter().any(|part| matches!(part, Part::Own(_)));
        for part in parts {
            match part {
                Part::Own(own) => body.extend_from_slice(&own),
                Part::Record(record) if has_own => body.extend_from_slice(record.as_bytes()),
                Part::Record(record) => records.push(record),
            }
        }
        if has_own {
            self.desk.reply_body(&pop.asker, said, write, &body);
        } else {
            self.desk.reply_records(&pop.asker, said, write, records);
        }
    }
}
