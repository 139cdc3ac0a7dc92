"""Examples about the world and in many words: science, letters, summaries, recipes, other languages."""

# ruff: noqa: E501 - tables of prose

import json
from collections.abc import Callable
from random import Random

from texts import ITEMS, MONTHS, NAMES, TOWNS, Example, person, words

# --- science ---------------------------------------------------------------------------------------------------------

FACTS = [
    ("the sky looks blue by day", "Air scatters short waves of sunlight far more strongly than long ones.|Blue light therefore reaches us from every direction.|Violet is scattered even more, yet our eyes are less sensitive to it.|At sunset the path through air is long, so that red remains."),
    ("ice floats on water", "Water molecules form an open lattice when they freeze.|The lattice takes more room than the liquid, so ice is less dense.|That is why a pond freezes from above and fish survive below."),
    ("leaves change colour in autumn", "The tree breaks down chlorophyll and keeps its nitrogen.|Yellow carotenoids that were there all along become visible.|Red pigments are made anew from sugar on cool bright days."),
    ("we see lightning before we hear thunder", "Light covers a kilometre in microseconds.|Sound needs about three seconds for the same distance.|Counting the seconds and dividing by three gives the distance in kilometres."),
    ("bread dough rises", "Yeast ferments sugar into carbon dioxide and alcohol.|The gas is trapped by a net of gluten.|Warmth speeds the process up until the yeast dies at about 55 degrees."),
    ("the moon shows us always the same face", "Its rotation takes exactly as long as its orbit.|Tides raised by the Earth braked its spin over millions of years.|Small wobbles still let us see a little more than half of it."),
    ("metal feels colder than wood", "Both have the temperature of the room.|Metal conducts heat away from the skin much faster.|Our nerves measure the flow of heat, not the temperature itself."),
    ("salt melts ice on roads", "Dissolved ions lower the freezing point of water.|The brine stays liquid below zero and eats into the ice.|Under about minus twenty degrees table salt no longer helps."),
    ("vaccines protect against a disease", "They show the immune system a harmless part of the germ.|Memory cells remain for years afterwards.|At the real infection antibodies appear within days instead of weeks."),
    ("stars twinkle but planets hardly do", "Moving air bends the light a little, now here, now there.|A star is a point, so that its whole image jumps.|A planet is a small disc whose points average out."),
    ("a magnet loses its strength in a fire", "Heat shakes the tiny magnetic regions.|Above the Curie temperature their common direction is lost.|Iron reaches that point at roughly 770 degrees."),
    ("soap removes grease", "One end of its molecule likes water and the other likes fat.|The molecules surround a droplet of fat.|Rinsing carries the droplets away."),
    ("the sea is salty", "Rivers bring dissolved minerals from weathered rock.|Water evaporates, and the salt stays behind.|Hot vents on the ocean floor add more."),
    ("a boomerang comes back", "Its two arms are wings that spin.|The upper wing moves faster through the air and lifts more.|The uneven lift tilts the axis, and so the path becomes a circle."),
    ("batteries run down in the cold", "Reactions inside the cell slow down.|Ions move sluggishly through the electrolyte.|Much of the lost charge returns once the cell is warm."),
    ("honey keeps for years", "It holds so little water that microbes dry out.|It is acidic as well.|An enzyme of the bees leaves traces of hydrogen peroxide in it."),
    ("cats land on their feet", "The inner ear tells them which way is up.|They twist front and rear in opposite directions.|A flexible spine makes this possible without anything to push against."),
    ("rainbows are curved", "Each drop sends red light back at about 42 degrees.|All drops at that angle lie on a cone around the line from the sun through your head.|From an aeroplane the whole circle can be seen."),
    ("onions make us cry", "Cutting breaks cells and frees an enzyme.|It builds a gas that turns into a weak acid on the eye.|Cooling the onion slows the enzyme."),
    ("popcorn pops", "A drop of water is locked in a hard hull.|At about 180 degrees the steam bursts the hull.|The starch foams up and sets at once."),
    ("the days are longer in summer", "The axis of the Earth is tilted by 23 degrees.|In summer our half leans towards the sun.|The sun climbs higher and its arc over the horizon is longer."),
    ("birds can sit on a power line", "Both feet are at nearly the same voltage.|Current flows only where there is a difference.|Touching a second wire or the mast would be fatal."),
    ("mirrors swap left and right", "They do not: they swap front and back.|We imagine ourselves turned around behind the glass.|Writing on a clear sheet held to the mirror reads normally."),
    ("yoghurt thickens", "Bacteria turn milk sugar into lactic acid.|The acid makes proteins unfold and join.|The net holds the water."),
    ("a hot air balloon climbs", "Warm air expands and gets thinner.|The balloon then weighs less than the air it displaces.|It rises until the densities agree."),
    ("rust eats iron but not aluminium", "Iron oxide flakes off and exposes fresh metal.|Aluminium oxide is dense and sticks.|A scratch in aluminium closes by itself within moments."),
]  # fmt: skip


