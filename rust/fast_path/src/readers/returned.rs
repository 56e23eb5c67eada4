//! A message that its consumer sends back, while its record is read. Data alone.

use crate::gate::Further;
use crate::request_context::RequestContext;

/// A message that is sent back, owned: its record may have to be read from the disk first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Who asks.
    pub request_context: RequestContext,
    /// Where the message is.
    pub physical_offset: u64,
    /// The consumer group.
    pub(crate) group: Box<str>,
    /// 0: the broker decides; negative: dead letter.
    pub(crate) delay_level: i32,
    /// How often it may be consumed again.
    pub(crate) max_reconsume_times: i32,
    /// Who has to be asked for the topic that it was read from.
    pub(crate) further: Option<Further>,
}
