"""The name server: brokers register their topics, clients ask it where a topic is.

Pure tables (`routes`, `kv`) below the handlers (`requests`) below the running server (`server`).
Knows no broker's code: it hears of them by requests alone.
"""

from mqcore.namesrv.server import NameServer

__all__ = ["NameServer"]
