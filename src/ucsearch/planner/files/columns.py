"""Which column of a forecasts or sales file holds what: our names, Nixtla's, quantiles in any usual spelling; and what
to write under [columns] where a name is not known.

A name that is nearly one of ours is refused with the right one; what is certainly not ours is a note. A proposal is a
guess from what the columns hold and only ever a hint in a message: which column is the demand is for the person who
made the file to say.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from ucsearch.errors import InputError
from ucsearch.planner.files.calendar import has_local_dates
from ucsearch.planner.files.numbers import DateOrder, parse_dates, sniff_order
from ucsearch.planner.files.table import Block, Problem, Table
from ucsearch.planner.settings import Columns, Settings

__all__ = [
    "Kind",
    "Layout",
    "Named",
    "column_hint",
    "forecast_hint",
    "forecast_layout",
    "history_names",
    "like",
    "near",
    "sales_layout",
    "usual_names",
]


Kind = Literal["members", "sample", "mean", "quantiles"]

# Other people's names, used where ours is not in the file and the settings do not name another.
_USUAL = {"series": ("unique_id",), "date": ("ds",), "demand": ("y",), "sample": ("sample_id",)}
# Used likewise, but only where one of them stands alone; compared without case, units, spaces and marks.
_SAID = {
    "series": """item itemid itemno itemnumber itemcode itemname sku skuid skucode product productid productno
        productcode productname article articleid articleno articlenumber articlecode material materialno materialnumber
        materialcode part partno partnumber artikel artikelnr artikelnummer artikelbezeichnung artnr materialnummer
        produkt produktnr produktnummer produit codeproduit codearticle refproduit articulo codigo producto
        codigoproducto articolo codicearticolo prodotto artigo produto codigoproduto vare varenr varenummer tuote""",
    "date": """timestamp datetime postingdate datum buchungsdatum buchdat belegdatum verkaufsdatum fecha dataora""",
    "demand": """sales salesqty salesquantity sold quantity qty quantitysold qtysold unitssold unitsales soldunits menge
        absatz absatzmenge verkauf verkaufsmenge verkauftemenge nachfrage bedarf ventes quantite quantitevendue qte
        cantidad ventas unidadesvendidas quantita vendite venduto quantidade vendas aantal verkoop antal""",
}
_SAID_WORDS = {key: frozenset(text.split()) for key, text in _SAID.items()}
_CALENDAR = ("year", "month", "week", "period", "quarter", "jahr", "monat", "woche", "kw", "quartal", "annee", "mois")
_PREFIXES = ("member", "sample_", "sample", "path_", "path")
# Spellings that are too far for `near`.
_MEANT = {"std": ("stdev", "stddev", "std_dev", "sd", "sigma"), "mean": ("average", "avg", "mu", "forecast")}
_NEAR = 0.8  # of difflib's ratio
_PART_OF = 4  # letters from which on a part of a name is a hint at it
_NAMED = 16  # columns listed in a message
_PART = re.compile(
    r"(?P<model>.+?)[-_](?:(?P<side>lo|hi)-(?P<level>\d+(?:\.\d+)?)|q-(?P<q>\d+(?:\.\d+)?)|ql-?(?P<ql>0?\.\d+)|median)"
)

_PATH = re.compile(r"(?P<model>.+?)[-_](?:sample|path)[-_](?P<number>\d+)")


class Named(Protocol):
    """What reading a history needs to know: settings say it, and so may less than settings."""

    @property
    def columns(self) -> Columns: ...
    @property
    def period(self) -> str: ...


@dataclass(frozen=True)
class Layout:
    """Which columns hold what."""

    kind: Kind
    time: str  # the step or date column
    dated: bool
    values: tuple[str, ...]  # in the order of members or of levels
    levels: tuple[float, ...]  # of quantiles
    extra: tuple[str, ...]  # cutoff, issued and model, where they are
    order: DateOrder = "auto"
    wall_clock: bool = False  # times with an offset from UTC: their local date counts, not the instant
    fields: tuple[str, ...] = ()  # of outcomes that have several; `values` has all columns of one, then of the next
    variable: str = ""  # the column that names a row's field; "": each field has columns of its own
    beside: tuple[str, ...] = ()  # sales: further columns of numbers, after `values`


_SAMPLED = {"demand": ("price", "harm")}  # names that `ucsearch new` writes into settings: nobody chose them


def usual_names(table: Table, names: Columns) -> Columns:
    """The settings' names; ours or other people's in place of those that are not there (files that we write ourselves
    have our names, whatever the user's files call things)."""
    changes = {}
    for ours, others in _USUAL.items():
        named = getattr(names, ours)
        if named in table.columns:
            continue
        if ours in table.columns:
            changes[ours] = ours
        elif named == ours or named in _SAMPLED.get(ours, ()):
            found = [x for x in others if x in table.columns][:1] or _said(ours, table.columns)
            changes |= {ours: found[0]} if len(found) == 1 else {}
    return names.model_copy(update=changes)


def _said(ours: str, columns: Sequence[str]) -> list[str]:
    return [x for x in columns if _word(x) in _SAID_WORDS.get(ours, ())]


def _word(name: str) -> str:
    """A column's name without case, accents, marks and the unit in brackets: "Qty. sold (pcs)" is "qtysold"."""
    plain = unicodedata.normalize("NFKD", re.sub(r"[(\[].*?[)\]]", "", name).lower())
    return "".join(c for c in plain if c.isalnum())


def history_names(table: Table, names: Columns) -> Columns:
    """`usual_names` of a sales file, whose one column of dates needs no name; and how dates with slashes are meant,
    where the column itself tells."""
    used = usual_names(table, names)
    if used.date not in table.columns and used.step not in table.columns and not _is_data(table.columns):
        dated = _dated_columns(table, used)
        if len(dated) == 1:
            used = used.model_copy(update={"date": dated[0]})
    if used.dates == "auto" and used.date in table.columns:
        used = used.model_copy(update={"dates": _order_of(table, used.date)})
    return used


def _dated_columns(table: Table, names: Columns) -> list[str]:
    """Columns that hold nothing but dates, as far as the first rows tell."""
    taken = {names.series, names.demand, names.cutoff, names.issued, names.variable, *names.ignore, *names.known}
    free = [c for c in table.columns if c not in taken]
    block = next(table.blocks(free), None) if free else None
    if block is None:
        return []
    head = block.part(0, _ROWS)
    found = []
    for column in free:
        texts = [x for x in head.texts(column) if x]
        if not texts or all(x.isdecimal() for x in texts):
            continue
        order = _order_in(texts) if names.dates == "auto" else names.dates
        if not np.isnat(parse_dates(texts, "dmy" if order == "auto" else order, wall_clock=True)).any():
            found.append(column)
    return found


def _order_in(texts: Sequence[str]) -> DateOrder:
    return sniff_order(x.partition(" ")[0] for x in texts)


def _order_of(table: Table, column: str) -> DateOrder:
    """How the dates with slashes of a column are meant, from its first rows, or else from all."""
    order: DateOrder = "auto"
    for block in table.blocks([column]):
        texts = block.texts(column)
        if "/" not in "".join(texts[:_ROWS]) or (order := _order_in(texts)) != "auto":
            break
    return order


def near(name: str, ours: Iterable[str]) -> str | None:
    """The name of ours that `name` must have been meant for, if any."""
    plain = {_plain(x): x for x in ours}
    close = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_NEAR)
    return plain[close[0]] if close else None


