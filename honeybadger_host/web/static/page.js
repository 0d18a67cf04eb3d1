// The parts that need a script: times in the reader's zone, the slider, live updates. Reading works without it.
"use strict";

function localTimes(root) {
  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
  const day = (at) => new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
  const today = day(new Date());
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.dataset.local = "";
    time.title = whole.format(at);
    const days = Math.round((today - day(at)) / 86_400_000);
    const near = { 0: "Today", 1: "Yesterday" }[days];
    time.textContent = near ? `${near} ${clock.format(at)}` : whole.format(at);
  }
}

// A slider for the field "As of": moving it shows the context at that change.
function slider(input) {
  const form = document.querySelector("form input[name=as_of]").form;
  const output = input.closest("label").querySelector("output");
  input.addEventListener("input", () => { output.value = input.value; });
  input.addEventListener("change", () => {
    form.elements.as_of.value = input.value === input.max ? "" : input.value;
    form.requestSubmit();
  });
}

function copyable(element) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(element.textContent);
    button.textContent = "Copied";
  });
  element.after(" ", button);
}

// A table of which rows are chosen: all at once, and how many they are.
function bulk(form) {
  const boxes = [...form.querySelectorAll("input[name^=chosen]")];
  const place = form.querySelector("[data-choose-all]");
  if (!boxes.length || !place) return;
  const all = document.createElement("input");
  all.type = "checkbox";
  all.ariaLabel = "Choose all of this page";
  place.replaceWith(all);
  const count = form.querySelector("[data-count]");
  const said = count.textContent;
  const buttons = form.querySelectorAll(".bulk-bar button");
  const tell = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    all.checked = chosen === boxes.length;
    all.indeterminate = chosen > 0 && chosen < boxes.length;
    count.textContent = chosen ? `${chosen} chosen` : said;
    for (const button of buttons) button.disabled = chosen === 0;
    for (const box of boxes) box.closest("tr").classList.toggle("chosen", box.checked);
  };
  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    tell();
  });
  let last = null;
  for (const box of boxes) {
    box.addEventListener("click", (event) => {
      if (event.shiftKey && last) {
        const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
        for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
      }
      last = box;
      tell();
    });
  }
  tell();
}

// A part that shows how things are now is loaded again while somebody looks and nobody is in it.
function refreshing() {
  const parts = document.querySelectorAll("[data-refresh]");
  if (document.hidden) return;
  for (const part of parts) {
    if (!part.contains(document.activeElement)) part.dispatchEvent(new Event("refresh"));
  }
}

// A page of the newest changes is updated when there are newer ones. A hidden tab does not listen.
function live() {
  let source = null;
  const listen = () => {
    source?.close();
    source = null;
    if (document.hidden) return;
    const shown = document.querySelector("[data-live]")?.dataset.live ?? "0";
    source = new EventSource(`/events?after=${encodeURIComponent(shown)}`);
    source.addEventListener("changed", () => {
      const list = document.querySelector("[data-live]");
      if (list && !list.contains(document.activeElement)) list.dispatchEvent(new Event("changed"));
    });
    source.addEventListener("host", (message) => hostIs(message.data === "true"));
  };
  document.addEventListener("visibilitychange", listen);
  listen();
}

function hostIs(up) {
  const notice = document.getElementById("host-notice");
  notice.hidden = up;
  notice.textContent = up ? "" : "The host is down. This page goes on when it is back.";
}

// A conversation stays at its newest line unless its reader has gone up.
const talk = {
  isAtEnd: true,
  sent: "",
  toEnd() {
    if (this.isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
  },
  look() {
    const root = document.documentElement;
    this.isAtEnd = root.scrollHeight - root.scrollTop - root.clientHeight < 120;
  },
};

// Enter sends, Shift and Enter begins a line, and what was said is shown before the host has it.
function composer(form) {
  const field = form.elements.content;
  form.querySelector("[data-hint]").textContent = "Enter sends";
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (field.value.trim()) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = new URLSearchParams(new FormData(form));
    const said = saidNow(field.value);
    talk.sent = field.value;
    field.value = "";
    try {
      await converse(fetch(form.action, { method: "POST", body }));
    } catch (error) {
      said.remove();
      field.value = talk.sent;
      complain(error.message);
    }
  });
  document.addEventListener("scroll", () => talk.look(), { passive: true });
}

function saidNow(text) {
  const said = document.createElement("article");
  said.className = "said user";
  const bubble = document.createElement("div");
  bubble.className = "bubble";
  bubble.textContent = text;
  said.append(bubble);
  document.getElementById("conversation").append(said);
  talk.isAtEnd = true;
  talk.toEnd();
  return said;
}

function complain(why) {
  const told = document.createElement("p");
  told.className = "warning";
  told.role = "alert";
  told.textContent = why;
  document.getElementById("conversation").append(told);
  talk.toEnd();
}

// Show the conversation as a page has it, in place of the one that stands here.
async function converse(request) {
  const response = await request;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = page.getElementById("conversation");
  if (!response.ok || !fresh) throw new Error(page.querySelector("main")?.textContent.trim() ?? "It was not sent.");
  document.getElementById("conversation").replaceWith(fresh);
  const field = document.querySelector("[data-composer] textarea");
  if (fresh.querySelector("[data-failed]") && field && !field.value) field.value = talk.sent;  // it failed: to be sent again
  history.replaceState(null, "", response.url);
  prepare();
}

// The answer of an agent, as it is written; without JavaScript the page loads itself again.
function answer(element) {
  const text = element.querySelector("[data-text]");
  const tools = element.querySelector("[data-tools]");
  const source = new EventSource(element.dataset.answer);
  const data = (message) => JSON.parse(message.data);
  source.addEventListener("began", () => { text.replaceChildren(); tools.replaceChildren(); });
  source.addEventListener("text", (message) => {
    text.innerHTML = data(message);  // the page's own HTML of an escaped text, as in the conversation itself
    talk.toEnd();
  });
  for (const kind of ["tool_began", "tool_ended"]) {
    source.addEventListener(kind, (message) => {
      const line = data(message);
      const item = document.createElement("li");
      item.textContent = kind === "tool_began" ? `${line.tool} runs` : `${line.tool}: ${line.summary ?? ""}`;
      if (kind === "tool_ended") tools.lastElementChild?.remove();
      tools.append(item);
      talk.toEnd();
    });
  }
  source.addEventListener("ended", () => {
    source.close();
    converse(fetch(location.href)).catch(() => location.reload());
  });
}

function prepare() {
  localTimes(document);
  for (const [selector, begin] of [["[data-bulk]", bulk], ["[data-answer]", answer]]) {
    document.querySelectorAll(`${selector}:not([data-begun])`).forEach((each) => {
      each.dataset.begun = "";
      begin(each);
    });
  }
  if (document.getElementById("conversation")) talk.toEnd();
}

prepare();
document.addEventListener("htmx:after:swap", prepare);
document.querySelectorAll("[data-as-of]").forEach(slider);
document.querySelectorAll("[data-copy]").forEach(copyable);
document.querySelectorAll("[data-composer]").forEach(composer);
if (document.querySelector("[data-live]")) live();
if (document.querySelector("[data-refresh]")) setInterval(refreshing, 5000);
