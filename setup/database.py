"""`python -m setup.database` in KiteDash's own environment: creates the database or brings it up to date."""

from __future__ import annotations

import sys

from db.engine import migrate
from kitedash.domain.errors import KiteDashError
from kitedash.settings import settings

if __name__ == "__main__":
    try:
        migrate(settings().url)
    except KiteDashError as error:
        sys.exit(str(error))
