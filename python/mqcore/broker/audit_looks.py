"""What audited requests are about, as a broker has it: topics, groups, offsets, users, settings.

Looks read tables of the event loop and wait for nothing. Reads no file and writes no line.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mqcore.access import BODY_PAIRS
from mqcore.access.model import user_of_subject
from mqcore.audit import AuditLooks, Look, Resources, Secret, settings_named, settings_now
from mqcore.broker.state import BrokerState
from mqcore.errors import BadJsonError
from mqcore.model.reading import as_text
from mqcore.model.relaxed_json import parse_object
from mqcore.remoting import OwnRequestCode, Request, RequestCode

__all__ = ["audit_looks"]

# Rows of one line: of a list of topics the first.
_ROWS_MAX: Final = 100
_TOPIC, _GROUP = "Topic:", "Group:"


def audit_looks(state: BrokerState) -> AuditLooks:
    """Returns what a broker knows of audited requests."""
    code, looks = RequestCode, _Looks(state)
    by_code: Mapping[int, Look] = {
        code.UPDATE_AND_CREATE_TOPIC: looks.topics,
        code.UPDATE_AND_CREATE_TOPIC_LIST: looks.topics,
        code.UPDATE_AND_CREATE_STATIC_TOPIC: looks.static_topic,
        code.DELETE_TOPIC_IN_BROKER: looks.topics,
        code.UPDATE_BROKER_CONFIG: looks.settings,
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: looks.groups,
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: looks.groups,
        code.DELETE_SUBSCRIPTIONGROUP: looks.groups,
        code.INVOKE_BROKER_TO_RESET_OFFSET: looks.offsets,
        code.CLONE_GROUP_OFFSET: looks.cloned_offsets,
        code.UPDATE_AND_GET_GROUP_FORBIDDEN: looks.forbidden,
        code.SET_MESSAGE_REQUEST_MODE: looks.mode,
        code.AUTH_CREATE_USER: looks.user,
        code.AUTH_UPDATE_USER: looks.user,
        code.AUTH_DELETE_USER: looks.user,
        code.AUTH_CREATE_ACL: looks.policies,
        code.AUTH_UPDATE_ACL: looks.policies,
        code.AUTH_DELETE_ACL: looks.policies,
        OwnRequestCode.HAND_OVER: looks.role,
    }
    in_body = (
        code.UPDATE_AND_CREATE_TOPIC_LIST,
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        code.SET_MESSAGE_REQUEST_MODE,
    )
    resources: dict[int, Resources] = dict.fromkeys(in_body, _named)
    resources[code.UPDATE_BROKER_CONFIG] = settings_named
    resources[code.AUTH_CREATE_ACL] = resources[code.AUTH_UPDATE_ACL] = _subject
    return AuditLooks(by_code, resources, looks.signer)


def _named(request: Request) -> list[str]:
    """Returns topics and groups that a body names."""
    found = BODY_PAIRS[request.code](request.ext, request.body)
    return list(dict.fromkeys(resource for resource, _actions in found))


def _subject(request: Request) -> list[str]:
    """Returns whose policies a body has, as its handler finds it out."""
    try:
        found = as_text(parse_object(request.body).get("subject"))
    except BadJsonError:
        found = ""
    subject = found or request.ext.get("subject", "")
    return [subject] if subject else []


def _names(about: Sequence[str], prefix: str) -> list[str]:
    return [each.removeprefix(prefix) for each in about if each.startswith(prefix)][:_ROWS_MAX]


class _Looks:
    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def signer(self, request: Request) -> str:
        """Returns whose signature a request has where nobody asks for one."""
        user = self._state.access.signer_of(request.command)
        return "" if user is None else user.name

    def topics(self, _request: Request, about: Sequence[str]) -> dict[str, Any]:
        names = _names(about, _TOPIC)
        found = {name: self._state.topics.find(name) for name in names}
        return {name: topic.to_json() for name, topic in found.items() if topic is not None}

    def static_topic(self, request: Request, about: Sequence[str]) -> dict[str, Any]:
        found = self._state.static_topics.find(request.ext.get("topic", ""))
        mapping = None if found is None else found.to_json()
        return {**self.topics(request, about), "mapping": mapping}

    def groups(self, _request: Request, about: Sequence[str]) -> dict[str, Any]:
        known = self._state.groups.groups
        names = _names(about, _GROUP)
        return {name: known[name].to_json() for name in names if name in known}

    def offsets(self, request: Request, _about: Sequence[str]) -> dict[str, int]:
        return self._offsets(request.ext.get("group", ""), request.ext.get("topic", ""))

    def cloned_offsets(self, request: Request, _about: Sequence[str]) -> dict[str, int] | None:
        """Those of all topics are not looked for: that is a walk over every group."""
        topic = request.ext.get("topic", "").strip()
        return self._offsets(request.ext.get("destGroup", ""), topic) if topic else None

    def _offsets(self, group: str, topic: str) -> dict[str, int]:
        found = self._state.fast_path.offsets.of(group, topic)
        return {str(queue): found[queue] for queue in sorted(found)}

    def forbidden(self, request: Request, _about: Sequence[str]) -> dict[str, bool]:
        group, topic = request.ext.get("group", ""), request.ext.get("topic", "")
        return {"readable": not self._state.groups.is_forbidden(group, topic)}

    def mode(self, _request: Request, about: Sequence[str]) -> dict[str, Any] | None:
        topics, groups = _names(about, _TOPIC), _names(about, _GROUP)
        found = self._state.modes.find(topics[0], groups[0]) if topics and groups else None
        return None if found is None else found.to_json()

    def settings(self, _request: Request, about: Sequence[str]) -> Mapping[str, str]:
        return settings_now(self._state.settings.configuration, about)

    def user(self, request: Request, _about: Sequence[str]) -> dict[str, str] | None:
        found = self._state.access.tables.users.get(request.ext.get("username", ""))
        if found is None:
            return None
        return found.to_json(with_secret=False) | {"password": Secret(found.secret)}

    def policies(self, _request: Request, about: Sequence[str]) -> dict[str, Any] | None:
        name = user_of_subject(about[0]) if about else None
        found = None if name is None else self._state.access.tables.acls.get(name)
        return None if found is None else found.to_json()

    def role(self, _request: Request, _about: Sequence[str]) -> dict[str, str]:
        return {"role": self._state.role.official_name}
