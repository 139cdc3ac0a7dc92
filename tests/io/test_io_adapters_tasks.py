"""Rows told by a table: maths, multiple choice, code with tests, constraints, rewards, other pairs, traces, samples."""

import json
from typing import Any

import pytest
from adapter_samples import bad_reason, built, extra_of, parsed, payload_of, record_of, records_of, turns_of

from curator.io.adapters import ADAPTERS
from curator.io.adapters.base import Unrestorable
from curator.io.adapters.maths import behind_hashes, boxed
from curator.io.adapters.shape import restore_group

PAIR = [("user", "i"), ("assistant", "o")]
SINGLE: list[tuple[str, dict[str, Any], list[tuple[str, str]], tuple[str, Any] | None]] = [
    # maths
    (
        "maths",
        {"problem": "1+1?", "level": "Level 1", "type": "Algebra", "solution": "so $\\boxed{2}$.", "idx": 4},
        [("user", "1+1?"), ("assistant", "so $\\boxed{2}$.")],
        ("math", {"answer": "2"}),
    ),
    (
        "maths",
        {"question": "1+1?", "answer": "<<1+1=2>>two\n#### 2"},
        [("user", "1+1?"), ("assistant", "<<1+1=2>>two\n#### 2")],
        ("math", {"answer": "2"}),
    ),
    (
        "maths",
        {"id": 3, "problem": "1+1?", "solution": "Add.", "answer": "2", "url": "u", "question": "other"},
        [("user", "1+1?"), ("assistant", "Add.")],
        ("math", {"answer": "2"}),
    ),
    (
        "maths",
        {"question": "q", "solution": "s", "answer": 27.0},
        [("user", "q"), ("assistant", "s")],
        ("math", {"answer": 27.0}),
    ),
    ("maths", {"problem": "q", "answer": 27.0}, [("user", "q"), ("assistant", "27.0")], ("math", {"answer": 27.0})),
    ("maths", {"question": "q", "answer": 12}, [("user", "q"), ("assistant", "12")], ("math", {"answer": 12})),
    (
        "maths",
        {"Answer": 19.0, "Question": "How many?", "Body": "There are\n\n19.", "Type": "Sum", "ID": "chal-1"},
        [("user", "There are\n\n19.\n\nHow many?"), ("assistant", "19.0")],
        ("math", {"answer": 19.0}),
    ),
    ("maths", {"problem": "q", "solution": "no box"}, [("user", "q"), ("assistant", "no box")], None),
    (
        "maths",
        {"instruction": "i", "output": None, "golden_answer": "8", "source": "x"},
        [("user", "i")],
        ("math", {"answer": "8"}),
    ),
    (
        "maths",
        {"problem": "p", "generated_solution": "<think>a</think>b", "expected_answer": "2"},
        [("user", "p"), ("assistant", "b")],
        ("math", {"answer": "2"}),
    ),
    # choices
    (
        "choices",
        {"question": "q", "options": ["A)1", "B)2"], "rationale": "because", "correct": "B"},
        [("user", "q\nA)1\nB)2"), ("assistant", "because")],
        ("exact", {"answer": "B"}),
    ),
    (
        "choices",
        {"id": "0", "question": "q", "options": "A) 1 B) 2", "Answer": "A"},
        [("user", "q\nA) 1 B) 2"), ("assistant", "A")],
        ("exact", {"answer": "A"}),
    ),
    (
        "choices",
        {"question": "q", "subject": "history", "choices": ["one", "two", "three"], "answer": 1},
        [("user", "q\nA. one\nB. two\nC. three"), ("assistant", "B")],
        ("exact", {"answer": "B"}),
    ),
    (
        "choices",
        {"id": "x", "question": "q", "choices": {"text": ["one", "two"], "label": ["1", "2"]}, "answerKey": "2"},
        [("user", "q\n1. one\n2. two"), ("assistant", "2")],
        ("exact", {"answer": "2"}),
    ),
    (
        "choices",
        {"question": "q", "A": "one", "B": 2, "C": "three", "D": "four", "answer": "C"},
        [("user", "q\nA. one\nB. 2\nC. three\nD. four"), ("assistant", "C")],
        ("exact", {"answer": "C"}),
    ),
    # code with tests
    (
        "code_tests",
        {"task_id": "T/0", "prompt": "def f():", "entry_point": "f", "canonical_solution": " return 1", "test": "t"},
        [("user", "def f():"), ("assistant", " return 1")],
        ("tests", {"test": "t", "entry_point": "f"}),
    ),
    (
        "code_tests",
        {"text": "w", "code": "c\r\n", "task_id": 1, "test_setup_code": "", "test_list": ["assert 1"]},
        [("user", "w"), ("assistant", "c\r\n")],
        ("tests", {"test_list": ["assert 1"], "test_setup_code": ""}),
    ),
    (
        "code_tests",
        {"question": "w", "solutions": '["a", "b"]', "input_output": '{"inputs": []}', "difficulty": "easy"},
        [("user", "w")],
        ("tests", {"input_output": '{"inputs": []}'}),
    ),
    # constraints
    (
        "constraints",
        {"key": 1005, "prompt": "p", "instruction_id_list": ["a:b"], "kwargs": [{"n": 12}]},
        [("user", "p")],
        ("format", {"instruction_id_list": ["a:b"], "kwargs": [{"n": 12}]}),
    ),
    (
        "constraints",
        {"follow_all_instructions": False, "instruction_id_list": ["a"], "prompt": "p", "response": " r"},
        [("user", "p"), ("assistant", " r")],
        ("format", {"instruction_id_list": ["a"]}),
    ),
    # pairs of other names
    (
        "questions",
        {"instruction": "i", "context": "c", "response": "r", "category": "closed_qa"},
        [("user", "i\n\nc"), ("assistant", "r")],
        None,
    ),
    (
        "questions",
        {"instruction": "i", "context": "", "response": "r", "category": "brainstorming"},
        [("user", "i"), ("assistant", "r")],
        None,
    ),
    ("questions", {"db_id": "d", "question": "q", "SQL": "SELECT 1"}, [("user", "q"), ("assistant", "SELECT 1")], None),
    ("questions", {"question": "q", "std_answer": "", "class": "x"}, [("user", "q"), ("assistant", "")], None),
    ("questions", {"inputs": "a", "targets": "b", "task": "t"}, [("user", "a"), ("assistant", "b")], None),
    (
        "questions",
        {"Type": "T", "Category": "C", "Question": "q", "Best Answer": "b", "Correct Answers": "b; c"},
        [("user", "q"), ("assistant", "b")],
        None,
    ),
    (
        "questions",
        {"id": "v2-1", "type": "homonyms", "prompt": "p", "completion": "c", "final_label": "1_full_compliance"},
        [("user", "p"), ("assistant", "c")],
        None,
    ),
    ("generators", {"dataset": "d", "instruction": "i", "output": "o", "generator": "m"}, PAIR, None),
    # traces in a field of their own
    ("reasoned", {"question": "i", "reasoning": "r", "answer": "o", "model": "m"}, PAIR, None),
    ("reasoned", {"Question": "q", "Complex_CoT": "r", "Response": "a"}, [("user", "q"), ("assistant", "a")], None),
    (
        "reasoned",
        {"solution": "s", "question": "q", "metadata": "m", "gemini_thinking_trajectory": "r", "gemini_attempt": "a"},
        [("user", "q"), ("assistant", "a")],
        None,
    ),
    # prompts
    ("prompts", {"id": "koala_0", "prompt": "p"}, [("user", "p")], None),
    ("prompts", {"idx": 1, "Skill": "Math", "Difficulty": 1, "Instruction": "i"}, [("user", "i")], None),
    ("prompts", {"mutated_prompt": "p", "is_malicious": False, "model": "m"}, [("user", "p")], None),
    ("prompts", {"instruction": "i", "input": "x"}, [("user", "i\n\nx")], None),
    ("prompts", {"query": "q", "query_id": 1, "api_list": [{"tool_name": "t", "n": 1.0}]}, [("user", "q")], None),
    ("prompts", {"id": "1", "prompt": "p", "type": "t", "label": "safe", "note": ""}, [("user", "p")], None),
    # raw text
    ("texts", {"text": "t", "meta": {"simhash": 8.28718589e18}}, [("assistant", "t")], None),
    ("texts", {"text": "", "label": 0}, [("assistant", "")], None),
    ("texts", {"content": "c", "path": "a.py"}, [("assistant", "c")], None),
]  # fmt: skip


