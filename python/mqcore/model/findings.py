"""What was looked at in a machine or a cluster, and what to do about it. A pure value."""

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        name: What.
        value: What it is here, for people; `unknown` when the system does not report it.
        advice: What to do; empty when it is well.
        why: What depends on it.
    """

    name: str
    value: str
    advice: str
    why: str
