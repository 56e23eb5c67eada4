"""What the console refuses: strangers, wrong roles, foreign pages, forms of other logins."""

import json
import stat
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from console_visits import Visitor
from mqcore.console import Console, ConsoleSettings
from mqcore.console.app import routes_of
from mqcore.console.audit import Audit
from mqcore.console.guard import is_foreign, is_token
from mqcore.console.requests import local
from mqcore.console.routes import CHANGES, PAGES
from mqcore.console.sessions import IDLE_S, LIFE_S, Sessions
from mqcore.console.users import Role, Throttle, User, Users
from mqcore.console.views import Change
from mqcore.errors import ConfigurationError, UsageError

PARTS = {
    "{name}": "broker-test",
    "{number}": "0",
    "{topic:path}": "t",
    "{group:path}": "g",
    "{id}": "0" * 32,
    "{user:path}": "app",
}


def path_of(route: str) -> str:
    """Returns a path of a route, with something for each part."""
    for part, value in PARTS.items():
        route = route.replace(part, value)
    return route


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_needs_login_role_token_and_own_page(
    console: Console, visit: Callable[[str], Visitor], change: Change
) -> None:
    path = path_of(change.path)
    stranger = Visitor("127.0.0.1", console.ports["console"])
    assert stranger.ask("POST", path, {"csrf": "x"}).status == 403
    assert stranger.get(path).status in (303, 404, 405)
    for role in (role for role in Role if role < change.role):
        lower = visit(role.text)
        assert lower.ask("POST", path, {"csrf": lower.token()}).status == 403
    able = visit(change.role.text)
    assert able.ask("POST", path, {}).status == 403
    assert able.ask("POST", path, {"csrf": visit("admin").token()}).status == 403
    token = able.token()
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        assert able.ask("POST", path, {"csrf": token}, headers).status == 403, headers
    # It is the form itself that is wrong, or its plan that is shown: it came that far.
    own = {
        "origin": f"http://127.0.0.1:{console.ports['console']}",
        "sec-fetch-site": "same-origin",
    }
    assert able.ask("POST", path, {"csrf": token}, own).status in (200, 400)
    assert able.ask("GET", path).status != 500


def test_no_other_path_takes_a_change(console: Console, admin: Visitor) -> None:
    served = routes_of(console.state)
    taken = {each.path for each in served if each.methods and "POST" in each.methods}
    own = {"/login", "/logout", "/theme"}
    assert taken == {each.path for each in CHANGES} | own
    token = admin.token()
    for path in sorted(own):
        assert admin.ask("POST", path, {}).status == 403, path
        foreign = {"origin": "http://evil.example"}
        assert admin.ask("POST", path, {"csrf": token}, foreign).status == 403, path
        assert admin.get(path).status in (200, 404, 405), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_a_page_needs_a_login(
    console: Console, visit: Callable[[str], Visitor], page: object
) -> None:
    path = path_of(page.path)  # type: ignore[attr-defined]
    stranger = Visitor("127.0.0.1", console.ports["console"])
    answer = stranger.get(path)
    assert answer.status == 303
    assert answer.headers["location"].startswith("/login")
    assert stranger.get(path, accept="application/json").status == 401
    reader = visit("reader").get(path)
    is_for_reader = page.role is Role.READER  # type: ignore[attr-defined]
    assert (reader.status == 403) is not is_for_reader


def test_every_response_keeps_browsers_from_harm(admin: Visitor) -> None:
    for path in ("/", "/login", "/nothing-like-it", "/static/console.css"):
        headers = admin.get(path).headers
        assert headers["content-security-policy"].startswith(
            "default-src 'none'; script-src 'self'"
        )
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    assert admin.get("/").headers["cache-control"] == "no-store"


def test_a_login_gets_a_new_cookie_and_a_logout_ends_it(console: Console) -> None:
    visitor = Visitor("127.0.0.1", console.ports["console"])
    visitor.cookies["mqcore"] = "planted"
    answer = visitor.log_in("admin", "a good password")
    (cookie,) = (each for each in answer.cookies if each.startswith("mqcore="))
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert visitor.cookies["mqcore"] != "planted"
    assert visitor.get("/").status == 200
    kept = visitor.cookies["mqcore"]
    assert visitor.ask("POST", "/logout", {"csrf": visitor.token()}).status == 303
    visitor.cookies["mqcore"] = kept
    assert visitor.get("/").status == 303


def test_a_wrong_password_is_refused_and_slowed_down(console: Console) -> None:
    visitor = Visitor("127.0.0.1", console.ports["console"])
    try:
        answers = [visitor.log_in("nobody-there", "a bad password") for _ in range(7)]
        assert answers[0].status == 403
        assert answers[-1].status == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert "user or password is wrong" in answers[0].text
    finally:
        console.state.throttle.passed("address 127.0.0.1", "user nobody-there")


def test_a_login_needs_its_own_form(console: Console) -> None:
    visitor = Visitor("127.0.0.1", console.ports["console"])
    form = {"user": "admin", "password": "a good password", "csrf": "x"}
    assert visitor.ask("POST", "/login", form).status == 403
    assert visitor.ask("POST", "/login", form, {"origin": "http://evil.example"}).status == 403


def test_a_login_leads_nowhere_else() -> None:
    assert local("/topics?q=1") == "/topics?q=1"
    for path in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", ""):
        assert local(path) == "/"
    assert local("/a\\b") == "/"
    assert local("/a\nb") == "/"