@pytest.mark.parametrize(("adapter", "row", "turns", "check"), SINGLE)
def test_a_row_by_its_table(adapter: str, row: Any, turns: Any, check: Any) -> None:
    record = record_of(row, adapter)
    assert turns_of(record) == turns
    kind = "text" if adapter == "texts" else "sft" if len(turns) == 2 else "prompt"
    assert record["kind"] == kind and record["group"] is None
    assert (None if record["verifier"] is None else payload_of(record)) == check


@pytest.mark.parametrize(("adapter", "row"), [(adapter, row) for adapter, row, _, _ in SINGLE])
def test_a_row_comes_back_with_its_key_order_and_digits(adapter: str, row: dict[str, Any]) -> None:
    # Digits that another writer would lose, in a field that no table names.
    text = json.dumps(row)[:-1] + ', "notes": {"b": [1.50, 1e400, 12345678901234567890], "a": null}}'
    restore = ADAPTERS[adapter].restore
    assert restore is not None
    back = parsed(restore(record_of(text, adapter)))
    assert back == parsed(text) and list(back) == list(parsed(text))


def test_tags_keep_the_digits_of_ids_and_levels() -> None:
    record = record_of({"problem": "p", "level": 5, "type": "Algebra", "solution": "s", "idx": 12345678901234567890})
    assert record["metadata"]["difficulty"] == "5" and record["metadata"]["domain"] == "Algebra"
    assert record["metadata"]["original_id"] == "12345678901234567890"
    assert record["extra"] is None
    record = record_of({"problem": "p", "level": ["a"], "solution": "s"})
    assert record["metadata"]["difficulty"] is None and extra_of(record) == {"level": ["a"]}


