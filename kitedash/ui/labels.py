"""Names beside points without overlap: a greedy search over a few places around each point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Align = Literal["left", "right", "center"]
_CHARACTER_PX = 6.7
_LINE_PX = 14.0


@dataclass(frozen=True)
class Place:
    """Where a name stands, relative to its point, in pixels (y grows downwards)."""

    dx: int
    dy: int
    align: Align

    @property
    def needs_line(self) -> bool:
        return abs(self.dx) > 20


_NEAR = (
    Place(17, 0, "left"),  # clear of the rings around a point
    Place(-17, 0, "right"),
    Place(12, -14, "left"),
    Place(12, 14, "left"),
    Place(-12, -14, "right"),
    Place(-12, 14, "right"),
    Place(0, -22, "center"),
    Place(0, 22, "center"),
)
# Points of one cost stand above each other: farther places spread their names, each tied to its point by a line.
_FAR = tuple(
    Place(side * across, down, "left" if side > 0 else "right")
    for across in (38, 68, 104)
    for down in (-15, 15, -30, 30, -45, 45, -60, 60, -75, 75)
    for side in (1, -1)
)
PLACES: tuple[Place, ...] = _NEAR + _FAR


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """Shared area in square pixels."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return width * height if width > 0 and height > 0 else 0.0


@dataclass(frozen=True)
class Anchor:
    """A point that wants a name: its place in pixels, the whole name and the short form (its number in the table)."""

    x: float
    y: float
    text: str
    short: str


@dataclass(frozen=True)
class Label:
    text: str
    place: Place


def text_box(anchor: Anchor, text: str, place: Place) -> Box:
    width = _CHARACTER_PX * len(text)
    left = {"left": 0.0, "right": -width, "center": -width / 2}[place.align] + anchor.x + place.dx
    middle = anchor.y + place.dy
    return Box(left, middle - _LINE_PX / 2, left + width, middle + _LINE_PX / 2)


def place_labels(anchors: Sequence[Anchor], width: float, height: float, taken: Sequence[Box] = ()) -> list[Label]:
    """One label per anchor, in order. The whole name where it fits without touching a point, `taken` or another
    label; else the short form at the place that overlaps least."""
    points = [Box(a.x - 8, a.y - 8, a.x + 8, a.y + 8) for a in anchors]
    occupied: list[Box] = [*points, *taken]
    labels: dict[int, Label] = {}
    crowded = sorted(range(len(anchors)), key=lambda i: -sum(points[i].overlap(p) for p in points))
    for index in crowded:  # the most crowded point chooses first: it has the fewest places
        anchor = anchors[index]
        best: tuple[float, str, Place] | None = None
        for text in (anchor.text, anchor.short):
            for place in PLACES:
                box = text_box(anchor, text, place)
                cost = sum(box.overlap(other) for other in occupied) + _outside(box, width, height)
                if best is None or cost < best[0]:
                    best = (cost, text, place)
            if best is not None and best[0] == 0:
                break
        assert best is not None
        labels[index] = Label(best[1], best[2])
        occupied.append(text_box(anchor, best[1], best[2]))
    return [labels[i] for i in range(len(anchors))]


def _outside(box: Box, width: float, height: float) -> float:
    across = max(0.0, -box.left) + max(0.0, box.right - width)
    down = max(0.0, -box.top) + max(0.0, box.bottom - height)
    return across * _LINE_PX + down * (box.right - box.left)
