"""Every environment variable Sayso reads, in one table. Settings of the same names hold what was read."""

import importlib.util
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from psycopg.conninfo import conninfo_to_dict

ROOT = Path(__file__).resolve().parent.parent
LOCAL = {"localhost", "127.0.0.1", "::1"}


class BadEnvironment(Exception):
    """A variable that cannot be used. The message names it, its value and what is accepted."""


@dataclass(frozen=True)
class Variable:
    name: str
    default: str
    meaning: str
    accepts: str
    parse: Callable[[str], Any]
    secret: bool = False

    def read(self, environment) -> Any:
        value = environment.get(self.name, "").strip() or self.default
        try:
            return self.parse(value)
        except (ValueError, LookupError, OSError, ImportError):
            shown = "(not shown)" if self.secret else repr(value)
            raise BadEnvironment(f"{self.name} is {shown}. It accepts {self.accepts}.") from None


def whole(least: int, most: int):
    def parse(value: str) -> int:
        if not least <= (number := int(value)) <= most:
            raise ValueError
        return number

    return parse


def seconds(least: float, most: float):
    def parse(value: str) -> float:
        if not least <= (number := float(value)) <= most:
            raise ValueError
        return number

    return parse


def yes_or_no(value: str) -> bool:
    return {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}[value.lower()]


def database_url(value: str) -> str:
    if value and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError
    return value


def origins(value: str) -> list[str]:
    found = [origin.strip().rstrip("/").lower() for origin in value.split(",") if origin.strip()]
    for origin in found:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or "*" in origin or "@" in origin:
            raise ValueError
        if f"{parts.scheme}://{parts.netloc}" != origin or parts.port == 0:
            raise ValueError
    return found


def modules(value: str) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")) or importlib.util.find_spec(name) is None:
            raise ValueError
    return names


def time_zone(value: str) -> str:
    ZoneInfo(value)
    return value


def secret(value: str) -> str:
    if value and len(value) < 50:
        raise ValueError
    return value


def role(value: str) -> str:
    if value not in ("app", "owner"):
        raise ValueError
    return value


VARIABLES = [
    Variable(
        "DATABASE_URL",
        "",
        "The database, as the app role. Without it PostgreSQL runs from SAYSO_DATA.",
        "a postgresql:// URL",
        database_url,
        secret=True,
    ),
    Variable(
        "DATABASE_OWNER_URL",
        "",
        "The same database, as the role that owns the tables: migrations use it.",
        "a postgresql:// URL, or nothing to use DATABASE_URL",
        database_url,
        secret=True,
    ),
    Variable(
        "SAYSO_DATA",
        "var",
        "The folder of everything Sayso keeps on disk.",
        "the path of a folder",
        lambda value: (ROOT / value).resolve(),
    ),
    Variable(
        "SAYSO_MARK",
        "",
        "The mark that tells a restored or copied database from the one it was: a file that all workers share, that "
        "outlives deploys and is in no backup of the data. Default: mark in SAYSO_DATA.",
        "the path of a file",
        lambda value: Path(value).resolve() if value else None,
    ),
    Variable(
        "SAYSO_ORIGIN",
        "",
        "Where people reach the console. Hosts, CSRF and sockets are allowed by it. "
        "Default: localhost and 127.0.0.1 at SAYSO_PORT.",
        "https://name, or several with commas; no path, no *",
        origins,
    ),
    Variable(
        "SAYSO_SECRET_KEY",
        "",
        "Signs sessions. On localhost one is made and kept in SAYSO_DATA.",
        "at least 50 random characters",
        secret,
        secret=True,
    ),
    Variable("SAYSO_PORT", "8000", "The port the console listens on.", "a number from 1 to 65535", whole(1, 65535)),
    Variable("SAYSO_DEBUG", "no", "Django's debug pages: never where others can reach them.", "yes or no", yes_or_no),
    Variable("SAYSO_TIME_ZONE", "UTC", "The zone in which pages show times.", "a name like Europe/Lisbon", time_zone),
    Variable(
        "SAYSO_AGENTS",
        "",
        "The modules that register agents and actions.",
        "names of Python modules on the path, with commas between",
        modules,
    ),
    Variable(
        "SAYSO_MODEL",
        "",
        "The model hosted agents use unless they name one, as pydantic-ai writes it.",
        "a name like provider:model",
        str,
    ),
    Variable(
        "SAYSO_WORKER_TURNS", "8", "How many Runs one worker works on at once.", "a number from 1 to 200", whole(1, 200)
    ),
    Variable(
        "SAYSO_LEASE_SECONDS",
        "10",
        "How long a worker holds a Run without renewing.",
        "seconds, 0.5 to 600",
        seconds(0.5, 600),
    ),
    Variable(
        "SAYSO_LOOK_SECONDS",
        "5",
        "How often a worker looks for work when nothing wakes it.",
        "seconds, 0.1 to 600",
        seconds(0.1, 600),
    ),
    Variable(
        "SAYSO_BEAT_SECONDS",
        "3",
        "How often a worker says that it lives and renews its Leases: less than half of SAYSO_LEASE_SECONDS.",
        "seconds, 0.1 to 300",
        seconds(0.1, 300),
    ),
    Variable(
        "SAYSO_OUTPUT_DAYS",
        "30",
        "How many days after its Run ended the output of commands is kept.",
        "a number from 1 to 3650",
        whole(1, 3650),
    ),
    Variable(
        "SAYSO_REMOTE_LEASE_SECONDS",
        "60",
        "How long a Run of an agent elsewhere is its own without a heartbeat.",
        "seconds, 1 to 3600",
        seconds(1, 3600),
    ),
    Variable(
        "SAYSO_WEBHOOK_LOOPBACK",
        "no",
        "Notifications may go to this machine's loopback, by http too. For development and tests only.",
        "yes or no",
        yes_or_no,
    ),
    Variable(
        "SAYSO_RUN_BARE",
        "no",
        "Agents' commands run without walls, as the worker's user, and may outlive a cancel. Never where agents or "
        "what they read are not trusted.",
        "yes or no",
        yes_or_no,
    ),
    Variable(
        "SAYSO_ROLE", "app", "Which of the two database roles this process is; ./run sets it.", "app or owner", role
    ),
]


