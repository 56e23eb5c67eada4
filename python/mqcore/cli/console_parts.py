"""What commands that run a console share: where its files are, the extra, the first password."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mqcore.console import Console

__all__ = ["console_of", "default_data", "require_extra"]


def default_data() -> Path:
    """Returns where users and the audit log are unless they are put elsewhere."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / "mqcore" / "console"


def require_extra() -> None:
    """Refuses where the extra is not installed.

    Raises:
        ClickException: It is not.
    """
    try:
        import jinja2
        import starlette
        import uvicorn
    except ImportError as error:
        raise click.ClickException(
            f"the console needs {error.name}: pip install 'mqcore[console]'"
        ) from error
    del jinja2, starlette, uvicorn


def console_of(made: "Console") -> "Console":
    """Returns a console after it printed the password of its first user, where it made one."""
    if made.password is not None:
        click.echo(f"console user admin, password {made.password} (printed this once)")
    return made
