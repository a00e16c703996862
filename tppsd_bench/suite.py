"""Suite files: what a run covers, as data. TOML, checked key by key; a wrong key is answered with the nearest right one."""

from __future__ import annotations

import difflib
import tomllib
import typing
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from tppsd_bench import resources
from tppsd_bench.errors import InputError
from tppsd_bench.protocols import Rule
from tppsd_bench.settings import parse_setting
from tppsd_bench.studies.base import STUDIES, StudyTable, module_of
from tppsd_bench.suite_power import Dose, Null, Power, Transformer

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
DEFAULT_LOADER = "reference_impls.pairs:load_pair"


class Section(BaseModel):
    """Base of all tables of a suite file: frozen, no unknown key, no silent conversion."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Screen(Section):
    """The range screen, which also is the pilot that fixes stratum sizes: its own seeds, short sequences."""

    n_sequences: Annotated[int, Field(ge=20)] = 200
    length: Annotated[int, Field(ge=2)] = 24
    """Events of each sequence (never more than the law cell's)."""


class Law(Section):
    """Law cells: is the output the target's law? One cell for each draft and K."""

    drafts: Annotated[list[Name], Field(min_length=1)] = ["shipped", "stress"]
    k: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)] = [5]
    rule: Rule = "leviathan_two_step"
    n_events: Positive = 32_768
    """Events of a cell in the first round."""
    length: Positive | None = None
    """Events of a sequence; left out: the training median of the pair's card."""
    batch_size: Positive | None = 256
    memory_limit: Positive | None = None
    """Bytes that the sequences in work may take, of each sampler of a pair that knows the word; rows that do not fit wait."""
    n_permutations: Annotated[int, Field(ge=99)] = 9_999
    max_rounds: Annotated[int, Field(ge=1, le=3)] = 3
    """k of the confirmation on fresh seeds (1: no confirmation, the level is spent on one look)."""
    sequential: bool = False
    """Watch every sampler while it draws and stop its cell at proof of a fault (horizon cells too)."""
    enabled: bool = True


class Horizon(Section):
    """Horizon cells: the same question for sequences that stop at a time."""

    enabled: bool = False
    drafts: Annotated[list[Name], Field(min_length=1)] = ["shipped"]
    k: Annotated[int, Field(ge=1, le=64)] = 5
    horizon: Annotated[float, Field(gt=0)] | None = None
    """End of observation; left out: the horizon of the pair's card."""
    n_sequences: Annotated[int, Field(ge=20)] = 200


class Fit(Section):
    """Fit cells: how far the model is from the data's law, apart from the sampler's verdict."""

    enabled: bool = True
    n_events: Positive = 8_192


class Speed(Section):
    """Speed cells: paired times of speculative against target-only sampling, alone on the machine."""

    enabled: bool = True
    k: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)] = [3, 6, 10]
    length: Positive = 48
    """Events of each timed call."""
    pairs: Annotated[int, Field(ge=12)] = 30
    min_seconds: Seconds = 0.05
    recompute_pairs: Annotated[int, Field(ge=0)] = 5
    """Pairs against the recomputing baseline (0: left out). It is slow; a yardstick needs few."""
    budget_seconds: Seconds | None = None
    """Seconds of timing a pair may take; fewer pairs are measured where it is short, and said so."""


class Override(Section):
    """One pair's own values; each table is laid over the suite's."""

    screen: dict[str, Any] = {}
    law: dict[str, Any] = {}
    horizon: dict[str, Any] = {}
    fit: dict[str, Any] = {}
    speed: dict[str, Any] = {}


class Nominal(Section):
    """Seconds the suite is known to take as written, on two cores: what a time budget is scaled from."""

    law: Seconds = 45.0
    speed: Seconds = 35.0
    report: Seconds = 10.0
    power: Seconds = 300.0
    """Of power, transformer, dose and null cells together."""


