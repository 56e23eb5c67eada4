"""Users and policies as tools see them: made, changed, deleted, listed, as 5.3 answers it.

A Super user is made, changed and deleted by a Super user alone, and passwords are answered to one
alone. A slave has its tables from its master: what a tool asks it for (`-c` asks all brokers of a
cluster) is done there. Knows no file and no decision.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, Final

from mqcore.access import Acl, Resource, User
from mqcore.access.model import user_of_subject
from mqcore.access.tables import policy_kind
from mqcore.broker.access_changes import AccessChanges
from mqcore.broker.processors.bodies import object_of
from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError, RefusedError
from mqcore.model.reading import as_list, as_text
from mqcore.model.relaxed_json import compact, parse_object
from mqcore.native import Command
from mqcore.remoting import Handler, OwnRequestCode, Request, RequestCode, ResponseCode

__all__ = ["AccessAdmin"]

# Official texts.
_BLANK: Final = "The username is blank"
_NO_BODY: Final = "The body of acl is null"
_NO_SUBJECT: Final = "The subject is null."
_FAILED: Final = "An system error occurred, please try again later."
_SUPER_MADE: Final = "The super user can only be create by super user"
_SUPER_CHANGED: Final = "The super user can only be update by super user"


class AccessAdmin:
    """Serves the requests about users and policies."""

    def __init__(self, state: BrokerState, changes: AccessChanges) -> None:
        """Takes what it works on."""
        self._state = state
        self._changes = changes

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the codes served here."""
        return {
            RequestCode.AUTH_CREATE_USER: self.create_user,
            RequestCode.AUTH_UPDATE_USER: self.update_user,
            RequestCode.AUTH_DELETE_USER: self.delete_user,
            RequestCode.AUTH_GET_USER: self.user,
            RequestCode.AUTH_LIST_USER: self.users,
            RequestCode.AUTH_CREATE_ACL: self.put_acl,
            RequestCode.AUTH_UPDATE_ACL: self.put_acl,
            RequestCode.AUTH_DELETE_ACL: self.delete_acl,
            RequestCode.AUTH_GET_ACL: self.acl,
            RequestCode.AUTH_LIST_ACL: self.acls,
        }

    def own_handlers(self) -> Mapping[int, Handler]:
        """Returns the codes of mqcore alone that are served here."""
        return {
            OwnRequestCode.ACCESS_TABLES: self.tables,
            OwnRequestCode.ACCESS_EXPLAINED: self.explained,
            OwnRequestCode.ACCESS_REFUSALS: self.refusals,
        }

    # Who asks.

    def _super(self, request: Request) -> bool:
        """Returns whether a Super user asks, whose signature was checked."""
        access = self._state.access
        if access.is_enforced:
            return access.is_super(request.user)
        user = access.signer_of(request.command)
        return user is not None and user.is_super

    def _may_change_supers(self, request: Request) -> bool:
        """Returns whether it may: also an unsigned request, where nobody is asked for a signature.

        And the first Super user is made by anybody, until there is one.
        """
        access = self._state.access
        if self._super(request):
            return True
        if access.is_enforced:
            return False
        return not request.ext.get("AccessKey") or not access.tables.has_super

    # Users.

    def create_user(self, request: Request) -> Awaitable[Command]:
        """3001: makes a user."""
        user = _user_in(request)
        if user.is_super and not self._may_change_supers(request):
            raise RefusedError(_SUPER_MADE, code=ResponseCode.SYSTEM_ERROR)
        return self._changes.make_user(request, user)

    def update_user(self, request: Request) -> Awaitable[Command]:
        """3002: changes secret, kind or status; what is empty stays."""
        user = _user_in(request)
        if user.is_super and not self._may_change_supers(request):
            raise RefusedError(_SUPER_CHANGED, code=ResponseCode.SYSTEM_ERROR)
        self._check_of_super(request, user.name)
        return self._changes.change(request, lambda tables: tables.with_changed(user))

    def delete_user(self, request: Request) -> Awaitable[Command]:
        """3003: deletes a user with its policies; one that is not there is deleted already."""
        name = request.ext.get("username", "")
        self._check_of_super(request, name)
        return self._changes.change(request, lambda tables: tables.without_user(name))

    def _check_of_super(self, request: Request, name: str) -> None:
        old = self._state.access.tables.users.get(name)
        if old is not None and old.is_super and not self._may_change_supers(request):
            raise RefusedError(_SUPER_CHANGED, code=ResponseCode.NO_PERMISSION)

    def user(self, request: Request) -> Command:
        """3004: one user; without a body where there is none."""
        name = request.ext.get("username", "")
        if not name.strip():
            raise RefusedError(_BLANK, code=ResponseCode.INVALID_PARAMETER)
        found = self._state.access.tables.users.get(name)
        if found is None:
            return request.answer()
        return request.answer(body=compact(found.to_json(with_secret=self._super(request))))

    def users(self, request: Request) -> Command:
        """3005: the users whose name has a part; without a body where there is none."""
        found = self._state.access.tables.users_like(request.ext.get("filter", ""))
        with_secret = self._super(request)
        rows = [user.to_json(with_secret=with_secret) for user in found]
        return request.answer(body=compact(rows) if rows else b"")

    # Policies.

    async def put_acl(self, request: Request) -> Command:
        """3006, 3007: merges policies into those of their user, entry by entry."""
        try:
            found = await object_of(request)
        except BadJsonError:
            found = {}
        if not as_list(found.get("policies")):
            raise RefusedError(_NO_BODY, code=ResponseCode.SYSTEM_ERROR)
        name = user_of_subject(as_text(found.get("subject")) or request.ext.get("subject", ""))
        if name is None:
            raise RefusedError(_FAILED, code=ResponseCode.SYSTEM_ERROR)
        acl = Acl.of_json(found, name)
        return await self._changes.change(request, lambda tables: tables.with_policies(acl))

    def delete_acl(self, request: Request) -> Awaitable[Command]:
        """3008: deletes the entry of a resource, or all policies of a user."""
        ext = request.ext
        name = user_of_subject(ext.get("subject", ""))
        if name is None:
            raise RefusedError(_NO_SUBJECT, code=ResponseCode.NO_PERMISSION)
        kind, resource = policy_kind(ext.get("policyType", "")), ext.get("resource", "").strip()
        about = Resource.of_text(resource) if resource else None
        if resource and about is None:
            # Officially it is as if none was named: then everything would be deleted.
            raise RefusedError(
                f"{resource} is no resource: Topic:NAME is one", code=ResponseCode.NO_PERMISSION
            )
        return self._changes.delete_policies(
            request, name, lambda tables: tables.without_policies(name, kind, about)
        )

    def acl(self, request: Request) -> Command:
        """3009: the policies of a user; without a body where there are none."""
        name = user_of_subject(request.ext.get("subject", ""))
        if name is None:
            raise RefusedError(_FAILED, code=ResponseCode.SYSTEM_ERROR)
        found = self._state.access.tables.policies_of(name)
        return request.answer(body=compact(found.to_json()) if found is not None else b"")

    def acls(self, request: Request) -> Command:
        """3010: policies by parts of subject and resource; without a body where there are none."""
        ext = request.ext
        found = self._state.access.tables.acls_like(
            ext.get("subjectFilter", ""), ext.get("resourceFilter", "")
        )
        rows = [acl.to_json() for acl in found]
        return request.answer(body=compact(rows) if rows else b"")

    # Of mqcore alone.

    def tables(self, request: Request) -> Command:
        """ACCESS_TABLES: everything, for a slave: its broker signs as a Super user."""
        if not self._super(request) and self._state.access.is_enforced:
            raise RefusedError(
                "users and policies are given to a Super user", code=ResponseCode.NO_PERMISSION
            )
        tables = self._state.access.tables
        body = {
            "acls": [acl.to_json() for acl in tables.acls.values()],
            "users": [user.to_json(with_secret=True) for user in tables.users.values()],
        }
        return request.answer(body=compact(body))

    def explained(self, request: Request) -> Command:
        """ACCESS_EXPLAINED: whether a user may do something, and by which entry.

        `{"allowed", "why", "matched": [{"policy", "resource", "actions", "sources", "decision"}]}`,
        the entries in the order of precedence.
        """
        user, resource = request.field("username"), request.field("resource")
        source, actions = request.ext.get("source", ""), request.integer("actions", bits=16)
        engine = self._state.access.engine
        try:
            found = engine.explain(user, source or request.link.peer_host, resource, actions)
        except ValueError as error:
            raise RefusedError(str(error), code=ResponseCode.SYSTEM_ERROR) from error
        matched = [
            {
                "policy": each.policy,
                "resource": each.resource,
                "actions": each.actions,
                "sources": each.sources,
                "decision": each.decision,
            }
            for each in found.matched
        ]
        body: dict[str, Any] = {
            "allowed": found.is_allowed,
            "why": found.why,
            "matched": matched,
            "authenticates": self._state.access.authenticates,
            "authorizes": self._state.access.settings.authorizes,
            "dryRun": self._state.access.settings.is_dry_run,
        }
        return request.answer(body=compact(body))

    def refusals(self, request: Request) -> Command:
        """ACCESS_REFUSALS: what was refused, or would have been, counted by what it was about."""
        return request.answer(body=compact(self._state.access_log.to_json()))


def _user_in(request: Request) -> User:
    name = request.ext.get("username", "")
    if not name:
        raise RefusedError(_BLANK, code=ResponseCode.INVALID_PARAMETER)
    return User.of_json(parse_object(request.body), name)
