"""Loads an exported model with transformers and answers one question, sampled with a fixed seed.

python recipes/generate.py work/quickstart/train/model "How do I boil an egg?"
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging


def require_learning(metrics: Path) -> None:
    """Stop unless the loss of the last step is below that of the first."""
    losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines()]
    if not losses[-1] < losses[0]:
        sys.exit(f"the loss did not fall: {losses[0]:.4f} at first, {losses[-1]:.4f} at last")
    print(f"loss {losses[0]:.4f} at step 1, {losses[-1]:.4f} at step {len(losses)}")


def main() -> None:
    folder, question = sys.argv[1:3]
    require_learning(Path(folder).parent / "metrics.jsonl")
    logging.disable_progress_bar()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    chat = [{"role": "user", "content": question}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        output = model.generate(
            **inputs, max_new_tokens=24, do_sample=True, top_k=50, pad_token_id=tokenizer.pad_token_id
        )
    answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    print(f"{model.config.model_type}, {model.num_parameters():,} parameters, loaded from {folder}")
    print(f"> {question}\n{answer!r}\n(after 50 steps from random weights: letters and words, no sense yet)")


if __name__ == "__main__":
    main()
