# The classifiers that ship, from public sets, by the commands that anybody has:
#   make -f recipes/classifiers.mk CURATOR_REAL_DATA=FOLDER   (from the root of the clone; CURATOR, PYTHON and OUT may be set)
# Trained on permissively licensed sets alone; the sets that only measure may have any licence.
ifndef CURATOR_REAL_DATA
$(error CURATOR_REAL_DATA must name the folder of public sets)
endif
OUT ?= work/classifiers
CURATOR ?= .venv/bin/curator
PYTHON ?= .venv/bin/python
MODELS ?= curator/data

.PHONY: all raw domain difficulty
all: domain difficulty

raw:
	$(PYTHON) recipes/classifiers/data.py $(CURATOR_REAL_DATA) $(OUT)/raw

domain difficulty: raw
	$(CURATOR) ingest "$(OUT)/raw/$@/*.jsonl" --source sets --field subject:string --out $(OUT)/$@ --overwrite
	$(CURATOR) classify train $(OUT)/$@ --label metadata.$@ --group-by metadata.subject $(SETTINGS) \
	  --out $(MODELS)/$@ --overwrite
	$(CURATOR) ingest "$(OUT)/raw/unseen-$@/*.jsonl" --source sets --field subject:string --field truth:string \
	  --out $(OUT)/unseen-$@ --overwrite
	$(CURATOR) classify apply $(OUT)/unseen-$@ --model $(MODELS)/$@ --out $(OUT)/judged-$@ --overwrite
	$(PYTHON) recipes/classifiers/evaluate.py $(MODELS)/$@ $(OUT)/judged-$@

domain: SETTINGS = --folds 10 --min-confidence 0.6
difficulty: SETTINGS = --folds 7 --min-confidence 0.7
