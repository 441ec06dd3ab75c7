// Follows the focus while TabThrough presses the Tab key, and compares it with the document order.
window.keyboard ??= (() => {
  const interactive = [
    "a[href]", "area[href]", "button", "input:not([type=hidden])", "select", "textarea", "details > summary:first-of-type", "iframe", "audio[controls]", "video[controls]",
    "[contenteditable]:not([contenteditable=false])", "[tabindex]:not([tabindex^='-'])",
    ...["button", "link", "checkbox", "switch", "slider", "tab", "menuitem", "option"].map((role) => `[role=${role}]`),
  ].join();
  const isVisible = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  // isStop reports whether the Tab key stops at an element. In a radio group it stops once.
  const isStop = (e) => {
    if (!isVisible(e) || e.matches(":disabled") || e.closest("[inert]")) return false;
    if (e.type !== "radio") return true;
    const group = [...document.querySelectorAll("input[type=radio]")].filter((r) => r.name === e.name && r.form === e.form);
    return e === (group.find((r) => r.checked) ?? group[0]);
  };
  const stops = () => [...document.querySelectorAll(interactive)];
  const isAfter = (a, b) => !b || !!(b.compareDocumentPosition(a) & Node.DOCUMENT_POSITION_FOLLOWING);
  const styleOf = (e) => {
    const s = getComputedStyle(e);
    const isDrawn = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1 && !/, 0\)$|\/ 0\)$|transparent/.test(s.outlineColor);
    return { outline: isDrawn ? `${s.outlineStyle} ${s.outlineWidth} ${s.outlineColor}` : "", shadow: s.boxShadow };
  };
  const name = (e) => {
    if (!e || e === document.body) return "nothing";
    const clone = e.cloneNode(false).outerHTML.replace(/<\/[^>]*>$/, "");
    return clone.slice(0, 160) + (e.textContent.trim() ? ` ${e.textContent.trim().replace(/\s+/g, " ").slice(0, 40)}` : "");
  };
  const isScroller = (e) => /auto|scroll/.test(getComputedStyle(e).overflow) && (e.scrollHeight > e.clientHeight || e.scrollWidth > e.clientWidth);
  const hasParts = (e) => /date|time|month|week/.test(e.type); // the Tab key visits its fields
  // isShown reports whether a part of an element is visible: inside the window, and not covered.
  const isShown = (e) => [...e.getClientRects()].some((r) => {
    const left = Math.max(r.left, 0), top = Math.max(r.top, 0), width = Math.min(r.right, innerWidth) - left, height = Math.min(r.bottom, innerHeight) - top;
    return width > 0 && height > 0 && [.5, .1, .9].some((at) => {
      const seen = document.elementFromPoint(left + width * at, top + height * at);
      return seen && (seen === e || e.contains(seen) || seen.closest("label")?.control === e);
    });
  });

  const place = (e) => {
    const r = e.getBoundingClientRect();
    return `${Math.round(r.width)}x${Math.round(r.height)} pixels at ${Math.round(r.left)},${Math.round(r.top)} in a window of ${innerWidth}x${innerHeight}, which shows ${name(document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2))} there`;
  };

  let last, next, unfocused;
  const prepare = () => {
    if (last && !last.isConnected) last = document.getElementById(last.id); // htmx has replaced it
    next = stops().find((e) => e !== last && isAfter(e, last) && isStop(e));
    unfocused = next && styleOf(next);
  };
  const indicator = (e, before) => {
    const now = styleOf(e);
    return now.outline && now.outline !== before.outline || now.shadow !== "none" && now.shadow !== before.shadow;
  };
  return {
    start() {
      last = document.activeElement === document.body ? null : document.activeElement;
      prepare();
      return last ? 1 : 0;
    },
    // step returns the problems after pressing the key.
    step(closed) {
      const at = document.activeElement, problems = [];
      if ((last && !last.isConnected) || (next && !next.isConnected)) prepare();
      if (at === document.body || !at) {
        if (next) problems.push(`the Tab key leaves the page before ${name(next)}`);
        return { problems, ended: true };
      }
      if (at === last && hasParts(at)) return { problems };
      if (!next && at === stops().find(isStop)) return { problems, ended: true }; // the last element in the window
      if (at !== next) {
        const scrolls = isScroller(at) && isAfter(at, last) && (!next || isAfter(next, at));
        if (!scrolls) {
          problems.push(last && isAfter(last, at) ? `the Tab key goes back from ${name(last)} to ${name(at)}` : `the Tab key skips ${name(next)} and goes to ${name(at)}`);
          return { problems, ended: true };
        }
        unfocused = { outline: "", shadow: "none" };
      }
      if (!indicator(at, unfocused)) problems.push(`the focus is not visible: ${name(at)}`);
      if (!isVisible(at) || !isShown(at)) problems.push(`the element with the focus is hidden: ${name(at)}, ${place(at)}`);
      last = at;
      prepare();
      return { problems, opens: at.localName === "summary" && !at.parentNode.open && !at.closest(closed || "none") };
    },
    // toggled returns the problems after pressing a key on a summary.
    toggled(open, key) {
      const problems = [];
      if (last.parentNode.open !== open) problems.push(`the key ${JSON.stringify(key)} does not ${open ? "open" : "close"} ${name(last)}`);
      if (document.activeElement !== last) problems.push(`the key ${JSON.stringify(key)} moves the focus from ${name(last)}`);
      prepare();
      return problems;
    },
    // mouse returns the elements that only a mouse can use. clicked are elements with a click handler.
    mouse(...clicked) {
      const isOurs = (e) => e.localName === "form" || e.closest(`${interactive}, label`); // a form's script handles its buttons
      const looks = [...document.body.querySelectorAll("*")].filter((e) => getComputedStyle(e).cursor === "pointer" && isVisible(e));
      return [...new Set([...clicked.filter((e) => e instanceof Element && e !== document.documentElement && e !== document.body), ...looks])]
        .filter((e) => !isOurs(e)).map((e) => `only a mouse can click ${name(e)}`);
    },
  };
})();
