// Everything works without this script. It adds buttons that copy a text, updates what changes, and
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

const regions = () => [...document.querySelectorAll(".live")];
if (regions().length > 0) {
  const pause = document.createElement("button");
  pause.type = "button";
  pause.className = "plain";
  pause.textContent = "Pause updates";
  let paused = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue updates" : "Pause updates";
  });
  document.querySelector(".live-state").replaceChildren(pause);
  const every = Math.min(...regions().map((r) => Number(r.dataset.live))) * 1000;
  const update = async () => {
    const busy = paused || document.hidden || regions().some((r) => r.contains(document.activeElement)) || !getSelection().isCollapsed;
    try {
      if (!busy) {
        const answer = await fetch(location.href, { headers: { "X-Console-Update": "yes" } });
        const fresh = [...new DOMParser().parseFromString(await answer.text(), "text/html").querySelectorAll(".live")];
        if (!answer.ok || fresh.length !== regions().length) return; // signed out, or deleted
        regions().forEach((r, i) => {
          if (r.innerHTML !== fresh[i].innerHTML) r.replaceChildren(...fresh[i].childNodes);
        });
      }
    } catch {
      // The server is restarting.
    }
    setTimeout(update, every);
  };
  setTimeout(update, every);
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
