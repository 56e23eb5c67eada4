"""The web console: pages about a cluster of our brokers or of official ones, in its own process.

Speaks to the cluster as any administration tool does, through `mqcore.admin`. Needs the extra
`mqcore[console]`. `Console` is the running server.
"""

from mqcore.console.server import Console
from mqcore.console.settings import ConsoleSettings

__all__ = ["Console", "ConsoleSettings"]
