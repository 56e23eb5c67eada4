//! The columns that records give, by name, and how each lies in memory. Knows no record.

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

/// How the values of a column lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// 32-bit numbers.
    Ints,
    /// 64-bit numbers.
    Longs,
    /// Offsets, and bytes one after another.
    Bytes,
    /// Offsets into names and values, each of them laid out as [`Layout::Bytes`].
    Map,
}

const TABLE: [(&str, Column, Layout); 21] = [
    ("topic", Column::Topic, Layout::Bytes),
    ("brokerName", Column::BrokerName, Layout::Bytes),
    ("queueId", Column::QueueId, Layout::Ints),
    ("queueOffset", Column::QueueOffset, Layout::Longs),
    ("physicalOffset", Column::PhysicalOffset, Layout::Longs),
    ("msgId", Column::MsgId, Layout::Bytes),
    ("keys", Column::Keys, Layout::Bytes),
    ("tags", Column::Tags, Layout::Bytes),
    ("messageGroup", Column::MessageGroup, Layout::Bytes),
    ("body", Column::Body, Layout::Bytes),
    ("bodyLength", Column::BodyLength, Layout::Ints),
    ("flag", Column::Flag, Layout::Ints),
    ("sysFlag", Column::SysFlag, Layout::Ints),
    ("reconsumeTimes", Column::ReconsumeTimes, Layout::Ints),
    ("bornTimestamp", Column::BornTimestamp, Layout::Longs),
    ("storeTimestamp", Column::StoreTimestamp, Layout::Longs),
    ("deliverTimestamp", Column::DeliverTimestamp, Layout::Longs),
    ("bornHost", Column::BornHost, Layout::Bytes),
    ("storeHost", Column::StoreHost, Layout::Bytes),
    ("properties", Column::Properties, Layout::Map),
    ("_corrupt", Column::Corrupt, Layout::Bytes),
];

impl Column {
    /// The column of a name, which is written exactly so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.0 == name)?;
        Some(row.1)
    }

    /// How its values lie in memory.
    #[must_use]
    pub fn layout(self) -> Layout {
        let row = TABLE.iter().find(|row| row.1 == self);
        row.map_or(Layout::Bytes, |row| row.2)
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
            assert_eq!(column.layout(), layout);
            let rows = TABLE.iter().filter(|row| row.1 == column);
            assert_eq!(rows.count(), 1, "{name}");
        }
        assert_eq!(Column::named("Topic"), None);
    }
}
