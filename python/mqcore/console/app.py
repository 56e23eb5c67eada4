"""The application: from a request to a page or a change, by the tables of `routes`.

Checks who asks and from where, reads forms within bounds, writes responses. Knows no page.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from mqcore.admin import Admin
from mqcore.clock import monotonic_s, wall_ms
from mqcore.console.asking import Kept, Questions, Silences
from mqcore.console.audit import Audit
from mqcore.console.guard import Guarded, is_foreign, is_token
from mqcore.console.history import History
from mqcore.console.live import LIVE_MAX, Wanted, live_events
from mqcore.console.rendering import Rendering
from mqcore.console.requests import download, form_of, here, local, peer_of
from mqcore.console.routes import CHANGES, MENU, PAGES
from mqcore.console.sending import Sending
from mqcore.console.sessions import Session, Sessions
from mqcore.console.settings import ConsoleSettings
from mqcore.console.users import Role, Throttle, Users
from mqcore.console.views import Asked, Change, Page, View
from mqcore.errors import MQError, NameServerError

__all__ = ["State", "application", "routes_of"]

_LOGIN_COOKIE: Final = "mqcore_login"
_THEMES: Final = ("light", "dark")
_YEAR_S: Final = 365 * 86_400
# Hashing a password takes memory and time: so many at once.
_LOGINS_AT_ONCE: Final = 2
# Questions of a change: a client may be asked, and thousands of messages sent.
_CHANGE_S: Final = 60.0

_Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(slots=True)
class State:
    """What the application works with.

    Attributes:
        settings: The settings.
        admin: The way to the cluster.
        users: Who may log in.
        audit: The audit log.
        history: Figures of the last hours.
        sending: The producer.
    """

    settings: ConsoleSettings
    admin: Admin
    users: Users
    audit: Audit
    history: History
    sending: Sending
    sessions: Sessions = field(default_factory=lambda: Sessions(monotonic_s))
    throttle: Throttle = field(default_factory=lambda: Throttle(monotonic_s))
    silences: Silences = field(default_factory=Silences)
    kept: Kept = field(default_factory=Kept)
    rendering: Rendering = field(default_factory=Rendering)
    logins: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_LOGINS_AT_ONCE))
    streams: int = 0

    def questions(self, page_s: float | None = None) -> Questions:
        """Returns the questions of one page."""
        settings = self.settings
        return Questions(
            self.admin,
            self.silences,
            self.kept,
            question_s=settings.question_s,
            page_s=page_s or settings.page_s,
        )

    @property
    def cookie(self) -> str:
        """The name of the cookie of a login."""
        return "__Host-mqcore" if self.settings.is_secure else "mqcore"


def application(state: State) -> ASGIApp:
    """Returns the application."""
    served = _Served(state)
    static = Mount("/static", StaticFiles(packages=[("mqcore.console", "static")]))
    handlers: Mapping[Any, Any] = {HTTPException: served.refused, MQError: served.failed}
    app = Starlette(routes=[static, *_routes(served)], exception_handlers=handlers)
    return Guarded(app, is_secure=state.settings.is_secure)


def routes_of(state: State) -> list[Route]:
    """Returns what is served, but for files of /static: in the order in which paths are tried."""
    return _routes(_Served(state))


def _routes(served: "_Served") -> list[Route]:
    return [
        Route("/login", served.login_page, methods=["GET"]),
        Route("/login", served.login, methods=["POST"]),
        Route("/logout", served.logout, methods=["POST"]),
        Route("/theme", served.theme, methods=["POST"]),
        Route("/topics/{topic:path}/live/events", served.events, methods=["GET"]),
        *(Route(each.path, served.change(each), methods=["POST"]) for each in CHANGES),
        *(Route(each.path, served.page(each), methods=["GET"]) for each in PAGES),
    ]


class _Served:
    """The endpoints."""

    def __init__(self, state: State) -> None:
        self._state = state

    # Pages.

    def page(self, page: Page) -> _Endpoint:
        """Returns the endpoint of a page."""

        async def endpoint(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return self._to_login(request)
            if session.role < page.role:
                raise HTTPException(403, f"this page is for the role {page.role.text}")
            asks = self._state.questions()
            asked = self._asked(request, session, asks)
            try:
                view = await page.make(asked)
            except MQError as error:
                return self._fault(request, session, asks, error)
            if view.download:
                return download(view)
            return self._written(request, session, asks, view)

        return endpoint

    def _asked(
        self,
        request: Request,
        session: Session,
        asks: Questions,
        form: Mapping[str, str] | None = None,
        chosen: tuple[str, ...] = (),
    ) -> Asked:
        state = self._state
        return Asked(
            parts={name: str(value) for name, value in request.path_params.items()},
            query=dict(request.query_params),
            form=form or {},
            chosen=chosen,
            role=session.role,
            questions=asks,
            history=state.history,
            audit=state.audit,
            sending=state.sending,
            namesrv=state.settings.namesrv,
            now_ms=wall_ms(),
        )

    def _written(
        self, request: Request, session: Session | None, asks: Questions | None, view: View
    ) -> Response:
        faults = asks.faults if asks is not None else []
        if "application/json" in request.headers.get("accept", ""):
            text = self._state.rendering.json(view, faults)
            return Response(text, view.status, media_type="application/json")
        return HTMLResponse(
            self._state.rendering.page(view, self._context(request, session, faults)), view.status
        )

    def _context(self, request: Request, session: Session | None, faults: Any) -> dict[str, Any]:
        theme = request.cookies.get("theme", "")
        role = session.role if session else Role.READER
        return {
            "user": session.user if session else "",
            "visitor_role": role.text,
            "may_operate": session is not None and role >= Role.OPERATOR,
            "may_admin": session is not None and role >= Role.ADMIN,
            "csrf": session.csrf if session else "",
            "notices": session.taken_notices() if session else [],
            "faults": faults,
            "menu": [row for row in MENU if row[0] != "/audit" or role >= Role.ADMIN],
            "path": request.url.path,
            "here": here(request),
            "args": dict(request.query_params),
            "theme": theme if theme in _THEMES else "",
            "namesrv": self._state.settings.namesrv,
            "now_ms": wall_ms(),
        }

    def _fault(
        self,
        request: Request,
        session: Session | None,
        asks: Questions | None,
        error: MQError,
        status: int = 404,
    ) -> Response:
        data = {"text": error.message, "back": request.headers.get("referer", "")}
        view = View(
            "fault.html",
            "That did not work",
            data,
            503 if isinstance(error, NameServerError) else status,
        )
        return self._written(request, session, asks, view)

    # Changes.

    def change(self, change: Change) -> _Endpoint:
        """Returns the endpoint of a change: its plan first, and the act once it was confirmed."""

        async def endpoint(request: Request) -> Response:
            session, form, chosen = await self._checked(request, change.role)
            asks = self._state.questions(_CHANGE_S)
            asked = self._asked(request, session, asks, form, chosen)
            try:
                plan = await change.plan(asked)
                if form.get("step") != "act" or (
                    plan.confirm and form.get("confirm", "").strip() != plan.confirm
                ):
                    return self._planned(request, session, asks, change, plan, form, chosen)
                return await self._act(request, session, asked, change)
            except MQError as error:
                return self._fault(request, session, asks, error, 400)

        return endpoint

    def _planned(
        self,
        request: Request,
        session: Session,
        asks: Questions,
        change: Change,
        plan: Any,
        form: Mapping[str, str],
        chosen: tuple[str, ...],
    ) -> Response:
        hidden = [(k, v) for k, v in form.items() if k not in ("csrf", "step", "confirm", "chosen")]
        hidden += [("chosen", each) for each in chosen]
        is_again = form.get("step") == "act"
        data = {"plan": plan, "hidden": hidden, "is_mistyped": is_again, "name": change.name}
        return self._written(request, session, asks, View("plan.html", plan.title, data))

    async def _act(
        self, request: Request, session: Session, asked: Asked, change: Change
    ) -> Response:
        on = (
            " ".join(asked.parts.values())
            or asked.form.get("name", "")
            or asked.form.get("key", "")
        )
        try:
            done = await change.act(asked)
        except MQError as error:
            self._note(request, session, change.name, on, error.message, asked.form)
            raise
        finally:
            asked.questions.changed()
        self._note(request, session, change.name, on, "done", asked.form)
        session.note(done.text)
        return RedirectResponse(done.url, 303)

    def _note(
        self,
        request: Request,
        session: Session,
        what: str,
        on: str,
        outcome: str,
        form: Mapping[str, str],
    ) -> None:
        fields = {k: v for k, v in form.items() if k not in ("step", "csrf", "confirm")}
        self._state.audit.note(
            user=session.user,
            role=session.role.text,
            address=peer_of(request),
            what=what,
            on=on,
            outcome=outcome,
            fields=fields,
        )

    async def _checked(
        self, request: Request, role: Role
    ) -> tuple[Session, dict[str, str], tuple[str, ...]]:
        """Returns who changes something, and the form.

        Raises:
            HTTPException: They may not: 403; the form is too large: 413.
        """
        if is_foreign(request.headers):
            raise HTTPException(403, "a change has to come from a page of this console")
        session = self._session(request)
        if session is None:
            raise HTTPException(403, "nobody is logged in")
        pairs = await form_of(request)
        form = dict(pairs)
        if not is_token(form.get("csrf", ""), session.csrf):
            raise HTTPException(403, "the form is not of this login: load its page again")
        if session.role < role:
            raise HTTPException(403, f"this change is for the role {role.text}")
        return session, form, tuple(value for name, value in pairs if name == "chosen")

    # Logins.

    def _session(self, request: Request) -> Session | None:
        return self._state.sessions.find(request.cookies.get(self._state.cookie, ""))

    def _to_login(self, request: Request) -> Response:
        if "application/json" in request.headers.get("accept", ""):
            raise HTTPException(401, "nobody is logged in")
        to = here(request)
        return RedirectResponse("/login" if to == "/" else f"/login?to={quote(to, safe='')}", 303)

    async def login_page(self, request: Request) -> Response:
        """Returns the form of a login."""
        return self._loginform_of(request, "")

    def _loginform_of(self, request: Request, fault: str, status: int = 200) -> Response:
        nonce = secrets.token_urlsafe(16)
        data = {
            "to": local(request.query_params.get("to", "/")),
            "token": self._state.sessions.login_token(nonce),
            "fault": fault,
        }
        response = self._written(request, None, None, View("login.html", "Log in", data, status))
        self._set(response, _LOGIN_COOKIE, nonce)
        return response

    async def login(self, request: Request) -> Response:
        """Logs somebody in."""
        state = self._state
        form = dict(await form_of(request))
        nonce = request.cookies.get(_LOGIN_COOKIE, "")
        known = state.sessions.login_token(nonce) if nonce else ""
        if is_foreign(request.headers) or not is_token(form.get("csrf", ""), known):
            raise HTTPException(403, "the form is not of this console: load the page again")
        name, peer = form.get("user", "")[:64], peer_of(request)
        keys = (f"user {name}", f"address {peer}")
        wait_s = state.throttle.wait_s(*keys)
        if wait_s > 0:
            response = self._loginform_of(request, f"too many tries: wait {wait_s:.0f} s", 429)
            response.headers["retry-after"] = str(int(wait_s) + 1)
            return response
        async with state.logins:
            user = await asyncio.to_thread(state.users.checked, name, form.get("password", ""))
        outcome = "refused" if user is None else "done"
        state.audit.note(
            user=name,
            role=user.role.text if user else "",
            address=peer,
            what="login",
            on="",
            outcome=outcome,
        )
        if user is None:
            state.throttle.failed(*keys)
            return self._loginform_of(request, "user or password is wrong", 403)
        state.throttle.passed(*keys)
        # A cookie that was there before is of no use any more.
        state.sessions.end(request.cookies.get(state.cookie, ""))
        response = RedirectResponse(local(form.get("to", "/")), 303)
        self._set(response, state.cookie, state.sessions.begin(user))
        response.delete_cookie(_LOGIN_COOKIE, path="/")
        return response

    async def logout(self, request: Request) -> Response:
        """Logs out."""
        await self._checked(request, Role.READER)
        self._state.sessions.end(request.cookies.get(self._state.cookie, ""))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(self._state.cookie, path="/")
        return response

    async def theme(self, request: Request) -> Response:
        """Keeps the choice of colours."""
        _, form, _ = await self._checked(request, Role.READER)
        response = RedirectResponse(local(form.get("to", "/")), 303)
        chosen = form.get("theme", "")
        if chosen in _THEMES:
            self._set(response, "theme", chosen, max_age=_YEAR_S)
        else:
            response.delete_cookie("theme", path="/")
        return response

    def _set(self, response: Response, name: str, value: str, max_age: int | None = None) -> None:
        response.set_cookie(
            name,
            value,
            max_age=max_age,
            path="/",
            httponly=True,
            secure=self._state.settings.is_secure,
            samesite="strict",
        )

    # Streams.

    async def events(self, request: Request) -> Response:
        """Returns the stream of a topic's messages."""
        if self._session(request) is None:
            raise HTTPException(403, "nobody is logged in")
        state = self._state
        if state.streams >= LIVE_MAX:
            raise HTTPException(429, f"{LIVE_MAX} live views are open: close one")
        query = request.query_params
        cookie = request.cookies.get(state.cookie, "")
        source = live_events(
            state.admin,
            request.path_params["topic"],
            Wanted(*(query.get(name, "").strip() for name in ("tag", "text", "sql"))),
        )

        async def counted() -> AsyncIterator[str]:
            state.streams += 1
            try:
                async for each in source:
                    # Who logs out, or is idle for too long, sees no more.
                    if not state.sessions.is_logged_in(cookie):
                        break
                    yield each
            finally:
                state.streams -= 1

        return StreamingResponse(counted(), media_type="text/event-stream")

    # Errors.

    async def refused(self, request: Request, error: Exception) -> Response:
        """Returns the page of a refusal."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = error.detail if isinstance(error, HTTPException) else ""
        text = "there is no such page" if status == 404 else str(detail)
        data = {"text": text, "back": ""}
        view = View("fault.html", "That did not work", data, status)
        return self._written(request, self._session(request), None, view)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Returns the page of an error that no page expected."""
        known = error if isinstance(error, MQError) else MQError(str(error))
        return self._fault(request, self._session(request), None, known)
