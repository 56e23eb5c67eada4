//! Whether a broker kept what it acknowledged, and in the order in which each connection sent it: seen
//! by the queue offsets in its answers, and by what its queues hold afterwards. Knows no socket of a
//! load.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::admin::AdminConnection;
use crate::args::Aim;
use crate::failure::Outcome;

/// What is known of the queues of a run.
pub(crate) struct Kept {
    address: SocketAddr,
    /// Messages in all queues before the run.
    before: i64,
    /// The last queue offset by connection and queue of the run.
    last: HashMap<(usize, u64), i64>,
    /// Answers whose queue offset is not behind the one before.
    pub(crate) disordered: u64,
}

impl Kept {
    /// Asks what the queues hold before the run.
    pub(crate) fn new(aim: &Aim, address: SocketAddr) -> Outcome<Self> {
        Ok(Self {
            address,
            before: held(aim, address)?,
            last: HashMap::new(),
            disordered: 0,
        })
    }

    /// A connection got the queue offset of its message; that of the message it sent after that must be
    /// greater.
    pub(crate) fn answered(&mut self, connection: usize, queue: u64, queue_offset: Option<i64>) {
        let Some(offset) = queue_offset else {
            self.disordered += 1;
            return;
        };
        let before = self.last.insert((connection, queue), offset);
        self.disordered += u64::from(before.is_some_and(|before| before >= offset));
    }

    /// How many messages the queues hold more than before.
    pub(crate) fn stored(&self, aim: &Aim) -> Outcome<i64> {
        Ok(held(aim, self.address)? - self.before)
    }
}

/// Next offsets of all queues together.
fn held(aim: &Aim, address: SocketAddr) -> Outcome<i64> {
    let mut admin = AdminConnection::at(address, aim.signer())?;
    let mut sum = 0;
    for topic in aim.topic_names() {
        for queue_id in 0..aim.queues {
            sum += admin.bounds(&topic, queue_id)?.1;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_that_is_not_behind_the_last_of_its_connection_counts() {
        let mut kept = Kept {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            before: 0,
            last: HashMap::new(),
            disordered: 0,
        };
        kept.answered(0, 0, Some(5));
        kept.answered(1, 0, Some(4));
        kept.answered(0, 1, Some(0));
        kept.answered(0, 0, Some(7));
        assert_eq!(kept.disordered, 0);
        kept.answered(0, 0, Some(7));
        kept.answered(1, 0, Some(3));
        kept.answered(1, 0, None);
        assert_eq!(kept.disordered, 3);
    }
}
