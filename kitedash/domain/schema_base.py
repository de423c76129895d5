"""What the models of an experiment file have in common."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic_core import PydanticCustomError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def broken_rule(field: str, sentence: str) -> PydanticCustomError:
    """An error of a rule between fields, laid at the field that has to change."""
    return PydanticCustomError("broken_rule", "{field} {sentence}", {"field": field, "sentence": sentence})


class Strict(BaseModel):
    """Frozen, and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    # Fields that came after experiments were stored and decisions signed: left out where they hold their default, so
    # that what was written before keeps its text and its hash.
    LATER: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_later(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in write(self).items() if self.is_written(name)}

    def is_written(self, name: str) -> bool:
        """Whether a field belongs into what is stored and hashed."""
        return name not in self.LATER or getattr(self, name) != type(self).model_fields[name].default
