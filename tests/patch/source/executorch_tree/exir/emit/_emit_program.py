"""Where a program's gradients and parameters begin, in the manner of an exporter."""

import enum


class OutputKind(enum.Enum):
    USER_OUTPUT = 1
    BUFFER_MUTATION = 2
    GRADIENT_TO_PARAMETER = 3
    TOKEN = 4


def _get_training_metadata(methods):
    metadata = {}
    for name, method in methods.items():
        i = 0
        for output in method.graph_signature.output_specs:
            if output.kind == OutputKind.GRADIENT_TO_PARAMETER:
                metadata.setdefault("gradients " + name, i)
            elif output.kind == OutputKind.TOKEN:
                metadata.setdefault("parameters " + name, i)
            i += 1  # noqa: SIM113
    return metadata
