"""The words an analyser must know: what a question is made of, irregular forms, months, numbers. Data only.

Every list is short on purpose: what is not here is handled by the rarity of a word in the group (IDF).
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _listed(text: str) -> list[str]:
    return text.split()


CATEGORY_STOP: Final[frozenset[str]] = _words("""
    user users preference preferences general note notes misc fact facts memory memories info information
    """)
"""Words of categories that say nothing of what is in them."""

STOP: Final[dict[str, frozenset[str]]] = {
    "english": _words("""
        a about above after again against all also am an and any are aren't as at be because been before being below
        between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each
        else ever few for from further get gets getting got had hadn't has hasn't have haven't having he her here hers
        herself him himself his how i i'd i'll i'm i've if in into is isn't it it's its itself just let let's like may
        me might more most much must my myself no nor not of off on once only or other our ours ourselves out over own
        please same shall she should so some such than that that's the their theirs them themselves then there there's
        these they they'd they'll they're they've this those through to too under until up upon us very was wasn't we
        we'd we'll we're we've were weren't what what's when when's where where's which while who who's whom whose why
        will with within without won't would wouldn't you you'd you'll you're you've your yours yourself yourselves
        ok okay hi hello hey thanks thank yes yeah um uh oh well so actually really basically honestly anyway maybe
        """),
    "german": _words("""
        aber alle als am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den der des dich
        die dies diese dieser dieses dir doch du ein eine einem einen einer eines er es euch euer für gegen hab habe
        haben hast hat hatte hatten ich ihm ihn ihnen ihr ihre im in ins ist ja jede jeder kann kannst kein keine man
        mein meine meinem meinen meiner mich mir mit nach nicht noch nun nur ob oder ohne schon sein seine sich sie
        sind so über um und uns unser unsere unter vom von vor wann war waren warum was wegen weil welche welchem
        welchen welcher welches wem wen wenn wer wessen wie wieso wir wird wo wohin woher wurde wurden zu zum zur
        """),
    "french": _words("""
        ai as au aux avec avait avez avons c ce ces cet cette comme comment d dans de des du elle elles en est et eu
        il ils j je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on ont ou où par pas pour
        pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses son sont sur t ta te tes toi ton tu
        un une vos votre vous y a à été était étaient êtes être est-ce
        """),
    "spanish": _words("""
        a al algo como cómo con cual cuál cuáles cuando cuándo cuánto cuánta cuántos cuántas de del desde donde dónde
        el ella ellas ellos en era eres es esa ese eso esta está este esto fue ha había han has hay he hemos la las le
        les lo los me mi mis muy no nos nosotros nuestra nuestro o para pero por porque que qué quien quién se ser si
        sin sobre son soy su sus también te tiene tu tus un una unos unas y ya yo
        """),
    "italian": _words("""
        a ai al alla alle anche c che chi ci come con cosa cui da dal dalla dei del della delle di dove e è era ha hai
        hanno ho i il in io l la le lei lo loro lui ma mi mia mie miei mio nel nella non o per perché più qual quale
        quali quando quanto quanti se sei si sono su sua suo sul sulla tu tua tuo un una uno vi
        """),
    "portuguese": _words("""
        a ao aos as até com como da das de do dos e é ela ele eles em era essa esse esta está este eu foi há isso isto
        lhe mais mas me meu meus minha minhas na não nas no nos nós o onde os ou para pela pelo por porque quais qual
        quando quanto quantos que quem se sem ser seu sua são também te tem tinha tu um uma você vocês
        """),
    "dutch": _words("""
        aan al als bij dan dat de den der deze die dit door een en er ge geen had heb hebben heeft het hij hoe hun ik
        in is je jij jou jouw kan maar me met mij mijn naar niet nog of om onder ons onze ook op over te tot u uit van
        veel voor waar waarom wanneer was wat we welk welke werd wie wij wordt zal ze zei zij zijn zo
        """),
}
"""Snowball's name of a language -> its function words, accents as written, casefolded."""

CJK_STOP: Final = _listed(
    "为什么 為什麼 什么时候 什麼時候 多少 什么 什麼 怎么样 怎么 怎麼 哪里 哪裡 哪儿 哪个 哪些 哪位 哪 谁 誰 "
    "是不是 有没有 有沒有 我们 我們 你们 你們 他们 她们 咱们 我 你 您 他 她 它 的 了 吗 嗎 呢 吧 啊 呀 和 与 與 "
    "是 在 把 被 就 都 也 还 還 很 请 請 请问 告诉 告訴 过 過 着 地 得 这个 那个 这 那 這 那 一下 之前 关于 "
    "いつ どこ どの どんな なに 何 誰 だれ なぜ どう ですか ますか でしたか ましたか です ます でした ました "
    "について という から まで には では とは の は が を に で と も へ か"
)
"""What a Chinese or Japanese question is made of; longest first when cut out of a run."""

