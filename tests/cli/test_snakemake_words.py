"""What is handed on to Snakemake: it listens to the last `--config` alone, so the experiment goes with it."""

import pytest

from fedshift.cli.run import snakemake


@pytest.mark.parametrize(
    "words",
    [["--config", "pack=2"], ["--config=pack=2"], ["-C", "pack=2"], ["-Cpack=2"], ["-n", "-Cpack=2", "-q"]],
)
def test_a_config_of_the_user_keeps_the_experiment(words: list[str]) -> None:
    given = snakemake("demo", "profiles/local", words)
    flag = max(place for place, word in enumerate(given) if word in ("--config", "-C"))
    assert given[flag + 1 : flag + 3] == ["experiments=[demo]", "pack=2"]
    assert given.count("experiments=[demo]") == 1


def test_other_words_are_left() -> None:
    assert snakemake("demo", "slurm", ["-n", "--cores=2"])[3:] == [
        "--config", "experiments=[demo]", "--profile", "slurm", "-n", "--cores=2",
    ]  # fmt: skip
