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
//! | `copies` | threads of a master over which whole files are copied |
//! | [`filling`] | threads of a slave that copies whole files |
//! | [`slaves`] | what the slaves of a master have reported, and what goes to them |
//! | [`follower`] | a slave's end of one connection |
//! | [`refill`] | a slave's end of a connection over which whole files are copied |
//! | [`source`] | a master's end of it |
//! | `peer` | one slave's connection, and what of a frame waits for it |
//! | `link` | a master's link in either dialect |
//! | `file_hash` | the hash of a file |
//! | [`stream`] | a connection, plain or over TLS |
//! | `background` | a thread whose work can wait |
//! | `end_comparison` | whether the end of a slave's log is that of its master's |
//! | [`ended`] | links that have ended, until they are asked for |
//! | [`epochs`] | the epochs of a log and the file that keeps them |
//! | [`tls`] | certificates and keys become what protects a connection |

mod background;
pub mod copies;
mod end_comparison;
pub mod ended;
pub mod epochs;
mod file_hash;
pub mod filling;
pub mod follower;
mod link;
pub mod master;
mod peer;
pub mod refill;
pub mod slave;
pub mod slaves;
pub mod source;
pub mod stream;
pub mod tls;

pub use copies::CopyStanding;
pub use ended::{Ended, EndedLinks};
pub use epochs::{Epochs, Reign};
pub use filling::Filling;
pub use follower::{Follower, Joining, walk_of};
pub use master::Master;
pub use refill::{Refill, RefillProgress};
pub use slave::{Following, Slave};
pub use slaves::{Membership, Shipping, SlaveStanding, Slaves};
pub use source::{RefillPace, Source};
pub use stream::Stream;
pub use tls::{Identity, Protection};
