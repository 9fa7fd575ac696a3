"""Where a program can be run: one file per device, found by `interface.devices`."""
