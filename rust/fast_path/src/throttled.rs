//! Requests that quotas hold back, by the time at which they go on. Knows no quota and no processor.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_wire::Command;

use crate::refusals::Refused;
use crate::request_context::{ConnectionId, RequestContext};

/// Requests held back at the most, of one loop; beyond it they are refused at once.
const COUNT_MAX: usize = 65_536;
/// Bytes of them at the most, of one loop: sixteen of the largest messages each half second.
const BYTES_MAX: usize = 64 << 20;

/// What is held back.
pub(crate) enum Kept {
    /// A send that goes at its time.
    Send(Command),
    /// A pull or pop that asks again at its time, and is refused from then on.
    Read(Command, u64),
    /// A refusal: whoever hears it at once comes again at once.
    Refusal(RequestContext, Refused),
}

/// One that is held back.
pub(crate) struct Waiting {
    pub(crate) connection: ConnectionId,
    pub(crate) kept: Kept,
    /// By which rule.
    pub(crate) rule: Arc<str>,
    pub(crate) since_ms: u64,
    /// When it was received, us.
    pub(crate) received_us: u64,
    pub(crate) bytes: usize,
}

/// All that are held back.
#[derive(Default)]
pub(crate) struct Throttled {
    /// By due time, then in the order in which they came.
    queue: BTreeMap<(u64, u64), Waiting>,
    /// Sends by connection, and when the last of them is due.
    sends: HashMap<ConnectionId, (usize, u64)>,
    bytes: usize,
    next: u64,
    /// Whether a turn ended before all that was due was done.
    pub(crate) is_cut: bool,
}

impl Throttled {
    /// When the last send of a connection goes that is held back: later ones go behind it.
    pub(crate) fn last_send_ms(&self, connection: ConnectionId) -> Option<u64> {
        self.sends.get(&connection).map(|(_count, due_ms)| *due_ms)
    }

    /// Holds a request back until its time; false at a bound.
    pub(crate) fn push(&mut self, due_ms: u64, waiting: Waiting) -> bool {
        if self.bytes + waiting.bytes > BYTES_MAX || self.queue.len() >= COUNT_MAX {
            return false;
        }
        let number = self.next;
        self.next += 1;
        self.put(due_ms, number, waiting);
        true
    }

