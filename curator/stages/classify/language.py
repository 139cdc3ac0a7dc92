"""classify.language: the language of a record: CLD2 where it is sure, langid's n-gram model for the doubtful."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version as library_version
from typing import Any, ClassVar

import pyarrow as pa

from curator.extras import require
from curator.schema.record import score_type
from curator.schema.selectors import check_selector, select_text, selector_columns
from curator.stages.base import RowFunction, RowStage
from curator.stages.classify.labels import check_text_field, label_reads, labelled, rows_to_label
from curator.stages.classify.text import letter_weight, letters

FIELD = "language"
UNDETERMINED = "und"
MIN_LETTERS = 16
"""Less than this to go by, as `letter_weight` counts, is undetermined. On cut MGSM questions of 10 to 19 both
libraries agree on a wrong language in 1 % of cases, above 20 in 0.1 %; a single word is a matter of luck."""
SURE_LETTERS = 60
"""From here on a reliable answer of CLD2 stands alone; below, its 3 to 6 % of errors go to the second model."""
MIN_PROBABILITY = 0.5
"""What the second model needs to decide against, or without, the first."""

_CODES = {
    "iw": "he",
    "hbo": "he",
    "jw": "jv",
    "wuu": "zh",
    "yue": "zh",
    "arz": "ar",
    "ary": "ar",
    "kik": "ki",
    "gug": "gn",
    "sdh": "ku",
    "uzs": "uz",
}
"""Old codes, and varieties that ISO 639-1 has one code for. A language without a two-letter code keeps its three."""
_NO_LANGUAGE = {"un", "zxx", "xx", "xxx", "zzp", "tlh"}


@dataclass(frozen=True)
class Language(RowStage):
    """`metadata.language` as an ISO 639-1 code where it is null, and `scores.language_confidence`.

    Code, formulas, links, keys of JSON, digits and symbols are left out first. `und` stands where too little is left
    (status `too_short`) or the two libraries cannot say (`doubtful`). The confidence is the share of the text that
    CLD2 gives to the language, or the second model's probability.
    """

    name: ClassVar[str] = "classify.language"

    on: str = "turns"
    """Selector whose text is looked at, its first 20,000 characters."""
    overwrite_labels: bool = False
    """Replace languages that are there already; `und` replaces none."""

    def __post_init__(self) -> None:
        check_selector(self.on, "classify.language on")

    @cached_property
    def _libraries(self) -> dict[str, str]:
        for module in ("pycld2", "py3langid"):
            require(module, "classify")
        return {name: library_version(name) for name in ("pycld2", "py3langid")}

    def settings(self) -> dict[str, Any]:
        return {"on": self.on, "overwrite_labels": self.overwrite_labels, "libraries": self._libraries}

    def reads(self, schema: pa.Schema) -> Sequence[str]:
        return [*selector_columns(self.on), *label_reads(schema, FIELD)]

    def writes(self, schema: pa.Schema) -> Mapping[str, pa.DataType]:
        return {f"metadata.{FIELD}": pa.string(), f"scores.{FIELD}_confidence": score_type(pa.float64())}

    def prepare(self, schema: pa.Schema) -> None:
        self._libraries  # noqa: B018  (a missing library stops here, before any work)
        check_text_field(schema, FIELD, self.name)

    def open(self) -> RowFunction:
        identify = identifier()
        by = f"language@{self.version}:{'+'.join(f'{name}-{at}' for name, at in self._libraries.items())}"

        def tag(batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
            rows = rows_to_label(batch, FIELD, self.overwrite_labels)
            found = identify(select_text(batch if rows is None else batch.take(rows), self.on))
            return labelled(batch, FIELD, rows, found, by, {UNDETERMINED})

        return tag

    def __getstate__(self) -> dict[str, Any]:
        return {"on": self.on, "overwrite_labels": self.overwrite_labels}


@cache
def identifier() -> "Identifier":
    """Loaded once a process: the second model takes most of a second."""
    return Identifier()


class Identifier:
    """Both libraries, loaded: texts to languages."""

    def __init__(self) -> None:
        self._cld2 = require("pycld2", "classify")
        langid = require("py3langid.langid", "classify")
        self._langid = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)

    def __call__(self, texts: pa.StringArray) -> pa.StructArray:
        """Language, confidence (null where undetermined) and status of every text."""
        words = letters(texts)
        return self._identify_rows(words.to_pylist(), letter_weight(words).to_pylist())

    def _identify_rows(self, texts: list[str], weights: list[int]) -> pa.StructArray:
        """The one loop over rows: both libraries take a text at a time."""
        labels: list[str] = []
        confidences: list[float | None] = []
        statuses: list[str] = []
        for text, weight in zip(texts, weights, strict=True):
            status = "ok"
            if weight < MIN_LETTERS:
                label, confidence, status = UNDETERMINED, None, "too_short"
            else:
                label, confidence = self._identify(text, weight)
                if confidence is None:
                    status = "doubtful"
            labels.append(label)
            confidences.append(confidence)
            statuses.append(status)
        return pa.StructArray.from_arrays(
            [pa.array(labels, pa.string()), pa.array(confidences, pa.float64()), pa.array(statuses, pa.string())],
            ["label", "confidence", "status"],
        )

    def _identify(self, text: str, weight: int) -> tuple[str, float | None]:
        first, share = self._first(text)
        if first is not None and weight >= SURE_LETTERS:
            return first, share
        code, probability = self._langid.classify(text)
        second = _CODES.get(code, code)
        if second not in _NO_LANGUAGE and (probability >= MIN_PROBABILITY or second == first):
            return second, float(probability)
        return UNDETERMINED, None

    def _first(self, text: str) -> tuple[str | None, float]:
        """CLD2's language and the share of the text in it; None when it does not call its answer reliable."""
        try:
            is_reliable, _, details = self._cld2.detect(text)
        except self._cld2.error:  # a character that it does not take
            return None, 0.0
        _, code, percent, _ = details[0]
        code = code.partition("-")[0]
        if not is_reliable or code in _NO_LANGUAGE:
            return None, 0.0
        return _CODES.get(code, code), percent / 100
