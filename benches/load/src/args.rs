//! What the command line asks for. Knows no socket.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mqcore_wire::Serialization;

use crate::signed::Signer;

/// Loads a broker of RocketMQ's remoting protocol and prints one JSON object with what it saw.
#[derive(Debug, Parser)]
#[command(name = "mqcore-load", version)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) job: Job,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Sends messages: closed loop, or open loop with --rate.
    Produce(Produce),
    /// Pulls messages: every connection reads all queues of the topic.
    Consume(Consume),
    /// Opens connections that only send heartbeats.
    Idle(Idle),
    /// Pops messages and acknowledges each: closed loop.
    Pop(Pop),
    /// Sends half messages and commits each: closed loop.
    Transact(Transact),
    /// Sends bad bytes to a port of any kind, with good requests between them.
    Fuzz(Fuzz),
    /// Stores what another run of this program produces, until it is killed: the least work there is.
    Sink(Sink),
}

/// How a header is written.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum HeaderKind {
    /// JSON.
    Json,
    /// RocketMQ's binary header.
    Binary,
}

impl From<HeaderKind> for Serialization {
    fn from(kind: HeaderKind) -> Self {
        match kind {
            HeaderKind::Json => Self::Json,
            HeaderKind::Binary => Self::Binary,
        }
    }
}

/// Whom to load, and for how long.
#[derive(Debug, Clone, Args)]
pub(crate) struct Aim {
    /// Address of the broker; without it the name server is asked for the topic.
    #[arg(long)]
    pub(crate) broker: Option<SocketAddr>,
    /// Address of the name server.
    #[arg(long, default_value = "127.0.0.1:9876")]
    pub(crate) namesrv: SocketAddr,
    /// The topic; with several, the prefix of their names (T-0, T-1, ...).
    #[arg(long, short)]
    pub(crate) topic: String,
    /// Number of topics.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) topics: u32,
    /// Queues per topic.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) queues: u32,
    /// Create the topics at the broker first.
    #[arg(long)]
    pub(crate) create: bool,
    /// Connections.
    #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// Requests in flight per connection.
    #[arg(long, short = 'w', default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) outstanding: u32,
    /// Seconds of measurement.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Seconds before the measurement that are not counted.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) warm_seconds: f64,
    /// How headers are written.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) header: HeaderKind,
    /// Speak TLS on the loading connections; the certificate is not checked.
    #[arg(long)]
    pub(crate) tls: bool,
    /// User that signs every request, where access control is on.
    #[arg(long, requires = "secret_key")]
    pub(crate) access_key: Option<String>,
    /// Its secret.
    #[arg(long, requires = "access_key")]
    pub(crate) secret_key: Option<String>,
    /// Process whose processor time is reported.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Write a line of JSON to standard error every second.
    #[arg(long)]
    pub(crate) progress: bool,
}

impl Aim {
    /// Who signs, where somebody does.
    pub(crate) fn signer(&self) -> Option<Signer> {
        let (user, secret) = (self.access_key.as_ref()?, self.secret_key.as_ref()?);
        Some(Signer::of(user, secret))
    }

    /// Names of the topics.
    pub(crate) fn topic_names(&self) -> Vec<String> {
        if self.topics == 1 {
            return vec![self.topic.clone()];
        }
        let numbers = 0..self.topics;
        numbers.map(|n| format!("{}-{n}", self.topic)).collect()
    }
}

/// Sending.
#[derive(Debug, Clone, Args)]
pub(crate) struct Produce {
    #[command(flatten)]
    pub(crate) common: Aim,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024)]
    pub(crate) size: usize,
    /// Bodies are the lines of this file, each sent once.
    #[arg(long, conflicts_with = "size")]
    pub(crate) file: Option<PathBuf>,
    /// Lines of the file to leave out at its beginning.
    #[arg(long, default_value_t = 0)]
    pub(crate) skip_lines: usize,
    /// Messages in all; without it --seconds counts.
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Messages per request: more than one makes batches.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// Messages per second, whatever the answers do (open loop); without it closed loop.
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Give each message its number, in ten digits, as its key.
    #[arg(long)]
    pub(crate) keys: bool,
    /// Give each message a unique key, as the official clients do: the broker then indexes it.
    #[arg(long)]
    pub(crate) unique_keys: bool,
    /// Come back to a broker that is away for this long, and send again what it did not answer
    /// or refused.
    #[arg(long)]
    pub(crate) patience_seconds: Option<f64>,
    /// Report what queues hold more than before, and answers whose queue offset is not behind the
    /// one that their connection got before.
    #[arg(long)]
    pub(crate) check: bool,
    /// Write the number of each acknowledged message to this file, a line each.
    #[arg(long)]
    pub(crate) acks: Option<PathBuf>,
}

