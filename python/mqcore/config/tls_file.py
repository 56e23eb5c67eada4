"""The file of `tls.config.file`: TLS settings of one machine, for every program on it.

Officially (`TlsHelper.extractTlsConfigFromFile`) it is read where it is there, what it sets wins
over every other source, and keys that it is not for are passed over without a word; here each of
them is named. Knows no certificate.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqcore.config.keys import SPELLINGS, Program, keys_of
from mqcore.config.layers import Layer
from mqcore.config.properties import read_properties

__all__ = ["tls_file_layers"]

_FILE: Final = "tls.config.file"
# What is taken from the file (`TlsSystemConfig`).
_TAKEN: Final = frozenset(
    {
        "tls.test.mode.enable",
        "tls.server.need.client.auth",
        "tls.server.keyPath",
        "tls.server.keyPassword",
        "tls.server.certPath",
        "tls.server.authClient",
        "tls.server.trustCertPath",
        "tls.client.keyPath",
        "tls.client.keyPassword",
        "tls.client.certPath",
        "tls.client.authServer",
        "tls.client.trustCertPath",
        # Ours, and about the same.
        "tls.client.verifyHost",
        "mqcoreTlsCiphers",
        "mqcoreTlsPrincipal",
    }
)


def tls_file_layers(layers: Sequence[Layer], program: Program) -> list[Layer]:
    """Returns the layer above all others: that of the file, if there is one.

    Args:
        layers: What was set, the weakest first; one of them may name the file.
        program: Whose settings they are.

    Raises:
        ConfigFileError: The file is there and cannot be read.
    """
    named = [layer.pairs[_FILE] for layer in layers if _FILE in layer.pairs]
    path = Path(named[-1] if named else keys_of(program)[_FILE].default)
    if not path.is_file():
        if not named or not named[-1]:
            return []
        return [Layer(str(path), {}, (f"{_FILE}={path}: there is no such file, nothing is set",))]
    found = read_properties(path)
    remarks = tuple(
        f"{path}: {key} is not taken from this file: {_where(key, program)}"
        for key in found
        if key not in _TAKEN
    )
    return [Layer(str(path), {key: found[key] for key in found if key in _TAKEN}, remarks)]


def _where(key: str, program: Program) -> str:
    if SPELLINGS.get(key, key) in keys_of(program):
        return f"it belongs into the settings of the {program.value}"
    return "unknown key"
