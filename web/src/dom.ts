// Small helpers: elements, and text that is text.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: any) => void) | undefined>;

/** An element with attributes, listeners (`onclick`) and children. Texts are never read as HTML. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== undefined) element.setAttribute(key, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
  return element;
}

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** A picture that our own program drew: read as SVG, without scripts and handlers. */
export function picture(svg: string): Node {
  const root = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (root.nodeName !== "svg") return document.createTextNode("");
  for (const element of [root, ...root.querySelectorAll("*")]) {
    if (/^(script|foreignObject|iframe|object|embed)$/i.test(element.nodeName)) element.remove();
    for (const { name, value } of [...element.attributes])
      if (/^on/i.test(name) || (/href$/i.test(name) && !/^(#|data:image\/png;base64,)/.test(value))) element.removeAttribute(name);
  }
  return document.importNode(root, true);
}
