"""Who is calling: a token, a browser's session, this very host, or nobody."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import Request

from penstock.config.server_settings import WebSettings
from penstock.domain.access import Role
from penstock.domain.actor import Actor
from penstock.domain.errors import Unauthenticated
from penstock.http.addresses import address_of, is_loopback, network_of, sign_of_proxy
from penstock.http.errors import Refusal
from penstock.http.setup_code import HEADER, is_setup_code
from penstock.http.wrong_tokens import WrongTokens

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.http.server_state import Site

COOKIE = "penstock_session"
SECURE_COOKIE = "__Host-penstock_session"
"""Over https: browsers take it from this very host only."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FRESH = 1.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever makes a request, with what the request may use."""

    site: Site
    by: Actor
    """Who it is, for events and for the audit."""
    role: Role | None
    """None: nobody in particular."""
    bucket: str
    """By what its creations are counted."""
    token_id: str | None = None
    is_local: bool = False
    """A program of this host, while there is no token."""

    @property
    def app(self) -> Penstock:
        return self.site.app

    @property
    def is_anonymous(self) -> bool:
        """Whether it creates jobs only because everybody may."""
        return self.role is None or not self.role.covers(Role.CREATOR)

    @property
    def key_scope(self) -> str:
        """Whose idempotency keys it shares: those of code and of all tokens are one scope."""
        return "anonymous" if self.is_anonymous else ""


class Doorkeeper:
    """Knows whether tokens are needed, and how many wrong ones were shown."""

    def __init__(self, app: Penstock, settings: WebSettings, setup_code: str | None = None) -> None:
        self.app = app
        self.settings = settings
        self.setup_code = setup_code
        """What opens the role super_admin to this host while there is no token; used up by the first token."""
        self._closed: tuple[float, bool] = (-_FRESH, False)
        self.wrong_tokens: WrongTokens = WrongTokens(settings.failed_tokens, settings.failed_tokens_total)

    async def is_closed(self) -> bool:
        """Whether callers without a token are refused. The store is asked once a second."""
        read_at, closed = self._closed
        now = time.monotonic()
        if now - read_at >= _FRESH:
            closed = await self.app.aneeds_token()
            if closed:
                self.setup_code = None
            self._closed = now, closed
        return closed

    def forget(self) -> None:
        """Ask anew whether there are tokens: the first one may just have been made."""
        self._closed = -_FRESH, False


async def admit(request: Request, role: Role | None, *, again: bool = False) -> Caller:
    """Find out who calls, and refuse callers that may not; `role` None lets everybody in.

    `again`: the request was let in before, so a token that has ended since then is not counted as a wrong one.
    """
    caller = await _admitted(request, role, again)
    request.state.bucket = caller.bucket
    return caller


async def _admitted(request: Request, role: Role | None, again: bool) -> Caller:
    site: Site = request.app.state.site
    if site.trusted is not None:
        return Caller(site, Actor(site.trusted, request.state.request_id), Role.SUPER_ADMIN, "trusted")
    check_host(request)
    try:
        caller = await _identify(request, site)
    except Unauthenticated:
        too_many = None if again else site.door.wrong_tokens.count(address_of(request))
        # Callers with a session that is over must be able to begin another, however many wrong tokens came.
        if role is not None or (too_many is not None and "authorization" in request.headers):
            raise too_many or Unauthenticated() from None
        caller = _nobody(request, site)
    if role is None or (caller.role is not None and caller.role.covers(role)):
        return caller
    if role is Role.CREATOR and site.settings.anonymous_create:
        return caller
    if caller.role is None:
        sign = None if await site.door.is_closed() else sign_of_proxy(request.scope)
        raise Refusal(
            "unauthenticated",
            "A valid token is needed."
            if sign is None
            else f"A request through a proxy needs a token: {sign} is a sign of one.",
            hint=Unauthenticated().hint,
            headers={"WWW-Authenticate": "Bearer"},
        )
    if caller.is_local:
        raise _setup_code_needed(request, site)
    raise Refusal(
        "forbidden", f"This needs the role {role}, and the token has the role {caller.role}.", details={"role": role}
    )


