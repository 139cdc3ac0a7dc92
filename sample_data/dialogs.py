"""Longer shapes of the sample data: conversations, tool use, long answers and worse answers for preference rows."""

# ruff: noqa: E501 - tables of prose

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from prose import COLOUR
from texts import DAYS, FAULTS, ITEMS, MONTHS, NAMES, SERVICES, TOWNS, Example, person, words

SYSTEMS = [
    "You are a patient tutor. Show the steps.",
    "Answer like a colleague at the help desk: short, friendly, exact.",
    "You write plain English and never use more words than needed.",
    "Du antwortest immer in der Sprache der Frage.",
    "You may call the tools that are listed. Do not guess values that a tool can give you.",
]


def user_text(example: Example) -> str:
    return f"{example.prompt}\n\n{example.context}" if example.context else example.prompt


def talk(rng: Random, examples: list[Example]) -> list[dict[str, Any]]:
    """One conversation over several examples, with small follow-up questions between them."""
    turns: list[dict[str, Any]] = []
    if rng.random() < 0.4:
        turns.append({"role": "system", "content": rng.choice(SYSTEMS[:4])})
    for number, example in enumerate(examples):
        lead = "" if number == 0 else rng.choice(["Thanks. Next: ", "One more thing. ", "And now this: ", "Good. ", ""])
        turns += [
            {"role": "user", "content": lead + user_text(example)},
            {"role": "assistant", "content": example.answer},
        ]
        if rng.random() < 0.35 and "```" not in example.answer:
            last = example.answer.strip().splitlines()[-1]
            ask, answer = rng.choice(
                [
                    ("Are you sure?", f"Yes, I went through it again: {last}"),
                    ("Just the last line, please.", last),
                    ("How long was that answer?", f"It had {len(example.answer.split())} words."),
                    ("Thank you!", rng.choice(["You are welcome.", "Glad it helped.", "Any time."])),
                ]
            )
            turns += [{"role": "user", "content": ask}, {"role": "assistant", "content": answer}]
    return turns


def postmortem(rng: Random) -> Example:
    log, cause, fix, command = rng.choice(FAULTS)
    service, other, number = rng.choice(SERVICES), rng.choice(SERVICES), rng.randint(11, 900)
    lead, helper, hour = person(rng), person(rng), rng.randint(0, 20)
    line = log.format(n=number, s=service)
    lessons = rng.sample(
        words(
            "The alert came later than the first complaint.|The runbook named a host that no longer exists.|"
            "Two people worked on the same idea without knowing it.|A dashboard with the right curve existed, but nobody knew it.|"
            "The rollback took longer than the fix.|Customers were told early, and they thanked us for it.|"
            "The staging cluster would have shown the fault if it had real load.|A freeze on deployments was lifted too soon."
        ),
        3,
    )
    tasks = rng.sample(
        words(
            "write an alert on the early sign|delete the old host from the runbook|repeat the exercise in staging|"
            "make the rollback one command|add an owner to the dashboard|review every limit of this kind|train the second line"
        ),
        3,
    )
    body = [
        f"# {service}: incident of {rng.randint(1, 28)} {rng.choice(MONTHS)}",
        f"**Summary.** {service} in {rng.choice(TOWNS)} failed for {rng.randint(12, 190)} minutes. {cause.format(n=number)} "
        f"About {rng.randint(2, 60)}% of all requests ended with an error; no data was lost.",
        f"**Timeline.**\n- {hour:02d}:{rng.randint(10, 30)} first error: `{line}`\n- {hour:02d}:{rng.randint(31, 58)} {lead} takes the page "
        f"and suspects {other}\n- {hour + 1:02d}:{rng.randint(10, 40)} {helper} runs `{command.format(s=service, n=number)}` and finds the cause\n"
        f"- {hour + 2:02d}:{rng.randint(10, 55)} {service} is healthy again, {other} was never affected",
        f"**Cause.** {cause.format(n=number)} The change had been deployed on {rng.choice(DAYS)} and looked harmless, because "
        f"{rng.choice(['the test ran with a tenth of the load', 'the value had a default', 'the review looked at the code and not at the settings'])}.",
        f"**Fix.** {fix} {lead} stayed on the line until the curves were flat for half an hour.",
        "**What we learnt.** " + " ".join(lessons),
        "**To do.** " + "; ".join(f"{task} ({rng.choice(NAMES)})" for task in tasks) + ".",
    ]
    ask = rng.choice(
        [
            f"Write a blameless postmortem for {service}. Lead: {lead}. Log: {line}",
            f"{lead} needs a report on the outage of {service}; sections for summary, timeline, cause, fix and lessons.",
        ]
    )
    return Example(
        "devops",
        "hard",
        ask,
        "",
        "\n\n".join(body),
        f"Blameless means no guilt. Cause: {cause.format(n=number)} Then the fix.",
    )


