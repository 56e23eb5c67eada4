//! The columns that records give, by name, and what the values of each are. Knows no record.

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// The topic as stored.
    Topic,
    /// The broker's name, as the reader was configured.
    BrokerName,
    /// Queue of the topic.
    QueueId,
    /// Place in the queue, in messages.
    QueueOffset,
    /// Place in the log, in bytes.
    PhysicalOffset,
    /// The producer's id, or the offset id where it gave none.
    MsgId,
    /// Keys, separated by spaces.
    Keys,
    /// The tag.
    Tags,
    /// What keeps messages in order (`__SHARDINGKEY`).
    MessageGroup,
    /// The body, inflated.
    Body,
    /// Bytes of the body as stored.
    BodyLength,
    /// Flag of the user.
    Flag,
    /// System flag as stored.
    SysFlag,
    /// How often it was consumed before.
    ReconsumeTimes,
    /// Time on the producer's clock, microseconds.
    BornTimestamp,
    /// Time on the broker's clock, microseconds.
    StoreTimestamp,
    /// When a timed message is to be delivered, microseconds.
    DeliverTimestamp,
    /// Address and port of the producer.
    BornHost,
    /// Address and port of the broker.
    StoreHost,
    /// All properties.
    Properties,
    /// What is wrong with a damaged record.
    Corrupt,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// 32-bit numbers.
    Ints,
    /// 64-bit numbers.
    Longs,
    /// 64-bit times, microseconds since 1970.
    Times,
    /// UTF-8.
    Texts,
    /// Bytes.
    Bytes,
    /// From text to text.
    Map,
}

const TABLE: [(&str, Column, Layout); 21] = [
    ("topic", Column::Topic, Layout::Texts),
    ("brokerName", Column::BrokerName, Layout::Texts),
    ("queueId", Column::QueueId, Layout::Ints),
    ("queueOffset", Column::QueueOffset, Layout::Longs),
    ("physicalOffset", Column::PhysicalOffset, Layout::Longs),
    ("msgId", Column::MsgId, Layout::Texts),
    ("keys", Column::Keys, Layout::Texts),
    ("tags", Column::Tags, Layout::Texts),
    ("messageGroup", Column::MessageGroup, Layout::Texts),
    ("body", Column::Body, Layout::Bytes),
    ("bodyLength", Column::BodyLength, Layout::Ints),
    ("flag", Column::Flag, Layout::Ints),
    ("sysFlag", Column::SysFlag, Layout::Ints),
    ("reconsumeTimes", Column::ReconsumeTimes, Layout::Ints),
    ("bornTimestamp", Column::BornTimestamp, Layout::Times),
    ("storeTimestamp", Column::StoreTimestamp, Layout::Times),
    ("deliverTimestamp", Column::DeliverTimestamp, Layout::Times),
    ("bornHost", Column::BornHost, Layout::Texts),
    ("storeHost", Column::StoreHost, Layout::Texts),
    ("properties", Column::Properties, Layout::Map),
    ("_corrupt", Column::Corrupt, Layout::Texts),
];

impl Column {
    /// The column of a name, which is written exactly so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.0 == name)?;
        Some(row.1)
    }

    /// Its name, and what its values are.
    #[must_use]
    pub fn layout(self) -> (&'static str, Layout) {
        let row = TABLE.iter().find(|row| row.1 == self);
        row.map_or(("", Layout::Bytes), |row| (row.0, row.2))
    }

    /// Whether the properties have to be read for it.
    pub(crate) const fn is_of_properties(self) -> bool {
        matches!(
            self,
            Self::MsgId | Self::Keys | Self::Tags | Self::MessageGroup | Self::DeliverTimestamp
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_one_name_and_a_layout() {
        for (name, column, layout) in TABLE {
            assert_eq!(Column::named(name), Some(column));
            assert_eq!(column.layout(), (name, layout));
            let rows = TABLE.iter().filter(|row| row.1 == column);
            assert_eq!(rows.count(), 1, "{name}");
        }
        assert_eq!(Column::named("Topic"), None);
    }
}
