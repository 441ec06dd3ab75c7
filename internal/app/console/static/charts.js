// Draws charts with uPlot over their SVG, which stays for screen readers. The cursor (mouse or arrow keys) shows the values
// at a time in the legends of all charts.
"use strict";
const byteUnits = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const short = (v) => String(v >= 100 ? Math.round(v) : Number(v.toPrecision(3)));

// formatValue formats a value as the server does.
const formatValue = (v, unit) => {
  if (v == null) return "none";
  if (unit === "s") return v < 1 ? short(v * 1000) + " ms" : short(v) + " s";
  if (unit !== "B") return short(v) + unit;
  if (v < 1024) return Math.floor(v) + " B";
  let i = 0;
  for (v /= 1024; v >= 1023.95 && i < byteUnits.length - 1; i++) v /= 1024;
  return v.toFixed(1) + " " + byteUnits[i];
};
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const hour = 3600, day = 24 * hour, longDay = 20 * hour;
const formatClock = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 16);
const formatDay = (seconds) => {
  const at = new Date(seconds * 1000);
  return at.getUTCDate() + " " + months[at.getUTCMonth()];
};

// alone returns the indices of isolated values, which no line would show.
const alone = (values) => values.flatMap((v, i) => (v != null && values[i - 1] == null && values[i + 1] == null ? [i] : []));

const draw = (div) => {
  const chart = JSON.parse(div.dataset.chart), figure = div.closest("figure");
  const names = [...figure.querySelectorAll(".legend li")], lines = [...figure.querySelectorAll("path")];
  const time = document.createElement("li");
  figure.querySelector(".legend").prepend(time);
  const last = chart.times.length - 1;
  const isLong = chart.times[last] - chart.times[0] > longDay;
  const formatTime = (seconds) => (isLong ? formatDay(seconds) + " " : "") + formatClock(seconds);
  const show = (at) => {
    time.textContent = formatTime(chart.times[at]) + " UTC";
    names.forEach((li, i) => { li.textContent = chart.names[i] + ": " + formatValue(chart.values[i][at], chart.unit); });
    div.setAttribute("aria-valuenow", at);
    div.setAttribute("aria-valuetext", [time, ...names].map((e) => e.textContent).join(", "));
  };
  const muted = () => getComputedStyle(time).color, grid = { stroke: () => getComputedStyle(div).borderTopColor, width: 0.5 };
  const font = "11px system-ui, sans-serif";
  const axis = { stroke: muted, font, grid, ticks: { show: false } };
  const plot = new uPlot({
    width: div.clientWidth,
    height: div.clientHeight,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "charts" } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { y: { range: [0, chart.top] } },
    axes: [
      { ...axis, size: 24, gap: 4, grid: { show: false }, incrs: [1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880].map((minutes) => minutes * 60), values: (_, times) => times.map((s) => (s % day === 0 ? formatDay(s) : formatClock(s))) },
      { ...axis, size: 66, splits: [0, chart.top / 2, chart.top], values: (_, all) => all.map((v) => formatValue(v, chart.unit)) },
    ],
    series: [{}, ...names.map((li, i) => ({
      stroke: () => getComputedStyle(li).color,
      dash: (getComputedStyle(lines[i]).strokeDasharray.match(/[\d.]+/g) || []).map(Number),
      width: 1.5,
      points: { size: 4, fill: () => getComputedStyle(li).color, filter: () => alone(chart.values[i]) },
    }))],
    hooks: { setCursor: [(u) => show(u.cursor.idx ?? last)] },
  }, [chart.times, ...chart.values], div);
  const attributes = { role: "slider", tabindex: 0, "aria-label": chart.title + ": values by time", "aria-valuemin": 0, "aria-valuemax": last };
  for (const name in attributes) div.setAttribute(name, attributes[name]);
  show(last);
  const point = (at) => plot.setCursor({ left: plot.valToPos(chart.times[at], "x"), top: 0 }, true, true);
  div.addEventListener("keydown", (e) => {
    const now = Number(div.getAttribute("aria-valuenow"));
    const next = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, Home: 0, End: last }[e.key];
    if (next === undefined) return;
    e.preventDefault();
    point(Math.min(Math.max(next, 0), last));
  });
  div.addEventListener("blur", () => plot.setCursor({ left: -10, top: -10 }, true, true));
  figure.classList.add("drawn");
  return plot;
};

let plots = [];
const sizes = new ResizeObserver((all) => {
  for (const { target } of all) {
    plots.find((p) => p.root.parentNode === target)?.setSize({ width: target.clientWidth, height: target.clientHeight });
  }
});
const drawAll = () => {
  const gone = plots.filter((p) => !p.root.isConnected);
  for (const p of gone) p.destroy();
  plots = plots.filter((p) => !gone.includes(p));
  for (const div of document.querySelectorAll(".plot:empty")) {
    plots.push(draw(div));
    sizes.observe(div);
  }
};
drawAll();
document.addEventListener("htmx:afterSwap", drawAll); // before the browser shows the SVG, which is lower
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const p of plots) p.redraw();
});
