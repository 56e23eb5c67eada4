"""Takes the pictures of the web console in the docs anew, in a headless Chromium.

python scripts/screenshots.py     # writes docs/assets/console-*.png

Numbers in them are those of the run; the cluster is that of `demo_console.py`, on a new directory.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from demo_console import running_console, scene
from flights import CACHE, ROOT
from rich.console import Console

ASSETS = ROOT / "docs" / "assets"
SIZE = {"width": 1280, "height": 760}
# Name of the picture, path, colours.
PICTURES = (
    ("overview", "/", "light"),
    ("memory", "/brokers/{broker}/0?tab=memory", "light"),
    ("store", "/brokers/{broker}/0?tab=store", "light"),
    ("slow", "/brokers/{broker}/0?tab=slow", "dark"),
)
# Until lines have some points: a sample is taken every ten seconds.
_FILLED_MS = 45_000

console = Console(soft_wrap=True, highlight=False)


def main() -> None:
    """Takes the pictures."""
    # Imported here: it is installed by `make screenshots` alone.
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is needed, such as: apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        scene(Path(folder) / "store") as made,
        running_console(made.namesrv) as (url, password, _),
        sync_playwright() as playwright,
    ):
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        tab = browser.new_page(viewport=SIZE)
        tab.goto(url)
        tab.fill("[name=user]", "admin")
        tab.fill("[name=password]", password)
        tab.click("text=Log in")
        tab.wait_for_timeout(_FILLED_MS)
        tab.goto(f"{url}brokers")
        broker = str(tab.inner_text("tbody a >> nth=0"))
        for name, path, colours in PICTURES:
            take(tab, url.rstrip("/") + path.format(broker=broker), name, colours)
        browser.close()


def take(tab: Any, url: str, name: str, colours: str) -> None:
    """Takes one picture."""
    tab.emulate_media(color_scheme=colours)
    tab.goto(url)
    path = ASSETS / f"console-{name}.png"
    tab.screenshot(path=path)
    console.print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    CACHE.mkdir(parents=True, exist_ok=True)
    main()