    /// Takes out the first whose time has come, with its number.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<(u64, Waiting)> {
        let first = self.queue.first_entry()?;
        if first.key().0 > now_ms {
            return None;
        }
        let ((_due_ms, number), waiting) = first.remove_entry();
        self.bytes -= waiting.bytes;
        if matches!(waiting.kept, Kept::Send(_))
            && let Some((count, _last)) = self.sends.get_mut(&waiting.connection)
        {
            *count -= 1;
            if *count == 0 {
                self.sends.remove(&waiting.connection);
            }
        }
        Some((number, waiting))
    }

    /// Holds one back again that was taken out, in front of all that came later.
    pub(crate) fn put(&mut self, due_ms: u64, number: u64, waiting: Waiting) {
        self.bytes += waiting.bytes;
        if matches!(waiting.kept, Kept::Send(_)) {
            let (count, last_ms) = self.sends.entry(waiting.connection).or_default();
            *count += 1;
            *last_ms = due_ms.max(*last_ms);
        }
        self.queue.insert((due_ms, number), waiting);
    }

    /// Lets all go now, in their order.
    pub(crate) fn let_go(&mut self) {
        let all = std::mem::take(&mut self.queue);
        for (_key, waiting) in all {
            self.queue.insert((0, self.next), waiting);
            self.next += 1;
        }
        for (_count, last_ms) in self.sends.values_mut() {
            *last_ms = 0;
        }
    }

    /// Those of these connections, which are refused now: their users may have other rights.
    pub(crate) fn refuse(
        &mut self,
        connections: &[ConnectionId],
        refusal: impl Fn(&Waiting) -> Option<(RequestContext, Refused)>,
    ) {
        if connections.is_empty() {
            return;
        }
        let is_theirs = |waiting: &Waiting| connections.contains(&waiting.connection);
        let found = self.queue.iter().filter(|(_, waiting)| is_theirs(waiting));
        let keys: Vec<(u64, u64)> = found.map(|(key, _)| *key).collect();
        let theirs: Vec<Waiting> = keys
            .iter()
            .filter_map(|key| self.queue.remove(key))
            .collect();
        for mut waiting in theirs {
            self.sends.remove(&waiting.connection);
            self.bytes -= waiting.bytes;
            if let Some((context, refused)) = refusal(&waiting) {
                waiting.kept = Kept::Refusal(context, refused);
                waiting.bytes = 0;
            }
            let number = self.next;
            self.next += 1;
            self.put(0, number, waiting);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// When the first is due, ms.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        if self.is_cut {
            return Some(0);
        }
        self.queue.first_key_value().map(|((due_ms, _), _)| *due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(connection: u64, opaque: i32, bytes: usize) -> Waiting {
        Waiting {
            connection: ConnectionId(connection),
            kept: Kept::Send(Command {
                opaque,
                ..Command::default()
            }),
            rule: "topic:t".into(),
            since_ms: 0,
            received_us: 0,
            bytes,
        }
    }

    fn opaque(waiting: &Waiting) -> i32 {
        match &waiting.kept {
            Kept::Send(command) | Kept::Read(command, _) => command.opaque,
            Kept::Refusal(context, _) => -context.opaque,
        }
    }

    fn all_due(throttled: &mut Throttled, now_ms: u64) -> Vec<i32> {
        let due = std::iter::from_fn(|| throttled.take_due(now_ms));
        due.map(|(_number, waiting)| opaque(&waiting)).collect()
    }

    #[test]
    fn they_go_at_their_time_and_in_their_order() {
        let mut throttled = Throttled::default();
        for (due_ms, number) in [(5, 1), (3, 2), (5, 3)] {
            assert!(throttled.push(due_ms, send(1, number, 10)));
        }
        assert_eq!(throttled.last_send_ms(ConnectionId(1)), Some(5));
        assert_eq!((throttled.next_ms(), throttled.len()), (Some(3), 3));
        assert_eq!(all_due(&mut throttled, 4), [2]);
        let (number, first) = throttled.take_due(5).unwrap();
        // One that is held back anew goes before all that came after it.
        assert!(throttled.push(7, send(1, 4, 10)));
        throttled.put(7, number, first);
        assert_eq!(all_due(&mut throttled, 7), [3, 1, 4]);
        assert_eq!(throttled.last_send_ms(ConnectionId(1)), None);
        assert_eq!((throttled.next_ms(), throttled.bytes), (None, 0));
    }

    #[test]
    fn they_have_a_bound_of_bytes_and_of_their_number() {
        let mut throttled = Throttled::default();
        assert!(throttled.push(1, send(1, 1, BYTES_MAX)));
        assert!(!throttled.push(1, send(1, 2, 1)));
        assert_eq!(all_due(&mut throttled, 1), [1]);
        for number in 0..COUNT_MAX {
            assert!(throttled.push(1, send(2, number as i32, 0)));
        }
        assert!(!throttled.push(1, send(2, 0, 0)));
    }

    #[test]
    fn they_are_let_go_in_their_order_and_those_of_some_connections_are_refused() {
        let mut throttled = Throttled::default();
        for (due_ms, number) in [(9, 1), (5, 2), (9, 3), (8, 4)] {
            let connection = u64::from(number == 3);
            assert!(throttled.push(due_ms, send(connection, number, 10)));
        }
        let refused = Refused {
            code: 2,
            remark: "".into(),
        };
        throttled.refuse(&[ConnectionId(1)], |waiting| {
            let opaque = opaque(waiting);
            let context = RequestContext {
                opaque,
                ..RequestContext::default()
            };
            Some((context, refused.clone()))
        });
        assert_eq!(all_due(&mut throttled, 0), [-3]);
        throttled.let_go();
        assert_eq!(all_due(&mut throttled, 0), [2, 4, 1]);
        assert_eq!(throttled.bytes, 0);
    }
}
