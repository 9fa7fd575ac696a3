"""The reference trace of a program: what an app's own test can assert on."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from graphcheck.errors import GraphcheckError
from graphcheck.export.types import Card, ExportOptions, TraceStep
from graphcheck.runtime.types import TrainRequest
from graphcheck.validate.batches import device_batches
from graphcheck.validate.devices import open_device
from graphcheck.validate.optimizer import settings_of
from graphcheck.workload.types import Workload

__all__ = ["reference_trace"]


def reference_trace(
    card: Card, workload: Workload, program: Path, weights: Path | None, options: ExportOptions
) -> Card:
    """The card with losses and gradient norms of the first steps, run on the device.

    Raises GraphcheckError when the program does not run.
    """
    import numpy as np

    batches = device_batches(workload)
    trace = open_device(options.on[0], options).train(
        TrainRequest(
            program=program,
            weights=weights,
            batches=batches,
            steps=options.reference_steps,
            learning_rate=options.learning_rate,
            optimizer=options.optimizer,
            settings=settings_of(options),
            kernel_libraries=tuple(Path(name) for name in options.kernel_libraries),
            timeout=options.timeout,
        )
    )
    if trace.failure is not None:
        raise GraphcheckError(f"the exported program does not run: {trace.failure.message}")
    steps = tuple(
        TraceStep(
            loss=step.loss,
            gradient_norms={
                name: float(np.linalg.norm(np.asarray(gradient, dtype=np.float64)))
                for name, gradient in step.gradients.items()
            },
        )
        for step in trace.steps
    )
    digests = tuple(hashlib.sha256(array.data).hexdigest() for batch in batches for array in batch)
    return replace(
        card, reference=steps, reference_inputs=digests, reference_input_sets=len(batches)
    )
