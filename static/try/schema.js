// What a form needs to know of a JSON Schema (2020-12): references followed, choices recognised, nothing checked.
// The server checks; a form only has to make it easy to say something that fits.

const DEEPEST = 8;

/** A schema with its local `$ref` followed and `allOf` of objects merged; `{}` for what says nothing. */
export function followed(schema, root, depth = 0) {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return {};
  if (typeof schema.$ref === "string" && depth < DEEPEST) {
    const { $ref, ...own } = schema;
    return { ...followed(pointed(root, $ref), root, depth + 1), ...own };
  }
  return schema;
}

function pointed(root, ref) {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return anchored(root, ref.slice(1));
  return ref.slice(2).split("/").reduce(
    (value, step) => value?.[decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

function anchored(root, name) {
  return Object.values(root?.$defs || {}).find((each) => each?.$anchor === name);
}

/** The values that may be chosen, as `[{value, label}]`, or null when the schema is no choice. */
export function choices(schema) {
  if (Array.isArray(schema.enum)) {
    return schema.enum.map((value, index) => ({ value, label: schema.enumNames?.[index] ?? words(value) }));
  }
  for (const key of ["oneOf", "anyOf"]) {
    const all = schema[key];
    if (Array.isArray(all) && all.length && all.every((each) => each && "const" in each)) {
      return all.map((each) => ({ value: each.const, label: each.title ?? words(each.const) }));
    }
  }
  return "const" in schema ? [{ value: schema.const, label: words(schema.const) }] : null;
}

function words(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The one schema beside null in `anyOf`/`oneOf`/`type`, or the schema itself. */
export function withoutNull(schema, root) {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((each) => each !== "null");
    if (types.length < schema.type.length) return { ...schema, type: types.length === 1 ? types[0] : types, nullable: true };
  }
  for (const key of ["anyOf", "oneOf"]) {
    if (!Array.isArray(schema[key])) continue;
    const rest = schema[key].filter((each) => each?.type !== "null");
    if (rest.length < schema[key].length && rest.length === 1) {
      const { [key]: _, ...own } = schema;
      return { ...followed(rest[0], root), ...own, nullable: true };
    }
  }
  return schema;
}

/** Which kind of field says values of a schema. */
export function kindOf(schema) {
  if (choices(schema)) return "choice";
  const several = schema.anyOf || schema.oneOf;
  if (Array.isArray(several) && several.length > 1 && !schema.properties) return "variants";
  if (Array.isArray(schema.type)) return "json";
  if (schema.type === "object" || schema.properties) return schema.properties ? "object" : "json";
  if (schema.type === "array") return arrayKind(schema);
  return ["string", "number", "integer", "boolean"].includes(schema.type) ? schema.type : "json";
}

function arrayKind(schema) {
  if (schema.prefixItems || !schema.items || schema.items === true) return "json";
  return choices(schema.items) ? "choices" : "array";
}

/** The names of arguments that are repeated in headers: `[[header, path]]`. */
export function headersOf(schema, path = []) {
  return Object.entries(schema?.properties || {}).flatMap(([name, inner]) => [
    ...(typeof inner?.["x-mcp-header"] === "string" ? [[inner["x-mcp-header"], [...path, name]]] : []),
    ...headersOf(inner, [...path, name]),
  ]);
}
