"""Where the process of a zygote begins: it makes room for what it will load, and loads it."""

from __future__ import annotations

from penstock.engine import large_pages, processes


def main() -> None:
    processes.refuse_inspection()
    room = large_pages.reserve()
    from penstock.engine import zygote

    zygote.main(room)


if __name__ == "__main__":
    main()
