"""Colours and signs. Status is never told by colour alone: every status has a shape, a sign and a word."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from kitedash.services.views import Status


@dataclass(frozen=True)
class Ink:
    """What a chart is drawn with on a light or a dark page."""

    text: str
    muted: str
    rule: str
    good: str
    background: str
    picked: str  # the ring around the candidate that is looked at
    pass_rate_range: tuple[
        str, str, str
    ]  # low, middle, high: told apart by colour-blind readers, legible on the background


LIGHT = Ink("#1b2430", "#5b6675", "#b42318", "#15803d", "#ffffff", "#7c3aed", ("#e08a1e", "#2a9d8f", "#1d4ed8"))
DARK = Ink("#e6e9ee", "#9aa5b4", "#ff9a8b", "#4ade80", "#11161d", "#c4b5fd", ("#fbbf24", "#2dd4bf", "#4f8ef7"))


def ink() -> Ink:
    """Of the theme that the viewer's browser shows."""
    return DARK if st.context.theme.type == "dark" else LIGHT


SHAPES: dict[str, str] = {
    Status.MEETS: "circle",
    Status.UNCERTAIN: "diamond",
    Status.MISSES: "triangle-down",
    Status.PENDING: "square",
}
STATUS_SIGN: dict[str, str] = {
    Status.MEETS: "● meets",
    Status.UNCERTAIN: "◆ uncertain",
    Status.MISSES: "▼ misses",
    Status.PENDING: "■ pending",
}
VERDICT_SIGN: dict[str, str] = {
    "pass": "✓ pass",
    "fail": "✗ fail",
    "inconclusive": "? inconclusive",
    "uninformative": "∅ uninformative",
    "baseline": "= baseline",
    "pending": "… pending",
}
OUTCOME_SIGN: dict[str, str] = {
    "better": "▲ better",
    "worse": "▼ worse",
    "equal": "= equal",
    "noise": "≈ noise",
    "unknown": "? not known",
}
LEVEL_SIGN: dict[str, str] = {
    "ok": "✓ ok",
    "overloaded": "▲ overloaded",
    "invalid": "✗ invalid",
}
ANSWER_SIGN: dict[str, str] = {
    "passed": "✓ passed",
    "failed": "✗ failed",
    "cut off": "✂ cut off",
    "error": "! error",
    "fixed": "↑ fixed",
    "broken": "↓ broken",
}
RUN_SIGN: dict[str, str] = {
    "queued": "… queued",
    "running": "▶ running",
    "finished": "✓ finished",
    "failed": "✗ failed",
    "cancelled": "– cancelled",
    "stopping": "■ stopping",
    "retried": "↻ retried",
}


def sign(table: dict[str, str], key: str) -> str:
    """The sign of `key`, or the bare word for one that this version does not know."""
    return table.get(key, key)
