"""The fixtures as a user's tests see them, in a run of pytest of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = """
from mqcore import Message


def test_one(mqcore_broker, mqcore_producer, mqcore_consumer):
    inbox = mqcore_consumer("orders")
    mqcore_producer.send(Message("orders", b"one"))
    assert inbox.take()[0].body == b"one"
    mqcore_broker.restart()
    mqcore_producer.send(Message("orders", b"two"))
    assert inbox.take()[0].body == b"two"


def test_retry(mqcore_broker, mqcore_producer, mqcore_consumer):
    mqcore_broker.create_topic("t")
    mqcore_producer.send(Message("t", b"later", delay_level=5))
    inbox = mqcore_consumer("t")
    mqcore_broker.advance(60)
    assert inbox.take()[0].body == b"later"


def test_each_test_has_its_own(mqcore_broker):
    assert mqcore_broker.messages("orders") == []


def test_shared(mqcore_session_broker, mqcore_session_producer):
    mqcore_session_producer.send(Message("shared", b"x"))


def test_shared_again(mqcore_session_broker):
    assert len(mqcore_session_broker.messages("shared")) == 1
"""

# The same test for either plugin that runs async tests; on the loop that it runs on.
ASYNC_TESTS = """
import pytest
from mqcore import Message, Producer, ReceivedMessage, aio
from mqcore.testing import AsyncBroker, AsyncInbox

@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.{mark}
async def test_one(mqcore_aio_broker, mqcore_aio_producer, mqcore_aio_consumer):
    assert isinstance(mqcore_aio_broker, AsyncBroker)
    assert isinstance(mqcore_aio_producer, aio.Producer)
    inbox = await mqcore_aio_consumer("orders", orderly=True)
    assert isinstance(inbox, AsyncInbox)
    sent = await mqcore_aio_producer.send(Message("orders", b"one"))
    (message,) = await inbox.take(timeout_s=10)
    assert (message.body, message.message_id) == (b"one", sent.message_id)
    await mqcore_aio_broker.restart()
    (stored,) = await mqcore_aio_broker.messages("orders")
    assert type(stored) is type(message) is ReceivedMessage
    assert (stored.queue, stored.topic, stored.queue_offset) == (message.queue, "orders", 0)


@pytest.mark.{mark}
async def test_each_test_has_its_own(mqcore_aio_broker, mqcore_aio_producer):
    assert await mqcore_aio_broker.messages("orders") == []
"""

# Every process runs every test, and notes which broker it met.
SHARED_TESTS = """
import os
from pathlib import Path

import pytest
from mqcore import Message


@pytest.mark.parametrize("number", range(3))
def test_shared(mqcore_session_broker, mqcore_session_producer, number):
    mqcore_session_producer.send(Message("shared", b"x"))
    assert len(mqcore_session_broker.messages("shared")) == number + 1
    worker = os.environ["PYTEST_XDIST_WORKER"]
    with (Path(__file__).parent / f"{worker}.met").open("a") as met:
        met.write(f"{mqcore_session_broker.namesrv} {mqcore_session_broker.directory}\\n")


def test_own(mqcore_broker, mqcore_session_broker, mqcore_producer, mqcore_consumer):
    assert mqcore_broker.namesrv != mqcore_session_broker.namesrv
    inbox = mqcore_consumer("orders")
    mqcore_producer.send(Message("orders", b"one"))
    assert [message.body for message in inbox.take()] == [b"one"]
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest with the plugin, whether or not this mqcore is installed with its entry point."""
    plugin = ["-p", "no:mqcore", "-p", "mqcore.testing.plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *arguments, str(folder)],
        env=os.environ | {"PYTEST_ADDOPTS": ""},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("mark", "options"),
    [("asyncio", []), ("anyio", ["-p", "no:asyncio"]), ("anyio", [])],
    ids=["pytest-asyncio", "anyio", "anyio beside pytest-asyncio"],
)
def test_async_tests_have_fixtures(mark: str, options: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_users.py").write_text(ASYNC_TESTS.format(mark=mark))
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    if "no:asyncio" not in options:
        with (tmp_path / "pytest.ini").open("a") as configuration:
            configuration.write("asyncio_default_fixture_loop_scope = function\n")
    ended = run(tmp_path, *options)
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr


def test_the_fixtures_serve(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(TESTS)
    ended = run(tmp_path)
    assert "5 passed" in ended.stdout, ended.stdout + ended.stderr


def test_each_process_of_xdist_has_its_own_broker(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(SHARED_TESTS)
    ended = run(tmp_path, "-n", "2", "--dist", "each")
    assert "8 passed" in ended.stdout, ended.stdout + ended.stderr
    met = [set(path.read_text().splitlines()) for path in sorted(tmp_path.glob("*.met"))]
    assert [len(brokers) for brokers in met] == [1, 1]
    (first,), (second,) = met
    assert not set(first.split()) & set(second.split())


def test_a_run_that_does_not_use_them_imports_no_broker(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert not [n for n in sys.modules if n.startswith('mqcore.broker')]\n"
        "    assert 'mqcore.native' not in sys.modules\n"
    )
    ended = run(tmp_path)
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_it_is_found_by_its_entry_point() -> None:
    text = Path("pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nmqcore = "mqcore.testing.plugin"' in text
