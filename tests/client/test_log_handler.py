"""Log records as messages: what is in them, and what is left out."""

import json
import logging
import threading
from collections.abc import Iterator

import pytest

from mqcore import LogHandler
from mqcore.testing import Broker

LOGGER = logging.getLogger("an.application")


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    before = LOGGER.level, LOGGER.propagate
    LOGGER.setLevel(logging.DEBUG)
    yield LOGGER
    LOGGER.level, LOGGER.propagate = before
    for handler in list(LOGGER.handlers):
        LOGGER.removeHandler(handler)
        handler.close()


def test_a_record_contains_everything(mqcore_broker: Broker, logger: logging.Logger) -> None:
    handler = LogHandler(mqcore_broker.namesrv, topic="logs", level=logging.INFO)
    logger.addHandler(handler)
    logger.debug("too little")
    logger.warning("it is %s", "ünï")
    handler.flush()
    (message,) = mqcore_broker.messages("logs")
    fields = json.loads(message.body)
    assert (fields["level"], fields["logger"], fields["message"]) == (
        "WARNING",
        "an.application",
        "it is ünï",
    )
    assert fields["thread"] == threading.current_thread().name
    assert (message.tags, message.keys) == ("WARNING", ("an.application",))


def test_a_formatter_makes_the_text(mqcore_broker: Broker, logger: logging.Logger) -> None:
    handler = LogHandler(mqcore_broker.namesrv, topic="logs")
    handler.setFormatter(logging.Formatter("%(levelname)s! %(message)s"))
    logger.addHandler(handler)
    logger.error("no")
    handler.flush()
    assert [message.body for message in mqcore_broker.messages("logs")] == [b"ERROR! no"]


def test_our_own_records_beget_no_others(mqcore_broker: Broker) -> None:
    handler = LogHandler(mqcore_broker.namesrv, topic="logs")
    own = logging.getLogger("mqcore.client.some")
    own.addHandler(handler)
    own.error("about the client itself")
    own.removeHandler(handler)
    handler.close()
    assert mqcore_broker.messages("logs") == []


def test_a_record_that_cannot_be_formatted_stops_nobody(
    mqcore_broker: Broker, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = LogHandler(mqcore_broker.namesrv, topic="logs")
    logger.addHandler(handler)
    logger.propagate = False
    logger.info("%d", "no number")
    logger.info("after")
    handler.flush()
    (message,) = mqcore_broker.messages("logs")
    assert json.loads(message.body)["message"] == "after"


def test_a_broker_that_is_away_holds_up_nobody(
    mqcore_broker: Broker, logger: logging.Logger
) -> None:
    handler = LogHandler(mqcore_broker.namesrv, topic="logs", buffer_bytes=2_000, timeout_s=0.2)
    logger.addHandler(handler)
    with mqcore_broker.partition():
        number = 0
        while not handler.dropped:
            logger.info("record %d", number)
            number += 1
    assert handler.dropped > 0


def test_a_handler_that_was_closed_takes_nothing(
    mqcore_broker: Broker, logger: logging.Logger
) -> None:
    handler = LogHandler(mqcore_broker.namesrv, topic="logs")
    handler.close()
    handler.close()
    logger.addHandler(handler)
    logger.info("late")
    assert handler.dropped == 1
