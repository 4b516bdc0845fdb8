// The frame of an app: a page of the hub on an opaque origin, with the app in an inner frame.
// Source: SEP-1865 (MCP Apps), 2026-01-26, sandbox proxy.

import { hubPath } from "../paths.js";
import { el } from "../try/dom.js";

const RESERVED = "ui/notifications/sandbox-";
const FEATURES = { camera: "camera", microphone: "microphone", geolocation: "geolocation", clipboardWrite: "clipboard-write" };
const MIN_HEIGHT = 40;
const FIRST_HEIGHT = 240;

/** The largest height of an app, in pixels. */
export const MAX_HEIGHT = 900;

export class Frame {
  /**
   * `ui` is `_meta.ui` of the app. `onReady(csp)` gets the sources that the frame allows, `onMessage(data)` each message
   * of the app; `onLeft()` says that the app has left its frame and is gone.
   */
  constructor({ html, ui, title, onReady, onMessage, onLeft }) {
    Object.assign(this, { html, onReady, onMessage, onLeft });
    this.permissions = Object.fromEntries(Object.keys(FEATURES).filter((name) => isObject(ui.permissions?.[name])).map((name) => [name, {}]));
    const query = new URLSearchParams({ csp: JSON.stringify(isObject(ui.csp) ? ui.csp : {}) });
    this.element = el("iframe", {
      title, src: hubPath(`/render/app?${query}`), sandbox: "allow-scripts allow-forms", height: String(FIRST_HEIGHT),
      allow: Object.keys(this.permissions).map((name) => FEATURES[name]).join("; "),
    });
    this.listener = (event) => this.#receive(event);
    addEventListener("message", this.listener);
  }

  #receive({ source, data }) {
    if (!source || source !== this.element.contentWindow) return;
    const method = typeof data?.method === "string" ? data.method : "";
    if (method === `${RESERVED}proxy-ready`) {
      this.onReady(data.params.csp);
      const params = { html: this.html, permissions: this.permissions };
      this.post({ jsonrpc: "2.0", method: `${RESERVED}resource-ready`, params });
    } else if (method === `${RESERVED}left`) {
      this.onLeft();
    } else if (!method.startsWith(RESERVED)) {
      this.onMessage(data);
    }
  }

  /** Send a message to the app. The frame has an opaque origin, which no target origin can name; only this page can navigate it. */
  post(message) {
    this.element.contentWindow?.postMessage(message, "*");
  }

  resize(height) {
    if (Number.isFinite(height)) this.element.height = String(Math.round(Math.min(Math.max(height, MIN_HEIGHT), MAX_HEIGHT)));
  }

  remove() {
    removeEventListener("message", this.listener);
    this.element.remove();
  }
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
