//! What is decided about pulls from a slave: its state as the fast path reads it. No logic.

/// What a slave does about pulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slave {
    /// Whether its master is there: consumers may be sent to it.
    pub has_master: bool,
    /// Whether it answers offsets that it does not have as a master does (`offsetCheckInSlave`).
    pub checks_offsets: bool,
    /// Whether it sends consumers back that are not far behind, as slaves of 5.x do.
    pub sends_back: bool,
}
