"""One signed POST to an address that somebody else chose (Standard Webhooks). It may be no address of ours (T87).

The name is resolved anew each time, every address it has is checked, and the connection goes to one that was checked:
a name that means another address a moment later gains nothing. No proxy, no redirect, no cookie.
"""

import asyncio
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache, partial
from ipaddress import IPv4Address, ip_address, ip_network

import httpx
from django.conf import settings
from standardwebhooks import Webhook

URL = 2_000  # characters
RESOLVING = 16  # names that are asked for at once
READ = 4_096  # bytes of an answer
ADDRESSES = 4  # of a name that are tried

_LEGAL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#@\s\[\]:]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?([/?][^#\s]*)?")
_UNICAST = ip_network("2000::/3")
# of that, what stands for an IPv4 address, or for none
_NOT_OURS_TO_REACH = [ip_network(each) for each in ("2002::/16", "2001::/23", "3fff::/20")]


# threads of their own: one that hangs on somebody's name server keeps no other work, and no call beyond its time
_resolving = ThreadPoolExecutor(RESOLVING, "resolving")


class Unsafe(Exception):
    """This address is not sent to. The message says why."""


class Failed(Exception):
    """No answer came. The message is the kind of failure, without the address."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    retry_after: timedelta | datetime | None = None

    @property
    def acknowledges(self) -> bool:
        return 200 <= self.status < 300


def check(url: str) -> str:
    """The address as it may be sent to. Raises Unsafe for one that never may be, whatever its name stands for."""
    found = _LEGAL.fullmatch(url) if len(url) <= URL and url.isascii() and url.isprintable() else None
    if found is None:
        raise Unsafe("It is https://host/path, in ASCII, without a user or a fragment.")
    host = found["host"].strip("[]")
    local = host == "localhost" or _literal(host) is not None and ip_address(host).is_loopback
    if found["scheme"] == "http" and not (local and settings.SAYSO_WEBHOOK_LOOPBACK):
        raise Unsafe("It is https.")
    if _literal(host) is not None and not reachable(host):
        raise Unsafe("Its address is not a public one.")
    try:
        port = httpx.URL(url).port
    except (httpx.InvalidURL, ValueError):
        raise Unsafe("It is no address.") from None
    if port is not None and not 0 < port < 65_536:
        raise Unsafe("Its port is none.")
    return url


def reachable(address: str) -> bool:
    """Whether this is a public address; or, where the setting allows it, one of this machine's loopback."""
    found = _literal(address)
    if found is None:  # with a zone, or no address at all
        return False
    if found.is_loopback:
        return settings.SAYSO_WEBHOOK_LOOPBACK
    if isinstance(found, IPv4Address):
        return found.is_global and not found.is_multicast and not found.is_reserved
    ours = found in _UNICAST and not any(found in each for each in _NOT_OURS_TO_REACH)
    return ours and found.is_global


def _literal(host: str):
    try:
        return ip_address(host)
    except ValueError:
        return None


async def post(url: str, *, id: str, at: datetime, secret: str, body: str, seconds: float) -> Answer:
    """Send it, signed with `secret` for the time `at`, within `seconds` in all. Raises Unsafe, Failed."""
    try:
        async with asyncio.timeout(seconds):
            return await _post(httpx.URL(check(url)), id, at, secret, body, seconds)
    except (OSError, httpx.HTTPError, ValueError) as failed:  # a TimeoutError is an OSError
        raise Failed(type(failed).__name__) from failed


async def _post(url: httpx.URL, id: str, at: datetime, secret: str, body: str, seconds: float) -> Answer:
    addresses = await resolve(url.host, url.port or {"https": 443, "http": 80}[url.scheme])
    wrong = [each for each in addresses if not reachable(each)]
    if wrong or not addresses:
        raise Unsafe("Its name stands for an address that is not a public one.")
    if url.scheme == "http" and not all(ip_address(each).is_loopback for each in addresses):
        raise Unsafe("It is https.")
    headers = {
        "Host": url.netloc.decode("ascii"), "User-Agent": "Sayso", "Content-Type": "application/json",
        "Accept-Encoding": "identity", "webhook-id": id, "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(id, at, body),
    }  # fmt: skip
    for last, address in enumerate(addresses[:ADDRESSES], start=1 - len(addresses[:ADDRESSES])):
        try:
            return await _send(url, address, headers, body, seconds)
        except httpx.ConnectError:
            if not last:
                raise


async def _send(url: httpx.URL, address: str, headers: dict, body: str, seconds: float) -> Answer:
    """To this very address; the certificate is checked for the name."""
    async with httpx.AsyncClient(verify=_certificates(), trust_env=False, timeout=seconds) as to:
        request = to.build_request("POST", url.copy_with(host=address), headers=headers, content=body.encode())
        request.extensions["sni_hostname"] = url.host
        answer = await to.send(request, stream=True, follow_redirects=False)
        try:
            return Answer(answer.status_code, await _beginning(answer), _retry_after(answer))
        finally:
            await answer.aclose()


async def _beginning(answer: httpx.Response) -> bytes:
    """Of what it says; no receiver fills our memory, and nothing is unpacked."""
    if answer.status_code != 200:
        return b""
    read = b""
    async for part in answer.aiter_raw(READ):
        read += part
        if len(read) > READ:
            break
    return read[: READ + 1]


def _retry_after(answer: httpx.Response) -> timedelta | datetime | None:
    told = answer.headers.get("retry-after", "").strip()
    if answer.status_code not in (429, 503) or not told:
        return None
    if told.isdecimal() and told.isascii():
        return timedelta(seconds=min(int(told[:9]), 10**8))
    try:
        found = parsedate_to_datetime(told)
        return found if found.tzinfo else None
    except (TypeError, ValueError):
        return None


async def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, as text. An OSError when it has none."""
    ask = partial(socket.getaddrinfo, host.strip("[]"), port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_resolving, ask)
    return list(dict.fromkeys(each[4][0] for each in found))


@cache
def _certificates():
    return httpx.create_ssl_context(trust_env=False)
