//! The class over what protects connections of replication. Takes the bytes of files; unpacks, calls, maps the
//! error.

use mqcore_shipping::{Identity, Protection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::gil::{Gil, gil_call};

/// One end of TLS for connections of replication.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct ReplicationTls {
    inside: Protection,
}

#[pymethods]
impl ReplicationTls {
    /// The end of a master.
    #[staticmethod]
    #[pyo3(signature = (certificate, key, *, password=None, trusted=None, takes_plain=false))]
    fn serving(
        py: Python<'_>,
        certificate: &[u8],
        key: &[u8],
        password: Option<&str>,
        trusted: Option<&[u8]>,
        takes_plain: bool,
    ) -> PyResult<Self> {
        let own = Identity {
            certificate,
            key,
            password,
        };
        // A password is stretched for a part of a second.
        let gil = Gil::kept_if(password.is_none());
        made(gil_call(py, gil, || {
            Protection::serving(own, trusted, takes_plain)
        }))
    }

    /// The end of a slave.
    #[staticmethod]
    #[pyo3(signature = (trusted, *, certificate=None, key=None, password=None))]
    fn asking(
        py: Python<'_>,
        trusted: &[u8],
        certificate: Option<&[u8]>,
        key: Option<&[u8]>,
        password: Option<&str>,
    ) -> PyResult<Self> {
        let own = certificate.zip(key).map(|(certificate, key)| Identity {
            certificate,
            key,
            password,
        });
        let gil = Gil::kept_if(password.is_none());
        made(gil_call(py, gil, || Protection::asking(trusted, own)))
    }
}

fn made(found: Result<Protection, String>) -> PyResult<ReplicationTls> {
    let inside = found.map_err(PyValueError::new_err)?;
    Ok(ReplicationTls { inside })
}

/// What protects a connection; nothing without `tls`.
pub(crate) fn protection_of(tls: Option<&Bound<'_, ReplicationTls>>) -> Protection {
    tls.map_or_else(Protection::plain, |tls| tls.get().inside.clone())
}
