"""Files that somebody else made: what a `.pte` or a `.pt2` says, and what a runtime makes of it."""