def test_two_fields_for_one_tag_are_both_kept() -> None:
    row = {"id": 5, "idx": 4, "problem": "p", "level": "hard", "solution": "s", "metadata": {"difficulty": "easy"}}
    record = record_of(row, "maths")
    assert record["metadata"]["original_id"] == "4" and record["metadata"]["difficulty"] == "hard"
    assert extra_of(record) == {"id": 5, "metadata": {"difficulty": "easy"}}
    restore = ADAPTERS["maths"].restore
    assert restore is not None and parsed(restore(record)) == parsed(json.dumps(row))


def test_one_form_for_all_rows_of_a_shape() -> None:
    forms = {
        record_of({"problem": "p" * length, "level": "x", "solution": f"\\boxed{{{length}}}"})["provenance"]["form"]
        for length in (1, 20, 300)
    }
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{2}", "2"),
        ("first \\boxed{1}, then \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{}", ""),
        ("\\boxed{never ends", None),
        ("\\boxed 2", None),
        ("", None),
    ],
)
def test_the_last_box_with_its_braces(text: str, answer: str | None) -> None:
    assert boxed(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a\n#### 42", "42"),
        ("#### 42", "42"),
        ("a\n#### 1,000 \n", "1,000"),
        ("a\n####3", "3"),
        ("a\n#### 1\nmore", None),
        ("a #### 42", None),
        ("a\n#### ", None),
        ("a\n##### 5", None),
    ],
)
def test_the_answer_behind_hashes(text: str, answer: str | None) -> None:
    assert behind_hashes(text) == answer


def test_a_question_and_answer_without_a_final_answer_is_a_plain_pair() -> None:
    assert record_of({"question": "q", "answer": "a"}, "pairs")["verifier"] is None


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"question": "q", "choices": ["a", "b"], "answer": 2}, "wrong value: answer is 2, expected the number of one"),
        ({"question": "q", "choices": ["a"], "answer": 0.0}, "wrong value: answer is 0.0, expected the number of one"),
        ({"question": "q", "options": 3, "Answer": "A"}, "wrong type: options is number, expected a list of texts"),
        ({"problem": None, "solution": "s"}, "no prompt: problem is empty"),
        ({"problem": ["a"], "solution": "s"}, "wrong type: problem is list, expected text"),
        ({"problem": "p", "solution": {"a": 1}}, "no adapter: fields are problem, solution"),
        ({"problem": 5, "solution": "s"}, "wrong type: problem is number, expected text"),
        ({"question": "q", "gt": "1", "code": ["a", None]}, "wrong type: code holds null, expected texts"),
        ({"prompt": "p", "reward_model": {"style": "rule"}}, "no field: reward_model.ground_truth"),
        ({"instructions": "one"}, "wrong type: instructions is text, expected a list of texts"),
        ({"instructions": ["a", 1]}, "wrong type: instructions is number, expected text"),
        ({"input_ids": [1, 2], "labels": [1, 2]}, "pre-tokenised: input_ids hold no text"),
    ],
)
def test_rows_of_the_wrong_shape_say_so(row: Any, reason: str) -> None:
    assert bad_reason(row).startswith(reason)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "p", "my_answer": "a"},
        {"question": "q", "reply": "a"},
        {"instruction": "i", "reference": "a"},
        {"prompt": "p", "question": "q"},
        {"data": {"a": {"label": True, "text": "t"}}},
        {"examples": [{"input": "a", "target": "b"}], "answers": []},
    ],
)
def test_a_field_that_may_hold_the_answer_is_not_passed_over(row: Any) -> None:
    assert bad_reason(row).startswith("no adapter: ")


