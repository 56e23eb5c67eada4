"""The client: routes, connections, producers and consumers on one event loop; `blocking` beside it.

Users import from `mqcore` (synchronous) and `mqcore.aio` (asyncio). Knows no broker's code.
"""

import logging

# Who embeds a library says what becomes of its log; without a word from them, nothing is printed.
logging.getLogger("mqcore").addHandler(logging.NullHandler())
