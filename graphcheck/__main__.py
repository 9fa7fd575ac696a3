"""`python -m graphcheck`, the same as the `graphcheck` command."""

from __future__ import annotations

from graphcheck.cli.main import main

if __name__ == "__main__":
    main()
