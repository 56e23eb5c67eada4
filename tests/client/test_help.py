"""What `help()` shows of the methods that send: every argument, and what may be raised."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mqcore
from mqcore import aio
from mqcore.client.option import items_of
from mqcore.client.transaction_producer import Transaction as AsyncTransaction

CLASSES: tuple[type, ...] = (
    mqcore.Producer,
    mqcore.TransactionProducer,
    mqcore.Transaction,
    aio.Producer,
    aio.TransactionProducer,
    AsyncTransaction,
)
SENDING = ("send", "send_batch", "send_half", "send_oneway", "send_soon", "request", "reply")


def _methods() -> Iterator[Any]:
    for kind in CLASSES:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            # `Preparing` serves the producers: its methods are no part of their API.
            if not name.startswith("_") and "preparing" not in method.__module__:
                yield pytest.param(method, id=f"{kind.__module__}.{kind.__name__}.{name}")


@pytest.mark.parametrize("method", list(_methods()))
def test_help_describes_every_argument(method: Callable[..., Any]) -> None:
    described = items_of(method.__doc__ or "", "Args")
    taken = [name for name in inspect.signature(method).parameters if name != "self"]
    assert list(described) == taken
    if method.__name__ in SENDING:
        assert "MessageError" in items_of(method.__doc__ or "", "Raises")