def like(name: str, ours: Iterable[str]) -> list[str]:
    """Names of ours that a hint may offer: the nearest, or all that `name` is a part of, or has as a part."""
    known, short = list(ours), _plain(name)
    close = near(name, known)
    if close is not None:
        return [close]
    return [
        x
        for x in known
        if len(min(short, _plain(x), key=len)) >= _PART_OF and (short in _plain(x) or _plain(x) in short)
    ]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def forecast_layout(
    table: Table, names: Columns, settings: Settings, fields: Sequence[str] = ()
) -> tuple[Layout, list[Problem]]:
    """Recognise the columns of a forecasts file; exactly one kind of forecast must be there. Of outcomes of several
    fields, each has columns of its own (`price_member_1`; beside sample numbers, `price`), or a column says whose
    values a row holds."""
    have, file = list(table.columns), str(table.path)
    _require(table, names.series, "columns.series")
    if not fields or names.variable in have:
        kind, values, levels, model = _recognised(have, file, names, settings)
        # The target beside a forecast, and a point forecast beside its own quantiles, are other people's usual columns.
        known = {*((names.demand,) if names.demand in have else ()), *((model,) if model in have else ())}
        return _time_layout(table, names, settings, kind, values, levels, known, fields)
    _check_fields(file, names, fields)
    found: dict[str, tuple[Kind, tuple[str, ...], tuple[float, ...]]] = {}
    for field in fields:
        own = _own_columns(have, field, fields, names)
        if not set(own) - {names.sample}:
            raise _no_columns(file, have, field, fields, names)
        kind, values, levels, _ = _recognised(list(own), f"{file}: columns of {field!r}", names, settings)
        found[field] = (kind, tuple(own[n] for n in values), levels)
    first, (kind, columns, levels) = next(iter(found.items()))
    for field, (other, values, own_levels) in found.items():
        bare = [x.removeprefix(f"{first}_") for x in columns]
        same = kind == "sample" or [x.removeprefix(f"{field}_") for x in values] == bare
        if other != kind or not same:
            lacking = [f"{field}_{x}" for x in bare if f"{field}_{x}" not in values]
            seen = f"no column {lacking[0]!r}" if lacking else f"{len(values)} columns of {field!r}"
            raise InputError(file, seen, f"the same columns for {field!r} as for {first!r}: they belong together")
        if own_levels != levels:
            raise InputError(file, f"other levels for {field!r} than for {first!r}", "the same levels for each")
    everything = tuple(x for _, values, _ in found.values() for x in values)
    return _time_layout(table, names, settings, kind, everything, levels, set(), fields)


