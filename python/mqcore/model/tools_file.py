"""`tools.yml`: the credentials that mqadmin signs with (`AclUtils.getAclRPCHook`), ours too.

    accessKey: admin
    secretKey: "..."

Two lines of YAML are read without a library for it. Knows no request.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["TOOLS_FILE_VARIABLE", "default_tools_file", "read_tools_file", "tools_text"]

# Where a file of another place is named.
TOOLS_FILE_VARIABLE: Final = "MQCORE_TOOLS_FILE"
_HOME_VARIABLE: Final = "ROCKETMQ_HOME"
_IN_HOME: Final = Path("conf") / "tools.yml"
_LEN_MAX_BYTES: Final = 64 << 10


def default_tools_file(environment: Mapping[str, str]) -> Path | None:
    """Returns the file of `$MQCORE_TOOLS_FILE`, else `conf/tools.yml` of `$ROCKETMQ_HOME` if there.

    Args:
        environment: The variables of the process.
    """
    named = environment.get(TOOLS_FILE_VARIABLE)
    if named:
        return Path(named)
    home = environment.get(_HOME_VARIABLE)
    path = Path(home) / _IN_HOME if home else None
    return path if path is not None and path.is_file() else None


def read_tools_file(path: Path) -> tuple[str, str] | None:
    """Returns access key and secret key of a file; None where one of them is missing.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(_LEN_MAX_BYTES).decode("utf-8", "replace")
    found = {}
    for line in text.splitlines():
        name, separator, value = line.partition(":")
        if separator and not line.lstrip().startswith("#"):
            found[name.strip()] = _scalar(value.strip())
    access_key, secret_key = found.get("accessKey", ""), found.get("secretKey", "")
    return (access_key, secret_key) if access_key and secret_key else None


def tools_text(access_key: str, secret_key: str) -> str:
    """Returns the content of a file; the keys have no quotes and no backslashes."""
    return f'accessKey: "{access_key}"\nsecretKey: "{secret_key}"\n'


def _scalar(text: str) -> str:
    """Returns a scalar of YAML on one line, without its quotes or the comment behind it."""
    quote = text[:1]
    if quote in ("'", '"') and text.find(quote, 1) > 0:
        return text[1 : text.find(quote, 1)]
    return text.partition(" #")[0].strip()
