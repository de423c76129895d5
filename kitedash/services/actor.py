"""Who does something, and whether their role covers it. Every service that writes asks here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from kitedash.domain.errors import NotAllowed

Role = Literal["viewer", "engineer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may


@dataclass(frozen=True)
class Actor:
    name: str
    role: Role


LOCAL = Actor("local", "admin")  # whoever sits at the machine where there is no log-in


def require(actor: Actor, role: Role, action: str) -> None:
    """Raises NotAllowed unless the actor's role is `role` or above. `action` completes "may not ..."."""
    if ROLES.index(actor.role) < ROLES.index(role):
        raise NotAllowed(f"{actor.name} is {actor.role} and may not {action}: that takes {role} or above.")


def lacks(actor: Actor, role: Role, action: str) -> str:
    """Why the actor may not do it, as the one sentence that `require` raises; "" where they may."""
    try:
        require(actor, role, action)
    except NotAllowed as error:
        return str(error)
    return ""
