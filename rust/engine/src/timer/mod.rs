//! Messages that wait for a time of their own: the official wheel, its log, and how far both got
//! (`org.apache.rocketmq.store.timer`, 5.3). Files byte for byte, so that either broker takes over.
//!
//! Knows no message: who follows the queue of the wheel's topic enters places of the log here, asks
//! which slot is due, walks its chain, and reports when it is done. Times are passed in.
//!
//! | file | what |
//! |---|---|
//! | `timerwheel` | slots by time: the ends of a chain of units ([`wheel`]) |
//! | `timerlog/` | the units ([`mod@unit`]) |
//! | `config/timercheck` | how far was entered and delivered ([`point`]) |

mod log;
mod opening;
mod recover;
mod turning;

pub mod point;
pub mod unit;
pub mod wheel;

#[cfg(test)]
mod tests;

pub use opening::{Opened, TimerConfig};
pub use point::Point;
pub use recover::Whole;
pub use turning::{Entered, Entry, Timer};
pub use unit::Unit;
pub use wheel::{Slot, Wheel};
