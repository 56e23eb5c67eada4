"""Secrets that nobody would write by chance, in every place that takes one: they come out nowhere.

Searched are all answers, errors, log lines (of every level), pages of the console, figures, the
audit, and files but those that are kept for secrets.
"""

import logging
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn
from urllib.request import urlopen

import pytest

from access_control import ON, Guarded, guarded
from attacks.attacking import BROKER_CODES, hostile_fields
from console_running import running, visitor
from interop.patience import eventually
from live_broker import live
from loops import run_on
from mqcore.config import Layer, Program, controller_settings, namesrv_settings, resolved
from mqcore.console.routes import MENU, PAGES
from mqcore.controller.server import Controller
from mqcore.model.relaxed_json import compact
from mqcore.model.tools_file import tools_text
from mqcore.namesrv.server import NameServer
from mqcore.native import Command
from mqcore.remoting import (
    AnsweredBy,
    Credentials,
    OwnRequestCode,
    Request,
    RequestCode,
    answered_by,
    signed,
)
from mqcore.testing import Broker
from tls_papers import Papers

ROOT, INNER, APP, NEW, TLS, TOOLS = (
    f"canary-{name}-7d1f0c2a9e" for name in ("root", "inner", "app", "new", "tls", "tools")
)
CANARY = re.compile(r"canary-\w+-7d1f0c2a9e")
_ROOT = Credentials("root", ROOT)
# They answer secrets to a Super user, who asked for them.
_GIVING = frozenset(
    {
        RequestCode.AUTH_GET_USER,
        RequestCode.AUTH_LIST_USER,
        OwnRequestCode.ACCESS_TABLES,
    }
)
_OF_USERS = frozenset({RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER})
# Files that are made to keep secrets, for their owner alone.
_KEPT = frozenset({"users.json", "users.json.bak", "tools.yml", "broker.conf", "namesrv.conf"})
# What a request may bring that ends a process, or waits for long.
_LEFT_OUT = frozenset({OwnRequestCode.HAND_OVER})


def settings() -> dict[str, str]:
    """Returns a setting of each kind of secret."""
    return {
        **ON,
        "initAuthenticationUser": f'{{"username":"root","password":"{ROOT}"}}',
        "innerClientAuthenticationCredentials": f'{{"accessKey":"inner","secretKey":"{INNER}"}}',
        "tls.server.keyPassword": TLS,
        "tls.client.keyPassword": TLS,
    }


class Heard:
    """What came out, by where."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def note(self, where: str, *texts: object) -> None:
        self.texts[where] = self.texts.get(where, "") + "".join(map(str, texts))

    def answer(self, where: str, answer: Command) -> None:
        self.note(where, answer.remark, answer.ext, answer.body.decode("utf-8", "replace"), answer)

    def files(self, directory: Path) -> None:
        for path in directory.rglob("*"):
            if path.is_file() and path.name not in _KEPT and "papers" not in path.parts:
                self.note(str(path), path.read_bytes().decode("latin-1"))

    def faults(self) -> list[str]:
        """Returns where a canary was heard."""
        return [where for where, text in self.texts.items() if CANARY.search(text)]


async def _drive(broker: Guarded, heard: Heard, address: str, codes: list[int]) -> None:
    """Asks everything as a Super user, as somebody with a wrong signature, as nobody."""
    client = broker.live.client
    app = Credentials("app", APP)
    wrong = Credentials("root", "wrong")
    ext = {name: str(value) for name, value in hostile_fields("g").items()} | {"username": "app"}
    user = compact({"username": "app", "password": NEW})
    other = compact({"username": "app", "groupName": "g"})
    for code in codes:
        # What no group has is kept with it, and shown as any other part of it.
        body = user if code in _OF_USERS else other
        for who in (_ROOT, app, wrong, None):
            for content in (b"", body, b"tls.server.keyPassword=" + NEW.encode()):
                fields = ext if who is None else signed(who, ext, content)
                answer = await client.call(address, code, fields, content, timeout_s=30)
                if who is _ROOT and code in _GIVING:
                    continue
                heard.answer(f"{code} of {who and who.access_key}", answer)


def _crash(_request: Request) -> NoReturn:
    raise KeyError("a handler that breaks")


def test_a_broker_gives_no_secret_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    heard = Heard()

    async def run() -> None:
        async with guarded(tmp_path / "b", **settings(), metricsExporterType="PROM") as broker:
            code = RequestCode.AUTH_CREATE_USER
            made = compact({"username": "app", "password": APP})
            fields = signed(_ROOT, {"username": "app"}, made)
            assert (await broker.live.call(code, fields, made)).code == 0
            own = [int(each) for each in OwnRequestCode if each not in _LEFT_OUT]
            codes = [*map(int, BROKER_CODES), *own]
            await _drive(broker, heard, broker.live.address, codes)
            broker.live.broker.state.access_log.look()
            # A handler that breaks logs a trace, and answers its error.
            server = broker.live.broker._server
            assert server is not None
            server.hub.dispatcher.on(RequestCode.AUTH_UPDATE_USER, _crash)
            change = compact({"username": "app", "password": NEW})
            asked = signed(_ROOT, {"username": "app"}, change)
            answer = await broker.live.call(RequestCode.AUTH_UPDATE_USER, asked, change)
            assert "a handler that breaks" in (answer.remark or "")
            heard.answer("a crash", answer)
            heard.note("repr", repr(broker.live.broker.state.settings), settings_text(broker))

    run_on("asyncio", run(), deadline_s=200)
    heard.note("log", caplog.text)
    heard.files(tmp_path)
    assert heard.faults() == []
    # It would have been heard.
    assert CANARY.search((tmp_path / "b" / "config" / "users.json").read_text())
    assert "AUTH_CREATE_USER" in (tmp_path / "b" / "audit" / "audit.log").read_text()


def settings_text(broker: Guarded) -> str:
    """Returns what is printed of a broker's settings, its users and its policies."""
    state = broker.live.broker.state
    return f"{state.settings.configuration.rows()}{state.access.tables!r}{state.credentials!r}"