def read(environment=os.environ) -> dict[str, Any]:
    """All of them, by name. Raises BadEnvironment."""
    values = {variable.name: variable.read(environment) for variable in VARIABLES}
    values["DATABASE_OWNER_URL"] = values["DATABASE_OWNER_URL"] or values["DATABASE_URL"]
    port = values["SAYSO_PORT"]
    values["SAYSO_ORIGIN"] = values["SAYSO_ORIGIN"] or [f"http://localhost:{port}", f"http://127.0.0.1:{port}"]
    if values["SAYSO_BEAT_SECONDS"] * 2 >= values["SAYSO_LEASE_SECONDS"]:
        raise BadEnvironment(
            f"SAYSO_BEAT_SECONDS is {values['SAYSO_BEAT_SECONDS']:g}. It accepts less than half of "
            f"SAYSO_LEASE_SECONDS, which is {values['SAYSO_LEASE_SECONDS']:g}."
        )
    values["SAYSO_MARK"] = values["SAYSO_MARK"] or values["SAYSO_DATA"] / "mark"
    values["SAYSO_SECRET_KEY"] = values["SAYSO_SECRET_KEY"] or kept_secret(values["SAYSO_ORIGIN"], values["SAYSO_DATA"])
    return values


# Over TCP a server that fell silent without a goodbye is given up after some 25 s, and not after hours.
LIVELY = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}


def database(url: str, *, pooled: bool) -> dict[str, Any]:
    """An entry of Django's DATABASES."""
    parts = conninfo_to_dict(url)
    names = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    found = {name: parts.pop(key, "") for name, key in names.items()}
    pool = {"pool": {"min_size": 1, "max_size": 16, "timeout": 10}} if pooled else {}
    # looked at when it is taken from the pool: a server that was restarted costs nobody a page
    checked = {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": pooled}
    # PostgreSQL parses each statement once a connection, not every time
    prepared = {"server_side_binding": True, "prepare_threshold": 3}
    options = LIVELY | parts | pool | prepared
    return {"ENGINE": "django.db.backends.postgresql", **checked, "OPTIONS": options, **found}


def kept_secret(origin: list[str], data: Path) -> str:
    """The key of an installation only this machine reaches. Raises BadEnvironment for any other."""
    if not {urlsplit(each).hostname for each in origin} <= LOCAL:
        raise BadEnvironment(
            "SAYSO_SECRET_KEY is missing. Where others reach the console it must be set, to at least 50 "
            "random characters: python3 -c 'import secrets; print(secrets.token_urlsafe(50))' makes some."
        )
    path = data / "secret-key"
    if not path.exists():
        data.mkdir(parents=True, exist_ok=True)
        half = data / f"secret-key.{secrets.token_hex(4)}"
        with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
        try:
            os.link(half, path)  # of two first starts one makes it
        except FileExistsError:
            pass
        half.unlink()
    return path.read_text()


def table() -> str:
    """The README's table."""
    rows = [f"| `{each.name}` | {f'`{each.default}`' if each.default else ''} | {each.meaning} |" for each in VARIABLES]
    return "\n".join(["| variable | default | meaning |", "| --- | --- | --- |", *rows])
