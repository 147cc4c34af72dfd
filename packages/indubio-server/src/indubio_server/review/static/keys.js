/* Keyboard first. A key clicks what carries it in data-key, so that keys and pointers do the same; nothing works with
   keys alone. Without this script every page still works. */
"use strict";

let busy = false; // between a request and the page that follows: a key must never fall on a case that was not seen
const SETTING = "indubio-single-keys";

function keysAreOn() {
  return window.localStorage.getItem(SETTING) !== "off";
}

function typing(target) {
  return target.closest("textarea, select, input:not([type=checkbox]):not([type=range]), [contenteditable]") !== null;
}

function carrier(attribute, key) {
  return document.querySelector(`[${attribute}~="${CSS.escape(key)}"]:not(:disabled)`);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && typing(event.target)) {
    event.target.blur();
    return;
  }
  if (event.repeat || event.altKey || event.metaKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const key = (event.ctrlKey ? "ctrl+" : "") + event.key.toLowerCase();
  if (key === "enter" && event.target.closest("a, button, summary, input")) return;
  if (!event.ctrlKey && key !== "enter" && !keysAreOn() && key !== "?") return;
  const pressed = carrier("data-key", key);
  const focused = carrier("data-focus-key", key);
  if (!pressed && !focused) return;
  if (pressed && pressed.closest("fieldset:disabled")) return;
  event.preventDefault();
  if (focused) focused.focus();
  else if (!busy) pressed.click();
});

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (!opener) return;
  const dialog = document.getElementById(opener.dataset.opens);
  dialog.querySelector("#keys-on").checked = keysAreOn();
  dialog.showModal();
});

document.addEventListener("change", (event) => {
  if (event.target.id === "keys-on") window.localStorage.setItem(SETTING, event.target.checked ? "on" : "off");
});

document.addEventListener("input", (event) => {
  if (!event.target.dataset.shows) return;
  document.getElementById(event.target.dataset.shows).textContent =
    `${Number(event.target.value).toLocaleString(document.documentElement.lang, { minimumFractionDigits: 1 })} %`;
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.boosted) busy = true;
});
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.failed) busy = false;
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.elt !== document.body && event.detail.target !== document.body) return;
  busy = false;
  const heading = document.querySelector("main h1[tabindex]");
  if (heading) heading.focus({ preventScroll: true });
});
document.addEventListener("htmx:sendError", () => {
  busy = false;
  const message = document.querySelector(".message");
  if (message) message.textContent = document.body.dataset.noAnswer;
});
