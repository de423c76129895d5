"""Asks vLLM's own argument parser, and where wanted its own configuration, about argument vectors.

Run as `python -m kitedash.measuring.vllm_parser`: importing vLLM takes many seconds and much memory, which neither
the dashboard nor the worker should spend. Standard input: {"argvs": [[...], ...], "configure": bool} as JSON, each
argv without `-m MODULE`. Standard output: a JSON list with null or vLLM's message for each.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, NoReturn


def main() -> None:
    question = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # vLLM logs to standard output
    parser = _parser()
    found = [_refusal(parser, argv, configure=question["configure"]) for argv in question["argvs"]]
    json.dump(found, answers)
    answers.flush()


def _parser() -> Any:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def refuse(message: str) -> NoReturn:  # instead of printing and ending the process
        raise ValueError(message)

    new_parser: Any = FlexibleArgumentParser
    parser: Any = make_arg_parser(new_parser())
    parser.error = refuse
    return parser


def _refusal(parser: Any, argv: list[str], *, configure: bool) -> str | None:
    from pydantic import ValidationError
    from vllm.engine.arg_utils import AsyncEngineArgs

    try:
        arguments = parser.parse_args(argv)
        if configure:
            with contextlib.redirect_stdout(sys.stderr):
                AsyncEngineArgs.from_cli_args(arguments).create_engine_config()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    except (Exception, SystemExit) as error:  # whatever vLLM raises is its answer
        return str(error) or type(error).__name__
    return None


if __name__ == "__main__":
    main()
