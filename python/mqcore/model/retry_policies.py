"""How long a failed message of a group waits before it comes again (`GroupRetryPolicy` of 5.x).

Pure values. Brokers keep a policy with the group, and the proxy of 5.x goes by it; the retries of
clients that speak to a broker directly wait by the delay levels, in the official broker as in ours.
"""

from dataclasses import dataclass
from typing import Any, Final

from mqcore.model.reading import as_dict, as_int, as_list, as_text

CUSTOMIZED: Final = "CUSTOMIZED"
EXPONENTIAL: Final = "EXPONENTIAL"

_S: Final = 1_000
_MINUTE: Final = 60 * _S
_HOUR: Final = 60 * _MINUTE
# The pauses of the delay levels, which a policy without its own has.
_USUAL_MS: Final = (
    *(1 * _S, 5 * _S, 10 * _S, 30 * _S),
    *(minutes * _MINUTE for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(1 * _HOUR, 2 * _HOUR),
)
# The first retry takes the third pause, as retries by levels begin with the third level.
_FIRST_PAUSE: Final = 2
# Beyond, an exponential pause grows no more.
_DOUBLINGS_MAX: Final = 32
_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CustomizedPolicy:
    """Pauses as somebody wrote them down (`CustomizedRetryPolicy`).

    Attributes:
        pauses_ms: All pauses; the first retry takes the third one, the last is repeated.
    """

    pauses_ms: tuple[int, ...] = _USUAL_MS

    def pause_ms(self, tries: int) -> int:
        """Returns how long a message waits that was tried again so often before."""
        return self.pauses_ms[min(max(0, tries) + _FIRST_PAUSE, len(self.pauses_ms) - 1)]

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {"customizedRetryPolicy": {"next": list(self.pauses_ms)}, "type": CUSTOMIZED}


@dataclass(frozen=True, slots=True)
class ExponentialPolicy:
    """Pauses that grow by a factor (`ExponentialRetryPolicy`).

    Attributes:
        initial_ms: The first pause.
        max_ms: The longest pause.
        multiplier: How many times longer each is than the one before.
    """

    initial_ms: int = 5 * _S
    max_ms: int = 2 * _HOUR
    multiplier: int = 2

    def pause_ms(self, tries: int) -> int:
        """Returns how long a message waits that was tried again so often before."""
        grown: int = self.multiplier ** min(max(0, tries), _DOUBLINGS_MAX)
        return min(self.max_ms, self.initial_ms * min(grown, _LONG_MAX))

    def to_json(self) -> dict[str, Any]:
        """Returns its JSON object."""
        return {
            "exponentialRetryPolicy": {
                "initial": self.initial_ms,
                "max": self.max_ms,
                "multiplier": self.multiplier,
            },
            "type": EXPONENTIAL,
        }


RetryPolicy = CustomizedPolicy | ExponentialPolicy


def retry_policy(value: Any) -> RetryPolicy:
    """Returns the policy that a JSON object holds; the usual pauses for what is missing."""
    found = as_dict(value)
    if as_text(found.get("type")) == EXPONENTIAL:
        fields = found.get("exponentialRetryPolicy")
        if not isinstance(fields, dict):
            return CustomizedPolicy()
        usual = ExponentialPolicy()
        return ExponentialPolicy(
            as_int(fields.get("initial"), usual.initial_ms),
            as_int(fields.get("max"), usual.max_ms),
            as_int(fields.get("multiplier"), usual.multiplier),
        )
    pauses = as_list(as_dict(found.get("customizedRetryPolicy")).get("next"))
    return CustomizedPolicy(tuple(as_int(pause) for pause in pauses) or _USUAL_MS)
