//! The answer to a pop (`PopMessageProcessor`, `PopMessageResponseHeader`).

use mqcore_engine::disk::Disk;

use crate::codes;
use crate::connections::{Connections, ResponseHead};
use crate::pop_run::{Part, Run};

const FOUND: &str = "FOUND";
const NOTHING: &str = "NO_MESSAGE_IN_QUEUE";

/// Answers a pop with what it found, or that it found nothing.
pub(super) fn give<D: Disk>(connections: &mut Connections<D>, run: Run<D>, code: i32) {
    let remark = if code == codes::SUCCESS {
        FOUND
    } else {
        NOTHING
    };
    let head = ResponseHead {
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
        connections.reply_body(&pop.request_context, head, write, &body);
    } else {
        connections.reply_records(&pop.request_context, head, write, records);
    }
}
