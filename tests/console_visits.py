"""A visitor of a console over real HTTP: cookies, forms, what a page holds. Runs no script.

visitor = Visitor("127.0.0.1", port)
visitor.log_in("admin", password)
page = visitor.page("/topics")
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Form:
    """A form of a page.

    Attributes:
        action: Where it goes; empty for the page itself.
        fields: Its fields with their values.
    """

    action: str
    fields: dict[str, str] = field(default_factory=dict)


class Document(HTMLParser):
    """What a page holds.

    Attributes:
        forms: Its forms that are posted.
        text: Its text.
        links: Where its links lead.
        headings: Texts of its headings of the first level.
        faults: What must not be there: scripts and styles within, handlers, fields without a label.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.faults: list[str] = []
        self._texts: list[str] = []
        self._labelled: set[str] = set()
        self._fields: list[tuple[str, Mapping[str, str]]] = []
        self._labels = 0
        self._form: Form | None = None
        self._heading = False
        self.feed(html)
        for tag, found in self._fields:
            if found.get("id") not in self._labelled and "aria-label" not in found:
                self.faults.append(f"{tag} {found.get('name')} without a label")
        if len(self.headings) != 1:
            self.faults.append(f"{len(self.headings)} headings of the first level")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._look_for_code(tag, found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "h1":
            self._heading = True
            self.headings.append("")
        if tag == "form" and found.get("method") == "post":
            self._form = Form(found.get("action", ""))
            self.forms.append(self._form)
        if tag == "label":
            self._labels += 1
            if "for" in found:
                self._labelled.add(found["for"])
        if tag in ("input", "select", "textarea"):
            is_seen = found.get("type") not in ("hidden", "submit")
            if is_seen and not self._labels:
                self._fields.append((tag, found))
            if self._form is not None and "name" in found and found.get("type") != "checkbox":
                self._form.fields.setdefault(found["name"], found.get("value", ""))

    def _look_for_code(self, tag: str, found: Mapping[str, str]) -> None:
        for name in found:
            if name.startswith("on") or name == "style":
                self.faults.append(f"{tag} has {name}")
        is_own = tag == "script" and found.get("src", "").startswith("/static/")
        if tag in ("style", "script") and not is_own:
            self.faults.append(f"a {tag} that is not of /static")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if tag == "label":
            self._labels -= 1
        if tag == "h1":
            self._heading = False

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._heading:
            self.headings[-1] += data

    def form(self, action: str) -> Form:
        """Returns the form that goes to a path."""
        return next(each for each in self.forms if each.action == action)


@dataclass(slots=True)
class Answer:
    """A response.

    Attributes:
        status: Its status.
        headers: Its headers, names in lower case.
        body: Its body.
        took_s: How long it took.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    cookies: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def document(self) -> Document:
        """The body as a page."""
        return Document(self.text)

    @property
    def data(self) -> Any:
        """The data of the page."""
        return json.loads(self.body)["data"]


class Visitor:
    """Somebody with a browser without scripts."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.cookies: dict[str, str] = {}

    def ask(
        self,
        method: str,
        path: str,
        form: Mapping[str, str] | list[tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Sends one request; follows nothing."""
        connection = HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        sent = {"cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        body = None
        if form is not None:
            body = urlencode(form)
            sent["content-type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, {**sent, **(headers or {})})
        response = connection.getresponse()
        cookies = [value for name, value in response.getheaders() if name.lower() == "set-cookie"]
        found = {name.lower(): value for name, value in response.getheaders()}
        answer = Answer(response.status, found, response.read(), cookies)
        connection.close()
        for each in cookies:
            name, _, rest = each.partition("=")
            self.cookies[name] = rest.partition(";")[0].strip('"')
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        """Gets a path."""
        return self.ask("GET", path, headers=headers)

    def page(self, path: str) -> Answer:
        """Gets a page that has to be well made; returns it."""
        answer = self.get(path)
        assert answer.status == 200, (path, answer.status, answer.text[-2_000:])
        assert answer.document.faults == [], path
        return answer

    def json(self, path: str) -> Any:
        """Gets the data of a page."""
        answer = self.get(path, accept="application/json")
        assert answer.status == 200, (path, answer.text)
        return answer.data

    def log_in(self, user: str, password: str) -> Answer:
        """Logs in; returns the response to the form."""
        form = self.get("/login").document.form("/login")
        return self.ask("POST", "/login", form.fields | {"user": user, "password": password})

    def token(self) -> str:
        """Returns the token of this login."""
        return self.get("/help").document.form("/logout").fields["csrf"]

    def plan(self, path: str, **fields: str) -> Answer:
        """Sends the form of a change; returns its plan."""
        return self.ask("POST", path, {"csrf": self.token(), **fields})

    def change(self, path: str, **fields: str) -> Answer:
        """Sends the form of a change, then that of its plan; returns the page that follows."""
        planned = self.plan(path, **fields)
        assert planned.status == 200, planned.text[-2_000:]
        assert planned.document.faults == []
        form = next(each for each in planned.document.forms if each.fields.get("step") == "act")
        confirm = fields.get("confirm", "")
        done = self.ask("POST", path, form.fields | ({"confirm": confirm} if confirm else {}))
        assert done.status == 303, done.document.text
        return self.page(done.headers["location"])
