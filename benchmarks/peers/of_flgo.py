"""FLGo: a benchmark, a task and a partition of its own kinds, its fedavg, every client in every round."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import flgo
import flgo.algorithm.fedavg as fedavg
from flgo.benchmark.partition import BasicPartitioner
from flgo.experiment.logger import BasicLogger
from work import evaluate, start

work, images, clock = start()


class Domains(BasicPartitioner):
    """A client for every domain."""

    num_clients = len(work.clients)

    def __call__(self, data: object) -> list[list[int]]:
        return [train for train, _ in work.clients.values()]

    def __str__(self) -> str:
        return "domains"


class Logger(BasicLogger):
    """Evaluates the global model after each round."""

    def initialize(self) -> None:
        pass

    def log_once(self, *args: object, **kwargs: object) -> None:
        clock.round(evaluate(self.coordinator.model, work, images))


BENCHMARK = """
import flgo.benchmark.toolkits.cv.classification as kind
from work import Images, Work
from pathlib import Path
work = Work.read(Path({folder!r}))
train_data = test_data = Images(work)
class TaskGenerator(kind.FromDatasetGenerator):
    def __init__(self):
        super().__init__(benchmark="peer_work", train_data=train_data, val_data=None, test_data=test_data)
class TaskPipe(kind.FromDatasetPipe):
    class TaskDataset(kind.FromDatasetPipe.TaskDataset):
        def __getitems__(self, indices):  # torch since 2.11 asks for it
            return [self[i] for i in indices]
    def __init__(self, task_path):
        super().__init__(task_path, train_data=train_data, val_data=None, test_data=test_data)
TaskCalculator = kind.GeneralCalculator
"""


def main() -> None:
    """Write the benchmark as a user of FLGo does, then train."""
    folder = work.folder.absolute()
    package = folder / "peer_work"
    package.mkdir(exist_ok=True)
    (package / "core.py").write_text(BENCHMARK.format(folder=str(folder)))
    (package / "__init__.py").write_text("")
    sys.path[:0] = [str(folder), str(Path(__file__).parent)]
    os.chdir(folder)
    import peer_work

    flgo.gen_task_by_(peer_work, Domains(), "task", overwrite=True)
    model = flgo.convert_model(lambda: work.model())
    option = {
        "num_rounds": work.rounds, "num_epochs": work.epochs, "batch_size": float(work.batch), "optimizer": "Adam",
        "learning_rate": work.lr, "weight_decay": work.weight_decay, "proportion": 1.0, "sample": "full",
        "aggregate": "other", "train_holdout": 0.0, "torch_num_threads": 1, "no_log_console": True,
    }  # fmt: skip
    sys.argv[1:] = []
    flgo.init("task", fedavg, option, model=model, Logger=Logger).run()


if __name__ == "__main__":
    main()
