"""A mixture: rows once, each with its split, and the order in which training will see them."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curator import log
from curator.errors import CuratorError, UsageError
from curator.io.dataset import Dataset, OutputFolder
from curator.io.manifest import PARTIAL, FileEntry, Fingerprint, digest_file, write_atomic
from curator.mixture.sampler import FORMAT, MIXTURE, ORDER, UnitRows, cut_strata, draw_order, write_order
from curator.mixture.solver import allot
from curator.mixture.spec import NULL_VALUE, OTHERS, MixSpec, Weights
from curator.mixture.splits import assign_validation
from curator.pipeline.apply import ShardTask, Split, shard_names, split_dropped
from curator.pipeline.passes import Options, Outcome, check_shared_ids, refuse_overlap, run_tasks, timing
from curator.schema.check import did_you_mean
from curator.schema.expression import Expression
from curator.schema.record import column_array, drop_array, field_names, has_column, set_columns

STEP = "mix"
VERSION = "1"
SPLITS = "splits.parquet"
_ISSUES = "metadata.turn_issues"
_TOKENS = "scores.num_supervised_tokens.value"
_ASSIGNMENT = "assignment.npy"

# What becomes of a row, as stored between planning and writing.
_TRAIN, _VALIDATION, _KIND, _ZERO_WEIGHT, _NO_TOKENS, _BUDGET, _ROLE = range(7)
_RULES = {
    _KIND: ("kind", "its kind is not among the mixture's"),
    _ZERO_WEIGHT: ("zero_weight", "its weight is 0 in every phase"),
    _NO_TOKENS: ("no_supervised_tokens", "it has none, or they could not be counted"),
    _BUDGET: ("budget", "the budget was reached before its turn"),
    _ROLE: ("unknown_role", "a turn has a role that no template knows"),
}


@dataclass
class _Rows:
    """What mixing reads of every row; text is not among it."""

    ids: list[str]
    kinds: pa.Array
    has_unknown_role: np.ndarray
    """bool [num_rows]: whether ingest found a role in it that is none of ours."""
    slice_values: list[pa.Array]
    """One text array for each slice field; absent values as `null`."""
    tokens: np.ndarray | None
    """float64 [num_rows], NaN where not counted; None when no step counted."""
    split_keys: list[str]
    weights: dict[str, np.ndarray]
    """Weight expression to float64 [num_rows]."""


@dataclass
class _Plan:
    """The mixture before it is written."""

    assignment: np.ndarray
    """int8 [num_rows]: what becomes of each row."""
    order: dict[str, np.ndarray]
    """Columns of the order table; `row` counts the input's rows."""
    mixture: dict[str, Any]


def mix_fingerprint(dataset: Dataset, spec: MixSpec) -> Fingerprint:
    """What a mixture is a function of."""
    step = {"step": STEP, "version": VERSION, "settings": asdict(spec)}
    return Fingerprint((step,), tuple({"digest": manifest.digest} for manifest in dataset.manifests))


def mix(inputs: Sequence[Path], spec: MixSpec, out: Path, options: Options) -> Outcome:
    """Plan and write a mixture folder. Raises CuratorError when nothing is left to train on."""
    started = time.time()
    dataset = Dataset.open(*inputs)
    refuse_overlap(inputs, out)
    fingerprint = mix_fingerprint(dataset, spec)
    folder = OutputFolder.prepare(out, fingerprint, options.overwrite)
    try:
        if folder.complete is not None and _sound(out, folder.complete.extra):
            mixture = json.loads((out / MIXTURE).read_bytes())
            outcome = Outcome(out, [STEP], folder.complete.ledger(), time.time() - started, True)
            outcome.notes = {"shares": mixture["shares"], "positions": mixture["order"]["positions"]}
            return outcome
        if len(inputs) > 1:
            check_shared_ids(dataset)
        partial = out / PARTIAL
        partial.mkdir(exist_ok=True)
        rows = _read_rows(dataset, spec)
        plan = _plan(rows, spec)
        np.save(partial / _ASSIGNMENT, plan.assignment)
        groups = dataset.groups
        names = list(shard_names(len(groups)))
        tasks = [
            MixTask(
                name,
                f"shard {name}",
                groups[int(name)],
                dataset.schema,
                dataset.schema,
                out,
                assignment=partial / _ASSIGNMENT,
            )
            for name in names
            if name not in folder.finished
        ]
        run_tasks(folder, tasks, STEP, options)
        extra = _write_plan(out, plan, rows, spec)
        manifest = folder.finish(names, dataset.schema, dataset.history(), timing(started, inputs), extra)
    finally:
        folder.release()
    outcome = Outcome(out, [STEP], manifest.ledger(), time.time() - started)
    outcome.notes = {"shares": plan.mixture["shares"], "positions": plan.mixture["order"]["positions"]}
    return outcome