def science_why(rng: Random) -> Example:
    topic, text = rng.choice(FACTS)
    sentences = text.split("|")
    kept = sentences[: rng.randint(1, len(sentences))]
    ask = rng.choice(
        [
            f"Why is it that {topic}?",
            f"A child of {rng.randint(6, 12)} asks why {topic}. What do you say?",
            f"Explain in {len(kept)} sentence(s) why {topic}.",
            f"For a poster at the school of {rng.choice(TOWNS)}: how come {topic}?",
        ]
    )
    lead = rng.choice(["", "", "In short: ", "Good question. "])
    return Example(
        "science", rng.choice(["easy", "medium"]), ask, "", lead + " ".join(kept), f"The key is this. {sentences[0]}"
    )


def science_number(rng: Random) -> Example:
    a, b = rng.randint(2, 40), rng.randint(2, 25)
    lab = rng.choice(
        [
            f"In the lab of {person(rng)}",
            f"At the station on {rng.choice(TOWNS)} hill",
            "During an exam",
            f"{rng.choice(NAMES)} notes that",
        ]
    )
    text, steps = rng.choice(
        [
            (f"a block of {a * b} grams fills {b} cubic centimetres. What is its density?", f"density = mass / volume = {a * b} / {b} = {a} g/cm3"),
            (f"a current of {a} ampere flows through {b} ohm. Which voltage is applied?", f"U = R * I = {b} * {a} = {a * b} V"),
            (f"a cart of {a} kg is pushed with {a * b} newton. How strongly does it accelerate?", f"a = F / m = {a * b} / {a} = {b} m/s2"),
            (f"sound takes {a} seconds from a cliff and back at 340 m/s. How far is the cliff?", f"d = 340 * {a} / 2 = {170 * a} m"),
            (f"a culture of {b} cells doubles every hour. How many are there after {a % 8 + 1} hours?", f"{b} * 2^{a % 8 + 1} = {b * 2 ** (a % 8 + 1)}"),
            (f"a lamp of {10 * a} watt burns {b} hours. Give the energy in watt hours.", f"E = P * t = {10 * a} * {b} = {10 * a * b} Wh"),
            (f"a wave has {a} hertz and is {b} metres long. Find its speed.", f"v = f * l = {a} * {b} = {a * b} m/s"),
        ]
    )  # fmt: skip
    return Example(
        "science", "medium", f"{lab} {text}", "", steps + ".", f"Pick the formula, insert the numbers: {steps}."
    )


# --- writing ---------------------------------------------------------------------------------------------------------

GOODS = words(
    "kettle|desk lamp|rain jacket|rucksack|printer|garden chair|headset|suitcase|coffee grinder|bicycle pump|tent|alarm clock"
)
FLAWS = words(
    "the lid no longer closes|one seam is open|it hums all night|the colour is not the one ordered|a screw is missing|"
    "it stopped after two days|the box arrived crushed|the manual is for another model|the strap tore on first use"
)
WISHES = words(
    "a replacement|my money back|a visit by a technician|the missing part|a written explanation|a discount on the next order"
)
CLOSINGS = words("Kind regards|Yours sincerely|With best wishes|Many thanks in advance|Respectfully")