def story(rng: Random) -> Example:
    hero, friend = rng.sample(NAMES, 2)
    town, thing, day = rng.choice(TOWNS), rng.choice(ITEMS), rng.choice(DAYS)
    job = rng.choice(words("clock maker|ferry pilot|baker|map seller|lighthouse keeper|tailor|piano tuner|well digger"))
    fear = rng.choice(
        words("the fog|the silence after midnight|deep water|being forgotten|the colour green|open doors|loud bells")
    )
    start = rng.choice(
        [
            f"In {town} there lived a {job} named {hero}, who feared {fear} more than anything.",
            f"Nobody in {town} knew that {hero}, the {job}, was afraid of {fear}.",
            f"{hero} had been a {job} for {rng.randint(9, 40)} years when {fear} came back.",
        ]
    )
    middle = rng.sample(
        [
            f"Every {day} a parcel with {rng.randint(3, 30)} {thing} lay on the step, and no name on it.",
            f"{friend} laughed about it, then grew quiet, then fetched a lantern.",
            "They followed the wheel marks past the mill, past the quarry, up to the old signal house.",
            f"Rain had washed half the letters from the sign, so that it read only '{rng.choice(['OP', 'HOM', 'RETU', 'LIST'])}'.",
            "A dog with one white ear walked ahead of them as though it had an appointment.",
            f"\u201cYou count them, I carry them,\u201d said {friend}, and that was how they divided the work.",
            "Inside it smelt of tar and oranges; someone had been here not an hour ago.",
            f"On the wall hung a list of all the people in {town}, and beside each name a small drawn {rng.choice(['key', 'boat', 'star'])}.",
            f"{hero} wanted to turn round, yet the feet went on by themselves.",
            "Under the stairs sat a child with a ledger, writing without looking up.",
        ],
        rng.randint(5, 8),
    )
    end = rng.choice(
        [
            f"It turned out that {hero} had once given {thing} to a stranger, and the stranger had never stopped paying it back.",
            f"From then on {hero} left the lamp burning, and {fear} stayed outside like a polite guest.",
            f"\u201cSo it was you,\u201d {hero} said to {friend}, and both of them laughed until the dog barked.",
            f"The next {day} the step was empty. {hero} was almost sorry.",
        ]
    )
    ask = rng.choice(
        [
            f"Tell a story about a {job} in {town} who is afraid of {fear}.",
            f"A bedtime story with {hero}, {friend} and {thing}. About {rng.randint(12, 24)}0 words.",
            f"{thing.capitalize()}, {fear}, {town}: make a short tale out of these three.",
        ]
    )
    cut = rng.randint(2, 4)
    parts = [start + " " + " ".join(middle[:cut]), " ".join(middle[cut:]), end + " " + rng.choice(COLOUR)]
    return Example(
        "writing",
        "hard",
        ask,
        "",
        "\n\n".join(parts),
        f"Three parts: {hero} and the fear, the way, the turn at the end.",
    )


# --- tools -----------------------------------------------------------------------------------------------------------


