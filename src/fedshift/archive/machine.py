"""The class of a machine: what decides the last bits of a run besides its code."""

from __future__ import annotations

from typing import Any, NamedTuple


class MachineClass(NamedTuple):
    """Two runs of one digest and code have the same bits on machines of one class.

    Training by CUDA graphs counts as a class: its learning rate is a number in fp32 on the GPU, which changes
    last digits. So a run with graphs and one without may differ within the noise between machines, are both
    archived, and a run that was resumed the other way has the first class among its `earlier` ones.

    device: "cpu", or the name of the accelerator
    cpu: the processor's architecture; capability: its best instruction set; model: its maker, family and
        model, "" where the device is another, and of runs that did not note it yet
    threads: of torch
    torch: its version
    arithmetic: how reduced precision is multiplied
    earlier: other classes on which the run was trained before it was resumed; its bits are then nobody else's
    graph: "auto" where steps were CUDA graphs; "off" on a CPU, by default, and of runs that did not note it
    """

    device: str
    cpu: str
    capability: str
    model: str
    threads: int
    torch: str
    arithmetic: str
    earlier: tuple[str, ...] = ()
    graph: str = "off"

    @classmethod
    def of(cls, environment: dict[str, Any]) -> MachineClass:
        """That of a run's environment (`fedshift.training.device`)."""
        return cls(
            environment["device"],
            environment.get("cpu", ""),
            environment["capability"],
            environment.get("cpu_model", "") if environment["device"] == "cpu" else "",
            environment["threads"],
            environment.get("versions", {}).get("torch", ""),
            environment.get("bf16", ""),
            tuple(environment.get("earlier", ())),
            environment.get("graph", "off"),
        )

    @property
    def instructions(self) -> str:
        """The instruction set of a CPU, and its model if noted."""
        return self.capability + f" ({self.model})" * bool(self.model)

    def __str__(self) -> str:
        device = self.device if self.device != "cpu" else f"cpu {self.instructions}"
        begun = [f"begun on {'; '.join(self.earlier)}"] if self.earlier else []
        graphs = ["CUDA graphs"] if self.graph != "off" else []
        return ", ".join([device, f"threads: {self.threads}", f"torch {self.torch}", *graphs, *begun])


def hardware(environment: dict[str, Any]) -> str:
    """What tables and report say of it: the accelerator, or of a CPU its instruction set, its model if noted,
    and the number of threads.
    """
    machine = MachineClass.of(environment)
    if machine.device != "cpu":
        return machine.device
    return f"cpu, {machine.instructions}, threads: {machine.threads}"
