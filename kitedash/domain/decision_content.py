"""What a person writes in a decision: as typed so far, and complete."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from kitedash.domain.errors import InvalidInput
from kitedash.domain.experiment import Strict
from kitedash.domain.schema_errors import first_sentence
from kitedash.domain.sentences import shown

KEPT = "\n\t"


def _without_controls(text: str) -> str:
    """Line ends as one sign. Control characters, and those that turn the direction of text, become U+FFFD: what a
    record says must be what is seen."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c if c in KEPT or not _hidden(c) else "\ufffd" for c in text)


def _hidden(character: str) -> bool:
    bidirectional = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return unicodedata.category(character) in ("Cc", "Cs") or character in bidirectional


Text = Annotated[str, AfterValidator(_without_controls)]
Name = Annotated[Text, StringConstraints(max_length=200)]
Reason = Annotated[Text, StringConstraints(max_length=2_000)]
CandidateName = Annotated[Text, StringConstraints(max_length=80)]


class DraftContent(Strict):
    """What is typed so far: any of it may be missing. Lengths are in characters."""

    title: Text = Field("", max_length=200, description="what is decided, in one line")
    why: Text = Field("", max_length=10_000, description="why this candidate and no other")
    consequences: Text = Field("", max_length=10_000, description="what follows from it, good and bad")
    deciders: tuple[Name, ...] = Field((), max_length=20, description="who decides, by name")
    consulted: tuple[Name, ...] = Field((), max_length=50, description="who was asked, by name")
    look_again: Text = Field("", max_length=2_000, description="when, or on what event, to look at it again")
    rejected: dict[CandidateName, Reason] = Field(
        default_factory=dict, max_length=64, description="a reason for each candidate that is not chosen"
    )


class DecisionContent(DraftContent):
    """Complete, as a record needs it: `content_from` makes it."""

    title: Text = Field(min_length=1, max_length=200, description="what is decided, in one line")
    why: Text = Field(min_length=1, max_length=10_000, description="why this candidate and no other")
    consequences: Text = Field(min_length=1, max_length=10_000, description="what follows from it, good and bad")
    deciders: tuple[Name, ...] = Field(min_length=1, max_length=20, description="who decides, by name")
    look_again: Text = Field(min_length=1, max_length=2_000, description="when, or on what event, to look again")


Content = TypeVar("Content", bound=DraftContent)


def draft_content_from(data: Mapping[str, Any]) -> DraftContent:
    """What was typed so far, as it is. Raises InvalidInput on a wrong type, an unknown field or too long a text."""
    return _validated(data, DraftContent)


def content_from(data: Mapping[str, Any]) -> DecisionContent:
    """The complete content, without space around its texts and without empty names and reasons.

    Raises InvalidInput, naming the field, where something is missing.
    """
    draft = draft_content_from(data)
    content = _validated(
        {
            "title": " ".join(draft.title.split()),
            "why": draft.why.strip(),
            "consequences": draft.consequences.strip(),
            "deciders": _names(draft.deciders),
            "consulted": _names(draft.consulted),
            "look_again": draft.look_again.strip(),
            "rejected": {name: reason.strip() for name, reason in draft.rejected.items() if reason.strip()},
        },
        DecisionContent,
    )
    return content


def require_reasons(content: DecisionContent, needed: tuple[str, ...]) -> None:
    """Raises InvalidInput for the first candidate whose rejection nobody explained."""
    for name in needed:
        if name not in content.rejected:
            raise InvalidInput(f"rejected.{name}", f"is missing: say why {name} is not chosen")


def _names(names: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(line for name in names if (line := " ".join(name.split()))))


def _validated(data: Mapping[str, Any], model: type[Content]) -> Content:
    if not isinstance(data, Mapping):
        raise InvalidInput("content", f"must be a group of keys, not {shown(data)}")
    try:
        text = json.dumps({**data}, ensure_ascii=False).encode("utf-8", "replace")  # a lone surrogate becomes "?"
        # JSON's strict mode takes lists for tuples, but neither text for numbers nor numbers for text.
        return model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise InvalidInput(*first_sentence(error.errors(include_url=False), model)) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("content", f"holds plain values only ({error})") from None
