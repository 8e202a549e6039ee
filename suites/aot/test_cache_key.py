"""The key of AOTAutograd's cache: what it is made of, field by field, and what changes it.

What the fields are is asked of torch's own classes, so that one that is new fails a test until it stands in a
table here. A field that is missing in the key would have one compiled graph serve where another is needed.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import sys
import unittest
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._inductor.config as inductor_config
from torch._functorch import config
from torch._functorch._aot_autograd import autograd_cache
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCacheDetails, AOTAutogradCachePickler
from torch._functorch._aot_autograd.schemas import AOTConfig
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_between
from suites.aot.base import AotTestCase, ramp

#: Fields of ``AOTConfig`` that make another key, each with a value that is not its default.
IN_KEY = {
    "num_params_buffers": 3,
    "keep_inference_input_mutations": True,
    "is_export": True,
    "no_tangents": True,
    "dynamic_shapes": True,
    "aot_autograd_arg_pos_to_source": [],
    "static_input_indices": [0],
    "enable_log": False,
    "pre_dispatch": True,
    "precompile_backend_id": "backend",
}
#: Fields that make none: what compiles is known by its own cache, and what is of a run or of export only.
NOT_IN_KEY = {
    "fw_compiler",
    "bw_compiler",
    "inference_compiler",
    "partition_fn",
    "decompositions",
    "aot_id",
    "cache_info",
    "ignore_shape_env",
    "force_non_lazy_backward_lowering",
    "export_trace_joint",
    "disable_functionalization",
    "_disable_torch_fn_metadata_mode",
}
#: What the key is made of beside the graph, its inputs and that; ``gm`` is the graph.
DETAILS = {
    "_custom_partitioner_fn",
    "_fuse_ddp_communication_passes",
    "_post_fusion_custom_pass",
    "_pre_fusion_custom_pass",
    "aot_config",
    "autocast_state",
    "autograd_config",
    "cache_key_tag",
    "cuda_matmul_settings",
    "custom_backend_codegen_configs",
    "custom_backend_passes",
    "custom_estimator_solver_uuids",
    "default_dtype",
    "deterministic_algorithms",
    "deterministic_algorithms_settings",
    "example_inputs",
    "fx_kwargs",
    "gm",
    "grad_enabled",
    "inductor_config",
    "inductor_config_comms",
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "pre_grad_custom_pass",
    "precompile_enabled",
    "provenance_tracking_level",
    "region_activation_memory_budget",
    "sac_context_fn_hashes",
    "saved_tensors_hooks_fx_wrap_cache_hashes",
    "system_info",
    "torch_version",
    "user_defined_triton_source",
    "var_to_hint_override",
}
#: Where threads, triton or an accelerator have a part in it.
SOMETIMES = {"cpp_runtime_thread_count", "triton_kernel_source_codes", "default_cuda_device_index"}


def product(a, b):
    return a.sin() * b


@unittest.skipUnless(torch_between("2.13", "2.14"), "the tables are of torch 2.13")
class CacheKeyTest(AotTestCase):
    """Keys of one graph, as dynamo makes it."""

    def setUp(self):
        super().setUp()
        # What is left of the graph that dynamo makes once it has run would be another one.
        self.fake = FakeTensorMode(shape_env=ShapeEnv())
        self.graph, self.inputs = self.captured(product, ramp(2, 3), ramp(3))

    def captured(self, function, *inputs):
        """The graph of a function, and the inputs that dynamo gives to a backend."""
        kept = []

        def backend(graph, given):
            kept.append(
                (copy.deepcopy(graph), [self.fake.from_tensor(each, static_shapes=True) for each in given])
            )
            return graph

        torch._dynamo.reset()
        torch.compile(function, backend=backend, fullgraph=True)(*inputs)
        return kept[0]

    def configured(self, **fields):
        """An ``AOTConfig`` with these fields."""
        needed = {"partition_fn": None, "decompositions": {}, "num_params_buffers": 0, "aot_id": 0}
        needed |= {"fw_compiler": None, "bw_compiler": None, "keep_inference_input_mutations": False}
        return AOTConfig(**{**needed, **fields})

    def key(self, *, graph=None, inputs=None, **fields):
        """The key as text, of a graph, its inputs and fields of ``AOTConfig``."""
        with tracing(TracingContext(self.fake)):
            key, _ = autograd_cache.autograd_cache_key(
                graph or self.graph, inputs or self.inputs, self.configured(**fields)
            )
        return key

    def test_the_same_is_the_same(self):
        self.assertEqual(self.key(), self.key())
        other, inputs = self.captured(product, ramp(2, 3) * 5, ramp(3) - 1)
        self.assertEqual(self.key(graph=other, inputs=inputs), self.key())

    def test_every_field_of_the_configuration(self):
        fields = {field.name for field in dataclasses.fields(AOTConfig)}
        self.assertEqual(fields, IN_KEY.keys() | NOT_IN_KEY)
        self.assertEqual(IN_KEY.keys() & NOT_IN_KEY, set())
        keys = {"": self.key()}
        for name, value in IN_KEY.items():
            needs = {"is_export": True} if name == "pre_dispatch" else {}
            keys[name] = self.key(**needs, **{name: value})
        self.assertEqual(len(set(keys.values())), len(keys), keys)
        for field in ("aot_id", "force_non_lazy_backward_lowering"):
            self.assertEqual(self.key(**{field: 7}), self.key(), field)

    def test_every_detail(self):
        """Each is in the key: where it is another, so is the key."""
        fx_config = autograd_cache.create_fx_config(None)
        with tracing(TracingContext(self.fake)):
            details = AOTAutogradCacheDetails(self.graph, self.inputs, self.configured(), fx_config)
        self.assertEqual(vars(details).keys() - SOMETIMES, DETAILS)

        def key_of(one):
            return AOTAutogradCachePickler(self.graph).get_hash(one)

        key = key_of(details)
        for name in vars(details).keys() - {"gm", "aot_config"}:
            other = copy.copy(details)
            setattr(other, name, ("another", name))
            self.assertNotEqual(key_of(other), key, name)

    def test_graphs_and_inputs(self):
        def other_function(a, b):
            return a.cos() * b

        def other_order(a, b):
            return b * a.sin()

        def other_number(a, b):
            return a.sin() * b * 2

        given = (ramp(2, 3), ramp(3))
        others = {
            "function": self.captured(other_function, *given),
            "order": self.captured(other_order, *given),
            "number": self.captured(other_number, *given),
            "shape": self.captured(product, ramp(4, 3), ramp(3)),
            "strides": self.captured(product, ramp(3, 2).t(), ramp(3)),
            "dtype": self.captured(product, ramp(2, 3).double(), ramp(3)),
            "gradient": self.captured(product, ramp(2, 3).requires_grad_(), ramp(3)),
            "other gradient": self.captured(product, ramp(2, 3), ramp(3).requires_grad_()),
        }
        keys = {"": self.key()} | {w: self.key(graph=g, inputs=i) for w, (g, i) in others.items()}
        self.assertEqual(len(set(keys.values())), len(keys), keys)

    def test_what_the_key_leaves_out_of_a_graph(self):
        """It is gone while the key is made, and back afterwards, also after an exception."""
        graph = torch.fx.symbolic_trace(lambda x: x + 1)
        fields = {
            "meta": {"of": "dynamo"},
            "compile_subgraph_reason": "a break",
            "_param_name_to_source": {"weight": "L['self']"},
            "_backend_id": 7,
        }
        for field, value in fields.items():
            setattr(graph, field, value)
        for error in (None, ZeroDivisionError):
            with contextlib.suppress(ZeroDivisionError), autograd_cache.sanitize_gm_for_cache(graph):
                self.assertFalse([field for field in fields if getattr(graph, field)])
                if error is not None:
                    raise error
            self.assertEqual({field: getattr(graph, field) for field in fields}, fields)

    def test_states_of_the_process(self):
        """What a user sets around a call makes another key, and none once it is set back."""
        regions = {
            "no gradients": torch.no_grad(),
            "autocast": torch.autocast("cpu", torch.bfloat16),
            "autocast to float16": torch.autocast("cpu", torch.float16),
            "deterministic": self.deterministic(warn_only=False),
            "deterministic, warns": self.deterministic(warn_only=True),
            "default dtype": self.default_dtype(torch.float64),
            "functorch's settings": config.patch(recompute_views=not config.recompute_views),
            "budget": config.patch(activation_memory_budget=0.25),
            "inductor's settings": inductor_config.patch(max_fusion_size=7),
            "tag": mock.patch("torch.compiler.config.cache_key_tag", "mine"),
        }
        keys = {"": self.key()}
        for name, region in regions.items():
            with region:
                keys[name] = self.key()
            self.assertEqual(self.key(), keys[""], name)
        self.assertEqual(len(set(keys.values())), len(keys), keys)

    @contextlib.contextmanager
    def deterministic(self, *, warn_only):
        torch.use_deterministic_algorithms(True, warn_only=warn_only)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)

    @contextlib.contextmanager
    def default_dtype(self, dtype):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


if __name__ == "__main__":
    run_tests()
