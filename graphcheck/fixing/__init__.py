"""`graphcheck fix`: decide which swaps mend the findings of a model, and edit its source."""
