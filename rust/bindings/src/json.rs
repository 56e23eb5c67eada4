//! The JSON that RocketMQ writes, as Python objects.

use mqcore_engine::relaxed_json;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

use crate::draft::bytes_of;
use crate::errors;
use crate::gil::{Gil, KEEP_BYTES_MAX, gil_call};

/// Values made between two moments at which other threads may have their turn: less than a
/// millisecond of work.
const VALUES_PER_TURN: u32 = 1024;

/// The value of a text; its nesting is bounded by the parser. Lets other threads run between: a
/// body of 16 MiB is a million values.
fn object<'py>(py: Python<'py>, value: &Value, made: &mut u32) -> PyResult<Bound<'py, PyAny>> {
    *made += 1;
    if *made == VALUES_PER_TURN {
        *made = 0;
        gil_call(py, Gil::Released, || ());
    }
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(items) => {
            let out = PyList::empty(py);
            for item in items {
                out.append(object(py, item, made)?)?;
            }
            out.into_any()
        }
        Value::Object(members) => {
            let out = PyDict::new(py);
            for (name, member) in members {
                out.set_item(name, object(py, member, made)?)?;
            }
            out.into_any()
        }
    })
}

/// The value of a text in RocketMQ's JSON.
#[pyfunction]
pub(crate) fn parse_relaxed_json<'py>(
    py: Python<'py>,
    text: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = bytes_of(text)?;
    let pass = Gil::kept_if(bytes.len() <= KEEP_BYTES_MAX / 16);
    let parsed = gil_call(py, pass, || relaxed_json::parse(&bytes));
    let value = parsed.map_err(|error| errors::of_json(py, &error))?;
    object(py, &value, &mut 0)
}
