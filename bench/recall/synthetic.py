"""A small set of our own (MIT, like the project): four kinds of conversation, made from facts in passing.

Two friends who chat in short lines; a user and an assistant who answers at length and in the user's own words; three
people on a software project; the first two kinds again in Chinese. Every fact is said once, in passing; around it stand
turns that use the same words. Small enough for the tests, where it guards against changes that help one kind and hurt
another.

`written` are eleven more in `sets/`, in LoCoMo's format and written before the ranking was looked at: a German family
of four, friends in French, Russian, Arabic, Japanese and Korean, a Spanish user and a wordy assistant, a Chinese team
with long messages, English operations with identifiers and error messages, an English user who tells an assistant much
and ends with a question, and a diary of unrelated facts, minutes to days apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.recall import locomo
from bench.recall.cases import Conversation, Question, Turn
from honeybadger_host.search.language.analyzer import STOP

SETS = Path(__file__).parent / "sets"
# Among them (`bana`, `dela`) every text would seem to be in another language.
_FUNCTION_WORDS = frozenset().union(*STOP.values())


@dataclass(frozen=True, slots=True)
class _Scene:
    """One session: (author, text) in order; questions with the place of the turn that answers them."""

    turns: tuple[tuple[str, str], ...]
    questions: tuple[tuple[str, int], ...]


def conversations() -> list[Conversation]:
    """Return the whole set; the same every time."""
    return [
        _told("friends", _FRIENDS),
        _told("assistant", tuple(_assistant(_USER_FACTS, _ADVICE, "user", "assistant"))),
        _told("project", _PROJECT),
        _told("朋友", _FRIENDS_CHINESE),
        _told("助手", tuple(_assistant(_USER_FACTS_CHINESE, _ADVICE_CHINESE, "用户", "助手"))),
    ]


def written() -> list[Conversation]:
    """Return the sets in `sets/`."""
    return [conversation for path in sorted(SETS.glob("*.json")) for conversation in locomo.load(path)]


def among(talk: Conversation, others: Sequence[Conversation]) -> Conversation:
    """Return a conversation in a group where others talked as well: how it is found in a long history."""
    before = [replace(turn, session=f"{each.name}, {turn.session}") for each in others for turn in each.turns]
    questions = tuple(
        replace(
            question,
            evidence=tuple(place + len(before) for place in question.evidence),
            now=talk.now(question).timestamp(),
        )
        for question in talk.questions
    )
    return replace(talk, turns=(*before, *talk.turns), questions=questions)


def vocabulary(size: int) -> list[str]:
    """Return different words of two to four syllables, for texts that only have to be long; of no language."""
    syllables = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = ("".join(parts) for count in (2, 3, 4) for parts in itertools.product(syllables, repeat=count))
    return list(itertools.islice((word for word in words if word not in _FUNCTION_WORDS), size))


def _told(name: str, scenes: Sequence[_Scene]) -> Conversation:
    turns: list[Turn] = []
    questions: list[Question] = []
    begin = datetime(2026, 1, 5, 18, 30, tzinfo=UTC)
    for number, scene in enumerate(scenes):
        at = begin + timedelta(days=9 * number)
        first = len(turns)
        turns += [
            Turn(f"session {number + 1}", author, text, (at + timedelta(minutes=place)).timestamp())
            for place, (author, text) in enumerate(scene.turns)
        ]
        questions += [Question(text, (first + place,), name) for text, place in scene.questions]
    return Conversation(name, tuple(turns), tuple(questions))


def _assistant(
    facts: Sequence[tuple[str, str, str]], advice: Sequence[str], user: str, assistant: str
) -> Iterator[_Scene]:
    """Yield a session for every fact: it is said in passing, and the answer repeats the subject without it."""
    for number, (subject, said, question) in enumerate(facts):
        answers = [advice[(number + step) % len(advice)].format(subject) for step in range(3)]
        after = advice[(number + 3) % len(advice)].format(subject).split("。" if "。" in advice[0] else ". ")[0]
        yield _Scene(
            ((user, said), (assistant, " ".join(answers)), (user, f"{after}?"), (assistant, answers[0])),
            ((question, 0),),
        )


_FRIENDS = (
    _Scene(
        (
            ("Nora", "Hey Tom! How was your week?"),
            ("Tom", "Busy. The choir starts again on Thursday and I still can't sing the second part."),
            ("Nora", "You'll manage. I signed up for a pottery course, by the way."),
            ("Tom", "Oh nice! What made you do it?"),
            ("Nora", "My grandmother's old vase broke and I want to make a new one."),
            ("Tom", "Sweet. I broke my bike last Saturday, so I walk everywhere."),
        ),
        (
            ("Which course did Nora sign up for?", 2),
            ("Why does Nora want to make a vase?", 4),
            ("When did Tom break his bike?", 5),
        ),
    ),
    _Scene(
        (
            ("Tom", "Guess what, we adopted a cat."),
            ("Nora", "No way! What's the name?"),
            ("Tom", "Pickles. She is three years old and afraid of the vacuum cleaner."),
            ("Nora", "Poor thing. My dog is the same with thunder."),
            ("Tom", "How is the pottery going?"),
            ("Nora", "My first bowl cracked in the kiln, the second one is fine."),
        ),
        (
            ("What is the name of Tom's cat?", 2),
            ("How old is Tom's pet?", 2),
            ("What is Nora's dog afraid of?", 3),
            ("What happened to Nora's first bowl?", 5),
        ),
    ),
    _Scene(
        (
            ("Nora", "I ran the half marathon yesterday!"),
            ("Tom", "Wow, how long did it take?"),
            ("Nora", "Two hours and five minutes, my knee hurts."),
            ("Tom", "Great time. I would need the whole day and a taxi."),
            ("Nora", "Haha. Are you coming to my birthday on the 12th?"),
            ("Tom", "Sure, I will bring the lemon cake that my sister bakes."),
        ),
        (
            ("How long did the half marathon take Nora?", 2),
            ("What will Tom bring to the birthday?", 5),
            ("When did Nora run the half marathon?", 0),
        ),
    ),
    _Scene(
        (
            ("Tom", "The choir sang in the town hall on Sunday, and I had a solo."),
            ("Nora", "A solo? You? Were your parents there?"),
            ("Tom", "My mother flew in from Lisbon. She cried."),
            ("Nora", "Of course she did. I wish I had heard it."),
            ("Tom", "There is a recording. I also bought a new bike, a green one."),
            ("Nora", "Finally! Let's ride to the lake when my knee is better."),
        ),
        (
            ("Where did the choir sing?", 0),
            ("Where does Tom's mother come from?", 2),
            ("What colour is Tom's new bicycle?", 4),
            ("Where does Nora want to ride?", 5),
        ),
    ),
    _Scene(
        (
            ("Nora", "I start a new job in March, at the harbour museum."),
            ("Tom", "Congratulations! What will you do there?"),
            ("Nora", "Plan exhibitions for children. The first is about whales."),
            ("Tom", "My nephew is crazy about whales. He is six."),
            ("Nora", "Bring him, I get free tickets."),
            ("Tom", "He will never leave. Pickles says hello, she ate my headphones."),
        ),
        (
            ("Where does Nora work?", 0),
            ("What is Nora's first exhibition about?", 2),
            ("How old is Tom's nephew?", 3),
            ("What did the cat eat?", 5),
        ),
    ),
)

_PROJECT = (
    _Scene(
        (
            ("mira", "The build takes 14 minutes again, who changed the cache?"),
            ("jon", "Me, I moved it from GitHub Actions to our own runner."),
            ("ana", "Please note it down. Where is the runner?"),
            ("jon", "On the old box in the cellar, 192.168.4.20, user ci."),
            ("mira", "And the time zone there is wrong, all logs are two hours off."),
            ("jon", "Set TimeZone=UTC in the unit file then, I have no access right now."),
        ),
        (
            ("Where did Jon move the build cache?", 1),
            ("What is the address of the CI runner?", 3),
            ("How do we fix the timezone of the logs?", 5),
        ),
    ),
    _Scene(
        (
            ("ana", "Decision from today: the API is written in Go, the UI in TypeScript."),
            ("mira", "And the import tool stays in C#, nobody wants to port it."),
            ("jon", "Then we need the .NET 8 runtime on the server."),
            ("ana", "Yes. Coding style: tabs in Go, two spaces elsewhere."),
            ("mira", "Max line length?"),
            ("ana", "100. The linter says so anyway, see lint.toml."),
        ),
        (
            ("In which language is the import tool?", 1),
            ("Which runtime does the server need?", 2),
            ("What is the language of the UI?", 0),
            ("What is our maximum line length?", 5),
        ),
    ),
    _Scene(
        (
            ("jon", "Prod went down at 3:15, the disk was full of core dumps."),
            ("mira", "I deleted 40 GB. Who gets the alerts at night?"),
            ("ana", "Nobody at the moment, the pager contract ended in December."),
            ("jon", "I take the next two weeks, then Mira."),
            ("mira", "Only if we limit core dumps with systemd-coredump, MaxUse=2G."),
            ("ana", "Agreed. I write the post-mortem."),
        ),
        (
            ("Why did production go down?", 0),
            ("When did the pager contract end?", 2),
            ("How do we limit core dumps?", 4),
            ("Who writes the postmortem?", 5),
        ),
    ),
    _Scene(
        (
            ("mira", "The customer wants an export as CSV and as Parquet."),
            ("ana", "Which customer?"),
            ("mira", "The Rotterdam port authority, contact is Mr. de Vries."),
            ("jon", "CSV is easy: semicolons, UTF-8 with a BOM because of Excel."),
            ("ana", "Parquet goes to version 2.4, not into this release."),
            ("mira", "I promised the CSV for Friday, 12 June."),
        ),
        (
            ("Who is the contact at the port of Rotterdam?", 2),
            ("Which separator does the CSV export use?", 3),
            ("Which version gets Parquet?", 4),
            ("Until when did Mira promise the CSV export?", 5),
        ),
    ),
)

_USER_FACTS = (
    (
        "training a puppy",
        (
            "I'm looking for advice on training a puppy. We brought her home two weeks ago, her name is Biscuit "
            "and she is a corgi, and she chews on everything in the flat, mostly shoes and the legs of the "
            "kitchen table."
        ),
        "What breed is my dog?",
    ),
    (
        "a balanced breakfast",
        (
            "Can you suggest a balanced breakfast that takes ten minutes? I have to be careful because I found "
            "out last year that I can't have anything with hazelnuts, and I get up at five for my shift at the "
            "bakery."
        ),
        "Which nuts am I not allowed to eat?",
    ),
    (
        "planning a trip to Japan",
        (
            "I need help with planning a trip to Japan in autumn. We will be four people, my parents come along, "
            "and we have already booked a house in Kanazawa for nine nights; what else is worth seeing from there"
            " by train?"
        ),
        "In which city did I book a house for the trip?",
    ),
    (
        "learning the cello",
        (
            "What would be a realistic plan for learning the cello as an adult? I rented one in Leipzig for 45 "
            "euros a month and my teacher, Mrs. Arendt, only has time every second Tuesday."
        ),
        "How much do I pay for my cello every month?",
    ),
    (
        "a home office",
        (
            "Give me some ideas for a home office in a small room, please. It's the room to the north, 2.4 metres"
            " wide, and the desk that I inherited from my uncle Albert has to stay because he built it himself."
        ),
        "Who built my desk?",
    ),
    (
        "saving money",
        (
            "I'd like tips for saving money on groceries. At the moment I spend about 620 dollars every month, "
            "most of it at the organic store on Maple Street, which is simply the one on my way home."
        ),
        "How much do I spend on groceries?",
    ),
    (
        "running after an injury",
        (
            "How should I begin with running after an injury? I tore my left meniscus while skiing in February, "
            "and the doctor said I may start with ten minutes in week eight."
        ),
        "How did I hurt my knee?",
    ),
    (
        "growing tomatoes",
        (
            "My tomatoes get brown spots, do you know growing tomatoes on a balcony? I have six plants of a "
            "variety called Black Krim, which my neighbour Ines gave me as seedlings."
        ),
        "Which variety of tomatoes do I grow?",
    ),
    (
        "reading more books",
        (
            "I'm trying to get into reading more books this year. So far I have finished seven, the best one was "
            "about the history of salt, and I mostly read in the tram between Gohlis and the centre."
        ),
        "How many books have I finished this year?",
    ),
    (
        "choosing a camera",
        (
            "Help me with choosing a camera for bird watching. My budget is around 1,400, and I would keep the "
            "old 300 mm lens that I got from my wife for our tenth anniversary."
        ),
        "What did my wife give me for our anniversary?",
    ),
    (
        "a wedding speech",
        (
            "I have to give a wedding speech for my brother Emil and need a structure. They met at a climbing gym"
            " in Graz, which is a funny story, since she dropped a shoe on his head."
        ),
        "Where did my brother meet his wife?",
    ),
    (
        "better sleep",
        (
            "What helps for better sleep? I moved next to a railway line in Ghent, and since then I wake up at "
            "four, and the earplugs that I bought fall out."
        ),
        "Why do I wake up so early?",
    ),
)

_ADVICE = (
    (
        "When it comes to {0}, it helps to begin with a small and regular routine: decide what you want to reach "
        "with {0}, write it down, and look at it again after two weeks. Many people find that {0} becomes easier "
        "as soon as it has its own place in the day."
    ),
    (
        "A second point about {0} is to ask others how they went about it, because books on {0} rarely mention "
        "what goes wrong in the first month. You can also keep a list of what worked, how much it cost and how "
        "long it took."
    ),
    (
        "Finally, do not buy too much for {0} at the beginning. Start with what you have at home, see which part "
        "of {0} you enjoy the most, and spend money, time and energy on exactly that part. I hope this helps you "
        "with {0}!"
    ),
    (
        "For {0} there are three common mistakes. The first is to do everything at once, the second is to give up"
        " after a bad week, and the third is to compare yourself with people who have been doing {0} for years."
    ),
    (
        "If you tell me more about your situation, your family and your day, I can make a weekly plan for {0} "
        "with times and amounts. Until then, fifteen minutes a day for {0} are a good beginning."
    ),
)

_FRIENDS_CHINESE = (
    _Scene(
        (
            ("小林", "最近怎么样？好久没见了。"),
            ("阿杰", "挺忙的，上个月换了工作，现在在一家做地图的公司上班。"),
            ("小林", "恭喜！那你还住在以前的地方吗？"),
            ("阿杰", "没有，搬到了西湖旁边，走路十分钟就到公司。"),
            ("小林", "真羡慕。我每天坐地铁要一个小时。"),
            ("阿杰", "周末来玩吧，我养了一只橘猫，叫年糕。"),
        ),
        (
            ("阿杰现在在什么公司工作？", 1),
            ("阿杰搬到了哪里？", 3),
            ("阿杰的猫叫什么名字？", 5),
            ("小林上班路上要多久？", 4),
        ),
    ),
    _Scene(
        (
            ("小林", "昨天我去听了音乐会，拉大提琴的是我妹妹。"),
            ("阿杰", "你妹妹会拉大提琴？学了多久？"),
            ("小林", "从七岁开始，已经十五年了。"),
            ("阿杰", "太厉害了。我只会弹一点吉他。"),
            ("小林", "她下个月去维也纳比赛。"),
            ("阿杰", "希望她拿奖！我到时候给她做个蛋糕。"),
        ),
        (
            ("小林的妹妹学什么乐器？", 0),
            ("小林的妹妹几岁开始学琴？", 2),
            ("比赛在哪个城市举行？", 4),
            ("阿杰会什么乐器？", 3),
        ),
    ),
    _Scene(
        (
            ("阿杰", "年糕生病了，昨晚带它去了医院。"),
            ("小林", "啊，严重吗？"),
            ("阿杰", "医生说是吃了塑料袋，打了针，花了八百块。"),
            ("小林", "可怜的年糕。我对猫毛过敏，不然就去看它。"),
            ("阿杰", "没事，已经好了。你的驾照考得怎么样？"),
            ("小林", "第三次才通过，倒车总是出错。"),
        ),
        (("年糕为什么去医院？", 2), ("小林对什么过敏？", 3), ("小林考了几次驾照？", 5), ("看病花了多少钱？", 2)),
    ),
    _Scene(
        (
            ("小林", "国庆节你打算去哪里？"),
            ("阿杰", "想去敦煌看壁画，票已经买好了，十月二号出发。"),
            ("小林", "一个人去吗？"),
            ("阿杰", "和大学室友老周一起，他是摄影师。"),
            ("小林", "我在家陪奶奶，她今年八十大寿。"),
            ("阿杰", "替我祝她生日快乐，我寄一盒龙井给她。"),
        ),
        (
            ("阿杰国庆节去哪里旅行？", 1),
            ("谁和阿杰一起去旅行？", 3),
            ("小林的奶奶今年多大？", 4),
            ("阿杰给奶奶寄什么礼物？", 5),
        ),
    ),
)

_USER_FACTS_CHINESE = (
    (
        "学做面包",
        "我想学做面包，家里的烤箱是妈妈送的，品牌是海氏，只有三十二升。每次做出来的面包都很硬，请给我一些建议。",
        "我的烤箱是什么牌子的？",
    ),
    (
        "减肥计划",
        "帮我制定一个减肥计划吧。我现在七十八公斤，膝盖去年打篮球的时候受过伤，所以不能跑步。",
        "我的膝盖是怎么受伤的？",
    ),
    (
        "旅行路线",
        "请帮我安排一条旅行路线，我们一家五口春节要去云南，已经在大理订了四晚的民宿。",
        "我在大理订了几晚的住宿？",
    ),
    (
        "学习法语",
        "我最近开始学习法语，因为公司要派我去里昂工作两年，老师建议我每天背二十个单词。",
        "公司要派我去哪个城市工作？",
    ),
    (
        "装修书房",
        "我在考虑装修书房，房间朝北，只有八平方米，里面有一张爷爷留下来的红木书桌，不想扔掉。",
        "我的书桌是谁留下的？",
    ),
    ("养多肉植物", "养多肉植物有什么窍门？同事小吴送了我六盆，放在阳台上，结果有两盆烂根了。", "多肉是谁送给我的？"),
    (
        "改善睡眠",
        "怎么改善睡眠？自从搬到机场附近，我每天凌晨四点就醒了，白天开会总是打瞌睡。",
        "我为什么每天很早就醒？",
    ),
    ("准备面试", "我下周三要去一家游戏公司面试，职位是关卡设计师，请告诉我怎么准备面试。", "我要面试什么职位？"),
    ("学游泳", "三十五岁学游泳晚吗？我报了体育馆的夜班课，每节课六十元，教练姓孟。", "游泳课每节多少钱？"),
    (
        "写婚礼致辞",
        "我弟弟下个月结婚，我要写婚礼致辞。他们是在一家攀岩馆认识的，新娘的鞋掉在他头上。",
        "我弟弟和新娘是在哪里认识的？",
    ),
)

_ADVICE_CHINESE = (
    "关于{0}，最重要的是先定一个小目标，每天坚持一点。你可以把{0}的过程写下来，两周以后再回头看看哪些地方有进步。",
    "其次，{0}的时候可以多问问有经验的人，因为书上很少提到{0}第一个月会遇到的困难。记得记录花了多少钱、用了多长时间。",
    "最后，刚开始{0}不要买太多东西，先用家里现有的，看看自己最喜欢{0}的哪个部分，再决定要不要投入更多的精力。",
    "{0}有三个常见的错误：一是想一次做完，二是遇到困难就放弃，三是总和别人比较。希望这些对你的{0}有帮助。",
    "如果你告诉我更多情况，比如家人、工作和时间安排，我可以为你的{0}做一份每周计划。现在先每天花十五分钟在{0}上吧。",
)
