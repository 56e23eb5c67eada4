"""A broker inside your tests: started in milliseconds, on free ports, gone at the end.

    from mqcore.testing import Broker

    with Broker() as broker:
        ...                     # clients of any language connect to broker.namesrv

`pytest` finds the fixtures `mqcore_broker`, `mqcore_producer` and `mqcore_consumer` by itself, and
`mqcore_aio_broker`, `mqcore_aio_producer` and `mqcore_aio_consumer` for tests with `await`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqcore.testing.broker import AsyncBroker, Broker
    from mqcore.testing.inbox import AsyncInbox, Inbox, MakeAsyncInbox, MakeInbox

__all__ = ["AsyncBroker", "AsyncInbox", "Broker", "Inbox", "MakeAsyncInbox", "MakeInbox"]


def __getattr__(name: str) -> Any:
    """Imports a class when it is asked for: every run of pytest imports this package."""
    if name in __all__ and name.endswith("Inbox"):
        from mqcore.testing import inbox

        return getattr(inbox, name)
    if name in __all__:
        from mqcore.testing import broker

        return getattr(broker, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
