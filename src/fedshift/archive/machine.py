"""The class of a machine: everything that determines the last bits of a run, except its code."""

from __future__ import annotations

from typing import Any, NamedTuple


class MachineClass(NamedTuple):
    """Machines on which two runs with the same id and code have the same bits.

    Training with CUDA graphs counts as another class: the learning rate is then an fp32 number on the GPU,
    which changes last digits. A run with graphs and one without may differ within the noise between machines,
    and both are archived. A run that was resumed the other way has the first class among its `earlier` ones.

    `device`: "cpu", or the name of the accelerator.
    `cpu`: the processor's architecture.
    `capability`: its best instruction set.
    `model`: its vendor, family and model. "" for other devices, and for runs that did not record it.
    `threads`: of torch.
    `torch`: its version.
    `arithmetic`: how reduced precision is multiplied.
    `earlier`: other classes on which the run was trained before it was resumed. Its bits are then unique.
    `graph`: "auto" if steps were CUDA graphs. "off" on a CPU, by default, and for runs that did not record
        it.
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
        """The class given by a run's environment (`fedshift.training.device`)."""
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
        """The instruction set of a CPU, and its model if recorded."""
        return self.capability + f" ({self.model})" * bool(self.model)

    def __str__(self) -> str:
        device = self.device if self.device != "cpu" else f"cpu {self.instructions}"
        begun = [f"begun on {'; '.join(self.earlier)}"] if self.earlier else []
        graphs = ["CUDA graphs"] if self.graph != "off" else []
        return ", ".join([device, f"threads: {self.threads}", f"torch {self.torch}", *graphs, *begun])


def hardware(environment: dict[str, Any]) -> str:
    """The machine's description in tables and reports.

    It is the accelerator, or the CPU's instruction set, its model if recorded, and the number of threads.
    """
    machine = MachineClass.of(environment)
    if machine.device != "cpu":
        return machine.device
    return f"cpu, {machine.instructions}, threads: {machine.threads}"
