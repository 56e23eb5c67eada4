"""What of its messages a long answer to a pull brings. Knows no client and no column."""

from enum import StrEnum

__all__ = ["Part"]


class Part(StrEnum):
    """What is wanted of messages, in the words that brokers of ours are told it in.

    The others bring whole messages always.
    """

    WHOLE = "true"
    BODILESS = "bodiless"
    # Topic, queue and offsets, as far as nothing is left out by a filter.
    PLACES = "places"
