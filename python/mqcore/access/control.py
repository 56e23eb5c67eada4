"""Access control of one server: its users and policies, their files, and the engine that decides.

    control = AccessControl(settings.access, cluster="DefaultCluster", directory=store / "config")
    control.load()                                            # blocks: at the start
    await control.change(lambda tables: tables.with_new(user))

A change is written before the engine has it, and where it cannot be written nothing has changed.
Belongs to the event loop; the disk is waited for in threads. Knows no request.
"""

import asyncio
import hmac
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mqcore.access.model import User
from mqcore.access.plain_files import PlainFiles
from mqcore.access.provisions import first_users, migrated
from mqcore.access.tables import AccessTables
from mqcore.config import AccessSettings
from mqcore.errors import StateFileError
from mqcore.native import Access, Command
from mqcore.remoting import RULES, signed
from mqcore.remoting.signing import Credentials
from mqcore.state_files import PersistedTable, StateFile

__all__ = ["ACLS_FILE", "USERS_FILE", "AccessControl", "Change", "PlainChange"]

_log = logging.getLogger("mqcore.access")

USERS_FILE: Final = "users.json"
ACLS_FILE: Final = "acls.json"

# Makes new tables of the old ones, or refuses.
Change = Callable[[AccessTables], AccessTables]
# Returns a file of 4.x and its new content, None for nothing to change.
PlainChange = Callable[[PlainFiles], tuple[Path, bytes] | None]


