//! Files of the log: one segment, the ordered chain of them, and the next one made ahead of need.
//! Knows bytes and positions, no record.

mod chain;
mod claims;
mod commit;
mod file;
mod holds;
mod log;
mod pool;
mod positions;
mod prepare;
mod reclaim;
mod refresh;
mod window;

pub use chain::{Chain, Chunk};
pub use file::{LogSlice, Segment, SharedBytes};
pub use holds::Holds;
pub use log::{LogFiles, Signals};
pub use pool::{Pool, PoolBuffer};
pub use positions::LogPositions;
pub use prepare::Preparer;
pub use reclaim::Reclaimer;
pub use refresh::Refresh;
pub use window::Window;
