// Everything works without this script. It adds buttons that copy a text, pauses what htmx updates, and
// takes files that are dropped on a form.
"use strict";
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break; // without HTTPS, and not on this machine
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

const state = document.querySelector(".live-state");
if (state) {
  const pause = document.createElement("button");
  pause.type = "button";
  pause.className = "plain";
  pause.textContent = "Pause updates";
  let paused = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue updates" : "Pause updates";
  });
  state.replaceChildren(pause);
  // Somebody follows a link, reads a value of a chart, or selects text.
  const isUsed = (part) => part.querySelector("a:focus, button:focus, .plot:focus, .plot:hover, details[open]") || !getSelection().isCollapsed;
  for (const event of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
    document.addEventListener(event, (e) => {
      if (paused || document.hidden || isUsed(e.target)) e.preventDefault();
    });
  }
}

for (const form of document.querySelectorAll("form.drop")) {
  const input = form.querySelector("input[type=file]");
  form.addEventListener("dragover", (e) => {
    e.preventDefault();
    form.classList.add("over");
  });
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", (e) => {
    e.preventDefault();
    form.classList.remove("over");
    if (e.dataTransfer.files.length === 0) return;
    input.files = e.dataTransfer.files;
    form.requestSubmit();
  });
}
