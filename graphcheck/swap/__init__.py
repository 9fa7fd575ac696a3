"""Changes of the model, exact or not: one file per swap, module form and source form in it."""
