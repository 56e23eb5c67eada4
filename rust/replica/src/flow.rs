//! How many bytes may go to a slave in this second (`FlowMonitor`), and how many went in the last one.
//! Knows only numbers.

const SECOND_MS: u64 = 1000;

/// Counts the bytes of a link by the second, and bounds them where that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct FlowLimit {
    bytes_max: Option<u64>,
    began_ms: u64,
    sent_bytes: u64,
    last_second_bytes: u64,
}

impl FlowLimit {
    /// Counts from `now_ms` on; `bytes_max` a second at the most (`maxHaTransferByteInSecond`).
    #[must_use]
    pub fn new(bytes_max: Option<u64>, now_ms: u64) -> Self {
        Self {
            bytes_max,
            began_ms: now_ms,
            sent_bytes: 0,
            last_second_bytes: 0,
        }
    }

    /// How many bytes may go now.
    pub fn left(&mut self, now_ms: u64) -> u64 {
        self.turn(now_ms);
        self.bytes_max
            .map_or(u64::MAX, |max| max.saturating_sub(self.sent_bytes))
    }

    /// Bytes went.
    pub fn sent(&mut self, bytes: u64, now_ms: u64) {
        self.turn(now_ms);
        self.sent_bytes += bytes;
    }

    /// When bytes may go again that may not now.
    #[must_use]
    pub fn opens_ms(&self) -> u64 {
        self.began_ms + SECOND_MS
    }

    /// Bytes of the last whole second.
    #[must_use]
    pub fn bytes_per_second(&mut self, now_ms: u64) -> u64 {
        self.turn(now_ms);
        self.last_second_bytes
    }

    fn turn(&mut self, now_ms: u64) {
        let seconds = now_ms.saturating_sub(self.began_ms) / SECOND_MS;
        if seconds == 0 {
            return;
        }
        self.last_second_bytes = if seconds == 1 { self.sent_bytes } else { 0 };
        self.sent_bytes = 0;
        self.began_ms += seconds * SECOND_MS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_bytes_and_the_next_one_again() {
        let mut flow = FlowLimit::new(Some(100), 5_000);
        assert_eq!(flow.left(5_000), 100);
        flow.sent(70, 5_100);
        assert_eq!(flow.left(5_999), 30);
        flow.sent(30, 5_999);
        assert_eq!(flow.left(5_999), 0);
        assert_eq!(flow.opens_ms(), 6_000);
        assert_eq!(flow.left(6_000), 100);
        assert_eq!(flow.bytes_per_second(6_500), 100);
        assert_eq!(flow.bytes_per_second(8_500), 0);
    }

    #[test]
    fn without_a_bound_it_counts_alone() {
        let mut flow = FlowLimit::new(None, 0);
        flow.sent(u64::MAX / 2, 10);
        assert_eq!(flow.left(20), u64::MAX);
        assert_eq!(flow.bytes_per_second(1_000), u64::MAX / 2);
    }
}
