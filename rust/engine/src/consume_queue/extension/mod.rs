//! The extension of a queue (`consumequeue_ext/TOPIC/QUEUE/`, `ConsumeQueueExt`): per message the
//! tags code, the store time and the bits of the groups whose expression it passes. A queue unit
//! then holds the offset there instead of the tags code. Read wherever a unit names an offset;
//! written only with `enableConsumeQueueExt`.
//!
//! Weaker than the queue on purpose, as in RocketMQ: what cannot be found there excludes no
//! message. But no unit that survives names an offset whose bytes do not: the extension is written
//! and synced before the units that name it. The last unit of its queue that names an offset
//! gives where it goes on after an open; what follows is taken away.
//!
//! | module | what |
//! |---|---|
//! | `unit` | bytes of a unit, and offsets as codes |
//! | `tail` | what is kept of an extension in memory, and where a unit goes |
//! | `table` | files; the first look; writing and removing |
//! | `read` | units by their offset, front to back |

mod read;
mod table;
mod tail;
mod unit;

pub use read::ExtensionReader;
pub use table::DIR_NAME;
pub(super) use table::{Extensions, queue_files_part};
pub(super) use tail::Tail;
pub(super) use unit::is_ext_address;
pub use unit::{Extended, ext_offset_of};
