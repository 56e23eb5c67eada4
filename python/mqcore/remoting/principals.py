r"""Who a client is by its certificate: rules make a name of the subject or an alternative name.

Rules as Kafka's `ssl.principal.mapping.rules` has them, the first that matches decides:

    RULE:^CN=(.*?),OU=services.*$/$1/L, SAN:^URI:spiffe://corp/(.*)$/$1/, DEFAULT

`RULE` looks at the subject (RFC 2253), `SAN` at each alternative name (`DNS:`, `IP:`, `URI:`,
`EMAIL:`); `L` and `U` make the name small or large; `DEFAULT` is the whole subject. A pattern has
to match the whole text. A slash inside is written `\/`. Who matches nothing has no name. Pure
functions; whether the certificate is to be trusted was decided before.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mqcore.remoting.certificate_names import alternative_names_of, subject_of

__all__ = ["PrincipalRules", "name_by", "principal_rules"]

_DEFAULT: Final = "DEFAULT"
_KINDS: Final = ("RULE", "SAN")
_RULE: Final = re.compile(
    r"(?P<kind>RULE|SAN):(?P<pattern>(?:\\.|[^\\/])*)/(?P<name>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r"\s*(?:,|$)"
)
_DEFAULT_RULE: Final = re.compile(rf"{_DEFAULT}\s*(?:,|$)")
_GROUP: Final = re.compile(r"\\(.)|\$([0-9])")
# What patterns are tried on: a longer subject has no name, since the time of a pattern grows
# with it.
_TEXT_CHARS_MAX: Final = 2_048
_NAME_CHARS_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule; the default one has no pattern."""

    kind: str
    pattern: re.Pattern[str] | None
    name: str
    case: str

    def applied(self, text: str) -> str | None:
        """Returns the name that it makes of a text; None where it does not match."""
        if self.pattern is None:
            return text
        found = self.pattern.fullmatch(text)
        if found is None:
            return None
        made = _GROUP.sub(lambda each: _inserted(each, found), self.name)
        return made.lower() if self.case == "L" else made.upper() if self.case == "U" else made


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules of a listener, in their order."""

    rules: tuple[_Rule, ...]

    def name_of(self, certificate: bytes) -> str:
        """Returns the name of who showed a certificate (DER); empty where no rule makes one."""
        try:
            return name_by(self, subject_of(certificate), alternative_names_of(certificate))
        except ValueError:
            # A subject that cannot be read names nobody.
            return ""


def principal_rules(text: str) -> PrincipalRules:
    """Returns the rules that a setting means.

    Raises:
        ValueError: It is none; the text has where and why.
    """
    rules, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _DEFAULT_RULE.match(text, at)
        if found is not None:
            rules.append(_Rule(_DEFAULT, None, "", ""))
        else:
            found = _RULE.match(text, at)
            if found is None:
                kinds = ", ".join(f"{kind}:PATTERN/NAME/[L|U]" for kind in _KINDS)
                raise ValueError(f"{text[at:]!r} begins with no rule: {kinds} or {_DEFAULT}")
            rules.append(_rule(found))
        at = found.end()
    return PrincipalRules(tuple(rules))


def name_by(rules: PrincipalRules, subject: str, alternatives: Sequence[str]) -> str:
    """Returns the name by the first rule that matches; empty where none does.

    Args:
        rules: The rules.
        subject: The subject as RFC 2253 writes it.
        alternatives: The alternative names.
    """
    for rule in rules.rules:
        for text in alternatives if rule.kind == "SAN" else (subject,):
            if not text or len(text) > _TEXT_CHARS_MAX:
                continue
            made = rule.applied(text)
            if made is not None:
                return made if len(made) <= _NAME_CHARS_MAX else ""
    return ""


def _rule(found: re.Match[str]) -> _Rule:
    pattern = found["pattern"].replace("\\/", "/")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no pattern: {error}") from None
    for group in _GROUP.finditer(found["name"]):
        if group[2] is not None and int(group[2]) > compiled.groups:
            raise ValueError(f"{found['name']!r}: {pattern!r} has no group {group[2]}")
    return _Rule(found["kind"], compiled, found["name"], found["case"])


def _inserted(each: re.Match[str], found: re.Match[str]) -> str:
    return each[1] if each[1] is not None else found[int(each[2])] or ""
