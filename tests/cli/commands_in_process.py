"""Run commands of the command line in turn in this process, and print what each wrote to stderr.

They share their imports, which take longer than what they do.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from penstock.cli import main


def stderr_of(words: list[str]) -> str:
    """What a command writes to the descriptor, with its exit code at the end unless that is 0."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        sys.argv[1:] = words
        try:
            main()
        except SystemExit as error:
            if error.code:
                written.write(f"\nexit code {error.code}".encode())
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
        written.seek(0)
        return written.read().decode()


if __name__ == "__main__":
    answers = {" ".join(words): stderr_of(words) for words in json.load(sys.stdin)}
    print("\n" + json.dumps(answers))
