"""The joint forward/backward graph as plain facts: what will run."""