def _sound(out: Path, extra: dict[str, Any]) -> bool:
    """Whether order, splits and mixture.json are the ones the manifest names."""
    problems = [
        f"{entry['path']} {problem}" for entry in extra["files"] if (problem := FileEntry(**entry).problem(out))
    ]
    for problem in problems:
        log.warn(f"{out}: {problem}: it is written again")
    return not problems


# --- reading ------------------------------------------------------------------------------------------------------


def resolve(spec: MixSpec, schema: pa.Schema) -> tuple[list[str], str, dict[str, Expression]]:
    """Paths of the slice fields and of the split key, and the checked weights by their text. Raises UsageError when
    records of this schema do not have what the mixture asks for."""
    fields = [_metadata_path(schema, name, "weights.by") for name in spec.slice_fields()]
    key_path = _metadata_path(schema, spec.splits.by, "splits.by")
    expressions = {text: Expression(text, schema, "mix weight") for text in spec.expressions()}
    for expression in expressions.values():
        expression.require_number()
    if spec.budget.supervised_tokens is not None and not has_column(schema, _TOKENS):
        raise UsageError(
            "mix.budget.supervised_tokens needs token counts, which these records do not have",
            hint="run curator tag tokens --tokenizer MODEL first",
        )
    return fields, key_path, expressions


def _read_rows(dataset: Dataset, spec: MixSpec) -> _Rows:
    schema = dataset.schema
    fields, key_path, expressions = resolve(spec, schema)
    has_tokens = has_column(schema, _TOKENS)
    columns = {
        "id",
        "kind",
        _ISSUES,
        key_path,
        *fields,
        *(column for e in expressions.values() for column in e.columns),
    }
    if has_tokens:
        columns.add(_TOKENS)
    ids: list[str] = []
    kinds, keys, tokens, unknown_roles = [], [], [], []
    values: list[list[pa.Array]] = [[] for _ in fields]
    weights: dict[str, list[np.ndarray]] = {text: [] for text in expressions}
    with log.progress(dataset.num_rows, "mix reads metadata", "rows") as bar:
        for batch in dataset.batches(sorted(columns)):
            batch_ids = batch.column("id").to_pylist()
            ids += batch_ids
            kinds.append(batch.column("kind"))
            unknown_roles.append(_says(column_array(batch, _ISSUES), "unknown_role"))
            key = _as_text(column_array(batch, key_path))
            keys += [text if text is not None else own for text, own in zip(key.to_pylist(), batch_ids, strict=True)]
            for parts, path in zip(values, fields, strict=True):
                parts.append(pc.fill_null(_as_text(column_array(batch, path)), NULL_VALUE))
            for text, expression in expressions.items():
                weights[text].append(_weights(expression, batch, batch_ids))
            if has_tokens:
                tokens.append(column_array(batch, _TOKENS).cast(pa.float64()).to_numpy(zero_copy_only=False))
            bar.advance(batch.num_rows)
    return _Rows(
        ids,
        _concat(kinds),
        np.concatenate([np.zeros(0, bool), *unknown_roles]),
        [_concat(parts) for parts in values],
        np.concatenate(tokens) if tokens else (np.empty(0) if has_tokens else None),
        keys,
        {text: np.concatenate([np.empty(0), *parts]) for text, parts in weights.items()},
    )


def _says(lists: pa.ListArray, word: str) -> np.ndarray:
    """Whether each list of texts holds a word, bool [num_rows]; a null one does not."""
    found = np.zeros(len(lists), dtype=bool)
    if lists.null_count < len(lists):
        is_word = pc.fill_null(pc.equal(lists.flatten(), word), False).to_numpy(zero_copy_only=False)
        found[pc.list_parent_indices(lists).to_numpy()[is_word]] = True
    return found


def _metadata_path(schema: pa.Schema, name: str, where: str) -> str:
    """The dotted path of a field named bare or in full. Raises UsageError when there is none."""
    for path in (f"metadata.{name}", name):
        if has_column(schema, path):
            return path
    known = [path.removeprefix("metadata.") for path in field_names(schema)]
    raise UsageError(f"mix.{where} names {name}, which the records do not have", hint=did_you_mean(name, known))