class AccessControl:
    """Who may do what at one server.

    Attributes:
        settings: Its settings; replaced as a whole when a tool changes one.
        tables: Users and policies as they are in force.
        engine: What decides.
        plain: Files of 4.x, where they count.
        changes: How often the tables have changed.
    """

    def __init__(
        self,
        settings: AccessSettings,
        *,
        cluster: str,
        directory: Path,
        is_on: bool | None = None,
        plain: PlainFiles | None = None,
        migrates: PlainFiles | None = None,
    ) -> None:
        """Prepares; nothing is read yet, and nobody is refused anything.

        Args:
            settings: Its settings.
            cluster: The name of the cluster in policies.
            directory: Where the files are, unless the settings have another place.
            is_on: Whether everything is checked, whatever `authenticationEnabled` and
                `authorizationEnabled` are; None to go by them.
            plain: Files of 4.x that decide about whoever is no user here.
            migrates: Files of 4.x whose accounts become users at the start.
        """
        self.settings = settings
        self.tables = AccessTables()
        self.engine = Access(dict(RULES))
        self.plain = plain
        self._migrates = migrates
        self.changes = 0
        self._cluster = cluster
        self._is_on = is_on
        self._changing = asyncio.Lock()
        where = Path(settings.directory) if settings.directory else directory
        self._users_path, self._acls_path = where / USERS_FILE, where / ACLS_FILE
        self._users = PersistedTable(
            StateFile(self._users_path, is_private=True),
            load=self._take_users,
            snapshot=lambda: self._next.users_text,
        )
        self._acls = PersistedTable(
            StateFile(self._acls_path, is_private=True),
            load=self._take_acls,
            snapshot=lambda: self._next.acls_text,
        )
        # What is being written, until it is in force.
        self._next = self.tables

    @property
    def authenticates(self) -> bool:
        """Whether every request must be signed."""
        settings = self.settings
        if self._is_on is not None or self.plain is not None:
            return True
        return settings.authenticates or settings.authorizes

    @property
    def authorizes(self) -> bool:
        """Whether somebody is asked for rights, and pairs of bodies have to be looked at."""
        return self.settings.authorizes or self.plain is not None

    @property
    def is_enforced(self) -> bool:
        """Whether who is no user is refused: requests name their users truly then."""
        settings = self.settings
        if self._is_on is not None:
            return not settings.is_dry_run
        if self.plain is not None:
            return True
        is_dry = settings.is_dry_run or settings.is_like_official
        return settings.authenticates or (settings.authorizes and not is_dry)

    def first_request_s(self) -> float:
        """Returns within how many seconds a connection must show who it is; 0 for no bound."""
        return self.settings.first_request_s if self.is_enforced else 0.0

    def load(self) -> None:
        """Reads the files and makes the users that settings name. Blocks; for the start.

        Raises:
            StateFileError: There is content that cannot be read, also in a file of 4.x.
            ConfigurationError: A user in the settings cannot be read.
            StoreError: A file cannot be written.
        """
        self._users.load()
        self._acls.load()
        if self.plain is not None:
            self.plain.load()
        before = self._next
        made = before.with_first(first_users(self.settings))
        if self._migrates is not None:
            self._migrates.load()
            made = migrated(made, self._migrates.accounts.values())
        self._next = made
        # Policies first: a user that is there is not made again.
        if made.acls != before.acls:
            StateFile(self._acls_path, is_private=True).save(made.acls_text())
        if made.users != before.users:
            StateFile(self._users_path, is_private=True).save(made.users_text())
        self._put_in_force(self._next)
        if self.is_enforced and self.plain is None and not self.tables.has_super:
            _log.warning(
                "requests must be signed, and there is no Super user: nobody can make users. "
                "Set initAuthenticationUser, or run mqcore auth init on %s while this is stopped",
                self._users_path.parent,
            )

    def reload(self) -> bool:
        """Reads the files anew; returns whether anything changed. Blocks; not on the loop.

        Raises:
            StateFileError: There is content that cannot be read; what is in force stays.
        """
        before = self._next
        self._users.load()
        self._acls.load()
        return self._next != before

    def put_read_in_force(self) -> None:
        """Puts in force what `reload` has read."""
        self._put_in_force(self._next)

    @property
    def paths(self) -> tuple[Path, Path]:
        """The files of users and of policies."""
        return self._users_path, self._acls_path

    def apply(self, settings: AccessSettings) -> None:
        """Takes other settings; they count from the next request on."""
        self.settings = settings
        self._put_in_force(self.tables)

    async def change(self, make: Change) -> bool:
        """Makes a change: files first, then the engine; returns whether anything changed.

        Raises:
            RefusedError: It cannot be.
            StoreError: A file cannot be written; nothing has changed.
        """
        async with self._changing:
            before, after = self.tables, make(self.tables)
            if after == before:
                return False
            self._next = after
            try:
                # Policies first: a user that is made again later has none of the one before.
                if after.acls != before.acls:
                    await self._acls.save()
                if after.users != before.users:
                    await self._users.save()
            except BaseException:
                self._next = before
                raise
            self._put_in_force(after)
            return True

    async def follow(self, text: bytes) -> None:
        """Takes the users and policies of a master (`ACCESS_TABLES`).

        Raises:
            BadJsonError: They cannot be read; nothing was taken.
            StoreError: A file cannot be written; nothing has changed.
        """
        tables = AccessTables().with_users_text(text).with_acls_text(text)
        await self.change(lambda _ours: tables)

    async def look_at_plain(self) -> None:
        """Reads files of 4.x anew where they changed; a bad one leaves what there was."""
        plain = self.plain
        if plain is None:
            return
        try:
            if not await asyncio.to_thread(plain.has_changed):
                return
            is_changed = await asyncio.to_thread(plain.reload)
        except StateFileError as error:
            _log.error("accounts of 4.x stay as they were: %s", error.message)
            return
        if is_changed:
            self._put_in_force(self.tables)
            _log.info("accounts of 4.x were read anew")

    async def change_plain(self, make: PlainChange) -> bool:
        """Changes a file of 4.x: written, then in force; returns whether there was what to change.

        Raises:
            StateFileError: It would not be readable; nothing was written.
            StoreError: It cannot be written; nothing has changed.
        """
        plain = self.plain
        assert plain is not None

        def changed() -> bool:
            made = make(plain)
            if made is not None:
                plain.write(*made)
            return made is not None

        async with self._changing:
            is_changed = await asyncio.to_thread(changed)
            if is_changed:
                self._put_in_force(self.tables)
        return is_changed

    def _put_in_force(self, tables: AccessTables) -> None:
        plain = self.plain.rows() if self.plain is not None else None
        users, policies = tables.user_rows(), tables.policy_rows()
        self.engine.replace(users, policies, self._engine_settings(), plain)
        self.tables = self._next = tables
        self.changes += 1

    def _engine_settings(self) -> dict[str, str]:
        settings, is_on = self.settings, self._is_on
        return {
            "authenticate": _flag(settings.authenticates if is_on is None else is_on),
            "authorize": _flag(settings.authorizes if is_on is None else is_on),
            "dry_run": _flag(settings.is_dry_run),
            "like_official": _flag(settings.is_like_official),
            "requires_tls": _flag(settings.requires_tls),
            "super_from": settings.super_from,
            "failures_free": str(settings.failures_free),
            "white_codes_authentication": settings.authentication_free_codes,
            "white_codes_authorization": settings.authorization_free_codes,
            "cluster": self._cluster,
        }

    def _take_users(self, text: bytes) -> None:
        self._next = self._next.with_users_text(text)

    def _take_acls(self, text: bytes) -> None:
        self._next = self._next.with_acls_text(text)

    def is_super(self, name: str) -> bool:
        """Returns whether a name is that of an enabled Super user.

        Or, where files of 4.x decide about it, of an administrator without permissions of its own.
        """
        settings, user = self.settings, self.tables.users.get(name)
        is_asked = self.plain is None or settings.authenticates or settings.authorizes
        if user is not None and is_asked:
            return user.is_super and user.is_enabled
        account = self.plain.accounts.get(name) if self.plain is not None else None
        return account is not None and account.is_full_admin

    def user_of(self, command: Command, certificate_name: str = "") -> User | None:
        """Returns the enabled user who asks, whatever is checked.

        Whose signature the request has; of one that names no user, whom the certificate names.
        """
        if command.ext.get("AccessKey"):
            return self.signer_of(command)
        user = self.tables.users.get(certificate_name)
        return user if user is not None and user.is_enabled else None

    def signer_of(self, command: Command) -> User | None:
        """Returns the enabled user whose signature a request has, whatever is checked."""
        ext = command.ext
        user = self.tables.users.get(ext.get("AccessKey", ""))
        if user is None or not user.is_enabled or not ext.get("Signature"):
            return None
        wanted = signed(Credentials(user.name, user.secret), ext, command.body)["Signature"]
        is_good = hmac.compare_digest(wanted.encode(), ext["Signature"].encode())
        return user if is_good else None


def _flag(value: bool) -> str:
    return "true" if value else "false"
