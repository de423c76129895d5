"""Tells rows that can't be read any more, since somebody wrote them past KiteDash, from a database that can't."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from db.engine import StorageError
from kitedash.domain.errors import KiteDashError, NotFound

# What reading meets in a value of another form: a status that is none, JSON that is none or lacks a key, a number as
# text, text as bytes. pydantic's and JSON's own errors are ValueErrors.
_MET = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class DamagedError(KiteDashError):
    """What is stored does not have the form in which KiteDash stores it."""


@contextmanager
def damage_told(session: Session, what: str) -> Iterator[None]:
    """Around what reads `what` ("run r1"): raises DamagedError for what can't be read.

    NotFound and the errors of a database that is gone stay what they are.
    """
    try:
        yield
    except (NotFound, StorageError, DamagedError):
        raise
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        session.rollback()  # after an error Postgres answers nothing else in the same transaction
        raise DamagedError(f"What is stored of {what} can't be read any more.") from error
    except (KiteDashError, *_MET) as error:
        raise DamagedError(f"What is stored of {what} can't be read any more.") from error