def _as_text(array: pa.Array) -> pa.StringArray:
    if pa.types.is_list(array.type) or pa.types.is_struct(array.type):
        raise UsageError("mix: a list cannot be mixed by", hint="choose a field with one value a record")
    return array.cast(pa.string())


def _concat(arrays: list[pa.Array]) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())


def _weights(expression: Expression, batch: pa.RecordBatch, ids: list[str]) -> np.ndarray:
    values = expression.evaluate_number(batch)
    numbers = values.to_numpy(zero_copy_only=False)
    bad = ~(np.isfinite(numbers) & (numbers >= 0))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        shown = values[first].as_py()
        raise CuratorError(
            f"mix weight {expression.text} is {'null' if shown is None else shown} for {ids[first]}",
            hint="a weight is a number of 0 or more; coalesce(..., 1) covers records without the value",
        )
    return numbers


# --- planning -----------------------------------------------------------------------------------------------------


def _plan(rows: _Rows, spec: MixSpec) -> _Plan:
    num_rows = len(rows.ids)
    assignment = np.full(num_rows, _TRAIN, dtype=np.int8)
    assignment[~pc.is_in(rows.kinds, value_set=pa.array(spec.kinds)).to_numpy(zero_copy_only=False)] = _KIND
    assignment[(assignment == _TRAIN) & rows.has_unknown_role] = _ROLE
    if rows.tokens is not None:
        # NaN (not counted) compares as not above 0, too.
        assignment[(assignment == _TRAIN) & ~(rows.tokens > 0)] = _NO_TOKENS
    eligible = np.flatnonzero(assignment == _TRAIN)
    held = assign_validation([rows.split_keys[row] for row in eligible], spec.splits.validation, spec.seed)
    assignment[eligible[held]] = _VALIDATION

    slices, slice_of_row = _slices(rows.slice_values)
    _warn_unused_values(spec, slices)
    strata = {text: cut_strata(weights) for text, weights in rows.weights.items()}
    units, unit_of_row = _units(slice_of_row, [strata[text][0] for text in strata])
    unit_slice = units[:, 0]
    train = assignment == _TRAIN
    unit_of_row = np.where(train, unit_of_row, -1)
    num_units = len(units)
    counts = np.bincount(unit_of_row[train], minlength=num_units).astype(np.float64)
    by_tokens = spec.budget.supervised_tokens is not None
    amounts: np.ndarray = counts
    if by_tokens:
        assert rows.tokens is not None
        amounts = np.bincount(unit_of_row[train], weights=rows.tokens[train], minlength=num_units)
    row_size = np.divide(amounts, counts, out=np.ones(num_units), where=counts > 0)
    budget: float | None = spec.budget.supervised_tokens or spec.budget.rows
    capacity = np.floor(counts * spec.max_epochs + 1e-9).astype(np.int64)

    phases = [(phase.name, phase.end(), phase.weights) for phase in spec.phases] or [("all", 1.0, Weights())]
    factors = np.stack([_factors(spec, weights, slices, units, strata) for _, _, weights in phases])
    if budget is None and len(phases) > 1:
        budget = float((capacity * row_size)[(factors > 0).any(axis=0)].sum())
    drawn: list[np.ndarray] = []
    shares: list[np.ndarray] = []
    left = capacity.copy()
    caps_bind = False
    unit_rows = UnitRows(unit_of_row, num_units, spec.seed)
    begin = 0.0
    for (_, end, _), factor in zip(phases, factors, strict=True):
        part = None if budget is None else budget * (end - begin)
        allotment = allot(amounts, factor, left, row_size, part)
        counts_now = allotment.counts
        if by_tokens:
            assert rows.tokens is not None
            already = capacity - left
            draws = [
                unit_rows.draws_for(unit, int(already[unit]), float(amount), rows.tokens, int(left[unit]))
                for unit, amount in enumerate(allotment.amounts)
            ]
            counts_now = np.array(draws, dtype=np.int64)
        drawn.append(counts_now)
        shares.append(allotment.shares)
        caps_bind |= bool(allotment.capped.any())
        left = left - counts_now
        begin = end
    order = draw_order(unit_of_row, num_units, drawn, spec.seed)

    seen = np.zeros(num_rows, dtype=bool)
    seen[order["row"]] = True
    ever_wanted = np.zeros(num_units + 1, dtype=bool)
    ever_wanted[:-1] = (factors > 0).any(axis=0)
    unseen = train & ~seen
    assignment[unseen] = np.where(ever_wanted[unit_of_row[unseen]], _BUDGET, _ZERO_WEIGHT)
    if not len(order["row"]):
        raise CuratorError(
            f"the mixture is empty: none of {num_rows:,} records can be drawn",
            hint="curator stats shows kinds and fields; check weights, kinds and the splits",
        )
    order["slice"] = unit_slice[order.pop("unit")].astype(np.int32)
    mixture = _describe(rows, spec, slices, unit_slice, phases, shares, order, budget, by_tokens, assignment)
    given = mixture["budget"]["given"]
    if budget is not None and caps_bind and given < budget * 0.995:
        log.warn(
            f"the mixture has {given:,.0f} {mixture['unit'].replace('_', ' ')}, {budget:,.0f} were asked: "
            f"max_epochs {spec.max_epochs:g} binds"
        )
    return _Plan(assignment, order, mixture)