class Suite(Section):
    """A whole suite file."""

    name: Name
    title: str = ""
    description: str = ""
    loader: Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")] = DEFAULT_LOADER
    seed: Annotated[int, Field(ge=0)] = 0
    pairs: list[str] = []
    """Pairs of the grid; may be missing where the suite has tables of the proof (power, transformer, dose, null)."""
    cell_timeout: Seconds = 600.0
    """Seconds after which a cell counts as hanging."""
    screen: Screen = Screen()
    law: Law = Law()
    horizon: Horizon = Horizon()
    fit: Fit = Fit()
    speed: Speed = Speed()
    power: Power | None = None
    transformer: Transformer | None = None
    dose: Dose | None = None
    null: Null | None = None
    study: dict[Name, SerializeAsAny[StudyTable]] = {}
    """Studies by name (``tppsd_bench.studies``), each with the table that it defines."""
    profile: str = ""
    """Which of the file's profiles was laid over it; empty or ``quick``: the file as written."""
    nominal: Nominal = Nominal()
    pair: dict[str, Override] = {}

    @property
    def proof(self) -> dict[str, Power | Transformer | Dose | Null]:
        """The tables by which the suite proves itself, those that it has."""
        tables = {"power": self.power, "transformer": self.transformer, "dose": self.dose, "null": self.null}
        return {name: table for name, table in tables.items() if table is not None}

    def sections(self, pair: str, source: str = "") -> Sections:
        """The tables as they hold for one pair."""
        own = self.pair.get(pair, Override())
        merged: dict[str, Any] = {}
        for name in Sections.model_fields:
            base: Section = getattr(self, name)
            table = {**base.model_dump(), **getattr(own, name)}
            merged[name] = check_table(type(base), table, source or self.name, f"pair.{pair}.{name}.")
        return Sections(**merged)


class Sections(Section):
    """The tables of a suite that a pair may override."""

    screen: Screen
    law: Law
    horizon: Horizon
    fit: Fit
    speed: Speed


QUICK = "quick"
"""The profile that every suite has: the file as written."""


def load_suite(name_or_file: str, settings: typing.Sequence[str] = (), profile: str = "") -> Suite:
    """Read a suite by name or file, lay ``profile`` and ``key=value`` settings over it, check it.

    A file's ``[profile.NAME]`` tables hold what differs from the file as written. Raises InputError with one sentence.
    """
    file = _find(name_or_file)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{file} cannot be read ({problem}).") from None
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{file} is not TOML: {problem}.") from None
    table.setdefault("name", file.stem)
    _lay_profile(table, profile, str(file))
    for setting in settings:
        _apply(table, setting)
    return check_suite(table, str(file))


def check_suite(table: dict[str, Any], source: str) -> Suite:
    """A parsed suite file as a Suite; every key, value and combination checked."""
    suite = check_table(Suite, {**table, "study": _studies(table.get("study", {}), source)}, source, "")
    if not (suite.pairs or suite.proof or suite.study):
        raise InputError(
            f"{source}: the key 'pairs' is missing or empty; every suite needs pairs, a study ([study.NAME]), or a table of the "
            "proof that it works ([power], [transformer], [dose], [null])."
        )
    for twice in sorted({p for p in suite.pairs if suite.pairs.count(p) > 1}):
        raise InputError(f"{source}: pair {twice!r} is listed twice; each pair is one row of the grid, remove one.")
    for name in suite.pair:
        if name not in suite.pairs:
            raise InputError(f"{source}: [pair.{name}] overrides a pair the suite does not list;{nearest(name, suite.pairs)}")
    for name in suite.pairs:
        _check_grid(suite.sections(name, source), f"{source}: pair {name!r}")
    return suite


def _studies(tables: Any, source: str) -> dict[str, StudyTable]:
    """The tables ``[study.NAME]``, each checked by the study that defines it."""
    if not isinstance(tables, dict):
        raise InputError(
            f"{source}: 'study' is {tables!r}; expected tables [study.NAME] with NAME one of {', '.join(STUDIES)}."
        )
    for name in tables:
        if name not in STUDIES:
            raise InputError(f"{source}: unknown study '{name}';{nearest(name, STUDIES)}")
    return {
        name: check_table(module_of(name, "table").TABLE, table, source, f"study.{name}.") for name, table in tables.items()
    }


