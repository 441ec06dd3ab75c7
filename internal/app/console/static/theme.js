// Applies the chosen colors before the page is shown. Without a choice, and without this script, the system decides.
"use strict";
const themes = ["light", "dark"];
const applyTheme = (theme) => {
  if (themes.includes(theme)) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
};
try {
  applyTheme(localStorage.getItem("theme"));
} catch {} // the browser stores nothing
