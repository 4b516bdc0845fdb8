// Read a JSON Schema (2020-12) for a form: resolve references and find choices. The server checks the values.

import { asText } from "./numbers.js";

const MAX_REFERENCE_DEPTH = 8;

/** Resolve the local `$ref` of a schema; return `{}` for a schema that is not an object. */
export function resolveReference(schema, root, depth = 0) {
  if (typeof schema !== "object" || schema === null || Array.isArray(schema)) return {};
  if (typeof schema.$ref === "string" && depth < MAX_REFERENCE_DEPTH) {
    const { $ref, ...own } = schema;
    return { ...resolveReference(resolvePointer(root, $ref), root, depth + 1), ...own };
  }
  return schema;
}

function resolvePointer(root, ref) {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return findAnchor(root, ref.slice(1));
  return ref.slice(2).split("/").reduce(
    (value, step) => value?.[decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~")], root);
}

function findAnchor(root, name) {
  return Object.values(root?.$defs || {}).find((each) => each?.$anchor === name);
}

/** List the values of a schema that is a choice, as `[{value, label}]`; null for any other schema. */
export function choices(schema) {
  if (Array.isArray(schema.enum)) {
    return schema.enum.map((value, index) => ({ value, label: schema.enumNames?.[index] ?? asText(value) }));
  }
  for (const key of ["oneOf", "anyOf"]) {
    const all = schema[key];
    if (Array.isArray(all) && all.length && all.every((each) => typeof each === "object" && each && "const" in each)) {
      return all.map((each) => ({ value: each.const, label: each.title ?? asText(each.const) }));
    }
  }
  return "const" in schema ? [{ value: schema.const, label: asText(schema.const) }] : null;
}

/** Return the schema without its null alternative in `anyOf`, `oneOf` or `type`, marked `nullable`. */
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
      return { ...resolveReference(rest[0], root), ...own, nullable: true };
    }
  }
  return schema;
}

/** Choose the kind of field for a schema. */
export function fieldKind(schema) {
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

/** List the arguments that headers repeat (`x-mcp-header`), as `[[header, path]]`. */
export function headerArguments(schema, path = []) {
  return Object.entries(schema?.properties || {}).flatMap(([name, inner]) => [
    ...(typeof inner?.["x-mcp-header"] === "string" ? [[inner["x-mcp-header"], [...path, name]]] : []),
    ...headerArguments(inner, [...path, name]),
  ]);
}
