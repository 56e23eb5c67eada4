//! Names around pops: the topics of check points and of retries (`PopAckConstants`, `KeyBuilder`).
//! Pure.

use crate::names::RETRY_PREFIX;

/// What the topic of check points begins with (`PopAckConstants.REVIVE_TOPIC`).
const REVIVE_PREFIX: &str = "rmq_sys_REVIVE_LOG_";
/// Separates group and topic in the name of a retry topic of the first kind.
const SEPARATOR_V1: char = '_';
/// The same of the second kind.
const SEPARATOR_V2: char = '+';
/// The queue that receipts of ordered pops name: there is none (`POP_ORDER_REVIVE_QUEUE`).
pub const ORDER_QUEUE: i32 = 999;
/// The queue of a retry topic: it has one (`PopAckConstants.retryQueueNum`).
pub const RETRY_QUEUE: i32 = 0;

/// Which topic a message is popped from, as handles and answers spell it (`ExtraInfoUtil.getRetry`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The topic that was asked for.
    Normal,
    /// The retry topic of the group, first kind: the names joined by `_`.
    RetryV1,
    /// The second kind: joined by `+`, so that they can be distinguished.
    RetryV2,
}

impl Source {
    /// The flag in handles.
    #[must_use]
    pub const fn flag(self) -> char {
        match self {
            Self::Normal => '0',
            Self::RetryV1 => '1',
            Self::RetryV2 => '2',
        }
    }

    /// The topic that a flag means; `None` for a flag that is none.
    #[must_use]
    pub fn of_flag(flag: &str) -> Option<Self> {
        match flag {
            "0" => Some(Self::Normal),
            "1" => Some(Self::RetryV1),
            "2" => Some(Self::RetryV2),
            _ => None,
        }
    }

    /// The name of the topic.
    #[must_use]
    pub fn topic(self, topic: &str, group: &str) -> String {
        match self {
            Self::Normal => topic.to_owned(),
            Self::RetryV1 => retry_topic(topic, group, false),
            Self::RetryV2 => retry_topic(topic, group, true),
        }
    }
}

/// The topic of the check points of a cluster.
#[must_use]
pub fn revive_topic(cluster: &str) -> String {
    format!("{REVIVE_PREFIX}{cluster}")
}

/// The topic that a group's messages of a topic come back in.
#[must_use]
pub fn retry_topic(topic: &str, group: &str, is_v2: bool) -> String {
    let separator = if is_v2 { SEPARATOR_V2 } else { SEPARATOR_V1 };
    format!("{RETRY_PREFIX}{group}{separator}{topic}")
}

/// The topic that a retry topic of a group is for; any other topic is for itself
/// (`KeyBuilder.parseNormalTopic`).
#[must_use]
pub fn normal_topic<'t>(topic: &'t str, group: &str) -> &'t str {
    let rest = topic
        .strip_prefix(RETRY_PREFIX)
        .and_then(|rest| rest.strip_prefix(group));
    rest.and_then(|rest| rest.strip_prefix([SEPARATOR_V1, SEPARATOR_V2]))
        .unwrap_or(topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_topics_are_named_officially_and_read_back() {
        assert_eq!(retry_topic("t", "g", false), "%RETRY%g_t");
        assert_eq!(retry_topic("t", "g", true), "%RETRY%g+t");
        assert_eq!(normal_topic("%RETRY%g_t", "g"), "t");
        assert_eq!(normal_topic("%RETRY%g+t_u", "g"), "t_u");
        assert_eq!(normal_topic("t", "g"), "t");
        assert_eq!(normal_topic("%RETRY%h_t", "g"), "%RETRY%h_t");
        for source in [Source::Normal, Source::RetryV1, Source::RetryV2] {
            let flag = source.flag().to_string();
            assert_eq!(Source::of_flag(&flag), Some(source));
        }
        assert_eq!(Source::of_flag("3"), None);
    }
}
