"""The part of the hub's protocol by which a model is sent: who asks, a new repository, large files, the commit."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Repository:
    """The files of a data set, or of a model, by path. `gated`: the files are for those who show this token; `listed`:
    other names under which the hub lists them."""

    files: Mapping[str, bytes]
    gated: str | None = None
    revisions: tuple[str, ...] = ("main",)
    listed: Mapping[str, str] = field(default_factory=dict)
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha1(b"".join(path.encode() + body for path, body in sorted(self.files.items())))
        self.sha = digest.hexdigest()

    def knows(self, revision: str) -> bool:
        return revision in (self.sha, *self.revisions)


def server_name(parts: Sequence[str]) -> str:
    """What an address of large files is for."""
    if parts[-1:] == ["batch"] and parts[2:4] == ["info", "lfs"]:
        return "batch"
    return "upload" if parts[0] == "upload" and len(parts) == 2 else ""


class Sending:
    """What a connection of the hub answers to one that sends."""

    server: Any
    headers: Any
    posted: bytes
    due: int | str | None
    send: Any
    refuse: Any
    astray: Any
    begin: Any

    def posted_json(self, key: str) -> Any:
        return json.loads(self.posted)[key]

    def sent_to(self, parts: list[str]) -> bool:
        """Answer what is asked around a commit: who asks, a new repository, room for large files, these themselves."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        server, where = self.server, server_name(parts)
        if parts == ["api", "whoami-v2"]:
            if token not in server.logins:
                self.refuse(401, "", "Invalid user token.")
            else:
                self.send({"type": "user", "name": server.logins[token], "orgs": []})
        elif parts == ["api", "validate-yaml"]:
            self.send({"errors": [], "warnings": []})
        elif parts == ["api", "repos", "create"]:
            asked = json.loads(self.posted)
            owner = server.logins.get(token)
            name = f"{asked.get('organization') or owner}/{asked['name']}"
            if asked.get("organization", owner) != owner:
                self.refuse(403, "", f"You don't have the rights to create a model under the namespace {name}")
            elif name in server.repositories:
                self.refuse(409, "", "You already created this model repo", url=f"{server.url}/{name}")
            else:
                server.private[name] = asked.get("visibility") == "private" or asked.get("private") is True
                server.repositories[name] = Repository({".gitattributes": b""})
                self.send({"url": f"{server.url}/{name}"})
        elif where == "batch":
            objects = self.posted_json("objects")
            for each in objects:
                each["actions"] = {"upload": {"href": f"{server.url}/upload/{each['oid']}"}}
            self.send({"transfer": "basic", "objects": objects})
        elif where == "upload":
            fault = server.fault(f"upload/{parts[1]}")
            if isinstance(fault, int):
                self.astray(fault)
            else:
                assert hashlib.sha256(self.posted).hexdigest() == parts[1]
                server.uploads[parts[1]] = self.posted
                self.begin(200, 0, {})
        else:
            return False
        return True

    def committed(self, name: str, verb: str) -> None:
        """Which files are sent in the commit itself and which before it; and the commit."""
        self.due = self.server.fault(f"api:{verb}/{name}")
        if isinstance(self.due, int):
            return self.astray(self.due)
        if verb == "preupload":
            paths = [file["path"] for file in self.posted_json("files")]
            modes = {path: "lfs" if path.endswith(".safetensors") else "regular" for path in paths}
            said = [{"path": path, "shouldIgnore": False, "uploadMode": mode} for path, mode in modes.items()]
            return self.send({"files": said})
        files = dict(self.server.repositories[name].files)
        for line in map(json.loads, self.posted.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.uploads[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.server.repositories[name] = repository = Repository(files)
        url = f"{self.server.url}/{name}/commit/{repository.sha}"
        return self.send({"success": True, "commitOid": repository.sha, "commitUrl": url, "hookOutput": ""})
