"""Who is logged in: kept here, named by a random cookie. Lost when the console ends, on purpose.

Knows no request. Times are of a monotonic clock that is passed in.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mqcore.console.users import Role, User

__all__ = ["Session", "Sessions"]

IDLE_S: Final = 30 * 60.0
LIFE_S: Final = 12 * 3_600.0
# Each is some hundred bytes; the oldest is ended where there would be more.
SESSIONS_MAX: Final = 1_000
_TOKEN_BYTES: Final = 32
_NOTICES_MAX: Final = 8


@dataclass(slots=True)
class Session:
    """One login.

    Attributes:
        user: Who.
        role: What they may do.
        csrf: What every form of theirs has to hold.
        began_s: When they logged in.
        seen_s: When they last asked for something.
        notices: What the next page is to show once.
    """

    user: str
    role: Role
    csrf: str
    began_s: float
    seen_s: float
    notices: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keeps a text for the next page."""
        self.notices = [*self.notices, text][-_NOTICES_MAX:]

    def taken_notices(self) -> list[str]:
        """Returns the texts for this page, and forgets them."""
        taken, self.notices = self.notices, []
        return taken


class Sessions:
    """The logins of one console."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Takes a clock, seconds."""
        self._now = now
        self._key = secrets.token_bytes(_TOKEN_BYTES)
        # By the hash of the cookie: what is in memory does not log anybody in.
        self._by_hash: dict[bytes, Session] = {}

    def begin(self, user: User) -> str:
        """Logs somebody in; returns the cookie."""
        now = self._now()
        for key in [key for key, each in self._by_hash.items() if self._is_over(each)]:
            del self._by_hash[key]
        while len(self._by_hash) >= SESSIONS_MAX:
            del self._by_hash[min(self._by_hash, key=lambda key: self._by_hash[key].seen_s)]
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        csrf = secrets.token_urlsafe(_TOKEN_BYTES)
        self._by_hash[_hash(token)] = Session(user.name, user.role, csrf, now, now)
        return token

    def find(self, token: str) -> Session | None:
        """Returns the login that a cookie names, None for none or one that is over."""
        session = self._by_hash.get(_hash(token))
        if session is None:
            return None
        if self._is_over(session):
            self.end(token)
            return None
        session.seen_s = self._now()
        return session

    def is_logged_in(self, token: str) -> bool:
        """Returns whether a cookie names a login; looking does not make it last longer."""
        session = self._by_hash.get(_hash(token))
        return session is not None and not self._is_over(session)

    def end(self, token: str) -> None:
        """Logs out."""
        self._by_hash.pop(_hash(token), None)

    def login_token(self, nonce: str) -> str:
        """Returns what the form of a login has to hold, by a cookie that its page has set."""
        return hmac.new(self._key, nonce.encode(), hashlib.sha256).hexdigest()

    def _is_over(self, session: Session) -> bool:
        now = self._now()
        return now - session.seen_s > IDLE_S or now - session.began_s > LIFE_S


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