def test_name_server_and_controller_give_no_secret_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    shared = {**settings(), "mqcoreNamesrvAuth": "true", "listenPort": "0"}

    async def run() -> None:
        values = {**shared, "kvConfigPath": str(tmp_path / "n" / "kvConfig.json")}
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
        kept = {**shared, "controllerStorePath": str(tmp_path / "c")}
        controller = Controller(
            controller_settings(resolved(Program.CONTROLLER, [Layer("t", kept)]))
        )
        await server.start()
        await controller.start()
        try:
            async with live(tmp_path / "b") as plain:
                for who, port in (
                    (AnsweredBy.NAMESRV, server.ports["namesrv"]),
                    (AnsweredBy.CONTROLLER, controller.ports["controller"]),
                ):
                    codes = sorted(map(int, answered_by(who)))
                    codes += [OwnRequestCode.AUDIT_READ, OwnRequestCode.AUDIT_VERIFY]
                    await _drive(Guarded(plain), heard, f"127.0.0.1:{port}", codes)
        finally:
            await controller.stop()
            await server.stop()
        heard.note("repr", repr(server.requests.settings), repr(controller._settings))

    run_on("asyncio", run(), deadline_s=200)
    heard.note("log", caplog.text)
    heard.files(tmp_path)
    assert heard.faults() == []


def test_a_console_gives_no_secret_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    keys = settings() | {"metricsExporterType": "PROM", "metricsPromExporterPort": "0"}
    with (
        Broker(keys, log_level="DEBUG") as broker,
        running(broker.namesrv, tmp_path, credentials=_ROOT) as console,
    ):
        admin = visitor(console)
        page = admin.change("/access", name="shop", kind="Normal")
        found = re.search(r"shown this once: (\S+)", page.document.text)
        assert found is not None
        paths = [path for path, _text in MENU] + [
            each.path.replace("{user:path}", "shop")
            .replace("{name}", "broker-test")
            .replace("{number}", "0")
            for each in PAGES
            if "{topic" not in each.path and "{group" not in each.path and "{id}" not in each.path
        ]
        paths += [
            f"/audit?of={broker.address}",
            "/brokers/broker-test/0?tab=configuration",
            "/brokers/broker-test/0?tab=memory",
            "/access/shop?action=Pub&resource=Topic:t",
        ]
        texts = [admin.get(path).text for path in dict.fromkeys(paths)]
        assert all(found[1] not in text for text in texts)
        heard.note("pages", *texts)
        host = f"127.0.0.1:{_metrics_port(broker)}"
        with urlopen(f"http://{host}/metrics", timeout=30) as answer:
            heard.note("/metrics", answer.read().decode())
        heard.note("audit", console.state.audit.whole().decode())
        assert found[1] not in heard.texts["audit"]
        heard.note("log of the broker", broker.log_text)
        assert found[1] not in broker.log_text + caplog.text
    heard.note("log", caplog.text)
    heard.files(tmp_path)
    assert heard.faults() == []


def _metrics_port(broker: Broker) -> int:
    running = broker._body._broker
    assert running is not None
    return running.ports["metrics"]


def _mqcore(*line: str | Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mqcore.cli.main", *map(str, line)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": "/usr/bin:/bin", "MQCORE_ACCESS_KEY": "", **environment},
    )


@pytest.mark.slow
def test_processes_print_no_secret_when_they_start_fail_and_are_killed(tmp_path: Path) -> None:
    heard = Heard()
    papers = Papers(tmp_path / "papers")
    store, port_file = tmp_path / "store", tmp_path / "port"
    pairs = settings() | papers.keys("b") | {"storePathRootDir": str(store), "listenPort": "0"}
    file = tmp_path / "broker.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
    line = ("broker", "-c", file, "--log-level", "debug", "--port-file", port_file)
    process = _mqcore(*line)
    try:
        eventually(port_file.exists, bool)
        tools = tmp_path / "tools.yml"
        tools.write_text(tools_text("root", TOOLS))
        port = int(re.findall(r"\d+", port_file.read_text())[-1])
        for command in (
            ("acl", "users", "-b", f"127.0.0.1:{port}"),
            ("admin", "createUser", "-b", f"127.0.0.1:{port}", "-u", "x", "-p", NEW),
            ("audit", "tail", "--server", f"127.0.0.1:{port}"),
        ):
            wrong = _mqcore(*command, MQCORE_TOOLS_FILE=str(tools))
            heard.note(" ".join(command[:2]), wrong.communicate(timeout=60)[0])
            assert wrong.returncode == 2
    finally:
        process.send_signal(signal.SIGKILL)
        heard.note("killed", process.communicate(timeout=60)[0])
    for key, value in (
        ("initAuthenticationUser", f'{{"username":"","password":"{ROOT}"}}'),
        ("initAuthenticationUser", f"no JSON {ROOT}"),
        ("innerClientAuthenticationCredentials", f'["{INNER}"]'),
        ("tls.server.certPath", "/nowhere"),
    ):
        file.write_text("".join(f"{k}={v}\n" for k, v in (pairs | {key: value}).items()))
        failing = _mqcore("broker", "-c", file, "--log-level", "debug")
        try:
            heard.note(f"{key}={value}"[:30], failing.communicate(timeout=60)[0])
        finally:
            failing.kill()
        assert failing.returncode not in (0, None), key
    heard.files(tmp_path)
    assert heard.faults() == []
