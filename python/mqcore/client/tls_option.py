"""What users give as `tls=`, and the context that it means. Connects nowhere."""

import ssl

from mqcore.remoting.tls import TlsContext, TlsFiles, client_context, renewed_client_context

__all__ = ["TlsOption", "tls_context"]

TlsOption = bool | TlsFiles | ssl.SSLContext | None


def tls_context(tls: TlsOption) -> TlsContext | None:
    """Returns the context that an option means; None for plain connections.

    Args:
        tls: True trusts the machine's authorities, and the certificate must name the host that is
            dialled; files or a context set more, or less. Files that are renewed are taken for the
            next connection.

    Raises:
        TlsError: A file cannot be used.
    """
    if isinstance(tls, TlsFiles):
        return renewed_client_context(tls)
    if isinstance(tls, ssl.SSLContext):
        return tls
    return client_context(TlsFiles()) if tls else None
