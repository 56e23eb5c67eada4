//! Questions before the load begins: one blocking request after another. Knows no load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use mqcore_wire::command::VERSION_DEFAULT;
use mqcore_wire::{Command, CommandRef, FrameReader, WireError};
use serde_json::Value;

use crate::args::Aim;
use crate::failure::{Failure, Outcome};
use crate::signed::Signer;

/// What an administrator waits for an answer, as `mqadmin` does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Creates a topic.
const UPDATE_AND_CREATE_TOPIC: i32 = 17;
/// Asks for the next offset of a queue.
const GET_MAX_OFFSET: i32 = 30;
/// Asks for the first offset of a queue.
const GET_MIN_OFFSET: i32 = 31;
/// Asks for the brokers of a topic.
const GET_ROUTEINFO_BY_TOPIC: i32 = 105;

/// A connection for one question at a time.
pub(crate) struct AdminConnection {
    address: SocketAddr,
    signer: Option<Signer>,
    socket: TcpStream,
    reader: FrameReader,
    opaque: i32,
}

impl AdminConnection {
    pub(crate) fn at(address: SocketAddr, signer: Option<Signer>) -> Outcome<Self> {
        let failed = |error| Failure::Socket {
            what: "connecting to",
            address,
            error,
        };
        let socket = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT).map_err(failed)?;
        let timeout = Some(ANSWER_TIMEOUT);
        let set = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_read_timeout(timeout))
            .and_then(|()| socket.set_write_timeout(timeout));
        set.map_err(failed)?;
        Ok(Self {
            address,
            signer,
            socket,
            reader: FrameReader::default(),
            opaque: 0,
        })
    }

    /// Asks, and waits for an answer with code 0.
    pub(crate) fn ask(
        &mut self,
        what: &'static str,
        code: i32,
        fields: &[(&str, String)],
    ) -> Outcome<Command> {
        self.opaque += 1;
        let pairs = fields.iter();
        let mut request = Command {
            code,
            version: VERSION_DEFAULT,
            opaque: self.opaque,
            ext: pairs
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            ..Command::default()
        };
        if let Some(signer) = &self.signer {
            signer.sign_command(&mut request);
        }
        let bytes = request
            .encode()
            .map_err(|error| Failure::Message(error.to_string()))?;
        let address = self.address;
        let failed = |error| Failure::Socket {
            what: "asking",
            address,
            error,
        };
        self.socket.write_all(&bytes).map_err(failed)?;
        let mut answers: Vec<Command> = Vec::new();
        let mut buffer = [0; 64 * 1024];
        loop {
            let read = self.socket.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                let why = "it closed the connection".to_owned();
                return Err(Failure::Gone { address, why });
            }
            let bytes = buffer.get(..read).unwrap_or_default();
            self.reader
                .feed::<WireError>(bytes, |frame| {
                    answers.push(CommandRef::decode(frame)?.to_owned());
                    Ok(())
                })
                .map_err(|error| Failure::Bytes { address, error })?;
            let ours = |answer: &Command| answer.opaque == self.opaque && answer.flag & 1 != 0;
            let Some(answer) = answers.drain(..).find(ours) else {
                continue;
            };
            if answer.code != 0 {
                return Err(Failure::Refused {
                    address,
                    what,
                    code: answer.code,
                    remark: answer.remark.unwrap_or_default(),
                });
            }
            return Ok(answer);
        }
    }

    fn offset(&mut self, code: i32, topic: &str, queue_id: u32) -> Outcome<i64> {
        let fields = [
            ("topic", topic.to_owned()),
            ("queueId", queue_id.to_string()),
        ];
        let answer = self.ask("an offset", code, &fields)?;
        let offset = answer.ext.get("offset").and_then(|text| text.parse().ok());
        offset.ok_or_else(|| Failure::Message("an answer without an offset".to_owned()))
    }

    /// First and next offset of a queue.
    pub(crate) fn bounds(&mut self, topic: &str, queue_id: u32) -> Outcome<(i64, i64)> {
        let first = self.offset(GET_MIN_OFFSET, topic, queue_id)?.max(0);
        Ok((first, self.offset(GET_MAX_OFFSET, topic, queue_id)?))
    }

    fn create_topic(&mut self, topic: &str, queues: u32) -> Outcome<()> {
        let fields = [
            ("topic", topic.to_owned()),
            ("defaultTopic", "TBW102".to_owned()),
            ("readQueueNums", queues.to_string()),
            ("writeQueueNums", queues.to_string()),
            ("perm", "6".to_owned()),
            ("topicFilterType", "SINGLE_TAG".to_owned()),
            ("topicSysFlag", "0".to_owned()),
            ("order", "false".to_owned()),
        ];
        self.ask("creating a topic", UPDATE_AND_CREATE_TOPIC, &fields)?;
        Ok(())
    }
}

/// The broker to load: the one named, or the master of the first topic; the topics are created there
/// when that is asked for.
pub(crate) fn broker(common: &Aim) -> Outcome<SocketAddr> {
    let topics = common.topic_names();
    let address = match common.broker {
        Some(address) => address,
        // A topic that is to be created has no route yet: that of the template leads to a broker.
        None if common.create => route(common, "TBW102")?,
        None => route(common, topics.first().unwrap_or(&common.topic))?,
    };
    if common.create {
        let mut admin = AdminConnection::at(address, common.signer())?;
        for topic in &topics {
            admin.create_topic(topic, common.queues)?;
        }
    }
    Ok(address)
}

/// Asks a name server for the master of a topic.
fn route(common: &Aim, topic: &str) -> Outcome<SocketAddr> {
    let fields = [
        ("topic", topic.to_owned()),
        ("acceptStandardJsonOnly", "true".to_owned()),
    ];
    let answer = AdminConnection::at(common.namesrv, common.signer())?.ask(
        "a route",
        GET_ROUTEINFO_BY_TOPIC,
        &fields,
    )?;
    master(&answer.body).ok_or_else(|| Failure::NoBroker {
        topic: topic.to_owned(),
    })
}

/// The address of the first master in the body of a route.
fn master(body: &[u8]) -> Option<SocketAddr> {
    let route: Value = serde_json::from_slice(body).ok()?;
    let brokers = route.get("brokerDatas")?.as_array()?;
    let masters = brokers
        .iter()
        .filter_map(|broker| broker.get("brokerAddrs")?.get("0")?.as_str());
    masters
        .filter_map(|address| address.to_socket_addrs().ok()?.next())
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_master_is_found_in_a_route() {
        let body = br#"{"brokerDatas":[{"brokerAddrs":{"1":"127.0.0.1:1"}},
            {"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:2"},"brokerName":"b"}]}"#;
        assert_eq!(master(body), "127.0.0.1:10911".parse().ok());
        assert_eq!(master(br#"{"brokerDatas":[]}"#), None);
        assert_eq!(master(b"no"), None);
    }
}
