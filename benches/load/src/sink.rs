//! The least that stores what a load sends: one thread that reads frames, writes their bodies one
//! after the other into allocated files and answers. No queue, no index, no CRC: what a broker beside
//! the same generator cannot pass.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use mqcore_wire::command::encode;
use mqcore_wire::header::RESPONSE;
use mqcore_wire::{CommandRef, FrameReader, Head, WireError};
use rustix::fs::{FallocateFlags, fallocate};
use serde_json::Value;

use crate::args::Sink;
use crate::failure::{Failure, Outcome};

/// The token of the listener; connections have greater ones.
const LISTENER: Token = Token(0);
/// Bytes of one file: as those of a broker's log.
const FILE_BYTES: u64 = 1 << 30;
/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// Events taken at a time.
const EVENTS: usize = 1024;
/// What a record has beside body and topic: so many bytes are written before each body.
const HEAD_BYTES: usize = 91;

/// Where bodies go: one file after the other.
struct Files {
    directory: PathBuf,
    current: Option<File>,
    number: u64,
    at: u64,
}

impl Files {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let len = bytes.len() as u64;
        if self.current.is_none() || self.at + len > FILE_BYTES {
            let path = self.directory.join(format!("sink-{}", self.number));
            let file = File::create(path)?;
            fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?;
            self.number += 1;
            self.at = 0;
            self.current = Some(file);
        }
        if let Some(file) = &self.current {
            file.write_all_at(bytes, self.at)?;
        }
        self.at += len;
        Ok(())
    }
}

/// A connection of the generator.
struct Peer {
    socket: TcpStream,
    reader: FrameReader,
    answers: Vec<u8>,
}

/// Serves until it is killed; prints where it listens.
pub(crate) fn run(args: &Sink) -> Outcome<Value> {
    let failed = |error| Failure::System {
        what: "the sink",
        error,
    };
    serve(args).map_err(failed)
}

fn serve(args: &Sink) -> std::io::Result<Value> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    writeln!(
        std::io::stdout(),
        "mqcore-load sink ready on {}",
        listener.local_addr()?
    )?;
    let mut files = Files {
        directory: args.directory.clone(),
        current: None,
        number: 0,
        at: 0,
    };
    let mut events = Events::with_capacity(EVENTS);
    let mut peers: HashMap<usize, Peer> = HashMap::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut next = LISTENER.0 + 1;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Some(mut socket) = accepted(&listener)? {
                    socket.set_nodelay(true)?;
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry()
                        .register(&mut socket, Token(next), interest)?;
                    let peer = Peer {
                        socket,
                        reader: FrameReader::default(),
                        answers: Vec::new(),
                    };
                    peers.insert(next, peer);
                    next += 1;
                }
                continue;
            }
            let number = event.token().0;
            let is_open = match peers.get_mut(&number) {
                Some(peer) => turn(peer, &mut buffer, &mut files)?,
                None => true,
            };
            if !is_open {
                peers.remove(&number);
            }
        }
    }
}

fn accepted(listener: &TcpListener) -> std::io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((socket, _peer)) => Ok(Some(socket)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads, stores and answers all there is; false when the connection has ended.
fn turn(peer: &mut Peer, buffer: &mut [u8], files: &mut Files) -> std::io::Result<bool> {
    loop {
        let read = match peer.socket.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(answer(peer)),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Ok(false),
        };
        let mut records = Vec::with_capacity(2 * read);
        let answers = &mut peer.answers;
        let bytes = buffer.get(..read).unwrap_or_default();
        let fed = peer.reader.feed::<WireError>(bytes, |frame| {
            let command = CommandRef::decode(frame)?;
            let topic = command.fields.value("b").unwrap_or_default();
            if !command.body.is_empty() {
                records.resize(records.len() + HEAD_BYTES, 0);
                records.extend_from_slice(topic.as_bytes());
                records.extend_from_slice(command.body);
            }
            let head = Head {
                opaque: command.opaque,
                flag: RESPONSE,
                serialization: command.serialization,
                ..Head::default()
            };
            answers.extend(encode(&head, [("queueId", "0")], b"")?);
            Ok(())
        });
        if fed.is_err() {
            return Ok(false);
        }
        if !records.is_empty() {
            files.write(&records)?;
        }
        if !answer(peer) {
            return Ok(false);
        }
        if read < buffer.len() {
            return Ok(true);
        }
    }
}

/// Writes what the socket takes; false when the connection has ended.
fn answer(peer: &mut Peer) -> bool {
    while !peer.answers.is_empty() {
        match peer.socket.write(&peer.answers) {
            Ok(0) => return false,
            Ok(sent) => {
                peer.answers.drain(..sent);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}
