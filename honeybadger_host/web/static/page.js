// What the page does beside HTML: times in the reader's zone, the slider, what is live. Reading works without it.
"use strict";

function localTimes(root) {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = format.format(at);
    time.dataset.local = "";
  }
}

// A range of changes beside the field "As of": moving it shows the context of then.
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

localTimes(document);
document.addEventListener("htmx:after:swap", () => localTimes(document));
document.querySelectorAll("[data-as-of]").forEach(slider);
document.querySelectorAll("[data-copy]").forEach(copyable);

// A page that shows the newest is told when there is something newer. A tab nobody looks at listens to nothing.
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

// The answer of an agent, as it is written; without JavaScript the page loads itself again.
function answer(element) {
  const text = element.querySelector("[data-text]");
  const tools = element.querySelector("[data-tools]");
  const source = new EventSource(element.dataset.answer);
  const data = (message) => JSON.parse(message.data);
  source.addEventListener("began", () => { text.textContent = ""; tools.replaceChildren(); });
  source.addEventListener("text", (message) => { text.textContent += data(message).text ?? ""; });
  for (const kind of ["tool_began", "tool_ended"]) {
    source.addEventListener(kind, (message) => {
      const line = data(message);
      const item = document.createElement("li");
      item.textContent = kind === "tool_began" ? `${line.tool} runs` : `${line.tool}: ${line.summary ?? ""}`;
      if (kind === "tool_ended") tools.lastElementChild?.remove();
      tools.append(item);
    });
  }
  source.addEventListener("ended", (message) => {
    source.close();
    location.replace(location.href.split("#")[0] + (message.data === "null" ? "" : "#answer"));
    location.reload();
  });
}

if (document.querySelector("[data-live]")) live();
document.querySelectorAll("[data-answer]").forEach(answer);
