"""One file per probe: a tiny program whose answer on a runtime shows one fault, or its absence."""