def _own_columns(have: Sequence[str], field: str, fields: Sequence[str], names: Columns) -> dict[str, str]:
    """The columns of a field, by what they would be called if it were alone."""
    longer = tuple(f"{other}_" for other in fields if other.startswith(f"{field}_"))
    head = f"{field}_"
    own = {n[len(head) :]: n for n in have if n.startswith(head) and not (longer and n.startswith(longer))}
    if names.sample in have:
        own[names.sample] = names.sample
        if field in have:
            own[names.value] = field
    return own


def _check_fields(file: str, names: Columns, fields: Sequence[str]) -> None:
    """A field that is called as something else would be read twice."""
    for key in ("series", "step", "date", "sample", "variable", "cutoff", "issued", "model"):
        if getattr(names, key) in fields:
            raise InputError(
                f"columns.{key}", f"{getattr(names, key)!r}, which is also a field of the outcome", "another name",
                hint=f"Or name the field in rows of {file} with a column {names.variable!r}.",
            )  # fmt: skip


def _no_columns(file: str, have: Sequence[str], field: str, fields: Sequence[str], names: Columns) -> InputError:
    likely = [f"{other}_" for other in fields if any(n.startswith(f"{other}_") for n in have)]
    sample = next((n for n in have if likely and n.startswith(likely[0])), "")
    example = f"{field}_{sample.removeprefix(likely[0])}" if sample else f"{field}_{names.members}1"
    example = field if names.sample in have else example
    return InputError(
        file, f"columns {', '.join(have[:12])}", f"a column such as {example!r} for the outcome's field {field!r}",
        hint=f"Or a column {names.variable!r} that says which of {', '.join(fields)} a row is about.",
    )  # fmt: skip


