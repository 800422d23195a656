// A worker that runs the package's own Python by Pyodide, from files beside the page. No server, no network.

const worker = self as unknown as DedicatedWorkerGlobalScope;

async function load(): Promise<(request: string) => string> {
  const said = (text: string) => worker.postMessage({ said: text });
  said("Python is being loaded (a few seconds, once)");
  const place = new URL("pyodide/", worker.location.href).href;
  const { loadPyodide } = await import(/* @vite-ignore */ `${place}pyodide.mjs`);
  const python = await loadPyodide({ indexURL: place });
  for (const name of ["transformula.zip", "yaml.zip"]) {
    const response = await fetch(new URL(name, worker.location.href));
    python.unpackArchive(await response.arrayBuffer(), "zip", { extractDir: "/packages" });
  }
  const answer = python.runPython(
    "import sys; sys.path.insert(0, '/packages')\nfrom transformula.api.editing import answer_json\nanswer_json",
  );
  said("");
  return answer;
}

const loaded = load();

worker.onmessage = async ({ data }) => {
  try {
    const answer = await loaded;
    worker.postMessage({ id: data.id, answer: JSON.parse(answer(JSON.stringify(data.request))) });
  } catch (error) {
    worker.postMessage({ id: data.id, answer: { error: { message: String(error) } } });
  }
};
