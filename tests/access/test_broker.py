"""A broker with access control: who is served, who is refused, what is answered about users.

Texts and codes are those of 5.3.3, but where `docs/access-control.md` has a difference.
"""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from access_control import ON, REFUSED, ROOT, Guarded, guarded, with_topic
from live_broker import live, send_fields
from loops import run_on
from mqcore.errors import ConfigurationError
from mqcore.model.relaxed_json import compact, parse
from mqcore.remoting import Credentials, RequestCode, ResponseCode
from request_fields import pull_fields

_SEND, _PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE


def test_a_send_is_served_to_who_signs_and_may(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            await with_topic(broker)
            app = await broker.user("app")
            await broker.grant("app", ("Topic:t", "Pub"))
            fields = send_fields("t")
            for who, remark in (
                (None, "username cannot be null."),
                (Credentials("app", "wrong"), "check signature failed."),
                (Credentials("nobody", "wrong"), "check signature failed."),
            ):
                answer = await broker.ask(who, _SEND, fields, b"x")
                assert (answer.code, answer.remark) == (REFUSED, remark)
            assert (await broker.ask(app, _SEND, fields, b"x")).code == 0
            other = await broker.ask(app, _SEND, send_fields("other"), b"x")
            assert (other.code, other.remark) == (
                REFUSED,
                "User:app has no permission to access Topic:other from 127.0.0.1, "
                "no matched policies.",
            )
            pulled = await broker.ask(app, _PULL, pull_fields("t"))
            assert pulled.code == REFUSED

    run_on("uvloop", run())


def test_what_is_revoked_is_refused_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            await with_topic(broker)
            app = await broker.user("app")
            await broker.grant("app", ("Topic:t*", "Pub"))
            assert (await broker.ask(app, _SEND, send_fields("t"), b"x")).code == 0
            await broker.grant("app", ("Topic:t", "Pub"), decision="Deny")
            denied = await broker.ask(app, _SEND, send_fields("t"), b"x")
            assert (denied.remark or "").endswith("the decision is deny.")
            await broker.done(
                RequestCode.AUTH_DELETE_ACL, {"subject": "User:app", "resource": "Topic:t"}
            )
            assert (await broker.ask(app, _SEND, send_fields("t"), b"x")).code == 0
            body = compact({"userStatus": "disable"})
            await broker.done(RequestCode.AUTH_UPDATE_USER, {"username": "app"}, body)
            gone = await broker.ask(app, _SEND, send_fields("t"), b"x")
            assert (gone.code, gone.remark) == (REFUSED, "User:app is disabled.")

    run_on("uvloop", run())


def test_users_and_policies_come_back_after_a_start_and_are_in_private_files(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            await broker.user("app")
            await broker.grant("app", ("Topic:t", "Pub"))
        for name in ("users.json", "acls.json", "users.json.bak"):
            mode = (tmp_path / "config" / name).stat().st_mode
            assert stat.S_IMODE(mode) == 0o600, name
        async with guarded(tmp_path) as broker:
            found = await broker.done(RequestCode.AUTH_GET_ACL, {"subject": "User:app"})
            assert found["policies"][0]["entries"][0]["resource"] == "Topic:t"
            users = await broker.done(RequestCode.AUTH_LIST_USER)
            assert [user["username"] for user in users] == ["app", "root"]

    run_on("uvloop", run())


def test_passwords_are_answered_to_a_super_user_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            reader = await broker.user("reader")
            await broker.grant("reader", ("Cluster:c", "Get"))
            ext = {"username": "root"}
            whole = await broker.done(RequestCode.AUTH_GET_USER, ext)
            assert whole == {
                "username": "root",
                "password": "root-secret",
                "userType": "Super",
                "userStatus": "enable",
            }
            for code, asked in (
                (RequestCode.AUTH_GET_USER, ext),
                (RequestCode.AUTH_LIST_USER, {}),
                (RequestCode.GET_BROKER_CONFIG, {}),
            ):
                answer = await broker.ask(reader, code, asked)
                assert answer.code == 0
                assert b"root-secret" not in answer.body
            assert b"reader-secret" not in answer.body
            nothing = await broker.ask(ROOT, RequestCode.AUTH_GET_USER, {"username": "nobody"})
            assert (nothing.code, nothing.body) == (0, b"")

    run_on("uvloop", run())


def test_super_users_are_made_changed_and_deleted_by_a_super_user_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            admin = await broker.user("admin")
            await broker.grant("admin", ("Cluster:*", "Update"))
            make, change = RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER
            body = compact({"password": "p", "userType": "Super"})
            made = await broker.ask(admin, make, {"username": "other"}, body)
            assert (made.code, made.remark) == (
                1,
                "The super user can only be create by super user",
            )
            raised = await broker.ask(admin, change, {"username": "admin"}, body)
            assert (raised.code, raised.remark) == (
                1,
                "The super user can only be update by super user",
            )
            for code, text in (
                (change, compact({"password": "p"})),
                (RequestCode.AUTH_DELETE_USER, b""),
            ):
                refused = await broker.ask(admin, code, {"username": "root"}, text)
                assert (refused.code, refused.remark) == (
                    16,
                    "The super user can only be update by super user",
                )
            keys = b"authorizationEnabled=false\n"
            off = await broker.ask(admin, RequestCode.UPDATE_BROKER_CONFIG, {}, keys)
            assert (off.code, off.remark) == (16, "User:admin is not a super user.")
            await broker.done(RequestCode.UPDATE_BROKER_CONFIG, {}, keys)
            assert (await broker.ask(admin, RequestCode.GET_ALL_TOPIC_CONFIG)).code == 0

    run_on("uvloop", run())


@pytest.mark.parametrize(
    ("code", "ext", "body", "answer"),
    [
        ("AUTH_CREATE_USER", {"username": ""}, {}, (29, "The username is blank")),
        ("AUTH_GET_USER", {"username": " "}, None, (29, "The username is blank")),
        ("AUTH_CREATE_USER", {"username": "u"}, {}, (16, "password can not be blank")),
        (
            "AUTH_CREATE_USER",
            {"username": "root"},
            {"password": "p"},
            (16, "The user is existed"),
        ),
        ("AUTH_UPDATE_USER", {"username": "u"}, {"password": "p"}, (16, "The user is not exist")),
        ("AUTH_DELETE_USER", {"username": "u"}, None, (0, None)),
        ("AUTH_CREATE_ACL", {"subject": "User:u"}, {}, (1, "The body of acl is null")),
        (
            "AUTH_CREATE_ACL",
            {"subject": "User:u"},
            {"policies": [{"entries": []}]},
            (16, "The policies is empty."),
        ),
        ("AUTH_GET_ACL", {"subject": "User:u"}, None, (16, "The subject is not exist.")),
        ("AUTH_GET_ACL", {"subject": "User:root"}, None, (0, None)),
        ("AUTH_DELETE_ACL", {"subject": "User:root"}, None, (16, "The acl is not exist.")),
        ("AUTH_DELETE_ACL", {"subject": "u"}, None, (16, "The subject is null.")),
        ("AUTH_LIST_ACL", {}, None, (0, None)),
    ],
)
def test_what_cannot_be_is_answered_as_officially(
    tmp_path: Path, code: str, ext: dict[str, str], body: object, answer: tuple[int, str | None]
) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            text = b"" if body is None else compact(body)
            found = await broker.ask(ROOT, RequestCode[code], ext, text)
            assert (found.code, found.remark) == answer

    run_on("uvloop", run())


def test_a_dry_run_refuses_nothing_and_names_what_would_be(tmp_path: Path) -> None:
    async def run() -> None:
        keys = {"authenticationEnabled": "false", "mqcoreAuthDryRun": "true"}
        async with guarded(tmp_path, **keys) as broker:
            await with_topic(broker)
            app = await broker.user("app")
            assert (await broker.ask(app, _SEND, send_fields("t"), b"x")).code == 0
            assert (await broker.ask(None, _SEND, send_fields("t"), b"x")).code == 0
            found = broker.live.broker.state.access_log.to_json()["refusals"]
            rows = [row for row in found if row["code"] == _SEND]
            assert [(x["user"], x["resource"], x["actions"], x["dryRun"]) for x in rows] == [
                ("app", "Topic:t", ["Pub"], True),
                ("", "", [], True),
            ]

    run_on("uvloop", run())


def test_refusals_are_lines_of_json_and_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            app = await broker.user("app")
            for _ in range(3):
                await broker.ask(app, _SEND, send_fields("t"), b"x")
            found = broker.live.broker.state.access_log.to_json()
            assert [row["count"] for row in found["refusals"]] == [3]

    with caplog.at_level("WARNING", logger="mqcore.audit"):
        run_on("uvloop", run())
    rows = [json.loads(x.getMessage()) for x in caplog.records if x.name == "mqcore.audit"]
    assert rows[0]["event"] == "refused"
    assert (rows[0]["user"], rows[0]["resource"]) == ("app", "Topic:t")
    assert "app-secret" not in caplog.text


def test_a_message_is_shown_to_who_may_get_the_topic_that_it_has(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            await with_topic(broker)
            await broker.done(_SEND, send_fields("t"), b"secret of t")
            reader = await broker.user("reader")
            await broker.grant("reader", ("Topic:mine", "Get"), ("Group:g", "Sub"))
            ext = {"offset": 0, "topic": "mine"}
            refused = await broker.ask(reader, RequestCode.VIEW_MESSAGE_BY_ID, ext)
            assert refused.code == REFUSED
            assert "Topic:t" in (refused.remark or "")
            await broker.grant("reader", ("Topic:t", "Get"))
            shown = await broker.ask(reader, RequestCode.VIEW_MESSAGE_BY_ID, ext)
            assert b"secret of t" in shown.body

    run_on("uvloop", run())


def test_statistics_of_a_group_leave_out_what_the_user_may_not_get(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            for topic in ("t", "other"):
                await with_topic(broker, topic)
                broker.live.broker.state.fast_path.offsets.commit("g", topic, 0, 0)
            reader = await broker.user("reader")
            await broker.grant("reader", ("Topic:t", "Get"), ("Group:g", "Get"))
            ext = {"consumerGroup": "g"}
            answer = await broker.ask(reader, RequestCode.GET_CONSUME_STATS, ext)
            assert answer.code == 0
            assert b'"topic":"t"' in answer.body
            assert b"other" not in answer.body
            named = await broker.ask(
                reader, RequestCode.GET_CONSUME_STATS, ext | {"topic": "other"}
            )
            assert named.code == REFUSED

    run_on("uvloop", run())


def test_a_change_is_lost_where_its_file_cannot_be_written(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            users = tmp_path / "config" / "users.json.tmp"
            users.mkdir()
            (users / "in the way").touch()
            body = compact({"password": "p"})
            answer = await broker.ask(ROOT, RequestCode.AUTH_CREATE_USER, {"username": "u"}, body)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert await broker.done(RequestCode.AUTH_GET_USER, {"username": "u"}) is None
            (users / "in the way").unlink()
            users.rmdir()
            await broker.user("u")

    run_on("uvloop", run())


def test_without_access_control_nobody_is_asked_and_no_password_is_answered(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with live(tmp_path, initAuthenticationUser=ON["initAuthenticationUser"]) as running:
            broker = Guarded(running)
            body = compact({"password": "p"})
            await broker.done(RequestCode.AUTH_CREATE_USER, {"username": "u"}, body, who=None)
            listed = await broker.done(RequestCode.AUTH_LIST_USER, who=None)
            assert [user.get("password") for user in listed] == [None, None]
            whole = await broker.done(RequestCode.AUTH_LIST_USER)
            assert [user.get("password") for user in whole] == ["root-secret", "p"]

    run_on("uvloop", run())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authenticationProvider", "com.example.Provider"),
        ("authorizationMetadataProvider", "com.example.Provider"),
        ("initAuthenticationUser", "no JSON of secrets"),
        ("innerClientAuthenticationCredentials", '{"accessKey":"a"}'),
    ],
)
def test_settings_that_cannot_work_end_the_start(tmp_path: Path, key: str, value: str) -> None:
    async def run() -> None:
        async with live(tmp_path, **{key: value}):
            pass

    with pytest.raises(ConfigurationError, match=key) as refused:
        run_on("asyncio", run())
    assert "secrets" not in str(refused.value)


def test_official_provider_names_are_taken(tmp_path: Path) -> None:
    base = "org.apache.rocketmq.auth"
    keys = {
        "authenticationProvider": f"{base}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": (
            f"{base}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "authorizationProvider": f"{base}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": (
            f"{base}.authorization.provider.LocalAuthorizationMetadataProvider"
        ),
    }

    async def run() -> None:
        async with guarded(tmp_path, **keys) as broker:
            assert (await broker.ask(None, RequestCode.GET_ALL_TOPIC_CONFIG)).code == REFUSED

    run_on("uvloop", run())


def test_changes_from_many_at_once_are_all_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with guarded(tmp_path) as broker:
            names = [f"u{number}" for number in range(20)]
            await asyncio.gather(*(broker.user(name) for name in names))
            rows = parse((tmp_path / "config" / "users.json").read_bytes())["users"]
            assert {row["username"] for row in rows} == {"root", *names}

    run_on("uvloop", run())
