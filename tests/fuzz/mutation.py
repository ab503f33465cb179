"""Inputs made from seeds: the same number gives the same input, so that a failure can be repeated."""

from __future__ import annotations

from pathlib import Path
from random import Random

CORPUS = Path(__file__).parent / "corpus"
_PIECES = (
    b"\x00", b"\xff", b"\r\n", b"\r\n\r\n", b"\n", b":", b",", b'"', b"\\", b"\\ud800", b"{", b"}", b"[" * 70, b"NaN",
    b"-Infinity", b"1e999", b"9" * 5000, b"-", b"/", b"*", b"L", b"#", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b" ",
    b"Content-Length: 1", b"Transfer-Encoding: chunked", b"%00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02{}",
)  # fmt: skip
_MOST = 200_000


def seeds(kind: str) -> dict[str, bytes]:
    """The inputs that are kept for a parser, by the name of their file."""
    return {each.name: each.read_bytes() for each in sorted((CORPUS / kind).iterdir())}


def mutated(kind: str, number: int) -> bytes:
    """The input of that number: some seed, changed in one to eight places."""
    random = Random(f"{kind} {number}")
    known = list(seeds(kind).values())
    data = bytearray(random.choice(known))
    for _ in range(random.randint(1, 8)):
        begin = random.randint(0, len(data))
        end = min(len(data), begin + random.choice((1, 2, 4, 16, 64)))
        match random.randrange(6):
            case 0:
                data[begin:end] = b""
            case 1:
                data[begin:begin] = random.choice(_PIECES)
            case 2:
                data[begin:end] = bytes(random.randrange(256) for _ in range(end - begin))
            case 3:
                data[begin:begin] = data[begin:end] * random.choice((1, 2, 50))
            case 4:
                other = random.choice(known)
                data[begin:] = other[random.randint(0, len(other)) :]
            case _ if begin < len(data):
                data[begin] ^= 1 << random.randrange(8)
    return bytes(data[:_MOST])
