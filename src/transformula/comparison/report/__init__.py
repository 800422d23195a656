"""The report of a comparison: on a terminal, in Markdown, as one page for a browser, as CSV and JSON."""

from ...registry import lazy

HOMES = {
    "html_of": "page",
    "markdown_of": "markdown",
    "notebook_html_of": "page",
    "read_results": "files",
    "text_of": "terminal",
    "write_report": "files",
}

__all__ = list(HOMES)
__getattr__ = lazy(__name__, HOMES)
