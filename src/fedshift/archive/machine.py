"""The class of a machine: what decides the last bits of a run besides its code."""

from __future__ import annotations

from typing import Any, NamedTuple


class MachineClass(NamedTuple):
    """Two runs of one digest and code have the same bits on machines of one class.

    device: "cpu", or the name of the accelerator
    cpu: the processor's architecture; capability: its best instruction set
    threads: of torch
    torch: its version
    arithmetic: how reduced precision is multiplied
    """

    device: str
    cpu: str
    capability: str
    threads: int
    torch: str
    arithmetic: str

    @classmethod
    def of(cls, environment: dict[str, Any]) -> MachineClass:
        """That of a run's environment (`fedshift.training.environment`)."""
        return cls(
            environment["device"],
            environment.get("cpu", ""),
            environment["capability"],
            environment["threads"],
            environment.get("versions", {}).get("torch", ""),
            environment.get("bf16", ""),
        )

    def __str__(self) -> str:
        device = self.device if self.device != "cpu" else f"cpu {self.capability}"
        return ", ".join([device, f"threads: {self.threads}", f"torch {self.torch}"])
