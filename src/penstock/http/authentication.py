"""Who is calling: a bearer token, a browser's session, a program on this host, or an anonymous caller."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import Request

from penstock.config.server_settings import WebSettings
from penstock.domain.access import Actor, Role
from penstock.domain.errors import Unauthenticated
from penstock.http.errors import RequestError
from penstock.http.request_origin import (
    LOCAL_NAMES,
    address_of,
    check_host,
    host_name,
    is_loopback,
    misdirected,
    network_of,
    refuse_foreign_pages,
    sign_of_proxy,
)

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.http.application import ServerState


COOKIE = "penstock_session"
SECURE_COOKIE = "__Host-penstock_session"
"""Over https: browsers accept it from this host only."""
_FRESH = 1.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of a request, with what the request may use."""

    server: ServerState
    by: Actor
    """Name of the caller, for events and for the audit."""
    role: Role | None
    """None: an anonymous caller."""
    bucket: str
    """The key that limits count this caller by."""
    token_id: str | None = None
    is_local: bool = False
    """A program on this host, while there is no token."""

    @property
    def app(self) -> Penstock:
        return self.server.app

    @property
    def is_anonymous(self) -> bool:
        """Whether it may create jobs only because everyone may."""
        return self.role is None or not self.role.covers(Role.CREATOR)

    @property
    def key_scope(self) -> str:
        """The scope of its idempotency keys; code and all tokens share one scope."""
        return "anonymous" if self.is_anonymous else ""


class TokenPolicy:
    """Tracks whether tokens are required, and how many wrong ones were sent."""

    def __init__(self, app: Penstock, settings: WebSettings, setup_code: str | None = None) -> None:
        self.app = app
        self.settings = settings
        self.setup_code = setup_code
        """Grants the role super_admin to callers on this host while there is no token; the first token ends it."""
        self._closed: tuple[float, bool] = (-_FRESH, False)
        self.wrong_tokens: WrongTokens = WrongTokens(settings.failed_tokens, settings.failed_tokens_total)

    async def requires_token(self) -> bool:
        """Return whether callers without a token are refused. The store is read once a second."""
        read_at, closed = self._closed
        now = time.monotonic()
        if now - read_at >= _FRESH:
            closed = await self.app.aneeds_token()
            if closed:
                self.setup_code = None
            self._closed = now, closed
        return closed

    def invalidate(self) -> None:
        """Read from the store again whether there are tokens: the first one may have been created."""
        self._closed = -_FRESH, False


async def admit(request: Request, role: Role | None, *, again: bool = False) -> Caller:
    """Identify the caller, and refuse one that lacks the role; with `role` None everyone is admitted.

    `again`: the request was admitted before, so a token that has ended since then is not counted as a wrong one.

    """
    caller = await _admitted(request, role, again)
    request.state.bucket = caller.bucket
    return caller


async def _admitted(request: Request, role: Role | None, again: bool) -> Caller:
    server: ServerState = request.app.state.server
    if server.trusted is not None:
        return Caller(server, Actor(server.trusted, request.state.request_id), Role.SUPER_ADMIN, "trusted")
    check_host(request)
    try:
        caller = await _identify(request, server)
    except Unauthenticated:
        too_many = None if again else server.token_policy.wrong_tokens.count(address_of(request))
        # Let expired sessions sign in again, however many wrong tokens were sent.
        if role is not None or (too_many is not None and "authorization" in request.headers):
            raise too_many or Unauthenticated() from None
        caller = _anonymous(request, server)
    if role is None or (caller.role is not None and caller.role.covers(role)):
        return caller
    if role is Role.CREATOR and server.settings.anonymous_create:
        return caller
    if caller.role is None:
        sign = None if await server.token_policy.requires_token() else sign_of_proxy(request.scope)
        raise RequestError(
            "unauthenticated",
            "A valid token is needed."
            if sign is None
            else f"A request through a proxy needs a token: {sign} is a sign of one.",
            hint=Unauthenticated().hint,
            headers={"WWW-Authenticate": "Bearer"},
        )
    if caller.is_local:
        raise _setup_code_needed(request, server)
    raise RequestError(
        "forbidden", f"This needs the role {role}, and the token has the role {caller.role}.", details={"role": role}
    )


async def _identify(request: Request, server: ServerState) -> Caller:
    policy = server.token_policy
    request_id: str = request.state.request_id
    address = address_of(request)
    shown = [value.decode("latin-1") for name, value in request.scope["headers"] if name == b"authorization"]
    if len(shown) > 1:
        raise RequestError("malformed", "The header Authorization was sent more than once.")
    cookie = request.cookies.get(cookie_name(request)) if "cookie" in request.headers else None
    if not shown and cookie is None:
        if not await policy.requires_token():
            return _local(request, server, address, request_id)
        return _anonymous(request, server)
    if shown:
        token = await policy.app.aauthenticate(_bearer(shown[0]))
    else:
        refuse_foreign_pages(request, of_a_browser=True)
        token = await policy.app.asession_token(cookie or "")
    who = Actor(f"token:{token.name}", request_id)
    return Caller(server, who, token.role, f"token:{token.id}", token.id)


