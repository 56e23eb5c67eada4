//! Results that cross to Python as frozen classes: named fields that are read one by one.

use pyo3::prelude::*;

/// Declares classes of results. The doc comment of a class is its docstring, that of a field the
/// docstring of its getter. A field is made into a Python object when it is read; what lies in the
/// class costs no object. `__match_args__` names the fields in their order.
macro_rules! frozen {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)+ })+) => {$(
        $(#[$meta])*
        #[pyo3::pyclass(frozen, get_all, module = "mqcore.native._native")]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(crate) $field: $type,)+
        }

        #[pyo3::pymethods]
        impl $name {
            #[classattr]
            fn __match_args__(
                py: pyo3::Python<'_>,
            ) -> pyo3::PyResult<pyo3::Py<pyo3::types::PyTuple>> {
                let names = pyo3::types::PyTuple::new(py, [$(stringify!($field)),+])?;
                Ok(names.unbind())
            }

            fn __eq__(slf: &pyo3::Bound<'_, Self>, other: &pyo3::Bound<'_, pyo3::PyAny>) -> pyo3::PyResult<bool> {
                $crate::frozen::is_equal(slf.as_any(), other, &[$(stringify!($field)),+])
            }

            fn __repr__(slf: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<String> {
                $crate::frozen::shown(slf.as_any(), stringify!($name), &[$(stringify!($field)),+])
            }
        }
    )+};
}
pub(crate) use frozen;

/// Whether two results are of one class and have equal fields.
pub(crate) fn is_equal(
    one: &Bound<'_, PyAny>,
    other: &Bound<'_, PyAny>,
    names: &[&str],
) -> PyResult<bool> {
    if !one.get_type().is(other.get_type()) {
        return Ok(false);
    }
    for name in names {
        if !one.getattr(*name)?.eq(other.getattr(*name)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A result with its fields, as a dataclass shows itself.
pub(crate) fn shown(one: &Bound<'_, PyAny>, class: &str, names: &[&str]) -> PyResult<String> {
    let fields = names.iter().map(|name| {
        let value = one.getattr(*name)?;
        Ok(format!("{name}={}", value.repr()?))
    });
    let fields = fields.collect::<PyResult<Vec<_>>>()?;
    Ok(format!("{class}({})", fields.join(", ")))
}
