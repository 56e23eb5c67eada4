//! A message to append, unpacked from Python's arguments: body, properties text, hosts.

use std::borrow::Cow;
use std::net::SocketAddr;

use mqcore_engine::error::Error;
use mqcore_record::{Host, Message, properties, tags_code};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::errors;

/// The host of messages whose producer did not give its address.
pub(crate) const LOCAL_HOST: Host = Host::V4 {
    address: [127, 0, 0, 1],
    port: 0,
};

/// Between two tags of a subscription (`FilterAPI.buildSubscriptionData`).
const TAG_SEPARATOR: &str = "||";
/// The subscription to everything (`SubscriptionData.SUB_ALL`).
const ALL_TAGS: &str = "*";

/// Space for usual properties: it saves growing step by step, and one allocation costs the same.
const TEXT_LEN_USUAL: usize = 256;

/// The bytes of a `bytes` object, or a copy of what another buffer holds.
pub(crate) fn bytes_of<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    let buffer = PyBuffer::<u8>::get(object)?;
    Ok(Cow::Owned(buffer.to_vec(object.py())?))
}

/// An address and a port from `1.2.3.4:5` or `[::1]:5`.
pub(crate) fn host_of(text: &str) -> PyResult<Host> {
    text.parse::<SocketAddr>().map(Host::from).map_err(|_| {
        PyValueError::new_err(format!(
            "{text:?} is no host: an IP address and a port, 1.2.3.4:5"
        ))
    })
}

/// The host, or the local one.
pub(crate) fn host_or_local(text: Option<&str>) -> PyResult<Host> {
    text.map_or(Ok(LOCAL_HOST), host_of)
}

/// The tag hashes of a subscription, `a||b`; none for all messages.
pub(crate) fn tags_codes_of(tags: Option<&str>) -> Vec<i64> {
    let tags = tags.filter(|tags| *tags != ALL_TAGS);
    tags.map(|tags| {
        tags.split(TAG_SEPARATOR)
            .map(|tag| tags_code(tag.trim().as_bytes()))
            .collect()
    })
    .unwrap_or_default()
}

/// What the messages of one call have in common.
pub(crate) struct Head {
    pub(crate) queue_id: i32,
    pub(crate) born_timestamp_ms: i64,
    pub(crate) born_host: Host,
    pub(crate) store_host: Host,
}

impl Head {
    #[inline]
    pub(crate) fn draft<'a>(
        &self,
        topic: &'a str,
        body: &'a [u8],
        properties: &'a [u8],
    ) -> Message<'a> {
        Message {
            topic,
            queue_id: self.queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: self.born_timestamp_ms,
            born_host: self.born_host,
            store_host: self.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            properties,
            version: None,
        }
    }
}

/// The properties of a message as Python gives them.
pub(crate) struct Labels<'a, 'py> {
    pub(crate) tags: Option<&'a str>,
    pub(crate) keys: Option<&'a Bound<'py, PyAny>>,
    pub(crate) properties: Option<&'a Bound<'py, PyDict>>,
}

impl Labels<'_, '_> {
    /// The properties text.
    #[inline]
    pub(crate) fn encode(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        if self.tags.is_none() && self.keys.is_none() && self.properties.is_none() {
            return Ok(Vec::new());
        }
        let mut out = Vec::with_capacity(TEXT_LEN_USUAL);
        if let Some(keys) = self.keys {
            if let Ok(key) = keys.cast::<PyString>() {
                push(py, properties::KEYS, key.to_str()?, &mut out)?;
            } else {
                push(py, properties::KEYS, &joined(keys)?, &mut out)?;
            }
        }
        if let Some(tags) = self.tags {
            push(py, properties::TAGS, tags, &mut out)?;
        }
        if let Some(extra) = self.properties {
            for (name, value) in extra {
                let (name, value) = (name.cast::<PyString>()?, value.cast::<PyString>()?);
                push(py, name.to_str()?, value.to_str()?, &mut out)?;
            }
        }
        Ok(out)
    }
}

/// A message of a batch: `mqcore.native.BatchMessage`.
#[derive(FromPyObject)]
pub(crate) struct BatchMessage<'py> {
    pub(crate) body: Bound<'py, PyAny>,
    properties: Option<Bound<'py, PyDict>>,
}

impl BatchMessage<'_> {
    /// Its properties text.
    pub(crate) fn text(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let labels = Labels {
            tags: None,
            keys: None,
            properties: self.properties.as_ref(),
        };
        labels.encode(py)
    }
}

fn joined(keys: &Bound<'_, PyAny>) -> PyResult<String> {
    let mut text = String::new();
    for key in keys.try_iter()? {
        let key = key?;
        let key = key
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err("keys must be a str or an iterable of str"))?;
        if !text.is_empty() {
            text.push(char::from(properties::KEY_SEPARATOR));
        }
        text.push_str(key.to_str()?);
    }
    Ok(text)
}

#[inline]
fn push(py: Python<'_>, name: &str, value: &str, out: &mut Vec<u8>) -> PyResult<()> {
    properties::encode([(name, value)], out)
        .map_err(|error| errors::raised(py, &Error::Message(error)))
}

/// The properties text of a message, as it is in a record: for `append_many`.
#[pyfunction]
#[pyo3(signature = (*, tags=None, keys=None, properties=None))]
pub(crate) fn encode_properties<'py>(
    py: Python<'py>,
    tags: Option<&str>,
    keys: Option<&Bound<'py, PyAny>>,
    properties: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(
        py,
        &Labels {
            tags,
            keys,
            properties,
        }
        .encode(py)?,
    ))
}
