"""A pane on the screen: lines that a pure function drew, scrolled where there are more than fit."""

from __future__ import annotations

from rich.segment import Segment
from rich.text import Text
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ludus.monitor.run_view import RunView
from ludus.tui.panes import PaneSpec, log


class Pane(ScrollView, can_focus=True):
    """Draws itself anew only when told so; in between, painting copies lines."""

    def __init__(self, spec: PaneSpec, number: int) -> None:
        super().__init__(id=spec.name)
        self.spec = spec
        self.border_title = f"{number} {spec.title}"
        self.lines: list[Text] = []
        """What is drawn."""
        self._drawn_width = 0
        self._place: Region | None = None

    def place(self, region: Region | None) -> None:
        """Be there, or nowhere. What stays the same is left alone, for every change costs a layout."""
        self.display = region is not None
        if region is not None and region != self._place:
            self._place = region
            self.styles.offset = (region.x, region.y)
            self.styles.width, self.styles.height = region.width, region.height

    def redraw(self, view: RunView) -> None:
        """Draw what the view says now; a pane that is not on the screen does so when it comes back."""
        width = self.scrollable_content_region.width
        if not self.display or width <= 1:
            self._drawn_width = 0
            return
        self._drawn_width = width
        self.lines = self._draw(view, width - 1)  # a column of air before the scroll bar
        if self.virtual_size != (width, len(self.lines)):
            self.virtual_size = Size(width, len(self.lines))
        self._say_where()
        self.refresh()

    def needs_drawing(self) -> bool:
        """Whether it came back, or has another width than when it was drawn."""
        return self.display and self._drawn_width != self.scrollable_content_region.width

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        number = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        if not 0 <= number < len(self.lines):
            return Strip.blank(width, self.rich_style)
        line, console = self.lines[number], self.app.console
        strip = Strip(Segment.apply_style(line.render(console), console.get_style(line.style)))
        return strip.crop_extend(0, width, None).apply_style(self.rich_style)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Say where we are, also to those who see no scroll bar."""
        super().watch_scroll_y(old_value, new_value)
        self._say_where()

    def _draw(self, view: RunView, width: int) -> list[Text]:
        return self.spec.lines(view, width)

    def _say_where(self) -> None:
        height, count = self.scrollable_content_region.height, len(self.lines)
        first = self.scroll_offset.y
        self.border_subtitle = f"{first + 1}-{min(first + height, count)} of {count}" if count > height else ""


class LogPane(Pane):
    """Follows the newest line until somebody scrolls up, and shows only what a filter lets through."""

    wanted = ""
    _follows, _is_drawing = True, False

    def redraw(self, view: RunView) -> None:
        """Draw, and stay at the end if that is where we were."""
        self._is_drawing = True
        super().redraw(view)
        if self._follows:
            self.follow()
        self._is_drawing = False

    def follow(self) -> None:
        """Go to the newest line and stay with it."""
        self._follows = True
        self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls up wants to read; whoever is at the end again wants to follow."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_drawing:
            self._follows = round(new_value) >= self.max_scroll_y

    def _draw(self, view: RunView, width: int) -> list[Text]:
        return log.draw(view, width, self.wanted)

    def _say_where(self) -> None:
        super()._say_where()
        if self.wanted:
            where = f"  {self.border_subtitle}" if self.border_subtitle else ""
            self.border_subtitle = f"filter: {self.wanted.replace('[', '(')}{where}"