async def _identify(request: Request, site: Site) -> Caller:
    door = site.door
    request_id: str = request.state.request_id
    address = address_of(request)
    shown = [value.decode("latin-1") for name, value in request.scope["headers"] if name == b"authorization"]
    if len(shown) > 1:
        raise Refusal("malformed", "The header Authorization was sent more than once.")
    cookie = request.cookies.get(cookie_name(request)) if "cookie" in request.headers else None
    if not shown and cookie is None:
        if not await door.is_closed():
            return _local(request, site, address, request_id)
        return _nobody(request, site)
    if shown:
        token = await door.app.aauthenticate(_bearer(shown[0]))
    else:
        _refuse_foreign_pages(request, of_a_browser=True)
        token = await door.app.asession_token(cookie or "")
    who = Actor(f"token:{token.name}", request_id)
    return Caller(site, who, token.role, f"token:{token.id}", token.id)


def cookie_name(request: Request) -> str:
    """The name of the cookie that holds a session."""
    return SECURE_COOKIE if request.scope["scheme"] == "https" else COOKIE


def _nobody(request: Request, site: Site) -> Caller:
    address = address_of(request)
    return Caller(site, Actor(f"anonymous@{address}", request.state.request_id), None, f"address:{network_of(address)}")


def _local(request: Request, site: Site, address: str, request_id: str) -> Caller:
    """While there is no token, callers of this host, and no others, may do everything but what a super_admin does.

    A proxy that says nothing of itself looks like a program of this host, so making tokens takes the setup code.
    """
    if sign_of_proxy(request.scope) is not None or not is_loopback(address):
        return _nobody(request, site)
    if _host_name(request) not in _LOCAL_NAMES:
        raise _misdirected(request)
    _refuse_foreign_pages(request)
    code, shown = site.door.setup_code, request.headers.get(HEADER)
    role = Role.SUPER_ADMIN if code and shown and is_setup_code(shown, code) else Role.ADMIN
    return Caller(site, Actor("local", request_id), role, f"address:{network_of(address)}", is_local=True)


def _setup_code_needed(request: Request, site: Site) -> Refusal:
    """The refusal of a caller that did not show the setup code, or a wrong one, which is counted."""
    if site.door.setup_code is None:
        message = "Without a token this can be done on the host's command line alone."
        hint = "Run `penstock tokens create NAME --role super_admin` there, and use the token."
    else:
        message = "Without a token this needs the setup code of this server."
        hint = (
            "The server printed it at its start; send it as X-Penstock-Setup-Code. Or run "
            "`penstock tokens create NAME --role super_admin` on the host, and use the token."
        )
        if HEADER in request.headers:
            if (too_many := site.door.wrong_tokens.count(address_of(request))) is not None:
                return too_many
            message = "This is not the setup code of this server."
    return Refusal("forbidden", message, hint=hint, details={"role": Role.SUPER_ADMIN})


def check_host(request: Request) -> None:
    """Refuse a name that is not ours: a foreign DNS entry leads a browser here."""
    site: Site = request.app.state.site
    if site.trusted is not None:
        return
    settings = site.settings
    sent = [value for name, value in request.scope["headers"] if name == b"host"]
    if len(sent) > 1:
        raise Refusal("malformed", "The header Host was sent more than once.")
    name = _host_name(request)
    if not settings.hosts or name in _LOCAL_NAMES or name in settings.hosts:
        return
    raise _misdirected(request)


def _misdirected(request: Request) -> Refusal:
    return Refusal(
        "misdirected",
        f"This server does not answer to the name {_host_name(request)[:80]!r}.",
        hint="Without tokens it is known as localhost only; the setting web.hosts names what else it answers to.",
    )


def _host_name(request: Request) -> str:
    host = request.headers.get("host", "").lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".")


def _bearer(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token or len(token) > 500:
        raise Unauthenticated()
    return token.strip()


def _refuse_foreign_pages(request: Request, *, of_a_browser: bool = False) -> None:
    """A request that another site's page makes in a user's browser changes nothing here.

    Browsers send Sec-Fetch-Site, or Origin where they are old. A cookie comes from a browser, so one of them must come
    with it; other programs send neither.
    """
    if request.method in _SAFE:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    elif origin is not None:
        foreign = origin.partition("://")[2] != request.headers.get("host")
    elif of_a_browser:
        raise Refusal(
            "forbidden",
            "A session changes nothing without the header Sec-Fetch-Site or Origin.",
            hint="Browsers send them; programs send a token: Authorization: Bearer pst_…",
        )
    else:
        return
    if foreign and origin not in request.app.state.site.settings.origins:
        raise Refusal("forbidden", "The request comes from a page of another site.")


async def _caller(request: Request) -> Caller:
    # A plain function would be called in a thread.
    caller: Caller = request.state.caller
    return caller


Call = Annotated[Caller, Depends(_caller)]
"""In a handler's signature: whoever makes the request."""
