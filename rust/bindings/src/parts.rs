//! The body of a batch request out of Python's messages, in one crossing.

use std::fmt::Write as _;

use mqcore_engine::error::Error;
use mqcore_record::batch::{Item, encode};
use mqcore_record::properties::UNIQ_KEY;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors;
use crate::frozen::frozen;

/// Bytes of a part beside its body and the user's properties.
const PART_LEN_USUAL: usize = 80;

frozen! {
    /// The messages of a batch request.
    EncodedParts {
        /// The body of the request.
        body: Py<PyBytes>,
        /// The unique ids of the messages, with commas between.
        ids: Py<PyString>,
    }
}

/// The body of a batch, and the unique ids of its messages with commas between.
///
/// Of each message `body`, `flag` and `properties_text` are read. Its id is `id_lead` and four
/// hexadecimal digits that count on from `first`; `tail` is put behind its properties.
#[pyfunction]
pub(crate) fn encode_parts(
    py: Python<'_>,
    messages: &Bound<'_, PyList>,
    id_lead: &str,
    first: u16,
    tail: &str,
) -> PyResult<EncodedParts> {
    let mut out = Vec::with_capacity(messages.len() * PART_LEN_USUAL);
    let mut ids = String::with_capacity(messages.len() * (id_lead.len() + 5));
    let mut properties = String::with_capacity(PART_LEN_USUAL);
    let mut number = first;
    for message in messages.iter() {
        let body = message.getattr(intern!(py, "body"))?;
        let text = message.getattr(intern!(py, "properties_text"))?;
        if !ids.is_empty() {
            ids.push(',');
        }
        let id_at = ids.len();
        // Writing to a String cannot fail.
        let _ = write!(ids, "{id_lead}{number:04X}");
        number = number.wrapping_add(1);
        properties.clear();
        properties.push_str(text.cast::<PyString>()?.to_str()?);
        let id = ids.get(id_at..).unwrap_or_default();
        let _ = write!(properties, "{tail}{UNIQ_KEY}\u{1}{id}\u{2}");
        let item = Item {
            flag: message.getattr(intern!(py, "flag"))?.extract()?,
            body: body.cast::<PyBytes>()?.as_bytes(),
            properties: properties.as_bytes(),
        };
        encode(&item, &mut out).map_err(|error| errors::raised(py, &Error::Message(error)))?;
    }
    Ok(EncodedParts {
        body: PyBytes::new(py, &out).unbind(),
        ids: PyString::new(py, &ids).unbind(),
    })
}