def test_a_form_has_a_bound(admin: Visitor) -> None:
    token = admin.token()
    assert admin.ask("POST", "/topics", {"csrf": token, "name": "x" * (2 << 20)}).status == 413
    many = [("csrf", token), *((f"f{n}", "") for n in range(3_000))]
    assert admin.ask("POST", "/topics", many).status == 413
    typed = {"content-type": "application/json"}
    assert admin.ask("POST", "/topics", {"csrf": token}, typed).status == 415


def test_origins_are_compared_whole() -> None:
    assert not is_foreign({"host": "a:1", "origin": "http://a:1"})
    assert is_foreign({"host": "a:1", "origin": "http://a:2"})
    assert is_foreign({"host": "a:1", "origin": "null"})
    assert is_foreign({"host": "a:1", "origin": "http://a:1", "sec-fetch-site": "cross-site"})
    assert not is_foreign({"host": "a:1", "origin": "null", "sec-fetch-site": "same-origin"})
    assert not is_token("", "")
    assert is_token("x", "x")


def test_sessions_end_by_themselves() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    user = User("u", Role.READER, "")
    token = sessions.begin(user)
    now[0] = IDLE_S - 1
    assert sessions.find(token) is not None
    now[0] += IDLE_S + 1
    assert sessions.find(token) is None
    token = sessions.begin(user)
    for _ in range(int(LIFE_S // IDLE_S) + 2):
        now[0] += IDLE_S - 1
        found = sessions.find(token)
    assert found is None
    tokens = [sessions.begin(user) for _ in range(1_100)]
    assert sum(sessions.find(each) is not None for each in tokens) == 1_000


def test_failures_slow_down_and_are_forgotten() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for _ in range(Throttle.FREE - 1):
        throttle.failed("a")
    assert throttle.wait_s("a", "b") == 0
    throttle.failed("a")
    assert throttle.wait_s("a", "b") > 0
    for _ in range(20):
        throttle.failed("a")
    assert throttle.wait_s("a") == Throttle.WAIT_MAX_S
    throttle.passed("a")
    assert throttle.wait_s("a") == 0
    for number in range(Throttle.KEPT_MAX + 10):
        throttle.failed(str(number))
    assert len(throttle._failed) == Throttle.KEPT_MAX


def test_users_are_kept_with_their_hashes_alone(tmp_path: Path) -> None:
    users = Users(tmp_path / "deep" / "users.json")
    password = users.begin()
    assert password is not None
    assert users.begin() is None
    path = tmp_path / "deep" / "users.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert password not in path.read_text()
    found = users.checked("admin", password)
    assert found is not None
    assert found.role is Role.ADMIN
    assert users.checked("admin", password + "x") is None
    assert users.checked("nobody", password) is None
    with pytest.raises(UsageError):
        users.put("a b", Role.READER, "long enough")
    with pytest.raises(UsageError):
        users.put("short", Role.READER, "short")
    assert users.remove("admin")
    assert not users.remove("admin")
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        users.all()
    path.chmod(0o600)
    path.write_text("[]")
    with pytest.raises(ConfigurationError, match="no file of users"):
        users.all()


def test_the_audit_has_every_change_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(2):
        Audit(path).note(
            user="u",
            role="admin",
            address="127.0.0.1",
            what="topic create",
            on=f"t{number}",
            outcome="done",
            fields={"password": "hidden", "name": "t"},
        )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["before"] == ""
    assert second["before"] != ""
    assert "hidden" not in path.read_text()
    assert [row["on"] for row in Audit(path).rows()] == ["t1", "t0"]
    # Neither a time (`2026-11-27T00:30`) nor a hash is found by the name of a topic.
    for row, hour in ((first, "00"), (second, "10")):
        row["time"] = f"2026-11-27T{hour}:30:00.000+00:00"
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    assert [row["on"] for row in Audit(path).rows("T0")] == ["t0"]
    assert [row["on"] for row in Audit(path).rows("T1")] == ["t1"]
    assert [row["on"] for row in Audit(path).rows("2026-11-27 10:30")] == ["t1"]
    assert Audit(path).rows(second["before"]) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.org"])
def test_a_wide_address_needs_tls_or_a_proxy(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match="readable on the way"):
        ConsoleSettings(namesrv="127.0.0.1:1", data=tmp_path, host=host).check()
    ConsoleSettings(namesrv="127.0.0.1:1", data=tmp_path, host=host, proxies=("10.0.0.9",)).check()
    for fine in ("127.0.0.1", "::1", "localhost"):
        ConsoleSettings(namesrv="127.0.0.1:1", data=tmp_path, host=fine).check()


def test_a_live_view_ends_with_its_login(console: Console, admin: Visitor) -> None:
    connection = HTTPConnection("127.0.0.1", console.ports["console"], timeout=30)
    cookies = {"cookie": f"mqcore={admin.cookies['mqcore']}"}
    connection.request("GET", "/topics/nothing-yet/live/events", headers=cookies)
    stream = connection.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.readline() == b"retry: 2000\n"
    assert console.state.streams == 1
    assert admin.ask("POST", "/logout", {"csrf": admin.token()}).status == 303
    # There is no such topic: nothing but that came, and then the end.
    assert b"event: message" not in stream.read()
    connection.close()
    again = HTTPConnection("127.0.0.1", console.ports["console"], timeout=30)
    again.request("GET", "/topics/nothing-yet/live/events", headers=cookies)
    assert again.getresponse().status == 403
    again.close()