def _recognised(
    have: list[str], file: str, names: Columns, settings: Settings
) -> tuple[Kind, tuple[str, ...], tuple[float, ...], str]:
    """What kind of forecast these columns hold, which of them, their levels, and the model they name."""
    prefixes = (names.members, *_PREFIXES, *_sample_prefixes(have, file, settings))
    prefix = next((p for p in prefixes if any(_numbered(n, p) for n in have)), names.members)
    members = sorted((n for n in have if _numbered(n, prefix)), key=lambda n: int(n[len(prefix) :]))
    quantiles, model = _quantiles(have, file, names, settings)
    value = (names.value,) if names.value in have else _sample_value(have, names)
    choices: dict[Kind, tuple[str, ...]] = {
        "members": tuple(members),
        "sample": value if names.sample in have else (),
        "mean": (names.mean, names.std) if names.mean in have and names.std in have else (),
        "quantiles": tuple(quantiles[level] for level in sorted(quantiles)),
    }
    found = [kind for kind, values in choices.items() if values]
    if len(found) != 1:
        close = [] if found else _nearly(have, (names.mean, names.std, names.sample, names.value))
        raise InputError(
            file, " and ".join(found) or f"columns {_listed(have)}",
            f"one kind of forecast: {names.members}1, {names.members}2, ...; {names.sample} and {names.value}; "
            f"{names.mean} and {names.std}; or {names.quantiles}0.1, {names.quantiles}0.5, ... (also q10, 0.1, "
            "model-lo-90)", hint=" ".join(close) if found else forecast_hint(have, names, close),
        )  # fmt: skip
    kind = found[0]
    if kind == "quantiles" and len(quantiles) < 2:
        seen = f"only the column {choices[kind][0]!r}"
        raise InputError(file, seen, "at least two quantile levels, such as q0.1 and q0.9")
    levels = tuple(sorted(quantiles)) if kind == "quantiles" else ()
    return kind, choices[kind], levels, model


def sales_layout(
    table: Table, names: Columns, settings: Named, period: str, fields: Sequence[str] = ()
) -> tuple[Layout, list[Problem]]:
    """A long sales file: one row per series and step or date, with the demand. Of outcomes of several fields: a column
    for each, or a column that says which of them a row's value is of."""
    _require(table, names.series, "columns.series")
    values: tuple[str, ...] = (names.demand,)
    if fields and names.variable not in table.columns:
        _check_fields(str(table.path), names, fields)
        for field in fields:
            if field not in table.columns:
                raise InputError(
                    str(table.path), f"columns {', '.join(table.columns[:12])}",
                    f"a column {field!r} for the outcome's field of that name",
                    hint=f"Or a column {names.variable!r} that says which of {', '.join(fields)} a row is about.",
                )  # fmt: skip
        values = tuple(fields)
    elif fields and names.demand not in table.columns and names.value in table.columns:
        values = (names.value,)
    else:
        _require(table, names.demand, "columns.demand")
    if settings.columns.gaps != "refuse" and period == "any":
        seen = f"{settings.columns.gaps!r} with period = 'any'"
        raise InputError("columns.gaps", seen, "a period, such as period = 'day'")
    beside = _beside(table, names, bool(fields))
    layout, problems = _time_layout(table, names, settings, "members", values, (), set(beside), fields)
    return replace(layout, beside=beside, wall_clock=has_local_dates(period)), problems


def _beside(table: Table, names: Columns, several: bool) -> tuple[str, ...]:
    """Columns that say what was known, and where demand was not met: each once, in the order of the settings."""
    found = []
    for key in ("closing_stock", "out_of_stock"):
        if name := getattr(names, key):
            if several:
                raise InputError(f"columns.{key}", repr(name), "nothing: outcomes have several fields")
            _require(table, name, f"columns.{key}")
            found.append(name)
    taken = {names.series, names.step, names.date, names.demand, names.variable}
    for i, name in enumerate(names.known):
        if name in taken or names.known.index(name) != i:
            raise InputError("columns.known", repr(name), "columns of their own, each once", index=i)
        if name in table.columns and not (several and names.variable in table.columns):
            found.append(name)
    return tuple(dict.fromkeys(found))


