"""Configures the documentation site. `make docs` first builds the package and the headers' descriptions."""

import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

from sphinx.util import logging

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build/release"
sys.path.insert(0, str(BUILD / "python"))  # autodoc imports the package
import addnorm  # noqa: E402

project = "addnorm"
release = re.search(r"project\(addnorm VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
copyright = "the addnorm contributors, Apache License 2.0"

extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["snippets"]
highlight_language = "text"
smartquotes = False  # "--prove" is no dash
nitpicky = True

myst_heading_anchors = 3

breathe_projects = {"addnorm": str(ROOT / "build/docs/xml")}
breathe_default_project = "addnorm"
breathe_default_members = ("members", "undoc-members")

default_role = "code"  # of docstrings, which are plain text
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Array", "Factor", "NumPyArray", "Result")}

# Names without a page: those of the languages' own libraries, and template parameters.
nitpick_ignore_regex = [("cpp:identifier", ".*"), ("c:identifier", ".*"), ("py:.*", ".*")]

html_theme = "furo"
# Debian's furo comes without its dark colours; these are furo's.
html_theme_options = {"dark_css_variables": {
    "color-problematic": "#ee5151", "color-foreground-primary": "#ffffffcc",
    "color-foreground-secondary": "#9ca0a5", "color-foreground-muted": "#81868d",
    "color-foreground-border": "#666666", "color-background-primary": "#131416",
    "color-background-secondary": "#1a1c1e", "color-background-hover": "#1e2124",
    "color-background-hover--transparent": "#1e212400", "color-background-border": "#303335",
    "color-background-item": "#444444", "color-brand-primary": "#2b8cee",
    "color-brand-content": "#368ce2", "color-highlighted-background": "#083563",
    "color-highlight-on-target": "#333300", "color-admonition-background": "#18181a"}}
html_title = f"addnorm {release}"
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_show_search_summary = False  # browsers refuse to fetch pages for it from file://
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
html_static_path = ["site.css"]
html_css_files = ["site.css"]


# Pages are plain Markdown, so that they are readable without a build. They have lists and links in place of Sphinx's
# directives, and directives() converts these.

PAGES = re.compile(r"^(?:### (.+)\n\n)?((?:- \[.+\]\(.+\.md\)\n)+)", re.MULTILINE)
WHOLE_PAGE = re.compile(r"^(?:This|The rest of this) page is \[(.+)\]\((.+?)(#.+)?\)\.$", re.MULTILINE)
NAME = re.compile(r"^- (\w+) \[`(.+)`\]\((.+?)\)(?:: (.+))?$", re.MULTILINE)


def table_of_contents(match):
    """Converts a list of pages in index.md to a part of the navigation."""
    caption, pages = match.groups()
    return "\n".join(["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "",
                      *(f"{title} <{page}>" for title, page in re.findall(r"\[(.+)\]\((.+)\.md\)", pages)), "```", ""])


def included(match):
    """Converts a link to a file outside of docs/, or to a heading in it, to the text of that file."""
    heading, file, anchor = match.groups()
    options = f':start-after: "# {heading}"\n' if anchor else ""
    return f"```{{include}} {file}\n{options}```"


def described(match):
    """Converts a name to its description from the header or docstring."""
    kind, name, file, members = match.groups()
    if not (ROOT / "docs/reference" / file).exists():
        logging.getLogger(__name__).warning("%s: %s does not exist", name, file)
    members = (members or "").replace("`", "").replace("all members", "")
    options = [f":members: {members}"] if match[4] else []
    if "/python/" in file:
        lines = ["```{eval-rst}", f".. auto{kind}:: {name}", *(f"   {option}" for option in options)]
    elif kind == "header":
        lines = [f"```{{doxygenfile}} {name}", ":sections: briefdescription detaileddescription"]
    else:
        lines = [f"```{{doxygen{kind}}} {name}", *options]
    return "\n".join([*lines, "```"])


def directives(app, page, source):
    text = source[0]
    if page == "index":
        introduction, pages = text.split("## All pages\n")
        text = introduction + PAGES.sub(table_of_contents, pages)
    if page.startswith("reference/"):
        text = re.sub(r"^Each name links to (.+\n)+", "", text, flags=re.MULTILINE)
        text = NAME.sub(described, text)
    source[0] = WHOLE_PAGE.sub(included, text)


def check_reference(app):
    """Warns of public names of C++, C and Python that are on no page of the reference."""
    pages = "".join(page.read_text() for page in ROOT.glob("docs/reference/*.md"))
    index = ElementTree.parse(ROOT / "build/docs/xml/index.xml").getroot()
    names = []
    for node in index:
        kind, name = node.get("kind"), node.findtext("name")
        if kind in ("struct", "class") and name.count("::") < 2:  # other ones are described with their class
            names.append(name)
        elif kind in ("namespace", "file"):
            names += [name + "::" + member if kind == "namespace" else member
                      for member in (m.findtext("name") for m in node.iter("member")
                                     if m.get("kind") in ("function", "enum", "typedef"))]
    names += [name for name in addnorm.__all__ if name not in ("Array", "__version__")]
    for name in names:
        if not re.search(rf"\[`([\w:.]*(::|\.))?{re.escape(name)}[`(]", pages):
            logging.getLogger(__name__).warning("%s stands on no page of docs/reference", name)


def keep_columns(app, what, name, object, options, lines):
    """Keeps columns and indents of docstrings, by turning such paragraphs into literal blocks."""
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(
        "::\n\n    " + paragraph.replace("\n", "\n    ")
        if re.search(r"^ |\S {2,}\S", paragraph, re.MULTILINE) else paragraph.replace("*", r"\*")
        for paragraph in paragraphs).split("\n")


def complete_theme(app, exception):
    """Corrects Debian's furo, which loads normalize.css from the root of the host and imports in a script that is no
    module."""
    if exception is not None:
        return
    static = Path(app.outdir) / "_static"
    sheet, script = static / "styles/furo.css", static / "scripts/furo.js"
    sheet.write_text(sheet.read_text().replace("/javascript/normalize.css/", ""))
    shutil.copy("/usr/share/javascript/normalize.css/normalize.css", sheet.parent)
    imported = 'import Gumshoe from "./gumshoe-patched.js";'
    gumshoe = (script.parent / "gumshoe-patched.js").read_text()
    script.write_text(script.read_text().replace(imported, gumshoe))


def setup(app):
    app.connect("builder-inited", check_reference)
    app.connect("source-read", directives)
    app.connect("autodoc-process-docstring", keep_columns)
    app.connect("build-finished", complete_theme)
