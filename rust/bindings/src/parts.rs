//! The body of a batch request out of Python's messages, in one crossing.

use std::cell::Cell;

use mqcore_engine::error::Error;
use mqcore_record::batch::{Item, encode};
use mqcore_record::properties::{NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, UNIQ_KEY};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::errors;
use crate::frozen::frozen;

/// Bytes of a part beside its body and the user's properties.
const PART_LEN_USUAL: usize = 80;
/// Space for a body that a thread keeps for its next batch: new space costs more than the copy,
/// since its pages are mapped one by one.
const SPACE_BYTES_KEPT: usize = 1024 * 1024;

const HEX_DIGITS: &[u8; 16] = b"0123456789ABCDEF";

thread_local! {
    static SPACE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

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
    let mut out = SPACE.take();
    out.clear();
    let encoded = encode_into(py, &mut out, messages, id_lead, first, tail);
    let parts = encoded.map(|ids| EncodedParts {
        body: PyBytes::new(py, &out).unbind(),
        ids: PyString::new(py, &ids).unbind(),
    });
    if out.capacity() <= SPACE_BYTES_KEPT {
        SPACE.set(out);
    }
    parts
}

/// Writes the parts; returns the ids.
fn encode_into(
    py: Python<'_>,
    out: &mut Vec<u8>,
    messages: &Bound<'_, PyList>,
    id_lead: &str,
    first: u16,
    tail: &str,
) -> PyResult<String> {
    let mut ids = String::with_capacity(messages.len() * (id_lead.len() + 5));
    let mut properties = Vec::with_capacity(PART_LEN_USUAL);
    let mut number = first;
    for message in messages.iter() {
        let body = message.getattr(intern!(py, "body"))?;
        let text = message.getattr(intern!(py, "properties_text"))?;
        if !ids.is_empty() {
            ids.push(',');
        }
        let id_at = ids.len();
        ids.push_str(id_lead);
        for shift in [12, 8, 4, 0] {
            let digit = HEX_DIGITS.get(usize::from(number >> shift & 0xF));
            ids.extend(digit.map(|digit| char::from(*digit)));
        }
        number = number.wrapping_add(1);
        properties.clear();
        properties.extend_from_slice(text.cast::<PyString>()?.to_str()?.as_bytes());
        properties.extend_from_slice(tail.as_bytes());
        properties.extend_from_slice(UNIQ_KEY.as_bytes());
        properties.push(NAME_VALUE_SEPARATOR);
        properties.extend_from_slice(ids.get(id_at..).unwrap_or_default().as_bytes());
        properties.push(PROPERTY_SEPARATOR);
        let item = Item {
            flag: message.getattr(intern!(py, "flag"))?.extract()?,
            body: body.cast::<PyBytes>()?.as_bytes(),
            properties: &properties,
        };
        encode(&item, out).map_err(|error| errors::raised(py, &Error::Message(error)))?;
    }
    Ok(ids)
}
