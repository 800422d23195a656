"""The interface described: as OpenAPI, and as a page for people."""

from __future__ import annotations

import html
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.routing import Route

from .. import __version__
from ..settings import Settings
from .bodies import ChatBody, CompletionBody, EmbeddingBody, NoBody, PredictBody

BODIES: dict[str, type[Settings]] = {
    "/v1/chat/completions": ChatBody,
    "/v1/completions": CompletionBody,
    "/v1/embeddings": EmbeddingBody,
    "/v1/predict": PredictBody,
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 60},
    "/v1/completions": {"prompt": "The with statement", "max_tokens": 60, "temperature": 0.8},
    "/v1/embeddings": {"input": ["Two dogs play in the snow."]},
    "/v1/predict": {"inputs": ["A film that I will not forget."], "settings": {}},
}


def description(routes: Sequence[Route]) -> dict[str, Any]:
    """The interface as OpenAPI 3.1 describes one."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for route in routes:
        for method in sorted((route.methods or set()) - {"HEAD"}):
            said: dict[str, Any] = {
                "summary": (inspect.getdoc(route.endpoint) or "").partition("\n")[0],
                "operationId": route.name,
                "responses": {
                    "200": {"description": "the answer"},
                    "default": {"description": "an error: an object with error.message"},
                },
            }
            names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
            if names:
                said["parameters"] = [
                    {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
                ]
            if method == "POST":
                kind = BODIES.get(route.path, NoBody)
                schema = kind.model_json_schema(ref_template="#/components/schemas/{model}", by_alias=True)
                schemas |= schema.pop("$defs", {})
                schemas[kind.__name__] = schema
                content = {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}
                content |= {"example": EXAMPLES[route.path]} if route.path in EXAMPLES else {}
                said["requestBody"] = {"required": kind is not NoBody, "content": {"application/json": content}}
            paths.setdefault(route.path, {})[method.lower()] = said
    return {
        "openapi": "3.1.0",
        "info": {"title": "transformula", "version": __version__, "description": "Trained models over HTTP."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre, textarea { font: 14px/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: 6px; }
textarea { width: 100%; box-sizing: border-box; padding: .5rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; vertical-align: top; border-bottom: 1px solid #8883; }
summary { cursor: pointer; padding: .4rem 0; }
button { font: inherit; padding: .3rem 1rem; }
"""

SCRIPT = """
for (const form of document.querySelectorAll("form[data-path]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const out = form.querySelector("output"), key = document.querySelector("#key").value;
    const headers = {"Content-Type": "application/json", ...(key && {"Authorization": "Bearer " + key})};
    out.textContent = "...";
    try {
      const answer = await fetch(form.dataset.path, {method: "POST", headers, body: form.body.value});
      const text = await answer.text();
      try { out.textContent = JSON.stringify(JSON.parse(text), null, 1); } catch { out.textContent = text; }
    } catch (error) { out.textContent = String(error); }
  });
}
"""


def page(described: Mapping[str, Any], cards: Sequence[Mapping[str, Any]]) -> str:
    """The page for people: the models, each path with its fields, and a form to try it."""
    text = html.escape
    rows = "".join(
        f"<tr><td><code>{text(str(card['id']))}</code></td><td>{text(str(card.get('task', '')))}</td>"
        f"<td>{text(str(card['state']))}</td><td>{card.get('parameters', 0):,}</td></tr>"
        for card in cards
    )
    parts = []
    for path, methods in described["paths"].items():
        for method, said in methods.items():
            parts.append(
                f"<details><summary><code>{method.upper()} {text(path)}</code> {text(said['summary'])}</summary>"
            )
            if path in BODIES:
                parts.append(fields(described["components"]["schemas"][BODIES[path].__name__]))
                example = text(json.dumps(EXAMPLES[path], indent=1))
                parts.append(
                    f'<form data-path="{text(path)}"><label>Try it <textarea name="body" rows="6">{example}</textarea>'
                    "</label><p><button>Send</button></p><pre><output></output></pre></form>"
                )
            parts.append("</details>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>transformula</title><style>{STYLE}</style><h1>transformula {text(__version__)}</h1>"
        f"<table><tr><th>model</th><th>task</th><th>state</th><th>parameters</th></tr>{rows}</table>"
        '<p><label>Key, where one is asked for: <input id="key" type="password" autocomplete="off"></label></p>'
        f'{"".join(parts)}<p><a href="openapi.json">openapi.json</a></p><script>{SCRIPT}</script></html>'
    )


def fields(schema: Mapping[str, Any]) -> str:
    """The fields of a request, as a table."""
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(str(about.get('description', '')))}</td></tr>"
        for name, about in schema.get("properties", {}).items()
    )
    return f"<table><tr><th>field</th><th>what it is</th></tr>{rows}</table>"
