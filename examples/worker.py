"""A worker as Django or Celery people know it: tasks by name, until SIGTERM or Ctrl-C.

python examples/worker.py [name server]      consumes the topic "tasks"
from examples.worker import delay            delay(producer, "add", 1, 2)
"""

import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import mqcore

LOGGER = logging.getLogger("worker")
TASKS: dict[str, Callable[..., Any]] = {}


def task(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function a task, under its name."""
    TASKS[function.__name__] = function
    return function


def delay(producer: mqcore.Producer, name: str, *arguments: Any) -> str:
    """Has a worker call a task; returns the message's id."""
    body = json.dumps({"task": name, "arguments": arguments})
    return producer.send(mqcore.Message("tasks", body, tags=name)).message_id


@task
def add(first: int, second: int) -> None:
    """Adds two numbers, and logs the sum."""
    LOGGER.info("%d + %d = %d", first, second, first + second)


def handle(message: mqcore.ReceivedMessage) -> None:
    """Calls the task of a message; what raises is tried again, later and later."""
    call = json.loads(message.body)
    if call["task"] not in TASKS:
        raise mqcore.Reject(f"no task {call['task']}")
    TASKS[call["task"]](*call["arguments"])


def main(namesrv: str | None = None) -> None:
    """Works until SIGTERM or SIGINT; a task that runs is finished."""
    worker = mqcore.PushConsumer(
        namesrv,
        group="workers",
        topics="tasks",
        handler=handle,
        concurrency=4,
        consume_from=mqcore.ConsumeFrom.FIRST_OFFSET,
    )
    LOGGER.info("working")
    worker.run()


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    LOGGER.setLevel(logging.INFO)
    main(*sys.argv[1:])
