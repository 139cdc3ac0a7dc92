"""Loads an exported model with transformers and answers one question, sampled with a fixed seed.

python recipes/generate.py work/quickstart/train/model "How do I boil an egg?"
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging


def main() -> None:
    folder, question = sys.argv[1:3]
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
