"""Checks the output of `make site`: every internal link has a target, nothing is loaded from other hosts, and
compressed files equal their originals."""

import gzip
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script", "img", "link", "iframe", "source", "video", "audio"}
COMPRESSED = {".html", ".js", ".css", ".wasm", ".svg"}
SKIPPED = 77  # the value in CMakeLists.txt


class Page(HTMLParser):
    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []  # tag, address
        self.names: set[str] = set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append((tag, value))
            if name in ("id", "name") and value is not None:
                self.names.add(value)


def complaints(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    pages = {file.resolve(): Page(file) for file in files if file.suffix == ".html"}
    found = []
    for file, page in pages.items():
        for tag, link in page.links:
            found += [f"{file.relative_to(folder)}: {link}: {problem}"
                      for problem in problems(folder, pages, file, tag, link)]
    for file in files:
        if file.suffix == ".css":
            for link in re.findall(r"url\(\s*[\"']?([^\"')]+)", file.read_text("utf-8")):
                found += [f"{file.relative_to(folder)}: {link}: {problem}"
                          for problem in problems(folder, pages, file.resolve(), "link", link)]
        if file.suffix in COMPRESSED and file.stat().st_size >= 1000:
            packed = file.with_name(f"{file.name}.gz")
            if not packed.is_file() or gzip.decompress(packed.read_bytes()) != file.read_bytes():
                found.append(f"{file.relative_to(folder)}: its .gz is missing or holds something else")
            if not file.with_name(f"{file.name}.br").is_file():
                found.append(f"{file.relative_to(folder)}: its .br is missing")
    return found


def problems(folder: Path, pages: dict[Path, Page], file: Path, tag: str, link: str) -> list[str]:
    address = urlsplit(link)
    if address.scheme == "data" or (address.scheme and tag not in LOADS):
        return []
    if address.scheme or address.netloc:
        return ["is loaded from elsewhere"]
    if address.path.startswith("/"):
        return ["works only at the root of a host"]
    target = (file.parent / unquote(address.path)).resolve() if address.path else file
    if target != folder and folder not in target.parents:
        return ["leads out of the folder"]
    if not target.is_file():
        return ["is no file"]
    name = unquote(address.fragment)
    if name and target in pages and name not in pages[target].names:
        return ["has no such place"]
    return []


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    if not folder.is_dir():
        print(f"{folder} is not there: make site")
        return SKIPPED
    found = complaints(folder)
    print("\n".join(found))
    for part in ("index.html", "tutorial/index.html", "docs/index.html", "addnorm-tutorial.html"):
        if not (folder / part).is_file():
            print(f"{part} is missing")
            found.append(part)
    return 1 if found else 0


sys.exit(main())
