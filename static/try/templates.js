// URI templates: which variables one has, and the address that values make of it. Source: RFC 6570, levels 1 to 3.

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const STYLES = {
  "": { first: "", between: ",", named: false, reserved: false }, "+": { first: "", between: ",", named: false, reserved: true },
  "#": { first: "#", between: ",", named: false, reserved: true }, ".": { first: ".", between: ".", named: false, reserved: false },
  "/": { first: "/", between: "/", named: false, reserved: false }, ";": { first: ";", between: ";", named: true, reserved: false },
  "?": { first: "?", between: "&", named: true, reserved: false }, "&": { first: "&", between: "&", named: true, reserved: false },
};

function names(list) {
  return list.split(",").map((each) => each.replace(/(\*|:\d+)$/, ""));
}

/** The names of the variables, each once. */
export function variables(template) {
  return [...new Set([...template.matchAll(EXPRESSION)].flatMap(([, , list]) => names(list)))];
}

/** The address; variables without a value are left out. */
export function expanded(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const style = STYLES[operator];
    const parts = names(list).filter((name) => values[name] !== undefined && values[name] !== "").map((name) => {
      const value = style.reserved ? encodeURI(values[name]) : encodeURIComponent(values[name]);
      return style.named ? `${name}=${value}` : value;
    });
    return parts.length ? style.first + parts.join(style.between) : "";
  });
}
