"""Where two answers are right: picks among equal values, and the gradients that follow."""