def cookie_name(request: Request) -> str:
    """Return the name of the session cookie."""
    return SECURE_COOKIE if request.scope["scheme"] == "https" else COOKIE


def _anonymous(request: Request, server: ServerState) -> Caller:
    address = address_of(request)
    return Caller(
        server, Actor(f"anonymous@{address}", request.state.request_id), None, f"address:{network_of(address)}"
    )


def _local(request: Request, server: ServerState, address: str, request_id: str) -> Caller:
    """While there is no token, let callers on this host do everything except what needs super_admin.

    A proxy that adds no headers looks like a program on this host, so creating tokens requires the setup code.

    """
    if sign_of_proxy(request.scope) is not None or not is_loopback(address):
        return _anonymous(request, server)
    if host_name(request) not in LOCAL_NAMES:
        raise misdirected(request)
    refuse_foreign_pages(request)
    code, shown = server.token_policy.setup_code, request.headers.get(HEADER)
    role = Role.SUPER_ADMIN if code and shown and is_setup_code(shown, code) else Role.ADMIN
    return Caller(server, Actor("local", request_id), role, f"address:{network_of(address)}", is_local=True)


def _setup_code_needed(request: Request, server: ServerState) -> RequestError:
    """Return the error for a missing or wrong setup code; wrong ones are counted."""
    if server.token_policy.setup_code is None:
        message = "Without a token this is possible on the host's command line only."
        hint = "Run `penstock tokens create NAME --role super_admin` there, and send the token."
    else:
        message = "Without a token this needs the setup code of this server."
        hint = (
            "The server printed it at its start; send it as X-Penstock-Setup-Code. Or run "
            "`penstock tokens create NAME --role super_admin` on the host, and send the token."
        )
        if HEADER in request.headers:
            if (too_many := server.token_policy.wrong_tokens.count(address_of(request))) is not None:
                return too_many
            message = "This is not the setup code of this server."
    return RequestError("forbidden", message, hint=hint, details={"role": Role.SUPER_ADMIN})


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > 500:
        raise Unauthenticated()
    return token.strip()


async def _caller(request: Request) -> Caller:
    # FastAPI would call a plain function in a thread.
    caller: Caller = request.state.caller
    return caller


Call = Annotated[Caller, Depends(_caller)]
"""In a handler's signature: the caller of the request."""


HEADER = "x-penstock-setup-code"
_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without letters that look alike."""
_GROUPS, _GROUP = 3, 4


def new_setup_code() -> str:
    """Return a code such as K7QF-2M9X-PD4T: 59 random bits."""
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))


def is_setup_code(given: str, code: str) -> bool:
    """Return whether a text is the code, ignoring case and dashes."""
    return hmac.compare_digest(_plain(given), _plain(code))


def _plain(text: str) -> bytes:
    return text.upper().replace("-", "").replace(" ", "").encode(errors="replace")


_PERIOD = 60.0
_MOST_NETWORKS = 10_000


class WrongTokens:
    """Counts wrong tokens per network and in total; a valid token is never refused because of them."""

    def __init__(self, most_of_one: int, most_of_all: int) -> None:
        self._most_of_one = most_of_one
        self._most_of_all = most_of_all
        self._of_one: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._of_all: tuple[int, float] = (0, -_PERIOD)

    def count(self, address: str) -> RequestError | None:
        """Count one wrong token; return the error to answer with if a limit is exceeded."""
        now = time.monotonic()
        network = network_of(address)
        of_one, since_one = self._of_one[network] = _more(self._of_one.pop(network, (0, now)), now)
        of_all, since_all = self._of_all = _more(self._of_all, now)
        if len(self._of_one) > _MOST_NETWORKS:
            self._of_one.popitem(last=False)
        if of_one > self._most_of_one:
            return _refusal("Too many wrong tokens were sent from this address.", since_one + _PERIOD - now)
        if of_all > self._most_of_all:
            return _refusal("Too many wrong tokens were sent to this server.", since_all + _PERIOD - now)
        return None


def _more(counted: tuple[int, float], now: float) -> tuple[int, float]:
    count, since = counted
    return (count + 1, since) if now - since <= _PERIOD else (1, now)


def _refusal(message: str, seconds: float) -> RequestError:
    return RequestError(
        "rate_limited", message, hint="Wait, then use a valid one.", headers={"Retry-After": str(int(seconds) + 1)}
    )
