"""A setting of a broker as it reports it, with where the value comes from. A pure value."""

from dataclasses import dataclass
from typing import Any, Self

from mqcore.model.reading import as_dict, as_text

__all__ = ["BrokerSetting"]


@dataclass(frozen=True, slots=True)
class BrokerSetting:
    """One setting of a running broker.

    Attributes:
        name: Its official key.
        value: What it is now; a secret is masked.
        default: What it is unless somebody sets it.
        source: Where the value comes from: `default`, the name of a file, `environment`, `command
            line`, `changed by a tool`, or the like.
        unit: The unit of the value; empty for texts, switches and plain counts.
        is_live: Whether a tool may change it while the broker runs.
        is_kept: Whether a tool may change it for the next start.
        is_honoured: Whether it has an effect.
        meaning: What it means; of one without effect why.
    """

    name: str
    value: str
    default: str
    source: str
    unit: str
    is_live: bool
    is_kept: bool
    is_honoured: bool
    meaning: str

    @property
    def is_default(self) -> bool:
        """Whether nobody set it."""
        return self.source == "default"

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """Returns what a JSON object describes."""
        found = as_dict(value)
        return cls(
            name=as_text(found.get("name")),
            value=as_text(found.get("value")),
            default=as_text(found.get("default")),
            source=as_text(found.get("source")),
            unit=as_text(found.get("unit")),
            is_live=found.get("isLive") is True,
            is_kept=found.get("isKept") is True,
            is_honoured=found.get("isHonoured") is True,
            meaning=as_text(found.get("meaning")),
        )
