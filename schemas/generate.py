"""Writes the JSON Schemas of this folder from the declarations in curator; `--check` only compares.

python schemas/generate.py
"""

import json
import sys
from pathlib import Path

from curator.mixture.spec import MixSpec
from curator.pipeline.recipe import RecipeFile
from curator.schema.export import record_json_schema, settings_json_schema
from curator.train.config import TrainConfig

FOLDER = Path(__file__).parent


def main() -> int:
    schemas = {
        "record.schema.json": record_json_schema(),
        "recipe.schema.json": settings_json_schema(RecipeFile, "curator recipe"),
        "mix.schema.json": settings_json_schema(MixSpec, "curator mix"),
        "train.schema.json": settings_json_schema(TrainConfig, "curator train"),
    }
    stale = []
    for name, schema in schemas.items():
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    if stale and "--check" in sys.argv:
        sys.exit(f"stale: {', '.join(stale)}; run python schemas/generate.py")
    return 0


if __name__ == "__main__":
    main()
