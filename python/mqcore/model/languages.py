"""The languages of clients, by their code on the wire (`LanguageCode`). Pure values."""

from typing import Final

__all__ = ["language_name"]

# A code beyond is of a language made later.
_LANGUAGES: Final = (
    "JAVA",
    "CPP",
    "DOTNET",
    "PYTHON",
    "DELPHI",
    "ERLANG",
    "RUBY",
    "OTHER",
    "HTTP",
    "GO",
    "PHP",
    "OMS",
    "RUST",
    "NODE_JS",
)


def language_name(code: int) -> str:
    """Returns the name of a client's language."""
    return _LANGUAGES[code] if 0 <= code < len(_LANGUAGES) else "OTHER"
