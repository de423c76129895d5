"""Errors that carry one sentence for the person who can act on it."""

from __future__ import annotations


class KiteDashError(Exception):
    """Base of every error a user may see: `str(error)` is one clear sentence."""


class InvalidInput(KiteDashError):
    """A field holds what is not allowed. `field` is its path, such as `load.rates_per_s`."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.field = field
        self.sentence = sentence


class NotFound(KiteDashError):
    """What was asked for is not stored."""


class NotAllowed(KiteDashError):
    """The actor's role does not cover the action."""


class Refused(KiteDashError):
    """The device or the engine cannot do what a candidate asks; the sentence carries the engine's reason."""


class EngineFailed(KiteDashError):
    """The engine ended or did not become ready. `log_tail` holds its last lines."""

    def __init__(self, sentence: str, log_tail: str = "") -> None:
        super().__init__(sentence)
        self.log_tail = log_tail