def _lay_profile(table: dict[str, Any], profile: str, source: str) -> None:
    """Take the profiles out of a parsed file, and lay the chosen one over the rest."""
    profiles = table.pop("profile", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise InputError(f"{source}: 'profile' is {profiles!r}; expected tables [profile.NAME] of what differs there.")
    if profile in profiles:
        _lay_over(table, profiles[profile])
    elif profile not in ("", QUICK):
        raise InputError(f"{source}: there is no profile {profile!r};{nearest(profile, [QUICK, *profiles])}")
    table["profile"] = profile


def _lay_over(table: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _lay_over(table[key], value)
        else:
            table[key] = value


def _check_grid(s: Sections, where: str) -> None:
    """Combinations that no run can fulfil."""
    if not (s.law.enabled or s.horizon.enabled or s.fit.enabled or s.speed.enabled):
        raise InputError(f"{where} has every kind of cell disabled; enable one, or leave the pair out.")
    for key, values in (("law.k", s.law.k), ("law.drafts", s.law.drafts), ("speed.k", s.speed.k)):
        if len(set(map(str, values))) < len(values):
            raise InputError(f"{where}: {key} = {values} names a value twice; each is one cell, remove the repetition.")
    if s.law.length is not None and s.law.length > s.law.n_events:
        raise InputError(
            f"{where}: law.length = {s.law.length} is more than law.n_events = {s.law.n_events}; "
            f"a cell holds whole sequences, so give at least {2 * s.law.length} events."
        )
    if s.speed.enabled and max(s.speed.k) >= s.speed.length:
        raise InputError(
            f"{where}: speed.k = {max(s.speed.k)} drafts do not fit in timed calls of speed.length = {s.speed.length} events; "
            "raise the length or lower K."
        )


T = typing.TypeVar("T", bound=BaseModel)


def check_table(model: type[T], table: dict[str, Any], source: str, prefix: str) -> T:
    """A table by its model; InputError with one sentence, keys named with ``prefix``."""
    try:
        return model.model_validate(table)
    except ValidationError as problem:
        raise InputError(f"{source}: {_sentence(model, problem.errors()[0], prefix)}") from None


def _sentence(model: type[BaseModel], error: Any, prefix: str) -> str:
    loc = [str(part) for part in error["loc"] if not str(part).endswith("]")]  # drop pydantic's function markers
    key = prefix + ".".join(loc)
    if error["type"] == "extra_forbidden":
        valid = _keys_at(model, error["loc"][:-1])
        return f"unknown key '{key}';{nearest(loc[-1], valid)}"
    if error["type"] == "missing":
        return f"the key '{key}' is missing; every suite needs it."
    found = error["input"]
    return f"'{key}' is {found!r}; {_expectation(error, found)}"


def _expectation(error: Any, found: Any) -> str:
    if error["type"] == "literal_error":
        options = [o.strip(" '") for o in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return f"expected one of {', '.join(options)};{nearest(str(found), options)}"
    message: str = error["msg"]
    return (
        message.replace("Input should", "it should").replace("List should", "it should").replace("String should", "it should")
        + "."
    )


def _keys_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """Valid keys of the table an error lies in."""
    for part in loc:
        field = model.model_fields.get(str(part))
        if field is None:  # a name below [pair.NAME]
            continue
        inner = [a for a in (field.annotation, *typing.get_args(field.annotation)) if isinstance(a, type)]
        model = next((a for a in inner if issubclass(a, BaseModel)), model)
    return list(model.model_fields)


def nearest(word: str, valid: typing.Sequence[str]) -> str:
    """The end of a sentence about an unknown word: the closest valid one, or all of them."""
    close = difflib.get_close_matches(word, valid, 1, 0.5)
    return f" did you mean '{close[0]}'?" if close else f" valid are {', '.join(valid)}."


def _apply(table: dict[str, Any], setting: str) -> None:
    """Lay one ``dotted.key=value`` over the parsed file."""
    key, value = parse_setting(setting, "law.n_events=16384")
    *path, last = key.split(".")
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise InputError(f"--set {setting!r}: '{part}' is a value, not a table; see the suite with 'show'.")
    table[last] = value


def _find(name_or_file: str) -> Path:
    shipped = resources.suite_files()
    if name_or_file in shipped:
        return shipped[name_or_file]
    file = Path(name_or_file)
    if file.is_file():
        return file
    raise InputError(f"There is no suite or file {name_or_file!r};{nearest(name_or_file, sorted(shipped))}")
