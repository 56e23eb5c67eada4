//! Connections and the answers to them: each connection's half frame and its output, in order, and
//! the bounds on both. Knows no request's meaning and no socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_record::Host;
use mqcore_wire::WireError;
use mqcore_wire::command::FrameWriter;

use crate::bounds::{Bounds, ExecutionTime};
use crate::codes;
use crate::identity::Identity;
use crate::output::{Lent, Output};
use crate::quotas::Quotas;
use crate::refusals::Refused;
use crate::request_context::{ConnectionId, RequestContext};
use crate::stats::Stats;
use crate::times::RequestTimes;
use crate::traffic::Traffic;

/// Bytes queued for a connection from which on its requests are not executed any more: it asks
/// faster than it reads. Some thirty answers of the largest usual size.
pub const OUTPUT_PAUSE_BYTES: usize = 8 << 20;
/// Bytes queued for a connection at which it is closed. Held pulls and parked sends can still be
/// answered beyond the pause; this much no client lets come that will ever read it.
pub const OUTPUT_CLOSE_BYTES: usize = 64 << 20;
/// Bytes of the log that all outputs together may keep from being removed; beyond it answers are
/// copied, and beyond twice as much in all outputs pulls are refused.
pub const PINNED_BYTES_MAX: usize = 256 << 20;
/// Records of an answer are copied up to this many bytes, the most that a pull takes from memory
/// unless set otherwise; above it they go out as slices of the log. Measured on TCP
/// (`benches/benches/answer.rs`): a gathered write of one slice per record costs the sender as much as
/// the copy up to 4 KB and a quarter to a half more above; `sendfile` costs more at every size, many
/// times as much where the records of other queues lie between. Slices save memory, not time.
pub const COPY_BYTES_MAX: usize = 256 * 1024;

/// One connection.
#[derive(Debug)]
pub struct Connection<D: Disk> {
    /// Where the client is.
    pub born_host: Host,
    /// The same as official remarks spell it.
    pub peer: Box<str>,
    /// Who is on it.
    pub identity: Identity,
    /// Whether its requests name where their clients are: a broker passes them on.
    pub names_hosts: bool,
    /// The frame that has not come whole yet, and what came behind it while requests were not
    /// executed.
    pub half_frame: Vec<u8>,
    /// Since when the half frame is there, ms.
    pub half_since_ms: Option<u64>,
    /// Bytes that it has received and been sent.
    pub moved_bytes: u64,
    /// What waits to be written.
    pub output: Output<D>,
    /// Sends of it that wait for their watermark.
    pub parked: usize,
    /// Whether a whole frame of it has come.
    pub has_asked: bool,
    /// Requests of it that have no answer yet, but for those that Python has.
    unanswered: i64,
    /// It has asked for what is done under its number later, without an answer.
    stays: bool,
    /// Whether its last turn ended with requests left.
    pub(crate) is_waiting: bool,
    is_dirty: bool,
}

/// The head of an answer: code and remark.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The response code.
    pub code: i32,
    /// The remark.
    pub remark: Option<&'a str>,
}

impl<'a> ResponseHead<'a> {
    /// The head of a refusal.
    pub(crate) fn of(refused: &'a Refused) -> Self {
        Self {
            code: refused.code,
            remark: Some(&refused.remark),
        }
    }
}

/// All connections of a fast path.
#[derive(Debug)]
pub struct Connections<D: Disk> {
    connections: HashMap<ConnectionId, Connection<D>>,
    dirty: Vec<ConnectionId>,
    next_id: u64,
    queued_bytes: usize,
    pinned_bytes: usize,
    /// Bytes of half frames.
    pub half_frames_bytes: usize,
    /// The same of all loops.
    all_half_frames_bytes: Arc<AtomicUsize>,
    /// The version in every answer.
    pub version: i32,
    /// What was done.
    pub stats: Stats,
    /// What was stored, by topic.
    pub traffic: Traffic,
    /// How much may be sent and read a second, on all loops.
    pub quotas: Arc<Quotas>,
    /// How long requests take.
    pub times: RequestTimes,
    /// What all connections together may occupy.
    pub bounds: Bounds,
    /// How long one connection is executed before others.
    pub execution_time: ExecutionTime,
}

