"""How a report is told: one file per output format."""
