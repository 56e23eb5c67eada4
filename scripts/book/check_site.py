"""Checks a built site: what its pages link is there, and nothing is fetched from the network.

mkdocs checks the links that it makes; this reads the pages as a browser does, so that links in
generated tables, in the theme and to rustdoc are checked too. Knows nothing of mkdocs.

    python scripts/book/check_site.py target/book [--without rustdoc]

Exits with 1 and prints each fault.
"""

import argparse
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself to show a page; `a` is followed by the reader only.
_FETCHED = {
    "audio": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "script": "src",
    "source": "src",
    "video": "src",
}
# Links that name an address and fetch nothing.
_NAMING_RELATIONS = frozenset({"canonical", "next", "prev", "alternate"})
# Made by another program, which checks its own links.
_FOREIGN = "rustdoc"


class _Links(HTMLParser):
    """Collects what a page fetches, links and can be linked at."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value is not None}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.linked.append(found["href"])
        elif tag == "link" and found.get("rel") in _NAMING_RELATIONS:
            return
        elif found.get(_FETCHED.get(tag, "")):
            self.fetched.append(found[_FETCHED[tag]])


@cache
def links_of(page: Path) -> _Links:
    """Returns the links of a page."""
    links = _Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def faults(site: Path, without: frozenset[str]) -> list[str]:
    """Returns what is wrong with a site.

    Args:
        site: Its directory.
        without: Folders of it that are not built.
    """
    found = []
    for page in sorted(site.rglob("*.html")):
        # The page for addresses that are not there is shown at any address: its links are absolute.
        if page.relative_to(site).parts[0] == _FOREIGN or page.name == "404.html":
            continue
        links = links_of(page)
        name = page.relative_to(site)
        found += [
            f"{name}: fetches {address} from the network"
            for address in links.fetched
            if urlsplit(address).netloc
        ]
        for address in [*links.fetched, *links.linked]:
            fault = _fault(site, page, address, without)
            if fault:
                found.append(f"{name}: {address}: {fault}")
    return found


def _fault(site: Path, page: Path, address: str, without: frozenset[str]) -> str:
    """Returns what is wrong with a link, empty when it is well."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return ""
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(site):
        return "leaves the site"
    if target != site and target.relative_to(site).parts[0] in without:
        return ""
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "is not there"
    is_ours = target.suffix == ".html" and target.relative_to(site).parts[0] != _FOREIGN
    anchor = unquote(parts.fragment)
    if is_ours and anchor and anchor not in links_of(target).anchors:
        return "the page has no such anchor"
    return ""


def main() -> int:
    """Checks the site that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--without", action="append", default=[], help="a folder that is not built")
    options = parser.parse_args()
    site = options.site.resolve()
    if not (site / "index.html").is_file():
        print(f"{site}: no site is there", file=sys.stderr)
        return 1
    found = faults(site, frozenset(options.without))
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
