"""docs/methods.md: what each method is, takes, sends and costs."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from play import FIRST, LAST, Pair, Played, play
from protocols import flat
from times import SAME_STEPS, Round, measured, noise, round_line

from fedshift.common.registry import get, own, title
from fedshift.common.yaml_file import read
from fedshift.experiments.space import Space
from fedshift.federation.cost import state_dict_bytes
from fedshift.planning.costs import floats
from fedshift.spec.resolve import resolve

MANY = 100  # clients
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.methods.files import vectors_of  # noqa: E402


def methods() -> str:
    """One section for each method of the registry, after a table of all."""
    played = {name: play(name) for name in own("methods")}
    rounds = measured()
    whole = state_dict_bytes(played["fedavg"].federation.build())
    text = "\n".join(
        [
            "# Methods\n",
            "Made by `make docs` from the registry, from `reference/presets`, from `benchmarks/methods.csv`, and from what the engine counts in",
            f"rounds {FIRST} to {LAST} of a small federation: three clients, `digits_cnn` at two classes, every method with its defaults.\n",
            "- Presets: a run has the defaults, then what its protocol sets for the method, on every data set and on its own, then what the preset",
            "  sets that its entry names. The file's comments tell where values are from.",
            "- Average: how the server weighs clients: by training images (size) or alike (uniform), as `federation.weights` says, here size, unless",
            "  the method says otherwise; or by a rule of the method's own (own).",
            "- Bytes: of one client in one round, each way; what travels in earlier rounds alone is told apart (`once`). FedAvg's are the whole",
            f"  model; a state dict has {whole:,}.",
            "- Passes in steps, forward / backward: through a client's networks in its local steps, for each training image and epoch, where",
            "  FedAvg has 1 / 1. Each stage of a network is an equal part of a pass. Where coins are drawn, it is their mean over these rounds.",
            "- Passes outside steps, forward / backward: in `begin` and `end`, for each image of the client's split (`train`, `val`), once a round.",
            "  The engine's own evaluation is not counted.",
            f"- State: what a run with {MANY} clients holds, in models: the global one, what clients keep, and slots (`fedshift.planning.costs`).",
            *_of_times(rounds),
            "",
            "| method | paper | average | bytes up | bytes down | passes in steps | outside steps | state | round / FedAvg |",
            "|---|---|---|---:|---:|---:|---|---:|---:|",
            *(_row(name, record, rounds) for name, record in played.items()),
            "",
            *(_section(name, record, rounds) for name, record in played.items()),
        ]
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _of_times(rounds: dict[str, Round]) -> Iterator[str]:
    yield "- Time: one round over FedAvg's with the same network and images, the median of rounds in which methods take turns:"
    yield "  `python benchmarks/methods.py --csv` (`digits_cnn` at 32 px, 3 clients of 600 images, 2 epochs, bf16, one CPU thread). Making rendered"
    yield "  images is not in it. Spread: how far a method's rounds lie apart, over their median. Below each method: where the difference to"
    yield "  FedAvg's round goes, by hook, where it is more than the spread; `rest` is backward, optimiser and batches."
    if any(timed.spread is None for timed in rounds.values()):
        yield f"  Where no spread was recorded, {noise(rounds):.2f} is taken: the difference of `{SAME_STEPS}`, whose steps are FedAvg's."


def _row(name: str, played: Played, rounds: dict[str, Round]) -> str:
    up, down = (_bytes(played, way) for way in ("up", "down"))
    outside = ", ".join(f"{split} {_pair(pair)}" for split, pair in played.outside.items())
    factor = f"{rounds[name].factor:.2f}" if name in rounds else "not measured"
    words = title("methods", name).rstrip(".").replace("|", "\\|")
    return f"| [{name}](#{name}) | {words} | {_average(played)} | {up} | {down} | {_pair(played.steps)} | {outside} | {_state(played)} | {factor} |"


def _average(played: Played) -> str:
    """How the method weighs clients where `federation.weights` is "size", as the protocol may say."""
    federation = played.federation
    if federation.method.clients == "pooled" or not any(played.bytes["up"]):
        return "–"  # there is none
    return federation.spec.method.weights(federation.spec.federation.weights)


def _state(played: Played) -> str:
    spec = resolve(played.federation.spec)
    return f"{sum(floats(spec, 2, MANY)) / played.federation.layout.size:,.0f}"


def _bytes(played: Played, way: str) -> str:
    if played.federation.method.clients == "pooled":
        return "–"  # one client, which is where the images are
    later, once = played.bytes[way]
    return f"{later:,}" + (f" (once: {once:,})" if once else "")


def _pair(pair: Pair) -> str:
    return " / ".join(_number(part) for part in pair)


def _number(part: Fraction) -> str:
    return f"{float(part):.2f}".rstrip("0").rstrip(".")


def _section(name: str, played: Played, rounds: dict[str, Round]) -> str:
    kind = get("methods", name)
    rest = _doc(name).partition("\n\n")[2]
    lines = [f"## {name}\n", f"{title('methods', name)}\n", rest.strip(), ""]
    lines += [*_options(kind), *_presets(name), *_travels(played), *_records(played)]
    if name in rounds and name != "fedavg":
        lines += [round_line(name, rounds), ""]
    if vectors := vectors_of(name):
        lines += ["Reference vectors: " + ", ".join(f"`tests/vectors/{file}`" for file in vectors) + "."]
    return "\n".join(lines) + "\n"


def _doc(name: str) -> str:
    return inspect.cleandoc(sys.modules[get("methods", name).__module__].__doc__ or "")


def _options(kind: Any) -> Iterator[str]:
    fields = dataclasses.fields(kind.Params)
    if fields:
        parts = [base for base in reversed(kind.Params.__mro__) if dataclasses.is_dataclass(base)]
        yield "Options: " + "\n\n".join(inspect.cleandoc(part.__doc__ or "") for part in parts) + "\n"
        yield "Defaults: " + ", ".join(f"`{field.name}: {_default(field)}`" for field in fields) + "\n"


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _presets(name: str) -> Iterator[str]:
    path = ROOT / "reference" / "presets" / f"{name}.yaml"
    if not path.exists():
        return
    known = read(path)
    named, grid = known.pop("presets", {}), known.pop("grid", {})
    yield f"From `reference/presets/{name}.yaml`:\n"
    for kind, parts in (("protocol", known), ("preset", named)):
        for label, places in parts.items():
            for place, values in places.items():
                yield f"- {kind} `{label}`{'' if place == '*' else f' on `{place}`'}: {flat(values)}"
    for protocol, spaces in grid.items():
        where = "other protocols" if protocol == "*" else f"protocol `{protocol}`"
        listed = (f"`{key}` in {_space(Space.model_validate(space))}" for key, space in spaces.items())
        yield f"- search, {where}: {', '.join(listed)}"
    yield ""


def _space(space: Space) -> str:
    return f"{space}{f' (guess: {space.guess})' if space.guess else ''}"


def _records(played: Played) -> Iterator[str]:
    """What the method records by round; of K clients that take part in it, of N in all."""
    if logs := played.federation.method.logs:
        yield "Logs (`docs/add-a-diagnostic.md`):\n"
        yield from (f"- `{name}`: {meaning}" for name, meaning in logs.items())
        yield ""


def _travels(played: Played) -> Iterator[str]:
    state, method = played.federation.state, played.federation.method
    shared = "generated for each client" if method.generates else "shared"
    classes = {shared: state.shared, "personal": state.personal, "local": state.local}
    sizes = ", ".join(f"{name} {index.size:,}" for name, index in classes.items() if index.size)
    if method.clients == "pooled":
        yield "One client holds everybody's images: nothing travels.\n"
    else:
        yield f"Entries of `digits_cnn` by class (floats): {sizes}.\n"
    how = {"": "", "down": ", travels down", "once": ", travels down once"}
    for slot in method.slots:
        shape = tuple(state.slots[slot.name].shape)
        yield f"- slot `{slot.name}` of the {slot.owner}, {shape}{how[slot.travels]}"
    for (name, way), by_round in played.floats.items():
        yield f"- message `{name}`, {way}, {_sent(by_round)}"
    yield ""


def _sent(floats: dict[int, int]) -> str:
    """How many floats in a round that counts, else in those before."""
    size = floats[max(floats)]
    return f"{size:,} float{'s' if size > 1 else ''}{', once' if max(floats) < FIRST else ''}"
