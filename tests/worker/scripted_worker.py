"""`python -m tests.worker.scripted_worker SLOT`: a worker as the product starts it, with the scripted engine instead of
vLLM. SCRIPTED_ENGINE in its environment is the engine's script (the engine itself gets a clean environment)."""

from __future__ import annotations

import os
import sys

from kitedash.measuring.server import EngineProgram
from kitedash.running.worker import main

script = {"SCRIPTED_ENGINE": os.environ.get("SCRIPTED_ENGINE", "{}")}
sys.exit(main(sys.argv[1:], program=EngineProgram("tests.scripted_engine", script)))
