"""Short training on the runtime, judged step by step against eager PyTorch."""
