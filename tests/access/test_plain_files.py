"""`plain_acl.yml` and `conf/acl/*`: what they mean, looked at again, and changed by tools."""

import logging
import stat
import sys
from pathlib import Path

import pytest

from access_control import ON, PLAIN_ADMIN, PLAIN_PRODUCER, Guarded, plain_accounts
from live_broker import live, send_fields
from loops import run_on
from mqcore.access import AccessControl, PlainFiles
from mqcore.access.plain_content import PlainContent
from mqcore.config import settings_of_pairs
from mqcore.errors import ConfigurationError, StateFileError
from mqcore.model.relaxed_json import compact, parse
from mqcore.remoting import Credentials, RequestCode
from request_fields import pull_fields

_SEND, _PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
_SYSTEM_ERROR, _UNSUPPORTED = 1, 3
_EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "
PRODUCER, ADMIN = PLAIN_PRODUCER, PLAIN_ADMIN
CONTENT = plain_accounts("t")


def write(home: Path, text: str = CONTENT, name: str = "plain_acl.yml") -> Path:
    path = home / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def keys(home: Path, **more: str) -> dict[str, str]:
    return {"aclEnable": "true", "rocketmqHome": str(home), **more}


def test_accounts_send_and_consume_by_their_permissions(tmp_path: Path) -> None:
    write(tmp_path)

    async def run() -> None:
        async with live(tmp_path / "store", **keys(tmp_path)) as running:
            broker = Guarded(running)
            topic = {"topic": "t", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
            topic |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": False}
            topic |= {"topicSysFlag": 0}
            create = RequestCode.UPDATE_AND_CREATE_TOPIC
            refused = await broker.ask(PRODUCER, create, topic)
            assert (refused.code, refused.remark) == (
                _SYSTEM_ERROR,
                f"{_EXCEPTION}Need admin permission for request code=17, "
                "but accessKey=producer1 is not",
            )
            assert (await broker.ask(ADMIN, create, topic)).code == 0
            assert (await broker.ask(PRODUCER, _SEND, send_fields("t"), b"x")).code == 0
            for who, topic_name, words in (
                (PRODUCER, "denied", "No default permission for topic:denied"),
                (None, "t", "No accessKey is configured"),
                (Credentials("nobody1", "12345678"), "t", "No acl config for nobody1"),
                (
                    Credentials("producer1", "another"),
                    "t",
                    "Check signature failed for accessKey=producer1",
                ),
            ):
                answer = await broker.ask(who, _SEND, send_fields(topic_name), b"x")
                assert (answer.code, answer.remark) == (_SYSTEM_ERROR, f"{_EXCEPTION}{words}")
            pulled = await broker.ask(PRODUCER, _PULL, pull_fields("t"))
            assert pulled.code == 0
            # What the body asks for.
            beat = {
                "clientID": "c",
                "consumerDataSet": [
                    {
                        "groupName": "g",
                        "consumeType": "CONSUME_PASSIVELY",
                        "messageModel": "CLUSTERING",
                        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                        "subscriptionDataSet": [{"topic": "u", "subString": "*"}],
                    }
                ],
                "producerDataSet": [],
            }
            answer = await broker.ask(PRODUCER, RequestCode.HEART_BEAT, {}, compact(beat))
            assert answer.remark == f"{_EXCEPTION}No default permission for topic:u"
            # 4.9 lets everybody who signs make users, or change the settings of the broker.
            for code in (RequestCode.AUTH_CREATE_USER, RequestCode.UPDATE_BROKER_CONFIG):
                answer = await broker.ask(PRODUCER, code, {"username": "evil"}, b"{}")
                assert answer.code == _SYSTEM_ERROR
            secrets = await broker.ask(ADMIN, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
            assert secrets.code == _UNSUPPORTED

    run_on("uvloop", run())


def test_a_change_of_the_files_counts_and_a_bad_one_leaves_what_there_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path)

    async def run() -> None:
        async with live(tmp_path / "store", **keys(tmp_path)) as running:
            broker, look = Guarded(running), running.broker.state.access.look_at_plain
            admin_may = RequestCode.GET_BROKER_CONFIG
            more = "accounts:\n- accessKey: another1\n  secretKey: 'secret12'\n"
            path = write(tmp_path, more, "acl/folder/more.yaml")
            another = Credentials("another1", "secret12")
            assert (await broker.ask(another, admin_may)).code == _SYSTEM_ERROR
            await look()
            assert (await broker.ask(another, admin_may)).code == 0
            for bad in (
                "accounts: [",
                "accounts:\n- accessKey: short\n  secretKey: 12345678",
                "globalWhiteRemoteAddresses: [10.0.0.300]",
                "accounts:\n- accessKey: another1\n  secretKey: top-secret\n  topicPerms: [a]",
                "- no table",
            ):
                caplog.clear()
                write(tmp_path, bad, "acl/folder/more.yaml")
                with caplog.at_level(logging.ERROR):
                    await look()
                assert "stay as they were" in caplog.text
                assert str(path) in caplog.text
                assert "top-secret" not in caplog.text
                assert (await broker.ask(another, admin_may)).code == 0
                caplog.clear()
                await look()
                assert not caplog.text, "once for each change"
            path.unlink()
            await look()
            assert (await broker.ask(another, admin_may)).code == _SYSTEM_ERROR
            assert (await broker.ask(PRODUCER, admin_may)).code == 0

    run_on("uvloop", run())


def test_tools_of_4_9_change_the_files(tmp_path: Path) -> None:
    path = write(tmp_path)
    second = write(tmp_path, "accounts:\n- {accessKey: second1, secretKey: 12345678}", "acl/b.yml")

    async def run() -> None:
        async with live(tmp_path / "store", **keys(tmp_path)) as running:
            broker = Guarded(running)
            put, delete = (
                RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
                RequestCode.DELETE_ACL_CONFIG,
            )
            fields = {"accessKey": "made123", "secretKey": "87654321", "admin": "false"}
            fields |= {"topicPerms": "t=PUB|SUB,u=SUB", "groupPerms": "g=DENY"}
            assert (await broker.ask(PRODUCER, put, fields)).code == _SYSTEM_ERROR
            assert (await broker.ask(ADMIN, put, fields)).code == 0
            made = Credentials("made123", "87654321")
            assert (await broker.ask(made, RequestCode.GET_BROKER_CONFIG)).code == 0
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            text = path.read_text(encoding="utf-8")
            assert "- accessKey: made123\n  secretKey: '87654321'\n  admin: false\n" in text
            read = PlainContent.of_text(text.encode())
            assert [each.name for each in read.accounts] == ["producer1", "rocketmq2", "made123"]
            assert read.accounts[-1].topics == (("t", 3), ("u", 2))
            assert (read.counter, read.white) == (1, ("10.10.103.*",))
            # An account is changed in its own file, and what is not given stays.
            change = {"accessKey": "second1", "secretKey": "12345678", "defaultTopicPerm": "PUB"}
            assert (await broker.ask(ADMIN, put, change)).code == 0
            assert "defaultTopicPerm: PUB" in second.read_text(encoding="utf-8")
            for bad, words in (
                ({"accessKey": "short1"}, "cannot be null and length should longer than 6"),
                ({"topicPerms": "t"}, "Parse Resource format error for t."),
                ({"topicPerms": "t=ALL"}, "Parse resource permission error for t=ALL."),
                ({"whiteRemoteAddress": "10.0.0.300"}, "no address"),
            ):
                answer = await broker.ask(ADMIN, put, fields | bad)
                assert answer.code == 209
                assert words in (answer.remark or "")
                assert path.read_text(encoding="utf-8") == text
            info = await broker.ask(ADMIN, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
            assert parse(info.ext["version"])["counter"] == 1
            assert set(parse(info.ext["allAclFileVersion"])) == {str(path), str(second)}
            assert (info.ext["brokerName"], info.ext["clusterName"]) == ("b", "c")
            white = {"globalWhiteAddrs": "10.1.*.*,127.0.0.1", "aclFileFullPath": str(second)}
            code = RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG
            assert (await broker.ask(ADMIN, code, white)).code == 0
            # From here nobody needs a signature now.
            assert (await broker.ask(None, RequestCode.GET_BROKER_CONFIG)).code == 0
            for other in ("/etc/passwd", str(tmp_path / "conf" / "x.yml"), f"{second}/../b.yml"):
                answer = await broker.ask(ADMIN, code, white | {"aclFileFullPath": other})
                assert answer.code == 211, other
            empty = {"globalWhiteAddrs": "", "aclFileFullPath": str(second)}
            assert (await broker.ask(ADMIN, code, empty)).code in (0, 1)
            assert (await broker.ask(ADMIN, delete, {"accessKey": "made123"})).code == 0
            gone = await broker.ask(ADMIN, delete, {"accessKey": "made123"})
            assert (gone.code, gone.remark) == (
                210,
                "The accesskey[made123] corresponding to accessConfig has been deleted failed.",
            )

    run_on("uvloop", run())


def test_users_of_5_x_and_accounts_of_4_x_side_by_side(tmp_path: Path) -> None:
    write(tmp_path)

    async def run() -> None:
        async with live(tmp_path / "store", **ON, **keys(tmp_path)) as running:
            broker = Guarded(running)
            app = await broker.user("app")
            refused = await broker.ask(app, _SEND, send_fields("t"), b"x")
            assert (refused.code, (refused.remark or "")[:8]) == (16, "User:app")
            allowed = await broker.ask(PRODUCER, _SEND, send_fields("denied"), b"x")
            assert allowed.code == _SYSTEM_ERROR
            await broker.grant("app", ("Topic:t", "Pub"))
            created = await broker.ask(
                ADMIN, RequestCode.AUTH_CREATE_USER, {"username": "by4"}, compact({"password": "p"})
            )
            assert created.code == 0

    run_on("uvloop", run())


def test_without_the_setting_they_are_refused_and_without_a_home_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)

    async def run() -> None:
        async with live(tmp_path / "store") as running:
            for code, expected in ((50, 209), (51, 210), (52, _SYSTEM_ERROR), (53, 211)):
                answer = await running.call(code, {"accessKey": "account1"})
                assert (answer.code, (answer.remark or "")[:9]) == (expected, "aclEnable")
        with pytest.raises(ConfigurationError, match="rocketmqHome"):
            async with live(tmp_path / "store", aclEnable="true"):
                pass
        path = write(tmp_path, "accounts: [")
        with pytest.raises(StateFileError, match=str(path)):
            async with live(tmp_path / "store", **keys(tmp_path)):
                pass

    run_on("uvloop", run())


def test_accounts_become_users_once(tmp_path: Path) -> None:
    write(tmp_path)
    settings = settings_of_pairs({})
    files = PlainFiles(tmp_path)

    def loaded() -> AccessControl:
        control = AccessControl(
            settings.access, cluster="c", directory=tmp_path / "config", migrates=files
        )
        (tmp_path / "config").mkdir(exist_ok=True)
        control.load()
        return control

    tables = loaded().tables
    assert {name: user.kind for name, user in tables.users.items()} == {
        "producer1": "Normal",
        "rocketmq2": "Super",
    }
    rows = [row[1:] for row in tables.policy_rows()]
    assert rows == [
        ("Custom", "Topic:t", ("Pub", "Sub"), (), "Allow"),
        ("Custom", "Topic:denied", ("All",), (), "Deny"),
        ("Default", "Topic:*", ("All",), (), "Deny"),
        ("Default", "Group:*", ("Sub",), (), "Allow"),
    ]
    changed = CONTENT.replace("t=PUB|SUB", "t=SUB")
    write(tmp_path, changed)
    assert loaded().tables == tables, "a user that is there stays"


def test_a_link_that_leads_back_ends(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "conf" / "acl").mkdir()
    (tmp_path / "conf" / "acl" / "again").symlink_to(tmp_path / "conf" / "acl")
    with pytest.raises(StateFileError, match="nested deeper"):
        PlainFiles(tmp_path).load()


def test_without_the_library_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(StateFileError, match=r"pip install 'mqcore\[acl\]'"):
        PlainFiles(tmp_path).load()
