"""Where the process of a zygote begins: it makes room for what it will load, and loads it."""

from __future__ import annotations

from penstock.isolation import large_pages
from penstock.runtime import processes


def main() -> None:
    processes.refuse_inspection()
    room = large_pages.reserve()
    from penstock.isolation import zygote

    zygote.main(room)


if __name__ == "__main__":
    main()
