"""The words an analyser must know: irregular forms, months, numbers. Data only.

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

COMMON: Final[dict[str, frozenset[str]]] = {
    "english": _words("""
        able add address age agree allow amount animal answer apply area arrive ask away baby back bad base beautiful
        become bed begin believe best better big birthday black blue boat body book boy break bring brother build
        business busy buy call car care carry case cat cause certain chance change cheap check child choose city class
        clear close cold colour color come common company complete consider contain continue cook cost count country
        couple course create cut date daughter day deal decide depend detail develop difference different difficult
        dinner dog door draw dream drink drive early easy eat email end enjoy enough event everybody everyone
        everything example exist expect expensive explain eye face fact family fast father favorite favourite feel
        field file fill final find fine finish fit fix flower food foot forget form free friend full fun game general
        girl give go good great green group grow guess guy half hand happen happy hard head health hear help high
        hold holiday home hope hot hour house idea important include info information interest issue item job join
        keep kid kind kitchen know language large last late learn leave left less lesson letter level life light
        line list listen little live local long look lose lot love low lunch main make man manage many matter mean
        meet meeting member mention message mind minute money month morning mother move movie much music name near
        need new news next nice night note nothing notice number offer office old open opinion option order overview
        part party pay people person phone photo pick picture piece place plan play point possible present price
        problem progress project provide pull purpose put question quick quite rate read ready real reason recent
        recommend red regard relate remember remind report result return review right road room rule run safe school
        second see seem send sense service set share shop short show side simple single sister sit situation size
        small social some somebody someone something son soon sort sound speak special specific spend stand start
        state status stay step still stop story strategy street strong student study stuff subject suggest sure
        system table take talk task teach teacher team tell term thing think time title today together tomorrow
        tonight topic total town travel trip true try turn type understand update use useful user usual value visit
        wait walk want watch water way wear weather week weekend white whole wife win wish woman wonder word work
        world worry write wrong year yesterday young
        """),
    "german": _words("""
        abend alt ander anfang arbeit arbeiten arzt auge auto baum beginn beispiel bekommen besser beste bild bitte
        bleiben brauchen bringen bruder buch denken ding eltern ende erinnern erklären erzählen essen fahren familie
        farbe finden frage fragen frau freund freundin ganz geben gefallen gehen geld genau geschichte gestern groß
        grund gruppe gut halten hand haus heißen helfen heute hören hund idee information jahr jung kaffee katze
        kaufen kennen kind klein kommen kosten lage land lange lassen leben legen leicht lernen letzte leute lieb
        liegen machen mann mensch minute mögen monat morgen mutter nacht nachbar name nehmen neu nummer oma opa ort
        person plan platz preis problem projekt punkt rest richtig rot sache sagen schlecht schnell schön schreiben
        schule schwester sehen sohn spielen sprechen stadt stand stehen stelle straße stück stunde suchen tag teil
        thema tochter treffen trinken tun urlaub vater verstehen viel wasser weg weiß welt wichtig wissen woche
        wohnen wohnung wort zahl zeigen zeit ziehen zimmer
        """),
}
"""Language -> words that say little about what a text is about, however few texts of a group have them.

