//! Who may do what: users, their signatures, their policies, the rule of each request code, and the decision
//! (access control 2.0 of RocketMQ, RIP-68; accounts of 4.x beside it). Pure: knows bytes, names and a time that is passed in; no
//! socket, no store, no clock, no Python.
//!
//! Whoever owns users and policies gives immutable tables ([`Access::replace`]); whoever has a request asks
//! ([`Access::check`]). Nothing here shows or logs a secret.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`access`] | the check of a request: signature, then the pairs of its rule |
//! | `asking` | a request while it is decided on |
//! | [`allowed`] | what was allowed lately on a connection |
//! | [`explained`] | what a decision rests on |
//! | [`tables`] | users, policies and settings as they are now: compiled, replaced whole |
//! | [`refusals`] | what was refused lately, within a bound |
//! | [`failures`] | wrong signatures by address, and when they are answered |
//! | [`settings`] | what is checked at all, and how |
//! | [`account`] | accounts of 4.x, and what they may |
//! | [`policies`] | the entries of one user, and which of them decides |
//! | [`rules`] | what a request needs, by code |
//! | [`signature`] | the signed text of a request, and its HMAC |
//! | `signed_fields` | the fields of a header in the order in which they are signed |
//! | [`addresses`] | patterns of addresses of 4.x |
//! | [`source`] | where a request comes from, and ranges of addresses |
//! | [`resource`] | resources, patterns of them, actions |
//! | [`fault`] | what is wrong with a table or a rule |

pub mod access;
pub mod account;
pub mod addresses;
pub mod allowed;
mod asking;
pub mod explained;
pub mod failures;
pub mod fault;
pub mod policies;
pub mod refusals;
pub mod resource;
pub mod rules;
pub mod settings;
pub mod signature;
mod signed_fields;
pub mod source;
pub mod tables;

pub use access::{Access, Asked, Passed, Rows};
pub use account::{AccountRow, PlainRows};
pub use allowed::Allowed;
pub use asking::Caller;
pub use explained::Explained;
pub use failures::When;
pub use fault::{RuleFault, TableFault};
pub use refusals::{Reason, Refusal};
pub use resource::{Actions, Kind, Resource};
pub use source::Source;
pub use tables::{PolicyRow, Tables, User, UserRow};
