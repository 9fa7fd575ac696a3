"""The verbs: one file each, with `VERB = Verb(...)`, found by `graphcheck.cli.interface`."""