def letter(rng: Random) -> Example:
    sender, receiver, town = person(rng), person(rng), rng.choice(TOWNS)
    good, flaw, wish = rng.choice(GOODS), rng.choice(FLAWS), rng.choice(WISHES)
    day = f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"
    kind = rng.randrange(4)
    if kind == 0:
        ask = rng.choice(
            [
                f"Write a complaint from {sender} about a {good}: {flaw}. The aim is {wish}.",
                f"{sender} from {town} bought a {good} on {day} and {flaw}. Draft a polite letter asking for {wish}.",
            ]
        )
        body = [
            f"on {day} I bought a {good} in your shop in {town}.",
            f"To my regret {flaw}.",
            rng.choice(
                [
                    "I treated it with care and followed the instructions.",
                    "A friend looked at it and came to the same view.",
                ]
            ),
            rng.choice(
                ["The receipt and two photographs are enclosed.", "I can bring it to you on any weekday after four."]
            ),
            f"I would therefore ask you for {wish}.",
            rng.choice(
                [
                    "Please let me know within two weeks how you intend to proceed.",
                    "A short answer by telephone is enough.",
                ]
            ),
        ]
    elif kind == 1:
        gift = rng.choice(
            words(
                "the evening by the lake|your help with the move|the book on moths|the cake|the long talk about the future"
            )
        )
        ask = f"A thank-you note from {sender.split()[0]} to {receiver.split()[0]} for {gift}, {rng.choice(['warm', 'short', 'a little funny'])}."
        body = [
            f"thank you for {gift}.",
            rng.choice(
                [
                    "I have been smiling about it since.",
                    "You cannot know how much it meant.",
                    "Even my neighbour heard of it twice.",
                ]
            ),
            f"When you are next in {town}, the first {rng.choice(['tea', 'soup', 'round'])} is mine.",
        ]
    elif kind == 2:
        job = rng.choice(words("beekeeper|night editor|tram driver|museum guide|lab assistant|ferry cook|tree surgeon"))
        years = rng.randint(2, 20)
        ask = f"{sender} applies for the post of {job} in {town} after {years} years in another trade. Cover letter, please."
        body = [
            f"your notice for a {job} in {town} found me at the right moment.",
            f"For {years} years I have worked in a trade that asks for patience, early mornings and exact notes.",
            rng.choice(
                [
                    "I learnt to keep calm when three things go wrong at once.",
                    "My colleagues would call me steady and curious.",
                ]
            ),
            "In my free time I already do what you describe, and I would like to do it properly.",
            rng.choice(
                ["I have read your last annual report with pleasure.", "A trial week would convince both of us."]
            ),
            f"I could start on {day}.",
        ]
    else:
        ask = f"Tell the tenants of {rng.randint(2, 90)} Mill Lane, {town}, that the water is off on {day} from 8 to {rng.randint(10, 16)}. Sign as {sender}."
        body = [
            f"on {day} the water will be turned off in the whole house while a pipe is replaced.",
            "Please fill a pot the evening before and keep the taps closed.",
            rng.choice(["The first water afterwards may be brown; let it run.", "The lift is not affected."]),
            f"Questions go to {receiver} on the ground floor.",
        ]
    start = rng.choice(["Dear Sir or Madam,", f"Dear {receiver.split()[0]},", f"Dear {receiver},", "Good day,"])
    return Example(
        "writing", rng.choice(["easy", "medium"]), ask, "", f"{start}\n\n{' '.join(body)}\n\n{rng.choice(CLOSINGS)},\n{sender}",
        f"Tone: polite. Say what happened, then the wish. Sign as {sender}."
    )  # fmt: skip


NEWS = [
    (
        "The council of {t} voted {n} to {m} for a new {x}",
        words("footbridge|tram line|library wing|flood wall|skate park"),
    ),
    (
        "The museum in {t} bought {n} {x} for {m} thousand crowns",
        words("old maps|glass eyes|carved masks|ship models|star charts"),
    ),
    (
        "A storm tore {n} roofs from houses in {t} and closed the {x} for {m} hours",
        words("harbour|airport|pass road|ring line"),
    ),
    (
        "The school of {t} now teaches {x} to {n} pupils in {m} groups",
        words("beekeeping|chess|sign language|bread baking|map reading"),
    ),
    (
        "A start-up from {t} sells {x} and grew from {m} to {n} people",
        words("cork helmets|quiet drills|seaweed snacks|folding boats"),
    ),
    ("The river at {t} carries {n}% fewer {x} than {m} years ago", words("eels|trout|crayfish|water lilies|otters")),
]
COLOUR = words(
    "Neighbours had waited long for it.|Critics call the step hasty.|Nobody was hurt.|The cost is still being discussed.|"
    "A report with all figures appears in spring.|Volunteers brought coffee and blankets.|Similar plans failed twice before.|"
    "The mood at the meeting was cheerful.|Experts from abroad had been asked for advice.|Rain is forecast for the opening.|"
    "Children painted posters for the day.|The old contract ends at the same time.|Two rivals withdrew in the last week."
)


