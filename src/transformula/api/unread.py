"""Options that nothing reads: refused by name, with what would read them.

What decides whether a setting is read stands in its facts (`reader`): an optimizer or a schedule, which says what it
reads, or another setting. Options of texts in files are read by the formats that have them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, get_args

from ..errors import ConfigError, join_words, setting
from ..plain import several
from ..settings import Settings, with_current_keys

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..training.settings import TrainingSettings
    from .plan import Plan


def check_read(
    plan: Plan, given: Mapping[str, Any], recorded: Mapping[str, Any] | None = None, source: str = ""
) -> None:
    """Raise ConfigError, with all mistakes, for options that have no effect on a run.

    given     those that were typed
    recorded  those of the configuration in the file `source`: a run records what it did not read at its default, which
              nobody typed
    """
    defaults = {**type(plan.data).model_fields, **type(plan.training).model_fields}
    both = {**plan.data.plain(), **plan.training.plain()}
    in_file = [key for key in with_current_keys(recorded or {}) if key in defaults]
    stated = {key for key in in_file if both[key] != defaults[key].default}
    stated |= {key for key, value in with_current_keys(given).items() if value is not None}
    reasons = unread(plan.data, plan.training, plan.architecture, stated)
    refuse(reasons if plan.resume else reasons | unread_of_model(plan.architecture), source, given)


def refuse(reasons: Mapping[str, str], source: str = "", beside: Collection[str] = ()) -> None:
    """Raise ConfigError for keys with the reasons for which nothing reads them."""
    if reasons:
        mistakes = [f"{key}: {reason}; leave it out" for key, reason in reasons.items()]
        raise ConfigError(mistakes, source=source, beside=beside)


def unread(
    data: Settings, training: TrainingSettings, architecture: Architecture, keys: Collection[str]
) -> dict[str, str]:
    """Keys of a run's configuration that nothing reads, each with the reason; `keys` are those that are looked at."""
    from ..training.schedules import own_schedule

    own = {key: value for key, value in own_schedule(architecture).items() if key not in training.model_fields_set}
    reasons = {}
    for settings in (data, training.model_copy(update=own)):
        for key, facts in settings.facts().items():
            if key in keys and facts.reader and (reason := unread_by(settings, key, facts.reader)):
                reasons[key] = reason
    return {**reasons, **unread_in_files(data, keys)}


def unread_by(settings: Settings, key: str, reader: str) -> str:
    """Why a setting is not read, by what another one says; "" where it is."""
    from ..training.optimizer import optimizers
    from ..training.schedules import reads_of, schedules

    value, field = getattr(settings, reader), type(settings).model_fields[reader]
    if reader == "optimizer":
        return not_among(value, key, {name: optimizers.get(name).reads for name in (value, *optimizers.names())})
    if reader == "lr_schedule":
        return not_among(value, key, {name: reads_of(name) for name in (value, *schedules.names())})
    if value != field.default:
        return ""
    # none of a switch, nor of a name
    others = [str(other) for other in get_args(field.annotation) if isinstance(other, str) and other != field.default]
    return f"is read only with {setting(reader, join_words(others, 'or'))}"


def not_among(name: str, key: str, reads: Mapping[str, Collection[str]]) -> str:
    """Why the optimizer or schedule of a name does not read a setting, with those that do; "" where it does."""
    if key in reads[name]:
        return ""
    readers = [other for other, keys in reads.items() if key in keys]
    do = f" ({join_words(readers, 'and')} {'do' if len(readers) > 1 else 'does'})" if readers else ""
    return f"{name} does not read it{do}"


def unread_of_model(architecture: Architecture) -> dict[str, str]:
    """What the `schedule` of a model's text says beside the schedule that this does not read."""
    from ..training.schedules import own_schedule, reads_of

    own = own_schedule(architecture)
    name = own.pop("lr_schedule", "")
    return {f"schedule: {key}": f"{name} does not read it" for key in own if key not in reads_of(name)}


def check_files(kind: type[Settings], data: Mapping[str, Any], keys: Collection[str]) -> None:
    """Raise ConfigError for options of texts in files, among the keys that were typed, that no file has a use for.

    kind, data  the class of these settings, and their values with the sources
    """
    refuse(unread_in_files(kind.read({key: data[key] for key in data if key in kind.model_fields}), keys))


def unread_in_files(data: Settings, keys: Collection[str]) -> dict[str, str]:
    """Options of texts in files that none of the files has a use for, where some other format has."""
    from ..data.settings import TextSettings
    from ..data.sources import origins, split_label
    from ..data.stream.prepared import prepared_folder

    asked = {key for key in ("quoted", "column") if key in keys}
    if not asked or not isinstance(data, TextSettings) or prepared_folder(data.data):  # which refuses all of them
        return {}
    sources = [name for sources in data.sources for name in several(sources)]
    named = [split_label(source)[1] if split_label(source)[0].endswith(":") else source for source in sources]
    files = [origin for source in named for origin in origins(source, data.file_format, texts=True)]
    kinds = ", ".join(dict.fromkeys(origin.where or origin.name for origin in files))
    reasons = {
        "quoted": (any("quoted" in origin.takes for origin in files), f"has no meaning for {kinds}"),
        "column": (any(o.columns or "column" in o.takes for o in files), f"{kinds} have no columns"),
    }
    return {key: reason for key, (read, reason) in reasons.items() if key in asked and not read}
