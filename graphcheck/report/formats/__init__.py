"""The output formats: one file each, found by `graphcheck.report.interface.all_formats`."""