def summary(rng: Random) -> Example:
    frame, things = rng.choice(NEWS)
    number, less = rng.randint(20, 99), rng.randint(3, 19)
    core = frame.format(t=rng.choice(TOWNS), n=number, m=less, x=rng.choice(things))
    speaker, extra = person(rng), rng.sample(COLOUR, rng.randint(3, 6))
    quote = rng.choice(
        ["We did not expect this", "It is a beginning", "I would do it again", "Ask me in a year", "This is not over"]
    )
    text = f"{core}. {' '.join(extra[:2])} \u201c{quote},\u201d said {speaker}. {' '.join(extra[2:])}"
    ask = rng.choice(
        [
            "Sum up the report in one sentence.",
            f"What happened? At most {rng.randint(15, 40)} words.",
            "Shorten this for a ticker and name who is quoted.",
            f"Give {rng.choice(NAMES)} the gist of the article below.",
        ]
    )
    answer = rng.choice(
        [f"{core}.", f"{core}; {speaker} commented on it.", f"In brief: {core[0].lower() + core[1:]}. {extra[0]}"]
    )
    return Example(
        "writing", "easy", ask, text, answer, f"The main clause is the first one: {core}. The rest is colour."
    )


def extraction(rng: Random) -> Example:
    who, town, item = person(rng), rng.choice(TOWNS), rng.choice(ITEMS)
    count, code = rng.randint(2, 400), f"{rng.choice('ABCDEFGH')}{rng.randint(1000, 9999)}"
    day = f"{rng.randint(1, 28)} {rng.choice(MONTHS)}"
    text = rng.choice(
        [
            f"Hello, this is {who}. I ordered {count} {item} ({code}) and would like them sent to {town} by {day}.",
            f"Re: {code}. Please move the delivery of {count} {item} to {day}; the driver should ask for {who} at the gate in {town}.",
            f"{town}, {day}. Received from {who}: {count} {item}. Reference {code}. No damage.",
            f"Could someone tell {who} that only part of {code} came? {count} {item} are missing in {town} since {day}.",
        ]
    )
    fields = {"name": who, "town": town, "item": item, "count": count, "code": code, "date": day}
    keys = rng.sample(sorted(fields), rng.randint(3, 6))
    ask = rng.choice(
        ["Extract {} as JSON.", "Return a JSON object with {}.", "From the note, list {} (JSON only)."]
    ).format(", ".join(keys))
    answer = json.dumps({key: fields[key] for key in keys}, ensure_ascii=False)
    return Example("writing", "medium", ask, text, answer, f"Look for {', '.join(keys)} one after the other.")


DISHES = words(
    "lentil soup|potato bake|mushroom rice|pea fritters|carrot cake|bean stew|leek tart|tomato noodles|pumpkin curry|oat pancakes"
)
HERBS = words("thyme|coriander|dill|smoked paprika|cumin|sage|mint|ginger|nutmeg|bay leaf|turmeric|basil")
NEEDS = words(
    "no oven|one pan only|a guest without gluten|twenty minutes|a tight budget|children who dislike spice|a camping stove"
)


def cooking(rng: Random) -> Example:
    dish, need, guests = rng.choice(DISHES), rng.choice(NEEDS), rng.randint(2, 9)
    herb, second = rng.sample(HERBS, 2)
    main = dish.split()[0]
    ask = rng.choice(
        [
            f"{dish.capitalize()} for {guests}, with {need}. How?",
            f"I have {need} and want {dish} with {herb}. Give me a recipe for {guests} people.",
            f"What goes well with {herb} in a {dish}, and in which order do I cook it? ({guests} plates, {need})",
        ]
    )
    steps = [
        f"Cut {rng.randint(1, 3)} onions and soften them in {rng.choice(['oil', 'butter', 'a splash of water'])}.",
        f"Add {guests * rng.choice([60, 80, 100])} g of {main}, {herb} and a pinch of {second}.",
        rng.choice(
            [
                "Pour in stock until everything is covered.",
                "Stir in two spoons of yoghurt.",
                "Fold in the batter gently.",
            ]
        ),
        f"Cook for {rng.randint(8, 35)} minutes on {rng.choice(['low', 'medium'])} heat.",
        rng.choice(
            ["Taste, then salt.", "Rest it for five minutes before serving.", f"Scatter {second} over it and serve."]
        ),
    ]
    tip = rng.choice(
        ["Leftovers keep two days.", f"With {need}, do the cutting first.", "A squeeze of lemon lifts it."]
    )
    answer = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1)) + f"\n\n{tip}"
    return Example("writing", "easy", ask, "", answer, f"Plan for {guests} with {need}.")


