"""What is asked of the extension where it writes metrics by topic and by group as text."""

from typing import NamedTuple

__all__ = ["BulkFamily", "BulkOrder"]


class BulkFamily(NamedTuple):
    """One family.

    Attributes:
        figure: Which figure it is: the official name without prefix, unit and `_total`.
        name: Its name.
        head: The lines before its samples.
        labels: The names of its own labels.
        bounds: Of a histogram: the ends of its buckets as they are written, without infinity.
        is_age: Whether the greatest value is shown for what has no series of its own, not the sum.
    """

    figure: str
    name: str
    head: str
    labels: tuple[str, ...]
    bounds: tuple[str, ...]
    is_age: bool


class BulkOrder(NamedTuple):
    """What is to be written.

    Attributes:
        common: The labels of every sample, as they are written.
        series_max: Series of a family at the most.
        system_topics: Topics that are the broker's own.
        system_topic_prefix: What names of others of them begin with.
        system_groups: Groups that are the broker's own.
        system_group_prefix: What names of others of them begin with.
        retry_prefix: What names of retry topics begin with.
        dead_letter_prefix: The same of topics of dead letters.
        own_group: A group that is reported by itself, and in no family.
        families: The families.
    """

    common: str
    series_max: int
    system_topics: frozenset[str]
    system_topic_prefix: str
    system_groups: frozenset[str]
    system_group_prefix: str
    retry_prefix: str
    dead_letter_prefix: str
    own_group: str
    families: tuple[BulkFamily, ...]
