// The addresses of the hub's own paths. A proxy may publish the hub below a path prefix, and then this file is at
// PREFIX/static/paths.js.

const ROOT = new URL("..", import.meta.url);

/** Return the address of a path of the hub, such as `/activity.json?limit=1`. */
export function hubPath(path) {
  const { pathname, search } = new URL(`.${path}`, ROOT);
  return pathname + search;
}