Every other word may name what a group is about: having it in many entries does not make it a common one.
"""

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
            "january jan januar janvier enero gennaio janeiro januari январь января январе styczeń stycznia styczniu",
            "february feb februar février febrero febbraio fevereiro februari февраль февраля феврале luty lutego",
            "march mar märz mars marzo março maart марта марте marca marcu",
            "april apr avril abril aprile апрель апреля апреле kwiecień kwietnia kwietniu",
            "may mai mayo maggio maio mei maj май мая мае maja maju",
            "june jun juni juin junio giugno junho июнь июня июне czerwca czerwcu",
            "july jul juli juillet julio luglio julho июль июля июле lipca lipcu",
            "august aug août agosto augustus augusti август августа августе sierpnia sierpniu",
            "september sep sept septembre septiembre settembre setembro сентябрь сентября сентябре września wrześniu",
            "october oct oktober octobre octubre ottobre outubro октябрь октября октябре października październiku",
            "november nov novembre noviembre novembro ноябрь ноября ноябре listopada listopadzie",
            "december dec dezember décembre diciembre dicembre dezembro декабрь декабря декабре grudnia grudniu",
        ),
        1,
    )
    for name in names.split()
}
WEEKDAYS: Final[dict[str, int]] = {
    name: number
    for number, names in enumerate(
        (
            "monday montag lundi lunes lunedì segunda-feira maandag måndag mandag понедельник poniedziałek",
            "tuesday dienstag mardi martes martedì terça-feira dinsdag tisdag tirsdag вторник wtorek",
            "wednesday mittwoch mercredi miércoles mercoledì quarta-feira woensdag onsdag среда среду środa środę",
            "thursday donnerstag jeudi jueves giovedì quinta-feira donderdag torsdag четверг czwartek",
            "friday freitag vendredi viernes venerdì sexta-feira vrijdag fredag пятница пятницу piątek",
            "saturday samstag samedi sábado sabato zaterdag lördag lørdag суббота субботу sobota sobotę",
            "sunday sonntag dimanche domingo domenica zondag söndag søndag воскресенье niedziela niedzielę",
        )
    )
    for name in names.split()
}
"""Name -> weekday as `datetime.weekday` counts; casefolded, accents as written."""

DAYS_BACK: Final[dict[str, int]] = {
    name: back
    for back, names in enumerate(
        (
            "today tonight heute aujourd'hui hoy oggi hoje vandaag idag сегодня dziś dzisiaj bugün",
            "yesterday gestern hier ayer anoche ieri ontem gisteren igår вчера wczoraj dün",
            "vorgestern avant-hier anteayer anteontem eergisteren позавчера przedwczoraj",
        )
    )
    for name in names.split()
}
"""What says a day by how long ago it is -> how many days."""

_STRETCHES: Final = """
    1: day days tag tage tagen jour jours día días giorno giorni dia dias dag dagen dagar день дня дней dzień dni
    7: week weeks woche wochen semaine semaines semana semanas settimana settimane weken vecka veckor
    7: неделя неделю неделе недели недель tydzień tygodnie tygodni tygodniu
    30: month months monat monate monaten mois mes meses mese mesi mês maand maanden månad månader
    30: месяц месяца месяце месяцев miesiąc miesiące miesięcy miesiącu
    365: year years jahr jahre jahren an ans année années año años anno anni ano anos jaar jaren år
    365: год года году лет rok roku lata lat
    """
UNITS: Final[dict[str, int]] = {
    name: int(days)
    for line in _STRETCHES.strip().splitlines()
    for days, names in [line.split(":")]
    for name in names.split()
}
"""Name of a stretch of time -> its days, about."""

COUNTS: Final[dict[str, int]] = {
    name: count
    for count, names in enumerate(
        (
            "a an one ein eine einer einem einen un une una uno um uma een en один одну",
            "couple zwei deux dos due dois duas twee två два две dwa dwie",
            "few drei trois tres tre três drie три trzy",
            "vier quatre cuatro quattro quatro fyra четыре cztery",
            "fünf cinq cinco cinque vijf fem пять pięć",
            "sechs six seis sei zes sex шесть sześć",
            "sieben sept siete sette sete zeven sju семь siedem",
            "acht huit ocho otto oito åtta восемь osiem",
            "neun neuf nueve nove negen nio девять dziewięć",
            "zehn dix diez dieci dez tien tio десять dziesięć",
        ),
        1,
    )
    for name in names.split()
}
"""What counts such stretches; English numbers are in `NUMBERS`."""

TIME_WORDS: Final[dict[str, frozenset[str]]] = {
    "english": _words("""
        yesterday today tomorrow tonight ago last next week weekend month year day morning evening afternoon night
        recently soon monday tuesday wednesday thursday friday saturday sunday january february march april june
        july august september october november december summer winter spring autumn fall birthday since until weeks
        months years days
        """),
    "german": _words("""
        gestern heute morgen vorgestern woche wochen wochenende monat monate jahr jahre tag tage abend abends
        nachmittag vormittag nacht letzte letzten nächste nächsten uhr januar februar märz april juni juli august
        september oktober november dezember montag dienstag mittwoch donnerstag freitag samstag sonntag sommer
        winter frühling herbst
        """),
    "french": _words("""
        hier aujourd'hui demain semaine semaines mois année ans jour jours matin soir nuit après-midi dernier
        dernière prochain prochaine janvier février avril juin juillet août septembre octobre novembre décembre
        lundi mardi mercredi jeudi vendredi samedi dimanche printemps hiver automne pâques noël vacances
        """),
    "spanish": _words("""
        ayer hoy mañana semana semanas mes meses año años día días tarde noche pasado pasada próximo próxima enero
        febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre lunes martes miércoles
        jueves viernes sábado domingo verano invierno primavera otoño
        """),
    "italian": _words("""
        ieri oggi domani settimana settimane mese mesi anno anni giorno giorni sera notte mattina scorso scorsa
        prossimo prossima gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre
        dicembre lunedì martedì mercoledì giovedì venerdì sabato domenica estate inverno primavera autunno
        """),
    "portuguese": _words("""
        ontem hoje amanhã semana semanas mês meses ano anos dia dias noite manhã passado passada próximo próxima
        janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro segunda-feira
        terça-feira quarta-feira quinta-feira sexta-feira sábado domingo verão inverno primavera outono
        """),
    "dutch": _words("""
        gisteren vandaag morgen week weken weekend maand maanden jaar jaren dag dagen avond ochtend nacht vorige
        volgende afgelopen januari februari maart april juni juli augustus september oktober november december
        maandag dinsdag woensdag donderdag vrijdag zaterdag zondag zomer winter lente herfst
        """),
    "swedish": _words("""
        igår idag imorgon vecka veckor månad månader år dag kväll natt måndag tisdag onsdag torsdag fredag lördag söndag
        """),
    "danish": _words("""
        dag uge uger måned måneder år aften nat mandag tirsdag onsdag torsdag fredag lørdag søndag
        """),
    "polish": _words("""
        wczoraj dziś dzisiaj jutro tydzień tygodnie tygodniu miesiąc miesiące miesiącu rok roku lata dzień dni
        wieczorem rano poniedziałek wtorek środa środę czwartek piątek sobota sobotę niedziela niedzielę stycznia
        lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia
        """),
    "turkish": _words(
        "dün bugün yarın hafta ay yıl gün akşam sabah pazartesi salı çarşamba perşembe cuma cumartesi pazar"
    ),
    "russian": _words("""
        вчера сегодня завтра неделя неделю неделе недели месяц месяца месяце год года году лет день дня дней утром
        вечером ночью прошлой прошлом прошлый следующей понедельник вторник среда среду четверг пятница пятницу
        суббота субботу воскресенье января февраля марта апреля мая июня июля августа сентября октября ноября
        декабря январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре летом зимой весной
        осенью
        """),
    "arabic": _words("""
        أمس اليوم غدا أسبوع الأسبوع شهر الشهر سنة السنة عام العام يوم مساء صباحا الماضي القادم كانون شباط آذار نيسان
        أيار حزيران تموز آب أيلول تشرين يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر
        الربيع الصيف الخريف الشتاء الجمعة السبت الأحد الاثنين الثلاثاء الأربعاء الخميس
        """),
}
"""Language -> what says when something was; analysed like any other text before it is compared."""

NUMBER_WORDS: Final[dict[str, frozenset[str]]] = {
    "german": _words("""
        zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig hundert tausend
        """),
    "french": _words("deux trois quatre cinq six sept huit neuf dix onze douze quinze vingt trente cent mille"),
    "spanish": _words("""
        dos tres cuatro cinco seis siete ocho nueve diez once doce quince veinte treinta cien mil
        """),
    "italian": _words("due tre quattro cinque sei sette otto nove dieci undici dodici venti trenta cento mille"),
    "portuguese": _words("dois duas três quatro cinco seis sete oito nove dez onze doze vinte trinta cem mil"),
    "dutch": _words("twee drie vier vijf zes zeven acht negen tien elf twaalf twintig dertig honderd duizend"),
    "polish": _words("dwa dwie trzy cztery pięć sześć siedem osiem dziewięć dziesięć sto tysiąc"),
    "russian": _words("""
        два две двух три трёх четыре четырёх пять шесть семь восемь девять десять пятнадцать двадцать тридцать сорок
        пятьдесят девяносто сто тысяч тысячи
        """),
    "arabic": _words("ثلاثة ثلاث أربعة خمسة خمس ستة سبعة ثمانية تسعة عشرة عشرين عشرون ثمانين ثمانون مئة ألف"),
}
"""Language -> words that say a number."""

CJK_TIME: Final = _listed(
    "昨天 今天 明天 前天 后天 上周 下周 上个 下个 去年 今年 明年 周末 星期 昨日 今日 明日 先週 来週 "
    "先月 月底 月初 年底 凌晨 早上 上午 下午 晚上 昨晚 春节 周一 周二 周三 周四 周五 周六 周日 来月 "
    "今月 今週 週間 午前 午後 曜日 時間 毎朝 어제 오늘 내일 지난 다음 주말 요일 아침 저녁 오전 오후 "
    "개월"
)
