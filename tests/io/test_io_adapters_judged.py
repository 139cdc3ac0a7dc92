"""Labels, rankings and verdicts of people and judges, and preferences of whole conversations."""

import json
from typing import Any

import pytest
from adapter_samples import bad_reason, extra_of, parsed, record_of, records_of, turns_of

from curator.io.adapters import ADAPTERS

ASK = [{"role": "user", "content": "q"}]
REPLY = [{"role": "assistant", "content": "a"}]


@pytest.mark.parametrize(
    "row",
    [
        {"messages": ASK + REPLY, "label": True},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "kto_tag": True},
        {"prompt": "q", "completion": "a", "label": True},
        {"prompt": ASK, "completion": REPLY, "label": True},
        {"instruction": "q", "output": "a", "kto_tag": True},
    ],
)
@pytest.mark.parametrize("label", [True, False])
def test_labels_make_feedback_and_survive(row: dict[str, Any], label: bool) -> None:
    name = "label" if "label" in row else "kto_tag"
    record = record_of({**row, name: label}, "kto")
    assert record["kind"] == "feedback"
    assert turns_of(record) == [("user", "q"), ("assistant", "a")]
    assert extra_of(record) == {name: label}


@pytest.mark.parametrize(("given", "asked"), [("x", "q\n\nx"), ("", "q"), (None, "q")])
def test_feedback_of_an_alpaca_row_has_its_input(given: Any, asked: str) -> None:
    record = record_of({"instruction": "q", "input": given, "output": "a", "kto_tag": False}, "kto")
    assert turns_of(record) == [("user", asked), ("assistant", "a")]
    assert ("input" in extra_of(record)) == (not given)


def test_feedback_keeps_system_and_tools() -> None:
    row = {"system": "s", "tools": [{"a": 1.0}], "prompt": "q", "completion": "<think>t</think>a", "label": True}
    record = record_of(json.dumps(row), "kto")
    assert turns_of(record) == [("system", "s"), ("user", "q"), ("assistant", "a")]
    assert record["tools"] == '[{"a": 1.0}]' and record["messages"][2]["reasoning"] == "t"


@pytest.mark.parametrize(
    ("row", "adapter"),
    [
        ({"prompt": "q", "completion": "a", "label": "spam"}, "pairs"),
        ({"prompt": "q", "completion": "a", "label": 1}, "pairs"),
        ({"prompt": "q", "label": True}, "prompts"),
    ],
)
def test_other_labels_are_not_verdicts(row: Any, adapter: str) -> None:
    assert record_of(row, adapter)["kind"] != "feedback"


# --- two answers and a verdict --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sides", "verdict", "chosen"),
    [
        (("output_1", "output_2"), {"preference": 1}, 0),
        (("output_1", "output_2"), {"preference": 2.0}, 1),
        (("output_1", "output_2"), {"preference": 1.2}, 0),
        (("output_1", "output_2"), {"preference": 1.5}, None),
        (("output_1", "output_2"), {"preference": 0}, None),
        (("output_1", "output_2"), {"preference": None}, None),
        (("response_0", "response_1"), {"better_response_id": 1, "safer_response_id": 0}, 1),
        (("human_ref_A", "human_ref_B"), {"labels": 1}, 0),
        (("human_ref_A", "human_ref_B"), {"labels": 0}, 1),
        (("response_a", "response_b"), {"winner": "model_b"}, 1),
        (("response_A", "response_B"), {"preference": "A"}, 0),
        (("answer_1", "answer_2"), {"preferred": 2}, 1),
        (("response_a", "response_b"), {"winner": "tie"}, None),
        (("response1", "response2"), {"overall_preference": -2}, 0),
        (("response1", "response2"), {"overall_preference": 1}, 1),
        (("response1", "response2"), {"overall_preference": 0}, None),
        (("response_j", "response_k"), {}, 0),
        (("answer1", "answer2"), {}, None),
    ],
)
def test_a_verdict_chooses_and_a_tie_does_not(sides: tuple[str, str], verdict: Any, chosen: int | None) -> None:
    row = {"instruction": "q", sides[0]: "first", sides[1]: "second", **verdict, "note": [1.50]}
    texts = ["first", "second"]
    records = records_of(json.dumps(row), "ranked")
    assert all(extra_of(record) == {**verdict, "note": [1.5]} for record in records)
    if chosen is None:
        assert [record["kind"] for record in records] == ["sft", "sft"]
        assert {record["group"] for record in records} == {"s/f#7"}
        assert [turns_of(record) for record in records] == [[("user", "q"), ("assistant", text)] for text in texts]
        return
    (record,) = records
    assert record["kind"] == "preference"
    assert turns_of(record) == [("user", "q"), ("assistant", texts[chosen])]
    assert turns_of(record, "rejected") == [("assistant", texts[1 - chosen])]
    restore = ADAPTERS["ranked"].restore
    assert restore is not None
    assert parsed(restore(record)) == parsed(json.dumps(row)) and list(parsed(restore(record))) == list(row)


def test_the_generator_that_won_is_the_teacher() -> None:
    row = {"instruction": "q", "output_1": "a", "generator_1": "m1", "output_2": "b", "generator_2": "m2"}
    assert record_of({**row, "preference": 2}, "ranked")["metadata"]["teacher"] == "m2"
    assert [r["metadata"]["teacher"] for r in records_of({**row, "preference": 0}, "ranked")] == ["m1", "m2"]