def schema(name: str, description: str, **fields: str) -> dict[str, Any]:
    properties = {field: {"type": kind} for field, kind in fields.items()}
    parameters = {"type": "object", "properties": properties, "required": list(fields)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@dataclass(frozen=True)
class Call:
    """A request that needs one tool: what is asked, the call, what the tool returns, what is then answered."""

    ask: str
    name: str
    arguments: dict[str, Any]
    result: str
    answer: str


TOOLS = {
    tool["function"]["name"]: tool
    for tool in [
        schema("get_weather", "Weather of a town on a day", town="string", day="string"),
        schema("convert_money", "Convert an amount", amount="number", source="string", target="string"),
        schema("find_parcel", "Where is a parcel?", code="string"),
        schema("stock_level", "Pieces in the warehouse", item="string", town="string"),
        schema("add_event", "Write into the calendar", title="string", day="string", hour="integer"),
        schema("service_status", "Health of a service", service="string", minutes="integer"),
    ]
}


def get_weather(rng: Random) -> Call:
    town, day, degrees = rng.choice(TOWNS), rng.choice(DAYS), rng.randint(-9, 34)
    sky = rng.choice(words("clear|rain|snow|fog|storm|drizzle"))
    ask = rng.choice(
        [f"Do I need a coat in {town} on {day}?", f"How will {day} be in {town}?", f"{town}, {day}: picnic or not?"]
    )
    result = {"town": town, "sky": sky, "celsius": degrees}
    return Call(
        ask,
        "get_weather",
        {"town": town, "day": day},
        json.dumps(result),
        f"{day} in {town}: {sky} at {degrees} degrees.",
    )


def convert_money(rng: Random) -> Call:
    amount, rate = rng.randint(5, 900), rng.randint(2, 19)
    source, target = rng.sample(words("crowns|florins|thalers|ducats|marks"), 2)
    ask = rng.choice(
        [f"How many {target} are {amount} {source}?", f"I have {amount} {source} and need {target}. What do I get?"]
    )
    arguments = {"amount": float(amount), "source": source, "target": target}
    return Call(
        ask,
        "convert_money",
        arguments,
        f'{{"rate": {rate}.0, "value": {amount * rate}.00}}',
        f"{amount} {source} are {amount * rate} {target}.",
    )


def find_parcel(rng: Random) -> Call:
    code, town = f"PX{rng.randint(100000, 999999)}", rng.choice(TOWNS)
    state = rng.choice(words("in transit|delivered|held at customs|returned"))
    ask = rng.choice(
        [f"Where is my parcel {code}?", f"Parcel {code} should have come on {rng.choice(DAYS)}. Please check."]
    )
    return Call(
        ask,
        "find_parcel",
        {"code": code},
        json.dumps({"state": state, "last_seen": town}),
        f"Parcel {code} is {state}, last seen in {town}.",
    )


def stock_level(rng: Random) -> Call:
    item, town, count = rng.choice(ITEMS), rng.choice(TOWNS), rng.randint(0, 450)
    ask = rng.choice(
        [f"Are there still {item} in {town}?", f"A customer wants {rng.randint(2, 90)} {item}. Does {town} have them?"]
    )
    return Call(ask, "stock_level", {"item": item, "town": town}, str(count), f"{town} has {count} {item} in stock.")


def add_event(rng: Random) -> Call:
    who, day, hour = person(rng), rng.choice(DAYS), rng.randint(7, 20)
    title = rng.choice(words("lunch|call|review|walk|rehearsal|interview")) + f" with {who}"
    ask = rng.choice([f"Put {title} on {day} at {hour}.", f"Remind me: {title}, {day}, {hour} o'clock."])
    return Call(
        ask,
        "add_event",
        {"title": title, "day": day, "hour": hour},
        '{"ok": true}',
        f"Done: {title}, {day} at {hour}:00.",
    )


def service_status(rng: Random) -> Call:
    service, minutes, errors = rng.choice(SERVICES), rng.choice([5, 15, 30, 60]), rng.randint(0, 99)
    ask = rng.choice(
        [f"Is {service} healthy?", f"{person(rng)} reports errors in {service}. Look at the last {minutes} minutes."]
    )
    result = {"service": service, "errors": errors, "healthy": errors < 5}
    verdict = "healthy" if errors < 5 else "not healthy"
    return Call(
        ask,
        "service_status",
        {"service": service, "minutes": minutes},
        json.dumps(result),
        f"{service} is {verdict}: {errors} errors in {minutes} minutes.",
    )


CALLS: list[Callable[[Random], Call]] = [
    get_weather,
    convert_money,
    find_parcel,
    stock_level,
    add_event,
    service_status,
]


def tools_for(rng: Random, calls: list[Call]) -> list[dict[str, Any]]:
    """The tools that the calls need and one or two that nobody uses, in a random order."""
    names = {call.name for call in calls}
    spare = [name for name in sorted(TOOLS) if name not in names]
    chosen = sorted(names) + rng.sample(spare, rng.randint(1, 2))
    rng.shuffle(chosen)
    return [TOOLS[name] for name in chosen]


def worse(rng: Random, answer: str) -> str:
    """An answer that a person would like less: wrong numbers, cut off, evasive or padded."""
    kind = rng.randrange(4)
    if kind == 0 and re.search(r"\d", answer):
        return re.sub(r"\d+", lambda match: str(int(match[0]) + rng.randint(1, 7)), answer)
    if kind == 1 and len(answer.split()) > 8:
        return " ".join(answer.split()[: len(answer.split()) // 2])
    if kind == 2:
        return rng.choice(
            ["I am not sure about that.", "Please look it up.", "As you like.", "It depends on many things."]
        )
    return (
        f"What a wonderful question! {answer} I hope this answer is everything you hoped for, and even more than that!"
    )
