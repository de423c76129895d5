from __future__ import annotations

import random

import pytest

from kitedash.ui.labels import Anchor, Box, place_labels, text_box

WIDTH, HEIGHT = 935.0, 356.0


def covered(anchors: list[Anchor]) -> float:
    """Share of all label area that lies on another label, on a point, or outside."""
    labels = place_labels(anchors, WIDTH, HEIGHT)
    boxes = [text_box(a, label.text, label.place) for a, label in zip(anchors, labels, strict=True)]
    points = [Box(a.x - 8, a.y - 8, a.x + 8, a.y + 8) for a in anchors]
    hidden = sum(box.overlap(other) for i, box in enumerate(boxes) for other in (*boxes[:i], *points))
    hidden += sum((b.right - b.left) * (b.bottom - b.top) - b.overlap(Box(0, 0, WIDTH, HEIGHT)) for b in boxes)
    return hidden / sum((b.right - b.left) * (b.bottom - b.top) for b in boxes)


def test_overlap_is_the_shared_area() -> None:
    assert Box(0, 0, 10, 10).overlap(Box(5, 8, 20, 20)) == 5 * 2
    assert Box(0, 0, 10, 10).overlap(Box(10, 0, 20, 10)) == 0


def test_a_lone_point_has_its_name_at_its_right() -> None:
    (label,) = place_labels([Anchor(400, 100, "float32", "#1")], WIDTH, HEIGHT)
    assert (label.text, label.place.align, label.place.dy) == ("float32", "left", 0)


def test_at_the_right_edge_the_name_turns_left() -> None:
    (label,) = place_labels([Anchor(WIDTH - 5, 100, "int8, no prefix cache", "#1")], WIDTH, HEIGHT)
    assert label.place.align == "right"


@pytest.mark.parametrize("seed", range(20))
def test_eight_points_close_together_keep_legible_names(seed: int) -> None:
    draw = random.Random(seed)
    anchors = [
        Anchor(460 + draw.uniform(-25, 25), 180 + draw.uniform(-40, 40), f"candidate {i}, no cache", f"#{i}")
        for i in range(8)
    ]
    assert covered(anchors) < 0.02


def test_a_stack_of_eight_at_one_cost_keeps_legible_names() -> None:
    assert covered([Anchor(300, 100 + 12 * i, f"candidate {i}, no cache", f"#{i}") for i in range(8)]) < 0.02


def test_where_no_name_fits_the_number_in_the_table_stands() -> None:
    labels = place_labels([Anchor(20, 20, "x" * 90, "#7")], 60, 60)
    assert labels[0].text == "#7"
