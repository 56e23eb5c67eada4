//! The responses to requests that store a message: at once or when it is as durable as promised
//! (`handlePutMessageResult`, `EndTransactionProcessor.sendFinalMessage`, `RecallMessageProcessor`).
//! Knows no watermark.

use std::fmt::Write as _;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::status::PutStatus;
use mqcore_record::offset_id;

use crate::asker::Asker;
use crate::codes;
use crate::context::Context;
use crate::desk::{Desk, Said};
use crate::parked::{Kind, Stored};
use crate::policy::Broker;
use crate::refusals::{self, Refused};

/// Why nothing is promised of a message whose status is none of the log's.
const FLUSH_FAILED: &str = "the flush failed";

/// Answers a request whose message was stored.
pub(crate) fn answer_stored<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    stored: &Stored,
    status: PutStatus,
) {
    match stored.kind {
        Kind::Send => answer_send(cx, stored, status),
        Kind::Back => answer_back(cx.desk, stored, status),
        Kind::End => answer_end(cx, stored, status),
        Kind::Recall => answer_recall(cx.desk, &cx.policy.broker, stored, status),
    }
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
            return refuse_send(cx.desk, broker, &stored.asker, &refused);
        }
    };
    let store_host = &broker.store_host;
    let mut ids = offset_id(store_host, stored.physical_offset.cast_signed());
    for physical_offset in &stored.others {
        let id = offset_id(store_host, physical_offset.cast_signed());
        let _infallible = write!(ids, ",{id}");
    }
    let said = Said { code, remark: None };
    cx.desk.reply(&stored.asker, said, |fields| {
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

fn answer_back<D: Disk>(desk: &mut Desk<D>, stored: &Stored, status: PutStatus) {
    let (code, remark) = if status == PutStatus::PutOk {
        (codes::SUCCESS, None)
    } else {
        (codes::SYSTEM_ERROR, Some(status.name()))
    };
    desk.reply(&stored.asker, Said { code, remark }, |_fields| Ok(()));
}

/// The message is committed however late its sync or its replica was (`sendFinalMessage`).
fn answer_end<D: Disk, C: Clock>(cx: &mut Context<'_, D, C>, stored: &Stored, status: PutStatus) {
    if is_stored(status) {
        return cx.desk.succeed(&stored.asker, None);
    }
    let refused = failed(cx, status);
    cx.desk.refuse(&stored.asker, &refused);
}

fn answer_recall<D: Disk>(desk: &mut Desk<D>, broker: &Broker, stored: &Stored, status: PutStatus) {
    if !is_stored(status) {
        return refuse_recall(desk, broker, &stored.asker, &refusals::recall_failed());
    }
    let said = Said {
        code: codes::SUCCESS,
        remark: None,
    };
    desk.reply(&stored.asker, said, |fields| {
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
    desk: &mut Desk<D>,
    broker: &Broker,
    asker: &Asker,
    refused: &Refused,
) {
    desk.reply(asker, Said::of(refused), |fields| {
        fields.text("MSG_REGION", &broker.region)?;
        fields.text("TRACE_ON", if broker.is_traced { "true" } else { "false" })
    });
}

/// Refuses a recall; every response to one names the region.
pub(crate) fn refuse_recall<D: Disk>(
    desk: &mut Desk<D>,
    broker: &Broker,
    asker: &Asker,
    refused: &Refused,
) {
    desk.reply(asker, Said::of(refused), |fields| {
        fields.text("MSG_REGION", &broker.region)
    });
}
