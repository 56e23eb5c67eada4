"""What a person can do about an error: the option to change, the user that was refused.

Errors name the cause; what they advise belongs to the command line, which has the options.
"""

import errno
import getpass
import os

from mqcore.errors import AddressError, MQError

__all__ = ["error_line"]

_REFUSED = (errno.EACCES, errno.EPERM)
_METRICS = "metrics: "


def error_line(error: MQError | OSError) -> str:
    """Returns an error as the command line prints it, in one line."""
    if isinstance(error, OSError):
        number, text = error.errno, f"{error.filename}: {error.strerror or error}"
    else:
        number, text = _errno_of(error), error.message
    if number in _REFUSED:
        return f"{text}; refused to {_user_text()}"
    if number == errno.EADDRINUSE and isinstance(error, AddressError):
        return f"{text}: choose another port with {_port_options(error)}; 0: any free one"
    return text


def _errno_of(error: MQError) -> int | None:
    """Returns the system's error number, None or 0 where there is none."""
    number: int | None = getattr(error, "errno", None)
    if number is None and isinstance(error.__cause__, OSError):
        number = error.__cause__.errno
    return number


def _user_text() -> str:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return f"user {os.geteuid()}"
    return f"user {name} ({os.geteuid()})"


def _port_options(error: AddressError) -> str:
    if error.message.startswith(_METRICS):
        return "--metrics-port"
    return "--port (that of a name server in the same process: --namesrv-port)"
