"""The client: routes, connections, producers and consumers on one event loop; `blocking` beside it.

Users import from `mqcore` (synchronous) and `mqcore.aio` (asyncio). Knows no broker's code.
"""
