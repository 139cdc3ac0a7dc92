"""Every set of real rows goes to its family: how many records, of which kind, with which check, and what is refused."""

import collections
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from curator.io.build import Builder, SourceSettings
from curator.io.raw import RawReader, RawRow

# files, adapter, records by kind, verifier of all of them, bad rows
TABLE: tuple[tuple[str, str, dict[str, int], str | None, int], ...] = (
    ("alpaca_eval/annotations__*.json", "ranked", {"preference": 789, "sft": 32}, None, 0),
    ("alpaca_eval/model_outputs__*.json", "generators", {"sft": 4830}, None, 0),
    ("alpagasus/*_test_set.jsonl", "prompts", {"prompt": 398}, None, 0),
    ("axolotl_fixtures/*.tokenized*.json", "", {}, None, 2),
    ("bbh/*.json", "examples", {"sft": 6511}, "exact", 0),
    ("belle/eval_set.json", "questions", {"sft": 1000}, None, 0),
    ("belle/zh_seed_tasks.json", "seeds", {"sft": 175}, None, 0),
    ("dataflow_examples/chat_data.jsonl", "glaive", {"sft": 5}, None, 0),
    ("dataflow_examples/pipeline_math.json", "maths", {"sft": 295, "prompt": 1}, "math", 0),
    ("datajuicer_demo/*preference.jsonl", "ranked", {"sft": 20}, None, 0),
    ("datajuicer_demo/redpajama*.jsonl", "texts", {"text": 30}, None, 0),
    ("dialogstudio/*__converted_examples.json", "dialogues", {"sft": 25}, None, 0),
    ("gorilla_apibench/*.json", "apis", {"sft": 1021}, None, 2),
    ("gsm8k/*.jsonl", "maths", {"sft": 8792}, "math", 0),
    ("hendrycks_math_test/*.gz", "maths", {"sft": 5000}, "math", 0),
    ("humaneval/HumanEval.jsonl.gz", "code_tests", {"sft": 164}, "tests", 0),
    ("humaneval/example_samples.jsonl", "answers", {"text": 6}, None, 0),
    ("ifeval/*_input_data.jsonl", "constraints", {"prompt": 1063}, "format", 0),
    ("ifeval/*_eval_results_strict.jsonl", "constraints", {"sft": 541}, "format", 0),
    ("lilac_concepts/*.json", "labelled", {"text": 3195}, None, 0),
    ("llamafactory_demo/kto_en_demo.json", "kto", {"feedback": 300}, None, 0),
    ("mbpp/mbpp.jsonl", "code_tests", {"sft": 974}, "tests", 0),
    ("moss_003_sft/*/*.json", "moss", {"sft": 420}, None, 0),
    ("mt_bench/*question.jsonl", "turns", {"prompt": 160}, None, 0),
    ("mt_bench/*reference_gpt-4.jsonl", "answers", {"text": 40}, None, 0),
    ("nemotron_cc_sample/data.parquet", "texts", {"text": 20}, None, 0),
    ("open_assistant/*_text.jsonl", "texts", {"text": 350}, None, 0),
    ("parquet_fixtures/*.parquet", "reasoned", {"sft": 5}, None, 0),
    ("purplellama_frr/mitre_frr.json", "prompts", {"prompt": 750}, None, 0),
    ("qwen_math_eval/aqua__test.jsonl", "choices", {"sft": 254}, "exact", 0),
    ("qwen_math_eval/math_cot_100.jsonl", "samples", {"sft": 800}, "math", 0),
    ("qwen_math_eval/olympiadbench__test.jsonl.gz", "maths", {"sft": 846}, "math", 0),
    ("qwen_math_eval/svamp__test.jsonl", "maths", {"sft": 1000}, "math", 0),
    ("rulm_ru/*_chargen_seed.jsonl", "dialogues", {"sft": 30}, None, 0),
    ("safety_tuned_llamas/[IQ]-*.json", "prompts", {"prompt": 490}, None, 0),
    ("self_instruct/seed_tasks.jsonl", "seeds", {"sft": 175}, None, 0),
    ("skythought_traces/*", "samples", {"sft": 540}, "math", 0),
    ("toolbench_example/*_answer__*.json", "toolbench", {"sft": 17, "prompt": 2}, None, 0),
    ("tora_outputs/tora-70b*.gz", "samples", {"sft": 1319}, "math", 0),
    ("torchtune_assets/stack_exchange*.json", "ranked", {"preference": 25}, None, 0),
    ("truthfulqa/TruthfulQA.csv", "questions", {"sft": 817}, None, 0),
    ("truthfulqa/mc_task.json", "prompts", {"prompt": 817}, None, 0),
    ("vicuna_eval_table/answer_*.jsonl", "answers", {"text": 560}, None, 0),
    ("vicuna_eval_table/review_*.jsonl", "answers", {"text": 320}, None, 0),
    ("xstest/xstest_prompts.csv", "prompts", {"prompt": 450}, None, 0),
    ("xstest/*completions*.csv", "questions", {"sft": 900}, None, 0),
)


def rows_in(path: Path) -> Iterator[RawRow]:
    """The rows of a file; a file that is one object is one row."""
    if path.suffix == ".json":
        try:
            if isinstance(json.loads(path.read_text("utf-8-sig")), dict):
                yield RawRow(0, 0, path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
                return
        except ValueError:  # lines of JSON under this name
            pass
    with RawReader(str(path)) as reader:
        yield from reader.rows()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("pattern", "adapter", "kinds", "check", "num_bad"), TABLE, ids=[line[0] for line in TABLE])
def test_real_rows_go_to_their_family(
    real_data: Path, pattern: str, adapter: str, kinds: dict[str, int], check: str | None, num_bad: int
) -> None:
    files = [path for path in sorted(real_data.glob(pattern)) if not path.name.startswith("LICENSE")]
    assert files, pattern
    found: collections.Counter[str] = collections.Counter()
    adapters, checks, bad = set(), collections.Counter[str | None](), 0
    for path in files:
        for built in Builder(SourceSettings("s"), path.name).build(rows_in(path)):
            found.update(built.records.column("kind").to_pylist())
            adapters |= set(built.adapters)
            checks.update(item and item["kind"] for item in built.records.column("verifier").to_pylist())
            bad += built.bad.num_rows
    assert (dict(found), bad) == (kinds, num_bad)
    assert adapters == ({adapter} if kinds else set())
    unchecked = checks.pop(None, 0)
    assert set(checks) == ({check} if check else set())
    # A solution without a box has no final answer to check.
    assert check is None or unchecked <= 0.01 * sum(found.values())
