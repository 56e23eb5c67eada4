"""The limits that a rule of `mqcoreQuotas` may have. Pure values."""

from typing import Final

__all__ = ["LIMIT_NAMES"]

# In the order of the extension's rows (`rust/fast_path/src/quotas/rules.rs`), a second each.
LIMIT_NAMES: Final = (
    "producer_message_rate",
    "producer_byte_rate",
    "consumer_message_rate",
    "consumer_byte_rate",
)
