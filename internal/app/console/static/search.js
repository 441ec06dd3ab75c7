// htmx fetches suggestions while the user types in the search. This script turns them into a combobox: arrows select, Enter opens,
// Escape closes the list.
"use strict";
for (const input of document.querySelectorAll(".find [role=combobox]")) {
  const found = document.getElementById("found");
  const status = input.form.querySelector("[role=status]");
  const options = () => [...found.querySelectorAll("[role=option]")];
  let dismissed = null; // the text for which the list was closed

  const choose = (option) => {
    for (const o of options()) o.setAttribute("aria-selected", o === option);
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  };
  const show = (isShown) => {
    found.hidden = !isShown;
    input.setAttribute("aria-expanded", isShown && options().length > 0);
    if (!isShown) choose(null);
  };
  const close = () => {
    dismissed = input.value;
    htmx.trigger(input, "htmx:abort");
    show(false);
  };

  input.addEventListener("input", () => {
    if (input.value.trim() === "") close();
    else dismissed = null;
  });
  found.addEventListener("htmx:afterSwap", () => {
    choose(null);
    show(found.childElementCount > 0 && input.value !== dismissed && document.activeElement === input);
    status.textContent = found.hidden ? "" : found.querySelector(".help").textContent;
  });
  input.addEventListener("keydown", (e) => {
    const all = options(), at = all.findIndex((o) => o.ariaSelected === "true");
    if (e.isComposing || found.hidden) return;
    switch (e.key) {
      case "ArrowDown": choose(all[at + 1] ?? all[0]); break;
      case "ArrowUp": choose(all.at(at < 0 ? -1 : at - 1)); break;
      case "Enter":
        if (at < 0) return;
        all[at].click();
        break;
      case "Escape": close(); break;
      default: return;
    }
    e.preventDefault();
  });
  document.addEventListener("mousedown", (e) => { if (found.contains(e.target)) e.preventDefault(); }); // the input keeps the focus
  input.addEventListener("blur", close);
  input.addEventListener("focus", () => { dismissed = null; });
}
