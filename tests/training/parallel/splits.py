"""What two ranks compute of a model that is split between them, beside the model as it is."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from tests.invariants.harness import DEEPER, inputs, loss_of, outputs, randomize, reduced, text_of
from transformula.analysis.tensor_plan import tensor_plan
from transformula.errors import InputError
from transformula.interop.weights import whole_tensors
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.model.recompute import recompute
from transformula.model.transformer import evaluating
from transformula.training.parallel.dtensors import by_mesh, clip_gradients, put_whole
from transformula.training.parallel.tensor import split_tensors
from transformula.words import vocabulary
from transformula.words.attention import DotAttention

EVEN = {"vocab": 20, "routed": 4, "rank": 4}
GROUPED = {"heads": 4, "kv_heads": 2, "size": 4}


def even(name: str) -> Architecture:
    """An entry, or a word's example, at a small size whose numbers two ranks divide."""
    text = text_of(name)
    numbers = {key: value for key, value in EVEN.items() if key in text.numbers or key == "vocab"}
    if "kv_heads" in text.numbers:
        numbers |= {key: value for key, value in GROUPED.items() if key in text.numbers or key == "heads"}
    return reduced(text, DEEPER.get(name, 2), **numbers)


def made(layer: str, **numbers: int) -> Architecture:
    """One layer."""
    return check(from_formula(layer), vocabulary(), {**numbers, "depth": 1})


def gradients(model: nn.Module, given: dict[str, Tensor]) -> tuple[list[Tensor], Tensor, dict[str, Tensor]]:
    """The outputs, the loss with the named ones, and the gradients, whole."""
    made = model(**given)
    loss = loss_of(made) + sum(model.named_losses().values(), torch.zeros(()))
    model.zero_grad()
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return [o.detach() for o in outputs(made)], loss.detach(), dict(whole_tensors(found))


def off(one: Tensor, other: Tensor, least: float = 1e-12) -> float:
    """How far apart two tensors are, over the larger's size, or over `least`."""
    if one.shape != other.shape:
        return float("inf")
    return float((one - other).abs().max()) / max(float(one.abs().max()), float(other.abs().max()), least)


def differences(name: str) -> dict[str, float]:
    """What of an entry's training step differs between the model and its split form, by how much; {} where it has no
    plan."""
    architecture = even(name)
    plan = tensor_plan(architecture, 2)
    if plan.refusal():
        return {}
    model = randomize(build(architecture, dtype=torch.float64)).train()
    for module in model.modules():
        if isinstance(module, DotAttention):  # inside a split word other weights are dropped than in a whole one
            module.settings, module.made_with = module.evaluated, {**module.made_with, "dropout": 0}
    whole = copy.deepcopy(model)
    split_tensors(model, init_device_mesh("cpu", (2,)))
    kept = put_and_gathered(model, whole.state_dict())
    given = inputs(name)
    torch.manual_seed(3)
    expected = gradients(whole, given)
    torch.manual_seed(3)
    found = gradients(model, given)
    apart = kept | {f"output {n}": off(a, b) for n, (a, b) in enumerate(zip(expected[0], found[0], strict=True))}
    apart["loss"] = off(expected[1], found[1])
    apart |= {f"{key} (which gradients)": 1.0 for key in expected[2].keys() ^ found[2].keys()}
    # a key's bias changes no weight of attention: of such gradients only rounding is left
    least = 1e-4 * max(float(value.abs().max()) for value in expected[2].values())
    apart |= {key: off(value, found[2][key], least) for key, value in expected[2].items() if key in found[2]}
    return apart


def put_and_gathered(model: nn.Module, own: dict[str, Tensor]) -> dict[str, float]:
    """1.0 for each tensor that a split model does not give as `own` has it, or that is not what was put into it."""
    state = dict(whole_tensors(model.state_dict()))
    apart = {f"{key} (kept)": float(key not in state or not torch.equal(own[key], state[key])) for key in own}
    for factor in (2, 0.5):
        changed = {key: value * factor if value.is_floating_point() else value for key, value in own.items()}
        put_whole(model.state_dict(), changed)
        state = dict(whole_tensors(model.state_dict()))
        apart |= {f"{key} (put)": float(not torch.equal(changed[key], state[key])) for key in own}
    put_whole(model.state_dict(), own)
    return apart


def all_differences(names: list[str], tolerance: float) -> dict[str, Any]:
    """For each entry what differs by more than `tolerance`, or what went wrong."""
    found: dict[str, Any] = {}
    for name in names:
        apart = differences(name)
        if far := {key: value for key, value in apart.items() if not value <= tolerance}:
            found[name] = dict(sorted(far.items(), key=lambda pair: -pair[1])[:6])
    return found


