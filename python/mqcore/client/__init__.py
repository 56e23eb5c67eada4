"""The client: routes, connections, producers and consumers on one event loop; `blocking` beside it.

Users import from `mqcore` (synchronous) and `mqcore.aio` (asyncio). Knows no broker's code.

Its loggers have no handler of their own, not even a `NullHandler`: where the application configured
nothing, `logging.lastResort` prints warnings on standard error, so that a client that waits reports
why. Whoever wants silence adds a `NullHandler` to the logger `mqcore`.
"""