def _require(table: Table, name: str, key: str) -> None:
    if name in table.columns:
        return
    close, said = near(name, table.columns), _said(key.rpartition(".")[2], table.columns)
    hint = f"It has {close!r}; rename it, or say {key} = {close!r}." if close else ""
    if len(said) > 1:
        hint = f"It has {' and '.join(map(repr, said))}; say which by {key}."
    raise InputError(str(table.path), f"columns {_listed(table.columns)}", f"a column {name!r} ({key})", hint=hint)


def _nearly(have: Sequence[str], ours: Sequence[str]) -> list[str]:
    """For names of ours that are missing: which column must have been meant."""
    found = []
    for name in ours:
        close = near(name, have) or next((x for x in have if x.lower() in _MEANT.get(name, ())), None)
        if name not in have and close is not None and close not in ours:
            found.append(f"It has {close!r}; rename it to {name!r}.")
    return found


def _listed(columns: Sequence[str]) -> str:
    """All names, or the first of many."""
    rest = len(columns) - _NAMED
    return ", ".join(columns[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _time_layout(
    table: Table, names: Columns, settings: Named, kind: Kind, values: tuple[str, ...], levels: tuple[float, ...],
    known: set[str], fields: Sequence[str],
) -> tuple[Layout, list[Problem]]:  # fmt: skip
    """The layout, given what holds the values; and what is not used."""
    have, file = table.columns, str(table.path)
    times = [n for n in (names.step, names.date) if n in have]
    if not times:
        raise InputError(
            file, f"columns {_listed(have)}", f"a column {names.step!r} or {names.date!r}",
            hint=" ".join(_nearly(have, (names.step, names.date))) or column_hint(table, names),
        )  # fmt: skip
    extra = tuple(n for n in (names.cutoff, names.issued, names.model) if n in have)
    variable = names.variable if fields and names.variable in have else ""
    used = {names.series, *times, *values, *extra, *names.ignore, *known, variable}
    used |= {names.sample} if kind == "sample" else set()
    ours = [names.series, names.step, names.date, names.cutoff, names.issued, names.sample, names.value, names.demand]
    ours += [names.mean, names.std, *values]
    text = "an unknown column, left out (columns.ignore would silence this)"
    problems = []
    for name in have:
        if name in used:
            continue
        close = near(name, [x for x in ours if x not in have])
        if close is not None:
            raise InputError(
                f"{file}: column {name!r}", repr(name), f"{close!r}, which it nearly is",
                hint="If it means something else, name it in columns.ignore.",
            )  # fmt: skip
        problems.append(Problem(file, "", name, "", text, refuses=False))
    wall_clock = has_local_dates(settings.period)
    dated = times[0] == names.date
    made = Layout(kind, times[0], dated, values, levels, extra, names.dates, wall_clock, tuple(fields), variable)
    return made, problems


def _numbered(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and name[len(prefix) :].isdecimal()


def _sample_prefixes(have: Sequence[str], file: str, settings: Settings) -> list[str]:
    """What stands before the numbers of a model's sample paths, AutoETS-sample-1: one model's, or the one named."""
    found = {part["model"]: part[0][: part.start("number")] for n in have if (part := _PATH.fullmatch(n)) is not None}
    if len(found) > 1 and settings.forecast.model not in found:
        raise InputError(file, f"models {', '.join(found)}", "one model, or its name in forecast.model")
    return [found[settings.forecast.model]] if settings.forecast.model in found else list(found.values())


def _sample_value(have: Sequence[str], names: Columns) -> tuple[str, ...]:
    """The one column beside sample numbers that could hold their values: a model's own name, as Nixtla writes it."""
    keys = {names.series, names.step, names.date, names.sample, names.cutoff, names.issued, names.model, names.demand}
    keys |= {*names.ignore, names.variable}
    rest = [n for n in have if n not in keys]
    return (rest[0],) if len(rest) == 1 else ()


# -------------------------------------------------------------------- quantiles


def _quantiles(have: Sequence[str], file: str, names: Columns, settings: Settings) -> tuple[dict[float, str], str]:
    """Columns by level, and the model they belong to ("" for none): q0.1, q10, 0.1, model-lo-90, model-q-10."""
    found: dict[float, str] = {}
    single = []
    for name in have:
        level = _level(name, names.quantiles)
        if level is not None:
            _add(found, level, name, file)
            if re.fullmatch(re.escape(names.quantiles) + r"\d", name):
                single.append(name)
    if single and len(single) == len(found):
        raise InputError(
            f"{file}: column {single[0]!r}", f"{', '.join(single)}", "two digits (q10: 10 %) or a level (q0.1)",
            hint=f"{single[0]} could be 0.0{single[0][-1]} or 0.{single[0][-1]}.",
        )  # fmt: skip
    models: dict[str, dict[float, str]] = {}
    for name in have if not found else ():
        part = _PART.fullmatch(name)
        if part is not None:
            _add(models.setdefault(part["model"], {}), _part_level(part), name, file)
    if not models:
        return found, ""
    model = settings.forecast.model if settings.forecast.model in models else next(iter(models))
    if len(models) > 1 and settings.forecast.model not in models:
        raise InputError(file, f"models {', '.join(models)}", "one model, or its name in forecast.model")
    chosen = models[model]
    if 0.5 not in chosen and model in have:
        chosen[0.5] = model  # the point forecast stands in for the median
    return chosen, model


def _part_level(part: re.Match[str]) -> float:
    if part["side"]:
        inside = float(part["level"]) / 100.0
        return round(0.5 - 0.5 * inside if part["side"] == "lo" else 0.5 + 0.5 * inside, 12)
    if part["q"]:
        given = float(part["q"])
        return round(given / 100.0 if given >= 1.0 else given, 12)
    return float(part["ql"]) if part["ql"] else 0.5


def _add(found: dict[float, str], level: float, name: str, file: str) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f"{file}: column {name!r}", f"level {level:g}", "a level above 0 and below 1")
    if level in found:
        raise InputError(f"{file}: column {name!r}", f"level {level:g} again", f"it once; {found[level]!r} has it too")
    found[level] = name


def _level(name: str, prefix: str) -> float | None:
    """The level of a quantile column such as q0.9, q90, q_90, P90 or 0.9."""
    if (share := re.fullmatch(r"(\d{1,2}(?:\.\d+)?) ?%", name)) is not None:
        name = f"{prefix}{float(share[1]) / 100.0:.12g}"
    bare = re.fullmatch(r"0?\.\d+", name)
    part = re.fullmatch(rf"(?:{re.escape(prefix)}|[qQpP]|quantile)[_-]?(0?\.\d+|\d{{1,2}})", name)
    if bare is None and part is None:
        return None
    text = name if part is None else part[1]
    level = float(text) if "." in text else float(text) / 100.0
    return level if 0.0 < level < 1.0 else None


_ROWS = 200  # looked at
_FEW = 12  # columns of a long file


class _Held(NamedTuple):
    """Columns by what they hold, in the file's order."""

    dates: list[str]
    texts: list[str]
    numbers: list[str]


def column_hint(table: Table, names: Columns) -> str:
    """Which sheet of a workbook is read, where it has several, and what to say of the columns."""
    return " ".join(filter(None, (getattr(table, "note", ""), _column_hint(table, names))))


def _column_hint(table: Table, names: Columns) -> str:
    """`Say what yours are called, under [columns]: ...`, as far as it can be told; else "" ."""
    if len(table.columns) == 1:
        return "It has one column: take away what stands above the header, or separate by , ; tab or |."
    if table.unit == "line" and _is_data(table.columns):
        return "Line 1 holds data: put a line with column names above it."
    block = next(table.blocks(list(table.columns)), None)
    if block is None or not len(block):
        return ""
    prefixes = [re.sub(r"\d+$", "", c) for c in table.columns if c[-1:].isdecimal()]
    if len(prefixes) > 1 and any(p.startswith(_PREFIXES) for p in prefixes):
        return "This looks like a file of forecasts; files.sales is what was sold."
    head = block.part(0, _ROWS)
    named = (names.series, names.date, names.step, names.demand, *names.ignore)
    held = _held(head, [c for c in table.columns if c not in named], names)
    timed = names.date in table.columns or names.step in table.columns
    found: dict[str, list[str]] = {}
    if names.series not in table.columns:
        found["series"] = _said("series", held.texts + held.numbers) or held.texts or _codes(block, held)
    series = names.series if names.series in table.columns else "".join(found["series"][:1])
    if series and len(block) > 1 and len(set(block.texts(series))) == len(block):
        return "Each series has one row: this looks like a file of states; files.sales is a history."
    if not timed:
        found["date"] = held.dates
        if not held.dates:
            return _no_dates(head, held)
    if names.demand not in table.columns:
        left = [c for c in held.numbers if c not in found.get("series", []) and len(set(block.texts(c))) > 1]
        found["demand"] = _said("demand", left) or left
    sure = [f"{key} = {_quoted(choice[0])}" for key, choice in found.items() if len(choice) == 1]
    open_ = [f"{key} is one of {', '.join(map(_quoted, x[:_FEW]))}" for key, x in found.items() if len(x) > 1]
    return f"Say what yours are called, under [columns]: {'; '.join(filter(None, (', '.join(sure), *open_)))}." * bool(
        sure or open_
    )


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _no_dates(head: Block, held: _Held) -> str:
    """What to do with a calendar in numbers: years beside months, or 202405."""
    parts = [c for c in held.numbers if _word(c) in _CALENDAR]
    if not parts:
        return "No column holds dates; a history has a row for each date."
    if len(parts) == 1:
        seen = next(x for x in head.texts(parts[0]) if x)
        return f"{parts[0]!r} holds {seen}, which is no date: write a month as 2024-05, a week as 2024-W21."
    return f"Put {' and '.join(map(repr, parts))} together in one column of dates: a month is 2024-05, a week 2024-W21."


def forecast_hint(have: Sequence[str], names: Columns, close: list[str]) -> str:
    """What to do with forecasts in a form that is not read."""
    lower = {x.lower(): x for x in have}
    level = next((lower[x] for x in ("quantile", "level", "quantile_level") if x in lower), None)
    if level is not None:
        return f"Quantiles go side by side: a column such as {names.quantiles}0.1 for each value of {level!r}."
    sides = [lower[x] for x in ("lower", "upper", "lo", "hi", "low", "high", "yhat_lower", "yhat_upper") if x in lower]
    if len(sides) > 1:
        q = names.quantiles
        return f"Say which quantiles {' and '.join(map(repr, sides))} are: {q}0.1 and {q}0.9 for 80 %."
    keys = {names.series, names.step, names.date, names.cutoff, names.issued, names.model, *names.ignore}
    if not close and len(rest := [x for x in have if x not in keys]) == 1:
        return (
            f"{rest[0]!r} is one number a period; a decision needs to know how sure it is: members, quantiles or a std."
        )
    return " ".join(close)


def _is_data(columns: Sequence[str]) -> bool:
    """Whether a header has a date and a number among a few texts, so that it must be a row."""
    dates = sum(not np.isnat(x) for x in parse_dates(list(columns), "dmy", wall_clock=True))
    numbers = sum(bool(re.fullmatch(r"[+-]?\d+([.,]\d+)?", x)) for x in columns)
    return len(columns) <= _FEW and dates == 1 and numbers >= 1


def _held(block: Block, columns: list[str], names: Columns) -> _Held:
    held = _Held([], [], [])
    for column in columns:
        texts = [x for x in block.texts(column) if x]
        order = names.dates if names.dates != "auto" else "dmy"  # 05/06/2024 is a date whichever way it is meant
        if not texts:
            continue
        values, others = block.numbers(column)
        if np.isfinite(values).any() and not others:
            held.numbers.append(column)
        elif not np.isnat(parse_dates(texts, order, wall_clock=True)).all():
            held.dates.append(column)
        else:
            held.texts.append(column)
    return held


def _codes(block: Block, held: _Held) -> list[str]:
    """Of several columns of numbers the one that comes again most: article numbers."""
    if len(held.numbers) < 2:
        return []
    return [min(held.numbers, key=lambda c: len(set(block.texts(c))))]
