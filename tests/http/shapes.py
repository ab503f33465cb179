"""Every answer must be what the document says: no field more, no field less."""

from __future__ import annotations

import re
from typing import Any

import httpx2
from fastapi import FastAPI
from jsonschema_rs import validator_for

_documents: dict[str, Any] = {}
"""What every server says of itself, worked out once: that takes longer than a request."""


def check_against_document(web: FastAPI, method: str, path: str, answer: httpx2.Response) -> None:
    """Compare an answer with the schema that the document has for it; the path must be one that is documented."""
    if path == "/openapi.json":
        return
    document = _documents.get("document") or _documents.setdefault("document", web.openapi())
    found = [each for each in document["paths"] if _fits(each, path) and method.lower() in document["paths"][each]]
    if not found:
        assert answer.status_code in (400, 404, 405, 414, 421, 431), f"{method} {path} is not documented"
        return
    # The most particular one is that which the router takes, too.
    template = max(found, key=_particular)
    told = document["paths"][template][method.lower()]["responses"].get(str(answer.status_code))
    assert told is not None, f"{method} {path} answered {answer.status_code}, which is not documented"
    if "application/json" not in answer.headers.get("content-type", ""):
        return
    key = f"{method} {template} {answer.status_code}"
    if key not in _documents:
        schema = told["content"]["application/json"]["schema"]
        _documents[key] = validator_for({**schema, "components": document["components"]})
    problems = [str(each) for each in _documents[key].iter_errors(answer.json())]
    assert not problems, problems[:3]


def _fits(template: str, path: str) -> bool:
    pattern = re.sub(r"\\\{key\\\}", ".*", re.escape(template))
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)
    return re.fullmatch(pattern, path) is not None


def _particular(template: str) -> tuple[int, int]:
    fixed = re.sub(r"\{\w+\}", "", template)
    return fixed.count("/"), len(fixed)