IRREGULAR: Final[dict[str, str]] = {
    form: base
    for line in """
        be: am is are was were been being
        become: became
        begin: began begun
        bite: bit bitten
        blow: blew blown
        break: broke broken
        bring: brought
        build: built
        burn: burnt
        buy: bought
        catch: caught
        choose: chose chosen choice
        come: came
        cost: costs
        deal: dealt
        die: died dying death
        dig: dug
        do: did done does
        draw: drew drawn
        dream: dreamt
        drink: drank drunk
        drive: drove driven
        eat: ate eaten
        fall: fell fallen
        feed: fed
        feel: felt
        fight: fought
        find: found
        fly: flew flown flight
        forget: forgot forgotten
        forgive: forgave forgiven
        freeze: froze frozen
        get: got gotten
        give: gave given
        go: went gone
        grow: grew grown growth
        hang: hung
        have: has had
        hear: heard
        hide: hid hidden
        hold: held
        keep: kept
        know: knew known
        lead: led
        lend: lent
        lose: lost loss
        make: made
        mean: meant
        meet: met
        pay: paid
        ride: rode ridden
        ring: rang rung
        rise: rose risen
        run: ran
        say: said
        see: saw seen
        sell: sold
        send: sent
        sew: sewn
        shake: shook shaken
        shoot: shot
        show: shown
        sing: sang sung
        sink: sank sunk
        sit: sat
        sleep: slept
        speak: spoke spoken
        spend: spent
        stand: stood
        steal: stole stolen
        stick: stuck
        strike: struck
        swim: swam swum
        take: took taken
        teach: taught
        tear: tore torn
        tell: told
        think: thought
        throw: threw thrown
        understand: understood
        wake: woke woken
        wear: wore worn
        weigh: weight
        win: won
        write: wrote written
        child: children
        foot: feet
        knife: knives
        life: lives
        man: men
        mouse: mice
        person: people
        tooth: teeth
        wife: wives
        wolf: wolves
        woman: women
        marry: married marriage
        """.strip().splitlines()
    for base, forms in [line.split(":")]
    for form in forms.split()
    for base in [base.strip()]
}
"""Irregular English form -> base form; before stemming."""

NUMBERS: Final[dict[str, str]] = {
    word: str(value)
    for value, word in enumerate(_listed("zero one two three four five six seven eight nine ten eleven twelve"))
    if word != "one"
} | {"twice": "2", "thirteen": "13", "fourteen": "14", "fifteen": "15", "twenty": "20", "thirty": "30"}
"""Number words as digits; "one" is a pronoun more often than a number."""

MONTHS: Final[dict[str, int]] = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero gennaio janeiro januari",
            "february feb februar février febrero febbraio fevereiro februari",
            "march mar märz mars marzo março maart",
            "april apr avril abril aprile",
            "may mai mayo maggio maio mei",
            "june jun juni juin junio giugno junho",
            "july jul juli juillet julio luglio julho",
            "august aug août agosto augustus",
            "september sep sept septembre septiembre settembre setembro",
            "october oct oktober octobre octubre ottobre outubro",
            "november nov novembre noviembre novembro",
            "december dec dezember décembre diciembre dicembre dezembro",
        ),
        1,
    )
    for name in names.split()
}
WEEKDAYS: Final[dict[str, int]] = {
    name: number
    for number, names in enumerate(
        (
            "monday montag lundi lunes",
            "tuesday dienstag mardi martes",
            "wednesday mittwoch mercredi miércoles",
            "thursday donnerstag jeudi jueves",
            "friday freitag vendredi viernes",
            "saturday samstag samedi sábado",
            "sunday sonntag dimanche domingo",
        )
    )
    for name in names.split()
}
"""Name -> weekday as `datetime.weekday` counts; casefolded, accents as written."""

TIME_WORDS: Final = _words("""
    yesterday today tomorrow tonight ago last next week weekend month year day morning evening afternoon night recently
    soon monday tuesday wednesday thursday friday saturday sunday january february march april june july august
    september october november december summer winter spring autumn fall birthday since until weeks months years days
    gestern heute morgen woche monat jahr tag hier aujourd'hui demain semaine mois année jour ayer hoy mañana semana
    mes año día
    """)
"""What says when something was; analysed like any other text before it is compared."""

CJK_TIME: Final = _listed(
    "昨天 今天 明天 前天 后天 上周 下周 上个 下个 去年 今年 明年 周末 星期 昨日 今日 明日 先週 来週 先月"
)
