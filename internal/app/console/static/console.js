// Everything works without this script. It adds copy buttons, shows times in the browser's time zone, pauses htmx updates, focuses
// the search, and accepts files dropped on a form.
"use strict";
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const month = 31 * 86400;

// ago returns the time since or until a date in its largest unit.
const ago = (date) => {
  const seconds = Math.round((date - Date.now()) / 1000);
  const [unit, length] = units.find(([, n]) => Math.abs(seconds) >= n) ?? units.at(-1);
  return relative.format(Math.trunc(seconds / length), unit);
};

// showTimes shows times of the last month as relative in tables, and as local times elsewhere. The title shows UTC and local time.
const showTimes = (root) => {
  for (const time of root.querySelectorAll("time:not([title])")) {
    const date = new Date(time.dateTime), local = whole.format(date), utc = time.textContent;
    const isNear = Math.abs(date - Date.now()) < month * 1000;
    time.title = `${utc}\n${local}, local time`;
    if (time.closest("td")) time.textContent = isNear ? ago(date) : local;
    else time.textContent = isNear ? `${local} (${ago(date)})` : local;
  }
};

// addCopies shows buttons that copy a text or an element's content.
const addCopies = (root) => {
  if (!navigator.clipboard) return; // neither HTTPS nor localhost
  for (const button of root.querySelectorAll("[data-copy], [data-copy-text]")) button.hidden = false;
};
document.addEventListener("click", async (e) => {
  const button = e.target.closest?.("[data-copy], [data-copy-text]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copyText ?? document.getElementById(button.dataset.copy).textContent);
  if (button.dataset.copy) button.textContent = "Copied";
  else button.setAttribute("aria-label", "Copied");
  button.classList.add("copied");
});

const enhance = (root) => {
  showTimes(root);
  addCopies(root);
};
enhance(document);
document.addEventListener("htmx:afterSwap", (e) => enhance(e.target.parentNode ?? document));

// describe sets a field's description for screen readers: its help, and a message.
const describe = (input, message) => {
  const ids = [`${input.id}-help`, message].filter((id) => document.getElementById(id));
  if (ids.length > 0) input.setAttribute("aria-describedby", ids.join(" "));
  else input.removeAttribute("aria-describedby");
};

// Shows each message of a check next to its field.
document.addEventListener("htmx:afterSwap", (e) => {
  if (!e.target.matches(".check")) return;
  const form = e.target.closest("form");
  for (const old of form.querySelectorAll(".field > .error")) old.remove();
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    describe(input, "");
  }
  for (const error of e.target.querySelectorAll("[data-field]")) {
    const input = form.elements.namedItem(error.dataset.field);
    if (!input) continue;
    error.id = `${input.id}-error`;
    input.setAttribute("aria-invalid", "true");
    input.closest(".field").append(error);
    describe(input, error.id);
  }
});

// focusFirst focuses a form's first empty field, or its first field.
const focusFirst = (form) => {
  const fields = [...form.querySelectorAll(".field :is(input:not([type=checkbox], [type=file], [type=hidden]), textarea, select)")];
  (fields.find((field) => field.value === "") ?? fields[0])?.focus({ preventScroll: true });
};

// A link to a form opens its drawer. Without this script the style sheet shows it.
const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  if (target.matches("[popover]")) {
    history.replaceState(null, "", location.pathname + location.search);
    target.showPopover();
  } else if (target.matches("form")) {
    target.scrollIntoView({ block: "start" });
    focusFirst(target);
  }
};
addEventListener("hashchange", openTarget);
document.addEventListener("click", (e) => e.target.closest?.(".starts a") && setTimeout(openTarget));
document.addEventListener("toggle", (e) => e.newState === "open" && e.target.matches?.(".sheet") && focusFirst(e.target), true);
openTarget();

const theme = document.getElementById("theme");
if (theme) {
  theme.value = document.documentElement.dataset.theme ?? "system";
  theme.parentNode.hidden = false;
  theme.addEventListener("change", () => {
    applyTheme(theme.value);
    try {
      localStorage.setItem("theme", theme.value);
    } catch {}
  });
}

document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  const menu = document.querySelector(".menu");
  if (menu && getComputedStyle(menu).display !== "none") menu.open = true;
  e.preventDefault();
  document.querySelector(".find input")?.focus();
});

// On a phone, the open menu would cover the focused element.
document.addEventListener("keyup", (e) => {
  const menu = document.querySelector(".menu");
  if (e.key !== "Tab" || !menu?.open || !e.target.closest("main")) return;
  menu.open = false;
  e.target.scrollIntoView({ block: "nearest" });
});

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
  // The user follows a link, reads a chart value, or selects text.
  const isUsed = (part) => part.querySelector("a:focus, button:focus, summary:focus, .plot:focus, .plot:hover, details[open], button.copy:hover") || !getSelection().isCollapsed;
  for (const event of ["htmx:beforeRequest", "htmx:beforeSwap"]) {
    document.addEventListener(event, (e) => {
      if (e.target.id === "live" && (paused || document.hidden || isUsed(e.target))) e.preventDefault();
    });
  }
}

// Selectable table rows: a checkbox in the head selects all, and the bar shows the number of selected rows.
for (const head of document.querySelectorAll("th[data-all]")) {
  const form = document.getElementById(head.dataset.all);
  const boxes = [...document.querySelectorAll(`.choice input[form="${head.dataset.all}"]`)];
  const all = document.createElement("input");
  all.type = "checkbox";
  all.setAttribute("aria-label", "Select all rows of this page");
  const wide = matchMedia("(min-width: 40.01rem)"); // phones do not show the table head
  const isList = !head.closest(".tiles"); // tiles have no head
  const place = () => (wide.matches && isList ? head.replaceChildren(all) : form.prepend(all));
  wide.addEventListener("change", place);
  place();
  const chosen = form.querySelector(".chosen");
  const show = () => {
    const n = boxes.filter((b) => b.checked).length;
    all.checked = n === boxes.length;
    all.indeterminate = n > 0 && n < boxes.length;
    chosen.textContent = n === 0 ? "" : `${n} selected`;
    for (const b of boxes) b.closest("tr").classList.toggle("chosen-row", b.checked);
  };
  all.addEventListener("change", () => {
    for (const b of boxes) b.checked = all.checked;
    show();
  });
  for (const b of boxes) b.addEventListener("change", show);
  show();
}
