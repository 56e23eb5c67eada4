"""CVE-2023-33246, CVE-2023-37582, CVE-2024-23321: settings by request, and who is shown secrets.

The first let 25 set a home and a number from which a command line was made, and 25 or 318 write any
file through a setting that is a path.
"""

from pathlib import Path

import pytest

from attacks.attacking import tree
from live_broker import live
from loops import run_on
from mqcore.config import Layer, Program, controller_settings, namesrv_settings, resolved
from mqcore.config.keys import keys_of
from mqcore.controller.server import Controller
from mqcore.namesrv.server import NameServer
from mqcore.remoting import Client, RequestCode, expect

# Bodies of the attacks as they went round, and with what a reader of properties takes for the same.
_ATTACKS = (
    "rocketmqHome=-c touch${IFS}pwned;\nfilterServerNums=1",
    "filterServerNums=1\nrocketmqHome=-c $@|sh . echo touch pwned;",
    "brokerConfigPath=/tmp/pwned\nmsgTraceTopicName=* * * * * root touch /tmp/pwned",
    "configBlackList=\nbrokerConfigPath=/tmp/pwned",
    "rocketmq\\u0048ome=/tmp/pwned",
    "rocketmqHome:/tmp/pwned",
    "rocketmqHome /tmp/pwned",
    "  rocketmqHome = /tmp/pwned",
    "rocketmq\\\n  Home=/tmp/pwned",
    "slowOperationMs=1\\nrocketmqHome=/tmp/pwned\nrocketmqHome=/tmp/pwned",
    "slowOperationMs=1\r\nbrokerConfigPath=/tmp/pwned",
    "storePathRootDir=/tmp/pwned",
    "mqcoreAuditFile=/tmp/pwned",
    "authConfigPath=/tmp/pwned",
    "tls.server.keyPath=/tmp/pwned",
)
_NAMESRV_ATTACKS = (
    "configStorePath=/tmp/pwned\nproductEnvName=x\\nx",
    "kvConfigPath=/tmp/pwned",
    "rocketmqHome=/tmp/pwned",
    "configBlackList=x",
    "configBlackList=\nconfigStorePath=/tmp/pwned",
    "orderMessageEnable=true\nconfigStorePath=/tmp/pwned",
    "orderMessageEnable=true\r\nconfigStorePath=/tmp/pwned",
    "config\\u0053torePath=/tmp/pwned",
    "configStorePath:/tmp/pwned",
    "mqcoreAuditFile=/tmp/pwned",
)


@pytest.mark.parametrize("with_file", [True, False])
def test_attacks_by_25_change_nothing(tmp_path: Path, *, with_file: bool) -> None:
    async def run() -> None:
        file = tmp_path / "broker.conf"
        file.write_text("# kept\nslowOperationMs=500\n")
        store = tmp_path / "store"
        async with live(store, file if with_file else None) as running:
            settings = running.broker.state.settings
            before = file.read_bytes()
            for body in _ATTACKS:
                answer = await running.call(RequestCode.UPDATE_BROKER_CONFIG, {}, body.encode())
                assert answer.code != 0, body
                assert answer.remark, body
                assert running.broker.state.settings == settings, body
            assert file.read_bytes() == before

    run_on("asyncio", run())
    assert not (tmp_path / "pwned").exists()
    assert not Path("/tmp/pwned").exists()


def test_no_setting_that_is_a_path_or_a_secret_of_access_is_taken_by_25(tmp_path: Path) -> None:
    """Also not for the next start: whoever adds one need not think of it."""
    paths = sorted(name for name, key in keys_of(Program.BROKER).items() if key.kind == "path")
    assert len(paths) > 10

    async def run() -> None:
        file = tmp_path / "broker.conf"
        file.write_text("")
        async with live(tmp_path / "store", file) as running:
            for name in paths:
                body = f"{name}=/tmp/pwned".encode()
                answer = await running.call(RequestCode.UPDATE_BROKER_CONFIG, {}, body)
                assert answer.code != 0, name
            assert file.read_text() == ""

    run_on("asyncio", run())


def test_attacks_by_318_and_1009_change_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        values = {"listenPort": "0", "kvConfigPath": str(tmp_path / "kvConfig.json")}
        server = NameServer(namesrv_settings(resolved(Program.NAMESRV, [Layer("t", values)])))
        kept = {"controllerStorePath": str(tmp_path / "c"), "listenPort": "0"}
        controller = Controller(
            controller_settings(resolved(Program.CONTROLLER, [Layer("t", kept)]))
        )
        await server.start()
        await controller.start()
        before = {p: h for p, h in tree(tmp_path).items() if not p.startswith(("audit", "c/"))}
        try:
            async with Client() as client:
                for code, port, shown in (
                    (
                        RequestCode.UPDATE_NAMESRV_CONFIG,
                        server.ports["namesrv"],
                        RequestCode.GET_NAMESRV_CONFIG,
                    ),
                    (
                        RequestCode.UPDATE_CONTROLLER_CONFIG,
                        controller.ports["controller"],
                        RequestCode.GET_CONTROLLER_CONFIG,
                    ),
                ):
                    address = f"127.0.0.1:{port}"
                    was = expect(await client.call(address, shown), address).body
                    for body in (*_NAMESRV_ATTACKS, *_ATTACKS):
                        answer = await client.call(address, code, {}, body.encode())
                        assert answer.code != 0, (code, body)
                        assert answer.remark
                    assert expect(await client.call(address, shown), address).body == was
        finally:
            await controller.stop()
            await server.stop()
        after = {p: h for p, h in tree(tmp_path).items() if not p.startswith(("audit", "c/"))}
        assert after == before

    run_on("asyncio", run())


def test_nobody_answers_54(tmp_path: Path) -> None:
    async def run() -> None:
        async with live(tmp_path) as running:
            answer = await running.call(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
            assert answer.code == 3
            assert answer.body == b""

    run_on("asyncio", run())
