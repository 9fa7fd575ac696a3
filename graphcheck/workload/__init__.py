"""Loading what the user brought: model, example inputs, loss."""
