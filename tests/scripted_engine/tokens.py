"""Token ids of a prompt: by the model folder's tokenizer and chat template, or one a word where there is none.

Renders the template with jinja2 and encodes with `tokenizers`: another path than the product's, which asks
transformers, so a test that compares the two compares something.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.scripted_engine.script import Script


class Tokens:
    def __init__(self, script: Script) -> None:
        folder = Path(script.model) if script.model else None
        self._tokenizer: Any = None
        self._template: Any = None
        if script.count_tokens and folder is not None and (folder / "tokenizer.json").is_file():
            import jinja2
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            template = folder / "chat_template.jinja"
            text = (
                template.read_text()
                if template.is_file()
                else json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template", "")
            )
            if text:
                self._template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(text)

    def of_messages(self, messages: Sequence[Mapping[str, str]]) -> list[Any]:
        if self._template is not None:
            return self.of_text(self._template.render(messages=messages, add_generation_prompt=True))
        return self.of_text(" ".join(f"{message['role']} {message['content']}" for message in messages))

    def of_prompt(self, prompt: str | Sequence[int]) -> list[Any]:
        return self.of_text(prompt) if isinstance(prompt, str) else list(prompt)

    def of_text(self, text: str) -> list[Any]:
        if self._tokenizer is None:
            return [zlib.crc32(word.encode()) % 50_000 for word in text.split()]
        ids: list[Any] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def text_of(self, token: Any) -> str:
        if self._tokenizer is None:
            return f" t{token}"
        return str(self._tokenizer.id_to_token(int(token)))
