"""The bounds of connections, each with its reason; a server or client may be given others."""

from dataclasses import dataclass

__all__ = ["Limits"]

_KIB = 1 << 10
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection, and all connections of one hub together, may occupy.

    Attributes:
        frame_bytes_max: The official bound: a longer frame ends the connection.
        in_flight_max: Requests of one connection that run or wait to run. Beyond it the
            connection is not read: the peer's own bound is 65,535, and what it has queued is its
            memory and not ours.
        in_flight_bytes_max: The same in bytes of bodies: two of the largest frames.
        turn_s: How long requests of one connection run before the loop serves others: a client
            that waits notices nothing of 5 ms. Connections that have more to do share it.
        calls_max: Requests of ours on one connection that wait for their answer; the official
            client's semaphore has the same.
        out_high_bytes: Unsent bytes of one connection above which its requests are no longer
            executed, until half of it is sent. More buys no throughput, a socket has its own
            buffer.
        out_bytes_max: Unsent bytes above which the connection is closed: pushed to a peer that
            never reads. Four of the largest frames.
        held_bytes_max: Bytes of waiting requests of all connections together; the connection that
            passes it is closed.
        orphans_max: Requests that run although their connection has ended, of all connections
            together. Beyond it new connections are not read until half of them are done: who
            connects, asks and goes would otherwise have any number of them run. Those that are
            there already are read: what runs may wait for them.
        first_frames_bytes_max: Bytes of unfinished frames of all connections that have sent no
            whole frame yet: two of the largest. Beyond it they are read no further.
        later_frames_bytes_max: The same of all other connections.
        connections_max: Connections of one listener: each costs some 5 KiB, and a descriptor.
            Beyond it the newest idle one is closed for a new one, or the new one where none is.
        descriptors_max: Number of a descriptor from which on there is none to spare for a
            connection: see `mqcore.remoting.descriptors`.
        unused_s: A connection that has sent nothing for so long may be closed; one that just
            comes has not had the time to.
        silent_s: The same of one that has sent something: official clients send a heartbeat every
            30 s.
        idle_s: Without a byte either way for so long a connection is closed, as official servers
            and clients do.
        frame_s: A frame that began must be whole within this time: 16 MiB at 140 KB/s.
        handshake_s: A TLS handshake must be done within this time.
    """

    frame_bytes_max: int = 16 * _MIB
    in_flight_max: int = 1024
    in_flight_bytes_max: int = 32 * _MIB
    turn_s: float = 0.005
    calls_max: int = 65535
    out_high_bytes: int = 256 * _KIB
    out_bytes_max: int = 64 * _MIB
    held_bytes_max: int = 256 * _MIB
    orphans_max: int = 1024
    first_frames_bytes_max: int = 32 * _MIB
    later_frames_bytes_max: int = 224 * _MIB
    connections_max: int = 20_000
    descriptors_max: int = 1 << 31
    unused_s: float = 1.0
    silent_s: float = 65.0
    idle_s: float = 120.0
    frame_s: float = 120.0
    handshake_s: float = 10.0