def test_a_trace_in_its_own_field_becomes_the_reasoning() -> None:
    record = record_of({"question": "q", "reasoning": "First.", "answer": "2"})
    answer = record["messages"][-1]
    assert (answer["reasoning"], answer["wrap"], answer["content"]) == ("First.", None, "2")


def test_two_writers_of_one_question_are_a_group() -> None:
    row = {"question": "q", "solution": "s"} | {
        f"{name}_{end}": f"{name} {end}"
        for name in ("gemini", "deepseek")
        for end in ("thinking_trajectory", "attempt")
    }
    first, second = records_of(row, "reasoned")
    assert [record["id"] for record in (first, second)] == ["s/f#7.0", "s/f#7.1"]
    assert first["group"] == second["group"] == "s/f#7"
    assert first["messages"][1]["reasoning"] == "deepseek thinking_trajectory"
    assert extra_of(second) == {"solution": "s"}


# --- several answers to one question --------------------------------------------------------------------------------

SAMPLES = {
    "idx": 0,
    "question": "1+1?",
    "gt": "2",
    "code": ["two", "<think>h</think>three"],
    "pred": ["2", "3"],
    "report": [None, None],
    "score": [True, False],
    "tags": ["a", "b"],
}


def test_sampled_answers_are_records_of_one_group() -> None:
    first, second = records_of(SAMPLES, "samples")
    assert [first["id"], second["id"]] == ["s/f#7.0", "s/f#7.1"] and first["group"] == second["group"] == "s/f#7"
    assert turns_of(second) == [("user", "1+1?"), ("assistant", "three")]
    assert payload_of(first) == payload_of(second) == ("math", {"answer": "2"})
    # Lists that go with the answers are dealt out; others stay whole in each.
    assert extra_of(second) == {"tags": ["a", "b"], "pred": "3", "report": None, "score": False}
    assert parsed(restore_group([first, second])) == parsed(json.dumps(SAMPLES))


def test_a_list_of_another_length_stays_whole() -> None:
    first, _ = records_of({**SAMPLES, "pred": ["2"]}, "samples")
    assert extra_of(first)["pred"] == ["2"]


def test_one_of_several_records_does_not_restore_the_row() -> None:
    first, _ = records_of(SAMPLES, "samples")
    restore = ADAPTERS["samples"].restore
    assert restore is not None
    with pytest.raises(Unrestorable, match="one of several"):
        restore(first)


def test_no_answers_yet_is_a_prompt() -> None:
    record = record_of({**SAMPLES, "code": []}, "samples")
    assert record["kind"] == "prompt" and payload_of(record) == ("math", {"answer": "2"})
    restore = ADAPTERS["samples"].restore
    assert restore is not None and parsed(restore(record))["code"] == []


def test_a_list_of_solutions_is_a_group_too() -> None:
    row = {"context": None, "question": "q", "solution": ["s", "t"], "final_answer": ["1"], "subfield": "Algebra"}
    first, second = records_of(row, "maths")
    assert turns_of(first) == [("user", "q"), ("assistant", "s")]
    assert turns_of(second)[1] == ("assistant", "t")
    assert payload_of(second) == ("math", {"answer": ["1"]})
    assert parsed(restore_group([first, second])) == row


# --- seeds, benchmarks and labels in one object ---------------------------------------------------------------------


