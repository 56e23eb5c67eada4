"""Which name servers a program asks that was given none: one rule for client and command line.

Pure: the environment is passed in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_NAME_SERVER", "NAME_SERVER_VARIABLES", "NamedServers", "name_servers_of"]

# In the order in which they are looked at; the second one is the official variable.
NAME_SERVER_VARIABLES: Final = ("MQCORE_NAMESRV", "NAMESRV_ADDR")
DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"


@dataclass(frozen=True, slots=True)
class NamedServers:
    """Name servers that were found.

    Attributes:
        text: Their addresses, joined by `;`.
        source: Where they are from: a variable, or `default`.
    """

    text: str
    source: str


def name_servers_of(environ: Mapping[str, str]) -> NamedServers:
    """Returns the name servers of an environment: those of the first variable that has some.

    Args:
        environ: The environment; an empty variable counts as none.
    """
    for name in NAME_SERVER_VARIABLES:
        text = environ.get(name, "").strip()
        if text:
            return NamedServers(text, name)
    return NamedServers(DEFAULT_NAME_SERVER, "default")
