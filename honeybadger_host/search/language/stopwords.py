"""What sentences are made of in many languages: it says which language a text is in, and leaves questions. Data only.

Words that ask (`who`, `quand`, `сколько`) belong to it: what answers a question does not say them. Every list is short
on purpose: what is not here is handled by the rarity of a word in the group (IDF).
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _listed(text: str) -> list[str]:
    return text.split()


STOP: Final[dict[str, frozenset[str]]] = {
    "english": _words("""
        a about above after again against all also am an and any are aren't as at be because been before being below
        between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each
        else ever few for from further get gets getting got had hadn't has hasn't have haven't having he her here
        hers herself him himself his how i i'd i'll i'm i've if in into is isn't it it's its itself just let let's
        like may me might more most much must my myself no nor not of off on once only or other our ours ourselves
        out over own please same shall she should so some such than that that's the their theirs them themselves
        then there there's these they they'd they'll they're they've this those through to too under until up upon
        us very was wasn't we we'd we'll we're we've were weren't what what's when when's where where's which while
        who who's whom whose why will with within without won't would wouldn't you you'd you'll you're you've your
        yours yourself yourselves ok okay hi hello hey thanks thank yes yeah um uh oh well so actually really
        basically honestly anyway maybe
        """),
    "german": _words("""
        aber alle als am an auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den der des
        dich die dies diese dieser dieses dir doch dort du eben eigentlich ein eine einem einen einer eines er es
        etwa etwas euch euer eure euren für gegen gerade gibt hab habe haben hast hat hatte hatten hier hätte hätten
        ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jeder jedes kann kannst kein keine könnte
        könnten mal man mehr mein meine meinem meinen meiner mich mir mit muss musst musste müssen nach nicht noch
        nun nur ob oder ohne schon sehr sei seid sein seine seinem seinen seiner sich sie sind so soll solle sollen
        sollte um und uns unser unsere unserem unseren unter viel viele vom von vor wann war waren warum was wegen
        weil welche welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieso will wir wird wo
        wofür woher wohin wohl wollen wollte womit woran woraus worden worum worüber wovon wurde wurden würde würden
        zu zum zur zwischen über
        """),
    "french": _words("""
        a ai as au aussi aux avait avec avez avons c car ce ces cet cette chez combien comme comment d dans de
        depuis des donc du elle elles en est est-ce et eu faire fait font fut ici il ils j je l la laquelle le
        lequel les lesquelles lesquels leur leurs lors lui là m ma mais me mes moi moins mon même n ne ni nos notre
        nous on ont ou où par pas plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans
        se sera ses si soit son sont sous sur t ta te tes toi ton tous tout toute toutes très tu un une vers vos
        votre vous y à ça étaient étais était étions été êtes être
        """),
    "spanish": _words("""
        a adónde al algo ante antes cada como con cual cuando cuyo cuál cuáles cuándo cuánta cuántas cuánto cuántos
        cómo de del desde donde durante dónde el ella ellas ellos en entre era eres es esa ese eso esta estaba
        estaban estamos estar estas este esto estos estoy está están fue fueron ha había hace hacia han has hasta
        hay he hemos hice hizo la las le les lo los me mi mis muchas mucho muchos muy más mía mío no nos nosotros
        nuestra nuestras nuestro nuestros o otra otro para pero por porque pues que quien quienes quién quiénes qué
        se sea ser si sido sin sino sobre solo somos son soy su sus sólo también tan tanto te tenemos tengo tenía
        tiene tienen toda todas todo todos tu tus tuvo un una unas unos vos vosotros vuestra vuestro y ya yo
        """),
    "italian": _words("""
        a abbiamo ad ai al alla alle allora anche avere aveva avevo c che chi ci col come con cosa cui da dal dalla
        dallo dei del dell della delle dello di dove e era erano eri essere fa fatto fra fu già gli ha hai hanno ho
        i il in io l la le lei lo loro lui lì ma mi mia mie miei mio ne negli nei nel nell nella nelle nello noi non
        nostra nostro o ogni ora per perché più poi proprio qua qual quale quali quando quanta quanti quanto quella
        quelle quelli quello questa queste questi questo qui se sei si siamo siete solo sono sta stato su sua sui
        sul sulla suo tra tu tua tuo tutti tutto un una uno ve vi è
        """),
    "portuguese": _words("""
        a ao aos as até cada com como cujo da das de dela dele deles desde do dos e ela elas ele eles em entre era
        eram essa essas esse esses esta estas estava estavam este estes estou está estão eu fez foi foram há isso
        isto já lhe mais mas me meu meus minha minhas muita muito muitos na nas nessa nesse nesta neste no nos nossa
        nosso num numa não nós o onde os ou para pela pelas pelo pelos pode por porque porquê quais qual qualquer
        quando quanta quantas quanto quantos que quem se sem ser seu seus sobre sua suas são só também te tem tenho
        ter teu teve tinha todo todos tu tua tudo um uma vai você vocês vos à às é
        """),
    "dutch": _words("""
        aan al alle alles als andere ben bent bij daar daarom dan dat de deed den der deze die dit doen doet door
        dus een eens elk en er ge geen geweest gewoon haar had hadden heb hebben hebt heeft hem hen het hier hij hoe
        hoeveel hun iets ik in is je jij jou jouw jullie kan kunnen maar mag me met mij mijn mijne moest moet moeten
        naar niet nog nu of om omdat onder ons onze ooit ook op over te toen tot u uit van veel voor waar waarmee
        waarom waaruit waarvoor wanneer was wat we wel welk welke werd werden wie wij wil worden wordt zal ze zei
        zich zij zijn zo zou zouden
        """),
    "swedish": _words("""
        alla att av bara blev blir då de dem den denna deras dess det detta dig din dina ditt du där efter ej eller
        en er era ert ett från för ha hade han hans har henne hennes hon hos hur här i icke ingen inte jag kan kunde
        man med mellan men mig min mina mitt mot mycket ni nu när något några och om oss på sedan sig sin sina sitt
        skulle så till under upp ut utan vad var vara varför varit vart vem vi vid vilka vilken vilket vår våra är
        åt över
        """),
    "danish": _words("""
        af alle at blev bliver da de dem den denne der deres det dette dig din dine dit du efter eller en er et fra
        få for før ham han hans har havde hende hendes her hun hvad hvem hvilken hvilket hvilke hvis hvor hvordan
        hvorfor hvornår i ikke ind ja jeg jer kan kunne man mange med meget men mig min mine mit mod når nogen noget
        nu og også om op os over på sig sin sine skal skulle så som til ud under var vi ville vil være været
        """),
    "norwegian": _words("""
        alle at av ble blir bli da de dem den denne der deres det dette deg din dine ditt du eller en er et etter
        fra før ha hadde han hans har hennes her hun hva hvem hvilken hvilket hvilke hvis hvor hvordan hvorfor ikke
        inn ja jeg kan kunne man mange med meg meget men min mine mitt mot når noe noen nå og også om opp oss over
        på seg sin sine skal skulle slik som så til ut under var vi ville vil være vært
        """),
    "finnish": _words("""
        ei eivät emme en et ette että he heidän hän hänen ja joka jos jotka kanssa keitä kenen kenelle ketkä koska
        kuin kuinka kuka kun me meidän mihin mikä mikäs miksi millainen milloin minkä minne minun minä missä mistä
        mitä mitkä mukaan mutta myös ne niin nyt näin ole olen olet oli olin olivat ollut olla on onko ovat paljonko
        se sen sinun sinä sitten tai te teidän tämä tässä vai vaan vain voi vuoksi
        """),
    "polish": _words("""
        a aby ale bardzo bez bo był była było byli być co czego czy czyj czyja czym dla dlaczego do gdy gdzie go i
        ich ile im ja jak jaka jaki jakie jakim jakiej jakiego jego jej jest jestem jesteś już kiedy kim kogo komu
        kto która które którego której który którym ma mam mi mnie moich moim mój moja moje mu my na nad nam nas
        nasz nie nim o od on ona one oni po pod przez przy się są skąd swoje swój ta tak także tam te tego tej ten
        to tu twoja twój ty tylko w we z za ze że żeby
        """),
    "czech": _words("""
        aby ale ani až bez byl byla bylo být co čem čí dnes do ho i já jak jaká jaké jaký je jeho její jejich jen
        jestli ji jí jsem jsi jsme jsou jste již k kam kde kdo kdy když komu která které který kolik ke ma mám má mě
        mezi mi mít mně moje můj na nad nebo než ní nic o od odkud on ona oni po pod podle pro proč při s se si své
        svůj ta tak také tam ten tento to toho tu tvůj ty u už v ve vy z za ze že
        """),
    "turkish": _words("""
        acaba ama ancak bana bazı ben beni benim bir biri biz bize bizim bu bunu bunun çok çünkü da daha de değil
        diye en gibi hangi hem hep her için ile ise kaç kadar ki kim kime kimin kimse mı mi mu mü mıydı nasıl ne
        neden nerede nereden nereye neyi niçin niye o olan olarak olan oldu olduğu ona onlar onu onun sana sen seni
        senin siz sizin şey şu ve veya ya yok var zaman
        """),
    "hungarian": _words("""
        a az azt azok az ahogy aki ami annak be csak de és egy el ez ezek ezt én fel ha hanem hány hogy hogyan hol
        honnan hova igen is ki kié kik kinek kivel már meg mely melyik mennyi mert mi miért mikor milyen mit mivel
        most nagyon nekem neki nem ő ők olyan pedig s saját se sem számára te ti után van vagy vagyok volt voltak
        """),
    "romanian": _words("""
        acea aceasta această aceea acel acest acesta ai al ale am ar are as au avea ca că care cât câte câți ce cea
        cel cele cei cine cui cu cum da dar de decât din după ea ei el ele era eram este eu fi fost i îi își îl în
        între la le lor lui mai mea mele meu mi mie mine nu noastră nostru noi o ori pe pentru prin sa sau să se si
        și sunt sus ta te tu un una unde unei unui va vi voi vor când
        """),
    "indonesian": _words("""
        ada adalah agar akan aku anda apa apakah atau bagaimana bahwa bagi berapa bisa bukan dan dalam dari dengan
        di dia harus hanya ini itu jika juga kah kamu kami kalau karena kapan ke kepada kita lagi mana mengapa
        mereka nya oleh pada pernah saat saja sangat saya sebuah sedang seperti siapa sudah telah tetapi tidak untuk
        yang
        """),
    "vietnamese": _words("""
        ai anh bao nhiêu bị bởi các cái chị cho chứ có của cùng cũng đã đang đâu đây để đến được đó em gì hay hoặc
        khi không là lại làm lúc mà mấy mình mỗi một nào nên này nếu những như ở ra rất rồi sao sẽ tại thế thì tôi
        tới trong từ và vào về vì với
        """),
    "russian": _words("""
        а без более был была были было быть в вам вас ваш ваша ваше весь во вот все всё всего вы где да даже для до
        его ее её ей если есть ещё еще же за зачем здесь и из или им их к как какая какие какой каким какого какую
        каком когда кого ком кому который которая которые которую кто куда ли лишь между меня мне много мной мой моя
        моё мои моего моей моих мою мы на над надо нам нас наш наша не него нее неё ней нет ни них но ну о об однако
        он она они оно от откуда очень по под почему при про с сам сама свой своя своё свои своего своей своих свою
        себе себя сейчас со сколько так также такой там тебе тебя то того тоже той только том тот ту ты тут у уже
        чего чей чем через что чтобы чём чьё чья эта эти это этого этой этом этот эту я
        """),
    "ukrainian": _words("""
        або але без був була були було бути в вам вас ваш весь вже ви від він вона вони воно все всі де для до його
        й є же з за завжди зараз звідки і із її їй їм їх як яка яке який яким якого якій яку якщо коли кого кому
        котрий куди ми мене мені мій моя моє мої на над нам нас наш не немає ні ну о об однак по під при про та так
        також там те тебе ти тільки то тобі той тому тут у хто це цей ця чи чий чому що щоб щодо я скільки
        """),
    "arabic": _words("""
        أن إن أنا أنت أنتم أنتِ أو أي أية أين إلى إذا ألا أم أما بعد بين بها به بأن التي الذي الذين اللذان تلك ثم
        حتى حول ذلك سوف على عليه عليها عن عند عندما عنها عنه غير فوق في فيه فيها قبل قد كان كانت كانوا كل كم كما كنت
        كيف لا لأن لدى لدي لقد لك لكن لم لماذا لن له لها لهم لو لي ليس ما ماذا متى مع من منه منها منذ منذ نحن نعم
        هذا هذه هل هم هنا هناك هو هي و وأن وفي وقد وكان ولا ولكن ومن وهو وهي يا
        """),
    "persian": _words("""
        آن آنها آیا از است اگر اما او با باید بر برای بود بودند به بی تا تو چرا چقدر چگونه چه چند چطور خود در دارد
        دارم را شد شده شما کجا کدام که کی ما من می نه نیست ها هر هم همه هیچ و یا یک این
        """),
    "greek": _words("""
        αλλά αν από αυτή αυτό αυτός για γιατί δε δεν εγώ είμαι είναι είχε εκεί έχει έχω ή ήταν η θα και κατά κι με
        μέσα μετά μη μην μια μου να ο οι όμως όπως όταν ότι πια πιο ποια ποιο ποιον ποιος ποιου πόσα πόσο πόσοι ποτέ
        πότε που πού πριν προς πως πώς σας σαν σε στη στην στο στον στους σου στα τα τη την της τι τις το τον του
        τους των ως ένα ένας μας
        """),
    "hindi": _words("""
        अपना अपनी अपने आप आपका इस इसके उस उसका उसकी उसके उसने एक और कब कर करता करते करना कहाँ कहां का कि कितना कितनी
        कितने किस किसका किसकी किसके किसने किसे की के कैसा कैसी कैसे को कौन कौनसा क्या क्यों गया गई गए जब जो तक तुम
        तो था थी थे दिया ने नहीं पर भी मुझे में मेरा मेरी मेरे मैं मैंने यह या ये रहा रही रहे लिए वह वे वो से हम
        हमारा हमारे ही हुआ हुई है हैं हो होता होती कभी
        """),
    "hebrew": _words("""
        אבל או אותו אותה אותי אחרי אי איך איזה איזו איפה אל אם אני אנחנו את אתה אתם בין גם הוא היא היה היו הייתה הם
        הן הזה הזאת זה זאת זו יש כי כל כמה כן לא לאן לה לו לי למה לנו לפני מ מאיפה מאין מה מי מתי על עם עוד של שלו
        שלה שלי שלך שלנו שלהם תחת מדוע
        """),
}
"""Language, by Snowball's name where it has a stemmer -> its function words, accents as written, casefolded."""