def test_seed_instances_are_records() -> None:
    row = {
        "id": "seed_task_0",
        "name": "sum",
        "instruction": "Add.",
        "instances": [{"input": "1, 2", "output": "3"}, {"input": "", "output": "0", "note": 1.0}],
        "is_classification": False,
    }
    first, second = records_of(row, "seeds")
    assert turns_of(first) == [("user", "Add.\n\n1, 2"), ("assistant", "3")]
    assert turns_of(second) == [("user", "Add."), ("assistant", "0")]
    assert first["group"] == second["group"] == "s/f#7"
    assert second["metadata"]["original_id"] == "seed_task_0"
    assert extra_of(second)["instances"] == {"input": "", "note": 1.0}
    assert bad_reason({"instruction": "i", "instances": []}) == "no records: instances is empty"


def test_examples_of_a_benchmark_are_records_with_a_check() -> None:
    row = {"canary": "GUID 26b5", "examples": [{"input": "a", "target": "b"}, {"input": "c", "target": "d", "n": 1.0}]}
    first, second = records_of(row, "examples")
    assert turns_of(first) == [("user", "a"), ("assistant", "b")] and payload_of(second) == ("exact", {"answer": "d"})
    assert first["group"] is None
    assert extra_of(second) == {"canary": "GUID 26b5", "examples": {"n": 1.0}}
    assert bad_reason({"examples": []}) == "no records: examples is empty"
    assert bad_reason({"examples": [{"a": 1}]}) == "no example: item 0 of examples has a"


def test_labelled_texts_keep_their_label() -> None:
    data = {"k1": {"label": True, "text": "t", "id": "k1"}, "k2": {"label": False, "text": ""}}
    row = {"namespace": "n", "concept_name": "c", "data": data}
    first, second = records_of(row, "labelled")
    assert first["kind"] == "text" and turns_of(first) == [("assistant", "t")]
    assert first["metadata"]["original_id"] == "k1" and extra_of(second)["data"] == {"label": False}


def test_lists_of_prompts_are_records() -> None:
    first, second = records_of({"instructions": ["a", "b"], "inputs": []}, "prompts")
    assert first["kind"] == "prompt" and turns_of(second) == [("user", "b")] and extra_of(first) == {"inputs": []}
    row = {"instructions": ["a", "b"], "inputs": ["x", ""], "tags": ["crime", None]}
    first, second = records_of(row, "prompts")
    assert turns_of(first) == [("user", "a\n\nx")] and extra_of(first) == {"tags": "crime"}
    assert turns_of(second) == [("user", "b")] and extra_of(second) == {"inputs": "", "tags": None}


# --- rewards --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ability", "kind", "key"), [("math", "math", "answer"), ("code", "tests", "tests"), ("logic", "exact", "answer")]
)
def test_reward_models_are_checks(ability: str, kind: str, key: str) -> None:
    row = {
        "data_source": "d",
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
        "ability": ability,
        "reward_model": {"style": "rule", "ground_truth": "3.50"},
        "extra_info": {"index": 1},
    }
    record = record_of(row, "rewards")
    assert record["kind"] == "prompt" and turns_of(record) == [("system", "s"), ("user", "q")]
    assert payload_of(record) == (kind, {key: "3.50"})
    assert extra_of(record)["reward_model"] == {"style": "rule"}


def test_ground_truth_beside_messages_is_a_check() -> None:
    row = {"messages": [{"role": "user", "content": "q"}], "ground_truth": "5", "dataset": "gsm8k"}
    record = record_of(row, "rewards")
    assert record["kind"] == "prompt" and payload_of(record) == ("math", {"answer": "5"})
    record = record_of({**row, "ground_truth": None}, "rewards")
    assert record["verifier"] is None and extra_of(record)["ground_truth"] is None


# --- raw text -------------------------------------------------------------------------------------------------------


def test_a_row_that_is_a_text_is_a_text() -> None:
    record = record_of('"plain \\u00e9 text"', "texts")
    assert record["kind"] == "text" and turns_of(record) == [("assistant", "plain é text")] and record["extra"] is None
    restore = ADAPTERS["texts"].restore
    assert restore is not None and json.loads(restore(record)) == "plain é text"


def test_a_transcript_is_not_raw_text() -> None:
    (record,), _ = built({"text": "\n\nHuman: a\n\nAssistant: b"})
    assert record["provenance"]["adapter"] == "transcripts" and record["kind"] == "sft"
