"""What of its messages a long answer to a pull brings. Knows no client and no column."""

from enum import StrEnum

__all__ = ["Part"]


class Part(StrEnum):
    """What is wanted of messages, as requests to brokers of ours name it.

    The others bring whole messages always.
    """

    WHOLE = "true"
    BODILESS = "bodiless"
    # Topic, queue and offsets, as far as nothing is left out by a filter.
    OFFSETS = "places"
