"""Sets up everything KiteDash needs, from a fresh clone: `python3 setup/bootstrap.py` (what `make setup` runs).

Needs nothing but Python's standard library. Safe to repeat: what is done already takes no time, and what was
interrupted is repaired. This file keeps to a syntax that any Python 3 can read, so that an old one gets a sentence.
"""

import os
import sys

LEAST_MINOR = 11


def wrong_python(major: int, minor: int, executable: str) -> str:
    """One sentence where this Python is too old, else the empty string."""
    if (major, minor) >= (3, LEAST_MINOR):
        return ""
    found = executable + " is " + str(major) + "." + str(minor)
    return (
        "KiteDash needs Python 3." + str(LEAST_MINOR) + " or newer, but " + found + ": "
        "install a newer one and name it, as in `make demo PYTHON=python3.11`."
    )


if __name__ == "__main__":
    sentence = wrong_python(sys.version_info[0], sys.version_info[1], sys.executable)
    if sentence:
        sys.exit(sentence)
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120  (as old as it is)
    from setup.run import main

    sys.exit(main(sys.argv[1:]))
