"""How long pages of `ludus web` take, seen from the page itself: from the click to the frame that shows the answer."""

from __future__ import annotations

import json

from ludus.bench.chromium import Chromium, Page

PATIENCE_MS = 60_000
FRAMES = 150
STEP_PX = 80
SCRIPT = """
(() => {
  const frame = (then) => requestAnimationFrame(then);
  const painted = () => new Promise((done) => frame(() => frame(() => done(performance.now()))));
  window.__until = (holds) => new Promise((done, fail) => {
    let timer = 0;
    const look = () => {
      let found = false;
      try { found = Boolean(holds()); } catch { found = false; }
      if (!found) return false;
      observer.disconnect();
      clearTimeout(timer);
      painted().then(done);
      return true;
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    timer = setTimeout(() => { observer.disconnect(); fail(new Error(`not shown: ${holds}`)); }, PATIENCE);
    look();
  });
})();
""".replace("PATIENCE", str(PATIENCE_MS))
BAND = "document.querySelector('.chart-place > p.quiet')"
"""Says how many points are behind what is drawn."""
CURVE_SHOWN = f"document.querySelector('.u-over') && {BAND}"
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
SCROLL = """
(async () => {
  const tallest = [...document.querySelectorAll('.scroll')].find((each) => each.scrollHeight > each.clientHeight + 200);
  const box = tallest ?? document.scrollingElement;
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame();
  const began = await frame();
  let last = began, worst = 0, down = STEP;
  for (let n = 0; n < FRAMES; n++) {
    box.scrollTop += down;
    if (box.scrollTop <= 0 || box.scrollTop + box.clientHeight >= box.scrollHeight - 1) down = -down;
    const now = await frame();
    worst = Math.max(worst, now - last);
    last = now;
  }
  return { frames_per_s: (1000 * FRAMES) / (last - began), worst_ms: worst, height: box.scrollHeight };
})()
""".replace("FRAMES", str(FRAMES)).replace("STEP", str(STEP_PX))


class TimedPage:
    """A tab whose views are timed."""

    def __init__(self, browser: Chromium, origin: str) -> None:
        self._origin = origin.rstrip("/")
        self.page: Page = browser.open_page()

    def open(self, path: str, holds: str) -> dict[str, float]:
        """Milliseconds from the request for a page to its first paint, and until something is shown."""
        name = f"__opened_{abs(hash((path, holds)))}"
        self.page.on_every_document(SCRIPT + f"window.{name} = window.__until(() => {holds});")
        self.page.open(self._origin + path)
        shown = self.page.evaluate(f"window.{name}")
        return {"shown": float(shown), "first_paint": float(self.page.evaluate(FIRST_PAINT) or shown)}

    def act(self, action: str, holds: str) -> float:
        """Milliseconds from an action in the page until something is shown."""
        wait = f"return (await window.__until(() => {holds})) - at;"
        return float(self.page.evaluate(f"(async () => {{ const at = performance.now(); {action}; {wait} }})()"))

    def follow(self, path: str) -> None:
        """Go to another view as a link does, unless it is shown."""
        script = f"(() => {{ const to = {json.dumps(path)}; if (location.pathname !== to) {{ const link ="
        script += " Object.assign(document.createElement('a'), { href: to });"
        self.page.evaluate(f"{script} document.body.append(link); link.click(); link.remove(); }} }})()")

    def close(self) -> None:
        """Leave the page."""
        self.page.open("about:blank")

    def scroll(self) -> dict[str, float]:
        """Frames a second while the list is scrolled."""
        found: dict[str, float] = self.page.evaluate(SCROLL)
        return found

    def zoom(self) -> float:
        """Milliseconds from letting the mouse go over a curve until the part is drawn."""
        box = self.page.evaluate(
            "(() => { const box = document.querySelector('.u-over').getBoundingClientRect();"
            " return { x: box.x, y: box.y, width: box.width, height: box.height }; })()"
        )
        middle = box["y"] + box["height"] / 2
        before = self.page.evaluate(f"{BAND}.textContent")
        self.page.evaluate(
            "window.__at = new Promise((done) => addEventListener('mouseup', () => done(performance.now()),"
            " { capture: true, once: true }));"
            f"window.__zoomed = __at.then((at) => __until(() => {BAND}?.textContent !== {json.dumps(before)})"
            ".then((now) => now - at)); 0"
        )
        self.page.drag((box["x"] + 0.4 * box["width"], middle), (box["x"] + 0.6 * box["width"], middle))
        return float(self.page.evaluate("window.__zoomed"))