def review(rng: Random) -> Example:
    good, days = rng.choice(GOODS), rng.randint(2, 40)
    happy = rng.random() < 0.5
    praise = rng.sample(
        words(
            "light as a feather|worth every coin|simple to set up|quieter than I feared|my sister wants one too|sturdy"
        ),
        2,
    )
    blame = rng.sample(FLAWS, 2)
    inner = f"{praise[0]}, {praise[1]}" if happy else f"{blame[0]}, and {blame[1]}"
    text = f"After {days} days with the {good} from {rng.choice(TOWNS)}: {inner}. {rng.choice(['Stars do not lie.', 'Make of it what you will.', ''])}".strip()
    ask = rng.choice(
        [
            "Is this review positive or negative?",
            f"Label the opinion about the {good}: positive / negative, plus the words that show it.",
            "Would this customer buy again? Yes or no.",
        ]
    )
    if ask.startswith("Would"):
        answer = "Yes" if happy else "No"
    else:
        answer = ("Positive" if happy else "Negative") + ("" if ask.startswith("Is") else f": {inner}")
    return Example("writing", "easy", ask, text, answer, f"The writer says: {inner}.")


def plan(rng: Random) -> Example:
    group = rng.choice(
        words("five colleagues|two grandmothers|a school class|new neighbours|a choir|night nurses|retired sailors")
    )
    town, theme = (
        rng.choice(TOWNS),
        rng.choice(
            words("old bridges|birds|street food|silent films|lighthouses|clay and pottery|mosses|local legends")
        ),
    )
    hours = rng.randint(3, 8)
    ask = rng.choice(
        [
            f"Plan {hours} hours around {theme} for {group} in {town}.",
            f"{group.capitalize()} come to {town} and love {theme}. Suggest a programme of {hours} hours.",
            f"Need an outing: {town}, {group}, theme {theme}, done within {hours} hours.",
        ]
    )
    ideas = rng.sample(
        words(
            "meet at the station and hand out a small map|walk along the water and collect three questions|"
            "listen to a local who tells how it was before|draw or photograph one detail each|eat soup at long tables|"
            "vote on the best find of the day|sit in silence for ten minutes|write a postcard to someone who stayed at home|"
            "try it with your own hands|look at the same place from above"
        ),
        min(hours, 6),
    )
    answer = f"Theme: {theme}\n" + "\n".join(f"- {9 + number}:00 {idea}" for number, idea in enumerate(ideas))
    return Example("writing", "medium", ask, "", answer, f"{hours} hours, so about {len(ideas)} stations.")


# --- languages -------------------------------------------------------------------------------------------------------

# One column a language: English, German, Spanish, Chinese.
SUBJECTS = [("The baker", "Der Bäcker", "El panadero", "面包师"), ("My aunt", "Meine Tante", "Mi tía", "我的阿姨"),
            ("The old captain", "Der alte Kapitän", "El viejo capitán", "老船长"), ("Our teacher", "Unsere Lehrerin", "Nuestra profesora", "我们的老师"),
            ("A stranger", "Ein Fremder", "Un desconocido", "一个陌生人"), ("The doctor", "Die Ärztin", "La médica", "医生")]  # fmt: skip
ACTIONS = [("sells warm bread", "verkauft warmes Brot", "vende pan caliente", "卖热面包"), ("reads a long letter", "liest einen langen Brief", "lee una carta larga", "读一封长信"),
           ("repairs the blue clock", "repariert die blaue Uhr", "repara el reloj azul", "修理蓝色的钟"), ("waits for the last train", "wartet auf den letzten Zug", "espera el último tren", "等最后一班火车"),
           ("feeds the ducks", "füttert die Enten", "da de comer a los patos", "喂鸭子"), ("sings in the garden", "singt im Garten", "canta en el jardín", "在花园里唱歌"),
           ("counts the stars", "zählt die Sterne", "cuenta las estrellas", "数星星"), ("forgets the umbrella", "vergisst den Schirm", "olvida el paraguas", "忘了带伞")]  # fmt: skip
LANGUAGES = {"German": 1, "Spanish": 2, "Chinese": 3}


