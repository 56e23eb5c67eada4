//! The answers to sends: at once, or parked until the message is as durable as promised; statuses
//! of the store as official codes and remarks (`handlePutMessageResult`).

use std::fmt::Write as _;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Error;
use mqcore_engine::status::PutStatus;
use mqcore_record::offset_id;

use crate::asker::Asker;
use crate::codes;
use crate::desk::Said;
use crate::lane::Lane;
use crate::parked::{Kind, Stored};
use crate::send::Refused;

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Answers a stored message now, or parks the answer until it is as durable as promised.
    pub(crate) fn settle(&mut self, stored: Stored, end: u64, waits: bool) {
        let needs_replica = self.policy.broker.needs_replica;
        if !waits || (self.store.acknowledges_at_once() && !needs_replica) {
            return self.answer_stored(&stored, PutStatus::PutOk);
        }
        match self.store.park(end, needs_replica) {
            Ok(ticket) => {
                if let Some(connection) = self.desk.connection_mut(stored.asker.connection) {
                    connection.parked += 1;
                }
                let deadline_ms = self.now_ms + self.store.config().sync_flush_timeout_ms;
                self.acks_deadline_ms.get_or_insert(deadline_ms);
                self.parked.park(ticket, stored);
            }
            Err(error) => {
                let (code, remark) = self.refused(&error);
                self.refuse_send(&stored.asker, code, &remark);
            }
        }
    }

    pub(crate) fn answer_parked(&mut self, stored: &Stored, status: PutStatus) {
        if let Some(connection) = self.desk.connection_mut(stored.asker.connection) {
            connection.parked -= 1;
        }
        self.answer_stored(stored, status);
    }

    pub(crate) fn answer_stored(&mut self, stored: &Stored, status: PutStatus) {
        match stored.kind {
            Kind::Send => {}
            Kind::Back => return self.answer_back(stored, status),
            Kind::End => return self.answer_end(stored, status),
            Kind::Recall => return self.answer_recalled(stored, status),
        }
        let code = match status {
            PutStatus::PutOk => codes::SUCCESS,
            PutStatus::FlushDiskTimeout => codes::FLUSH_DISK_TIMEOUT,
            PutStatus::FlushSlaveTimeout => codes::FLUSH_SLAVE_TIMEOUT,
            PutStatus::SlaveNotAvailable => codes::SLAVE_NOT_AVAILABLE,
            other => {
                let (code, remark) = self.refusal_of(other, "the flush failed");
                return self.refuse_send(&stored.asker, code, &remark);
            }
        };
        let broker = &self.policy.broker;
        let store_host = &broker.store_host;
        let mut ids = offset_id(store_host, stored.physical_offset.cast_signed());
        for physical_offset in &stored.others {
            let id = offset_id(store_host, physical_offset.cast_signed());
            let _infallible = write!(ids, ",{id}");
        }
        let said = Said { code, remark: None };
        self.desk.reply(&stored.asker, said, |fields| {
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

    fn answer_back(&mut self, stored: &Stored, status: PutStatus) {
        let (code, remark) = if status == PutStatus::PutOk {
            (codes::SUCCESS, None)
        } else {
            (codes::SYSTEM_ERROR, Some(status.name()))
        };
        let said = Said { code, remark };
        self.desk.reply(&stored.asker, said, |_fields| Ok(()));
    }

    /// The message is committed however late its sync or its replica was (`sendFinalMessage`).
    fn answer_end(&mut self, stored: &Stored, status: PutStatus) {
        let said = match status {
            PutStatus::PutOk
            | PutStatus::FlushDiskTimeout
            | PutStatus::FlushSlaveTimeout
            | PutStatus::SlaveNotAvailable => (codes::SUCCESS, None),
            other => {
                let (code, remark) = self.refusal_of(other, "the flush failed");
                (code, Some(remark))
            }
        };
        let (code, remark) = (said.0, said.1.as_deref());
        let said = Said { code, remark };
        self.desk.reply(&stored.asker, said, |_fields| Ok(()));
    }

    /// Refuses a send; every answer to one names region and trace switch.
    pub(crate) fn refuse_send(&mut self, asker: &Asker, code: i32, remark: &str) {
        let broker = &self.policy.broker;
        let remark = Some(remark);
        self.desk.reply(asker, Said { code, remark }, |fields| {
            fields.text("MSG_REGION", &broker.region)?;
            fields.text("TRACE_ON", if broker.is_traced { "true" } else { "false" })
        });
    }

    /// Code and remark for an append that failed.
    pub(crate) fn refused(&self, error: &Error) -> Refused {
        self.refusal_of(PutStatus::of(error), &error.to_string())
    }

    pub(crate) fn illegal(&self) -> Refused {
        self.refusal_of(PutStatus::MessageIllegal, "")
    }

    fn refusal_of(&self, status: PutStatus, why: &str) -> Refused {
        match status {
            PutStatus::CreateMappedFileFailed => {
                let remark = format!("create mapped file failed, server is busy or broken. {why}");
                (codes::SYSTEM_ERROR, remark)
            }
            PutStatus::MessageIllegal | PutStatus::PropertiesSizeExceeded => {
                let max = self.store.config().max_message_bytes;
                let remark = format!(
                    "the message is illegal, maybe msg body or properties length not matched. msg \
                     body length limit {max}B, msg properties length limit 32KB. {why}"
                );
                (codes::MESSAGE_ILLEGAL, remark.trim_end().to_owned())
            }
            PutStatus::ServiceNotAvailable => {
                let remark = format!("service not available now: {why}");
                (codes::SERVICE_NOT_AVAILABLE, remark)
            }
            PutStatus::OsPageCacheBusy => {
                let remark = "[PC_SYNCHRONIZED]broker busy, start flow control for a while";
                (codes::SYSTEM_ERROR, remark.to_owned())
            }
            PutStatus::InSyncReplicasNotEnough
            | PutStatus::UnknownError
            | PutStatus::PutOk
            | PutStatus::FlushDiskTimeout
            | PutStatus::FlushSlaveTimeout
            | PutStatus::SlaveNotAvailable => (codes::SYSTEM_ERROR, format!("{status}: {why}")),
        }
    }
}