impl<D: Disk> Connections<D> {
    /// Without connections.
    #[must_use]
    pub fn new() -> Self {
        Self {
            connections: HashMap::new(),
            dirty: Vec::new(),
            // 0 is nobody, for what the broker asks itself.
            next_id: 1,
            queued_bytes: 0,
            pinned_bytes: 0,
            half_frames_bytes: 0,
            all_half_frames_bytes: Arc::default(),
            version: 0,
            stats: Stats::default(),
            traffic: Traffic::default(),
            quotas: Arc::default(),
            times: RequestTimes::default(),
            bounds: Bounds::default(),
            execution_time: ExecutionTime::default(),
        }
    }

    /// Without connections, for another loop: what all may occupy together counts for both.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self {
            all_half_frames_bytes: Arc::clone(&self.all_half_frames_bytes),
            quotas: Arc::clone(&self.quotas),
            ..Self::new()
        }
    }

    /// Counts the half frame of a connection: so many bytes less, and so many more.
    pub(crate) fn count_half_frames(&mut self, less: usize, more: usize) {
        if less != more {
            self.half_frames_bytes = self.half_frames_bytes + more - less;
            let all = &self.all_half_frames_bytes;
            all.fetch_add(more.wrapping_sub(less), Ordering::Relaxed);
        }
    }

    /// Bytes of half frames on all loops.
    pub(crate) fn all_half_frames_bytes(&self) -> usize {
        self.all_half_frames_bytes.load(Ordering::Relaxed)
    }

    /// Takes a new connection.
    pub fn open(&mut self, born_host: Host, peer: &str) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let connection = Connection {
            born_host,
            peer: peer.into(),
            identity: Identity::of(peer),
            names_hosts: false,
            half_frame: Vec::new(),
            half_since_ms: None,
            moved_bytes: 0,
            output: Output::default(),
            parked: 0,
            has_asked: false,
            unanswered: 0,
            stays: false,
            is_waiting: false,
            is_dirty: false,
        };
        self.connections.insert(id, connection);
        id
    }

    /// Counts requests that are to be answered; below zero: that many are somebody else's now.
    pub(crate) fn count_unanswered(&mut self, id: ConnectionId, more: i64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.unanswered += more;
        }
    }

    /// A connection has asked for what is done later without an answer: it stays with this loop.
    pub(crate) fn keep_here(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stays = true;
        }
    }

    /// Whether nothing of a connection is under way here: every request is answered, every answer
    /// written, and no part of a frame is kept. It may be taken to another loop then.
    #[must_use]
    pub fn is_idle(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            let has_work = connection.unanswered != 0 || connection.parked > 0;
            let has_bytes = !connection.half_frame.is_empty() || !connection.output.is_empty();
            !has_work && !has_bytes && !connection.is_waiting && !connection.stays
        })
    }

    /// Takes an idle connection out, for another loop; `None` when it is not idle, or unknown.
    pub fn take_out(&mut self, id: ConnectionId) -> Option<Connection<D>> {
        if self.is_idle(id) {
            self.close(id)
        } else {
            None
        }
    }

    /// Takes in a connection that another loop has given up, under a number of its own.
    pub fn take_in(&mut self, connection: &Connection<D>) -> ConnectionId {
        let id = self.open(connection.born_host, &connection.peer);
        if let Some(taken) = self.connections.get_mut(&id) {
            taken.moved_bytes = connection.moved_bytes;
            taken.has_asked = connection.has_asked;
            taken.identity = connection.identity.moved();
            taken.names_hosts = connection.names_hosts;
        }
        id
    }

    /// Forgets a connection; `None` when it was unknown.
    pub fn close(&mut self, id: ConnectionId) -> Option<Connection<D>> {
        let connection = self.connections.remove(&id)?;
        self.count_half_frames(connection.half_frame.len(), 0);
        self.execution_time.waiting -= usize::from(connection.is_waiting);
        self.queued_bytes -= connection.output.queued_bytes();
        self.pinned_bytes -= connection.output.pinned_bytes();
        Some(connection)
    }

    /// A connection.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection<D>> {
        self.connections.get(&id)
    }

    /// A connection, to be changed.
    pub fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<D>> {
        self.connections.get_mut(&id)
    }

    /// Those of which something holds.
    pub(crate) fn ids_where(&self, holds: impl Fn(&Connection<D>) -> bool) -> Vec<ConnectionId> {
        let found = self.connections.iter().filter(|(_, each)| holds(each));
        found.map(|(id, _)| *id).collect()
    }

    /// Connections now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Connections that got output since the last call.
    pub fn take_dirty(&mut self, out: &mut Vec<ConnectionId>) {
        out.append(&mut self.dirty);
        for id in out.iter() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.is_dirty = false;
            }
        }
    }

    /// Bytes that wait for all connections.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Bytes of the log among them that keep their files from being removed.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.pinned_bytes
    }

    /// Changes the output of a connection.
    pub fn change_output<T>(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut Output<D>) -> T,
    ) -> Option<T> {
        let output = &mut self.connections.get_mut(&id)?.output;
        let before = (output.queued_bytes(), output.pinned_bytes());
        let result = change(output);
        self.queued_bytes = self.queued_bytes + output.queued_bytes() - before.0;
        self.pinned_bytes = self.pinned_bytes + output.pinned_bytes() - before.1;
        Some(result)
    }

    /// Takes out what a connection is to be sent, to be written while nothing is locked; `None` without
    /// any, and while it is lent. Whoever takes it gives it back before anything else happens to the output.
    pub fn lend_output(&mut self, id: ConnectionId) -> Option<Lent<D>> {
        let connection = self.connections.get_mut(&id)?;
        connection.output.lend()
    }

    /// Takes back lent output, of which so many bytes went out; that of a closed connection is dropped.
    pub fn give_back_output(&mut self, id: ConnectionId, lent: Lent<D>, sent_bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.moved_bytes += sent_bytes as u64;
            self.change_output(id, |output| output.give_back(lent, sent_bytes));
        }
    }

    /// Whether a connection has so much output queued that its requests are not executed now, or any
    /// while all connections together have too much.
    #[must_use]
    pub fn is_stalled(&self, id: ConnectionId) -> bool {
        let connection = self.connections.get(&id);
        let is_full = self.queued_bytes >= self.bounds.output_bytes;
        let pause_bytes = if is_full { 1 } else { OUTPUT_PAUSE_BYTES };
        connection.is_some_and(|c| c.output.queued_bytes() >= pause_bytes)
    }

    /// Answers a request, with fields that `write` adds.
    pub fn reply(
        &mut self,
        request_context: &RequestContext,
        head: ResponseHead<'_>,
        write: impl FnOnce(&mut FrameWriter<'_, '_>) -> Result<(), WireError>,
    ) {
        self.reply_records(request_context, head, write, Vec::new());
    }

    /// Refuses a request, without fields.
    pub(crate) fn refuse(&mut self, request_context: &RequestContext, refused: &Refused) {
        self.reply(request_context, ResponseHead::of(refused), |_fields| Ok(()));
    }

    /// Answers a request that is done, without fields.
    pub(crate) fn succeed(&mut self, request_context: &RequestContext, remark: Option<&str>) {
        let code = codes::SUCCESS;
        self.reply(request_context, ResponseHead { code, remark }, |_fields| {
            Ok(())
        });
    }

    /// Answers a request with records as the body.
    pub fn reply_records(
        &mut self,
        request_context: &RequestContext,
        head: ResponseHead<'_>,
        write: impl FnOnce(&mut FrameWriter<'_, '_>) -> Result<(), WireError>,
        records: Vec<RecordBytes<D>>,
    ) {
        self.count(request_context, head.code);
        if request_context.is_oneway {
            return;
        }
        let head = request_context.head(head.code, self.version, head.remark);
        let lost = request_context.head(
            codes::SYSTEM_ERROR,
            self.version,
            Some("the answer is too long"),
        );
        let body_len: usize = records.iter().map(|r| r.as_bytes().len()).sum();
        let is_copied =
            body_len <= COPY_BYTES_MAX || self.pinned_bytes + body_len > PINNED_BYTES_MAX;
        self.touch_answered(request_context.connection, 1);
        self.change_output(request_context.connection, |output| {
            let written = output.append(|out| {
                let mut writer = FrameWriter::begin(out, &head)?;
                write(&mut writer)?;
                writer.finish_before_body(body_len)
            });
            if written.is_err() {
                // A text too long for its place: the answer without it is better than none.
                let _fits = output.append(|out| FrameWriter::begin(out, &lost)?.finish(&[]));
                return;
            }
            if is_copied {
                output.append(|out| {
                    out.reserve(body_len);
                    for record in &records {
                        out.extend_from_slice(record.as_bytes());
                    }
                });
            } else {
                for record in records {
                    output.push_record(record);
                }
            }
        });
        if is_copied {
            self.stats.copied_bytes += body_len as u64;
        }
    }

    /// Answers a request with bytes as the body.
    pub fn reply_body(
        &mut self,
        request_context: &RequestContext,
        head: ResponseHead<'_>,
        write: impl FnOnce(&mut FrameWriter<'_, '_>) -> Result<(), WireError>,
        body: &[u8],
    ) {
        self.count(request_context, head.code);
        if request_context.is_oneway {
            return;
        }
        let head = request_context.head(head.code, self.version, head.remark);
        self.touch_answered(request_context.connection, 1);
        self.change_output(request_context.connection, |output| {
            // Names and numbers of ours: they fit.
            let _fits = output.append(|out| {
                let mut writer = FrameWriter::begin(out, &head)?;
                write(&mut writer)?;
                writer.finish(body)
            });
        });
        self.stats.copied_bytes += body.len() as u64;
    }

    /// What was answered has been written, as far as sockets took it: the requests are timed.
    pub fn note_written(&mut self) {
        let connections = &self.connections;
        self.times.written(|id| {
            let peer = connections.get(&id).map(|connection| &connection.peer);
            peer.cloned().unwrap_or_default()
        });
    }

    /// Adds bytes that are encoded already.
    pub fn write(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.touch(id);
        self.change_output(id, |output| {
            output.append(|out| out.extend_from_slice(bytes));
        });
    }

    fn touch(&mut self, id: ConnectionId) {
        self.touch_answered(id, 0);
    }

    /// A connection has output, so many answers among it.
    fn touch_answered(&mut self, id: ConnectionId, answers: i64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.unanswered -= answers;
            if !connection.is_dirty {
                connection.is_dirty = true;
                self.dirty.push(id);
            }
        }
    }

    fn count(&mut self, request_context: &RequestContext, code: i32) {
        self.times.note(request_context, code);
        let stats = &mut self.stats;
        let counter = match code {
            codes::SYSTEM_BUSY => &mut stats.refused_busy,
            codes::NO_PERMISSION => &mut stats.refused_permission,
            codes::MESSAGE_ILLEGAL => &mut stats.refused_illegal,
            codes::SERVICE_NOT_AVAILABLE => &mut stats.refused_unavailable,
            codes::SUCCESS
            | codes::FLUSH_DISK_TIMEOUT
            | codes::FLUSH_SLAVE_TIMEOUT
            | codes::SLAVE_NOT_AVAILABLE
            | codes::PULL_NOT_FOUND
            | codes::PULL_OFFSET_MOVED
            | codes::PULL_RETRY_IMMEDIATELY
            | codes::POLLING_TIMEOUT
            | codes::QUERY_NOT_FOUND => return,
            _ => &mut stats.refused_other,
        };
        *counter += 1;
    }
}

impl<D: Disk> Default for Connections<D> {
    fn default() -> Self {
        Self::new()
    }
}
