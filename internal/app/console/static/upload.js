// Uploads each file of a form in a separate request, three at a time, each with a progress bar. Without this script the form sends
// all files in one request.
"use strict";
(() => {
  const parallel = 3;
  const stored = "holdfast-uploaded"; // message to show after the page reloads

  const element = (name, text = "", attrs = {}) => {
    const e = document.createElement(name);
    e.textContent = text;
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    return e;
  };
  const count = (n) => (n === 1 ? "1 object" : `${n} objects`);

  // filesOf returns a dropped entry's files, with their folders.
  const filesOf = async (entry, folder = "") => {
    if (entry.isFile) return [{ file: await new Promise((ok, no) => entry.file(ok, no)), folder }];
    const reader = entry.createReader();
    const all = [];
    for (;;) { // a call returns only some of the entries
      const some = await new Promise((ok, no) => reader.readEntries(ok, no));
      if (some.length === 0) return all;
      for (const one of some) all.push(...(await filesOf(one, folder + entry.name + "/")));
    }
  };
  const chosen = (list) => [...list].map((file) => ({ file, folder: file.webkitRelativePath.slice(0, -file.name.length) }));

  // reasonOf reads the reason for a refused file from the answer page.
  const reasonOf = (xhr) => {
    const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
    return page.querySelector("[role=alert]")?.textContent.trim() || `The server answered with status ${xhr.status}.`;
  };

  class Uploads {
    constructor(form) {
      this.form = form;
      this.waiting = [];
      this.running = this.done = this.failed = this.canceled = this.all = 0;
      this.list = element("ol", "", { class: "uploads", "aria-label": "Uploads" });
      this.says = element("p", "", { role: "status" });
      (document.querySelector("main > .bulk, main > .scroll, main > .empty") ?? form).before(this.says, this.list);
    }

    add(files) {
      if (files.length === 0) return;
      const sheet = this.form.closest("[popover]");
      if (sheet?.matches(":popover-open")) sheet.hidePopover(); // the progress is on the page
      for (const { file, folder } of files) {
        const row = element("li");
        const bar = element("progress", "", { max: "1", value: "0", "aria-label": `Progress of ${file.name}` });
        const state = element("span", "waiting", { class: "upload-state" });
        const cancel = element("button", "Cancel", { type: "button", class: "plain", "aria-label": `Cancel ${file.name}` });
        row.append(element("span", folder + file.name, { class: "upload-name" }), bar, state, cancel);
        this.list.append(row);
        const one = { file, folder, row, bar, state, cancel };
        cancel.addEventListener("click", () => this.cancel(one));
        this.waiting.push(one);
        this.all++;
      }
      this.list.scrollIntoView({ block: "nearest" });
      this.next();
    }

    next() {
      while (this.running < parallel && this.waiting.length > 0) this.send(this.waiting.shift());
      const ended = this.done + this.failed + this.canceled;
      let text = `Uploaded ${this.done} of ${this.all}`;
      if (this.failed > 0) text += `, failed ${this.failed}`;
      if (this.canceled > 0) text += `, canceled ${this.canceled}`;
      this.says.textContent = text + ".";
      if (ended < this.all) return;
      if (this.done > 0 && this.done === this.all) {
        sessionStorage.setItem(stored, `Uploaded ${count(this.done)}.`);
        location.assign(this.target());
      } else if (this.done > 0) {
        this.says.append(" ", element("a", "Show the folder", { href: this.target() }));
      }
    }

    // target returns the URL of the folder with the new objects.
    target() {
      const at = new URL(location.href);
      for (const name of ["after", "do"]) at.searchParams.delete(name);
      for (const name of ["account", "bucket"]) at.searchParams.set(name, this.form.elements[name].value);
      at.searchParams.set("prefix", this.folder());
      return at.href;
    }

    folder() {
      const folder = this.form.elements.folder.value;
      return folder === "" || folder.endsWith("/") ? folder : folder + "/";
    }

    send(one) {
      this.running++;
      const body = new FormData();
      for (const e of this.form.elements) {
        if (e.name && e.type !== "file" && (e.type !== "checkbox" || e.checked)) body.append(e.name, e.value);
      }
      body.set("folder", this.folder() + one.folder);
      body.append("files", one.file); // after the fields: the server reads them first
      const xhr = (one.xhr = new XMLHttpRequest());
      xhr.open("POST", this.form.action);
      xhr.setRequestHeader("X-Upload", "1");
      one.state.textContent = "uploading";
      xhr.upload.addEventListener("progress", (e) => {
        one.bar.max = e.total || 1;
        one.bar.value = e.loaded;
        one.state.textContent = e.total ? `${Math.floor((100 * e.loaded) / e.total)} %` : "uploading";
        if (e.loaded === e.total) one.state.textContent = "storing";
      });
      xhr.addEventListener("load", () => this.ended(one, xhr.status === 204 ? "" : reasonOf(xhr)));
      xhr.addEventListener("error", () => this.ended(one, "The connection failed."));
      xhr.send(body);
    }

    ended(one, reason) {
      this.running--;
      one.cancel.remove();
      if (reason === "") {
        this.done++;
        one.bar.value = one.bar.max;
      } else {
        this.failed++;
        one.bar.remove();
        one.row.classList.add("failed");
      }
      one.state.textContent = reason || "done";
      this.next();
    }

    cancel(one) {
      const at = this.waiting.indexOf(one);
      if (at >= 0) this.waiting.splice(at, 1);
      else {
        one.xhr.abort();
        this.running--;
      }
      this.canceled++;
      one.bar.remove();
      one.cancel.remove();
      one.state.textContent = "canceled";
      this.next();
    }
  }

  const enhance = (form) => {
    const input = form.querySelector("input[type=file]");
    if (!input) return;
    let uploads = null;
    const start = (files) => {
      if (files.length === 0) return;
      uploads ??= new Uploads(form);
      uploads.add(files);
      input.value = "";
    };
    const zone = form.closest("main"); // the list, too
    zone.addEventListener("dragover", (e) => {
      if (!e.dataTransfer.types.includes("Files")) return;
      e.preventDefault();
      zone.classList.add("over");
    });
    zone.addEventListener("dragleave", (e) => zone.contains(e.relatedTarget) || zone.classList.remove("over"));
    zone.addEventListener("drop", async (e) => {
      if (!e.dataTransfer.types.includes("Files")) return;
      e.preventDefault();
      zone.classList.remove("over");
      if (!input.multiple) {
        if (e.dataTransfer.files.length === 0) return;
        input.files = e.dataTransfer.files;
        form.requestSubmit();
        return;
      }
      const entries = [...e.dataTransfer.items].map((i) => i.webkitGetAsEntry()).filter(Boolean);
      const files = entries.length > 0 ? (await Promise.all(entries.map((one) => filesOf(one)))).flat() : chosen(e.dataTransfer.files);
      start(files);
    });
    if (!input.multiple) return;
    form.addEventListener("submit", (e) => {
      if (input.files.length === 0) return;
      e.preventDefault();
      start(chosen(input.files));
    });
    const folder = element("input", "", { type: "file", webkitdirectory: "", multiple: "", hidden: "" });
    const button = element("button", "Upload a folder", { type: "button", class: "plain" });
    button.addEventListener("click", () => folder.click());
    folder.addEventListener("change", () => {
      start(chosen(folder.files));
      folder.value = "";
    });
    form.append(button, folder);
  };
  document.querySelectorAll("form.drop").forEach(enhance);

  const says = sessionStorage.getItem(stored);
  if (says) {
    sessionStorage.removeItem(stored);
    document.querySelector(".head")?.after(element("p", says, { class: "notice ok", role: "status" }));
  }
})();
