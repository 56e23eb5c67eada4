//! Replication under controllers simulated: brokers that are elected, deposed, cut and elected again, and the
//! controllers that elect them, with the network between all of them. What ships, follows, joins, cuts and
//! decides is the code of production; when a broker asks its controller what, and who counts as alive, is
//! in Python there, and has small twins here (`member`, `liveness`).

mod clients;
mod controllers;
pub(crate) mod count;
mod delays;
mod duties;
mod ending;
mod faults;
pub(crate) mod flaw;
mod handling;
mod history;
mod ledger;
mod letters;
mod liveness;
mod member;
mod node;
mod options;
mod roles;
mod sends;
mod set_requests;
mod start;
mod timers;
mod watch;
pub(crate) mod world;
