"""Roles: each may do what those before it may."""

from __future__ import annotations

import pytest

from kitedash.domain.errors import NotAllowed
from kitedash.services.actor import LOCAL, Actor, Role, require


@pytest.mark.parametrize(
    ("has", "needs", "may"),
    [
        ("viewer", "viewer", True),
        ("viewer", "engineer", False),
        ("engineer", "viewer", True),
        ("engineer", "engineer", True),
        ("engineer", "admin", False),
        ("admin", "engineer", True),
    ],
)
def test_who_may(has: Role, needs: Role, may: bool) -> None:
    if may:
        require(Actor("ann", has), needs, "do it")
    else:
        with pytest.raises(NotAllowed, match=f"ann is {has} and may not do it: that takes {needs} or above"):
            require(Actor("ann", has), needs, "do it")


def test_whoever_sits_at_the_machine_may_do_everything() -> None:
    require(LOCAL, "admin", "do it")
