"""A console on a loop of its own, and visitors who have logged in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console_visits import Visitor
from mqcore.console import Console, ConsoleSettings
from mqcore.console.users import Role
from mqcore.remoting import Credentials
from mqcore.testing.loop_thread import LoopThread

PASSWORD = "a good password"


@contextmanager
def running(
    namesrv: str,
    data: Path,
    *,
    question_s: float = 5.0,
    page_s: float = 10.0,
    credentials: Credentials | None = None,
) -> Iterator[Console]:
    """Runs a console, with a user of each role."""
    thread = LoopThread("console")

    async def started() -> Console:
        made = Console(
            ConsoleSettings(
                namesrv=namesrv,
                data=data,
                port=0,
                credentials=credentials,
                question_s=question_s,
                page_s=page_s,
            )
        )
        for role in Role:
            made.state.users.put(role.text, role, PASSWORD)
        await made.start()
        return made

    console = thread.run(started())
    try:
        yield console
    finally:
        thread.run(console.stop())
        thread.close()


def visitor(console: Console, role: str = "admin") -> Visitor:
    """Returns a visitor who has logged in."""
    made = Visitor("127.0.0.1", console.ports["console"])
    assert made.log_in(role, PASSWORD).status == 303
    return made
