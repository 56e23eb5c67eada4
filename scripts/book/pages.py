"""Hooks of mkdocs: pages that are not in docs/, and links from pages to source files.

A document links what it names by the path in the repository, as a viewer of the repository needs
it. In the site a document of the repository's root is a page, and a linked source file becomes a
page with its text. Code spans that name a file of the repository become links too. Knows no
content of any page. Called by mkdocs alone (`hooks` in mkdocs.yml).
"""

import posixpath
import re
from pathlib import Path
from typing import Any

import command_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Documents of the root, and which page each becomes.
ROOT_PAGES = {
    "ARCHITECTURE.md": "maintainers/architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "maintainers/contributing.md",
    "HACKING.md": "maintainers/hacking.md",
    "README.md": "index.md",
    "SECURITY.md": "maintainers/security.md",
}
# Marks where the commands belong.
COMMANDS = "<!-- commands -->"
SOURCES = "source/"
_LANGUAGES = {
    ".java": "java",
    ".patch": "diff",
    ".py": "python",
    ".pyi": "python",
    ".rs": "rust",
    ".sh": "bash",
    ".toml": "toml",
    ".yml": "yaml",
}
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)]*)?(?=\))")
# A code span that is a path with a folder or an ending, and no link's text already.
_PATH_SPAN = re.compile(r"(?<!\[)`((?:[\w.-]+/)*[\w.-]+\.\w+)`(?!\])")
_PATH_LINE = re.compile(r"\.(?:rs|py|pyi|java|md|toml|txt|sh|patch|yml)$")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the root, and one page for each file that pages link."""
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / name)))
    wanted: set[str] = set()
    for file in list(files.documentation_pages()):
        origin = _origin(file)
        wanted |= {path for path in _targets(origin, file.content_string) if not _uri(path)}
    for path in sorted(wanted):
        files.append(File.generated(config, _source_uri(path), content=_source_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Replaces paths of the repository by the addresses of pages."""
    if page.file.src_uri.startswith(SOURCES):
        return markdown
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, command_page.sections())
    origin = _origin(page.file)
    here = posixpath.dirname(page.file.src_uri)

    def address(path: str) -> str:
        return posixpath.relpath(_uri(path) or _source_uri(path), here or ".")

    def linked(match: re.Match[str]) -> str:
        path = _path(origin, match[1])
        return match[0] if path is None else address(path) + (match[2] or "")

    def spanned(match: re.Match[str]) -> str:
        path = _named(match[1])
        return match[0] if path is None else f"[`{match[1]}`]({address(path)})"

    def replaced(prose: str) -> str:
        return _PATH_SPAN.sub(spanned, _LINK.sub(linked, prose))

    parts = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [replaced(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, replaced(markdown[end:])])


def _origin(file: File) -> str:
    """Returns where a page lies in the repository."""
    roots = {uri: name for name, uri in ROOT_PAGES.items()}
    return roots.get(file.src_uri, f"docs/{file.src_uri}")


def _uri(path: str) -> str | None:
    """Returns the page or asset that a file of the repository is in the site, None for a source."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    is_of_docs = path.startswith("docs/") and not path.endswith(".patch")
    return path.removeprefix("docs/") if is_of_docs else None


def _source_uri(path: str) -> str:
    return f"{SOURCES}{path}.md"


def _targets(origin: str, markdown: str) -> set[str]:
    """Returns the files of the repository that a page links or names."""
    prose = _FENCE.sub("", markdown)
    linked = {_path(origin, match[1]) for match in _LINK.finditer(prose)}
    named = {_named(match[1]) for match in _PATH_SPAN.finditer(prose)}
    return {path for path in linked | named if path is not None}


def _path(origin: str, target: str) -> str | None:
    """Returns the file that a link means, None for what lies outside of the repository.

    Raises:
        PluginError: It is not there.
    """
    if "://" in target or target.startswith("mailto:"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    if not (ROOT / path).is_file():
        raise PluginError(f"{origin}: {target} is not a file of the repository")
    return path


def _named(span: str) -> str | None:
    """Returns the file that a code span names by its whole path, if it is one."""
    is_path = _PATH_LINE.search(span) is not None and (ROOT / span).is_file()
    return span if is_path else None


def _source_page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    language = _LANGUAGES.get(Path(path).suffix, "text")
    # A fence longer than any in the file.
    fence = "`" * (3 + max(map(len, re.findall(r"`{3,}", text)), default=0))
    head = "---\nsearch:\n  exclude: true\nhide: [toc]\n---\n\n"
    return f'{head}# `{path}`\n\n{fence}{language} linenums="1"\n{text}\n{fence}\n'
