"""What clients send: the fields of OpenAI's interface that a model can follow, and those of our own. A field that none
of them names is refused, and one that would change nothing here is accepted at that value alone."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from ..plain import several
from ..settings import Settings

MAX_TOP_LOGPROBS = 20  # log probabilities beside that of the chosen token
Texts = str | list[str]


class StreamOptions(Settings):
    """What is said in a stream beside the text."""

    include_usage: bool = Field(False, description="a last event has the numbers of tokens")
    include_obfuscation: Literal[False] = Field(False, description="events are not padded")


class JsonSchema(Settings):
    """A JSON schema by its name."""

    name: str = Field("answer", description="a name, which changes nothing")
    description: str | None = Field(None, description="what it is for, which changes nothing")
    schema_: dict[str, Any] = Field(alias="schema", description="the JSON schema that the text follows")
    strict: bool | None = Field(None, description="it is followed in any case")


class ResponseFormat(Settings):
    """The form of an answer."""

    type: Literal["text", "json_object", "json_schema", "regex", "choice", "grammar"] = Field(
        "text", description="what the text is; regex, choice and grammar are additions to OpenAI's"
    )
    json_schema: JsonSchema | None = Field(None, description="with json_schema")
    regex: str | None = Field(None, description="with regex: a regular expression that the whole text matches")
    choice: list[str] | None = Field(None, min_length=1, description="with choice: the texts, of which it is one")
    grammar: str | None = Field(None, description="with grammar: a grammar in the notation of Lark")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        given = {name for name in ("json_schema", "regex", "choice", "grammar") if getattr(self, name) is not None}
        wanted = {self.type} - {"text", "json_object"}
        if given != wanted:
            said = f"with {', '.join(sorted(given))}" if given else "without its content"
            raise ValueError(f"the type {self.type} stands {said}; write {{'type': 'regex', 'regex': '[0-9]+'}}, say")
        return self


class TextBody(Settings):
    """What requests for texts have in common."""

    model: str = Field("", description="name of the model; may be left out where there is one")
    temperature: float | None = Field(
        None, ge=0, le=100, description="divides the logits; 0: greedy decoding (default: 1)"
    )
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus sampling: smallest set of this probability")
    top_k: int | None = Field(None, ge=1, description="draw from the k most likely tokens; an addition to OpenAI's")
    min_p: float | None = Field(
        None, ge=0, le=1, description="min-p sampling: tokens at least this share as likely as the first; an addition"
    )
    repetition_penalty: float | None = Field(None, ge=1, le=100, description="an addition; see `transformula sample`")
    presence_penalty: float | None = Field(None, ge=-2, le=2, description="taken from logits of tokens written before")
    frequency_penalty: float | None = Field(None, ge=-2, le=2, description="and, for each time that they were")
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        None, description="added to the logits of tokens, by their ids"
    )
    n: int | None = Field(None, ge=1, le=128, description="how many texts for each prompt")
    best_of: int | None = Field(
        None, ge=1, description="so many are drawn, and the n best of them sent: by the reward model of the server"
        " (serve --reward-model), or by the log probability of a token",
    )  # fmt: skip
    seed: int | None = Field(None, ge=0, lt=2**62, description="the same seed gives the same text")
    stop: Texts | None = Field(None, description="stop before any of these, of 16 at most")
    stream: bool | None = Field(None, description="send the text as it is written, as server-sent events")
    stream_options: StreamOptions | None = Field(None, description="with stream")
    response_format: ResponseFormat | None = Field(None, description="a form that every answer keeps")
    user: str | None = Field(None, description="accepted; changes nothing")
    metadata: dict[str, str] | None = Field(None, description="accepted; changes nothing")
    store: Literal[False] | None = Field(None, description="nothing is stored here")
    service_tier: Literal["auto", "default"] | None = Field(None, description="there is one")

    @field_validator("stop")
    @classmethod
    def _few(cls, value: Any) -> Any:
        if len(several(value)) > 16:
            raise ValueError("at most 16 texts")
        return value

    @property
    def drawn(self) -> int:
        """How many texts are written for each prompt."""
        return self.best_of or self.n or 1

    @property
    def chooses(self) -> bool:
        """Whether some of the texts that are written are not sent."""
        return self.drawn > (self.n or 1)

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.drawn < (self.n or 1):
            raise ValueError(f"best_of is {self.best_of}, n {self.n}: of so few no {self.n} can be sent; raise best_of")
        if self.chooses and self.stream:
            raise ValueError("best_of: which texts are the best is known when all are written: leave stream out")
        return self


class CompletionBody(TextBody):
    """POST /v1/completions"""

    prompt: Texts | list[int] | list[list[int]] = Field(
        "", description="what the text begins with: a text, several, token ids, several of those"
    )
    max_tokens: int | None = Field(None, ge=1, description="tokens that are written at most (default: 16)")
    fit: bool | None = Field(
        None, description="write fewer than max_tokens where the model's positions end before; an addition to OpenAI's"
    )
    echo: bool | None = Field(None, description="the text begins with its prompt")
    logprobs: int | None = Field(
        None, ge=0, le=MAX_TOP_LOGPROBS, description="log probability of each token, and of so many likely ones"
    )
    suffix: Literal[""] | None = Field(None, description="no text is written before another")


class FunctionBody(Settings):
    """A function that a model may call."""

    name: str = Field(min_length=1, description="its name")
    description: str | None = Field(None, description="what it does: the model reads it")
    parameters: dict[str, Any] | None = Field(None, description="the JSON schema that its arguments follow")
    strict: bool | None = Field(None, description="it is followed in any case")


class ToolBody(Settings):
    """A tool that a model may call."""

    type: Literal["function"] = Field(description="functions are all that there is")
    function: FunctionBody = Field(description="the function")

    @property
    def shown(self) -> dict[str, Any]:
        """What the model reads of it."""
        return self.model_dump(exclude_none=True, exclude={"function": {"strict"}})


class NamedFunction(Settings):
    """A function by its name."""

    name: str = Field(description="its name")


class NamedTool(Settings):
    """The tool that is to be called."""

    type: Literal["function"] = Field(description="functions are all that there is")
    function: NamedFunction = Field(description="the function")


class ChatBody(TextBody):
    """POST /v1/chat/completions"""

    messages: list[dict[str, Any]] = Field(min_length=1, description="the dialogue: objects with role and content")
    max_tokens: int | None = Field(None, ge=1, description="tokens of a reply at most (default: the model's usual)")
    max_completion_tokens: int | None = Field(None, ge=1, description="the same, as it is called now")
    logprobs: bool | None = Field(None, description="log probability of each token")
    top_logprobs: int | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS, description="and of so many likely ones")
    modalities: list[Literal["text"]] | None = Field(None, description="text")
    tools: list[ToolBody] | None = Field(
        None, min_length=1, description="tools that the model reads of, and may call"
    )
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = Field(
        None, description="whether it calls some, or the one that it calls (default: auto)"
    )
    parallel_tool_calls: bool | None = Field(None, description="a reply may have several calls (default: true)")

    @property
    def choice(self) -> str:
        """Whether tools are called, or the name of the one that is."""
        named = self.tool_choice or "auto"
        return named if isinstance(named, str) else named.function.name

    @property
    def calls(self) -> bool:
        """Whether the answer may have calls of tools."""
        return bool(self.tools) and self.choice != "none"

    @model_validator(mode="after")
    def _tools_agree(self) -> Self:
        if not self.tools and self.tool_choice not in (None, "none", "auto"):
            raise ValueError("tool_choice: there are no tools; name some in tools")
        if not self.tools and self.parallel_tool_calls is not None:
            raise ValueError("parallel_tool_calls: there are no tools; leave it out")
        if self.calls and self.response_format is not None and self.response_format.type != "text":
            raise ValueError("response_format: a reply has one form; leave it out, or say tool_choice: none")
        if self.calls and self.logprobs:
            raise ValueError("logprobs: a reply that may call tools has none; leave them out, or say tool_choice: none")
        return self

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs: stands with logprobs: true")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens: give one of the two")
        return self


class EmbeddingBody(Settings):
    """POST /v1/embeddings"""

    model: str = Field("", description="name of the model; may be left out where there is one")
    input: Texts = Field(description="a text, or several")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="how vectors are sent (default: float)"
    )
    dimensions: int | None = Field(None, ge=1, description="only as many as the model's vectors have")
    user: str | None = Field(None, description="accepted; changes nothing")


class PredictBody(Settings):
    """POST /v1/predict"""

    model: str = Field("", description="name of the model; may be left out where there is one")
    inputs: list[Any] = Field(
        min_length=1,
        description="texts; pictures as data URLs (data:image/png;base64,...); objects with the columns of the task",
    )
    settings: dict[str, Any] = Field({}, description="options of the task's verb: beam, n_best, threshold, ...")
    prefix: Texts | None = Field(None, description="where the task writes: what each output begins with")


class NoBody(Settings):
    """POST without content, or with {}."""
