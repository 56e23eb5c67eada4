//! What the fast path has done, in numbers. They only rise.

/// Counters since the fast path was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames taken.
    pub requests: u64,
    /// Messages stored for sends, each part of a batch counted.
    pub sends: u64,
    /// Bytes of the records stored for sends.
    pub send_bytes: u64,
    /// Pulls answered.
    pub pulls: u64,
    /// Reads for pulls and pops that found messages.
    pub found: u64,
    /// Reads for pulls that found none.
    pub missed: u64,
    /// Messages given by pulls.
    pub pulled: u64,
    /// Bytes of records given by pulls.
    pub pulled_bytes: u64,
    /// Bytes of them that were copied into an answer; the others went out as slices.
    pub copied_bytes: u64,
    /// Pulls whose records had to be read from the disk.
    pub cold_pulls: u64,
    /// Delayed messages delivered.
    pub delivered: u64,
    /// Requests escalated to Python.
    pub escalated: u64,
    /// Requests refused because something is full or too slow (code 2).
    pub refused_busy: u64,
    /// Requests refused for a permission (code 16).
    pub refused_permission: u64,
    /// Sends refused for what is wrong with the message (code 13).
    pub refused_illegal: u64,
    /// Requests refused because the store takes no writes (code 14).
    pub refused_unavailable: u64,
    /// Requests refused for any other reason.
    pub refused_other: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Connections closed for what they sent.
    pub closed_bad_bytes: u64,
    /// Connections closed because they did not read.
    pub closed_slow: u64,
}

impl Stats {
    /// Names and numbers, for reports.
    #[must_use]
    pub fn pairs(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("requests", self.requests),
            ("sends", self.sends),
            ("send_bytes", self.send_bytes),
            ("pulls", self.pulls),
            ("found", self.found),
            ("missed", self.missed),
            ("pulled", self.pulled),
            ("pulled_bytes", self.pulled_bytes),
            ("copied_bytes", self.copied_bytes),
            ("cold_pulls", self.cold_pulls),
            ("delivered", self.delivered),
            ("handed", self.escalated),
            ("refused_busy", self.refused_busy),
            ("refused_permission", self.refused_permission),
            ("refused_illegal", self.refused_illegal),
            ("refused_unavailable", self.refused_unavailable),
            ("refused_other", self.refused_other),
            ("received_bytes", self.received_bytes),
            ("closed_bad_bytes", self.closed_bad_bytes),
            ("closed_slow", self.closed_slow),
        ]
    }
}