def trained(name: str, layout: str, steps: int = 3) -> dict[str, Tensor]:
    """The weights, whole, after some clipped steps of AdamW over one batch of four rows, and the gradients' norms, of
    an entry that is trained as it is ("none"), split over two of the ranks, or split and sharded ("fsdp")."""
    from torch.distributed.fsdp import fully_shard

    architecture = even(name)
    model = randomize(build(architecture, dtype=torch.float64)).train()
    given, before = inputs(name, batch=4), {key: value.clone() for key, value in model.state_dict().items()}
    if layout != "none":
        mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
        split_tensors(model, mesh["tp"])
    if layout == "fsdp":
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        rows = slice(2 * mesh["dp"].get_local_rank(), 2 * mesh["dp"].get_local_rank() + 2)
        given = {key: value[rows] for key, value in given.items()}
    if layout != "none":  # what is put into a split model is what it had
        put_whole(model.state_dict(), {key: torch.zeros_like(value) for key, value in before.items()})
        put_whole(model.state_dict(), before)
    groups = by_mesh(model.parameters())
    optimizer = torch.optim.AdamW([{"params": group} for group in groups], lr=1e-2)
    norms = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model(**given)).backward()
        norms.append(clip_gradients(model.parameters(), 0.1))
        optimizer.step()
    return {"norms": torch.stack(norms), **dict(whole_tensors(model.state_dict()))}


def apart_when_trained(names: list[str], layout: str) -> dict[str, dict[str, float]]:
    """What training in a layout leaves otherwise than training on one process."""
    found = {}
    for name in names:
        expected, made = trained(name, "none"), trained(name, layout)
        apart = {key: off(value, made[key]) for key, value in expected.items()}
        found[name] = {key: value for key, value in apart.items() if not value <= 1e-7}
    return {name: apart for name, apart in found.items() if apart}


def refusals() -> list[str]:
    """What `split_tensors` says where it splits nothing."""
    said = []
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    model = build(even("pre-norm"))
    several = build(made("x = x + scalar(1) * x", width=4, vocab=3))
    adapted = build(even("pre-norm"))
    adapted.layers["1"].mlp.up = nn.Sequential(adapted.layers["1"].mlp.up)
    for one, where in ((model, mesh), (several, mesh["tp"]), (adapted, mesh["tp"])):
        try:
            split_tensors(one, where)
            said.append("")
        except InputError as error:
            said.append(error.message)
    return said


def dropped() -> dict[str, Any]:
    """Of attention whose heads are equal, with dropout: what each device's head gives in training and in evaluation,
    and the random number that comes after."""
    model = randomize(build(made("x = x + attention(x, dropout=0.5)", width=8, heads=2), dtype=torch.float64))
    attention = model.layers["1"].attention
    with torch.no_grad():
        for parameter in (*attention.query.parameters(), *attention.key.parameters(), *attention.value.parameters()):
            parameter[4:] = parameter[:4]
    split_tensors(model, init_device_mesh("cpu", (2,)))
    seen: list[Tensor] = []
    attention.output.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()), prepend=True)
    for training in (True, False):
        torch.manual_seed(1)
        model.train(training)(torch.arange(6)[None] % 3)
    return {"training": seen[0], "evaluating": seen[1], "next": torch.rand(3)}


def compared(names: list[str], tolerance: float, trained_names: list[str]) -> dict[str, Any]:
    """What two ranks find, in one launch."""
    return {
        "differences": all_differences(names, tolerance),
        "trained": apart_when_trained(trained_names, "tp"),
        "refusals": refusals(),
        "dropped": dropped(),
        "decoded": decoded(["llama", "gpt-oss", "linear-transformer", "t5"]),
        "made again": made_again("qwen3"),
        "routed": routed(),
    }


def decoded(names: list[str]) -> dict[str, float]:
    """How far what a split model writes step by step, seen through a view that evaluates, is from one pass of the whole
    one."""
    far = {}
    for name in names:
        model = randomize(build(even(name), dtype=torch.float64)).eval()
        given = inputs(name)
        with torch.no_grad():
            expected = model(**given)
            split_tensors(model, init_device_mesh("cpu", (2,)))
            view, tokens = evaluating(model.train()), given.pop("tokens")
            decoding = view.start(*tokens.shape, **given)
            steps = [view.step(chunk, decoding) for chunk in (tokens[:, :4], tokens[:, 4:5], tokens[:, 5:])]
        far[name] = off(expected, torch.cat(steps, 1))
    return far


def routed() -> dict[str, float]:
    """How far gradients are from those of the whole model where a formula is the router of split experts."""
    router = "h = norm(x); w = topk(softmax(linear.router(h, 4)), 2, by=linear.ranks(h, 4))"
    layer = f"{router}; x = x + experts(h, n=4, active=2, hidden=6, shared=1, weights=w)"
    model = randomize(build(made(layer, width=8, vocab=4), dtype=torch.float64)).train()
    whole, given = copy.deepcopy(model), {"tokens": torch.arange(12).view(2, 6) % 4}
    split_tensors(model, init_device_mesh("cpu", (2,)))
    expected, found = gradients(whole, given), gradients(model, given)
    return {"loss": off(expected[1], found[1])} | {key: off(one, found[2][key]) for key, one in expected[2].items()}


def made_again(name: str) -> dict[str, float]:
    """How far gradients of a split model whose layers are made again in the backward pass are from those kept."""
    model = randomize(build(even(name), dtype=torch.float64)).train()
    split_tensors(model, init_device_mesh("cpu", (2,)))
    given = inputs(name)
    kept = gradients(model, given)[2]
    recompute(model, "layers")
    again = gradients(model, given)[2]
    return {key: off(value, again[key]) for key, value in kept.items()}
