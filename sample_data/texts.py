"""Examples with one right answer: mathematics, code, operations. One small generator a kind of task, all invented here."""

# ruff: noqa: E501 - tables of prose

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Example:
    """One question with its answer; `context` is the text that the question is about, empty when there is none."""

    domain: str
    difficulty: str
    prompt: str
    context: str
    answer: str
    reasoning: str = ""


def words(text: str) -> list[str]:
    return text.split("|")


NAMES = words(
    "Amara|Bruno|Chidi|Dalia|Emre|Farah|Gustav|Hana|Ilse|Jonas|Kavya|Lior|Mirela|Nikolai|Odile|Priya|Quentin|Rosa|"
    "Soren|Tomasz|Uma|Viktor|Wanjiru|Xenia|Yusuf|Zofia"
)
SURNAMES = words(
    "Adler|Bakker|Castillo|Dimitrov|Eriksen|Fontaine|Gruber|Horvat|Ito|Jansen|Kowalski|Lindqvist|Moreau|Novak|Okafor|"
    "Petrov|Quint|Romano|Silva|Takeda"
)
TOWNS = words(
    "Ardenholm|Brackwater|Corvina|Dunmere|Eastvale|Ferrowick|Glimsted|Harrowgate Bay|Ivelstead|Juniper Falls|Kestrel Point|"
    "Lowmarsh|Marrowby|Northfen|Oakhollow|Pellbridge"
)
ITEMS = words(
    "notebooks|lemons|paint brushes|bread rolls|tulip bulbs|bicycle bells|postcards|ceramic mugs|batteries|fishing hooks|"
    "wool socks|jars of honey|candles|garden gloves|light bulbs|pencil cases|apricots|puzzle books"
)
DAYS = words("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
MONTHS = words("January|February|March|April|May|June|July|August|September|October|November|December")


def person(rng: Random) -> str:
    return f"{rng.choice(NAMES)} {rng.choice(SURNAMES)}"


# --- mathematics -----------------------------------------------------------------------------------------------------


def word_problem(rng: Random) -> Example:
    kind = rng.randrange(10)
    name, other = rng.sample(NAMES, 2)
    town, day = rng.choice(TOWNS), rng.choice(DAYS)
    first, second = rng.sample(ITEMS, 2)
    a, b, c, d = rng.randint(3, 19), rng.randint(3, 12), rng.randint(2, 9), rng.randint(2, 9)
    opening = rng.choice(
        [
            f"On {day} {name} visits the market in {town}.",
            f"{name} keeps a small stall near {town}.",
            f"Before the holidays {name} makes a list.",
            f"{other} tells {name} about an errand for {day}.",
            "",
            "",
        ]
    )
    difficulty = "easy"
    if kind == 0:
        paid = (a * c + b * d + 49) // 50 * 50
        text = f"{name} pays for {a} {first} at {c} coins each and {b} {second} at {d} coins each with {paid} coins."
        ask = rng.choice(
            ["How much change comes back?", "What is left of the money?", "How many coins remain afterwards?"]
        )
        steps = [f"{a} x {c} = {a * c}", f"{b} x {d} = {b * d}", f"{paid} - {a * c} - {b * d} = {paid - a * c - b * d}"]
        result = paid - a * c - b * d
    elif kind == 1:
        speed, faster = 10 * c + 20, 10 * c + 20 + 10 * d
        text = f"A bus leaves {town} and drives {b} hours at {speed} km/h, then {c} hours on the coast road at {faster} km/h."
        ask = rng.choice(["How far did it travel in all?", "Find the total distance in kilometres."])
        result = b * speed + c * faster
        steps = [
            f"{b} x {speed} = {b * speed}",
            f"{c} x {faster} = {c * faster}",
            f"{b * speed} + {c * faster} = {result}",
        ]
    elif kind == 2:
        total = a * b + c
        text = f"{total} {first} are to be packed into boxes that hold {b} {rng.choice(['pieces', 'of them', 'each'])}."
        ask = rng.choice(
            ["How many full boxes are there, and what is left over?", f"Tell {other} the full boxes only."]
        )
        result = total // b
        steps = [f"{total} / {b} = {total // b} remainder {total % b}", f"{result} full boxes, {total % b} left over"]
    elif kind == 3:
        price, off = 20 * a, 5 * c
        text = f"A coat in {town} costs {price} crowns. The shop takes {off}% off, and {name} has a voucher for {d} crowns more."
        ask = rng.choice(["What does the coat cost now?", "Which price is on the receipt?", "How much must be paid?"])
        cut = price * off // 100
        result = price - cut - d
        steps = [f"{off}% of {price} = {cut}", f"{price} - {cut} = {price - cut}", f"{price - cut} - {d} = {result}"]
    elif kind == 4:
        difficulty = "medium"
        hours = 2 * b
        text = f"{name} alone folds {a} letters an hour and {other} folds {c} more than that. They work together for {hours} hours."
        ask = rng.choice(["How many letters do they fold?", "What stack of letters do the two leave behind?"])
        result = (2 * a + c) * hours
        steps = [
            f"{other}: {a} + {c} = {a + c}",
            f"together {a} + {a + c} = {2 * a + c}",
            f"{2 * a + c} x {hours} = {result}",
        ]
    elif kind == 5:
        difficulty = "medium"
        text = f"A garden is {a + b} m long and {b} m wide. A path of {c * d} square metres is cut out; the rest gets grass."
        ask = rng.choice(["What area is sown with grass?", "How many square metres of seed does one need?"])
        result = (a + b) * b - c * d
        steps = [f"({a} + {b}) x {b} = {(a + b) * b}", f"{(a + b) * b} - {c * d} = {result}"]
    elif kind == 6:
        difficulty = "hard"
        result = a
        text = (
            f"{c} times a number, increased by {b * d}, gives {c * a + b * d}. {name} wrote it on the board in {town}."
        )
        ask = rng.choice(["Which number is it?", "Solve for the unknown.", "Find the number and check it."])
        steps = [f"{c}n + {b * d} = {c * a + b * d}", f"{c}n = {c * a}", f"n = {a}"]
    elif kind == 7:
        difficulty = "medium"
        start, rate, years = 100 * a, 10, 2
        text = (
            f"{name} puts {start} crowns into an account with {rate}% interest a year and leaves it for {years} years."
        )
        ask = rng.choice(["What is the balance with compound interest?", f"Help {other} work out the final sum."])
        middle = start + start // 10
        result = middle + middle // 10
        steps = [f"{start} x 1.1 = {middle}", f"{middle} x 1.1 = {result}"]
    elif kind == 8:
        difficulty = "hard"
        text = f"From {a} players in {town}, a team of two with one captain and one deputy is chosen, and then one of {b} flags."
        ask = rng.choice(["In how many ways can this be done?", "Count the possible choices."])
        result = a * (a - 1) * b
        steps = [f"captain: {a}", f"deputy: {a - 1}", f"flag: {b}", f"{a} x {a - 1} x {b} = {result}"]
    else:
        values = [rng.randint(2, 40) for _ in range(5)]
        values[4] += -sum(values) % 5
        shown = ", ".join(map(str, values))
        text = f"The rain gauge of {town} showed {shown} mm on five days."
        ask = rng.choice(
            ["What was the mean?", "Give the average rainfall a day.", f"{other} asks for the average. What is it?"]
        )
        result = sum(values) // 5
        steps = [" + ".join(map(str, values)) + f" = {sum(values)}", f"{sum(values)} / 5 = {result}"]
    lead = rng.choice(["Step by step:", "Let us calculate.", "Work it out in parts.", "Here is the way:", ""])
    close = rng.choice(["The answer is {}.", "So the result is {}.", "Answer: {}", "That makes {}."]).format(result)
    answer = "\n".join(line for line in [lead, *[f"{n}. {step}" for n, step in enumerate(steps, 1)], close] if line)
    doubt = rng.choice(
        ["I should check the order of operations.", "Nothing else is asked.", "The units agree.", "Seems right."]
    )
    reasoning = f"We need {ask[0].lower() + ask[1:]} " + "; ".join(steps) + f". {doubt}"
    return Example("math", difficulty, f"{opening} {text} {ask}".strip(), "", answer, reasoning)


def plain_sum(rng: Random) -> Example:
    a, b, c = rng.randint(12, 989), rng.randint(11, 97), rng.randint(2, 9)
    ask, result = rng.choice(
        [
            (f"What is {a} + {b} * {c}?", a + b * c),
            (f"Compute {a} - {b}, then add {c}.", a - b + c),
            (f"{a} times {c} minus {b} equals what?", a * c - b),
            (f"Round {a * c + b} to the nearest ten.", (a * c + b + 5) // 10 * 10),
            (f"Is {a} divisible by {c}? Give the remainder.", a % c),
            (f"Write {a * b} as a product with the factor {b}.", a),
        ]
    )
    return Example(
        "math",
        "easy",
        ask,
        "",
        rng.choice(["{}", "It is {}.", "{}.", "Result: {}"]).format(result),
        f"{ask} -> {result}.",
    )


# --- code ------------------------------------------------------------------------------------------------------------

FUNCTIONS = [
    ("checks whether a text reads the same in both directions, ignoring case and spaces", "easy",
     "def is_mirror(text: str) -> bool:\n    kept = [c for c in text.casefold() if c.isalnum()]\n    return kept == kept[::-1]"),
    ("returns the greatest common divisor of two positive integers", "easy",
     "def common_divisor(a: int, b: int) -> int:\n    while b:\n        a, b = b, a % b\n    return a"),
    ("splits a list into pieces of a given size, the last one possibly shorter", "easy",
     "def pieces(values: list, size: int) -> list[list]:\n    return [values[i : i + size] for i in range(0, len(values), size)]"),
    ("finds a value in a sorted list by halving and gives its position or -1", "medium",
     "def find(values, wanted):\n    low, high = 0, len(values)\n    while low < high:\n        middle = (low + high) // 2\n"
     "        if values[middle] < wanted:\n            low = middle + 1\n        else:\n            high = middle\n"
     "    return low if low < len(values) and values[low] == wanted else -1"),
    ("flattens lists nested to any depth", "medium",
     "def flatten(value):\n    if not isinstance(value, list):\n        return [value]\n"
     "    return [leaf for part in value for leaf in flatten(part)]"),
    ("shifts every letter of the alphabet by n places and leaves other characters alone", "easy",
     "def shift(text: str, n: int) -> str:\n    out = []\n    for c in text:\n        if c.isascii() and c.isalpha():\n"
     "            base = 65 if c.isupper() else 97\n            c = chr((ord(c) - base + n) % 26 + base)\n"
     "        out.append(c)\n    return ''.join(out)"),
    ("encodes runs of equal characters as pairs of character and count", "medium",
     "from itertools import groupby\n\ndef runs(text):\n    return [(key, len(list(group))) for key, group in groupby(text)]"),
    ("lists all primes below n with a sieve", "medium",
     "def primes(n):\n    sieve = bytearray([1]) * n\n    for i in range(2, int(n**0.5) + 1):\n        if sieve[i]:\n"
     "            sieve[i * i :: i] = bytes(len(range(i * i, n, i)))\n    return [i for i in range(2, n) if sieve[i]]"),
    ("says whether round, square and curly brackets are balanced", "medium",
     "def balanced(text):\n    partner = {')': '(', ']': '[', '}': '{'}\n    open_marks = []\n    for c in text:\n"
     "        if c in '([{':\n            open_marks.append(c)\n        elif c in partner:\n"
     "            if not open_marks or open_marks.pop() != partner[c]:\n                return False\n    return not open_marks"),
    ("merges overlapping intervals given as pairs of start and end", "hard",
     "def merge(spans):\n    merged = []\n    for start, end in sorted(spans):\n        if merged and start <= merged[-1][1]:\n"
     "            merged[-1][1] = max(merged[-1][1], end)\n        else:\n            merged.append([start, end])\n    return merged"),
    ("computes the edit distance of two words", "hard",
     "def distance(a, b):\n    row = list(range(len(b) + 1))\n    for i, x in enumerate(a, 1):\n        previous, row[0] = row[0], i\n"
     "        for j, y in enumerate(b, 1):\n            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))\n"
     "    return row[-1]"),
    ("turns a duration such as 1h20m5s into seconds", "medium",
     "import re\n\ndef seconds(text):\n    unit = {'h': 3600, 'm': 60, 's': 1}\n"
     "    return sum(int(n) * unit[u] for n, u in re.findall(r'(\\d+)([hms])', text))"),
    ("gives the shortest path between two nodes of an unweighted graph", "hard",
     "from collections import deque\n\ndef path(graph, start, goal):\n    queue, came = deque([start]), {start: None}\n    while queue:\n"
     "        node = queue.popleft()\n        if node == goal:\n            steps = []\n            while node is not None:\n"
     "                steps.append(node)\n                node = came[node]\n            return steps[::-1]\n"
     "        for near in graph[node]:\n            if near not in came:\n                came[near] = node\n"
     "                queue.append(near)\n    return None"),
    ("computes a moving average over a window without adding up the window each time", "medium",
     "def moving(values, width):\n    total, out = 0.0, []\n    for i, value in enumerate(values):\n        total += value\n"
     "        if i >= width:\n            total -= values[i - width]\n        if i >= width - 1:\n            out.append(total / width)\n    return out"),
    ("writes a whole number between 1 and 3999 in Roman numerals", "medium",
     "def roman(n):\n    table = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'),\n"
     "             (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]\n    out = ''\n    for value, mark in table:\n"
     "        out += mark * (n // value)\n        n %= value\n    return out"),
    ("groups words that are anagrams of each other", "easy",
     "from collections import defaultdict\n\ndef anagrams(entries):\n    groups = defaultdict(list)\n    for entry in entries:\n"
     "        groups[''.join(sorted(entry))].append(entry)\n    return list(groups.values())"),
]  # fmt: skip

FIELDS = {
    "orders": words("price|weight|discount|quantity"),
    "sensors": words("temperature|voltage|humidity|altitude"),
    "students": words("grade|age|absences|credits"),
    "trains": words("delay|distance|seats|stops"),
    "songs": words("length|plays|tempo|year"),
    "servers": words("load|memory|uptime|errors"),
}


def python_function(rng: Random) -> Example:
    task, difficulty, code = rng.choice(FUNCTIONS)
    ask = rng.choice(
        [
            f"Write a Python function that {task}.",
            f"I need a short helper for a script. It {task}. Please explain the idea in one sentence.",
            f"Give me code which {task}; no third-party library.",
            f"How would you write something in Python that {task}?",
        ]
    )
    note = rng.choice(
        [
            "It uses only the standard library.",
            "It runs in one pass over the input where that is possible.",
            "An empty input is handled without a special case.",
            "Add a test for the smallest input before you rely on it.",
            "",
        ]
    )
    answer = f"```python\n{code}\n```" + (f"\n\n{note}" if note else "")
    return Example(
        "code", difficulty, ask, "", answer, f"The function {task}. Keep it small, then look at the empty input."
    )


def row_function(rng: Random) -> Example:
    table = rng.choice(sorted(FIELDS))
    field, other = rng.sample(FIELDS[table], 2)
    limit = rng.randint(2, 90)
    name = f"{rng.choice(['collect', 'scan', 'pick', 'count', 'total', 'report'])}_{field}"
    test_text, test = rng.choice(
        [
            (f"whose {other} is above {limit}", f"row[{other!r}] > {limit}"),
            (f"with a {other} of at most {limit}", f"row[{other!r}] <= {limit}"),
            (f"that have an even {other}", f"row[{other!r}] % 2 == 0"),
            (f"where {other} is missing", f"row.get({other!r}) is None"),
            (f"whose {other} differs from {limit}", f"row[{other!r}] != {limit}"),
        ]
    )
    goal, body = rng.choice(
        [
            (f"the sum of {field}", "sum(row[{f!r}] for row in {t} if {c})"),
            (
                f"the largest {field}, or None when nothing is left",
                "max((row[{f!r}] for row in {t} if {c}), default=None)",
            ),
            (f"all values of {field} in ascending order", "sorted(row[{f!r}] for row in {t} if {c})"),
            (f"the distinct values of {field} as a set", "{{row[{f!r}] for row in {t} if {c}}}"),
            (f"the first {field} found, else zero", "next((row[{f!r}] for row in {t} if {c}), 0)"),
        ]
    )
    code = f"def {name}({table}):\n    return " + body.format(f=field, t=table, c=test)
    ask = rng.choice(
        [
            f"`{name}` gets a list of dictionaries, one for each of the {table}. Let it return {goal} among those {test_text}.",
            f"From the {table} {test_text} I want {goal}. Python please, as `{name}`.",
            f"Implement {name}({table}): {goal}; only entries {test_text} count.",
            f"Can you turn this into code? Take {table} {test_text}. Give back {goal}. Call it {name}.",
        ]
    )
    return Example("code", "easy", ask, "", f"```python\n{code}\n```", f"Filter first: {test}. Then build {goal}.")


def sql_query(rng: Random) -> Example:
    table = rng.choice(sorted(FIELDS))
    group, value = rng.sample(FIELDS[table], 2)
    function, said = rng.choice(
        [("AVG", "average"), ("SUM", "total"), ("MAX", "highest"), ("MIN", "lowest"), ("COUNT", "number of")]
    )
    limit = rng.randint(3, 60)
    query = (
        f"SELECT {group}, {function}({value}) AS result\nFROM {table}\nWHERE {value} >= {limit}\n"
        f"GROUP BY {group}\nORDER BY result DESC;"
    )
    ask = rng.choice(
        [
            f"A table {table} has the columns {group} and {value}. Query the {said} {value} for every {group}, rows under {limit} left out, biggest first.",
            f"SQL: {said} {value} by {group} in {table}, only where {value} is {limit} or more, sorted downwards.",
            f"I would like a statement over {table} that groups by {group} and shows the {said} {value} (minimum {limit}).",
        ]
    )
    return Example(
        "code", "medium", ask, "", f"```sql\n{query}\n```", f"Group by {group}, aggregate {value} with {function}."
    )


# --- operations ------------------------------------------------------------------------------------------------------

SERVICES = words(
    "auth-proxy|billing-worker|catalog-api|mail-relay|image-resizer|search-node|report-cron|session-cache|ledger-db|"
    "edge-gateway|upload-queue|price-feed|metrics-sink|chat-bridge"
)
FAULTS = [
    ("OOMKilled: container exceeded {n} Mi", "The process needs more memory than its limit of {n} Mi.",
     "Raise the limit, then look for the leak with a heap profile.", "kubectl top pod -l app={s}"),
    ("x509: certificate has expired {n} minutes ago", "The certificate was not renewed in time.",
     "Renew it, reload the listener and add an alert 14 days ahead.", "openssl s_client -connect {s}:443"),
    ("write /var/data: no space left on device (inode use {n}%)", "The volume is full.",
     "Remove rotated logs, then enlarge the volume and cap the retention.", "df -hi /var/data"),
    ("dial tcp: lookup {s}.internal: no such host (try {n})", "The name does not resolve.",
     "Check the service entry and restart the resolver that holds the stale answer.", "dig {s}.internal"),
    ("remaining connection slots are reserved, {n} in use", "The connection pool is exhausted.",
     "Lower the pool size of each worker or put a pooler in between.", "select count(*) from pg_stat_activity;"),
    ("deadlock detected after {n} ms, transaction rolled back", "Two jobs lock the same rows in a different order.",
     "Sort the keys before updating and retry the failed transaction once.", "show engine status for {s}"),
    ("Back-off pulling image {s}:{n}", "The tag does not exist in the registry.",
     "Push the image or pin the last tag that was deployed.", "kubectl describe pod {s}"),
    ("clock skew of {n} s, token rejected", "The host lost its time source.",
     "Restart the time daemon and compare the offset afterwards.", "chronyc tracking"),
    ("upstream timed out after {n} ms while reading header", "The backend answers too slowly under load.",
     "Find the slow endpoint in the traces, add an index or a cache, and keep the timeout.", "curl -w '%{{time_total}}' {s}/health"),
    ("config: unknown key 'tiemout' at line {n}", "A key in the configuration is misspelt.",
     "Correct it to timeout and let the pipeline validate the file.", "git log -3 -- {s}.yaml"),
    ("consumer lag {n} on partition 4", "The consumer falls behind the producer.",
     "Add consumers up to the number of partitions and look for one slow message.", "kafka-consumer-groups --describe --group {s}"),
    ("429 too many requests, quota {n} per minute", "The caller runs into the rate limit.",
     "Back off with jitter and batch the calls.", "grep -c 429 access.log"),
]  # fmt: skip


def ticket(rng: Random) -> Example:
    log, cause, fix, command = rng.choice(FAULTS)
    service, other, number = rng.choice(SERVICES), rng.choice(SERVICES), rng.randint(11, 900)
    stamp = f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
    line = f"{stamp} {service} " + log.format(n=number, s=service)
    noise = rng.choice(
        [
            f"{stamp} {other} health check ok",
            f"{stamp} {other} restarted by {rng.choice(NAMES).lower()}",
            f"{stamp} deploy {rng.randint(100, 999)} of {other} finished",
            f"{stamp} {other} warning: retry {rng.randint(2, 9)}",
        ]
    )
    ask = rng.choice(
        [
            f"Since {rng.choice(DAYS)} users of {service} complain. What does the log say and what do we do?",
            f"{rng.choice(NAMES)} is on call and sees this from {service}. Name the cause and a first command.",
            f"Triage the ticket: {service} in {rng.choice(TOWNS)} is failing.",
            f"Please read these lines of {service} and propose a fix with a way to confirm it.",
            f"Why did {service} page us at {stamp}?",
        ]
    )
    lines = [line, noise]
    rng.shuffle(lines)
    cause = cause.format(n=number)
    look = command.format(s=service, n=number)
    answer = rng.choice(
        [
            f"{cause} {fix}\n\nConfirm it with `{look}`.",
            f"**Cause.** {cause}\n**Fix.** {fix}\n**Check.** `{look}`",
            f"Run `{look}` first. {cause} {fix}",
        ]
    )
    difficulty = rng.choice(["easy", "medium", "medium", "hard"])
    reasoning = (
        f"The line from {other} is noise. The line from {service} matters: {log.format(n=number, s=service)}. {cause}"
    )
    return Example("devops", difficulty, ask, "\n".join(lines), answer, reasoning)


def shell_command(rng: Random) -> Example:
    suffix = rng.choice(words("log|csv|tmp|png|bak|json|tar|conf"))
    folder = rng.choice(words("/srv/app|/var/backups|/home/build|/opt/reports|/data/in|/mnt/share"))
    days, size = rng.randint(2, 60), rng.randint(5, 800)
    ask, answer = rng.choice(
        [
            (f"Delete *.{suffix} under {folder} that nobody touched for {days} days.", f"find {folder} -name '*.{suffix}' -mtime +{days} -delete"),
            (f"Which {suffix} files in {folder} are larger than {size} MB?", f"find {folder} -name '*.{suffix}' -size +{size}M"),
            (f"Count the lines of all {suffix} files below {folder}, total only.", f"find {folder} -name '*.{suffix}' -exec cat {{}} + | wc -l"),
            (f"Pack {folder} into a {suffix}-dated archive but skip anything over {size} MB.", f"find {folder} -type f -size -{size}M | tar czf {suffix}-archive.tgz -T -"),
            (f"Show the {days} newest entries of {folder} ending in .{suffix}.", f"ls -t {folder}/*.{suffix} | head -n {days}"),
        ]
    )  # fmt: skip
    return Example("devops", "easy", ask, "", f"```sh\n{answer}\n```", f"One command is enough: {answer}.")


GENERATORS: dict[str, Callable[[Random], Example]] = {
    "word_problem": word_problem, "plain_sum": plain_sum, "python_function": python_function,
    "row_function": row_function, "sql_query": sql_query, "ticket": ticket, "shell_command": shell_command,
}  # fmt: skip
