"""The client: routes, connections, producers and consumers on one event loop; `blocking` beside it.

Users import from `mqcore` (synchronous) and `mqcore.aio` (asyncio). Knows no broker's code.
"""

import logging

# The embedding program decides where the log goes; without a handler, nothing is printed.
logging.getLogger("mqcore").addHandler(logging.NullHandler())
