"""Results of the extension as dictionaries, for what is written as JSON."""

from typing import Any


def fields_of(result: Any) -> dict[str, Any]:
    """Returns the fields of a frozen result by name, in their order. Nested results stay.

    Args:
        result: An object of a frozen class of the extension.
    """
    return {name: getattr(result, name) for name in result.__match_args__}
