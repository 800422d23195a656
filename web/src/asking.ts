// Where answers come from: a server of ours, or the same Python in the browser.

export type Answer = Record<string, any>;
export type Ask = (request: Answer) => Promise<Answer>;

/** The key of the link that opened the page: it is taken out of the address, so that it is not shared with it. */
export function keyOfLink(): string {
  const match = /(?:^#|&)key=([\w-]+)/.exec(location.hash);
  if (match) {
    sessionStorage.setItem("key", match[1]);
    history.replaceState(null, "", location.pathname + location.search + location.hash.replace(match[0], ""));
  }
  return sessionStorage.getItem("key") ?? "";
}

/** Calls a path of the server. Throws an error with its message. */
export async function call(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Authorization: `Bearer ${sessionStorage.getItem("key") ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  const response = await fetch(path, { method, headers, signal, body: body === undefined ? null : JSON.stringify(body) });
  if (!response.ok) {
    const said = await response.json().catch(() => ({}));
    throw new Error(said.error?.message ?? `the server answers ${response.status}`);
  }
  return response;
}

export const ofServer: Ask = async (request) => (await call("studio/ask", request)).json();

/** Python in a worker, loaded from the page's own folder. */
export function inBrowser(said: (text: string) => void): Ask {
  const worker = new Worker(new URL("python.js", document.baseURI), { type: "module" });
  const waiting = new Map<number, (answer: Answer) => void>();
  let last = 0;
  worker.onmessage = ({ data }) => {
    if (data.said !== undefined) said(data.said);
    else waiting.get(data.id)?.(data.answer);
    waiting.delete(data.id);
  };
  worker.onerror = (event) => said(`Python could not be loaded: ${event.message}`);
  return (request) =>
    new Promise((resolve) => {
      waiting.set(++last, resolve);
      worker.postMessage({ id: last, request });
    });
}