/// Pulling.
#[derive(Debug, Clone, Args)]
pub(crate) struct Consume {
    #[command(flatten)]
    pub(crate) common: Aim,
    /// Consumer group.
    #[arg(long, default_value = "mqcore-load")]
    pub(crate) group: String,
    /// Messages per pull at the most.
    #[arg(long, default_value_t = 32)]
    pub(crate) pull_count: i32,
    /// Begin at the end of the queues instead of their beginning.
    #[arg(long)]
    pub(crate) from_end: bool,
    /// Stop when all that was there at the start has been read.
    #[arg(long)]
    pub(crate) until_end: bool,
}

/// Popping.
#[derive(Debug, Clone, Args)]
pub(crate) struct Pop {
    #[command(flatten)]
    pub(crate) common: Aim,
    /// Consumer group.
    #[arg(long, default_value = "mqcore-load")]
    pub(crate) group: String,
    /// Messages per pop at the most.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(i32).range(1..=32))]
    pub(crate) pop_count: i32,
    /// Stop when so many messages are acknowledged; without it --seconds counts.
    #[arg(long)]
    pub(crate) count: Option<u64>,
    /// Name of the broker, as in handles.
    #[arg(long, default_value = "broker-a")]
    pub(crate) broker_name: String,
}

/// Being there.
#[derive(Debug, Clone, Args)]
pub(crate) struct Idle {
    #[command(flatten)]
    pub(crate) common: Aim,
    /// Seconds between two heartbeats of a connection.
    #[arg(long, default_value_t = 30.0)]
    pub(crate) heartbeat_seconds: f64,
}

/// Transactions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Transact {
    #[command(flatten)]
    pub(crate) common: Aim,
    /// Bytes of a body.
    #[arg(long, default_value_t = 1024)]
    pub(crate) size: usize,
}

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PortKind {
    /// Frames of the remoting protocol.
    Remoting,
    /// Anything else.
    Raw,
}

/// Sending bad bytes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Fuzz {
    /// Address of the port.
    #[arg(long)]
    pub(crate) address: SocketAddr,
    /// What it speaks.
    #[arg(long, value_enum, default_value = "remoting")]
    pub(crate) kind: PortKind,
    /// What inputs are made of: pieces with their length, 4 bytes, before each; frames are such.
    #[arg(long)]
    pub(crate) seeds: PathBuf,
    /// A good request, whose answer has to come in time.
    #[arg(long)]
    pub(crate) probe: Option<PathBuf>,
    /// Request codes that are never sent, joined by commas.
    #[arg(long, value_delimiter = ',')]
    pub(crate) without: Vec<i32>,
    /// What inputs are drawn from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Connections at once.
    #[arg(long, short, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) connections: u32,
    /// For how long.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// How late a good answer, or the end of a bad connection, may be.
    #[arg(long, default_value_t = 20.0)]
    pub(crate) patience_seconds: f64,
    /// Speak TLS; the certificate is not checked.
    #[arg(long)]
    pub(crate) tls: bool,
    /// One round alone, as a report of trouble names it.
    #[arg(long)]
    pub(crate) round: Option<u64>,
    /// Whose round it is.
    #[arg(long)]
    pub(crate) connection: Option<u64>,
}

/// Storing the least.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sink {
    /// Where its files are made; they stay.
    #[arg(long)]
    pub(crate) directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Line::command().debug_assert();
        let line = [
            "mqcore-load",
            "produce",
            "-t",
            "T",
            "-c",
            "8",
            "-w",
            "32",
            "--topics",
            "2",
        ];
        let Job::Produce(produce) = Line::parse_from(line).job else {
            panic!("a produce");
        };
        assert_eq!(produce.common.topic_names(), ["T-0", "T-1"]);
        assert_eq!(
            (produce.common.connections, produce.common.outstanding),
            (8, 32)
        );
    }
}
