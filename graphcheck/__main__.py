"""The `graphcheck` command, and `python -m graphcheck`: the command line, once it is imported."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line. An interrupt while it is being imported is one like any other."""
    try:
        from graphcheck.cli.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("graphcheck: error: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
