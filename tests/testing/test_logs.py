"""What a broker in a test logs: kept for the test, and printed no more than the program wants."""

import logging
import subprocess
import sys

import pytest

from mqcore.testing import Broker

_PROGRAM = """
import logging
{configured}
import mqcore
from mqcore.testing import Broker

with Broker() as broker:
    with mqcore.Producer(broker.namesrv, group="g") as producer:
        producer.send("t", b"x")
        broker.restart()
        producer.send("t", b"y")
    assert "serves" in broker.log_text
{last}
"""


def printed(configured: str, last: str = "") -> str:
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(configured=configured, last=last)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ended.stderr


@pytest.mark.parametrize("configured", ["", "logging.basicConfig(level=logging.ERROR)"])
def test_a_broker_in_a_test_prints_nothing_by_itself(configured: str) -> None:
    assert printed(configured) == ""


def test_information_does_not_pass_a_program_that_wants_warnings() -> None:
    text = printed('logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")')
    assert "INFO" not in text
    assert "not registered" not in text
    text = printed('logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")')
    assert "INFO broker broker-test serves" in text


def test_what_a_logger_of_its_own_level_lets_pass_goes_on() -> None:
    configured = """
logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s")
logging.getLogger("mqcore.namesrv").setLevel(logging.INFO)
"""
    text = printed(configured)
    assert "INFO mqcore.namesrv" in text
    assert "INFO mqcore.broker" not in text


def test_warnings_of_clients_are_printed_beside_a_broker() -> None:
    last = """
    with mqcore.PushConsumer("127.0.0.1:1", group="g", topics="t", handler=print) as consumer:
        consumer.wait(timeout_s=0.5)
"""
    assert "no name server answered" in printed("", last)


def test_the_logger_is_as_it_was_when_the_last_broker_is_gone() -> None:
    logger = logging.getLogger("mqcore")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with Broker() as first, Broker() as second:
        assert first.logs
        assert second.logs
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_a_level_that_a_test_sets_meanwhile_counts(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        assert not [each for each in caplog.records if each.levelno == logging.INFO]
        with caplog.at_level(logging.DEBUG, logger="mqcore"):
            broker.restart()
        assert [each for each in caplog.records if each.levelno == logging.INFO]
