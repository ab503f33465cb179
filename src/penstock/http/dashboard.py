"""The dashboard: its built files, and its page at every address that is not a route of the API."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from html import escape
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

FOLDER = Path(__file__).resolve().parents[1] / "_ui"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
)
_FOREVER = "public, max-age=31536000, immutable"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_MISSING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>penstock</title></head><body>
<h1>The dashboard is not part of this installation</h1>
<p>It was installed with <code>PENSTOCK_SKIP_UI=1</code>. The API and the command line work.</p>
<p>In a checkout, run <code>make ui</code> and reload this page.</p>
<p><a href="docs">API documentation</a></p>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class _File:
    """One built file in its available encodings."""

    media_type: str
    tag: str
    forever: bool
    encodings: dict[str, bytes]


class Dashboard:
    """Serves the built files by name, and the page to browsers at any other address."""

    def __init__(self, otherwise: ASGIApp, folder: Path = FOLDER) -> None:
        self._otherwise = otherwise
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._built_at = -1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        await (answer or self._otherwise)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        root: str = scope.get("root_path", "").rstrip("/")
        path: str = scope["path"].removeprefix(root).removeprefix("/")
        headers = Headers(scope=scope)
        self._read()
        if path in self._files and path != "index.html":
            return _sent(self._files[path], headers)
        if path == "v1" or path.startswith("v1/"):
            return None
        if path == "" or "text/html" in headers.get("accept", ""):
            return self._page(root, headers)
        return None

    def _page(self, root: str, headers: Headers) -> Response:
        file = self._files.get("index.html")
        text = _MISSING if file is None else file.encodings["identity"].decode()
        # The page loads its files relative to this, so that it works below any path.
        body = text.replace("<head>", f'<head><base href="{escape(root)}/">', 1).encode()
        tag = _tag(body)
        about = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept"}
        if headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=about)
        return Response(body, media_type=_TYPES[".html"], headers=about)

    def _read(self) -> None:
        """Read the files; read them again after a build."""
        try:
            built_at = (self._folder / "index.html").stat().st_mtime_ns
        except OSError:
            built_at = 0
        if built_at == self._built_at:
            return
        self._built_at = built_at
        self._files = {} if built_at == 0 else dict(_found(self._folder))


def _found(folder: Path) -> list[tuple[str, _File]]:
    found = []
    for path in sorted(folder.rglob("*")):
        media_type = _TYPES.get(path.suffix)
        if media_type is None or not path.is_file():
            continue
        encodings = {"identity": path.read_bytes()}
        for name, ending in (("br", ".br"), ("gzip", ".gz")):
            packed = path.with_name(path.name + ending)
            if packed.is_file():
                encodings[name] = packed.read_bytes()
        name = path.relative_to(folder).as_posix()
        found.append((name, _File(media_type, _tag(encodings["identity"]), name.startswith("assets/"), encodings)))
    return found


def _sent(file: _File, headers: Headers) -> Response:
    about = {
        "Content-Security-Policy": POLICY,
        "Cache-Control": _FOREVER if file.forever else "no-cache",
        "ETag": file.tag,
        "Vary": "Accept-Encoding",
    }
    if headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=about)
    taken = {each.split(";")[0].strip() for each in headers.get("accept-encoding", "").lower().split(",")}
    encoding = next((each for each in ("br", "gzip") if each in taken and each in file.encodings), "identity")
    if encoding != "identity":
        about["Content-Encoding"] = encoding
    return Response(file.encodings[encoding], media_type=file.media_type, headers=about)


def _tag(body: bytes) -> str:
    return f'W/"{hashlib.sha256(body).hexdigest()[:20]}"'
