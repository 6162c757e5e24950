"""What axe finds wrong with a page: WCAG 2.2 AA, in the browser, with the page's own content policy in force."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import AXE

TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def violations(page: Any) -> list[str]:
    """Each with its rule, and the first places with what is wrong there."""
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", list(TAGS))
    return [_in_words(each) for each in found["violations"]]


def _in_words(violation: dict[str, Any]) -> str:
    nodes = violation["nodes"]
    places = "; ".join(f"{' '.join(map(str, node['target']))}: {node['failureSummary']}" for node in nodes[:3])
    return f"{violation['id']} ({len(nodes)}): {places}"
