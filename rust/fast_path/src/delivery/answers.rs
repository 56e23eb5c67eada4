//! The responses to requests that store a message: at once or when it is as durable as promised
//! (`handlePutMessageResult`, `EndTransactionProcessor.sendFinalMessage`, `RecallMessageProcessor`).
//! Knows no watermark.

use std::fmt::Write as _;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::status::PutStatus;
use mqcore_record::offset_id;

use crate::codes;
use crate::connections::{Connections, ResponseHead};
use crate::context::Context;
use crate::parked::{Kind, Stored};
use crate::policy::Broker;
use crate::refusals::{self, Refused};
use crate::request_context::RequestContext;
use crate::times::Subject;

/// Why nothing is promised of a message whose status is none of the log's.
const FLUSH_FAILED: &str = "the flush failed";

/// Answers a request whose message was stored.
pub(crate) fn answer_stored<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    stored: &Stored,
    status: PutStatus,
) {
    // As in the official combination of both results, that of the replicas counts.
    let status = if stored.lacks_replicas && is_stored(status) {
        PutStatus::SlaveNotAvailable
    } else {
        status
    };
    if let Some(slot) = stored.counted.filter(|_| is_stored(status)) {
        let now_us = cx.connections.times.now_us();
        let us = now_us.saturating_sub(stored.request_context.received_us);
        let traffic = &mut cx.connections.traffic;
        traffic.answered(slot, stored.queue_id, us);
    }
    match stored.kind {
        Kind::Send => answer_send(cx, stored, status),
        Kind::Back => answer_back(cx.connections, stored, status),
        Kind::End => answer_end(cx, stored, status),
        Kind::Recall => answer_recall(cx.connections, &cx.policy.broker, stored, status),
    }
    cx.connections
        .times
        .describe(stored.marks, || Subject::Stored {
            queue_id: stored.queue_id,
            queue_offset: stored.queue_offset,
            physical_offset: stored.physical_offset,
            bytes: stored.bytes,
        });
}

fn answer_send<D: Disk, C: Clock>(cx: &mut Context<'_, D, C>, stored: &Stored, status: PutStatus) {
    let broker = &cx.policy.broker;
    let code = match status {
        PutStatus::PutOk => codes::SUCCESS,
        PutStatus::FlushDiskTimeout => codes::FLUSH_DISK_TIMEOUT,
        PutStatus::FlushSlaveTimeout => codes::FLUSH_SLAVE_TIMEOUT,
        PutStatus::SlaveNotAvailable => codes::SLAVE_NOT_AVAILABLE,
        other => {
            let refused = failed(cx, other);
            return refuse_send(cx.connections, broker, &stored.request_context, &refused);
        }
    };
    let store_host = &broker.store_host;
    let mut ids = offset_id(store_host, stored.physical_offset.cast_signed());
    for physical_offset in &stored.others {
        let id = offset_id(store_host, physical_offset.cast_signed());
        let _infallible = write!(ids, ",{id}");
    }
    let head = ResponseHead { code, remark: None };
    cx.connections
        .reply(&stored.request_context, head, |fields| {
            fields.text("msgId", &ids)?;
            fields.number("queueId", stored.queue_id.into())?;
            fields.number("queueOffset", stored.queue_offset.cast_signed())?;
            if let Some(handle) = &stored.recall {
                fields.text("recallHandle", handle)?;
            }
            if let Some(key) = &stored.batch_key {
                fields.text("batchUniqId", key)?;
            }
            fields.text("MSG_REGION", &broker.region)?;
            fields.text("TRACE_ON", if broker.is_traced { "true" } else { "false" })
        });
}

fn answer_back<D: Disk>(connections: &mut Connections<D>, stored: &Stored, status: PutStatus) {
    let (code, remark) = if status == PutStatus::PutOk {
        (codes::SUCCESS, None)
    } else {
        (codes::SYSTEM_ERROR, Some(status.name()))
    };
    connections.reply(
        &stored.request_context,
        ResponseHead { code, remark },
        |_fields| Ok(()),
    );
}

/// The message is committed however late its sync or its replica was (`sendFinalMessage`).
fn answer_end<D: Disk, C: Clock>(cx: &mut Context<'_, D, C>, stored: &Stored, status: PutStatus) {
    if is_stored(status) {
        return cx.connections.succeed(&stored.request_context, None);
    }
    let refused = failed(cx, status);
    cx.connections.refuse(&stored.request_context, &refused);
}

fn answer_recall<D: Disk>(
    connections: &mut Connections<D>,
    broker: &Broker,
    stored: &Stored,
    status: PutStatus,
) {
    if !is_stored(status) {
        return refuse_recall(
            connections,
            broker,
            &stored.request_context,
            &refusals::recall_failed(),
        );
    }
    let head = ResponseHead {
        code: codes::SUCCESS,
        remark: None,
    };
    connections.reply(&stored.request_context, head, |fields| {
        if let Some(key) = &stored.recall {
            fields.text("msgId", key)?;
        }
        fields.text("MSG_REGION", &broker.region)
    });
}

fn is_stored(status: PutStatus) -> bool {
    matches!(
        status,
        PutStatus::PutOk
            | PutStatus::FlushDiskTimeout
            | PutStatus::FlushSlaveTimeout
            | PutStatus::SlaveNotAvailable
    )
}

fn failed<D: Disk, C: Clock>(cx: &Context<'_, D, C>, status: PutStatus) -> Refused {
    let max = cx.store.config().max_message_bytes;
    refusals::of_status(status, FLUSH_FAILED, max)
}

/// Refuses a send; every response to one names region and trace switch.
pub(crate) fn refuse_send<D: Disk>(
    connections: &mut Connections<D>,
    broker: &Broker,
    request_context: &RequestContext,
    refused: &Refused,
) {
    connections.reply(request_context, ResponseHead::of(refused), |fields| {
        fields.text("MSG_REGION", &broker.region)?;
        fields.text("TRACE_ON", if broker.is_traced { "true" } else { "false" })
    });
}

/// Refuses a recall; every response to one names the region.
pub(crate) fn refuse_recall<D: Disk>(
    connections: &mut Connections<D>,
    broker: &Broker,
    request_context: &RequestContext,
    refused: &Refused,
) {
    connections.reply(request_context, ResponseHead::of(refused), |fields| {
        fields.text("MSG_REGION", &broker.region)
    });
}
