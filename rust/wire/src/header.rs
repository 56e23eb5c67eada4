//! The content of a header, whichever way it is written.

use std::borrow::Cow;

use crate::fields::Fields;
use crate::frame::Serialization;
use crate::language::Language;

/// Flag bit: a response.
pub const RESPONSE: i32 = 1;
/// Flag bit: a request that may not be answered.
pub const ONEWAY: i32 = 2;

/// The content of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) code: i32,
    pub(crate) language: Language,
    pub(crate) version: i32,
    pub(crate) opaque: i32,
    pub(crate) flag: i32,
    pub(crate) remark: Option<Cow<'a, str>>,
    pub(crate) fields: Fields<'a>,
}

/// What a header holds besides its fields, for writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head<'a> {
    /// Request or response code.
    pub code: i32,
    /// The language the sender is written in.
    pub language: Language,
    /// The sender's version, as an ordinal.
    pub version: i32,
    /// Names the request among those of its connection.
    pub opaque: i32,
    /// [`RESPONSE`] and [`ONEWAY`].
    pub flag: i32,
    /// Text about an error.
    pub remark: Option<&'a str>,
    /// How the header is written.
    pub serialization: Serialization,
}
