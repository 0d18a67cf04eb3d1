"""Three conversations of two people and an assistant, and entries of theirs, with what a good chooser would pick.

A line that begins with `!` is worth remembering in another conversation, one with `+` shows a lasting preference, too.
Entries before the blank line are in groups that say the same; the others stand alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """Something that somebody says; whether it is worth remembering, and whether it shows a preference."""

    speaker: str
    text: str
    is_fact: bool
    is_preference: bool


class Talk(NamedTuple):
    """A conversation, and entries: those of one tuple say the same."""

    lines: Sequence[Line]
    entries: Sequence[Sequence[str]]


def _talk(said: str, entries: str) -> Talk:
    lines: list[Line] = []
    for line in said.strip().splitlines():
        speaker, _, text = line.lstrip("!+").partition(": ")
        lines.append(Line(speaker, text, line[0] in "!+", line[0] == "+"))
    return Talk(lines, [group.splitlines() for group in entries.strip().split("\n\n")])


TALKS: Mapping[str, Talk] = {
    "English": _talk(
        """
ann: Good morning, sorry that I am late today.
bee: Good morning, Ann. No problem at all.
ben: Did anybody watch the match yesterday?
!ann: Mira is allergic to nuts, so nobody brings cake with nuts to the office.
bee: Understood. I will keep that in mind.
ben: The coffee machine is loud again.
!ben: We decided to rent the hall in Harbour Street for the fair on 14 May.
bee: Shall I look up how one gets there?
ann: Yes, please, but not now.
+ann: Please always send me reports as a PDF, never as a spreadsheet.
ben: I have to run to another call in a minute.
!ben: The supplier for the chairs is now Holm and Sons, no longer Petersen.
bee: Thank you, that is good to know.
ann: Hm, let me think about it.
!ann: My new phone number is 0171 555 2091.
ben: That is funny.
+ben: I prefer meetings before ten in the morning.
bee: Fine, I will look for slots early in the day.
ann: The weather is awful.
!ben: The budget of the fair is 7,300 EUR, and Lena signs the invoices.
ann: Talk to you later.
ben: See you.
bee: Goodbye, both of you.
""",
        """
The office in Lund closes at six in the evening.
In the evening the Lund office closes at six.

Backups of the shop run every night at two.
Every night at two the backups of the shop run.

Tomas drives the blue van.

Invoices below 200 EUR need no signature.

The green meeting room has no screen.
""",
    ),
    "German": _talk(
        """
ann: Guten Morgen, entschuldigt die Verspätung.
bee: Guten Morgen, Ann. Das macht gar nichts.
ben: Hat gestern jemand das Spiel gesehen?
!ann: Mira ist gegen Nüsse allergisch, also bringt niemand Kuchen mit Nüssen ins Büro.
bee: Verstanden. Das merke ich mir.
ben: Die Kaffeemaschine ist schon wieder so laut.
!ben: Wir haben beschlossen, für die Messe am 14. Mai die Halle in der Hafenstraße zu mieten.
bee: Soll ich nachsehen, wie man dort hinkommt?
ann: Ja, bitte, aber nicht jetzt.
+ann: Schick mir Berichte bitte immer als PDF, nie als Tabelle.
ben: Ich muss gleich in ein anderes Gespräch.
!ben: Die Stühle liefert jetzt Holm und Söhne, nicht mehr Petersen.
bee: Danke, das ist gut zu wissen.
ann: Hm, da muss ich überlegen.
!ann: Meine neue Telefonnummer ist 0171 555 2091.
ben: Das ist lustig.
+ben: Termine habe ich am liebsten vor zehn Uhr morgens.
bee: Gut, ich suche frühe Zeiten heraus.
ann: Das Wetter ist furchtbar.
!ben: Das Budget der Messe beträgt 7.300 Euro, und Lena unterschreibt die Rechnungen.
ann: Bis später.
ben: Macht es gut.
bee: Auf Wiedersehen, ihr beiden.
""",
        """
Das Büro in Lund schließt abends um sechs.
Abends um sechs schließt das Büro in Lund.

Sicherungen des Ladens laufen jede Nacht um zwei.
Jede Nacht um zwei laufen die Sicherungen des Ladens.

Tomas fährt den blauen Transporter.

Rechnungen unter 200 Euro brauchen keine Unterschrift.

Der grüne Besprechungsraum hat keinen Bildschirm.
""",
    ),
    "Japanese": _talk(
        """
ann: おはようございます。遅れてすみません。
bee: おはようございます。大丈夫ですよ。
ben: 昨日の試合を見ましたか。
!ann: ミラはナッツアレルギーなので、ナッツ入りのケーキは持ってこないでください。
bee: 分かりました。覚えておきます。
ben: コーヒーメーカーがまたうるさいです。
!ben: 五月十四日の見本市には港通りのホールを借りることに決めました。
bee: 行き方を調べましょうか。
ann: お願いします。でも今でなくていいです。
+ann: 報告書はいつもPDFで送ってください。表計算では送らないでください。
ben: もうすぐ次の会議に行きます。
!ben: 椅子の業者はペーターセンではなく、ホルム商店になりました。
bee: ありがとうございます。助かります。
ann: うーん、考えさせてください。
!ann: 私の新しい電話番号は0171 555 2091です。
ben: 面白いですね。
+ben: 会議は朝の十時前がいいです。
bee: では早い時間を探します。
ann: ひどい天気ですね。
!ben: 見本市の予算は7300ユーロで、請求書にはレナが署名します。
ann: ではまた後で。
ben: また。
bee: お二人とも、さようなら。
""",
        """
ルンドの事務所は夕方六時に閉まります。
夕方六時にルンドの事務所は閉まります。

店のバックアップは毎晩二時に動きます。
毎晩二時に店のバックアップは動きます。

トマスは青いバンを運転します。

200ユーロ未満の請求書に署名はいりません。

緑の会議室には画面がありません。
""",
    ),
}