def _slices(values: list[pa.Array]) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """Distinct combinations of slice values, sorted, and the slice of each row."""
    codes = []
    dictionaries = []
    for array in values:
        encoded = array.dictionary_encode()
        ranks = pc.rank(encoded.dictionary, sort_keys="ascending").to_numpy() - 1
        names = np.empty(len(ranks), dtype=object)
        names[ranks] = encoded.dictionary.to_pylist()
        dictionaries.append(names)
        codes.append(ranks[encoded.indices.to_numpy()])
    stacked = np.stack(codes, axis=1) if codes else np.zeros((0, 1), np.int64)
    unique, inverse = np.unique(stacked, axis=0, return_inverse=True)
    names_of = [tuple(str(names[code]) for names, code in zip(dictionaries, row, strict=True)) for row in unique]
    return names_of, inverse.reshape(-1)


def _units(slice_of_row: np.ndarray, strata: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Distinct (slice, stratum of each expression) as int64 [num_units, 1 + expressions], and the unit of each row."""
    stacked = np.stack([slice_of_row, *strata], axis=1)
    units, inverse = np.unique(stacked, axis=0, return_inverse=True)
    return units, inverse.reshape(-1)


def _factors(
    spec: MixSpec, phase_weights: Weights, slices: list[tuple[str, ...]], units: np.ndarray, strata: dict[str, Any]
) -> np.ndarray:
    """The factor of each unit in a phase: of the mixture and the phase, by slice and by expression."""
    fields = spec.slice_fields()
    expressions = list(strata)
    result = np.ones(len(units))
    for weights in (spec.weights, phase_weights):
        by_slice = np.array([weights.factor(dict(zip(fields, values, strict=True))) for values in slices])
        result *= by_slice[units[:, 0]]
        if weights.expression:
            means = strata[weights.expression][1]
            result *= means[units[:, 1 + expressions.index(weights.expression)]]
    return result


def _warn_unused_values(spec: MixSpec, slices: list[tuple[str, ...]]) -> None:
    """A weight for a value that no record has is most often a typing error."""
    for index, name in enumerate(spec.slice_fields()):
        there = {values[index] for values in slices}
        for weights in (spec.weights, *(phase.weights for phase in spec.phases)):
            for text in map(str, weights.by.get(name, {})):
                if text != OTHERS and text not in there:
                    hint = did_you_mean(text, there)
                    log.warn(f"mix weights name {name}={text}, which no record has" + (f" ({hint})" if hint else ""))


# --- reporting and writing ------------------------------------------------------------------------------------------


def _describe(
    rows: _Rows,
    spec: MixSpec,
    slices: list[tuple[str, ...]],
    unit_slice: np.ndarray,
    phases: list[tuple[str, float, Weights]],
    shares: list[np.ndarray],
    order: dict[str, np.ndarray],
    budget: float | None,
    by_tokens: bool,
    assignment: np.ndarray,
) -> dict[str, Any]:
    """mixture.json without digests: phases, slices, and asked against realised shares."""
    names = ["/".join(values) for values in slices]
    positions = len(order["row"])
    tokens = None if rows.tokens is None else np.nan_to_num(rows.tokens[order["row"]])
    unit = tokens if by_tokens and tokens is not None else np.ones(positions)
    parts = []
    begin = 0.0
    asked = np.zeros(len(slices))
    for index, ((_, end, _), share) in enumerate(zip(phases, shares, strict=True)):
        size = (end - begin) if budget is not None else float((order["phase"] == index).sum()) / positions
        asked += size * np.bincount(unit_slice, weights=share, minlength=len(slices))
        begin = end
    realised = np.bincount(order["slice"], weights=unit, minlength=len(slices)) / unit.sum()
    row_counts = np.bincount(order["slice"], minlength=len(slices))
    distinct = np.unique(np.stack([order["slice"].astype(np.int64), order["row"]]), axis=1)[0]
    distinct_counts = np.bincount(distinct, minlength=len(slices))
    token_sums = None if tokens is None else np.bincount(order["slice"], weights=tokens, minlength=len(slices))
    for index, name in enumerate(names):
        if asked[index] == 0 and row_counts[index] == 0:
            continue
        parts.append(
            {
                "slice": name,
                "asked": round(float(asked[index]), 6),
                "realised": round(float(realised[index]), 6),
                "rows": int(row_counts[index]),
                "records": int(distinct_counts[index]),
                "epochs": round(float(row_counts[index] / max(distinct_counts[index], 1)), 4),
                "supervised_tokens": None if token_sums is None else int(token_sums[index]),
            }
        )
    firsts = np.searchsorted(order["phase"], np.arange(len(phases) + 1))
    total = float(unit.sum())
    return {
        "format": FORMAT,
        "unit": "supervised_tokens" if by_tokens else "rows",
        "budget": {"asked": budget, "given": total},
        "seed": spec.seed,
        "slice_fields": spec.slice_fields(),
        "slices": names,
        "phases": [
            {"name": name, "first": int(firsts[index]), "last": int(firsts[index + 1])}
            for index, (name, _, _) in enumerate(phases)
        ],
        "shares": parts,
        "records": {
            "train": int((assignment == _TRAIN).sum()),
            "validation": int((assignment == _VALIDATION).sum()),
        },
        "supervised_tokens": None if tokens is None else int(tokens.sum()),
        "spec": asdict(spec),
    }


def _write_plan(out: Path, plan: _Plan, rows: _Rows, spec: MixSpec) -> dict[str, Any]:
    """Write order, splits and mixture.json; returns what the manifest keeps of them."""
    kept = plan.assignment <= _VALIDATION
    row_in_mixture = np.cumsum(kept) - 1
    plan.order["row"] = row_in_mixture[plan.order["row"]]
    order_digest = write_order(out / ORDER, plan.order)
    held = plan.assignment == _VALIDATION
    table = pa.table(
        {
            "id": pa.array(rows.ids, pa.string()).filter(pa.array(kept)),
            "split": pa.array(np.where(held[kept], "validation", "train"), pa.string()),
            "key": pa.array(rows.split_keys, pa.string()).filter(pa.array(kept)),
        }
    )
    pq.write_table(table, out / SPLITS, compression="zstd", compression_level=1, row_group_size=1 << 20)
    plan.mixture["order"] = {"positions": len(plan.order["row"]), "xxh3": order_digest}
    write_atomic(out / MIXTURE, json.dumps(plan.mixture, indent=1, ensure_ascii=False).encode() + b"\n")
    files = [
        FileEntry(name, count, (out / name).stat().st_size, digest_file(out / name)).to_json()
        for name, count in ((ORDER, len(plan.order["row"])), (SPLITS, len(table)), (MIXTURE, 0))
    ]
    return {"files": files}


@dataclass(frozen=True)
class MixTask(ShardTask):
    """Writes one shard of the mixture: the split of every row that stays, the reason for every other."""

    assignment: Path | None = None

    def splitter(self) -> Callable[[pa.RecordBatch, int], Split]:
        assert self.assignment is not None
        assignment = np.load(self.assignment, mmap_mode="r")

        def split(batch: pa.RecordBatch, row: int) -> Split:
            fates = np.asarray(assignment[row : row + batch.num_rows])
            splits = pa.array(np.where(fates == _VALIDATION, "validation", "train"), pa.string())
            dropped = fates > _VALIDATION
            rules = pa.array([_RULES[fate][0] if fate in _RULES else None for fate in fates.tolist()], pa.string())
            details = pa.array([_RULES[fate][1] if fate in _RULES else None for fate in fates.tolist()], pa.string())
            splits = pc.if_else(pa.array(dropped), pa.scalar(None, pa.string()), splits)
            drop = drop_array(pa.array(dropped), STEP, rules, detail=details)
            kept, rejected = split_dropped(
                set_columns(batch, {"metadata.split": splits, "drop": drop}, self.out_schema)
            )
            return kept, [rejected] if rejected.num_rows else []

        return split
