// Read and expand URI templates. Source: RFC 6570, levels 1 to 3.

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const STYLES = {
  "": { first: "", between: ",", named: false, reserved: false }, "+": { first: "", between: ",", named: false, reserved: true },
  "#": { first: "#", between: ",", named: false, reserved: true }, ".": { first: ".", between: ".", named: false, reserved: false },
  "/": { first: "/", between: "/", named: false, reserved: false }, ";": { first: ";", between: ";", named: true, reserved: false },
  "?": { first: "?", between: "&", named: true, reserved: false }, "&": { first: "&", between: "&", named: true, reserved: false },
};

function splitNames(list) {
  return list.split(",").map((each) => each.replace(/(\*|:\d+)$/, ""));
}

/** List the names of the variables, each once. */
export function variableNames(template) {
  return [...new Set([...template.matchAll(EXPRESSION)].flatMap(([, , list]) => splitNames(list)))];
}

/** Expand a template; leave out variables without a value. */
export function expandTemplate(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const style = STYLES[operator];
    const parts = splitNames(list).filter((name) => values[name] !== undefined && values[name] !== "").map((name) => {
      const value = style.reserved ? encodeURI(values[name]) : encodeURIComponent(values[name]);
      return style.named ? `${name}=${value}` : value;
    });
    return parts.length ? style.first + parts.join(style.between) : "";
  });
}