def test_arena_battles_share_their_first_turns() -> None:
    row = {
        "question_id": "x",
        "model_a": "m1",
        "model_b": "m2",
        "winner": "model_b",
        "conversation_a": [*ASK, *REPLY],
        "conversation_b": [*ASK, {"role": "assistant", "content": "b"}],
    }
    record = record_of(row, "ranked")
    assert turns_of(record) == [("user", "q"), ("assistant", "b")]
    assert turns_of(record, "rejected") == [("assistant", "a")]
    assert record["metadata"]["teacher"] == "m2"


@pytest.mark.parametrize("verdict", [3, "both fine", True, [1], {}])
def test_a_verdict_that_is_not_known_is_a_bad_row(verdict: Any) -> None:
    row = {"instruction": "q", "output_1": "a", "output_2": "b", "preference": verdict}
    assert bad_reason(row) == f"unknown verdict: {verdict!r}"


# --- rankings -------------------------------------------------------------------------------------------------------


def test_a_ranking_gives_one_record_for_each_answer() -> None:
    row = {"prompt": "q", "responses": ["a", "b", "c"], "scores": [0.10, 2, 1e400], "models": ["x", "y", None]}
    text = json.dumps(row).replace("Infinity", "1e400").replace("0.1,", "0.10,")
    records = records_of(text, "ranked")
    assert [record["kind"] for record in records] == ["feedback"] * 3
    assert {record["group"] for record in records} == {"s/f#7"}
    assert [turns_of(record)[-1][1] for record in records] == ["a", "b", "c"]
    assert [record["metadata"]["teacher"] for record in records] == ["x", "y", None]
    assert '"scores":0.10' in records[0]["extra"] and '"scores":1e400' in records[2]["extra"]


def test_ranked_objects_keep_what_they_say_besides() -> None:
    row = {
        "source": "evol",
        "instruction": "q",
        "models": ["x", "y"],
        "completions": [
            {"model": "x", "response": "a", "overall_score": 7.50, "annotations": {"honesty": {"Rating": "3"}}},
            {"model": "y", "response": "b", "overall_score": 3, "annotations": {}},
        ],
    }
    first, second = records_of(row, "ranked")
    assert turns_of(first) == [("user", "q"), ("assistant", "a")] and first["kind"] == "feedback"
    assert second["metadata"]["teacher"] == "y"
    kept = {"model": "x", "overall_score": 7.5, "annotations": {"honesty": {"Rating": "3"}}}
    assert extra_of(first)["completions"] == kept and extra_of(first)["source"] == "evol"
    ranked = {"prompt": "q", "answers": [{"answer": "a", "model": "m", "rank": 1.0}, {"answer": "b", "rank": 2.0}]}
    assert [extra_of(record)["answers"]["rank"] for record in records_of(ranked, "ranked")] == [1.0, 2.0]


def test_a_list_without_scores_is_one_of_samples() -> None:
    assert [record["kind"] for record in records_of({"prompt": "q", "responses": ["a", "b"]}, "samples")] == ["sft"] * 2


def test_ranked_rows_of_the_wrong_shape_say_so() -> None:
    assert bad_reason({"prompt": "q", "responses": [{"score": 1}]}) == "no answer: item 0 of responses has score"
    assert bad_reason({"prompt": "q", "responses": [], "scores": []}) == "no records: responses is empty"


def test_two_whole_conversations_are_a_preference() -> None:
    row = {"chosen_messages": ASK + REPLY, "rejected_messages": [*ASK, {"role": "assistant", "content": "b"}]}
    record = record_of(row, "message_pairs")
    assert record["kind"] == "preference" and turns_of(record) == [("user", "q"), ("assistant", "a")]
    assert turns_of(record, "rejected") == [("assistant", "b")] and record["extra"] is None


# --- answers and questions in files of their own ---------------------------------------------------------------------


def test_answers_without_their_question_are_text() -> None:
    row = {
        "question_id": 101,
        "answer_id": "x",
        "model_id": "gpt-4",
        "choices": [{"index": 0, "turns": ["a", "b"]}],
        "tstamp": 1686286924.844282,
    }
    record = record_of(row, "answers")
    assert record["kind"] == "text" and turns_of(record) == [("assistant", "a"), ("assistant", "b")]
    assert record["metadata"]["original_id"] == "101" and record["metadata"]["teacher"] == "gpt-4"
    assert extra_of(record) == {"answer_id": "x", "tstamp": 1686286924.844282, "choices": {"index": 0}}
    assert record_of({"task_id": "T/0", "completion": "c"}, "answers")["kind"] == "text"
    review = {"review_id": "r", "question_id": 1, "text": "9 8.5", "score": [9.0, 8.5], "reviewer_id": "gpt-4"}
    record = record_of(review, "answers")
    assert record["kind"] == "text" and extra_of(record)["score"] == [9.0, 8.5]
    assert bad_reason({"question_id": 1, "model_id": "m", "choices": [{"a": 1}]}) == "no turns: choice 0 has none"


def test_questions_of_several_turns_are_prompts() -> None:
    row = {"question_id": 81, "category": "writing", "turns": ["a", "b"], "reference": ["x", "y"]}
    record = record_of(row, "turns")
    assert record["kind"] == "prompt" and turns_of(record) == [("user", "a"), ("user", "b")]
    assert record["metadata"]["original_id"] == "81"
    assert extra_of(record) == {"category": "writing", "reference": ["x", "y"]}
    assert bad_reason({"turns": []}) == "no turns: turns is empty"
    assert record_of({"question_id": 1, "text": "q", "category": "generic"}, "answers")["kind"] == "prompt"
