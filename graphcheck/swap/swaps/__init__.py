"""The swaps: one file each, with `SWAP = Swap(...)`, found by `graphcheck.swap.interface`."""
