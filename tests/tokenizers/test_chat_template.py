"""Chat templates: the text is that of transformers; what takes all time or memory is stopped; what is wrong is said."""

import json
import pickle
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.pace import PATIENCE
from tests.tokenizers.published_folders import write_folder, write_plain
from transformula.errors import CheckpointError, InputError
from transformula.tokenizers import chat_template
from transformula.tokenizers.base import load
from transformula.tokenizers.chat_template import ChatTemplate, read_template, render_chat
from transformula.tokenizers.pretrained import Pretrained

NAMES = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}

TEMPLATES = {
    "chatml": """\
{% for message in messages %}
    {%- if loop.first and message.role != 'system' %}
        {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>' ~ '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "llama3": """\
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Year: " + strftime_now("%Y") + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate user/assistant/user') }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + " [/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + " [/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message["content"] + eos_token}}
    {%- endif %}
{%- endfor %}
""",
    "gemma": """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{% endfor %}
{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}
""",
    "tools": """\
{%- macro header(name, level=1) %}{{ '#' * level }} {{ name | upper }}
{% endmacro %}
{%- if tools %}
    {{- header('tools', level=2) }}
    {%- for tool in tools %}{{ tool | tojson(indent=2) }}{% if not loop.last %}, {% endif %}{% endfor %}
{%- endif %}
{%- set ns = namespace(count=0, names=[]) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}
    {%- set ns.count = ns.count + 1 %}
    {%- generation %}{% set inside = loop is defined %}{{ message.content | tojson }} {{ inside }}{% endgeneration %}
    {%- if loop.index > 5 %}{% break %}{% endif %}
{%- endfor %}
    {% if tools %}
  indented
    {% endif %}
{{ messages[0].name is defined }}
{{ ns.count }} of {{ messages | length }} {{ documents }} {{ dict(a=1).items() | list }} {{ thinking | default('off') }}
{{ messages | map(attribute='role') | unique | join(', ') }} {{ 'a' if messages[-1] is mapping else 'b' }}
""",
}
CHATS = [
    [{"role": "user", "content": "Hé <b> & 'x' \n"}, {"role": "assistant", "content": " ja"},
     {"role": "user", "content": "東京"}],
    [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "{{ 1 + 1 }} {% raw %}"}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "user", "content": "a", "name": None}],
]  # fmt: skip
TOOL = {"type": "function", "function": {"name": "ü<", "parameters": {"b": [1, 2.5, None], "a": True}}}


@cache
def theirs() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **NAMES)


def by_transformers(template: str, chat: Any, prompt: bool, **values: Any) -> str | None:
    from jinja2.exceptions import TemplateError

    try:
        return str(theirs().apply_chat_template(
            chat, chat_template=template, tokenize=False, add_generation_prompt=prompt, **values
        ))  # fmt: skip
    except TemplateError:
        return None


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_text_is_that_of_transformers(name: str) -> None:
    template, rendered = ChatTemplate(TEMPLATES[name], NAMES), 0
    for chat in CHATS:
        for prompt in (True, False):
            for values in ({}, {"tools": [TOOL, TOOL], "thinking": "on", "eos_token": "END"}):
                expected = by_transformers(TEMPLATES[name], chat, prompt, **values)
                if expected is None:
                    with pytest.raises(InputError, match="^the template: the chat template refuses these messages"):
                        template.render(chat, prompt, **values)
                else:
                    assert template.render(chat, prompt, **values) == expected
                    rendered += 1
    assert rendered >= 8
    assert name != "llama3" or str(datetime.now().year) in template.render(CHATS[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more than 0.3 seconds"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxx{% endfor %}{% endfor %}", "characters"),
        ("{{ 'a' * 10**9 }}", "MiB of memory"),
        ("{{ '' | center(10**9) }}", "MiB of memory"),
        ("{{ '%1000000000d' % 1 }}", "MiB of memory"),
        ("{{ '{:1000000000}'.format(1) }}", "MiB of memory"),
        pytest.param("{{ 9 ** (9 ** 9) }}", "seconds", marks=pytest.mark.slow),
        ("{{ range(10**9) | list }}", "range"),  # jinja's own limit
        ("{{ ('a' * 10**7) }}", "more than 4,000,000 characters"),
        ("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}", "calls itself without an end"),
        (
            "{% set n = namespace(a='ab') %}{% for i in range(99) %}{% set n.a = n.a * 2 %}{% endfor %}",
            "memory|seconds",
        ),
        ("{{ " + "(" * 9999 + ")" * 9999 + " }}", "nested too deeply"),
        ("{{ ().__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% include '/etc/passwd' %}", "cannot be used"),
        ("line one\n{% if %}", "line 2: Expected an expression"),
        ("{{ nothing.at.all }}", "UndefinedError: 'nothing' is undefined"),
    ],
)
def test_what_has_no_end_is_stopped(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "0.3 seconds" in said:
        monkeypatch.setattr(chat_template, "SECONDS", 0.3)
    template = ChatTemplate(text, source="folder/chat_template.jinja")
    with pytest.raises(CheckpointError, match=f"^folder/chat_template.jinja: the chat template .*{said}"):
        template.render([{"role": "user", "content": "a"}])


def test_a_process_that_was_stopped_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "SECONDS", 0.3)
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    text = "{{ messages[0].content }}{% if messages[1] %}" + loops + "{% endif %}"
    template, one = ChatTemplate(text), [{"role": "user", "content": "a\ud800\n"}]
    assert template.render(one) == "a\ud800\n"
    first = template._process
    assert template.render(one) == "a\ud800\n" and template._process is first is not None
    with pytest.raises(CheckpointError, match="seconds"):
        template.render([*one, *one])
    assert template.render(one) == "a\ud800\n" and template._process is not first
    first.kill()  # by whomever
    assert pickle.loads(pickle.dumps(template)).render(one) == "a\ud800\n"
    last = template._process
    del template
    assert last is not None and last.wait(PATIENCE) != 0  # it does not stay behind


def test_messages_that_are_none() -> None:
    with pytest.raises(InputError, match="there is no message"):
        ChatTemplate("").render([])
    with pytest.raises(InputError, match="as in JSON"):
        ChatTemplate("").render([{"role": "user", "content": {1, 2}}])


def test_the_template_of_a_folder(tmp_path: Path) -> None:
    folder = write_plain("llama3", tmp_path)
    assert load(folder).chat is None  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="there is no chat template"):
        read_template(folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    several = [{"name": "default", "template": "{{ bos_token }}1"}, {"name": "tool_use", "template": "2"}]
    for kept, text in (("{{ bos_token }}0", "0"), (several, "1")):
        (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": kept}))
        assert render_chat(folder, CHATS[0]) == f"<|begin_of_text|>{text}"
    (folder / "chat_template.jinja").write_text("{{ eos_token }}")  # counts before the others
    assert render_chat(folder, CHATS[0]) == "<|eot_id|>"
    (folder / "chat_template.jinja").write_text("{{")
    with pytest.raises(CheckpointError, match=f"^{folder}/chat_template.jinja: .*line 1"):
        render_chat(folder, CHATS[0])


def test_ids_of_a_chat_are_those_of_transformers_and_are_saved(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = write_folder("llama3", tmp_path / "first")
    (folder / "chat_template.jinja").write_text(TEMPLATES["llama3"])
    ours, other = load(folder), AutoTokenizer.from_pretrained(folder)
    assert isinstance(ours, Pretrained) and ours.chat is not None
    ids = ours.encode_special(ours.chat.render(CHATS[0]), template=False)
    assert ids == other.apply_chat_template(CHATS[0], add_generation_prompt=True)["input_ids"]
    ours.save(tmp_path / "new")
    again = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert again.apply_chat_template(CHATS[0], add_generation_prompt=True)["input_ids"] == ids
    assert render_chat(tmp_path / "new", CHATS[0]) == render_chat(folder, CHATS[0])
