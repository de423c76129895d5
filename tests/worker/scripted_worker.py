"""`python -m tests.worker.scripted_worker SLOT`: a worker as the product starts it, with the scripted engine instead of
vLLM. SCRIPTED_ENGINE in its environment is the engine's script (the engine itself gets a clean environment)."""

from __future__ import annotations

import os
import sys

from kitedash.domain.errors import KiteDashError
from kitedash.measuring.server import EngineProgram
from kitedash.running.slots import parse_slot
from kitedash.running.worker import serve

try:
    script = {"SCRIPTED_ENGINE": os.environ.get("SCRIPTED_ENGINE", "{}")}
    serve(parse_slot(sys.argv[1]), program=EngineProgram("tests.scripted_engine", script))
except KiteDashError as error:
    sys.exit(str(error))
