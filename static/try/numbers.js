// JSON with every integer as its author wrote it, also beyond 2^53, where a JavaScript number changes.
// Source: ECMAScript "JSON.parse source text access" (`context.source`, `JSON.rawJSON`).

/** Whether this browser can keep the source text of a number. */
const KEEPS_SOURCE = typeof JSON.rawJSON === "function";

/** Whether a JavaScript number changes the integer of this source text. */
function isInexact(source) {
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(Number(source)) && String(Number(source)) !== source;
}

/** Read a JSON text; an integer that JavaScript would change becomes raw JSON (`isRaw`). Throws SyntaxError. */
export function readJson(text) {
  if (!KEEPS_SOURCE) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && isInexact(context.source) ? JSON.rawJSON(context.source) : value);
}

/** Read a JSON text as `readJson` does; return undefined for other text. */
export function parseJson(text) {
  try {
    return readJson(text);
  } catch {
    return undefined;
  }
}

/** Read the text of a decimal number: a JavaScript number, or raw JSON for an integer that would change. */
export function readNumber(text) {
  const source = text.replace(/^\+/, "").replace(/^(-?)0+(?=\d)/, "$1");
  return KEEPS_SOURCE && isInexact(source) ? JSON.rawJSON(source) : Number(source);
}

/** Whether a value is an integer that JavaScript numbers cannot hold. */
export function isRaw(value) {
  return KEEPS_SOURCE && JSON.isRawJSON(value);
}

/** Write a JSON value as text: a string stays as it is, an integer has all its digits. */
export function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Find the first integer in a JSON text that this browser would change; undefined when there is no such integer. */
export function findInexactNumber(text) {
  if (KEEPS_SOURCE) return undefined;
  const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, "").match(/-?\d[\d.eE+-]*/g) || [];
  return numbers.find(isInexact);
}
