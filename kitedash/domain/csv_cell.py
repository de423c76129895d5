"""What a cell of a CSV file holds, so that a spreadsheet shows text as text and never runs it."""

from __future__ import annotations

Cell = str | int | float | bool | None | list[float | None]

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
ESCAPE = "'"  # spreadsheets take what follows as text (OWASP, "CSV Injection")


def csv_cell(value: Cell) -> str:
    """Numbers as they are (a negative one begins with "-" and stays a number), true and false in words, nothing for
    None, a list's numbers with spaces between them; text that a spreadsheet would take for a formula gets ESCAPE in
    front."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return " ".join("null" if one is None else f"{one:.6g}" for one in value)
    return ESCAPE + value if value.startswith(FORMULA_STARTS) else value
