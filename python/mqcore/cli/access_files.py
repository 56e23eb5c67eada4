"""Files with secrets, as commands write them: nobody but their owner may read them."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_private"]

_MODE = 0o600


def write_private(path: Path, text: str) -> None:
    """Replaces a file as a whole.

    Raises:
        OSError: It cannot be written; the old one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Made with that mode: at no time may others read it.
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), _MODE)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
