//! Threads that move the bytes of replication, beside the event loops: a master's ships its log to slaves,
//! a slave's grows its log by what comes. Sockets are given to them connected; what one carries is
//! decided by the links of `mqcore-replica`. Knows no Python, no role and no retry: whoever gives a socket
//! gets to know when and why it ended.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`master`] | one thread that ships the log to all slaves |
//! | [`slave`] | one thread per connection to a master |
//! | [`slaves`] | what the slaves of a master have reported, and what goes to them |
//! | [`follower`] | a slave's end of one connection |
//! | `peer` | one slave's connection, and what of a frame waits for it |
//! | `link` | a master's link in either dialect |
//! | [`ended`] | links that have ended, until they are asked for |
//! | [`epochs`] | the epochs of a log and the file that keeps them |

pub mod ended;
pub mod epochs;
pub mod follower;
mod link;
pub mod master;
mod peer;
pub mod slave;
pub mod slaves;

pub use ended::{Ended, EndedLinks};
pub use epochs::Epochs;
pub use follower::{Follower, Joining, walk_of};
pub use master::Master;
pub use slave::{Following, Slave};
pub use slaves::{Membership, Shipping, SlaveStanding, Slaves};
