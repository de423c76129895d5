"""What is said of an error of the database underneath, such as a full disk or a lock that was waited for too long."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError


def database_sentence(error: Exception) -> str:
    """One sentence; "" for an error that is not the database's."""
    if not isinstance(error, DBAPIError):
        return ""
    return f"The database can't be used: {' '.join(str(error.orig).split()).rstrip('.')}."
