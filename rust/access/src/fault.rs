//! What is wrong with a table or a rule. Knows no request: those are refused (`refusals`).

use thiserror::Error;

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the rule of request {code}, {text:?}, at character {position}: {why}")]
pub struct RuleFault {
    /// The request code.
    pub code: i32,
    /// The rule.
    pub text: String,
    /// Where, in characters from 0.
    pub position: usize,
    /// What is wrong there.
    pub why: &'static str,
}

/// A table that cannot be taken; the tables before it stay in force.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TableFault {
    /// A user.
    #[error("user {name:?}: {why}")]
    User {
        /// Its name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// An entry of a policy.
    #[error("policy of {subject:?} for {resource:?}: {why}: {value:?}")]
    Policy {
        /// Whose.
        subject: String,
        /// For what.
        resource: String,
        /// What is wrong.
        why: &'static str,
        /// The text that is wrong.
        value: String,
    },
    /// A setting.
    #[error("setting {name}={value:?}: {why}")]
    Setting {
        /// Its name.
        name: String,
        /// As given.
        value: String,
        /// What is wrong.
        why: &'static str,
    },
}