SCRIPTS: Final = (
    ("russian", "\u0400-\u052f"),
    ("arabic", "\u0600-\u06ff"),
    ("greek", "\u0370-\u03ff\u1f00-\u1fff"),
    ("hindi", "\u0900-\u097f"),
    ("hebrew", "\u0590-\u05ff"),
    ("armenian", "\u0530-\u058f"),
    ("tamil", "\u0b80-\u0bff"),
)
"""Whose stemmer a word in another script than Latin is given to, and its letters."""

AMBIGUOUS: Final[frozenset[str]] = _words("""
    ah ako al ali als art as at av bin bot care cat come dan das data de del dem den der des di die do dos du ein el
    ele en er era eras es est et fa fin for fra fu get glad gut han hans har he hem hen her hit hos hun i ich ii il
    im in is it ja je jij kan ki kim la lag las le les let lo los ma mag mal man maria mas me med men met mi mia
    mine mit mon most my na nam ne nei ni no non nos nun o oh ok om on one or os ou over pan par pas per plus pod
    por pro qua quest ran sa sag san sans se sei sen si sie sin sit sole son soul sous st su sue sui sur ta te tell
    ten the ti to ton tu tun u un una under up ut va van var vas vi via vid wall wand war was we wet wie will wo y
    ya yet zo
    """)
