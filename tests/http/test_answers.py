"""How answers leave: a head and the body that follows it at once in one piece, and no head waits for long."""

import asyncio
from collections.abc import Iterable

from penstock.http.slow_clients import _Answers

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """Remembers the pieces in which something was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sent.append(b"".join(list_of_data))

    def close(self) -> None:
        self.sent.append(b"closed")


async def test_head_and_body_leave_in_one_piece() -> None:
    wire = Wire()
    answers = _Answers(wire, asyncio.get_running_loop(), wire.close)

    for _ in range(2):
        answers.write(HEAD)
        answers.write(b"{}")
    await asyncio.sleep(0)

    assert wire.sent == [HEAD + b"{}"] * 2


async def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    wire = Wire()
    answers = _Answers(wire, asyncio.get_running_loop(), wire.close)

    answers.write(HEAD)
    await asyncio.sleep(0)
    assert wire.sent == [HEAD]

    answers.write(b"{}")
    assert wire.sent == [HEAD, b"{}"]


async def test_a_head_without_a_body_leaves_before_the_end() -> None:
    wire = Wire()
    answers = _Answers(wire, asyncio.get_running_loop(), wire.close)

    answers.write(HEAD)
    answers.close()
    await asyncio.sleep(0)

    assert wire.sent == [HEAD, b"closed"]
