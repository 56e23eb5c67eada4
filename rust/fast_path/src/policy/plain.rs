//! Rows of the policy without anything special: a topic as it is made by default, a group that nobody
//! configured.

use super::{Group, Perm, Topic};

impl Topic {
    /// A topic of so many queues that may be read and written, without flags.
    #[must_use]
    pub const fn plain(queues: i32) -> Self {
        Self {
            perm: Perm::READ_WRITE,
            read_queues: queues,
            write_queues: queues,
            sys_flag: 0,
            is_ordered: false,
            has_multi_tags: false,
            has_priorities: false,
            needs_check: false,
        }
    }
}

impl Group {
    /// A group that nobody configured (`SubscriptionGroupConfig`).
    pub const PLAIN: Self = Self {
        is_consume_enabled: true,
        is_broadcast_enabled: true,
        retry_queues: 1,
        max_retries: 16,
        broker_id: 0,
        slow_broker_id: 1,
        priority_percent: 100,
        needs_check: false,
    };
}
