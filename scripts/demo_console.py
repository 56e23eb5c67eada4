"""A cluster with something to see, and the web console over it, until Ctrl-C.

python scripts/demo_console.py     # on the store that the last `make demo` left, or on a new one

A broker; flights that go on being published; a group that reads them and one that is behind; timed
messages; a message that a group fails on for good. `screenshots.py` takes its pictures here.
"""

import contextlib
import logging
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from demo_process import Process
from flights import CACHE
from rich.console import Console

import mqcore

DATA = CACHE / "broker"
USERS = CACHE / "console"
LOG = CACHE / "console.log"
SETTINGS = {
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "traceTopicEnable": "true",
    "timerWheelEnable": "true",
    # As `make demo` has it, whose store this may be: of a longer step what was delivered within the
    # last one would come again.
    "timerPrecisionMs": "100",
}
TOPIC = "departures"
# Flights a second, in the middle; what a small airport has in a day.
PER_SECOND = 40
_TURN_S = 0.25
_HOUR_S = 3_600
_FAILED_GROUP = "luggage"
_TOPICS = (TOPIC, "arrivals", "luggage-tags", "gate-changes")
_AIRPORTS = ("JFK", "LGA", "EWR")

console = Console(soft_wrap=True, highlight=False)


class Scene:
    """A broker on a directory, with traffic.

    Attributes:
        namesrv: Its name server.
        broker: Its address.
    """

    def __init__(self, data: Path) -> None:
        """Starts the broker."""
        arguments = ["standalone", "--data", str(data), "--port", "0", "--namesrv-port", "0"]
        for name, value in SETTINGS.items():
            arguments += ["--set", f"{name}={value}"]
        self._process = Process(arguments, LOG)
        self._process.start()
        ports = self._process.ports
        self.namesrv = f"127.0.0.1:{ports['namesrv']}"
        self.broker = f"127.0.0.1:{ports['broker']}"
        self._is_over = threading.Event()
        self._clients = contextlib.ExitStack()
        self._thread = threading.Thread(target=self._publish, name="traffic")

    def fill(self) -> None:
        """Makes topics and groups, and lets the traffic begin."""
        with mqcore.Admin(self.namesrv) as admin:
            for topic in _TOPICS:
                admin.topics.create(topic, queues=4)
            admin.groups.create("reports")
            admin.groups.create(_FAILED_GROUP, retries=0)
            admin.groups.reset_to_time("reports", TOPIC, 0)
        enter = self._clients.enter_context
        producer = enter(mqcore.Producer(self.namesrv, group="tower", trace=True))
        for number in range(200):
            producer.send(_flight(number))
        for hour in range(1, 6):
            due = time.time() + hour * _HOUR_S
            producer.send(mqcore.Message("gate-changes", f"gate {hour}", deliver_at=due))
        producer.send(mqcore.Message("luggage-tags", "no such flight", keys="tag-1"))
        for group, topic in (("boards", TOPIC), (_FAILED_GROUP, "luggage-tags")):
            enter(
                mqcore.PushConsumer(
                    self.namesrv,
                    group=group,
                    topics=topic,
                    handler=_fail if group == _FAILED_GROUP else _read,
                    consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
                )
            )
        self._producer = producer
        self._thread.start()

    def _publish(self) -> None:
        number = 200
        while not self._is_over.wait(_TURN_S):
            for _ in range(random.randint(0, round(2 * PER_SECOND * _TURN_S))):
                number += 1
                with contextlib.suppress(mqcore.MQError):
                    self._producer.send(_flight(number))

    def close(self) -> None:
        """Ends traffic and broker."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._clients.close()
        self._process.stop()


def _flight(number: int) -> mqcore.Message:
    origin = random.choice(_AIRPORTS)
    delay = random.randint(-5, 120)
    body = f'{{"flight": "MQ{number}", "origin": "{origin}", "dep_delay": {delay}}}'
    return mqcore.Message(
        random.choice(_TOPICS[:2]),
        body,
        tags=origin,
        keys=f"MQ{number}",
        properties={"dep_delay": str(delay), "origin": origin},
    )


def _read(_message: mqcore.ReceivedMessage) -> None:
    """Consumes a message."""


def _fail(_message: mqcore.ReceivedMessage) -> mqcore.Reject:
    return mqcore.Reject()


@contextlib.contextmanager
def scene(data: Path) -> Iterator[Scene]:
    """Runs a broker with traffic."""
    made = Scene(data)
    try:
        made.fill()
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def running_console(namesrv: str) -> Iterator[tuple[str, str, int]]:
    """Runs a console with one new user; yields its URL, the password of `admin`, its process."""
    shutil.rmtree(USERS, ignore_errors=True)
    words = ["console", "-n", namesrv, "--data", str(USERS), "--port", "0"]
    command = [sys.executable, "-m", "mqcore.cli.main", *words]
    CACHE.mkdir(parents=True, exist_ok=True)
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        yield (*_ready(process), process.pid)
    finally:
        process.terminate()
        process.wait()


def _ready(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Returns URL and password, as the console prints them."""
    password = ""
    for line in process.stdout or ():
        if "password " in line:
            password = line.split("password ", 1)[1].split()[0]
        if " ready on " in line:
            return line.split(" ready on ", 1)[1].split()[0].rstrip(","), password
    sys.exit(f"the console did not start; its log is {LOG}")


def main() -> None:
    """Runs both until Ctrl-C."""
    # The message that is given up on purpose is on the page of dead letters.
    logging.getLogger("mqcore").addHandler(logging.NullHandler())
    with scene(DATA) as made, running_console(made.namesrv) as (url, password, _):
        console.print(f"\nthe console: [bold]{url}[/bold]  user admin, password {password}")
        console.print(f"name server {made.namesrv}, broker {made.broker}; Ctrl-C ends all of it")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    main()