def translation(rng: Random) -> Example:
    language = rng.choice(sorted(LANGUAGES))
    column = LANGUAGES[language]
    pairs = [(rng.choice(SUBJECTS), rng.choice(ACTIONS)) for _ in range(rng.randint(2, 3))]
    source = " ".join(f"{subject[0]} {action[0]}." for subject, action in pairs)
    target = " ".join(f"{subject[column]} {action[column]}." for subject, action in pairs)
    if language == "Chinese":
        target = "".join(f"{subject[3]}{action[3]}。" for subject, action in pairs)
    if rng.random() < 0.3:
        source, target, language = target, source, "English"
    ask = rng.choice(
        [f"Translate into {language}.", f"Say this in {language}:", f"{language} version, please, nothing else."]
    )
    return Example("writing", "easy", ask, source, target, f"{len(pairs)} sentences, word by word.")


FOREIGN = [
    ("Wie lange muss ich ein Ei kochen, damit es weich bleibt?", "Etwa fünf Minuten in sprudelndem Wasser. Danach kurz kalt abschrecken."),
    ("Schreibe eine kurze Absage für eine Einladung zum Grillabend.", "Liebe Hanna, danke für die Einladung! Leider bin ich an dem Abend schon verplant. Habt viel Spaß, ich komme beim nächsten Mal gern."),
    ("Was ist der Unterschied zwischen Wetter und Klima?", "Wetter ist der Zustand der Luft heute und hier. Klima ist der Durchschnitt über viele Jahre."),
    ("Ein Zug fährt 180 km in zwei Stunden. Wie schnell ist er im Mittel?", "180 / 2 = 90. Er fährt im Mittel 90 km/h."),
    ("Erkläre in zwei Sätzen, was ein Index in einer Datenbank tut.", "Ein Index ist ein sortiertes Verzeichnis der Werte einer Spalte. Damit findet die Datenbank Zeilen, ohne die ganze Tabelle zu lesen."),
    ("Nenne drei Dinge, die in einen Erste-Hilfe-Kasten gehören.", "Verbandpäckchen, Heftpflaster und Einmalhandschuhe."),
    ("Mein Fahrrad quietscht beim Bremsen. Woran kann das liegen?", "Meist sind Felge oder Beläge verschmutzt. Reinige beides mit Spiritus und richte die Beläge neu aus."),
    ("¿Cómo se guarda el pan para que no se ponga duro?", "Envuélvelo en un paño y déjalo en un lugar seco. Lo que no comas en dos días, congélalo en rebanadas."),
    ("Escribe un mensaje breve para pedir cita en la peluquería.", "Buenos días, quisiera una cita para cortarme el pelo el jueves por la tarde. ¿Tienen un hueco a las cinco?"),
    ("¿Por qué flota un barco de acero?", "Porque su forma contiene mucho aire. En conjunto pesa menos que el agua que desplaza."),
    ("Si tres lápices cuestan 45 céntimos, ¿cuánto cuestan siete?", "Uno cuesta 45 / 3 = 15 céntimos. Siete cuestan 7 x 15 = 105 céntimos."),
    ("Resume en una frase: el puente se cerró porque el río subió dos metros durante la noche.", "El puente está cerrado por la crecida nocturna del río."),
    ("¿Qué hace la orden git stash?", "Guarda los cambios sin confirmar y deja limpio el directorio de trabajo. Con git stash pop se recuperan."),
    ("为什么冬天呼吸时会看到白气?", "呼出的空气温暖而潮湿,遇到冷空气后,水蒸气凝结成细小的水滴,看起来就像白气。"),
    ("请写一句话,感谢邻居帮忙照顾猫。", "谢谢您这几天帮我照顾小猫,它看起来很开心!"),
    ("一本书有二百四十页,每天读三十页,需要几天?", "240 ÷ 30 = 8,需要八天。"),
    ("列出三种适合初学者的乐器。", "尤克里里、口琴和电子琴。"),
    ("用一句话解释什么是递归。", "递归就是一个函数在解决问题时调用自己来处理更小的同类问题。"),
    ("怎样让绿茶不苦?", "水温保持在八十度左右,泡两分钟就取出茶叶。"),
    ("把这句话改得更礼貌:把窗户关上。", "麻烦您把窗户关一下,好吗?谢谢。"),
]  # fmt: skip


def foreign(rng: Random) -> Example:
    ask, answer = rng.choice(FOREIGN)
    return Example("writing", "easy", ask, "", answer, "")


GENERATORS: dict[str, Callable[[Random], Example]] = {
    "science_why": science_why, "science_number": science_number, "letter": letter, "summary": summary,
    "extraction": extraction, "cooking": cooking, "review": review, "plan": plan, "translation": translation,
    "foreign": foreign,
}  # fmt: skip