"""Function words of other languages that stand in English too, as words or in names: one alone decides nothing."""

CJK_STOP: Final = _listed(
    "为什么 為什麼 什么时候 什麼時候 多少 什么 什麼 怎么样 怎么 怎麼 哪里 哪裡 哪儿 哪个 哪些 哪位 "
    "哪 谁 誰 是不是 有没有 有沒有 我们 我們 你们 你們 他们 她们 咱们 我 你 您 他 她 它 的 了 吗 嗎 "
    "呢 吧 啊 呀 和 与 與 是 在 把 被 就 都 也 还 還 很 请 請 请问 告诉 告訴 过 過 着 地 得 这个 "
    "那个 这 那 這 那 一下 之前 关于 いつ どこ どの どんな なに 何 誰 だれ なぜ どう ですか ますか "
    "でしたか ましたか です ます でした ました について という から まで には では とは の は が を "
    "に で と も へ か 무엇을 무엇이 무엇 뭐야 뭐 누구 누가 언제 어디에서 어디에 어디로 어디 어느 "
    "어떻게 어떤 어때 왜 얼마나 얼마 이유는 이는 이가 이의 했어 하는 이야 どうして どれくらい どのくらい ている "
    "ていた していた した する とき は何 何を 何か 哪一天 多久 多大 曾经 曾 给 跟"
)
"""What a Chinese, Japanese or Korean question is made of; longest first when cut out of a run."""
