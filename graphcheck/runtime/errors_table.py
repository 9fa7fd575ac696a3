"""ExecuTorch's error numbers as sentences (`runtime/core/error.h` of ExecuTorch 1.5.1)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ERRORS", "RuntimeErrorCode", "describe_code"]


@dataclass(frozen=True)
class RuntimeErrorCode:
    """An error number: its `name` in ExecuTorch, and what it means for a program that runs."""

    code: int
    name: str
    meaning: str


ERRORS: dict[int, RuntimeErrorCode] = {
    entry.code: entry
    for entry in (
        RuntimeErrorCode(0x01, "Internal", "the runtime failed in itself"),
        RuntimeErrorCode(0x02, "InvalidState", "a call came out of order"),
        RuntimeErrorCode(0x03, "EndOfMethod", "there is no further instruction"),
        RuntimeErrorCode(0x04, "AlreadyLoaded", "it is loaded already"),
        RuntimeErrorCode(0x10, "NotSupported", "the runtime does not support this"),
        RuntimeErrorCode(0x11, "NotImplemented", "the runtime does not implement this"),
        RuntimeErrorCode(0x12, "InvalidArgument", "an argument is not valid"),
        RuntimeErrorCode(0x13, "InvalidType", "a value has a type that is not expected here"),
        RuntimeErrorCode(0x14, "OperatorMissing", "the runtime has no kernel for an operator"),
        RuntimeErrorCode(
            0x15, "RegistrationExceedingMaxKernels", "the table of kernels is full (2000)"
        ),
        RuntimeErrorCode(0x16, "RegistrationAlreadyRegistered", "a kernel is registered twice"),
        RuntimeErrorCode(0x20, "NotFound", "something the program names is not there"),
        RuntimeErrorCode(0x21, "MemoryAllocationFailed", "there is not enough memory"),
        RuntimeErrorCode(0x22, "AccessFailed", "a file cannot be read"),
        RuntimeErrorCode(0x23, "InvalidProgram", "the program is damaged or of another version"),
        RuntimeErrorCode(0x24, "InvalidExternalData", "data beside the program does not fit it"),
        RuntimeErrorCode(0x25, "OutOfResources", "a resource is used up"),
        RuntimeErrorCode(
            0x30, "DelegateInvalidCompatibility", "the delegate is of another version"
        ),
        RuntimeErrorCode(
            0x31, "DelegateMemoryAllocationFailed", "the delegate has not enough memory"
        ),
        RuntimeErrorCode(0x32, "DelegateInvalidHandle", "the delegate's handle is not valid"),
    )
}


def describe_code(code: int) -> str:
    """`the kernel refuses these arguments (error 0x12, InvalidArgument)`."""
    entry = ERRORS.get(code)
    if entry is None:
        return f"the runtime answered with error {code:#04x}, which is unknown"
    return f"{entry.meaning} (error {code:#04x}, {entry.name})"
