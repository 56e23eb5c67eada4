//! Which broker of a name is suggested to a consumer for its next pull: one that is far behind
//! reads cold pages, and may do so on a replica. Pure; knows no store and no connection.

use crate::policy::Group;

/// Id of the master among the brokers of a name.
pub(super) const MASTER: i64 = 0;
/// What a group that nobody configured has (`SubscriptionGroupConfig`).
const SLOW_BROKER: i64 = 1;

/// The id in a pull's answer (`suggestWhichBrokerId`), by the rule of
/// `PullMessageProcessor`: the master where replicas are not to be read; otherwise the group's own
/// broker, and while it reads far behind the end of the log the one for slow consumers.
///
/// `is_far`: the last message that was looked at is farther from the end than
/// `accessMessageInMemoryMaxRatio` percent of the machine's memory.
pub(crate) fn suggested_broker(
    is_replica_readable: bool,
    is_far: bool,
    group: Option<&Group>,
) -> i64 {
    match (is_replica_readable, is_far) {
        (false, _) => MASTER,
        (true, true) => group.map_or(SLOW_BROKER, |group| group.slow_broker_id),
        (true, false) => group.map_or(MASTER, |group| group.broker_id),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(broker_id: i64, slow_broker_id: i64) -> Group {
        Group {
            broker_id,
            slow_broker_id,
            ..Group::PLAIN
        }
    }

    proptest! {
        #[test]
        fn only_who_may_read_replicas_is_sent_away(is_far: bool, own: i64, slow: i64) {
            let group = group(own, slow);
            prop_assert_eq!(suggested_broker(false, is_far, Some(&group)), MASTER);
            let wanted = if is_far { slow } else { own };
            prop_assert_eq!(suggested_broker(true, is_far, Some(&group)), wanted);
        }
    }

    #[test]
    fn a_group_that_is_gone_counts_as_one_that_nobody_configured() {
        assert_eq!(suggested_broker(true, false, None), MASTER);
        assert_eq!(suggested_broker(true, true, None), SLOW_BROKER);
    }
}
